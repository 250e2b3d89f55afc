//! The adapter against the kernel, in network namespaces that the tests make: rules, queue,
//! verdicts, marks, injection.
//!
//! Is not: a test of the packet engine; engines here do one thing each.
//!
//! What these tests show is what `docs` may say of the kernel: "Kernel facts" of the design of
//! packet mode, re-verified.

#[path = "support/mod.rs"]
mod support;

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, socket,
};
use support::engines::OPTION;
use support::{
    Daemon, Echo, Gateway, Host, Local, SERVER, can_run, connect, exchange, lone_host, status,
    store, wait_until, wire,
};
use tandem_packet_io::config::{Config, Role, Settings};
use tandem_packet_io::daemon;
use tandem_wire::{SegmentRepr, Seq, TcpFlags, TcpPacket};

const SETTINGS: &str = "link = 'lnk0'\nadmin = '127.0.0.1:9470'\n";
const PORT: u16 = 443;
const ETHERNET_HEADER: usize = 14;

/// Not a test: what the tests start as a process of its own.
#[test]
#[ignore = "started by the other tests"]
fn daemon_process() {
    let Ok(engine) = std::env::var(support::ENGINE) else {
        return;
    };
    let role = match std::env::var(support::ROLE).as_deref() {
        Ok("client-side") => Role::ClientSide,
        _ => Role::ServerSide,
    };
    let settings = std::env::var(support::SETTINGS).expect("set by the test");
    let ready = || println!("\nready");
    let settings: Settings = toml::from_str(&settings).expect("the test's own");
    let outcome = Config::resolve(role, settings).and_then(|config| match engine.as_str() {
        "dry-run" => {
            println!("\n{}", daemon::dry_run(&config)?);
            ready();
            Ok(())
        }
        "packet" => daemon::run(config, ready),
        name => daemon::run_engine(config, support::engines::named(name), ready),
    });
    let code = match outcome {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    };
    std::process::exit(code);
}

#[test]
fn rules_are_there_while_it_runs_and_gone_when_it_ends() {
    if !can_run() {
        return;
    }
    let host = lone_host();
    let before = host.rules();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let daemon = Daemon::start(&host, "client-side", "pass-through", SETTINGS);
        let during = host.rules();
        assert_eq!(during.matches("--queue-bypass").count(), 2, "{during}");
        assert_eq!(during.matches(" -j tandem-c-lnk0").count(), 8, "{during}");
        let ended = daemon.end(signal);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(host.rules(), before);
    }
}

#[test]
fn it_keeps_two_capabilities_on_every_thread() {
    if !can_run() {
        return;
    }
    let host = lone_host();
    let (_directory, path) = store();
    let settings = format!(
        "{SETTINGS}insecure-no-key = true\nstore = '{}'\n",
        path.display()
    );
    let daemon = Daemon::start(&host, "client-side", "packet", &settings);
    let mut threads = 0;
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("it runs");
    for task in tasks {
        let status = task.expect("readable").path().join("status");
        let text = std::fs::read_to_string(status).expect("it runs");
        let name = text.lines().next().unwrap_or_default();
        // The test harness's own thread started before.
        if name.ends_with("namespaces-") || name.contains("namespaces") {
            continue;
        }
        let effective = text
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:\t"))
            .expect("a line of proc(5)");
        assert_eq!(u64::from_str_radix(effective, 16), Ok(0x3000), "{text}");
        threads += 1;
    }
    assert!(
        threads >= 3,
        "the loop, the admin port and the store have threads"
    );
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
}

