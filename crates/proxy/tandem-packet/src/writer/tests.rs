//! What becomes of single segments, state by state. Not here: what a delta says, nor whole
//! connections (`tests/simulated`).

use std::net::SocketAddr;
use std::time::Duration;

use tandem_engine::Connection;
use tandem_store::MemoryStore;
use tandem_wire::{SegmentRepr, Timestamps};

use super::*;
use crate::output::{Output, VerdictToken};

const FLOW: FlowId = FlowId {
    client: Seq(0),
    server: Seq(100),
};

const ROUND_TRIP: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn segment(seq: u32, ack: u32, payload: &[u8], (value, echo): (u32, u32)) -> Vec<u8> {
    SegmentRepr {
        source: SocketAddr::from(([10, 0, 0, 2], 443)),
        destination: SocketAddr::from(([10, 0, 0, 1], 1)),
        seq: Seq(seq),
        ack: Seq(ack),
        flags: TcpFlags::ACK,
        window: 1,
        options: Timestamps { value, echo }.alone().to_vec(),
        payload: payload.to_vec(),
        hop_limit: 64,
    }
    .build()
}

/// A link of which the round trip was measured.
fn pace() -> Pace {
    let mut pace = Pace::default();
    let sent = segment(100, 1, b"", (7, 1));
    pace.opening_sent(&TcpPacket::parse(&sent).expect("a segment"), at(0));
    let answer = segment(1, 101, b"", (1, 7));
    let answer = TcpPacket::parse(&answer).expect("a segment");
    pace.arrived(&answer, Instant::ZERO + ROUND_TRIP);
    assert_eq!(pace.round_trip(), Some(ROUND_TRIP));
    pace
}

/// The writer of what a server sends.
struct Bench {
    writer: Writer,
    watch: Watch,
    store: MemoryStore,
    limits: Limits,
    pace: Pace,
    out: Outbox,
    next: u64,
}

impl Bench {
    fn new() -> Self {
        Self {
            writer: Writer::default(),
            watch: Watch::new(FLOW, Connection::new(None)),
            store: MemoryStore::default(),
            limits: Limits::default(),
            pace: pace(),
            out: Outbox::default(),
            next: 0,
        }
    }

    /// The far side holds something of a flight that begins here.
    fn arm(&mut self, from: u32) {
        self.writer.arm(Aim {
            from: Seq(from),
            ground: Ground::hinted(&[]),
        });
    }

    /// A flight of 200 bytes from 101 on has gone out as 50.
    fn sent(&mut self, now: Instant) {
        self.writer = Writer::Sent(Group {
            start: Seq(101),
            end: Seq(301),
            payload: vec![b'd'; 50],
            originals: vec![segment(101, 1, &[b'o'; 200], (8, 1))],
            original_bytes: 200,
            sent_at: now,
            repeats: 0,
            is_rebuilt: false,
            stamps: None,
        });
    }

    /// A segment of the server's, and whose verdicts it brings.
    fn segment(&mut self, seq: u32, payload: &[u8], now: Instant) -> Vec<(u64, Verdict)> {
        self.hand(seq, payload, now);
        self.verdicts()
    }

    fn hand(&mut self, seq: u32, payload: &[u8], now: Instant) {
        let bytes = segment(seq, 1, payload, (9, 1));
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        let owed = Owed::new(VerdictToken(self.next));
        self.next += 1;
        let terms = Terms {
            key: &Key::NONE,
            wire: WireFormat::Safe,
            limits: &self.limits,
            flow: FLOW,
            version: Version::TWO,
            toward: Toward::Client,
            mss: 1_460,
            pace: self.pace,
            confirmation: &[],
        };
        self.writer.segment(
            owed,
            &packet,
            (&self.watch, Progress::Going),
            terms,
            (&mut self.store, now, &mut self.out),
        );
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.out.poll()).collect()
    }

    /// The verdicts alone.
    fn verdicts(&mut self) -> Vec<(u64, Verdict)> {
        let verdict = |output| match output {
            Output::Verdict(token, verdict) => Some((token.0, verdict)),
            Output::Inject(..) | Output::Event(_) => None,
        };
        self.outputs().into_iter().filter_map(verdict).collect()
    }

    /// Whether an acknowledgement of the client's shows that nobody rebuilt the flight.
    fn is_refused(&self, ack: u32, payload: &[u8], now: Instant) -> bool {
        let bytes = segment(1, ack, payload, (2, 9));
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        self.writer.is_refused_by(&packet, &self.pace, now)
    }
}

#[test]
fn after_it_is_over_nothing_is_held_whatever_passes() {
    let mut bench = Bench::new();
    bench.writer.release(&mut bench.out);
    for seq in [101, 201] {
        bench.arm(seq);
        assert_eq!(
            bench.segment(seq, &[0; 100], at(0)).pop().map(|it| it.1),
            Some(Verdict::Accept)
        );
        assert!(bench.writer.is_over() && !bench.writer.is_engaged());
    }
}

