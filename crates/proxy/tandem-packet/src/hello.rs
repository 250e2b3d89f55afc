//! When a repeated hello tells the client-side proxy anything: not before the acknowledgement of
//! the first copy can be back.
//!
//! Is: the wait for one flow's hello, and what earlier flows taught about the link. Is not: a
//! retransmission; the client's timer keeps running, and its next repeat crosses. On 2,400 bit/s a
//! hello of 517 bytes is acknowledged after three seconds, while a client whose SYN took 1.3 s
//! repeats it after 2.6 (tail loss probe, RFC 8985, section 7.2), for two seconds of the link.
//!
//! Invariants: at most one copy of a flow's hello is absorbed; without a measurement none is.

use std::time::Duration;

use tandem_wire::{Instant, Seq, TcpPacket};

use crate::pace::{MAX_WAIT, Pace, nanos_per_byte};

/// How many hellos are remembered: enough that one that met other traffic does not set the wait,
/// few enough that a link that has become slower is known after as many.
const REMEMBERED: usize = 8;

/// What the acknowledged hellos of earlier flows took beyond their flow's round trip, nanoseconds a
/// byte.
#[derive(Debug, Default)]
pub(crate) struct LinkMemory {
    recent: [u64; REMEMBERED],
    known: usize,
}

impl LinkMemory {
    fn learn(&mut self, nanos_per_byte: u64) {
        self.recent[self.known % REMEMBERED] = nanos_per_byte;
        self.known += 1;
    }

    /// The least of what is remembered: waiting too short costs a copy on the link, too long a lost
    /// hello's time.
    fn nanos_per_byte(&self) -> u64 {
        let known = self.known.min(REMEMBERED);
        self.recent[..known].iter().copied().min().unwrap_or(0)
    }
}

/// One flow's hello.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HelloTimer {
    pace: Pace,
    sent: Option<Sent>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    /// The sequence number after the hello.
    end: Seq,
    /// Size of the packet that ended it.
    bytes: usize,
    /// Its TSval: the echo tells which copy was acknowledged (RFC 7323, section 4.1).
    stamp: Option<u32>,
    /// Whether a repeat was absorbed.
    absorbed: bool,
}

impl HelloTimer {
    /// The client's SYN crosses.
    pub(crate) fn syn(&mut self, packet: &TcpPacket<'_>, now: Instant) {
        self.pace.opening_sent(packet, now);
    }

    /// The server's SYN/ACK arrives.
    pub(crate) fn syn_ack(&mut self, packet: &TcpPacket<'_>, now: Instant) {
        self.pace.arrived(packet, now);
    }

    /// How long an answer takes, by this connection's round trip and what a byte took in recent
    /// ones.
    pub(crate) fn pace(&self, link: &LinkMemory) -> Pace {
        self.pace.at_rate(link.nanos_per_byte())
    }

    /// The segment that completes the hello crosses.
    pub(crate) fn hello(&mut self, packet: &TcpPacket<'_>, now: Instant) {
        self.sent = Some(Sent {
            at: now,
            end: packet.end(),
            bytes: packet.bytes().len(),
            stamp: packet.timestamps().map(|timestamps| timestamps.value),
            absorbed: false,
        });
    }

    /// The hello crossed in fewer bytes of payload: `sent` in place of `original`.
    pub(crate) fn shortened(&mut self, original: usize, sent: usize) {
        if let Some(hello) = &mut self.sent {
            hello.bytes = hello.bytes.saturating_sub(original) + sent;
        }
    }

    /// The hello goes again, in another form: what its answer takes says nothing of the link.
    pub(crate) fn forget(&mut self) {
        self.sent = None;
    }

    /// Whether this segment repeats the hello before its acknowledgement can be here; asked once
    /// for each segment.
    pub(crate) fn absorbs(
        &mut self,
        packet: &TcpPacket<'_>,
        now: Instant,
        link: &LinkMemory,
    ) -> bool {
        let end = packet.end();
        let Some(sent) = &mut self.sent else {
            return false;
        };
        if packet.payload().is_empty() || end.is_after(sent.end) {
            return false;
        }
        let beyond = link.nanos_per_byte().saturating_mul(sent.bytes as u64);
        let wait =
            self.pace.round_trip().unwrap_or_default() + Duration::from_nanos(beyond).min(MAX_WAIT);
        let early = now.saturating_since(sent.at) < wait;
        early && !std::mem::replace(&mut sent.absorbed, early)
    }

    /// A segment of the server's arrives, which may acknowledge the hello.
    pub(crate) fn answered(&mut self, packet: &TcpPacket<'_>, now: Instant, link: &mut LinkMemory) {
        let Some(sent) = self.sent.filter(|sent| !packet.ack().is_before(sent.end)) else {
            return;
        };
        self.sent = None;
        let echo = packet.timestamps().map(|timestamps| timestamps.echo);
        if let Some(round_trip) = self.pace.round_trip().filter(|_| echo == sent.stamp) {
            let beyond = now.saturating_since(sent.at).saturating_sub(round_trip);
            link.learn(nanos_per_byte(beyond, sent.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::tests::{at, segment};

    /// A flow whose SYN took 1.3 s and whose hello of 448 bytes (500 with headers) crosses at 2 s.
    fn timer() -> (HelloTimer, Vec<u8>) {
        let mut timer = HelloTimer::default();
        let [syn, syn_ack, hello] = [segment(7, 0, 0), segment(90, 7, 0), segment(8, 90, 448)];
        let parse = |bytes| TcpPacket::parse(bytes).expect("a segment");
        timer.syn(&parse(&syn), at(0));
        timer.syn_ack(&parse(&syn_ack), at(1_300));
        timer.hello(&parse(&hello), at(2_000));
        (timer, hello)
    }

    fn answer(timer: &mut HelloTimer, echo: u32, now: u64, link: &mut LinkMemory) {
        let mut ack = segment(91, echo, 0);
        ack[28..32].copy_from_slice(&449u32.to_be_bytes());
        timer.answered(&TcpPacket::parse(&ack).expect("a segment"), at(now), link);
    }

    #[test]
    fn what_a_hello_took_is_what_the_next_one_is_waited_for() {
        let mut link = LinkMemory::default();
        answer(&mut timer().0, 8, 2_000 + 3_050, &mut link);
        // 1.75 s beyond the round trip for 500 bytes.
        assert_eq!(link.nanos_per_byte(), 3_500_000);
        let (mut timer, hello) = timer();
        let hello = TcpPacket::parse(&hello).expect("a segment");
        assert!(timer.absorbs(&hello, at(2_000 + 2_700), &link));
        assert!(
            !timer.absorbs(&hello, at(2_000 + 2_900), &link),
            "one copy at most"
        );
    }

    #[test]
    fn a_repeat_that_comes_late_enough_crosses_and_its_answer_teaches_nothing() {
        let mut link = LinkMemory::default();
        let (mut timer, hello) = timer();
        let hello = TcpPacket::parse(&hello).expect("a segment");
        assert!(!timer.absorbs(&hello, at(2_000 + 1_301), &link));
        answer(&mut timer, 3_308, 9_000, &mut link);
        assert_eq!(link.nanos_per_byte(), 0);
    }

    #[test]
    fn a_link_that_has_become_slower_is_known_after_as_many_hellos_as_are_remembered() {
        let mut link = LinkMemory::default();
        link.learn(10);
        for _ in 0..REMEMBERED {
            assert_eq!(link.nanos_per_byte(), 10);
            link.learn(90);
        }
        assert_eq!(link.nanos_per_byte(), 90);
    }
}
