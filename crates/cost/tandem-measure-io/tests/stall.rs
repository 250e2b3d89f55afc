//! A server that stands still for a second cannot hide in the open loop.

mod common;

use std::thread;
use std::time::Duration;

use common::{Place, has};
use nix::sys::signal::{Signal, kill};
use tandem_measure::{Load, Mix, Percent};
use tandem_measure_io::{Offers, Plan, Resumption, Target, Trust, measure};

/// Connections that start in the second in which the server is stopped, on the average.
const RATE: f64 = 100.0;

#[test]
fn a_second_in_which_the_server_is_stopped_shows() {
    if !has(&["nginx"]) {
        return;
    }
    let place = Place::new();
    let server = place.nginx("");
    let pid = server.pid();
    let plan = Plan {
        target: Target::of(&format!("https://localhost:{}/", server.address().port())).unwrap(),
        load: Load::Rate(RATE),
        duration: Duration::from_secs(2),
        timeout: Duration::from_secs(30),
        tls: None,
        resumption: Resumption::None,
        offers: Offers::default(),
        mix: Mix::Page,
        mix_name: "the URL".to_owned(),
        keep_alive: Some(1),
        seed: 11,
        trust: Trust::File(place.path("ca.pem")),
    };
    let mut stopped = None;
    let outcome = measure(&plan, Percent::ZERO, |moment| {
        if moment.is_measured && stopped.is_none() {
            kill(pid, Signal::SIGSTOP).unwrap();
            stopped = Some(thread::spawn(move || {
                thread::sleep(Duration::from_secs(1));
                kill(pid, Signal::SIGCONT).unwrap();
            }));
        }
    })
    .unwrap();
    stopped.expect("it was stopped").join().unwrap();
    assert_eq!(outcome.counts.failures(), 0, "{:?}", outcome.counts.errors);
    assert!(outcome.latency.p99_9 >= 900_000, "{:?}", outcome.latency);
    // Those of the second's first half waited half a second at least: some 50 of 200.
    let within = outcome.curve.iter().rfind(|(_, micros)| *micros < 500_000);
    let share = 1.0 - within.map_or(0.0, |(share, _)| *share);
    let waited = share * outcome.latency.count as f64;
    assert!(waited >= 20.0, "{waited} of {}", outcome.latency.count);
}
