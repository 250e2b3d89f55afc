//! Proxies that are killed, restarted and paused while real handshakes cross a slow link: every
//! connection ends well, with the right bytes, and what a killed proxy left in the firewall is
//! removed by the next.
//!
//! Is not: a proxy that was never there (`partners.rs`). Root only; skipped, with a message,
//! otherwise.
//!
//! Connections are started one after another, closer than a round trip, so that a fault meets each
//! stage of the handshake in one of them: SYN under way, SYN/ACK under way, hello and hint, the
//! rewritten flight, the client's key exchange, Finished, the first data.

use std::time::Duration;

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;
use tandem_netsim::Probability;
use tandem_netsim::link::{LinkConfig, Loss};

const FILE: &str = "file";

/// One way over the slow links of these tests, milliseconds.
const ONE_WAY: u64 = 300;

/// Connections that a fault meets, and the time between two starts: together longer than a
/// handshake and a request, which take four round trips.
const CONNECTIONS: u32 = 16;
const APART: Duration = Duration::from_millis(160);

/// Seconds that a connection may take over a slow link, whatever happens on the way.
const LIMIT: u32 = 45;

/// A net with a warm pair, and then a slow link.
struct Scene {
    net: Net,
    _nginx: Server,
    spec: PairSpec,
    file: Vec<u8>,
}

impl Scene {
    fn new(slow: LinkConfig) -> (Self, Pair) {
        let net = Net::emulated(fast(1), 1);
        let file = bytes(3_000);
        Server::publish(&net, FILE, &file);
        let nginx = Server::nginx(&net, &net.server, &Site::default());
        let spec = PairSpec::new(&net);
        let scene = Self {
            net,
            _nginx: nginx,
            spec,
            file,
        };
        let pair = Pair::start(&scene.net, &scene.spec);
        scene.connect();
        pair.wait_learned(1);
        pair.rewrites(&scene.file, || scene.fetch().curl(&scene.net.client));
        scene.net.change_link(slow);
        (scene, pair)
    }

    fn fetch(&self) -> Fetch {
        Fetch::new(self.net.server_address(Family::V4), FILE).limit(LIMIT)
    }

    fn connect(&self) {
        self.fetch().curl(&self.net.client).is(&self.file);
    }

    /// Starts connections one after another, then does `fault`; all connections end well.
    fn meets(&self, fault: impl FnOnce()) {
        std::thread::scope(|scope| {
            let connections: Vec<_> = (0..CONNECTIONS)
                .map(|_| {
                    let connection = scope.spawn(|| self.connect());
                    std::thread::sleep(APART);
                    connection
                })
                .collect();
            fault();
            let failed = connections
                .into_iter()
                .map(|connection| connection.join().is_err())
                .filter(|failed| *failed)
                .count();
            assert_eq!(failed, 0, "of {CONNECTIONS} connections; see above");
        });
    }

    /// The daemon comes back, finds what it left when it was killed, and rewrites again.
    fn comes_back(&self, host: &Host, spec: &Spec) -> Daemon {
        assert!(
            !host.rules_of_tandem().is_empty(),
            "a killed daemon leaves its rules"
        );
        let daemon = Daemon::start(host, spec);
        daemon.wait_for_log("an earlier daemon left behind");
        daemon
    }
}

/// A link on which a handshake takes seconds, but many connections do not stand in each other's
/// way.
fn slow() -> LinkConfig {
    link(1_000_000, ONE_WAY)
}

/// A slow link on which every packet counts.
fn narrow() -> LinkConfig {
    link(64_000, ONE_WAY)
}

/// What becomes of a daemon that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    StaysAway,
    ComesBack,
    ComesBackWithoutStore,
}

const AFTERWARDS: [After; 3] = [
    After::StaysAway,
    After::ComesBack,
    After::ComesBackWithoutStore,
];

fn killed_at_each_stage(sides: &[Side], after: After) {
    let (scene, pair) = Scene::new(slow());
    let Pair { a, b } = pair;
    let (mut a, mut b) = (Some(a), Some(b));
    let again = |spec: &Spec| match after {
        After::StaysAway => None,
        After::ComesBack => Some(spec.clone()),
        After::ComesBackWithoutStore => Some(spec.clone().store(scene.net.path("new-store"))),
    };
    scene.meets(|| {
        for side in sides {
            let (daemon, host, spec) = match side {
                Side::Client => (&mut a, &scene.net.a, &scene.spec.a),
                Side::Server => (&mut b, &scene.net.b, &scene.spec.b),
            };
            let killed = daemon.take().expect("it runs");
            let ended = killed.end(Signal::SIGKILL);
            assert_eq!(ended.code, None, "{ended:?}");
            *daemon = again(spec).map(|spec| scene.comes_back(host, &spec));
        }
    });
    // That the fault met handshakes in the middle shows in what the daemons say: flights that
    // nobody rebuilt, flows without a start.
    match (&a, &b) {
        (_, Some(b)) if sides == [Side::Client] => {
            assert!(b.counter("packet_flows_given_up_failsafe") > 0);
        }
        (Some(_), Some(b)) => b.wait_for("packet_flows_given_up_not_from_start", 1),
        (_, _) => {}
    }
    scene.net.change_link(fast(1));
    // New connections are well at once; where a side is missing, nothing is rewritten.
    scene.connect();
    for (side, daemon, host) in [
        (Side::Client, &mut a, &scene.net.a),
        (Side::Server, &mut b, &scene.net.b),
    ] {
        if daemon.is_none() {
            let spec = match side {
                Side::Client => &scene.spec.a,
                Side::Server => &scene.spec.b,
            };
            *daemon = Some(scene.comes_back(host, spec));
        }
    }
    let pair = Pair {
        a: a.expect("it came back"),
        b: b.expect("it came back"),
    };
    if after == After::ComesBackWithoutStore && sides.contains(&Side::Client) {
        pair.a.wait_for("packet_chains_learned", 1);
    }
    pair.rewrites(&scene.file, || scene.fetch().curl(&scene.net.client));
    pair.end(&scene.net);
}

