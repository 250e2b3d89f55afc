//! Outages: what was on its way goes on soon after the line is back, and few bytes are spent on a
//! line that is down.

use tandem_netsim::link::{Outage, OutageEffect};

use super::*;

/// An hour after the start; by then the handshake is long complete.
const DOWN_AT: Duration = HOUR;

struct Story {
    request: usize,
    response: usize,
    /// How long before the outage, or after its start, the request is made.
    asked: Asked,
    /// How long the same takes without an outage.
    takes: Duration,
}

#[derive(Clone, Copy)]
enum Asked {
    Before(Duration),
    During(Duration),
}

/// How an outage went.
struct Outcome {
    /// From its end until the last byte is there.
    done_after: Duration,
    /// IP bytes both ways, while the line was down.
    spent: u64,
}

fn run(name: &str, effect: OutageEffect, length: Duration, story: &Story) -> Outcome {
    let outage = Outage::once(DOWN_AT, length, effect);
    let mut pair = Pair::up(link(name).with_both(|way| way.outages.push(outage)));
    pair.exchange(500, 300);
    let asked_at = match story.asked {
        Asked::Before(time) => DOWN_AT - time,
        Asked::During(time) => DOWN_AT + time,
    };
    pair.pass_to(asked_at);
    let number = pair.ask(story.request, story.response);
    pair.pass_to(DOWN_AT.max(asked_at));
    let before = pair.counters().ip_bytes();
    pair.pass_to(DOWN_AT + length);
    let spent = pair.counters().ip_bytes() - before;
    let end = pair.now;
    pair.finish(number, story.response, HOUR);
    Outcome {
        done_after: pair.now.saturating_since(end),
        spent,
    }
}

const S: Duration = Duration::from_secs(1);
/// The longest is the longest that the client side's keeper lets pass (`keeper.rs`).
const LENGTHS: [Duration; 3] = [
    Duration::from_secs(70),
    Duration::from_secs(300),
    Duration::from_secs(600),
];

/// A request while the line is down; one whose response is lost; a download; an upload.
fn stories(name: &str) -> [Story; 4] {
    let (of_exchange, bulk, of_bulk) = match name {
        "iridium" => (S * 4, 20_000, S * 75),
        "certus-100" => (S, 50_000, S * 22),
        _ => (S, 2_000_000, S * 8),
    };
    let responding = match name {
        "iridium" => Duration::from_millis(2_500),
        _ => Duration::from_millis(400),
    };
    let story = |request, response, asked, takes| Story {
        request,
        response,
        asked,
        takes,
    };
    [
        story(500, 300, Asked::During(S * 10), of_exchange),
        story(500, 300, Asked::Before(responding), of_exchange),
        story(500, bulk, Asked::Before(S), of_bulk),
        story(bulk, 4, Asked::Before(S), of_bulk),
    ]
}

#[test]
fn streams_go_on_half_a_minute_after_an_outage_that_loses_all() {
    for name in ["iridium", "certus-100", "geo-hts"] {
        for length in LENGTHS {
            for story in &stories(name) {
                let outcome = run(name, OutageEffect::Lose, length, story);
                // 30 s between nudges, 10 s until the other side asks in turn, and round trips.
                let most = S * 45 + story.takes * 3 / 2;
                let (request, response) = (story.request, story.response);
                assert!(
                    outcome.done_after < most,
                    "{name}, {length:?}, {request}/{response}: {:?}",
                    outcome.done_after
                );
            }
        }
    }
}

#[test]
fn streams_go_on_at_once_where_the_modem_held_the_packets() {
    for name in ["iridium", "certus-100"] {
        for length in LENGTHS {
            let outcome = run(name, OutageEffect::Hold, length, &stories(name)[0]);
            let most = stories(name)[0].takes + S;
            assert!(
                outcome.done_after < most,
                "{name}: {:?}",
                outcome.done_after
            );
        }
    }
}

#[test]
fn a_line_that_is_down_for_five_minutes_carries_a_kilobyte_of_questions() {
    for name in ["iridium", "certus-100", "geo-hts"] {
        let story = &stories(name)[0];
        let outcome = run(name, OutageEffect::Lose, LENGTHS[1], story);
        // The request, 562 bytes, is among them.
        assert!(outcome.spent < 1_800, "{name}: {}", outcome.spent);
    }
}

#[test]
fn a_line_that_is_down_for_a_night_carries_few_more() {
    let story = &stories("certus-100")[0];
    let outage = Outage::once(DOWN_AT, HOUR * 10, OutageEffect::Lose);
    let mut pair = Pair::up(link("certus-100").with_both(|way| way.outages.push(outage)));
    pair.pass_to(DOWN_AT + S);
    let before = pair.counters().ip_bytes();
    pair.ask(story.request, story.response);
    pair.pass_to(DOWN_AT + HOUR * 10);
    let spent = pair.counters().ip_bytes() - before;
    assert!(spent < 4_000, "{spent}");
}
