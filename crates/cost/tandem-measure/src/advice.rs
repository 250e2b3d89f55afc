//! What would help this server, from what was measured there. What was not measured is not advised.

mod choice;

use crate::counts::Counts;
use crate::limit::Limit;
use crate::outcome::{Load, Outcome};
use crate::phase::{Kind, Phase};

/// What a server may send before it has to wait for an acknowledgement: ten segments (RFC 6928) of
/// Ethernet's size, bytes.
const FIRST_WINDOW: f64 = 14_600.0;
/// Below this share of the greater one a difference is taken for chance.
const CHANCE: f64 = 0.1;

/// The most that a record has of an answer, bytes (RFC 8446, section 5.1).
const FULL_RECORD: f64 = 16_384.0;
/// Bytes around a record of TLS 1.3: header, type, tag (RFC 8446, section 5.2).
const RECORD_13: f64 = 5.0 + 1.0 + 16.0;
/// The same in TLS 1.2 with AES-GCM: header, explicit nonce, tag (RFC 5288, section 3).
const RECORD_12: f64 = 5.0 + 8.0 + 16.0;
/// Below this share of the bytes a gain is not worth a word.
const LITTLE: f64 = 0.005;

/// The advice that these results of one server bear out, one sentence or two each.
#[must_use]
pub fn advice(outcomes: &[Outcome]) -> Vec<String> {
    let measured: Vec<&Outcome> = outcomes
        .iter()
        .filter(|outcome| outcome.counts.requests > 0)
        .collect();
    let mut advice = Vec::new();
    advice.extend(resumption(&measured));
    advice.extend(sweep(&measured));
    advice.extend(single(&measured));
    advice.extend(choice::means(&measured));
    advice.extend(kept(&measured));
    advice.extend(choice::all(&measured));
    advice.extend(records(&measured));
    advice.extend(chain(&measured));
    advice.extend(staple(&measured));
    advice.extend(flight(&measured));
    advice
}

/// Whether sessions can be resumed at all, and by which means they were.
fn resumption(outcomes: &[&Outcome]) -> Option<String> {
    let mut all = Counts::default();
    for outcome in outcomes {
        all.add(&outcome.whole_run);
    }
    let wishes = all.resumed + all.refused + all.nothing_to_offer;
    if wishes == 0 {
        return None;
    }
    if all.resumed == 0 {
        return Some(format!(
            "Session reuse: switch on the session cache or tickets. None of {wishes} connections \
             that wanted to reuse a session could."
        ));
    }
    // The first connections of each thread have nothing to offer at any server.
    if all.refused * 10 > wishes {
        return Some(format!(
            "Session reuse: {} of {} offers were refused. Enlarge the session cache, share it \
             among the server's processes, or give all of them the same ticket keys.",
            all.refused,
            all.refused + all.resumed
        ));
    }
    None
}

/// What more reuse brought, from the least to the most of a sweep.
fn sweep(outcomes: &[&Outcome]) -> Option<String> {
    let outcomes = like_the_first(outcomes);
    let least = outcomes.iter().min_by_key(|outcome| outcome.reuse)?;
    let most = outcomes.iter().max_by_key(|outcome| outcome.reuse)?;
    if least.reuse == most.reuse || most.counts.resumed == 0 {
        return None;
    }
    let shares = (least.reuse.value(), most.reuse.value());
    let (before, after) = match most.load {
        Load::Connections(_) => (least.connection_rate(), most.connection_rate()),
        Load::Rate(_) => (most.latency.mean, least.latency.mean),
    };
    if [least, most].into_iter().any(|run| is_doubtful(run)) {
        return Some(format!(
            "Session reuse: what {} % in place of {} % brings is not known: a run was not steady, \
             or the generator was its limit. Measure again, with less load.",
            shares.1, shares.0
        ));
    }
    if after - before < CHANCE * after {
        return Some(format!(
            "Session reuse: from {} to {} % brought less than can be told from chance.",
            shares.0, shares.1
        ));
    }
    Some(match most.load {
        Load::Connections(_) => format!(
            "Session reuse: from {} to {} % it raised the rate from {before:.0} to {after:.0} \
             connections a second ({:.1} times). Let sessions live as long as clients return.",
            shares.0,
            shares.1,
            after / before
        ),
        Load::Rate(_) => format!(
            "Session reuse: from {} to {} % it lowered the mean latency from {} to {} (p99 from \
             {} to {}). Let sessions live as long as clients return.",
            shares.0,
            shares.1,
            milliseconds(after),
            milliseconds(before),
            milliseconds(least.latency.p99 as f64),
            milliseconds(most.latency.p99 as f64),
        ),
    })
}

