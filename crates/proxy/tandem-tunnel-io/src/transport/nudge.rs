//! Asks the other side, after an outage, whether it is there again: when, and past which limit.
//!
//! QUIC's own probes double their intervals (RFC 9002, section 6.2.1): after an outage of five
//! minutes the next one may be five minutes away. A *nudge* is one packet more that wants an
//! answer; once that has come, what was lost is known and sent again.
//!
//! A client side whose address has changed has to be heard before the server side knows of it. One
//! that only receives sends nothing that wants an answer, so it asks once when much has come and
//! then nothing.
//!
//! Is not: a keep-alive. Nor a transport: who sends is `quic.rs`.
//!
//! Invariants: nothing is asked unless something that was sent has no answer, or [`MUCH`] has come
//! since the last question, so at rest nothing; after [`MAX_SILENT_LOOKS`] looks without an answer
//! QUIC's probes are all that is sent.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::{RttEstimator, Side};

use super::Counts;
use super::room::Room;

/// Between two looks at what a connection has carried. They cost the line nothing.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Looks from one nudge to the next: half a minute. On a line of 2,400 bit/s a nudge takes 0.2 s
/// of that, and 4.1 s where bulk data waits.
const LOOKS: u32 = 3;
/// The same as time.
pub(crate) const INTERVAL: Duration = LOOK_INTERVAL.saturating_mul(LOOKS);
/// Twelve minutes, a minute more than the client side waits before it gives a tunnel up.
const MAX_SILENT_LOOKS: u32 = 72;

/// Bytes after whose end the client side asks once. A nudge and its answer are 112 bytes: less than
/// a hundredth of these.
const MUCH: u64 = 16 * 1024;

/// What a look at a connection has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing has been sent since something has come.
    Nothing,
    /// Something has; perhaps no more than an acknowledgement, which gets no answer.
    Sent,
    /// More has, which only QUIC's probes do, for so many looks now.
    Silence(u32),
    /// There was silence, and something has come after it. That need not be an answer: the other
    /// side may have asked on its own, and all that was sent here may be lost.
    Again,
}

/// Looks at one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    side: Side,
    seen: Counts,
    found: Found,
    /// Bytes received at the last question.
    asked_at: u64,
}

impl Watch {
    pub(super) fn new(side: Side, seen: Counts) -> Self {
        Self {
            side,
            seen,
            found: Found::Nothing,
            asked_at: seen.received_bytes,
        }
    }

    /// Looks at what the connection has carried, [`LOOK_INTERVAL`] after the last look. True: it
    /// is to be nudged now.
    pub(super) fn look(&mut self, counts: Counts) -> bool {
        let has_sent = counts.sent_datagrams > self.seen.sent_datagrams;
        let has_heard = counts.received_datagrams > self.seen.received_datagrams;
        self.seen = counts;
        let (found, nudge) = match (self.found, has_heard) {
            (Found::Silence(_), true) => (Found::Again, true),
            (Found::Nothing | Found::Sent | Found::Again, true) => (Found::Nothing, false),
            (Found::Nothing, false) if has_sent => (Found::Sent, false),
            (Found::Nothing, false) => (Found::Nothing, false),
            (Found::Sent, false) if has_sent => (Found::Silence(0), true),
            (Found::Sent, false) => (Found::Sent, false),
            (Found::Again, false) => (Found::Silence(0), true),
            (Found::Silence(looks), false) => {
                let looks = looks.saturating_add(1);
                let nudge = looks.is_multiple_of(LOOKS) && looks <= MAX_SILENT_LOOKS;
                (Found::Silence(looks), nudge)
            }
        };
        self.found = found;
        let nudge = nudge || !has_heard && self.has_much_come();
        if nudge {
            self.asked_at = counts.received_bytes;
        }
        nudge
    }

    fn has_much_come(&self) -> bool {
        match self.side {
            Side::Client => self.seen.received_bytes - self.asked_at >= MUCH,
            Side::Server => false,
        }
    }
}

/// Makes controllers that let a nudge pass where the window is full: a window that was full when
/// an outage began stays so until something is answered.
pub(super) struct Factory(pub(super) Arc<dyn ControllerFactory + Send + Sync>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.0).build(now, current_mtu);
        Box::new(Nudged {
            room: Arc::new(Room::new(inner.window())),
            inner,
            mtu: current_mtu.into(),
            in_flight: 0,
            wanted: Arc::new(AtomicBool::new(false)),
        })
    }
}

