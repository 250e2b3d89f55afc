//! Sealed handshakes in other forms: compressed certificates (RFC 8879), early data (RFC 8446,
//! section 4.2.10).
//!
//! Is not: the compression, which is filler that nothing can compress again.

use super::*;

/// A server's messages with this chain compressed.
fn compressed(chain: &[u8], seed: u64) -> Vec<u8> {
    let length = (chain.len() as u32).to_be_bytes();
    let body = [&[0, 2, 0, 16, 0], &length[1..], chain].concat();
    [
        message(8, &[0, 6, 0, 16, 0, 2, 0, 0]),
        message(25, &body),
        message(15, &noise(260, seed + 30)),
    ]
    .concat()
}

#[test]
fn a_compressed_chain_crosses_once_and_is_referred_to_then() {
    let chain = noise(1_900, 4);
    for suite in Suite::ALL {
        // All in one record, which spares nothing at first; and a record for each message.
        for cuts in [&[][..], &[(12, 0), (1_912, 0), (264, 0)]] {
            let visit = |seed| Visit::new(suite, &compressed(&chain, seed), cuts, seed);
            let mut pair = Pair::default();
            let crossed = [1_000, 2_000, 3_000].map(|seed| {
                let outcome = pair.released(&visit(seed), Plan::of(1));
                assert_eq!(
                    outcome.count(0, Event::FlightRebuilt),
                    1,
                    "{suite:?} {seed}"
                );
                assert_eq!(outcome.count(0, Event::HandshakeFinished), 1);
                outcome.crossed[1].len()
            });
            let plain = Pair::default().run(&visit(2_000).said, Plan::of(1));
            let plain = plain.crossed[1].len();
            assert!(crossed[0] < plain + 80, "{crossed:?} {plain}");
            for later in &crossed[1..] {
                assert!(later + 1_700 < plain, "{crossed:?} {plain}");
            }
            let [recalled] = all_counted(&mut pair, ["flights_recalled"]);
            assert_eq!(recalled, 2);
        }
    }
}

#[test]
fn a_compressed_chain_is_referred_to_from_another_client_s_visit() {
    let chain = noise(1_900, 4);
    let mut pair = Pair::default();
    let first = Visit::new(Suite::Aes128Gcm, &compressed(&chain, 1), &[], 1_000);
    pair.released(&first, Plan::of(1));
    // A hello of another shape, so that its answer is not written against the earlier flight.
    let other = Visit::new(Suite::Aes256Gcm, &compressed(&chain, 2), &[], 2_000);
    let other = other.with_turn(0, |hello| {
        let named = crate::support::tls::client_hello("www.example", &[7; 60], 2_000);
        *hello = named;
    });
    let outcome = pair.released(&other, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
    assert!(outcome.crossed[1].len() + 1_700 < other.said.stream(Sender::Server).len());
}

#[test]
fn with_a_client_s_key_a_compressed_chain_is_referred_to() {
    let chain = noise(1_900, 4);
    let visit = |seed| Visit::new(Suite::Aes128Gcm, &compressed(&chain, seed), &[], seed);
    let mut pair = client_key::consenting();
    let mut crossed = Vec::new();
    for seed in [1_000, 2_000] {
        let visit = visit(seed);
        pair.of_client = Some((Duration::from_millis(1), visit.key_by_client()));
        let outcome = pair.run(&visit.said, Plan::of(1));
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1, "{seed}");
        crossed.push(outcome.crossed[1].len());
    }
    assert!(crossed[1] + 1_700 < crossed[0], "{crossed:?}");
}

#[test]
fn what_is_no_whole_compressed_chain_passes_as_it_is() {
    let whole = compressed(&noise(1_900, 4), 1);
    let changed = |at: usize, byte: u8| {
        let mut messages = whole.clone();
        messages[at] = byte;
        messages
    };
    // The inner length is wrong by one; the message is of a type that nobody knows.
    for messages in [changed(12 + 4 + 7, 1), changed(12, 26)] {
        let visit = Visit::new(Suite::Aes128Gcm, &messages, &[], 1);
        let plain = Pair::default().run(&visit.said, Plan::of(1));
        let mut pair = Pair::default();
        let outcome = pair.released(&visit, Plan::of(1));
        assert_eq!(outcome.crossed, plain.crossed);
        assert_eq!(outcome.count(1, Event::HoldTimedOut), 0);
        assert_eq!(counted(&mut pair, "flights_not_opened_form"), 1);
    }
}

/// The same visit with early data offered, and sent right behind the hello.
fn early(visit: Visit, seed: u64) -> Visit {
    let mut visit = visit.with_turn(0, |hello| {
        // The hello's block of extensions becomes four bytes longer, and so do what it is in.
        let block = 5 + 4 + 2 + 32 + 1 + 6 + 2;
        hello.extend([0, 42, 0, 0]);
        for at in [3, 5 + 2, block] {
            let length = u16::from_be_bytes([hello[at], hello[at + 1]]) + 4;
            hello[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
    });
    let sent = [record(20, &[1]), record(23, &noise(400, seed + 40))].concat();
    visit.said.turns.insert(1, (Sender::Client, sent));
    visit
}

#[test]
fn with_early_data_everything_passes_at_once_whoever_releases_keys() {
    let visit = |seed| early(visit(seed), seed);
    let plain = Pair::default().run(&visit(1_000).said, Plan::of(1));
    for releases in 0..3 {
        let mut pair = match releases {
            0 => Pair::default(),
            _ => client_key::consenting(),
        };
        // Both sides have seen a flight of the site that could be referred to.
        pair.released(&self::visit(9_000), Plan::of(1));
        let visit = visit(1_000);
        let begun = pair.clock.now;
        if releases != 1 {
            pair.engines[1].release_key(visit.key(), pair.clock.now);
        }
        if releases > 0 {
            pair.of_client = Some((Duration::ZERO, visit.key_by_client()));
        }
        let outcome = pair.run(&visit.said, Plan::of(1));
        assert_eq!(pair.clock.now, begun, "nobody waits");
        assert_eq!(outcome.count(1, Event::FlightWritten), 0);
        assert_eq!(outcome.got, plain.got);
    }
}
