//! When a client's key is asked for: what both flights save counts against one round trip, at each
//! direction's own rate.
//!
//! Is not: the rule itself, which `tandem_engine` tries at its edges.

use super::*;

const RTT: Duration = Duration::from_millis(600);

/// A pair over a link of 22 kbit/s up and 88 kbit/s down, whose client is known to hand in keys.
fn certus() -> Pair {
    let mut pair = consenting();
    pair.offers = Some(Prefer::Time.offered_at(Some(22_000), RTT));
    pair.asks = Prefer::Time.asked_at(Some(88_000), Some(RTT));
    pair
}

/// A visit with chains of three at both ends.
fn of_three(seed: u64) -> Visit {
    let sizes = [1_000, 900, 1_100];
    let chain = sizes.map(|size| certificate_like(size, size as u64));
    let mut messages = messages_with(&chain[..2], seed);
    // Behind EncryptedExtensions.
    messages.splice(12..12, message(13, &[&[0][..], &noise(150, 9)].concat()));
    Visit::new(Suite::Aes128Gcm, &messages, &[], seed).with_client_flight(
        &change(),
        &client_messages(&sizes, seed),
        &[(3_000 + 23, 0), (264, 0)],
    )
}

/// A visit without a client's certificate.
fn of_one(seed: u64) -> Visit {
    super::super::visit(seed)
}

/// How many flights crossed opened in these visits, from each side.
fn opened(pair: &mut Pair, visits: impl IntoIterator<Item = Visit>) -> Vec<[usize; 2]> {
    let visits = visits.into_iter();
    let visits = visits.map(|visit| {
        let outcome = pair.both_of_client(&visit);
        assert_eq!(outcome.count(1, Event::HoldTimedOut), 0);
        [0, 1].map(|side| outcome.count(side, Event::OpenedWritten))
    });
    visits.collect()
}

#[test]
fn a_client_s_certificate_earns_the_round_trip_that_a_server_s_flight_alone_does_not() {
    let mut pair = certus();
    // The first visit shows that there is a certificate; from the second on it is counted in.
    let of_both = opened(&mut pair, [1_000, 2_000, 3_000, 4_000].map(of_three));
    assert_eq!(of_both, [[0, 0], [1, 1], [1, 1], [1, 1]]);
    let names = ["record_keys_asked", "record_keys_not_worth"];
    assert_eq!(all_counted(&mut pair, names), [3, 1]);

    // The same server's flight, and a client that shows none.
    let mut pair = certus();
    let shown = opened(&mut pair, [1_000, 2_000, 3_000].map(of_one));
    assert_eq!(shown, [[0, 0]; 3]);
    let names = ["record_keys_asked", "record_keys_not_worth"];
    assert_eq!(all_counted(&mut pair, names), [0, 3]);
}

#[test]
fn the_client_s_direction_counts_at_its_own_rate() {
    for (up, asked) in [(Some(22_000), 2), (Some(88_000), 0), (None, 0)] {
        let mut pair = certus();
        pair.offers = Some(Prefer::Time.offered_at(up, RTT));
        opened(&mut pair, [1_000, 2_000, 3_000].map(of_three));
        assert_eq!(counted(&mut pair, "record_keys_asked"), asked, "{up:?}");
    }
}

#[test]
fn a_certificate_that_is_not_shown_any_more_costs_one_round_trip() {
    let mut pair = certus();
    opened(&mut pair, [1_000, 2_000, 3_000].map(of_three));
    assert_eq!(counted(&mut pair, "record_keys_asked"), 2);
    // A chain that nobody holds, so that it alone is not worth it either.
    let crossed = opened(&mut pair, [4_000, 5_000, 6_000].map(of_one));
    assert_eq!(crossed, [[0, 1], [0, 0], [0, 0]]);
    let names = ["record_keys_asked", "record_keys_not_worth"];
    assert_eq!(all_counted(&mut pair, names), [1, 2]);
}

#[test]
fn an_answer_that_has_crossed_counts_in_full() {
    // At this rate half of it is not enough beside a server's flight that is held.
    let pair = || {
        let mut pair = certus();
        pair.offers = Some(Prefer::Time.offered_at(Some(44_000), RTT));
        pair
    };
    for (server_consents, asked) in [(false, 0), (true, 1)] {
        let mut pair = pair();
        for seed in [1_000, 2_000, 3_000] {
            let visit = of_three(seed);
            if server_consents && seed < 3_000 {
                pair.engines[1].release_key(visit.key(), pair.clock.now);
            }
            pair.both_of_client(&visit);
        }
        let count = counted(&mut pair, "record_keys_asked");
        assert_eq!(count, asked, "{server_consents}");
    }
}

#[test]
fn to_read_a_client_s_answer_costs_no_byte_but_those_of_the_offer() {
    let [mut with, mut without] = [certus(), certus()];
    without.offers = None;
    let visit = of_three(1_000);
    let [with, without] = [&mut with, &mut without].map(|pair| pair.both_of_client(&visit));
    let lengths = |outcome: &Outcome| [outcome.crossed[0].len(), outcome.crossed[1].len()];
    let [up, down] = lengths(&without);
    assert_eq!(lengths(&with), [up + 7, down]);
    assert_eq!(with.got, without.got);
}