#[test]
fn what_a_killed_daemon_leaves_does_no_harm_and_the_next_one_removes_it() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let echo = Echo::start(&net.server, SERVER[0], PORT);
    let before = net.gateway.rules();
    let daemon = Daemon::start(
        &net.gateway,
        "client-side",
        "pass-through",
        &format!("{SETTINGS}ports = [443, 444]"),
    );
    let mut stream = connect(&net.client, echo.address);
    exchange(&mut stream, 1000);
    daemon.end(Signal::SIGKILL);
    let left = net.gateway.rules();
    assert!(left.contains("-j NFQUEUE"), "{left}");
    // The queue is bypassed: old connections and new ones go on.
    exchange(&mut stream, 100_000);
    exchange(&mut connect(&net.client, echo.address), 1000);
    let next = Daemon::start(&net.gateway, "client-side", "pass-through", SETTINGS);
    let during = net.gateway.rules();
    assert_eq!(during.matches("-j NFQUEUE").count(), 2, "{during}");
    assert!(!during.contains("443,444"), "{during}");
    exchange(&mut stream, 1000);
    assert_eq!(next.end(Signal::SIGTERM).code, Some(0));
    assert_eq!(net.gateway.rules(), before);
}

#[test]
fn rules_go_when_the_engine_panics_and_connections_live() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let echo = Echo::start(&net.server, SERVER[0], PORT);
    let before = net.gateway.rules();
    let daemon = Daemon::start(&net.gateway, "client-side", "panic-on-data", SETTINGS);
    let mut stream = connect(&net.client, echo.address);
    exchange(&mut stream, 1000);
    wait_until("the rules are removed", || net.gateway.rules() == before);
    drop(daemon);
}

#[test]
fn a_dry_run_prints_commands_that_work_and_runs_none() {
    if !can_run() {
        return;
    }
    let host = lone_host();
    let killed = Daemon::start(&host, "client-side", "pass-through", SETTINGS);
    killed.end(Signal::SIGKILL);
    let before = host.rules();
    let exe = std::env::current_exe().expect("this test runs");
    let output = Command::new("ip")
        .args(["netns", "exec", &host.name])
        .arg(exe)
        .args(["daemon_process", "--exact", "--ignored", "--nocapture"])
        .envs([
            (support::ENGINE, "dry-run"),
            (support::ROLE, "client-side"),
            (support::SETTINGS, SETTINGS),
        ])
        .output()
        .expect("ip is installed");
    assert_eq!(host.rules(), before);
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, script) = text
        .split_once("# An earlier daemon left rules")
        .expect("what was left is found");
    let script = script.split_once("\nready").expect("it ends well").0;
    let path = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(path.path(), format!("set -e\n#{script}")).expect("writable");
    host.run(&format!("sh {}", path.path().display()));
    assert_eq!(
        host.rules(),
        "",
        "set, in place of what was left, and taken away again:\n{script}"
    );
}

#[test]
fn what_prevents_a_start_is_told_in_one_line_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let host = lone_host();
    let refused = |under: &[&str], role, settings: &str| {
        let ended = Daemon::try_start(&host, under, role, "pass-through", settings)
            .err()
            .expect("it must not start");
        assert_eq!(ended.errors.trim().lines().count(), 1, "{ended:?}");
        assert_eq!(ended.code, Some(1));
        ended.errors
    };

    let text = refused(&[], "client-side", "link = 'lnk9'\nadmin = 'none'");
    assert!(text.contains("lnk9"), "{text}");

    let without = [
        "setpriv",
        "--bounding-set=-net_admin",
        "--inh-caps=-net_admin",
    ];
    let text = refused(&without, "client-side", SETTINGS);
    assert!(
        text.contains("missing capabilities: CAP_NET_ADMIN"),
        "{text}"
    );

    let first = Daemon::start(
        &host,
        "client-side",
        "pass-through",
        &format!("{SETTINGS}queue = 77"),
    );
    let rules = host.rules();
    let text = refused(&[], "client-side", "link = 'lnk0'\nadmin = 'none'");
    assert!(text.contains("another tandem client-side"), "{text}");
    let text = refused(
        &[],
        "server-side",
        "link = 'lnk0'\nadmin = 'none'\nqueue = 77",
    );
    assert!(text.contains("queue 77"), "{text}");
    let text = refused(&[], "server-side", SETTINGS);
    assert!(text.contains("127.0.0.1:9470"), "{text}");
    assert_eq!(host.rules(), rules);
    assert_eq!(first.end(Signal::SIGTERM).code, Some(0));
    assert_eq!(host.rules(), "");
}

