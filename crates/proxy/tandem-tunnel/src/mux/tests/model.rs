//! Anything that may happen to streams at both ends, in any order, with bytes on the way in both
//! directions, held against what the ends were told.
//!
//! Is not: what a peer may do that is none of ours (`fuzzing`).

use std::collections::{BTreeMap, VecDeque};

use super::*;

/// Streams of one run, and so of one time: the model knows no limit.
const STREAMS: usize = 8;

/// What a sender holds at most of what no reader has got: its own room and the reader's window.
const MAX_UNREAD: usize = 16 * 1024 + LIMITS.window as usize;

/// What happens to a stream at one of its ends, or to the connection.
#[derive(Debug, Clone)]
enum Step {
    Open,
    Write { at: Place, len: usize },
    Read { at: Place },
    Finish { at: Place },
    Reset { at: Place, code: u32 },
    Stop { at: Place, code: u32 },
    Bulk { at: Place },
    LetGoOfSending { at: Place },
    LetGoOfReceiving { at: Place },
    Say { end: usize, max: usize },
    Deliver { end: usize, len: usize },
}

/// A stream, and which of its ends.
#[derive(Debug, Clone, Copy)]
struct Place {
    stream: usize,
    end: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let at = || (0..STREAMS, 0..2_usize).prop_map(|(stream, end)| Place { stream, end });
    let code = 0..4_u32;
    prop_oneof![
        4 => Just(Step::Open),
        16 => (at(), 1..40_000_usize).prop_map(|(at, len)| Step::Write { at, len }),
        16 => at().prop_map(|at| Step::Read { at }),
        3 => at().prop_map(|at| Step::Finish { at }),
        1 => (at(), code.clone()).prop_map(|(at, code)| Step::Reset { at, code }),
        1 => (at(), code).prop_map(|(at, code)| Step::Stop { at, code }),
        2 => at().prop_map(|at| Step::Bulk { at }),
        1 => at().prop_map(|at| Step::LetGoOfSending { at }),
        1 => at().prop_map(|at| Step::LetGoOfReceiving { at }),
        20 => (0..2_usize, 31..20_000_usize).prop_map(|(end, max)| Step::Say { end, max }),
        20 => (0..2_usize, 1..20_000_usize).prop_map(|(end, len)| Step::Deliver { end, len }),
    ]
}

/// One direction of a stream: what its ends did, and what they were told.
#[derive(Debug, Default)]
struct Half {
    written: usize,
    read: usize,
    is_finished: bool,
    /// By the sender.
    reset: Option<u32>,
    /// By the reader.
    stop: Option<u32>,
    /// What the reader was told last, once that was no more bytes.
    last: Option<Result<Read, Broken>>,
    is_sending_let_go: bool,
    is_receiving_let_go: bool,
    /// Whether the reader was told that there is nothing, and not that there is more.
    reader_waits: bool,
    /// Whether the sender was told that there is no room, and not that there is.
    sender_waits: bool,
    was_told_to_stop: bool,
}

#[derive(Debug, Default)]
struct Stream {
    /// Its key at each end, as far as that knows it.
    keys: [Option<Key>; 2],
    /// By the end that sends.
    halves: [Half; 2],
}

struct World {
    ends: [Mux; 2],
    /// What is on the way to each end.
    pipes: [VecDeque<u8>; 2],
    streams: Vec<Stream>,
    by_id: BTreeMap<u32, usize>,
}

/// The byte at this place of what is sent on a stream from an end.
fn byte(at: Place, index: usize) -> u8 {
    (index % 251) as u8 ^ (at.stream * 2 + at.end) as u8
}

impl World {
    fn new() -> Self {
        Self {
            ends: [
                Mux::new(Side::Opens, LIMITS),
                Mux::new(Side::Accepts, LIMITS),
            ],
            pipes: [VecDeque::new(), VecDeque::new()],
            streams: Vec::new(),
            by_id: BTreeMap::new(),
        }
    }

    fn key(&self, at: Place) -> Option<Key> {
        self.streams.get(at.stream)?.keys[at.end]
    }

    /// The half that sends at this end, and its key there, while somebody has it in hand.
    fn sending(&mut self, at: Place) -> Option<(Key, &mut Half)> {
        let key = self.key(at)?;
        let half = &mut self.streams[at.stream].halves[at.end];
        (!half.is_sending_let_go).then_some((key, half))
    }

