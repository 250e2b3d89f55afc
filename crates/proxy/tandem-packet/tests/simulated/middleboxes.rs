//! Middleboxes between the proxies that let SYNs and options through and then meet what the
//! proxies send with rules of their own.

use std::time::Duration;

use crate::support::visits::{CLIENT_SIDE, Fate, NEAR, Visits, lost};
use crate::support::{Boxed, ProxyElement};
use tandem_netsim::element::Wire;
use tandem_netsim::host::HostConfig;
use tandem_netsim::middlebox::{
    ClockFirewall, EarlyAcker, Normaliser, OverlapDropper, ReorderHolder, Resegmenter,
};
use tandem_store::MemoryStore;

/// How many connections each middlebox meets.
const COUNT: usize = 12;

const SECOND: Duration = Duration::from_secs(1);

/// A device that makes segments of so many bytes.
fn resegmenter(size: usize) -> Resegmenter {
    Resegmenter::new(size, Duration::from_millis(5))
}

#[test]
fn a_firewall_that_replaces_timestamps_breaks_no_connection() {
    for mut visits in [
        Visits::through(2 * COUNT, ClockFirewall::new(9), Wire::default()),
        Visits::through(
            2 * COUNT,
            Wire::default(),
            ClockFirewall::new(u32::MAX - 500),
        ),
        // The frame comes in pieces, too.
        Visits::through(2 * COUNT, ClockFirewall::new(9), resegmenter(100)),
    ] {
        assert_eq!(lost(&visits.one_by_one(COUNT)), 0);
        assert_eq!(visits.counted("timestamps_replaced"), [1, 0]);
        assert_eq!(visits.counted("originals_sent_bytes"), [0, 0]);
        // What is no longer harmless is not asked for any more.
        assert_eq!(visits.counted("flights_written"), [0, 1]);
        let stopped = visits.counted("paths_stopped_timestamps_replaced");
        assert_eq!((stopped, visits.stopped_paths()), ([1, 0], [1, 0]));
        // Begun before that is known, others are whole as well.
        let fates = visits.at_once(COUNT);
        assert_eq!(lost(&fates), 0);
    }
    let mut visits = Visits::through(COUNT, ClockFirewall::new(9), resegmenter(100));
    assert_eq!(lost(&visits.at_once(COUNT)), 0);
}

/// A normaliser, or nothing.
fn normaliser(is_there: bool) -> Boxed {
    match is_there {
        true => Boxed(Box::new(Normaliser::new())),
        false => Boxed(Box::new(Wire::default())),
    }
}

#[test]
fn a_normaliser_costs_two_connections_at_most_before_nothing_is_rewritten() {
    for near in [true, false] {
        let mut visits = Visits::through(COUNT, normaliser(near), normaliser(!near));
        assert_eq!(lost(&visits.one_by_one(COUNT)), 1);
        assert_eq!(visits.counted("paths_stopped_bytes_taken"), [0, 1]);
        assert_eq!(visits.stopped_paths(), [0, 1]);
        // The same with all of them begun before anything is known.
        let mut visits = Visits::through(2 * COUNT, normaliser(near), normaliser(!near));
        assert!(lost(&visits.at_once(COUNT)) <= 2);
        assert_eq!(lost(&visits.at_once(COUNT)), 0);
        assert!(visits.counted("rewrites_withheld")[1] > 0);
    }
}

#[test]
fn a_stopped_path_is_tried_again_by_one_flow_and_waits_twice_as_long_if_that_fails() {
    let mut visits = Visits::through(COUNT, normaliser(true), Wire::default());
    let written = |visits: &Visits| visits.counted("flights_written")[1];
    assert_eq!(lost(&visits.one_by_one(1)), 1);
    let stopped = visits.world.now();
    let until = |visits: &mut Visits, seconds: u64| {
        let elapsed = visits.world.now().saturating_since(stopped);
        visits.wait(Duration::from_secs(seconds) - elapsed);
    };
    until(&mut visits, 560);
    assert_eq!((lost(&visits.one_by_one(1)), written(&visits)), (0, 1));
    until(&mut visits, 601);
    assert!(lost(&visits.at_once(3)) <= 1, "one flow is tried");
    assert_eq!(written(&visits), 2);
    until(&mut visits, 1_700);
    assert_eq!((lost(&visits.one_by_one(1)), written(&visits)), (0, 2));
    // The device goes away.
    visits.world.remove(NEAR);
    until(&mut visits, 1_900);
    assert_eq!((lost(&visits.one_by_one(3)), written(&visits)), (0, 5));
    assert_eq!(visits.counted("paths_resumed"), [0, 1]);
    assert_eq!(visits.stopped_paths(), [0, 0]);
}

#[test]
fn behind_such_a_firewall_a_flight_that_cannot_be_rebuilt_is_asked_for() {
    for far in [resegmenter(2_000), resegmenter(100)] {
        let mut visits = Visits::through(1, ClockFirewall::new(9), far);
        visits
            .world
            .with_client_mut(0, |client, now| client.connect(now));
        crate::support::run_to(&mut visits.world, CLIENT_SIDE, "hints_sent")
            .expect("the hint goes out");
        let proxy: &mut ProxyElement = visits.world.element_mut(CLIENT_SIDE).expect("a proxy");
        *proxy.proxy.store_mut() = MemoryStore::default();
        assert_eq!(visits.at_once(1), [Fate::Whole]);
        assert_eq!(visits.counted("misses_sent"), [1, 0]);
        assert_eq!(visits.counted("misses_received"), [0, 1]);
    }
}