#[test]
fn packets_pass_through_at_a_gateway_and_at_an_endpoint() {
    if !can_run() {
        return;
    }
    let gateway = Gateway::new();
    let local = Local::new();
    for (client, proxy, server) in [
        (&gateway.client, &gateway.gateway, &gateway.server),
        (&local.client, &local.client, &local.server),
    ] {
        let daemon = Daemon::start(proxy, "client-side", "pass-through", SETTINGS);
        for address in SERVER {
            let before = status(proxy, 9470).counters["queue_packets"];
            let echo = Echo::start(server, address, PORT);
            exchange(&mut connect(client, echo.address), 300_000);
            let after = status(proxy, 9470).counters["queue_packets"];
            // 300,000 bytes are 206 full segments each way at least.
            assert!(after >= before + 412, "{before} {after}");
            let other = Echo::start(server, address, 80);
            exchange(&mut connect(client, other.address), 1000);
        }
        let last = status(proxy, 9470);
        assert_eq!(last.counters["queue_verdicts_refused"], 0);
        assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
        assert_eq!(proxy.invalid_dropped(), 0);
    }
}

#[test]
fn the_server_side_sees_what_servers_send() {
    if !can_run() {
        return;
    }
    // The same hosts seen from the other end: the link is the client's wire.
    let net = Gateway::new();
    let daemon = Daemon::start(
        &net.gateway,
        "server-side",
        "swap-case",
        "link = 'near0'\nadmin = '127.0.0.1:9471'",
    );
    for address in SERVER {
        let echo = Echo::start(&net.server, address, PORT);
        let mut stream = connect(&net.client, echo.address);
        stream.write_all(b"Hello").expect("the connection stands");
        let mut answer = [0; 5];
        stream
            .read_exact(&mut answer)
            .expect("the connection stands");
        assert_eq!(&answer, b"hELLO", "only what goes to the link is changed");
    }
    assert_eq!(status(&net.gateway, 9471).role, "server-side");
    drop(daemon);
}

#[test]
fn a_dropped_packet_is_repeated_and_a_replaced_one_arrives_so() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let daemon = Daemon::start(&net.gateway, "client-side", "drop-first-data", SETTINGS);
    let echo = Echo::start(&net.server, SERVER[0], PORT);
    exchange(&mut connect(&net.client, echo.address), 10);
    daemon.end(Signal::SIGTERM);

    let daemon = Daemon::start(&net.gateway, "client-side", "option-on-syn", SETTINGS);
    for address in SERVER {
        let echo = Echo::start(&net.server, address, PORT);
        let sniffer = sniffer(&net.server);
        let mut stream = connect(&net.client, echo.address);
        exchange(&mut stream, 10_000);
        let syn = next_packet(&sniffer, |packet| packet.flags().contains(TcpFlags::SYN));
        let packet = TcpPacket::parse(&syn).expect("it was parsed before");
        assert!(
            packet.options_bytes().ends_with(&OPTION),
            "{:?}",
            packet.options_bytes()
        );
    }
    assert_eq!(
        status(&net.gateway, 9470).counters["queue_verdicts_refused"],
        0
    );
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
}

#[test]
fn a_connection_that_left_never_comes_back_to_the_queue() {
    if !can_run() {
        return;
    }
    let gateway = Gateway::new();
    let local = Local::new();
    for (client, proxy, server) in [
        (&gateway.client, &gateway.gateway, &gateway.server),
        (&local.client, &local.client, &local.server),
    ] {
        let daemon = Daemon::start(proxy, "client-side", "leave-with-data", SETTINGS);
        for address in SERVER {
            let echo = Echo::start(server, address, PORT);
            let mut stream = connect(client, echo.address);
            exchange(&mut stream, 1000);
            let before = status(proxy, 9470).counters["queue_packets"];
            exchange(&mut stream, 500_000);
            // An acknowledgement of what came before it left may have been on its way.
            let after = status(proxy, 9470).counters["queue_packets"];
            assert!(after <= before + 4, "{before} packets, then {after}");
            // Another connection is queued from its start.
            exchange(&mut connect(client, echo.address), 1000);
            assert!(status(proxy, 9470).counters["queue_packets"] >= after + 4);
        }
        assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
    }
}

