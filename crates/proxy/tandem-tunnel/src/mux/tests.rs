//! Both ends of a connection, which delivers bytes in any pieces.

use super::stream::INITIAL_WINDOW;
use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    streams: 8,
    window: 200_000,
};

/// Both ends, and what was delivered to the one that accepts.
struct Pair {
    opens: Mux,
    accepts: Mux,
    accepted: Vec<Key>,
}

impl Pair {
    fn new() -> Self {
        Self {
            opens: Mux::new(Side::Opens, LIMITS),
            accepts: Mux::new(Side::Accepts, LIMITS),
            accepted: Vec::new(),
        }
    }

    /// Carries what both have to say now, so many bytes at a time; the bytes to the accepting end.
    fn carry(&mut self, piece: usize) -> usize {
        let mut carried = 0;
        loop {
            let there = self.opens.poll_output(1_200);
            let back = self.accepts.poll_output(1_200);
            assert!(there.len() <= 1_200 && back.len() <= 1_200);
            if there.is_empty() && back.is_empty() {
                return carried;
            }
            carried += there.len();
            for bytes in there.chunks(piece) {
                self.accepts.handle_input(bytes).expect("well formed");
            }
            for bytes in back.chunks(piece) {
                self.opens.handle_input(bytes).expect("well formed");
            }
            while let Some(event) = self.accepts.poll_event() {
                if let Event::Opened(key) = event {
                    self.accepted.push(key);
                }
            }
        }
    }

    /// A stream that both ends know.
    fn stream(&mut self) -> [Key; 2] {
        let key = self.opens.open().expect("room");
        assert_eq!(self.opens.write(key, b"a"), Ok(1));
        self.carry(100);
        let other = *self.accepted.last().expect("it came");
        assert_eq!(self.accepts.read(other), Ok(Read::Piece(b"a".to_vec())));
        [key, other]
    }

    fn let_go(&mut self, [key, other]: [Key; 2]) {
        self.opens.let_go_of_sending(key);
        self.opens.let_go_of_receiving(key);
        self.accepts.let_go_of_sending(other);
        self.accepts.let_go_of_receiving(other);
        self.carry(100);
    }
}

/// Everything that can be read now.
fn read(mux: &mut Mux, key: Key) -> (Vec<u8>, Result<Read, Broken>) {
    let mut all = Vec::new();
    loop {
        match mux.read(key) {
            Ok(Read::Piece(piece)) => all.extend(piece),
            last => return (all, last),
        }
    }
}

#[test]
fn who_asks_whether_all_has_left_is_told_when_more_has() {
    let mut pair = Pair::new();
    let [key, _] = pair.stream();
    assert!(pair.opens.is_drained(key));
    assert_eq!(pair.opens.write(key, &[0; 100]), Ok(100));
    assert!(!pair.opens.is_drained(key));
    pair.carry(100);
    let events: Vec<Event> = std::iter::from_fn(|| pair.opens.poll_event()).collect();
    assert!(events.contains(&Event::Writable(key)), "{events:?}");
    assert!(pair.opens.is_drained(key));
}

#[test]
fn a_short_exchange_costs_ten_bytes_of_frames() {
    let mut pair = Pair::new();
    let key = pair.opens.open().expect("room");
    assert_eq!(pair.opens.write(key, &[1; 100]), Ok(100));
    pair.opens.finish(key);
    // Data and length, end.
    assert_eq!(pair.carry(1_000), 100 + 2 + 1);
    let other = pair.accepted[0];
    let (question, last) = read(&mut pair.accepts, other);
    assert_eq!((question.len(), last), (100, Ok(Read::End)));
    assert_eq!(pair.accepts.write(other, &[2; 5_000]), Ok(5_000));
    pair.accepts.finish(other);
    // Nothing is said for what fits the first window.
    assert_eq!(pair.carry(1_000), 0);
    assert_eq!(read(&mut pair.opens, key).0.len(), 5_000);
    pair.let_go([key, other]);
    assert_eq!((pair.opens.streams(), pair.accepts.streams()), (0, 0));
}

