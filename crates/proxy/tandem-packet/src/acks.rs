//! ACK filtering towards the link (RFC 3449, section 5.2.1): an acknowledgement that the next
//! segment says again is not sent.
//!
//! Is: holding one pure ACK per flow until the flow's next segment or a short time. Is not: an
//! acknowledgement of our own; what reaches the far side was said by the endpoint. In a handshake
//! nearly every pure ACK is followed within milliseconds by data that carry the same number: ACK
//! and flight, ACK and key exchange. On 2,400 bit/s each costs 173 ms of the link.
//!
//! Invariants: the first pure ACK of either direction, the one that completes TCP's handshake or
//! acknowledges the hello, is never held, for the other end's timer waits for it; a duplicate ACK,
//! one with SACK blocks or any flag beside ACK is never held, for those say something by their very
//! being; no data wait for an ACK that is held; however many ACKs follow each other closely, one of
//! them goes in each such time.

use std::time::Duration;

use tandem_wire::{Instant, Seq, TcpFlags, TcpOption, TcpPacket};

use crate::output::{Event, Outbox, Owed, Verdict};

/// The pure ACK of one flow that waits, if there is one.
#[derive(Debug, Default)]
pub(crate) struct AckFilter {
    held: Option<Held>,
    newest: Option<Seq>,
    /// When the ACK that the segment at hand said again would have gone: a pure ACK in its place
    /// waits no longer.
    inherited: Option<Instant>,
}

#[derive(Debug)]
struct Held {
    owed: Owed,
    ack: Seq,
    until: Instant,
}

impl AckFilter {
    /// The flow's next segment towards the link: what waits is said again by it, or goes first.
    pub(crate) fn next(&mut self, packet: &TcpPacket<'_>, out: &mut Outbox) {
        self.inherited = None;
        if !packet.flags().contains(TcpFlags::ACK) {
            return self.release(out);
        }
        if let Some(held) = self.held.take() {
            let again = packet.ack().is_after(held.ack)
                || packet.ack() == held.ack && !packet.payload().is_empty();
            if again && !packet.flags().contains(TcpFlags::RST) {
                out.event(Event::AckAbsorbed);
                self.inherited = Some(held.until);
                held.owed.settle(Verdict::Drop, out);
            } else {
                held.owed.settle(Verdict::Accept, out);
            }
        }
        if !packet.payload().is_empty() {
            self.note(packet.ack());
        }
    }

    /// Notes how far the endpoint has acknowledged, and says whether that is news after something
    /// older.
    fn note(&mut self, ack: Seq) -> bool {
        let advances = self.newest.is_some_and(|newest| ack.is_after(newest));
        if self.newest.is_none() || advances {
            self.newest = Some(ack);
        }
        advances
    }

    /// Lets a segment pass unaltered, now or, if it is an ACK that may wait, by `now + patience`.
    pub(crate) fn pass(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        (now, patience): (Instant, Duration),
        out: &mut Outbox,
    ) {
        let advances = self.note(packet.ack());
        let until = self.inherited.take().unwrap_or(now + patience);
        if advances && is_pure(packet) && until > now {
            self.held = Some(Held {
                owed,
                ack: packet.ack(),
                until,
            });
        } else {
            owed.settle(Verdict::Accept, out);
        }
    }

    /// How many packets wait.
    pub(crate) fn held(&self) -> usize {
        usize::from(self.held.is_some())
    }

    /// When what waits has to go.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Lets go what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut Outbox) {
        if self.deadline().is_some_and(|until| until <= now) {
            self.release(out);
        }
    }

    /// Lets go what waits.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        if let Some(held) = self.held.take() {
            held.owed.settle(Verdict::Accept, out);
        }
    }
}