/// A controller around another.
struct Nudged {
    inner: Box<dyn Controller>,
    /// Bytes.
    mtu: u64,
    /// Bytes, acknowledgements among them: no less than are in flight.
    in_flight: u64,
    /// Whether the next packet is to go whatever the window. Clones share it: quinn shows its
    /// controller as a clone.
    wanted: Arc<AtomicBool>,
    /// As `wanted`.
    room: Arc<Room>,
}

/// What the line has room for by this controller; `None`: it is none of ours.
pub(super) fn room(controller: Box<dyn Controller>) -> Option<Arc<Room>> {
    let nudged = controller.into_any().downcast::<Nudged>().ok()?;
    Some(Arc::clone(&nudged.room))
}

/// Lets one packet pass the window of this controller, which is one of ours.
pub(super) fn let_one_pass(controller: Box<dyn Controller>) {
    if let Ok(nudged) = controller.into_any().downcast::<Nudged>() {
        nudged.wanted.store(true, Ordering::Relaxed);
    }
}

impl Controller for Nudged {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.wanted.store(false, Ordering::Relaxed);
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.room.sent(bytes);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.in_flight = in_flight;
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        self.room.set(in_flight, self.inner.window());
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let window = self.inner.window();
        if self.wanted.load(Ordering::Relaxed) {
            // quinn's condition: a packet goes while in flight + packet < window.
            window.max(self.in_flight.saturating_add(self.mtu + 1))
        } else {
            window
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            mtu: self.mtu,
            in_flight: self.in_flight,
            wanted: Arc::clone(&self.wanted),
            room: Arc::clone(&self.room),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::congestion::CubicConfig;

    use super::*;

    /// What each look finds if so many datagrams have been sent and received by then.
    fn looks(carried: &[(u64, u64)]) -> Vec<bool> {
        let mut watch = Watch::new(Side::Client, Counts::default());
        let counts = |&(sent_datagrams, received_datagrams)| Counts {
            sent_datagrams,
            received_datagrams,
            ..Counts::default()
        };
        carried
            .iter()
            .map(|carried| watch.look(counts(carried)))
            .collect()
    }

    #[test]
    fn at_rest_nobody_is_nudged() {
        // An exchange, its last acknowledgement after a look, and a day.
        let mut carried = vec![(2, 1), (3, 1)];
        carried.resize(8_640, (3, 1));
        assert!(!looks(&carried).contains(&true));
    }

    #[test]
    fn what_gets_no_answer_is_asked_for_each_half_minute_and_no_more_after_twelve_minutes() {
        let carried: Vec<_> = (1..=90).map(|sent| (sent, 0)).collect();
        let nudges = looks(&carried);
        let nudged: Vec<_> = (0..90).filter(|look| nudges[*look]).collect();
        let expected: Vec<_> = (1..=73).step_by(3).collect();
        assert_eq!(nudged, expected);
    }

    #[test]
    fn who_is_heard_again_is_asked_at_once_and_until_there_is_an_answer() {
        let carried = [
            (1, 0),
            (2, 0),
            (3, 0),
            (3, 1),
            (4, 1),
            (4, 2),
            (4, 3),
            (4, 3),
        ];
        let nudges = [false, true, false, true, true, true, false, false];
        assert_eq!(looks(&carried), nudges);
    }

    #[test]
    fn a_client_side_asks_once_when_a_download_stops_and_a_server_side_does_not() {
        for (side, asks) in [(Side::Client, true), (Side::Server, false)] {
            let mut watch = Watch::new(side, Counts::default());
            let counts = |received_datagrams, received_bytes| Counts {
                received_datagrams,
                received_bytes,
                ..Counts::default()
            };
            assert!(!watch.look(counts(20, MUCH)));
            assert_eq!(watch.look(counts(20, MUCH)), asks);
            assert!(!watch.look(counts(21, MUCH + 28)));
            assert!(!watch.look(counts(21, MUCH + 28)));
        }
    }

    #[test]
    fn a_nudge_passes_a_full_window_once() {
        let now = Instant::now();
        let factory = Arc::new(Factory(Arc::new(CubicConfig::default())));
        let mut controller = factory.build(now, 1_200);
        let window = controller.window();
        controller.on_sent(now, window, 1);
        let_one_pass(controller.clone_box());
        assert_eq!(controller.window(), window + 1_201);
        controller.on_sent(now, 1_200, 2);
        assert_eq!(controller.window(), window);
    }
}
