//! UDP through the tunnel: one flow at one side, payloads in, payloads out (sans-IO).
//!
//! A flow is what one client sends to one target, and the answers. It has a stream of the tunnel.
//! A payload crosses as a datagram of the transport where that has them, it fits, and the other
//! side is known to know the flow; otherwise on the stream. In both cases it may be given up here,
//! as UDP permits, and what crosses arrives whole, once, or not at all.
//!
//! Is not: the bytes on the stream (`tandem-link`), sockets, nor when the line has room
//! (`tandem-tunnel-io`).
//!
//! Invariants: what waits is bounded in bytes, number and time, and the oldest goes first, so that
//! nobody who sends is ever held up; a flow in which the client says nothing any more ends,
//! whatever the server sends.
//!
//! ```text
//!                  take                 poll                     read, heard
//!   endpoint -----------> what waits ----------> stream, datagram ----------> endpoint
//!                          | too many, too old
//!                          v
//!                        dropped
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use tandem_link::tunnel::{Malformed, MessageDecoder, write_message};
use tandem_wire::Instant;

/// Payload bytes that wait for the line. A burst of a QUIC server's is mostly within it.
const MAX_WAITING_BYTES: usize = 64 * 1024;
/// Payloads that wait, empty ones among them.
const MAX_WAITING: usize = 256;
/// A payload that has waited for so long is dropped: a stub resolver asks again after five seconds
/// (resolv.conf(5)), QUIC after one (RFC 9002, section 6.2.2).
const MAX_WAIT: Duration = Duration::from_secs(4);

/// How long a flow lasts after the client's last payload, at its side (RFC 4787, REQ-5; that what
/// comes in does not count is REQ-6).
pub const NEAR_IDLE: Duration = Duration::from_secs(120);
/// The same at the server's side, whose end the client side does not hear of: longer, so that no
/// payload of a flow that still lasts at the client's finds nothing here.
const FAR_IDLE: Duration = Duration::from_secs(180);

/// At which side a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowSide {
    /// At the client's; this side has opened the flow.
    Near,
    /// At the server's.
    Far,
}

/// Whether the other side knows the flow. A datagram may overtake the stream's first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Perhaps,
    Certainly,
}

/// A payload as it crosses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Crossing {
    /// As a datagram of the transport.
    Datagram(Vec<u8>),
    /// As these bytes of the stream.
    Stream(Vec<u8>),
}

/// See the module.
#[derive(Debug)]
pub struct Flow {
    side: FlowSide,
    known: Known,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    dropped: usize,
    decoder: MessageDecoder,
    /// When the client last said something.
    said: Instant,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    payload: Vec<u8>,
}

impl Flow {
    /// One that is opened now.
    #[must_use]
    pub fn new(side: FlowSide, now: Instant) -> Self {
        Self {
            side,
            known: match side {
                FlowSide::Near => Known::Perhaps,
                FlowSide::Far => Known::Certainly,
            },
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            dropped: 0,
            decoder: MessageDecoder::default(),
            said: now,
        }
    }

    /// A payload of the endpoint's on this side. What there is no room for goes, the oldest first.
    pub fn take(&mut self, payload: Vec<u8>, now: Instant) {
        match self.side {
            FlowSide::Near => self.said = now,
            FlowSide::Far => {}
        }
        self.waiting_bytes += payload.len();
        let since = now;
        self.waiting.push_back(Waiting { since, payload });
        while self.waiting_bytes > MAX_WAITING_BYTES || self.waiting.len() > MAX_WAITING {
            self.drop_first();
        }
    }

    /// How long the payload is that is to cross next; `None` where none waits.
    pub fn next_len(&mut self, now: Instant) -> Option<usize> {
        while let Some(first) = self.waiting.front() {
            if now.saturating_since(first.since) < MAX_WAIT {
                return Some(first.payload.len());
            }
            self.drop_first();
        }
        None
    }

    /// The payload that is to cross next, where a datagram of the transport can have so many bytes;
    /// `None`: it has none.
    pub fn poll(&mut self, max_datagram: Option<usize>) -> Option<Crossing> {
        let Waiting { payload, .. } = self.waiting.pop_front()?;
        self.waiting_bytes -= payload.len();
        match (self.known, max_datagram) {
            (Known::Certainly, Some(max)) if payload.len() <= max => {
                Some(Crossing::Datagram(payload))
            }
            (Known::Perhaps | Known::Certainly, _) => {
                let mut bytes = Vec::new();
                write_message(&payload, &mut bytes)?;
                Some(Crossing::Stream(bytes))
            }
        }
    }