#[test]
fn halves_end_on_their_own() {
    let mut pair = Pair::new();
    let [key, other] = pair.stream();
    pair.opens.finish(key);
    pair.carry(1);
    assert_eq!(pair.accepts.read(other), Ok(Read::End));
    assert_eq!(pair.accepts.write(other, b"later"), Ok(5));
    pair.carry(1);
    assert_eq!(pair.opens.read(key), Ok(Read::Piece(b"later".to_vec())));
    assert_eq!(pair.opens.read(key), Ok(Read::Nothing));
    assert_eq!(pair.opens.write(key, b"x"), Err(Broken::Here));
}

#[test]
fn resets_and_stops_bring_their_codes_and_the_stream_is_forgotten() {
    let mut pair = Pair::new();
    let [key, other] = pair.stream();
    assert_eq!(pair.opens.write(key, b"lost"), Ok(4));
    pair.opens.reset(key, 7);
    pair.opens.stop(key, 8);
    pair.carry(3);
    assert_eq!(pair.accepts.read(other), Err(Broken::ByPeer(7)));
    assert_eq!(pair.accepts.stopped(other), Some(8));
    assert_eq!(pair.accepts.write(other, b"x"), Err(Broken::ByPeer(8)));
    pair.let_go([key, other]);
    assert_eq!((pair.opens.streams(), pair.accepts.streams()), (0, 0));
}

#[test]
fn a_reset_takes_what_nobody_has_read() {
    let mut pair = Pair::new();
    let [key, other] = pair.stream();
    assert_eq!(pair.opens.write(key, b"come"), Ok(4));
    pair.carry(100);
    pair.opens.reset(key, 7);
    pair.carry(100);
    assert_eq!(pair.accepts.read(other), Err(Broken::ByPeer(7)));
}

#[test]
fn who_waits_for_room_is_told_of_a_stop_and_the_stream_is_forgotten_where_it_is_not_wanted() {
    let mut pair = Pair::new();
    let [key, other] = pair.stream();
    while pair.opens.write(key, &[0; 10_000]) != Ok(0) {
        pair.carry(5_000);
    }
    pair.accepts.stop(other, 9);
    pair.accepts.let_go_of_receiving(other);
    pair.accepts.let_go_of_sending(other);
    pair.carry(5_000);
    let events: Vec<Event> = std::iter::from_fn(|| pair.opens.poll_event()).collect();
    assert!(events.contains(&Event::Stopped(key)) && events.contains(&Event::Writable(key)));
    assert_eq!(pair.opens.write(key, b"x"), Err(Broken::ByPeer(9)));
    assert_eq!((pair.opens.streams(), pair.accepts.streams()), (1, 0));
}

#[test]
fn the_end_of_what_is_no_longer_wanted_is_no_end_in_order() {
    let mut pair = Pair::new();
    let [key, other] = pair.stream();
    assert_eq!(pair.opens.write(key, b"late"), Ok(4));
    pair.opens.finish(key);
    pair.accepts.stop(other, 9);
    pair.carry(100);
    assert_eq!(pair.accepts.read(other), Err(Broken::Here));
    pair.let_go([key, other]);
    assert_eq!((pair.opens.streams(), pair.accepts.streams()), (0, 0));
}

#[test]
fn a_stream_of_which_nothing_was_said_ends_without_a_word() {
    let mut pair = Pair::new();
    let key = pair.opens.open().expect("room");
    assert_eq!(pair.opens.write(key, b"unsaid"), Ok(6));
    pair.opens.stop(key, 1);
    pair.opens.reset(key, 1);
    pair.opens.let_go_of_sending(key);
    pair.opens.let_go_of_receiving(key);
    assert_eq!(pair.carry(10), 0);
    assert_eq!(pair.opens.streams(), 0);
    // The next one has its number.
    pair.stream();
}