#[test]
fn an_untracked_connection_that_leaves_does_not_go_round_for_ever() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    net.gateway
        .run("iptables -t raw -A PREROUTING -p tcp -j CT --notrack");
    let daemon = Daemon::start(&net.gateway, "client-side", "leave-with-data", SETTINGS);
    let echo = Echo::start(&net.server, SERVER[0], PORT);
    exchange(&mut connect(&net.client, echo.address), 10_000);
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
}

#[test]
fn injected_packets_arrive_at_a_gateway_and_at_an_endpoint() {
    if !can_run() {
        return;
    }
    let gateway = Gateway::new();
    let local = Local::new();
    for (client, proxy, server) in [
        (&gateway.client, &gateway.gateway, &gateway.server),
        (&local.client, &local.client, &local.server),
    ] {
        for engine in ["inject-data", "inject-all"] {
            let daemon = Daemon::start(proxy, "client-side", engine, SETTINGS);
            for address in SERVER {
                let before = status(proxy, 9470).counters["injected_bytes"];
                let echo = Echo::start(server, address, PORT);
                let mut stream = connect(client, echo.address);
                // Little enough for the first window, so that nothing has to be repeated.
                exchange(&mut stream, 10_000);
                // What has arrived may not be counted yet.
                wait_until(&format!("{engine} {address}"), || {
                    status(proxy, 9470).counters["injected_bytes"] >= before + 20_000
                });
                let after = status(proxy, 9470).counters;
                assert_eq!(after["inject_refused"], 0, "{engine} {address}");
                assert_eq!(after["inject_too_long"], 0);
                exchange(&mut stream, 200_000);
            }
            assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
        }
        assert_eq!(
            proxy.invalid_dropped() + client.invalid_dropped() + server.invalid_dropped(),
            0
        );
    }
}

#[test]
fn with_address_translation_on_the_box_the_queue_sees_inner_addresses_and_injection_works() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    net.gateway
        .run("iptables -t nat -A POSTROUTING -o lnk0 -j MASQUERADE");
    net.gateway
        .run("ip6tables -t nat -A POSTROUTING -o lnk0 -j MASQUERADE");
    net.server.run("ip route del default");
    net.server.run("ip -6 route del default");
    for engine in [
        "pass-through",
        "inject-data",
        "swap-case",
        "leave-with-data",
    ] {
        let daemon = Daemon::start(&net.gateway, "client-side", engine, SETTINGS);
        for address in SERVER {
            let echo = Echo::start(&net.server, address, PORT);
            let mut stream = connect(&net.client, echo.address);
            match engine {
                "swap-case" => {
                    stream.write_all(b"Hello").expect("the connection stands");
                    let mut answer = [0; 5];
                    stream
                        .read_exact(&mut answer)
                        .expect("the connection stands");
                    assert_eq!(&answer, b"hELLO");
                }
                _ => exchange(&mut stream, 100_000),
            }
        }
        let counters = status(&net.gateway, 9470).counters;
        assert_eq!(counters["inject_refused"], 0, "{engine}");
        assert!(
            counters["queue_packets"] > 10,
            "both directions are seen with {engine}"
        );
        assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
    }
    assert_eq!(
        net.gateway.invalid_dropped() + net.client.invalid_dropped(),
        0
    );
}

#[test]
fn two_daemons_on_one_box_do_not_disturb_each_other() {
    if !can_run() {
        return;
    }
    // Every packet crosses both: the box is the client side of one link and the server side of the
    // other.
    let net = Gateway::new();
    let one = Daemon::start(&net.gateway, "client-side", "leave-with-data", SETTINGS);
    let two = Daemon::start(
        &net.gateway,
        "server-side",
        "inject-data",
        "link = 'near0'\nadmin = '127.0.0.1:9471'",
    );
    let rules = net.gateway.rules();
    assert!(
        rules.contains("tandem-c-lnk0") && rules.contains("tandem-s-near0"),
        "{rules}"
    );
    for address in SERVER {
        let echo = Echo::start(&net.server, address, PORT);
        let mut stream = connect(&net.client, echo.address);
        exchange(&mut stream, 1000);
        let before = [9470, 9471].map(|port| status(&net.gateway, port).counters["queue_packets"]);
        exchange(&mut stream, 100_000);
        let after = [9470, 9471].map(|port| status(&net.gateway, port).counters["queue_packets"]);
        assert!(
            after[1] >= before[1] + 140,
            "what one lets leave stays in the queue of the other"
        );
    }
    assert_eq!(one.end(Signal::SIGTERM).code, Some(0));
    let rest = net.gateway.rules();
    assert!(
        !rest.contains("tandem-c-lnk0") && rest.contains("tandem-s-near0"),
        "{rest}"
    );
    let echo = Echo::start(&net.server, SERVER[0], 443 + 1);
    exchange(&mut connect(&net.client, echo.address), 1000);
    assert_eq!(two.end(Signal::SIGTERM).code, Some(0));
    assert!(!net.gateway.rules().contains("tandem"));
}