#[test]
fn a_client_side_killed_at_each_stage_costs_no_connection() {
    if !can_run() {
        return;
    }
    all(
        3,
        AFTERWARDS.map(|after| move || killed_at_each_stage(&[Side::Client], after)),
    );
}

#[test]
fn a_server_side_killed_at_each_stage_costs_no_connection() {
    if !can_run() {
        return;
    }
    all(
        3,
        AFTERWARDS.map(|after| move || killed_at_each_stage(&[Side::Server], after)),
    );
}

#[test]
fn both_sides_killed_at_each_stage_cost_no_connection() {
    if !can_run() {
        return;
    }
    all(
        3,
        AFTERWARDS.map(|after| move || killed_at_each_stage(&[Side::Server, Side::Client], after)),
    );
}

#[test]
fn a_side_that_pauses_for_five_seconds_costs_no_connection() {
    if !can_run() {
        return;
    }
    all(
        2,
        [Side::Client, Side::Server].map(|side| {
            move || {
                let (scene, pair) = Scene::new(slow());
                let daemon = match side {
                    Side::Client => &pair.a,
                    Side::Server => &pair.b,
                };
                scene.meets(|| {
                    daemon.signal(Signal::SIGSTOP);
                    // How long it pauses is the fault itself.
                    std::thread::sleep(Duration::from_secs(5));
                    daemon.signal(Signal::SIGCONT);
                });
                scene.net.change_link(fast(1));
                pair.rewrites(&scene.file, || scene.fetch().curl(&scene.net.client));
                pair.end(&scene.net);
            }
        }),
    );
}

#[test]
fn an_outage_of_the_link_costs_no_connection() {
    if !can_run() {
        return;
    }
    let (scene, pair) = Scene::new(slow());
    scene.meets(|| {
        scene.net.change_link(slow().with_both(|direction| {
            direction.loss = Loss::Independent(Probability::ALWAYS);
        }));
        // How long it lasts is the fault itself.
        std::thread::sleep(Duration::from_secs(4));
        scene.net.change_link(slow());
    });
    scene.net.change_link(fast(1));
    pair.rewrites(&scene.file, || scene.fetch().curl(&scene.net.client));
    pair.end(&scene.net);
}

/// Kills one side when a counter of the other or its own moves, while one connection crosses the
/// narrow link.
fn killed_when(
    victim: Side,
    teller: Side,
    counter: &'static str,
    check: impl Fn(&Scene, Option<&Daemon>),
) {
    let (scene, pair) = Scene::new(narrow());
    let Pair { a, b } = pair;
    std::thread::scope(|scope| {
        let told = match teller {
            Side::Client => &a,
            Side::Server => &b,
        };
        let before = told.counter(counter);
        let connection = scope.spawn(|| scene.connect());
        told.wait_for(counter, before + 1);
        let survivor = match victim {
            Side::Client => {
                a.end(Signal::SIGKILL);
                b
            }
            Side::Server => {
                b.end(Signal::SIGKILL);
                a
            }
        };
        assert!(connection.join().is_ok(), "a connection failed; see above");
        check(&scene, Some(&survivor));
        scene.net.change_link(fast(1));
        scene.connect();
    });
}

#[test]
fn a_rewritten_flight_that_nobody_rebuilds_is_refused_by_the_client_and_sent_again_as_it_was() {
    if !can_run() {
        return;
    }
    let check = |scene: &Scene, survivor: Option<&Daemon>| {
        let b = survivor.expect("the server side lives");
        assert!(b.counter("packet_originals_sent_bytes") > 0);
        assert_eq!(b.counter("packet_flows_given_up_failsafe"), 1);
        assert!(
            scene.net.client.tcp_counter("PAWSEstab") > 0,
            "the client's TCP saw the flight"
        );
    };
    killed_when(Side::Client, Side::Server, "packet_flights_written", check);
}

#[test]
fn options_that_reach_an_endpoint_are_ignored_by_it() {
    if !can_run() {
        return;
    }
    let nothing = |_: &Scene, _: Option<&Daemon>| {};
    all(
        4,
        [
            // The presence reaches the server.
            (Side::Server, Side::Client, "packet_flows_opened"),
            // The answer reaches the client.
            (Side::Client, Side::Server, "packet_flows_with_peer"),
            // The hint reaches the server.
            (Side::Server, Side::Client, "packet_hints_sent"),
            // The hint is on its way, and its sender gone.
            (Side::Client, Side::Client, "packet_hints_sent"),
        ]
        .map(|(victim, teller, counter)| move || killed_when(victim, teller, counter, nothing)),
    );
}

#[test]
fn in_the_thesis_format_new_connections_are_well_when_the_client_side_is_killed() {
    if !can_run() {
        return;
    }
    let net = Net::emulated(fast(5), 1);
    let file = bytes(3_000);
    Server::publish(&net, FILE, &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let spec = PairSpec::new(&net).wire("mcveety");
    let fetch = Fetch::new(net.server_address(Family::V4), FILE);
    let pair = Pair::start(&net, &spec);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.a.end(Signal::SIGKILL);
    fetch.curl(&net.client).is(&file);
    let pair = Pair {
        a: Daemon::start(&net.a, &spec.a),
        b: pair.b,
    };
    pair.rewrites(&file, || fetch.curl(&net.client));
    pair.end(&net);
}