#[test]
fn a_stream_of_which_nothing_was_said_has_no_end_in_order() {
    for is_stopped in [false, true] {
        let mut pair = Pair::new();
        let key = pair.opens.open().expect("room");
        if is_stopped {
            pair.opens.stop(key, 1);
        } else {
            assert_eq!(pair.opens.read(key), Ok(Read::Nothing));
        }
        pair.opens.reset(key, 1);
        assert_eq!(pair.carry(10), 0);
        // Whoever waits is told.
        assert_eq!(pair.opens.poll_event(), Some(Event::Readable(key)));
        assert_eq!(pair.opens.read(key), Err(Broken::Here));
    }
}

#[test]
fn bytes_that_were_announced_take_the_room_that_they_will_need() {
    let mut accepts = Mux::new(Side::Accepts, LIMITS);
    let mut head = Vec::new();
    let says = Says::Data(INITIAL_WINDOW);
    Frame { id: 0, says }.write(&mut head);
    accepts.handle_input(&head).expect("well formed");
    // More is permitted once these are read, and not before they have come.
    assert_eq!(accepts.poll_output(1_200), []);
    let bytes = vec![0; usize::try_from(INITIAL_WINDOW).expect("small")];
    accepts.handle_input(&bytes).expect("well formed");
    assert_eq!(accepts.poll_output(1_200), []);
    let Some(Event::Opened(key)) = accepts.poll_event() else {
        panic!("it is there");
    };
    assert_eq!(read(&mut accepts, key).0.len(), bytes.len());
    let mut credit = Vec::new();
    let says = Says::Credit(LIMITS.window);
    Frame { id: 0, says }.write(&mut credit);
    assert_eq!(accepts.poll_output(1_200), credit);
}

#[test]
fn a_reader_that_stops_holds_up_its_own_stream_and_no_other() {
    let mut pair = Pair::new();
    let stalled: Vec<_> = (0..4).map(|_| pair.stream()).collect();
    for [_, other] in &stalled {
        let mut taken = 0;
        loop {
            let len = pair.accepts.write(*other, &[0; 8_192]).expect("open");
            taken += len;
            pair.carry(5_000);
            if len == 0 && pair.accepts.write(*other, &[0]) == Ok(0) {
                break;
            }
            assert!(taken < 1_000_000, "no bound");
        }
    }
    let [key, other] = pair.stream();
    assert_eq!(pair.accepts.write(other, b"free"), Ok(4));
    pair.carry(5_000);
    assert_eq!(pair.opens.read(key), Ok(Read::Piece(b"free".to_vec())));
    // And it goes on once it reads.
    let [key, other] = stalled[0];
    let before = read(&mut pair.opens, key).0.len();
    pair.carry(5_000);
    assert!(read(&mut pair.opens, key).0.len() > 8_192, "{before}");
    assert_ne!(pair.accepts.write(other, &[0]), Ok(0));
}

#[test]
fn what_is_urgent_passes_bulk() {
    let mut pair = Pair::new();
    let bulk = pair.stream();
    let urgent = pair.stream();
    pair.accepts.lower_priority(bulk[1]);
    assert_eq!(pair.accepts.write(bulk[1], &[0; 16_000]), Ok(16_000));
    let first = pair.accepts.poll_output(1_200);
    assert_eq!(pair.accepts.write(urgent[1], &[1; 300]), Ok(300));
    let second = pair.accepts.poll_output(1_200);
    pair.opens.handle_input(&first).expect("well formed");
    pair.opens.handle_input(&second).expect("well formed");
    assert_eq!(read(&mut pair.opens, urgent[0]).0.len(), 300);
}