#[test]
fn packets_that_wait_at_the_end_are_let_go() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let daemon = Daemon::start(&net.gateway, "client-side", "keep-all", SETTINGS);
    let sniffers = [sniffer(&net.client), sniffer(&net.server)];
    std::thread::scope(|scope| {
        let echo = Echo::start(&net.server, SERVER[0], PORT);
        let client = &net.client;
        let connecting = scope.spawn(move || connect(client, echo.address));
        wait_until("the SYN is held", || {
            status(&net.gateway, 9470).counters["queue_packets"] > 0
        });
        assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
        exchange(&mut connecting.join().expect("it connects"), 1000);
    });
    // However often the client had to repeat it: what it sent has arrived.
    let [sent, arrived] = sniffers.map(|sniffer| syns(&sniffer));
    assert_eq!(sent, arrived);
    assert!(sent > 0);
}

#[test]
fn packets_that_the_engine_forgets_are_let_go() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let settings = format!("{SETTINGS}hold-ms = 0\n");
    let daemon = Daemon::start(&net.gateway, "client-side", "keep-all", &settings);
    let echo = Echo::start(&net.server, SERVER[0], PORT);
    let _stream = connect(&net.client, echo.address);
    assert!(status(&net.gateway, 9470).counters["verdicts_overdue"] > 0);
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
}

#[test]
fn a_link_that_goes_and_comes_back_is_followed() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let daemon = Daemon::start(&net.gateway, "client-side", "inject-all", SETTINGS);
    net.gateway.run("ip link del lnk0");
    wire((&net.gateway, "lnk0"), (&net.server, "s0"), 2);
    net.server.run("ip route add default via 10.2.0.1");
    net.server.run("ip -6 route add default via fd00:2::1");
    for address in SERVER {
        let echo = Echo::start(&net.server, address, PORT);
        exchange(&mut connect(&net.client, echo.address), 10_000);
    }
    let counters = status(&net.gateway, 9470).counters;
    assert!(counters["injected_bytes"] >= 40_000, "{counters:?}");
    assert_eq!(counters["inject_refused"], 0, "{counters:?}");
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
}

#[test]
fn an_overflow_fails_open_and_is_counted_to_the_packet() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let daemon = Daemon::start(&net.gateway, "client-side", "slow-start", SETTINGS);
    // More than the netlink buffer holds while the engine sleeps. No connection tracking, which
    // such a flood would fill.
    net.gateway
        .run("iptables -t raw -A PREROUTING -p tcp -j CT --notrack");
    net.client.inside(|| flood(60_000));
    let queued = "-A tandem-c-lnk0 -j NFQUEUE";
    wait_until("all packets that met the rule are accounted for", || {
        let counters = status(&net.gateway, 9470).counters;
        counters["queue_packets"] + counters["queue_passed_by_packets"] == net.gateway.hits(queued)
    });
    let counters = status(&net.gateway, 9470).counters;
    assert!(counters["queue_passed_by_packets"] > 0, "{counters:?}");
    assert!(counters["queue_overflows"] > 0, "{counters:?}");
    let echo = Echo::start(&net.server, SERVER[0], PORT);
    exchange(&mut connect(&net.client, echo.address), 1000);
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
}