/// Those that differ from the first in nothing but the sessions that were reused.
fn like_the_first<'a>(outcomes: &[&'a Outcome]) -> Vec<&'a Outcome> {
    let Some(first) = outcomes.first() else {
        return Vec::new();
    };
    let is_like = |outcome: &&&Outcome| {
        outcome.asked == first.asked
            && outcome.keep_alive == first.keep_alive
            && (outcome.resumption == first.resumption || outcome.resumption == "any")
    };
    outcomes.iter().filter(is_like).copied().collect()
}

/// Whether a run proves no gain.
fn is_doubtful(outcome: &Outcome) -> bool {
    !outcome.steady || !matches!(outcome.generator.limit, Limit::NotTheGenerator(_))
}

/// What one resumed connection spares, in bytes and round trips, which the load does not change.
fn single(outcomes: &[&Outcome]) -> Option<String> {
    // Of one version: the handshakes of both are different.
    let (version, resumed) = outcomes
        .iter()
        .find_map(|outcome| Some((&outcome.server.tls, outcome.kind(Kind::Resumed)?)))?;
    let mut same = outcomes
        .iter()
        .filter(|outcome| outcome.server.tls == *version);
    let full = same.find_map(|outcome| outcome.kind(Kind::Full))?;
    let handshake = [Phase::ServerFlight, Phase::KeyExchange];
    let sum = |kind: &crate::outcome::KindOutcome, of: fn(&crate::outcome::PhaseOutcome) -> f64| {
        handshake
            .iter()
            .filter_map(|phase| kind.phase(*phase))
            .map(of)
            .sum::<f64>()
    };
    let bytes = |kind| sum(kind, |phase| phase.sent + phase.received);
    let trips = |kind| sum(kind, |phase| phase.round_trips);
    Some(format!(
        "Session reuse: a resumed handshake took {:.0} bytes of TLS and {:.1} round trips, a full \
         one {:.0} and {:.1}.",
        bytes(resumed),
        trips(resumed),
        bytes(full),
        trips(full)
    ))
}

/// What a connection that is open already spares.
fn kept(outcomes: &[&Outcome]) -> Option<String> {
    let outcome = outcomes
        .iter()
        .find(|outcome| outcome.kind(Kind::Kept).is_some())?;
    let kept = outcome.kind(Kind::Kept)?;
    let of = |kind| outcome.kind(kind);
    let new = of(Kind::Full).or(of(Kind::Resumed)).or(of(Kind::Clear))?;
    if new.whole.count == 0 || new.whole.mean - kept.whole.mean < CHANCE * new.whole.mean {
        return None;
    }
    Some(format!(
        "Keep-alive: a request on a connection that was open took {}, on a new one ({} handshake) \
         {}, in the mean. Keep connections open as long as clients have requests.",
        milliseconds(kept.whole.mean),
        new.kind.says(),
        milliseconds(new.whole.mean)
    ))
}

/// What is in the chain that has no use there, and what is out of order.
fn chain(outcomes: &[&Outcome]) -> Vec<String> {
    let chain = outcomes.iter().map(|outcome| &outcome.server.chain);
    let Some(chain) = chain.into_iter().find(|chain| !chain.is_empty()) else {
        return Vec::new();
    };
    let mut advice = Vec::new();
    let bytes: usize = chain.iter().map(|certificate| certificate.bytes).sum();
    let is_ordered = chain
        .windows(2)
        .all(|pair| pair[0].issuer == pair[1].subject);
    if !is_ordered {
        advice.push(
            "Certificates: they are out of order. Send the server's own first, then the one of \
             its issuer, and so on: clients of TLS 1.2 may require it (RFC 5246, section 7.4.2)."
                .to_owned(),
        );
    }
    let roots = chain.iter().skip(1);
    let root: usize = roots
        .filter(|certificate| certificate.subject == certificate.issuer)
        .map(|certificate| certificate.bytes)
        .sum();
    if root > 0 {
        advice.push(format!(
            "Certificates: leave out the root, which clients have or do not trust: {root} of \
             {bytes} bytes in each full handshake."
        ));
    }
    advice
}

