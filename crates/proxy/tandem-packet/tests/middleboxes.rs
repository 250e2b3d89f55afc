//! Middleboxes between the proxies that let SYNs and options through and then meet what the
//! proxies send with rules of their own.

mod support;

use std::time::Duration;

use support::ProxyElement;
use support::visits::{CLIENT_SIDE, Fate, Visits, lost};
use tandem_netsim::element::Wire;
use tandem_netsim::middlebox::{
    ClockFirewall, EarlyAcker, OverlapDropper, ReorderHolder, Resegmenter,
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
        Visits::through(COUNT, ClockFirewall::new(9), Wire::default()),
        Visits::through(COUNT, Wire::default(), ClockFirewall::new(u32::MAX - 500)),
        // The frame comes in pieces, too.
        Visits::through(COUNT, ClockFirewall::new(9), resegmenter(100)),
    ] {
        assert_eq!(lost(&visits.one_by_one(COUNT)), 0);
        let [replaced, _] = visits.counted("timestamps_replaced");
        assert!(replaced > 0 && visits.counted("flights_written")[1] == replaced);
        assert_eq!(visits.counted("originals_sent_bytes"), [0, 0]);
    }
}

#[test]
fn behind_such_a_firewall_a_flight_that_cannot_be_rebuilt_is_asked_for() {
    for far in [resegmenter(2_000), resegmenter(100)] {
        let mut visits = Visits::through(1, ClockFirewall::new(9), far);
        visits
            .world
            .with_client_mut(0, |client, now| client.connect(now));
        support::run_to(&mut visits.world, CLIENT_SIDE, "hints_sent").expect("the hint goes out");
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