    /// A datagram of this flow has come, whose payload is for the endpoint on this side.
    pub fn heard(&mut self, now: Instant) {
        self.known = Known::Certainly;
        match self.side {
            FlowSide::Near => {}
            FlowSide::Far => self.said = now,
        }
    }

    /// Bytes of the stream have come: the next payload for the endpoint on this side, taken off
    /// their front; `None` where they are used up.
    ///
    /// # Errors
    /// They are not what the other side may send: the flow is over.
    pub fn read(&mut self, bytes: &mut &[u8], now: Instant) -> Result<Option<Vec<u8>>, Malformed> {
        let payload = self.decoder.next(bytes)?;
        if payload.is_some() {
            self.heard(now);
        }
        Ok(payload)
    }

    /// When the flow ends if the client says nothing more.
    #[must_use]
    pub fn ends(&self) -> Instant {
        self.said
            + match self.side {
                FlowSide::Near => NEAR_IDLE,
                FlowSide::Far => FAR_IDLE,
            }
    }

    /// How many payloads were dropped since this was asked last.
    pub fn take_dropped(&mut self) -> usize {
        std::mem::take(&mut self.dropped)
    }

    /// Payload bytes that are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.waiting_bytes + self.decoder.kept()
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.waiting.pop_front() {
            self.waiting_bytes -= first.payload.len();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_link::tunnel::MAX_PAYLOAD;

    const START: Instant = Instant::ZERO;

    fn stream(payload: &[u8]) -> Option<Crossing> {
        let mut bytes = Vec::new();
        write_message(payload, &mut bytes).expect("it fits");
        Some(Crossing::Stream(bytes))
    }

    fn datagram(payload: &[u8]) -> Option<Crossing> {
        Some(Crossing::Datagram(payload.to_vec()))
    }

    #[test]
    fn the_first_payloads_follow_the_opening_on_the_stream_until_the_other_side_is_heard() {
        let mut near = Flow::new(FlowSide::Near, START);
        for _ in 0..2 {
            near.take(b"question".to_vec(), START);
            assert_eq!(near.poll(Some(1_200)), stream(b"question"));
        }
        near.heard(START);
        near.take(b"question".to_vec(), START);
        assert_eq!(near.poll(Some(1_200)), datagram(b"question"));
        // The other side was told of the flow by what it answers.
        let mut far = Flow::new(FlowSide::Far, START);
        far.take(b"answer".to_vec(), START);
        assert_eq!(far.poll(Some(1_200)), datagram(b"answer"));
    }

    #[test]
    fn what_is_too_long_for_a_datagram_of_the_transport_crosses_on_the_stream() {
        let mut far = Flow::new(FlowSide::Far, START);
        for (len, max) in [(1_201, Some(1_200)), (1, None)] {
            far.take(vec![1; len], START);
            assert_eq!(far.poll(max), stream(&vec![1; len]));
        }
        far.take(vec![1; 1_200], START);
        assert_eq!(far.poll(Some(1_200)), datagram(&[1; 1_200]));
        assert_eq!(far.poll(Some(1_200)), None);
    }

    #[test]
    fn of_too_many_payloads_the_oldest_go_and_are_counted() {
        let mut flow = Flow::new(FlowSide::Far, START);
        for number in 0..100 {
            flow.take(vec![number; 1_024], START);
        }
        assert_eq!(flow.kept(), MAX_WAITING_BYTES);
        assert_eq!(flow.take_dropped(), 36);
        assert_eq!(flow.take_dropped(), 0);
        assert_eq!(flow.poll(Some(1_200)), datagram(&[36; 1_024]));
        let mut flow = Flow::new(FlowSide::Far, START);
        for _ in 0..=MAX_WAITING {
            flow.take(Vec::new(), START);
        }
        assert_eq!(flow.take_dropped(), 1);
        flow.take(vec![0; MAX_PAYLOAD], START);
        assert_eq!(flow.next_len(START), Some(0));
    }

    #[test]
    fn what_has_waited_for_too_long_does_not_cross() {
        let mut flow = Flow::new(FlowSide::Far, START);
        flow.take(b"old".to_vec(), START);
        flow.take(b"newer".to_vec(), START + Duration::from_millis(1));
        assert_eq!(flow.next_len(START + MAX_WAIT), Some(5));
        assert_eq!(flow.next_len(START + MAX_WAIT * 2), None);
        assert_eq!((flow.take_dropped(), flow.kept()), (2, 0));
    }

    #[test]
    fn only_what_the_client_says_keeps_a_flow_and_the_far_side_keeps_it_longer() {
        let later = START + Duration::from_secs(50);
        let mut near = Flow::new(FlowSide::Near, START);
        near.heard(later);
        assert_eq!(near.ends(), START + NEAR_IDLE);
        near.take(Vec::new(), later);
        assert_eq!(near.ends(), later + NEAR_IDLE);
        let mut far = Flow::new(FlowSide::Far, START);
        far.take(Vec::new(), later);
        assert_eq!(far.ends(), START + FAR_IDLE);
        far.heard(later);
        assert_eq!(far.ends(), later + FAR_IDLE);
        const { assert!(NEAR_IDLE.as_secs() < FAR_IDLE.as_secs()) };
    }

    /// What happens between the two sides.
    #[derive(Debug, Clone)]
    enum Step {
        /// The endpoint of a side says so many bytes.
        Says(bool, usize),
        /// A side sends what is next; the transport has datagrams of so many bytes.
        Crosses(bool, Option<usize>),
        /// So many bytes of a side's stream arrive.
        Arrives(bool, usize),
        /// A datagram of a side's arrives, or is lost.
        Comes(bool, usize, bool),
        /// So many milliseconds.
        Waits(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (any::<bool>(), 0..3_000_usize).prop_map(|(side, len)| Step::Says(side, len)),
            (any::<bool>(), proptest::option::of(0..2_000_usize))
                .prop_map(|(side, max)| Step::Crosses(side, max)),
            (any::<bool>(), 1..2_000_usize).prop_map(|(side, len)| Step::Arrives(side, len)),
            (any::<bool>(), 0..8_usize, any::<bool>())
                .prop_map(|(side, which, lost)| Step::Comes(side, which, lost)),
            (0..3_000_u64).prop_map(Step::Waits),
        ];
        proptest::collection::vec(step, 0..300)
    }

    /// A side, what is on its way from it, and what its endpoint has said and got.
    struct End {
        flow: Flow,
        stream: Vec<u8>,
        datagrams: Vec<Vec<u8>>,
        said: Vec<Vec<u8>>,
        got: Vec<Vec<u8>>,
    }

    proptest! {
        #[test]
        fn what_arrives_was_sent_and_comes_once_however_pieces_and_losses_fall(steps in steps()) {
            let mut now = START;
            let mut number = 0_u32;
            let mut ends = [FlowSide::Near, FlowSide::Far].map(|side| End {
                flow: Flow::new(side, now),
                stream: Vec::new(),
                datagrams: Vec::new(),
                said: Vec::new(),
                got: Vec::new(),
            });
            for step in steps {
                match step {
                    Step::Says(side, len) => {
                        number += 1;
                        let mut payload = number.to_be_bytes().to_vec();
                        payload.resize(4 + len, 7);
                        ends[usize::from(side)].said.push(payload.clone());
                        ends[usize::from(side)].flow.take(payload, now);
                    }
                    Step::Crosses(side, max) => {
                        let end = &mut ends[usize::from(side)];
                        match end.flow.poll(max) {
                            Some(Crossing::Stream(bytes)) => end.stream.extend(bytes),
                            Some(Crossing::Datagram(payload)) => {
                                prop_assert!(max.is_some_and(|max| payload.len() <= max));
                                end.datagrams.push(payload);
                            }
                            None => {}
                        }
                    }
                    Step::Arrives(side, len) => {
                        let [a, b] = &mut ends;
                        let (from, to) = if side { (b, a) } else { (a, b) };
                        let piece: Vec<u8> = from.stream.drain(..len.min(from.stream.len())).collect();
                        let mut piece = piece.as_slice();
                        while let Some(payload) = to.flow.read(&mut piece, now).expect("ours") {
                            to.got.push(payload);
                        }
                    }
                    Step::Comes(side, which, lost) => {
                        let [a, b] = &mut ends;
                        let (from, to) = if side { (b, a) } else { (a, b) };
                        if which < from.datagrams.len() {
                            let payload = from.datagrams.swap_remove(which);
                            if !lost {
                                to.flow.heard(now);
                                to.got.push(payload);
                            }
                        }
                    }
                    Step::Waits(millis) => now += Duration::from_millis(millis),
                }
                for end in &mut ends {
                    prop_assert!(end.flow.kept() <= MAX_WAITING_BYTES + MAX_PAYLOAD);
                    end.flow.next_len(now);
                }
            }
            for (from, to) in [(0, 1), (1, 0)] {
                let mut left = ends[from].said.clone();
                for payload in &ends[to].got {
                    let sent = left.iter().position(|said| said == payload);
                    prop_assert!(sent.is_some(), "{payload:?} was not sent, or came twice");
                    left.remove(sent.expect("checked"));
                }
            }
        }
    }
}