/// Whether answers come in more and smaller records than they need.
fn records(outcomes: &[&Outcome]) -> Option<String> {
    // On kept connections nothing else crosses with the answers.
    let (outcome, kept) = outcomes
        .iter()
        .find_map(|outcome| Some((outcome, outcome.kind(Kind::Kept)?)))?;
    let each = match outcome.server.tls.as_deref()? {
        "1.3" => RECORD_13,
        _ => RECORD_12,
    };
    let answer = [Phase::FirstByte, Phase::Transfer];
    let received: f64 = answer
        .iter()
        .filter_map(|phase| kept.phase(*phase))
        .map(|phase| phase.received)
        .sum();
    let around = received - kept.plain;
    let records = around / each;
    // An answer's head may well have a record of its own.
    let needed = (kept.plain / FULL_RECORD).ceil() + 1.0;
    let spared = around - needed * each;
    (kept.plain > FULL_RECORD / 4.0 && spared > LITTLE * received).then(|| {
        format!(
            "Record size: an answer of {:.0} bytes came in {records:.0} records of {:.0} bytes. \
             Records of 16 kB would spare {spared:.0} bytes of each answer ({:.1} %).",
            kept.plain,
            kept.plain / records,
            spared * 100.0 / received
        )
    })
}

/// What a stapled OCSP response takes.
fn staple(outcomes: &[&Outcome]) -> Option<String> {
    let (bytes, flight) = outcomes.iter().find_map(|outcome| {
        let flight = outcome.kind(Kind::Full)?.phase(Phase::ServerFlight)?;
        (outcome.server.staple_bytes > 0).then_some((outcome.server.staple_bytes, flight))
    })?;
    Some(format!(
        "Staple: the OCSP response takes {bytes} of the {:.0} bytes of the server's flight in \
         each full handshake ({:.0} %). Leave it out if neither your certificate (must-staple) nor \
         your clients require it.",
        flight.received,
        bytes as f64 * 100.0 / flight.received.max(1.0)
    ))
}

/// Whether a full handshake's first flight outgrows what can be sent at once.
fn flight(outcomes: &[&Outcome]) -> Option<String> {
    let full = outcomes
        .iter()
        .find_map(|outcome| outcome.kind(Kind::Full)?.phase(Phase::ServerFlight))?;
    (full.received > FIRST_WINDOW).then(|| {
        format!(
            "Certificates: the server's flight has {:.0} bytes, more than the {FIRST_WINDOW:.0} \
             that TCP sends at once: a round trip more in each full handshake. Use fewer or \
             smaller certificates.",
            full.received
        )
    })
}

