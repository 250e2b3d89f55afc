//! Starts that fail for reasons of the machine, and ends: one line that says what to do, the
//! documented exit code, and no rule left.
//!
//! Is not: settings that are wrong (`../cli/failures.rs`), or a second daemon of the same kind
//! (`../cli/daemon.rs`). Root only; skipped, with a message, otherwise.

use std::fs;
use std::time::Duration;

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;

/// Asserts that a start failed with this code, in one line that has these words, and left no rule.
#[track_caller]
fn fails(host: &Host, spec: &Spec, code: i32, words: &[&str]) {
    let ended = match Daemon::try_start(host, spec) {
        Ok(_) => panic!("the daemon started"),
        Err(ended) => ended,
    };
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let said: Vec<&str> = ended
        .log
        .lines()
        .filter(|line| !line.contains(" WARN "))
        .collect();
    assert_eq!(said.len(), 1, "one line says what to do: {ended:?}");
    assert!(said[0].starts_with("tandem: "), "{ended:?}");
    for word in words {
        assert!(said[0].contains(word), "`{word}` in {ended:?}");
    }
    assert_eq!(host.rules_of_tandem(), Vec::<String>::new());
}

/// Refuses any input with these words, as an old kernel or a broken firewall would, and passes
/// everything else on.
fn refusing(words: &str) -> String {
    format!(
        r#"input=$(cat)
case "$input" in *"{words}"*) echo "line 3 failed: refused for a test" >&2; exit 2;; esac
printf '%s\n' "$input" | exec "$REAL" "$@""#
    )
}

#[test]
fn a_queue_of_another_process_is_named() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let spec = PairSpec::new(&net);
    let queue = ["--queue", "777"];
    let first = Daemon::start(&net.a, &spec.a.more(&queue));
    let second = spec.b.more(&queue);
    let ended = Daemon::try_start(&net.a, &second).expect_err("the queue is taken");
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.log.contains("777"), "{ended:?}");
    // The first is not disturbed, nor are its rules.
    assert!(!net.a.rules_of_tandem().is_empty());
    assert_eq!(first.end(Signal::SIGTERM).code, Some(0));
    assert_eq!(net.a.rules_of_tandem(), Vec::<String>::new());
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let empty = net.path("empty");
    fs::create_dir(&empty).expect("a writable folder");
    let script = format!(
        r#"mount --bind {} /usr/sbin && PATH=/usr/bin:/bin exec "$0" "$@""#,
        empty.display()
    );
    let spec =
        Spec::new(Side::Client, &net).under(&["unshare", "--mount", "--", "sh", "-c", &script]);
    fails(&net.a, &spec, 3, &["iptables", "package"]);
}

#[test]
fn a_missing_feature_of_the_kernel_is_named() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    for (program, words, name) in [
        ("iptables-restore", "-j NFQUEUE", "NFQUEUE"),
        ("ip6tables-restore", "-m connmark", "connmark"),
    ] {
        let under = in_place_of(&net, program, &refusing(words));
        let spec = Spec {
            under,
            ..Spec::new(Side::Server, &net)
        };
        fails(&net.b, &spec, 3, &[name, "CONFIG_"]);
    }
}

#[test]
fn a_firewall_that_refuses_the_rules_half_way_is_left_as_it_was() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    // IPv4's rules are set by the time that IPv6's are refused.
    for program in ["iptables-restore", "ip6tables-restore"] {
        let under = in_place_of(&net, program, &refusing("-A POSTROUTING"));
        let spec = Spec {
            under,
            ..Spec::new(Side::Client, &net)
        };
        fails(&net.a, &spec, 1, &["refused for a test"]);
    }
}

#[test]
fn rules_that_are_not_shown_are_removed_again_and_their_table_is_named() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let hiding = r#""$REAL" "$@" | sed '/^\*mangle/,/^COMMIT/d'"#;
    for program in ["iptables-save", "ip6tables-save"] {
        let spec = Spec {
            under: in_place_of(&net, program, hiding),
            ..Spec::new(Side::Client, &net)
        };
        fails(&net.a, &spec, 1, &[program, "table mangle"]);
    }
}

#[test]
fn each_signal_that_asks_for_the_end_is_a_good_end() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let spec = PairSpec::new(&net);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        for (host, spec) in [(&net.a, &spec.a), (&net.b, &spec.b)] {
            let daemon = Daemon::start(host, spec);
            assert!(!host.rules_of_tandem().is_empty());
            let ended = daemon.end(signal);
            assert_eq!(ended.code, Some(0), "{signal}: {ended:?}");
            assert_eq!(host.rules_of_tandem(), Vec::<String>::new(), "{signal}");
        }
    }
}

#[test]
fn connections_are_made_while_rules_are_set_and_while_they_are_removed() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = bytes(3_000);
    Server::publish(&net, "file", &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let fetch = Fetch::new(net.server_address(Family::V4), "file").limit(20);
    // Those of IPv4 are set, and those of IPv6 take their time.
    let (hold, script) = Hold::of(&net, "-A POSTROUTING");
    let spec = Spec {
        under: in_place_of(&net, "ip6tables-restore", &script),
        ..Spec::new(Side::Client, &net)
    };
    let daemon = std::thread::scope(|scope| {
        let starting = scope.spawn(|| Daemon::start(&net.a, &spec));
        hold.wait();
        fetch.curl(&net.client).is(&file);
        drop(hold);
        starting.join().expect("it starts")
    });
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));

    let (hold, script) = Hold::of(&net, "-D POSTROUTING");
    let spec = Spec {
        under: in_place_of(&net, "iptables-restore", &script),
        ..Spec::new(Side::Client, &net)
    };
    let daemon = Daemon::start(&net.a, &spec);
    daemon.signal(Signal::SIGTERM);
    hold.wait();
    fetch.curl(&net.client).is(&file);
    drop(hold);
    assert_eq!(daemon.end_by_itself().code, Some(0));
    assert_eq!(net.a.rules_of_tandem(), Vec::<String>::new());
}

#[test]
fn a_good_end_in_the_middle_of_handshakes_costs_no_connection() {
    if !can_run() {
        return;
    }
    let net = Net::emulated(fast(100), 7);
    let file = bytes(3_000);
    Server::publish(&net, "file", &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let spec = PairSpec::new(&net);
    let fetch = Fetch::new(net.server_address(Family::V4), "file");
    let mut pair = Pair::start(&net, &spec);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    for side in [Side::Client, Side::Server] {
        let Pair { a, b } = pair;
        let ((ending, staying), host) = match side {
            Side::Client => ((a, b), &net.a),
            Side::Server => ((b, a), &net.b),
        };
        std::thread::scope(|scope| {
            let connections: Vec<_> = (0..12)
                .map(|_| {
                    let connection = scope.spawn(|| fetch.curl(&net.client));
                    // The end comes when one connection is in each stage of its handshake.
                    std::thread::sleep(Duration::from_millis(70));
                    connection
                })
                .collect();
            let ended = ending.end(Signal::SIGTERM);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(host.rules_of_tandem(), Vec::<String>::new());
            for connection in connections {
                connection.join().expect("it does not panic").is(&file);
            }
        });
        pair = match side {
            Side::Client => Pair {
                a: Daemon::start(host, &spec.a),
                b: staying,
            },
            Side::Server => Pair {
                a: staying,
                b: Daemon::start(host, &spec.b),
            },
        };
        pair.rewrites(&file, || fetch.curl(&net.client));
    }
    pair.end(&net);
}