#[test]
fn a_device_that_cuts_segments_anew_breaks_no_connection() {
    for size in [1, 100, 536, 9_000] {
        for mut visits in [
            Visits::through(COUNT, resegmenter(size), Wire::default()),
            Visits::through(COUNT, Wire::default(), resegmenter(size)),
        ] {
            assert_eq!(lost(&visits.one_by_one(COUNT)), 0);
        }
    }
}

#[test]
fn a_device_that_holds_what_is_out_of_order_breaks_no_connection() {
    for mut visits in [
        Visits::through(COUNT, ReorderHolder::new(SECOND), Wire::default()),
        Visits::through(COUNT, Wire::default(), ReorderHolder::new(SECOND)),
    ] {
        assert_eq!(lost(&visits.one_by_one(COUNT)), 0);
        // They only cost time, and no longer do that.
        assert_eq!(visits.counted("flights_written"), [0, 2]);
        assert_eq!(visits.counted("paths_stopped_flights_withheld"), [0, 1]);
    }
}

#[test]
fn a_device_that_drops_what_overlaps_breaks_no_connection() {
    for mut visits in [
        Visits::through(COUNT, OverlapDropper::new(), Wire::default()),
        Visits::through(COUNT, Wire::default(), OverlapDropper::new()),
    ] {
        assert_eq!(lost(&visits.one_by_one(COUNT)), 0);
    }
}

#[test]
fn a_device_that_acknowledges_by_itself_breaks_no_connection() {
    for mut visits in [
        Visits::through(COUNT, EarlyAcker::new(SECOND), Wire::default()),
        Visits::through(COUNT, Wire::default(), EarlyAcker::new(SECOND)),
    ] {
        assert_eq!(lost(&visits.one_by_one(COUNT)), 0);
        assert!(visits.counted("flights_rebuilt_bytes")[0] > 0);
    }
}

/// Each of these devices, by its name.
fn devices() -> Vec<(&'static str, Boxed)> {
    vec![
        ("clock", Boxed(Box::new(ClockFirewall::new(9)))),
        ("normaliser", normaliser(true)),
        ("resegmenter", Boxed(Box::new(resegmenter(100)))),
        ("holder", Boxed(Box::new(ReorderHolder::new(SECOND)))),
        ("dropper", Boxed(Box::new(OverlapDropper::new()))),
        ("acker", Boxed(Box::new(EarlyAcker::new(SECOND)))),
    ]
}

fn without_timestamps(end: &mut HostConfig) {
    end.timestamps = None;
}

#[test]
fn an_end_without_timestamps_is_left_alone_behind_every_device() {
    /// Connections of each kind, one by one and at once.
    const EACH: usize = 3;
    type Change = fn(usize, &mut HostConfig, &mut HostConfig);
    let ends: [(&str, Change); 2] = [
        ("client", |_, client, _| without_timestamps(client)),
        ("server", |_, _, server| without_timestamps(server)),
    ];
    for (end, change) in ends {
        for near in [true, false] {
            for (device, element) in devices() {
                let nothing = Boxed(Box::new(Wire::default()));
                let devices = if near {
                    (element, nothing)
                } else {
                    (nothing, element)
                };
                let mut visits = Visits::among(2 * EACH, devices, change);
                let about = format!("{end}, {device}, near {near}");
                assert_eq!(lost(&visits.one_by_one(EACH)), 0, "{about}");
                assert_eq!(lost(&visits.at_once(EACH)), 0, "{about}");
                let given_up = visits.counted("flows_given_up_no_timestamps");
                assert_eq!(given_up.iter().sum::<usize>(), 2 * EACH, "{about}");
                for event in ["flights_written", "hints_sent"] {
                    assert_eq!(visits.counted(event), [0, 0], "{event}: {about}");
                }
                // Nothing was learned of the device, for better or worse.
                assert_eq!(visits.stopped_paths(), [0, 0], "{about}");
            }
        }
    }
}

#[test]
fn clients_without_timestamps_neither_stop_a_path_nor_resume_it_for_the_others() {
    // Every other client has none.
    let mixed = |device| {
        let devices = (device, Boxed(Box::new(Wire::default())));
        Visits::among(4 * COUNT, devices, |number, client, _| {
            if number % 2 == 0 {
                without_timestamps(client);
            }
        })
    };
    let mut visits = mixed(normaliser(true));
    // The first is let alone, the second loses, and from then on nothing is rewritten.
    assert_eq!(visits.one_by_one(1), [Fate::Whole]);
    assert_eq!(visits.stopped_paths(), [0, 0]);
    assert_eq!(lost(&visits.one_by_one(2 * COUNT - 1)), 1);
    assert_eq!(visits.counted("paths_stopped_bytes_taken"), [0, 1]);
    assert_eq!(visits.counted("flights_written"), [0, 1]);
    assert_eq!(
        visits
            .counted("flows_given_up_no_timestamps")
            .iter()
            .sum::<usize>(),
        COUNT
    );
    // When one flow may be tried again, it is not one of them.
    visits.wait(Duration::from_secs(700));
    assert_eq!(visits.one_by_one(1), [Fate::Whole]);
    assert_eq!(visits.counted("paths_resumed"), [0, 0]);
    assert_eq!(visits.counted("flights_written"), [0, 1]);
    assert_eq!(lost(&visits.one_by_one(1)), 1, "this one is tried");
    assert_eq!(visits.counted("flights_written"), [0, 2]);
    assert_eq!(lost(&visits.at_once(2 * COUNT - 2)), 0);

    let mut visits = mixed(Boxed(Box::new(ClockFirewall::new(9))));
    assert_eq!(lost(&visits.one_by_one(2 * COUNT)), 0);
    assert_eq!(visits.counted("paths_stopped_timestamps_replaced"), [1, 0]);
    assert_eq!(lost(&visits.at_once(2 * COUNT)), 0);
}