/// Microseconds as milliseconds.
fn milliseconds(micros: f64) -> String {
    format!("{:.2} ms", micros / 1e3)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::{EarlyData, Exchange, Handshake, Means, OfferOutcome};
    use crate::outcome::CertificateFacts;
    use crate::outcome::tests::outcome;
    use crate::phase::Step;
    use crate::reuse::Percent;
    use crate::tally::Tally;

    /// Connections of 20 ms (full) or 5 ms (resumed), of which each counts.
    fn run(reuse: u8, load: Load, offers: &[OfferOutcome]) -> Outcome {
        let mut tally = Tally::default();
        for offer in offers {
            let kind = offer.kind();
            let (time, received) = match kind {
                Kind::Full => (20, 3_000),
                Kind::Resumed | Kind::Kept | Kind::Clear => (5, 300),
            };
            let flight = Step {
                received,
                round_trips: 1,
                ..Step::default()
            };
            tally.handshake(&Handshake {
                offer: *offer,
                early_data: EarlyData::NotSent,
                steps: [Step::default(), flight, Step::default()],
            });
            answered(&mut tally, kind, time);
        }
        let mut outcome = outcome().with(&tally);
        outcome.reuse = Percent::new(reuse).expect("a share");
        outcome.load = load;
        outcome.whole_run = tally.counts.clone();
        outcome
    }

    fn answered(tally: &mut Tally, kind: Kind, milliseconds: u64) {
        let time = Duration::from_millis(milliseconds);
        tally.exchange(&Exchange {
            kind,
            latency: time,
            whole: time,
            steps: [Step::default(); 2],
            body: 0,
            plain: 0,
        });
    }

    fn certificate(subject: &str, issuer: &str) -> CertificateFacts {
        CertificateFacts {
            bytes: 1_000,
            subject: subject.to_owned(),
            issuer: issuer.to_owned(),
            key: "RSA-2048".to_owned(),
        }
    }

    const TAKEN: OfferOutcome = OfferOutcome::Taken(Means::Psk);
    const FULL: OfferOutcome = OfferOutcome::NotWanted;
    const CLOSED: Load = Load::Connections(4);

    #[test]
    fn nothing_measured_is_nothing_advised() {
        assert_eq!(advice(&[]), Vec::<String>::new());
        assert_eq!(advice(&[outcome()]), Vec::<String>::new());
        assert_eq!(advice(&[run(0, CLOSED, &[FULL; 9])]), Vec::<String>::new());
    }

    #[test]
    fn the_gain_of_a_sweep_is_told_by_what_its_loop_measures() {
        let closed = advice(&[
            run(0, CLOSED, &[FULL; 100]),
            run(100, CLOSED, &[TAKEN; 300]),
        ]);
        assert!(
            closed[0].contains("from 10 to 30 connections"),
            "{closed:?}"
        );
        assert!(closed[0].contains("(3.0 times)"), "{closed:?}");
        assert!(closed[1].contains("300 bytes of TLS"), "{closed:?}");
        let rate = Load::Rate(10.0);
        let open = advice(&[run(0, rate, &[FULL; 9]), run(100, rate, &[TAKEN; 9])]);
        assert!(open[0].contains("from 20.00 ms to 5.00 ms"), "{open:?}");
    }

    #[test]
    fn a_gain_that_may_be_chance_is_said_to_be_none() {
        let advice = advice(&[
            run(0, CLOSED, &[FULL; 100]),
            run(100, CLOSED, &[TAKEN; 105]),
        ]);
        assert!(advice[0].contains("chance"), "{advice:?}");
    }

    #[test]
    fn a_run_that_proves_nothing_gives_no_gain() {
        let mut most = run(100, CLOSED, &[TAKEN; 300]);
        most.steady = false;
        let advice = advice(&[run(0, CLOSED, &[FULL; 100]), most]);
        assert!(advice[0].contains("is not known"), "{advice:?}");
    }

    #[test]
    fn a_server_without_sessions_is_told_so() {
        let none = advice(&[run(50, CLOSED, &[FULL, OfferOutcome::NothingThere])]);
        assert!(none[0].contains("switch on the session cache"), "{none:?}");
        let refused = advice(&[run(50, CLOSED, &[TAKEN, OfferOutcome::Refused])]);
        assert!(
            refused[0].contains("1 of 2 offers were refused"),
            "{refused:?}"
        );
    }

    #[test]
    fn a_kept_connection_is_compared_with_a_new_one() {
        let mut tally = Tally::default();
        tally.handshake(&Handshake {
            offer: FULL,
            early_data: EarlyData::NotSent,
            steps: [Step::default(); 3],
        });
        answered(&mut tally, Kind::Full, 20);
        answered(&mut tally, Kind::Kept, 2);
        let advice = advice(&[outcome().with(&tally)]);
        assert!(
            advice[0].contains("took 2.00 ms, on a new one"),
            "{advice:?}"
        );
    }

    #[test]
    fn the_chain_is_judged_as_it_was_received() {
        let judged = |chain: &[(&str, &str)]| {
            let mut outcome = run(0, CLOSED, &[FULL]);
            outcome.server.chain = chain
                .iter()
                .map(|(subject, issuer)| certificate(subject, issuer))
                .collect();
            advice(&[outcome]).join("\n")
        };
        assert_eq!(judged(&[("leaf", "one"), ("one", "root")]), "");
        // A certificate that signed itself and stands alone is the server's own.
        assert_eq!(judged(&[("leaf", "leaf")]), "");
        let root = judged(&[("leaf", "one"), ("one", "root"), ("root", "root")]);
        assert!(root.contains("leave out the root") && root.contains("1000 of 3000"));
        let mixed = judged(&[("leaf", "one"), ("two", "root"), ("one", "two")]);
        assert!(mixed.contains("out of order"), "{mixed}");
    }

    #[test]
    fn small_records_are_told_and_full_ones_are_not() {
        let of = |plain: f64, received: f64| {
            let mut tally = Tally::default();
            answered(&mut tally, Kind::Kept, 2);
            let mut run = outcome().with(&tally);
            run.server.tls = Some("1.3".to_owned());
            run.kinds[0].plain = plain;
            run.kinds[0].phases[0].received = received;
            advice(&[run]).join("\n")
        };
        // 100 kB in 75 records of 1,366 bytes.
        let small = of(102_400.0, 102_400.0 + 75.0 * 22.0);
        assert!(small.contains("75 records of 1365 bytes"), "{small}");
        assert!(small.contains("spare 1474 bytes"), "{small}");
        assert_eq!(of(102_400.0, 102_400.0 + 8.0 * 22.0), "");
    }

    #[test]
    fn a_staple_is_told_with_its_share() {
        let mut run = run(0, CLOSED, &[FULL]);
        run.server.staple_bytes = 300;
        let advice = advice(&[run]);
        assert!(advice[0].contains("300 of the 3000 bytes"), "{advice:?}");
        assert!(advice[0].contains("(10 %)"), "{advice:?}");
    }

    #[test]
    fn choices_are_compared_with_what_the_server_chose() {
        let group = |name: &str, connections: usize| {
            let mut run = run(0, CLOSED, &vec![FULL; connections]);
            run.asked.group = Some(name.to_owned());
            run.server.group = Some(name.to_owned());
            run
        };
        let mut first = run(0, CLOSED, &[FULL; 100]);
        first.server.group = Some("secp384r1".to_owned());
        let all = advice(&[first.clone(), group("X25519", 180), group("P-256", 150)]);
        assert_eq!(
            all,
            [
                "Group: X25519 alone gave 18.0 connections a second, the server's own choice \
              (secp384r1) 10.0 (1.8 times). All: P-256 15.0, X25519 18.0."
            ]
        );
        let chance = advice(&[first.clone(), group("X25519", 104), group("P-256", 96)]);
        assert!(chance[0].contains("no other one gave more"), "{chance:?}");
        assert_eq!(
            advice(&[first, group("X25519", 200)]).len(),
            0,
            "one is no choice"
        );
    }

    #[test]
    fn a_means_that_does_not_work_is_told() {
        let by = |means: &str, offers: &[OfferOutcome]| {
            let mut run = run(100, CLOSED, offers);
            run.resumption = means.to_owned();
            run
        };
        let none = OfferOutcome::NothingThere;
        let runs = [
            run(0, CLOSED, &[FULL; 100]),
            by("id", &[none; 100]),
            by("ticket", &[TAKEN; 300]),
        ];
        let all = advice(&runs).join("\n");
        assert!(
            all.contains("by id resumed 0 % of the connections and gave 10.0"),
            "{all}"
        );
        assert!(all.contains("by ticket 100 % and 30.0"), "{all}");
    }

    #[test]
    fn a_flight_that_tcp_does_not_send_at_once_is_told() {
        let mut outcome = run(0, CLOSED, &[FULL]);
        outcome.kinds[0].phases[1].received = 20_000.0;
        let advice = advice(&[outcome]);
        assert!(advice[0].contains("20000 bytes"), "{advice:?}");
    }
}
