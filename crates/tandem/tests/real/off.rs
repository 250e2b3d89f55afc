//! `tandem off`: proxies that run, hang or were killed, and the firewall as it was before any of
//! them.
//!
//! Root only; skipped, with a message, otherwise.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;

/// Runs it in a host; what it prints.
fn off(host: &Host) -> String {
    let output = host.output(Command::new(env!("CARGO_BIN_EXE_tandem")).arg("off"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn everything_is_off_after_one_command_whatever_state_it_was_in() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    // Rules of somebody else's, which stay.
    let others = ["-A FORWARD -p tcp -m tcp --dport 7 -j DROP"];
    net.a.rules(Family::V4, "filter", &others);
    let before = rules(&net.a);
    let spec = PairSpec::new(&net);
    let one = Daemon::start(&net.a, &spec.a);
    let other = Spec::new(Side::Server, &net).store(net.path("other"));
    let mut hanging = Daemon::start(&net.a, &other);
    // Nothing answers any more, and the kernel does not know that.
    hanging.signal(Signal::SIGSTOP);
    let elsewhere = Daemon::start(&net.b, &spec.b);

    let said = off(&net.a);
    assert!(
        said.contains("client-side on link0 (process ") && said.contains(") stopped\n"),
        "{said}"
    );
    assert!(said.contains("server-side on link0 (process "), "{said}");
    assert!(said.contains("was killed\n"), "{said}");
    assert!(
        said.contains("took the rules of tandem-s-link0 away"),
        "{said}"
    );
    assert!(!hanging.is_alive());
    assert_eq!(one.end_by_itself().code, Some(0));
    assert_eq!(rules(&net.a), before);

    assert!(off(&net.a).contains("no proxy runs here"));
    // What runs in another network namespace is not its business.
    assert!(!net.b.rules_of_tandem().is_empty());
    assert_eq!(elsewhere.end(Signal::SIGTERM).code, Some(0));
}

#[test]
fn a_proxy_whose_lock_takes_no_more_connections_is_stopped() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let before = rules(&net.a);
    let daemon = Daemon::start(&net.a, &Spec::new(Side::Client, &net));
    // Any user may connect, and nobody accepts: then the kernel does not say who listens.
    let room = fs::read_to_string("/proc/sys/net/core/somaxconn").expect("readable");
    let room: usize = room.trim().parse().expect("a number");
    net.a.inside(|| {
        for _ in 0..=room {
            let _ = tandem_daemon::lock::holder("tandem/client-side/link0");
        }
    });
    let said = off(&net.a);
    assert!(said.contains("client-side on link0 (process "), "{said}");
    assert!(said.contains(") stopped\n"), "{said}");
    assert_eq!(daemon.end_by_itself().code, Some(0));
    assert_eq!(rules(&net.a), before);
}

#[test]
fn a_proxy_that_cannot_be_stopped_is_named_and_its_rules_go_all_the_same() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let before = rules(&net.a);
    let daemon = Daemon::start(&net.a, &Spec::new(Side::Client, &net));
    // Or it would set its rules again.
    daemon.signal(Signal::SIGSTOP);
    // Where processes have other numbers.
    let off = ["--pid", "--fork", "--mount-proc", "--", "timeout", "60"];
    let output = net.a.output(
        Command::new("unshare")
            .args(off)
            .args([env!("CARGO_BIN_EXE_tandem"), "off"]),
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let named = "client-side on link0 (of an unknown process) could not be stopped\n";
    assert!(said.contains(named), "{said}");
    assert!(said.contains("the rules of tandem-c-link0 away"), "{said}");
    assert_eq!(rules(&net.a), before);
}

#[test]
fn the_service_manager_is_told_so_that_it_starts_nothing_anew() {
    if !can_run() {
        return;
    }
    let net = Net::new(Shape::Wire);
    let folder = net.path("instead");
    fs::create_dir(&folder).expect("a writable folder");
    let (program, said) = (folder.join("systemctl"), net.path("said"));
    fs::write(
        &program,
        format!("#!/bin/sh\necho \"$*\" >{}\n", said.display()),
    )
    .expect("writable");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display());
    let output = net.a.output(
        Command::new("unshare")
            .args(["--mount", "--", "sh", "-ec"])
            .arg("mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec \"$0\" off")
            .arg(env!("CARGO_BIN_EXE_tandem"))
            .env("PATH", path),
    );
    assert!(output.status.success(), "{output:?}");
    wait_until("systemd is told", || {
        fs::read_to_string(&said).is_ok_and(|said| {
            said == "--no-block stop tandem-client-side@*.service tandem-server-side@*.service tandem-tunnel-*.service\n"
        })
    });
}

/// The rules of a host, without counters and comments.
fn rules(host: &Host) -> Vec<String> {
    ["iptables-save", "ip6tables-save"]
        .into_iter()
        .flat_map(|program| {
            host.run(program)
                .lines()
                .filter(|line| line.starts_with("-A"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}
