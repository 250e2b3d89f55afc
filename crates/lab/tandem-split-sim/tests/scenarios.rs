//! Whole simulations: what has to be true of each.

use tandem_split_sim::{
    Caches, Calibration, Choice, Churn, Delivery, Outcome, Rules, Scenario, Shape, Sharing,
    SizeCost, Unfit, simulate,
};

/// Longer than any simulation.
const FOREVER: f64 = 1e9;

const COLD: Delivery = split(Caches::Cold, Sharing::OriginOnly);
const SHARED: Delivery = split(Caches::Cold, Sharing::Peers);
const WARM: Delivery = split(Caches::Warm, Sharing::Peers);

const fn split(caches: Caches, sharing: Sharing) -> Delivery {
    Delivery::Split { caches, sharing }
}

fn calibration() -> Calibration {
    let cost = |body, https, warm, cold| SizeCost {
        body,
        https,
        warm,
        cold,
    };
    Calibration {
        sizes: vec![
            cost(1_000, 4_000, 1_200, 2_300),
            cost(1_000_000, 1_040_000, 2_500, 1_045_000),
        ],
        https_seconds: 0.1,
        warm_seconds: 0.1,
        cold_seconds: 0.13,
    }
}

/// A small crowd.
fn scenario(delivery: Delivery) -> Scenario {
    Scenario {
        delivery,
        clients: 1_000,
        crowd_seconds: 60.0,
        page: vec![10_000, 50_000, 200_000],
        patience_seconds: 30.0,
        line_bits: 2_000_000,
        volunteers: 20,
        volunteer_bits: 20_000_000,
        choice: Choice::AtRandom,
        churn: None,
        rules: Rules::default(),
        seed: 1,
    }
}

fn churn(return_with: Caches) -> Churn {
    Churn {
        session_seconds: 30.0,
        shape: Shape::Weibull,
        absence_seconds: 10.0,
        return_with,
    }
}

fn outcome(scenario: &Scenario) -> Outcome {
    simulate(&calibration(), scenario).expect("it fits")
}

/// A cost of the whole page.
fn page(of: impl Fn(SizeCost) -> u64) -> u64 {
    let bodies = scenario(WARM).page;
    let costs = bodies.iter().map(|body| calibration().cost(*body));
    costs.map(|cost| of(cost.expect("measured"))).sum()
}

/// Scenarios of all kinds, overloaded and not.
fn all() -> Vec<Scenario> {
    let mut all = Vec::new();
    for delivery in [Delivery::Https, COLD, SHARED, WARM] {
        for line_bits in [160_000, 2_000_000, 50_000_000] {
            for churn in [None, Some(churn(Caches::Cold)), Some(churn(Caches::Warm))] {
                all.push(Scenario {
                    line_bits,
                    churn,
                    ..scenario(delivery)
                });
            }
        }
    }
    all
}

#[test]
fn every_client_and_every_byte_is_accounted_for() {
    for scenario in all() {
        let outcome = outcome(&scenario);
        assert_eq!(outcome.served + outcome.gave_up, scenario.clients);
        let last = outcome.series.last().expect("samples");
        assert_eq!(last.sent, outcome.line.total(), "{scenario:?}");
        assert_eq!(last.served, outcome.served);
        assert!(outcome.line.in_vain <= outcome.line.total());
        let pages = u64::from(outcome.served);
        let proofs = page(|cost| cost.warm);
        match scenario.delivery {
            Delivery::Https => {
                let useful = pages * page(|cost| cost.https);
                assert_eq!(outcome.line.total(), useful + outcome.line.in_vain);
                assert_eq!((outcome.line.proofs, outcome.line.misses), (0, 0));
            }
            Delivery::Split { .. } => {
                assert_eq!(outcome.line.https, 0);
                assert!(outcome.line.proofs >= pages * proofs);
                assert!(outcome.to_clients >= pages * page(|cost| cost.body));
            }
        }
    }
}

#[test]
fn whoever_is_patient_costs_what_was_measured() {
    for delivery in [Delivery::Https, COLD, WARM] {
        let scenario = Scenario {
            patience_seconds: FOREVER,
            ..scenario(delivery)
        };
        let outcome = outcome(&scenario);
        let clients = u64::from(scenario.clients);
        assert_eq!(outcome.served, scenario.clients);
        assert_eq!(outcome.line.in_vain, 0);
        if delivery == Delivery::Https {
            assert_eq!(outcome.line.total(), clients * page(|cost| cost.https));
            continue;
        }
        assert_eq!(outcome.volunteers_used, scenario.volunteers);
        assert_eq!(outcome.line.proofs, clients * page(|cost| cost.warm));
        assert_eq!(outcome.to_clients, clients * page(|cost| cost.body));
        let bodies = page(|cost| cost.cold - cost.warm);
        let times = if delivery == COLD { 20 } else { 0 };
        assert_eq!(outcome.line.misses, times * bodies);
    }
}

#[test]
fn volunteers_that_share_ask_the_origin_once() {
    let scenario = Scenario {
        patience_seconds: FOREVER,
        // Nobody is late on lines like these.
        line_bits: 1_000_000_000,
        volunteer_bits: 1_000_000_000,
        ..scenario(SHARED)
    };
    let outcome = outcome(&scenario);
    assert_eq!(outcome.line.misses, page(|cost| cost.cold - cost.warm));
    assert_eq!(outcome.pieces.peers_late, 0);
    // Each of the others has got each piece from one of them.
    let pieces = outcome.pieces.from_origin + outcome.pieces.from_peers;
    assert_eq!(pieces, 20 * outcome.pieces.from_origin);
}