#[test]
fn the_packet_engine_runs_with_its_store() {
    if !can_run() {
        return;
    }
    let net = Gateway::new();
    let (_directory, path) = store();
    let key = path.with_file_name("key");
    std::fs::write(&key, "5a".repeat(32)).expect("writable");
    let settings = format!(
        "{SETTINGS}key = '{}'\nstore = '{}'\n",
        key.display(),
        path.display()
    );
    let daemon = Daemon::start(&net.gateway, "client-side", "packet", &settings);
    for address in SERVER {
        let echo = Echo::start(&net.server, address, PORT);
        exchange(&mut connect(&net.client, echo.address), 100_000);
    }
    let answer = status(&net.gateway, 9470);
    assert_eq!(answer.mode, "packet");
    assert!(answer.counters["packet_flows_opened"] >= 2, "{answer:?}");
    wait_until("gauges are shown", || {
        status(&net.gateway, 9470)
            .gauges
            .contains_key("store_bytes")
    });
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
    assert!(path.is_dir());
}

#[test]
fn a_third_host_behind_the_link_is_reached_past_the_queue_by_name_only() {
    if !can_run() {
        return;
    }
    // Another interface whose name begins like the link's is none of the daemon's business.
    let net = Gateway::new();
    let other = Host::new("other");
    wire((&net.gateway, "lnk01"), (&other, "o0"), 3);
    other.run("ip route add default via 10.3.0.1");
    let daemon = Daemon::start(&net.gateway, "client-side", "pass-through", SETTINGS);
    let echo = Echo::start(&other, "10.3.0.2", PORT);
    exchange(&mut connect(&net.client, echo.address), 1000);
    assert_eq!(status(&net.gateway, 9470).counters["queue_packets"], 0);
    assert_eq!(daemon.end(Signal::SIGTERM).code, Some(0));
}

/// A socket that sees every frame of `host` from now on.
fn sniffer(host: &Host) -> OwnedFd {
    host.inside(|| {
        socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        )
        .expect("root may sniff")
    })
}

/// The next TCP packet to port 443 for which `wanted` holds.
fn next_packet(sniffer: &OwnedFd, wanted: impl Fn(&TcpPacket<'_>) -> bool) -> Vec<u8> {
    let mut frame = vec![0; 1 << 16];
    loop {
        let length =
            recv(sniffer.as_raw_fd(), &mut frame, MsgFlags::empty()).expect("frames arrive");
        let bytes = &frame[ETHERNET_HEADER.min(length)..length];
        if let Ok(packet) = TcpPacket::parse(bytes)
            && packet.destination().port() == PORT
            && wanted(&packet)
        {
            return packet.bytes().to_vec();
        }
    }
}

/// How many SYNs were seen so far.
fn syns(sniffer: &OwnedFd) -> usize {
    let mut frame = vec![0; 1 << 16];
    let mut count = 0;
    while let Ok(length) = recv(sniffer.as_raw_fd(), &mut frame, MsgFlags::MSG_DONTWAIT) {
        let bytes = &frame[ETHERNET_HEADER.min(length)..length];
        if let Ok(packet) = TcpPacket::parse(bytes) {
            count += usize::from(packet.flags() == TcpFlags::SYN);
        }
    }
    count
}

/// Sends `count` SYNs from as many ports and addresses.
fn flood(count: u32) {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Raw,
    )
    .expect("root may");
    let destination = SockaddrIn::new(10, 2, 0, 2, 0);
    for number in 0..count {
        let [_, _, high, low] = number.to_be_bytes();
        let segment = SegmentRepr {
            source: std::net::SocketAddr::from((
                [10, 1, 0, 1],
                1024 + u16::from_be_bytes([high, low]) % 60_000,
            )),
            destination: std::net::SocketAddr::from(([10, 2, 0, 2], PORT)),
            seq: Seq(number),
            ack: Seq(0),
            flags: TcpFlags::SYN,
            window: 1000,
            options: Vec::new(),
            payload: Vec::new(),
            hop_limit: 64,
        };
        let _ = sendto(
            socket.as_raw_fd(),
            &segment.build(),
            &destination,
            MsgFlags::empty(),
        );
    }
}