#[test]
fn there_are_no_more_streams_than_permitted() {
    let mut pair = Pair::new();
    let streams: Vec<_> = (0..LIMITS.streams).map(|_| pair.stream()).collect();
    assert_eq!(pair.opens.open(), None);
    pair.let_go(streams[0]);
    let mut events = std::iter::from_fn(|| pair.opens.poll_event());
    assert!(events.any(|event| event == Event::Room));
    pair.stream();
}

#[test]
fn streams_beyond_those_in_hand_are_refused_and_harm_no_other() {
    let mut pair = Pair::new();
    let mut in_hand = Vec::new();
    for _ in 0..2 * LIMITS.streams {
        let [key, other] = pair.stream();
        pair.opens.let_go_of_sending(key);
        pair.opens.let_go_of_receiving(key);
        pair.carry(100);
        in_hand.push(other);
    }
    // The side that opened them knows nothing of them any more.
    assert_eq!((pair.opens.streams(), pair.accepts.streams()), (0, 16));
    let known = pair.accepted.len();
    let refused = pair.opens.open().expect("room");
    assert_eq!(pair.opens.write(refused, &[1; 4_000]), Ok(4_000));
    let ended = pair.opens.open().expect("room");
    pair.opens.finish(ended);
    pair.carry(100);
    assert_eq!(pair.accepted.len(), known, "nobody is told of them");
    let wrote = pair.opens.write(refused, b"more");
    assert_eq!(wrote, Err(Broken::ByPeer(REFUSED)));
    for key in [refused, ended] {
        assert_eq!(pair.opens.read(key), Err(Broken::ByPeer(REFUSED)));
        pair.opens.let_go_of_sending(key);
        pair.opens.let_go_of_receiving(key);
    }
    pair.carry(100);
    assert_eq!((pair.opens.streams(), pair.accepts.streams()), (0, 16));
    assert!(pair.accepts.refused.is_empty(), "both have said their last");
    pair.accepts.let_go_of_sending(in_hand[0]);
    pair.accepts.let_go_of_receiving(in_hand[0]);
    pair.stream();
    assert_eq!(pair.accepted.len(), known + 1);
}

#[test]
fn a_side_that_opens_without_end_is_no_side_of_ours() {
    let bound = 2 * LIMITS.streams;
    // It sends more than it says the last of, or reads no answer.
    for says in [Says::Data(1), Says::End] {
        let mut accepts = Mux::new(Side::Accepts, LIMITS);
        let mut open = |id: usize| {
            let id = u32::try_from(id).expect("small");
            let mut frame = Vec::new();
            Frame { id, says }.write(&mut frame);
            if says != Says::End {
                frame.push(b'x');
                while !accepts.poll_output(100).is_empty() {}
            }
            accepts.handle_input(&frame)
        };
        for id in 0..2 * bound {
            assert_eq!(open(id), Ok(()), "{id} {says:?}");
        }
        assert_eq!(open(2 * bound), Err(Malformed), "{says:?}");
    }
}

#[test]
fn frames_that_break_the_rules_are_refused() {
    let frame = |id, says| {
        let mut bytes = Vec::new();
        Frame { id, says }.write(&mut bytes);
        bytes
    };
    let cases = [
        // A number that is not the next; a reset of what is not there.
        frame(1, Says::End),
        frame(0, Says::Reset(1)),
        frame(0, Says::Credit(1)),
        // More than the window; more after the end; credit without bound.
        frame(0, Says::Data(70_000)),
        [frame(0, Says::End), frame(0, Says::Data(1))].concat(),
        [frame(0, Says::End), frame(0, Says::Credit(u32::MAX))].concat(),
    ];
    for case in cases {
        let mut accepts = Mux::new(Side::Accepts, LIMITS);
        assert_eq!(accepts.handle_input(&case), Err(Malformed), "{case:?}");
    }
    let mut opens = Mux::new(Side::Opens, LIMITS);
    assert_eq!(opens.handle_input(&frame(0, Says::End)), Err(Malformed));
}

mod model;