/// Whether the segment says nothing but its acknowledgement number and an open window.
fn is_pure(packet: &TcpPacket<'_>) -> bool {
    packet.payload().is_empty()
        && packet.flags() == TcpFlags::ACK
        && packet.window() > 0
        && packet.options().all(|option| match option {
            TcpOption::Nop | TcpOption::EndOfList | TcpOption::Timestamps(_) => true,
            TcpOption::MaximumSegmentSize(_)
            | TcpOption::WindowScale(_)
            | TcpOption::SackPermitted
            | TcpOption::Sack(_)
            | TcpOption::Md5(_)
            | TcpOption::Authentication(_)
            | TcpOption::Multipath(_)
            | TcpOption::FastOpen(_)
            | TcpOption::Experiment { .. }
            | TcpOption::Other { .. } => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Output, VerdictToken};
    use std::net::SocketAddr;
    use tandem_wire::SegmentRepr;

    const PATIENCE: Duration = Duration::from_millis(40);

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn segment(ack: u32, payload: &[u8]) -> Vec<u8> {
        repr(ack, payload).build()
    }

    fn repr(ack: u32, payload: &[u8]) -> SegmentRepr {
        SegmentRepr {
            source: SocketAddr::from(([10, 0, 0, 1], 1)),
            destination: SocketAddr::from(([10, 0, 0, 2], 443)),
            seq: Seq(1),
            ack: Seq(ack),
            flags: TcpFlags::ACK,
            window: 1,
            options: Vec::new(),
            payload: payload.to_vec(),
            hop_limit: 1,
        }
    }

    struct Bench {
        filter: AckFilter,
        out: Outbox,
        next: u64,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                filter: AckFilter::default(),
                out: Outbox::default(),
                next: 0,
            }
        }

        /// A segment, and whose verdicts it brings.
        fn segment(&mut self, ack: u32, payload: &[u8], now: u64) -> Vec<(u64, Verdict)> {
            self.take(&segment(ack, payload), now)
        }

        fn take(&mut self, bytes: &[u8], now: u64) -> Vec<(u64, Verdict)> {
            let packet = TcpPacket::parse(bytes).expect("a segment");
            self.filter.next(&packet, &mut self.out);
            let owed = Owed::new(VerdictToken(self.next));
            self.next += 1;
            self.filter
                .pass(owed, &packet, (at(now), PATIENCE), &mut self.out);
            self.verdicts()
        }

        /// A segment that the writer takes; whose verdicts it brings.
        fn written(&mut self, ack: u32, payload: &[u8]) -> Vec<(u64, Verdict)> {
            let bytes = segment(ack, payload);
            let packet = TcpPacket::parse(&bytes).expect("a segment");
            self.filter.next(&packet, &mut self.out);
            self.verdicts()
        }

        fn expire(&mut self, now: u64) -> Vec<(u64, Verdict)> {
            self.filter.expire(at(now), &mut self.out);
            self.verdicts()
        }

        fn verdicts(&mut self) -> Vec<(u64, Verdict)> {
            std::iter::from_fn(|| self.out.poll())
                .filter_map(|output| match output {
                    Output::Verdict(token, verdict) => Some((token.0, verdict)),
                    Output::Inject(..) | Output::Event(_) => None,
                })
                .collect()
        }
    }

    #[test]
    fn an_acknowledgement_waits_for_data_that_say_it_again_or_goes() {
        let mut bench = Bench::new();
        assert_eq!(
            bench.segment(10, b"", 0),
            [(0, Verdict::Accept)],
            "the first"
        );
        assert_eq!(bench.segment(20, b"", 1), []);
        let both = [(1, Verdict::Drop), (2, Verdict::Accept)];
        assert_eq!(bench.segment(20, b"data", 2), both);
        assert_eq!(bench.segment(30, b"", 3), []);
        assert_eq!(bench.expire(42), []);
        assert_eq!(bench.expire(43), [(3, Verdict::Accept)]);
    }

    #[test]
    fn what_says_more_than_its_number_does_not_wait() {
        let closed = |repr: &mut SegmentRepr| repr.window = 0;
        let pushed = |repr: &mut SegmentRepr| repr.flags = TcpFlags::ACK.with(TcpFlags::PSH);
        let ended = |repr: &mut SegmentRepr| repr.flags = TcpFlags::ACK.with(TcpFlags::FIN);
        // NOP, NOP, and one block of SACK.
        let reports = |repr: &mut SegmentRepr| {
            repr.options = [&[1, 1, 5, 10][..], &[0, 0, 0, 30, 0, 0, 0, 40]].concat();
        };
        let stamped = |repr: &mut SegmentRepr| {
            repr.options = [&[1, 1, 8, 10][..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        };
        let with_data = |repr: &mut SegmentRepr| repr.payload = b"data".to_vec();
        for (change, waits) in [
            (&closed as &dyn Fn(&mut SegmentRepr), false),
            (&pushed, false),
            (&ended, false),
            (&reports, false),
            (&with_data, false),
            (&stamped, true),
        ] {
            let mut bench = Bench::new();
            bench.segment(10, b"", 0);
            let mut repr = repr(20, b"");
            change(&mut repr);
            let verdicts = bench.take(&repr.build(), 1);
            assert_eq!(verdicts.is_empty(), waits, "{repr:?}");
            bench.filter.release(&mut bench.out);
        }
    }

    #[test]
    fn what_data_have_acknowledged_is_no_news() {
        let mut bench = Bench::new();
        bench.segment(10, b"", 0);
        // The writer takes it, and it never passes here.
        bench.written(20, b"data");
        let same = bench.segment(20, b"", 1);
        assert_eq!(same, [(1, Verdict::Accept)], "the data said so already");
        bench.filter.release(&mut bench.out);
    }

    #[test]
    fn what_is_not_sent_is_counted() {
        let mut bench = Bench::new();
        bench.segment(10, b"", 0);
        bench.segment(20, b"", 1);
        let bytes = segment(20, b"data");
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        bench.filter.next(&packet, &mut bench.out);
        let outputs: Vec<Output> = std::iter::from_fn(|| bench.out.poll()).collect();
        assert!(
            matches!(outputs[..], [Output::Event(Event::AckAbsorbed), _]),
            "{outputs:?}"
        );
    }

    #[test]
    fn an_acknowledgement_after_a_segment_that_was_written_waits_as_long_as_any() {
        let mut bench = Bench::new();
        bench.segment(10, b"", 0);
        bench.segment(20, b"", 1);
        assert_eq!(bench.written(20, b"data"), [(1, Verdict::Drop)]);
        bench.written(20, b"more");
        assert_eq!(bench.segment(30, b"", 30), []);
        assert_eq!(bench.expire(69), []);
        assert_eq!(bench.expire(70), [(2, Verdict::Accept)]);
    }

    #[test]
    fn a_duplicate_goes_at_once_and_takes_what_waits_along() {
        let mut bench = Bench::new();
        bench.segment(10, b"", 0);
        assert_eq!(bench.segment(20, b"", 1), []);
        let both = [(1, Verdict::Accept), (2, Verdict::Accept)];
        assert_eq!(bench.segment(20, b"", 2), both);
        assert_eq!(bench.segment(20, b"", 3), [(3, Verdict::Accept)]);
        assert_eq!(bench.segment(30, b"data", 4), [(4, Verdict::Accept)]);
        let same = bench.segment(30, b"", 5);
        assert_eq!(same, [(5, Verdict::Accept)], "the data said so already");
    }

    #[test]
    fn acknowledgements_that_follow_each_other_closely_do_not_keep_each_other_back() {
        let mut bench = Bench::new();
        bench.segment(10, b"", 0);
        let mut went = 0;
        for round in 1..=100u32 {
            let now = u64::from(round) * 10;
            let verdicts = [bench.expire(now), bench.segment(10 + round, b"", now)].concat();
            went += verdicts
                .iter()
                .filter(|(_, verdict)| *verdict == Verdict::Accept)
                .count();
        }
        // In 1,000 ms, at 40 ms each.
        assert!((20..=30).contains(&went), "{went} of 100 went");
        bench.filter.release(&mut bench.out);
    }
}
