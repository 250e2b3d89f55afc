//! The operator's guide, held to what it says: its firewall rules let the proxies work, its
//! commands are ones that the program takes, and every counter of the packet engine is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    fs::read_to_string(path).expect("it is part of the source")
}

/// The command lines in the guide, without their comments.
fn commands() -> Vec<String> {
    guide()
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .map(|line| {
            line.split(" # ")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        })
        .collect()
}

#[test]
fn every_counter_of_the_engine_is_explained_and_none_that_there_is_not() {
    let proxy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy");
    let source: String = ["tandem-packet/src/output.rs", "tandem-engine/src/event.rs"]
        .into_iter()
        .map(|path| fs::read_to_string(proxy.join(path)).expect("it is part of the source"))
        .collect();
    let names: BTreeSet<&str> = source
        .lines()
        .filter_map(|line| line.trim().split_once(" => \"")?.1.strip_suffix("\","))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    let text = guide();
    let quoted: BTreeSet<&str> = text.split('`').skip(1).step_by(2).collect();
    for name in &names {
        // Packet mode's stand without its prefix, which the guide names once.
        let is_explained = ["", "packet_", "tunnel_"]
            .iter()
            .any(|prefix| quoted.contains(format!("{prefix}{name}").as_str()));
        assert!(is_explained, "the guide does not explain {name}");
    }
    let of_tunnels = names_in("tandem-tunnel/src/event.rs");
    for quoted in quoted {
        let name = quoted
            .trim_start_matches("packet_")
            .trim_start_matches("tunnel_");
        let ours = [
            "flows_",
            "flights_",
            "misses_",
            "options_",
            "chains_",
            "hold_released",
        ];
        if ours.iter().any(|start| name.starts_with(start)) {
            let mut all = names
                .iter()
                .copied()
                .chain(of_tunnels.iter().map(String::as_str));
            let is_there = match name.strip_suffix('…') {
                Some(start) => all.any(|one| one.starts_with(start)),
                None => all.any(|one| one == name),
            };
            assert!(is_there, "there is no counter {quoted}");
        }
    }
}

/// The names that a source file of `crates/proxy` gives to what it counts.
fn names_in(path: &str) -> BTreeSet<String> {
    let proxy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy");
    let source = fs::read_to_string(proxy.join(path)).expect("it is part of the source");
    source
        .lines()
        .filter_map(|line| line.trim().split_once(" => \"")?.1.strip_suffix("\","))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_counter_of_a_tunnel_is_explained() {
    let text = guide();
    let quoted: BTreeSet<&str> = text.split('`').skip(1).step_by(2).collect();
    let events = names_in("tandem-tunnel/src/event.rs");
    assert!(events.len() > 20, "{events:?}");
    for name in events {
        // What has the same beginning as the one before is written from where they differ.
        let is_explained = quoted.iter().any(|quoted| {
            let ending = quoted.strip_prefix("…");
            *quoted == format!("tunnel_{name}") || ending.is_some_and(|end| name.ends_with(end))
        });
        assert!(is_explained, "the guide does not explain tunnel_{name}");
    }
    for name in names_in("tandem-tunnel-io/src/board.rs") {
        assert!(
            quoted.contains(name.as_str()),
            "the guide does not explain {name}"
        );
    }
}

#[test]
fn the_commands_are_ones_that_the_program_takes() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let key = folder.path().join("key");
    // What pairing leaves on either side.
    fs::write(&key, "5a".repeat(32)).expect("the folder is ours");
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/etc");
    let mut tried = 0;
    for command in commands() {
        let Some(words) = command.strip_prefix("tandem ") else {
            continue;
        };
        let words: Vec<String> = words
            .split_whitespace()
            .map(|word| {
                word.replace("/etc/tandem/key", &key.to_string_lossy())
                    .replace("/etc/tandem/", &format!("{}/", settings.display()))
                    .replace("ppp0", "lo")
                    .replace("eth1", "lo")
            })
            .collect();
        let mut program = Command::new(env!("CARGO_BIN_EXE_tandem"));
        let output = match words[0].as_str() {
            // What they do is tried below, pairing and the doctor by their own tests: one waits for
            // the other side and writes the settings, one tells of the machine that it runs on.
            // Here only that they are commands.
            "status" | "off" | "pair" | "doctor" => program.args(&words).arg("--help").output(),
            // These would run a tunnel; here only that they are commands.
            "client-side" | "server-side"
                if words
                    .iter()
                    .any(|word| word == "--mode" || word.contains("/tunnel-")) =>
            {
                program.args(&words).arg("--help").output()
            }
            "client-side" | "server-side" => program.args(&words).arg("--key").arg(&key).output(),
            "keygen" if !words.iter().any(|word| word == "--names") => {
                fs::remove_file(&key).expect("it is there");
                program.args(&words).output()
            }
            _ => program.args(&words).output(),
        };
        let output = output.expect("the program was built for this test");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        tried += 1;
    }
    assert!(tried >= 5, "the guide has commands");
}

#[test]
fn behind_a_firewall_that_drops_by_default_the_rules_of_the_guide_are_enough_and_needed() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let file = bytes(3_000);
    Server::publish(&net, "file", &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());
    let all = commands();
    let rules: Vec<&str> = all
        .iter()
        .filter_map(|command| command.strip_prefix("iptables "))
        // Those are about connections that a tunnel takes in.
        .filter(|rule| {
            !["--ctstate DNAT", "addrtype", "REJECT"]
                .iter()
                .any(|it| rule.contains(it))
        })
        .collect();
    // Two blocks of the same length: A's and B's.
    let (for_a, for_b) = rules.split_at(rules.len() / 2);
    for (host, lines) in [(&net.a, for_a), (&net.b, for_b)] {
        for chain in ["INPUT", "OUTPUT", "FORWARD"] {
            host.run(&format!("iptables -P {chain} DROP"));
        }
        for line in lines {
            let line = line.replace("ppp0", "link0").replace("eth1", "link0");
            host.run(&format!("iptables {line}"));
        }
    }
    let pair = Pair::start(&net, &PairSpec::new(&net));
    let fetch = Fetch::new(net.server_address(Family::V4), "file");
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));
    let untracked = "--ctstate UNTRACKED";
    assert!(
        net.a.hits(untracked) > 0,
        "what is rebuilt is let out by this rule"
    );
    let shown = net
        .a
        .run(&format!("{} status", env!("CARGO_BIN_EXE_tandem")));
    assert!(shown.contains("packet_flights_rebuilt_bytes"), "{shown}");
    let off = net.a.run(&format!("{} off", env!("CARGO_BIN_EXE_tandem")));
    assert!(off.contains("stopped"), "{off}");
    assert_eq!(net.a.rules_of_tandem(), Vec::<String>::new());
    fetch.curl(&net.client).is(&file);
    let Pair { a, b } = pair;
    assert_eq!(a.end_by_itself().code, Some(0));
    assert_eq!(b.end(Signal::SIGTERM).code, Some(0));
}