/// Twenty volunteers meet a new file at once, on a line of so many bits a second.
fn at_once(line_bits: u64) -> Scenario {
    Scenario {
        patience_seconds: FOREVER,
        page: vec![200_000],
        clients: 20,
        choice: Choice::InTurn,
        crowd_seconds: 1.0,
        line_bits,
        ..scenario(SHARED)
    }
}

#[test]
fn what_volunteers_meet_at_once_crosses_a_slow_line_once() {
    let outcome = outcome(&at_once(160_000));
    let cost = calibration().cost(200_000).expect("measured");
    assert_eq!(outcome.line.misses, cost.cold - cost.warm);
    assert_eq!(outcome.pieces.peers_late, 0);
}

#[test]
fn nobody_waits_for_ever_for_what_others_are_to_get() {
    // A piece takes 137 s, its first packet 12 s.
    let outcome = outcome(&at_once(1_000));
    assert_eq!(outcome.served, 20);
    assert!(outcome.pieces.peers_late > 0);
}

#[test]
fn volunteers_that_wait_in_vain_for_others_ask_the_origin() {
    let mut scenario = Scenario {
        patience_seconds: FOREVER,
        ..scenario(SHARED)
    };
    // A piece takes 8 s on the way to another volunteer, and 1 s of patience.
    scenario.volunteer_bits = 16_000;
    scenario.clients = 20;
    scenario.choice = Choice::InTurn;
    let outcome = outcome(&scenario);
    assert_eq!(outcome.served, 20);
    assert!(outcome.pieces.peers_late > 0);
    assert!(outcome.line.misses > page(|cost| cost.cold - cost.warm));
}

#[test]
fn the_same_seed_has_the_same_outcome() {
    for scenario in all() {
        let scenario = Scenario {
            clients: 200,
            ..scenario
        };
        assert_eq!(outcome(&scenario), outcome(&scenario));
        let other = Scenario {
            seed: 2,
            ..scenario.clone()
        };
        assert_ne!(outcome(&scenario), outcome(&other));
    }
}

#[test]
fn the_line_never_carries_more_than_its_rate() {
    for scenario in all() {
        let outcome = outcome(&scenario);
        assert!(outcome.line_busy <= 1.0, "{scenario:?}");
        // A quantum counts when all of it has left.
        let slack = scenario.rules.origin_quantum as f64;
        for pair in outcome.series.windows(2) {
            let seconds = pair[1].at - pair[0].at;
            let sent = (pair[1].sent - pair[0].sent) as f64;
            assert!(sent * 8.0 <= seconds * scenario.line_bits as f64 + slack * 8.0 + 1e-3);
        }
    }
}

#[test]
fn one_client_takes_its_round_trips_and_the_time_of_its_bytes() {
    let cost = calibration().cost(50_000).expect("measured");
    let line = |bytes: u64| bytes as f64 * 8.0 / 160_000.0;
    let volunteer = 50_000.0 * 8.0 / 20e6;
    for (delivery, seconds) in [
        (Delivery::Https, 0.1 + line(cost.https)),
        (COLD, 0.13 + line(cost.cold) + volunteer),
        (WARM, 0.1 + line(cost.warm) + volunteer),
    ] {
        let scenario = Scenario {
            clients: 1,
            page: vec![50_000],
            patience_seconds: FOREVER,
            line_bits: 160_000,
            volunteers: 1,
            ..scenario(delivery)
        };
        let took = outcome(&scenario).latency.expect("served").max;
        assert!(
            (took - seconds).abs() < 1e-3,
            "{delivery:?}: {took}, {seconds}"
        );
    }
}

#[test]
fn volunteers_that_lose_their_caches_cost_the_origin_pieces() {
    let lost = Scenario {
        churn: Some(churn(Caches::Cold)),
        ..scenario(WARM)
    };
    let kept = Scenario {
        churn: Some(churn(Caches::Warm)),
        ..scenario(WARM)
    };
    let (lost, kept) = (outcome(&lost), outcome(&kept));
    assert_eq!(kept.line.misses, 0);
    assert!(lost.line.misses > 0);
    assert!(kept.dead_addresses > 0);
}

#[test]
fn nobody_is_served_without_a_place() {
    let mut crowded = scenario(Delivery::Https);
    crowded.rules.origin_places = 7;
    let at_origin = outcome(&crowded);
    assert!(at_origin.refused_by_origin > 0);
    assert!(at_origin.max_waiting <= 7);
    let mut crowded = scenario(WARM);
    crowded.rules.volunteer_places = 1;
    let at_volunteers = outcome(&crowded);
    assert!(at_volunteers.refused_by_volunteers > 0);
    assert!(at_volunteers.max_waiting <= 20);
}

#[test]
fn what_there_is_none_of_is_refused() {
    let mut nobody = scenario(WARM);
    nobody.volunteers = 0;
    let unfit = simulate(&calibration(), &nobody);
    assert_eq!(unfit, Err(Unfit::Empty { what: "volunteers" }));
    // HTTPS needs none.
    nobody.delivery = Delivery::Https;
    assert!(simulate(&calibration(), &nobody).is_ok());
    let mut large = scenario(WARM);
    large.page = vec![2_000_000];
    let unfit = simulate(&calibration(), &large);
    assert_eq!(unfit, Err(Unfit::SizeNotMeasured { body: 2_000_000 }));
}