#[test]
fn a_flight_of_which_nothing_is_to_be_made_goes_on_and_a_later_one_may_be_held() {
    let mut bench = Bench::new();
    for round in 0..2 {
        bench.arm(101);
        assert_eq!(bench.segment(101, &[0; 100], at(0)), []);
        bench.writer.stand_down(&mut bench.out);
        assert_eq!(bench.verdicts(), [(2 * round, Verdict::Accept)]);
        assert!(!bench.writer.is_over() && !bench.writer.is_engaged());
        bench.arm(201);
        bench.writer.stand_down(&mut bench.out);
        let passed = bench.segment(201, &[0; 100], at(0));
        assert_eq!(passed, [(2 * round + 1, Verdict::Accept)]);
    }
}

#[test]
fn what_comes_again_from_before_the_flight_passes_and_what_is_held_is_held_once() {
    let mut bench = Bench::new();
    bench.arm(201);
    assert_eq!(bench.segment(201, &[0; 50], at(0)), []);
    assert_eq!(
        bench.segment(101, &[0; 100], at(1)),
        [(1, Verdict::Accept)],
        "it ends where the flight begins"
    );
    bench.segment(201, &[0; 50], at(2));
    assert_eq!(bench.writer.held(), (1, 50));
    assert_eq!(bench.segment(251, &[0; 50], at(3)), []);
    assert_eq!(bench.writer.held(), (2, 100));
    assert!((100..1_000).contains(&bench.writer.footprint()));
    let due = bench.writer.deadline(&bench.limits).expect("it is held");
    assert_eq!(due, at(200));
    bench.writer.expire(at(199), &bench.limits, &mut bench.out);
    assert_eq!(bench.verdicts(), []);
    bench.writer.expire(due, &bench.limits, &mut bench.out);
    let both = [(0, Verdict::Accept), (3, Verdict::Accept)];
    assert_eq!(bench.verdicts(), both);
    assert_eq!(bench.writer.footprint(), 0);
}

#[test]
fn a_repeat_of_what_is_held_is_absorbed_and_counted() {
    let mut bench = Bench::new();
    bench.arm(101);
    assert_eq!(bench.segment(101, &[0; 50], at(0)), []);
    let before = bench.out.len();
    let bytes = segment(101, 1, &[0; 51], (9, 1));
    let longer = TcpPacket::parse(&bytes).expect("a segment");
    match &bench.writer {
        Writer::Holding(hold) => assert!(!hold.has(&longer), "it has a byte more"),
        other => panic!("it waits for the rest: {other:?}"),
    }
    bench.hand(101, &[0; 50], at(1));
    let outputs = bench.outputs();
    assert!(
        matches!(
            outputs[before..],
            [
                Output::Event(Event::RepeatAbsorbed),
                Output::Verdict(VerdictToken(1), Verdict::Drop),
            ]
        ),
        "{outputs:?}"
    );
    bench.writer.release(&mut bench.out);
}

#[test]
fn a_repeat_says_something_once_the_answer_to_what_went_last_could_be_there() {
    let mut bench = Bench::new();
    bench.sent(at(10_000));
    let absorbed = |token| [(token, Verdict::Drop)];
    // A quarter more than the round trip.
    assert_eq!(bench.segment(101, &[b'o'; 200], at(11_249)), absorbed(0));
    let again = bench.segment(101, &[b'o'; 200], at(11_250));
    assert!(matches!(again[..], [(1, Verdict::Replace(_))]), "{again:?}");
    assert_eq!(bench.segment(101, &[b'o'; 200], at(12_499)), absorbed(2));
    assert!(bench.writer.has_sent(), "its answer may still come");
    assert!(bench.writer.footprint() > 200);
    // The second such repeat brings what the server sent.
    assert_eq!(bench.segment(101, &[b'o'; 200], at(12_500)), absorbed(3));
    assert!(bench.writer.is_over());
}

#[test]
fn giving_up_sends_the_originals_and_says_so() {
    let mut bench = Bench::new();
    bench.sent(at(0));
    bench.writer.send_originals(1_500, &mut bench.out);
    let outputs = bench.outputs();
    assert!(
        matches!(
            &outputs[..],
            [
                Output::Event(Event::OriginalsSent(200)),
                Output::Event(Event::GivenUp(GiveUp::Failsafe)),
                Output::Inject(Direction::ToLink, original),
            ] if *original == segment(101, 1, &[b'o'; 200], (8, 1))
        ),
        "{outputs:?}"
    );
}

#[test]
fn a_flight_is_refused_by_an_acknowledgement_of_its_first_byte_after_a_round_trip() {
    let mut bench = Bench::new();
    bench.sent(at(10_000));
    assert!(bench.is_refused(101, b"", at(11_000)));
    assert!(!bench.is_refused(101, b"", at(10_999)), "too early");
    assert!(!bench.is_refused(101, b"more", at(11_000)), "it has data");
    assert!(
        !bench.is_refused(100, b"", at(11_000)),
        "of what was before"
    );
    assert!(!bench.is_refused(102, b"", at(11_000)), "a part is there");
}