    /// The same of the half that receives.
    fn receiving(&mut self, at: Place) -> Option<(Key, &mut Half)> {
        let key = self.key(at)?;
        let half = &mut self.streams[at.stream].halves[1 - at.end];
        (!half.is_receiving_let_go).then_some((key, half))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Open => {
                if self.streams.len() < STREAMS {
                    let key = self.ends[0].open().expect("room");
                    self.streams.push(Stream {
                        keys: [Some(key), None],
                        ..Stream::default()
                    });
                }
            }
            Step::Write { at, len } => self.write(at, len),
            Step::Read { at } => {
                self.read(at);
            }
            Step::Finish { at } => {
                if let Some((key, half)) = self.sending(at) {
                    half.is_finished |= half.reset.is_none();
                    self.ends[at.end].finish(key);
                }
            }
            Step::Reset { at, code } => {
                if let Some((key, half)) = self.sending(at) {
                    half.reset.get_or_insert(code);
                    self.ends[at.end].reset(key, code);
                }
            }
            Step::Stop { at, code } => {
                if let Some((key, half)) = self.receiving(at) {
                    half.stop.get_or_insert(code);
                    half.reader_waits = false;
                    self.ends[at.end].stop(key, code);
                }
            }
            Step::Bulk { at } => {
                if let Some((key, _)) = self.sending(at) {
                    self.ends[at.end].lower_priority(key);
                }
            }
            Step::LetGoOfSending { at } => {
                if let Some((key, half)) = self.sending(at) {
                    half.is_sending_let_go = true;
                    if !half.is_finished {
                        half.reset.get_or_insert(0);
                    }
                    self.ends[at.end].let_go_of_sending(key);
                }
            }
            Step::LetGoOfReceiving { at } => {
                if let Some((key, half)) = self.receiving(at) {
                    half.is_receiving_let_go = true;
                    half.stop.get_or_insert(0);
                    self.ends[at.end].let_go_of_receiving(key);
                }
            }
            Step::Say { end, max } => {
                self.say(end, max);
            }
            Step::Deliver { end, len } => self.deliver(end, len),
        }
        self.take_events();
    }

    fn write(&mut self, at: Place, len: usize) {
        let Some((key, half)) = self.sending(at) else {
            return;
        };
        let from = half.written;
        let bytes: Vec<u8> = (from..from + len).map(|index| byte(at, index)).collect();
        let wrote = self.ends[at.end].write(key, &bytes);
        let stopped = self.ends[at.end].stopped(key);
        let half = &mut self.streams[at.stream].halves[at.end];
        let is_open = !half.is_finished && half.reset.is_none();
        match wrote {
            Ok(len) => {
                assert!(is_open, "{at:?}: what is over takes bytes");
                assert!(len == 0 || !half.sender_waits, "{at:?}: nobody was told");
                half.sender_waits = len == 0;
                half.written += len;
            }
            Err(Broken::Here) => assert!(!is_open, "{at:?}: it is open"),
            Err(Broken::ByPeer(code)) => {
                assert!(!half.sender_waits, "{at:?}: nobody was told");
                assert_eq!((half.stop, stopped), (Some(code), Some(code)), "{at:?}");
            }
        }
        assert_eq!(stopped.is_some(), half.was_told_to_stop, "{at:?}");
        assert!(half.written - half.read <= MAX_UNREAD, "{at:?}: no bound");
    }

    /// Whether something was read.
    fn read(&mut self, at: Place) -> bool {
        let Some((key, _)) = self.receiving(at) else {
            return false;
        };
        let found = self.ends[at.end].read(key);
        let from = Place {
            end: 1 - at.end,
            ..at
        };
        // Of a stream that the other end never hears of, this one has said nothing.
        let [own, other] = [at.end, from.end].map(|end| &self.streams[at.stream].halves[end]);
        let is_unsaid = self.streams[at.stream].keys[1].is_none() && own.reset.is_some();
        match &found {
            Ok(Read::Piece(bytes)) => {
                let indices = other.read..other.read + bytes.len();
                assert!(indices.end <= other.written && !bytes.is_empty(), "{at:?}");
                assert!(indices.map(|index| byte(from, index)).eq(bytes.clone()));
                assert_eq!((&other.last, other.stop), (&None, None), "{at:?}");
            }
            Ok(Read::End) => {
                assert!(other.is_finished && other.stop.is_none(), "{at:?}");
                assert_eq!(other.read, other.written, "{at:?}");
            }
            Ok(Read::Nothing) => assert_eq!((&other.last, other.stop), (&None, None), "{at:?}"),
            Err(Broken::ByPeer(code)) => {
                assert!([other.reset, other.stop].contains(&Some(*code)), "{at:?}");
            }
            Err(Broken::Here) => assert!(other.stop.is_some() || is_unsaid, "{at:?}"),
        }
        let half = &mut self.streams[at.stream].halves[from.end];
        let is_nothing = found == Ok(Read::Nothing);
        assert!(is_nothing || !half.reader_waits, "{at:?}: nobody was told");
        half.reader_waits = is_nothing;
        if let Ok(Read::Piece(bytes)) = &found {
            half.read += bytes.len();
            return true;
        }
        // An end stays what it was, until it is not wanted any more.
        if let Some(last) = half.last.take().filter(|_| half.stop.is_none()) {
            assert_eq!(last, found, "{at:?}");
        }
        half.last = Some(found).filter(|_| !is_nothing);
        false
    }

    /// Puts what this end has to say on its way; how much.
    fn say(&mut self, end: usize, max: usize) -> usize {
        let bytes = self.ends[end].poll_output(max);
        assert!(bytes.len() <= max);
        self.pipes[1 - end].extend(&bytes);
        for (index, stream) in self.streams.iter().enumerate() {
            let [key, _] = stream.keys;
            if let Some(known) = key.and_then(|key| self.ends[0].streams.get(&key))
                && let Some(id) = known.id
            {
                self.by_id.insert(id, index);
            }
        }
        bytes.len()
    }

    fn deliver(&mut self, end: usize, len: usize) {
        let pipe = &mut self.pipes[end];
        let bytes: Vec<u8> = pipe.drain(..len.min(pipe.len())).collect();
        self.ends[end].handle_input(&bytes).expect("well formed");
    }

    fn take_events(&mut self) {
        for end in 0..2 {
            while let Some(event) = self.ends[end].poll_event() {
                if let Event::Opened(key) = event {
                    let id = self.ends[1].streams[&key].id.expect("it was spoken of");
                    let stream = &mut self.streams[self.by_id[&id]];
                    assert_eq!((end, stream.keys[1].replace(key)), (1, None));
                }
                let of = |key| move |stream: &&mut Stream| stream.keys[end] == Some(key);
                match event {
                    Event::Readable(key) => {
                        if let Some(stream) = self.streams.iter_mut().find(of(key)) {
                            stream.halves[1 - end].reader_waits = false;
                        }
                    }
                    Event::Writable(key) => {
                        if let Some(stream) = self.streams.iter_mut().find(of(key)) {
                            stream.halves[end].sender_waits = false;
                        }
                    }
                    Event::Stopped(key) => {
                        if let Some(stream) = self.streams.iter_mut().find(of(key)) {
                            let was_told = &mut stream.halves[end].was_told_to_stop;
                            assert!(!std::mem::replace(was_told, true), "told twice");
                        }
                    }
                    Event::Opened(_) | Event::Room => {}
                }
            }
        }
    }

    /// Carries everything and reads everything, until nothing more happens.
    fn settle(&mut self) {
        loop {
            let mut is_any = false;
            for end in 0..2 {
                is_any |= self.say(end, 5_000) > 0;
                let len = self.pipes[end].len();
                is_any |= len > 0;
                self.deliver(end, len);
                self.take_events();
                for stream in 0..self.streams.len() {
                    is_any |= self.read(Place { stream, end });
                }
            }
            if !is_any {
                return;
            }
        }
    }

    /// What must hold once nothing is on the way, and readers have read what there was.
    fn check_settled(&self) {
        for (number, stream) in self.streams.iter().enumerate() {
            let [own, _] = &stream.halves;
            let is_unsaid = stream.keys[1].is_none() && own.reset.is_some();
            for half in &stream.halves {
                if half.reset.is_some() || half.stop.is_some() || is_unsaid {
                    continue;
                }
                assert_eq!(half.read, half.written, "stream {number} is stuck");
                assert!(!half.sender_waits, "stream {number}: nobody was told");
                let last = half.is_finished.then_some(Ok(Read::End));
                assert_eq!(half.last, last, "stream {number}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Bytes arrive in order, each once, and all of them where nobody gives up; an end, a reset
    /// and a stop are told as what they were and stay so; whoever waits is told; what waits is
    /// bounded; and both ends forget what is over.
    #[test]
    fn each_end_is_told_what_the_other_did(
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.settle();
        world.check_settled();
        for stream in 0..world.streams.len() {
            for end in 0..2 {
                let at = Place { stream, end };
                world.step(Step::LetGoOfSending { at });
                world.step(Step::LetGoOfReceiving { at });
            }
        }
        world.settle();
        for end in &world.ends {
            prop_assert!(end.streams.is_empty() && end.keys.is_empty());
        }
    }
}
