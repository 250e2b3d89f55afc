//! Interception against the kernel, in network namespaces that are made here, and its rules.
//!
//! Everything made here is taken down when it is dropped, on a panic too.

mod net;
mod rules;
mod udp;

use std::net::IpAddr;
use std::time::Duration;

use tandem_firewall::{FirewallError, LeftBehind};

use super::*;
use crate::intake::passing_on::PassingOn;
use net::{BY_LINK, BY_OTHER, CLIENT, GATEWAY, Net, PATIENCE, SERVER, at, next, next_way};

fn taken<'a>(from: &[&str], ports: &'a [u16]) -> Taken<'a> {
    let name = |name: &str| LinkName::new(name).expect("a good name");
    Taken {
        link: name("lnk0"),
        from: from.iter().copied().map(name).collect(),
        ports,
        peer: PEER.parse().expect("an address"),
        intercept: Intercept::Redirect,
        udp: Udp::Pass,
        when_down: WhenDown::Pass,
    }
}

/// The daemon makes no connections by the link.
const MARKS: Marks = Marks {
    own: None,
    delivered: None,
    answers: None,
};

/// The server side.
const PEER: &str = "192.0.2.1:443";

/// Takes what would leave by this interface, from any other.
fn open(link: &str, ports: &[u16]) -> Result<Redirect, TunnelError> {
    open_from(&[], link, ports)
}

fn open_from(from: &[&str], link: &str, ports: &[u16]) -> Result<Redirect, TunnelError> {
    let link = config::Link {
        from: from.iter().copied().map(str::to_owned).collect(),
        ..configured(link, ports)
    };
    Redirect::open(&link, Own::None)
}

/// The same, once the one before is gone: while another test starts a program, that holds the lock,
/// too, for a moment.
async fn reopened(from: &[&str], link: &str, ports: &[u16]) -> Redirect {
    once_free(|| open_from(from, link, ports)).await
}

async fn once_free(open: impl Fn() -> Result<Redirect, TunnelError>) -> Redirect {
    let opened = async {
        loop {
            match open() {
                Err(TunnelError::Firewall(FirewallError::AlreadyRunning { .. })) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                opened => return opened.expect("it can be set"),
            }
        }
    };
    let opened = tokio::time::timeout(Duration::from_secs(20), opened).await;
    opened.expect("the lock is given back")
}

fn open_by(intercept: Intercept, ports: &[u16]) -> Redirect {
    let link = config::Link {
        intercept,
        ..configured("lnk0", ports)
    };
    Redirect::open(&link, Own::None).expect("it can be set")
}

fn configured(link: &str, ports: &[u16]) -> config::Link {
    config::Link {
        interface: link.to_owned(),
        from: Vec::new(),
        ports: ports.to_vec(),
        peer: PEER.parse().expect("an address"),
        intercept: Intercept::Redirect,
        udp: Udp::Pass,
        when_down: config::WhenDown::Fail,
    }
}

#[test]
fn connections_are_redirected_with_their_destination_until_the_rules_are_removed() {
    are_taken_with_their_destination(Intercept::Redirect);
}

#[test]
fn connections_are_taken_by_tproxy_with_their_destination_until_the_rules_are_removed() {
    are_taken_with_their_destination(Intercept::Tproxy);
}

fn are_taken_with_their_destination(intercept: Intercept) {
    let Some(net) = Net::new() else { return };
    let before = net.rules();
    net.inside(GATEWAY, async || {
        let mut redirect = open_by(intercept, &[443]);
        let listeners = redirect.take_listeners();
        let link = redirect.led_to().clone();
        let own = listeners[0].local_addr().expect("bound").port();
        let mut cases = Vec::new();
        for version in [0, 1] {
            let [by_link, by_other] = [BY_LINK, BY_OTHER].map(|of| at(of[version], 443));
            let itself = at(["10.1.0.2", "fd00:1::2"][version], own);
            cases.push((CLIENT, by_link, Way::Tunnel(by_link)));
            cases.push((GATEWAY, by_link, Way::Tunnel(by_link)));
            cases.push((CLIENT, by_other, Way::PassOn(by_other)));
            cases.push((CLIENT, itself, Way::Nowhere));
        }
        for (host, to, expected) in cases {
            let stream = net.connect(host, to).expect("it is taken in");
            let found = next_way(&listeners, &link).await;
            assert_eq!(found, expected, "from {host} to {to}");
            drop(stream);
        }
        // Other ports, this machine itself, and other interfaces of local programs are left alone.
        for (host, to) in [
            (CLIENT, at(BY_LINK[0], 444)),
            (CLIENT, at("10.2.0.1", 443)),
            (GATEWAY, at(BY_OTHER[0], 443)),
        ] {
            let error = net.connect(host, to).expect_err("nobody listens there");
            assert_eq!(
                error.kind(),
                io::ErrorKind::ConnectionRefused,
                "{host} {to}"
            );
        }
        redirect.remove().await.expect("they can be removed");
    });
    assert_eq!(net.rules(), before);
}

#[test]
fn connections_that_are_older_than_the_rules_go_on_without_having_been_tracked() {
    use std::io::{Read as _, Write as _};

    for intercept in [Intercept::Tproxy, Intercept::Redirect] {
        // A new one: from the first rule of `nat` on, the kernel tracks connections.
        let Some(net) = Net::new() else { return };
        let server = at(BY_LINK[0], 443);
        let listening = net
            .inside(SERVER, async || std::net::TcpListener::bind(server))
            .expect("a free port");
        let mut client = net.connect(CLIENT, server).expect("it listens");
        let (mut end, _) = listening.accept().expect("it came");
        end.set_read_timeout(Some(PATIENCE)).expect("a socket");
        net.inside(GATEWAY, async || {
            let redirect = open_by(intercept, &[443]);
            client.write_all(b"still").expect("it stands");
            let mut read = [0; 5];
            let came = end.read_exact(&mut read);
            came.unwrap_or_else(|error| panic!("{intercept:?}: {error}"));
            assert_eq!(&read, b"still");
            redirect.remove().await.expect("they can be removed");
        });
    }
}

#[test]
fn tproxy_takes_connections_that_the_kernel_does_not_track() {
    use std::io::{Read as _, Write as _};

    let Some(net) = Net::new() else { return };
    for program in ["iptables", "ip6tables"] {
        for chain in ["PREROUTING", "OUTPUT"] {
            let rule = format!("{program} -t raw -A {chain} -p tcp -j CT --notrack");
            net.run(GATEWAY, &rule);
        }
    }
    net.inside(GATEWAY, async || {
        let mut redirect = open_by(Intercept::Tproxy, &[443]);
        let listeners = redirect.take_listeners();
        for address in BY_LINK {
            let server = at(address, 443);
            let mut client = net.connect(CLIENT, server).expect("it is taken in");
            let taken = next(&listeners).await;
            assert_eq!(way(&taken, redirect.led_to()), Way::Tunnel(server));
            assert_eq!(
                taken.peer_addr().expect("it stands"),
                client.local_addr().expect("it stands")
            );
            // Both ways, and further packets than the first.
            let mut taken = taken.into_std().expect("a socket");
            taken.set_nonblocking(false).expect("ours");
            taken.set_read_timeout(Some(PATIENCE)).expect("a socket");
            client.set_read_timeout(Some(PATIENCE)).expect("a socket");
            let mut read = [0; 5];
            client.write_all(b"there").expect("it stands");
            taken.read_exact(&mut read).expect("it comes");
            taken.write_all(&read).expect("it stands");
            client.read_exact(&mut read).expect("it comes");
            assert_eq!(&read, b"there");
        }
    });
}

#[test]
fn what_a_killed_daemon_with_other_settings_left_goes_whole() {
    let Some(net) = Net::new() else { return };
    let before = net.rules();
    net.inside(GATEWAY, async || {
        let other = Taken {
            intercept: Intercept::Tproxy,
            udp: Udp::Reject,
            ..taken(&[], &[443])
        };
        let marks = Marks {
            delivered: Some(0x2000_0000),
            ..MARKS
        };
        let left = Firewall::here().install(rules(&other, 9, marks));
        std::mem::forget(left.expect("they can be set"));
        for of_it in ["TPROXY", "REJECT", "fwmark"] {
            assert!(net.rules().contains(of_it), "{of_it}");
        }
        let redirect = open("lnk0", &[443]).expect("it can be set");
        for of_it in ["TPROXY", "REJECT", "fwmark"] {
            assert!(!net.rules().contains(of_it), "{of_it}: {}", net.rules());
        }
        redirect.remove().await.expect("they can be removed");
    });
    assert_eq!(net.rules(), before);
}

#[test]
fn other_machines_elsewhere_than_on_named_interfaces_are_left_alone() {
    let Some(net) = Net::new() else { return };
    net.inside(GATEWAY, async || {
        let by_link = at(BY_LINK[0], 443);
        let redirect = open_from(&["other0"], "lnk0", &[443]).expect("it can be set");
        // It is forwarded, and the server refuses it.
        let error = net.connect(CLIENT, by_link).expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        net.connect(GATEWAY, by_link).expect("it is taken in");
        redirect.remove().await.expect("they can be removed");
        let _redirect = reopened(&["near0"], "lnk0", &[443]).await;
        net.connect(CLIENT, by_link).expect("it is taken in");
    });
}

#[test]
fn a_route_by_port_and_source_is_followed() {
    let Some(net) = Net::new() else { return };
    for line in [
        "ip rule add from 10.1.0.0/24 ipproto tcp dport 443 table 100",
        "ip route add default via 10.3.0.2 table 100",
    ] {
        net.run(GATEWAY, line);
    }
    net.inside(GATEWAY, async || {
        let mut redirect = open("lnk0", &[443, 444]).expect("it can be set");
        let listeners = redirect.take_listeners();
        let link = redirect.led_to().clone();
        for (to, expected) in [
            (at(BY_LINK[0], 443), Way::PassOn(at(BY_LINK[0], 443))),
            (at(BY_LINK[0], 444), Way::Tunnel(at(BY_LINK[0], 444))),
        ] {
            let stream = net.connect(CLIENT, to).expect("it is taken in");
            assert_eq!(next_way(&listeners, &link).await, expected);
            drop(stream);
        }
    });
}

#[test]
fn what_another_interface_leads_to_is_passed_on_and_watched() {
    use std::io::{Read as _, Write as _};

    let Some(net) = Net::new() else { return };
    let server = at(BY_OTHER[0], 443);
    let listening = net
        .inside(SERVER, async || std::net::TcpListener::bind(server))
        .expect("a free port");
    net.inside(GATEWAY, async || {
        let mut redirect = open("lnk0", &[443]).expect("it can be set");
        let listeners = redirect.take_listeners();
        let mut client = net.connect(CLIENT, server).expect("it is taken in");
        let (stream, _) = listeners[0].accept().await.expect("it comes");
        assert_eq!(way(&stream, redirect.led_to()), Way::PassOn(server));
        PassingOn::new().start(stream, Vec::new(), TcpStream::connect(server));
        let echoed = tokio::task::spawn_blocking(move || {
            let (mut end, _) = listening.accept()?;
            client.write_all(b"there")?;
            let mut read = [0; 5];
            end.read_exact(&mut read)?;
            end.write_all(&read)?;
            client.read_exact(&mut read)?;
            assert_eq!(&read, b"there");
            io::Result::Ok((client, end))
        });
        let _ends = echoed.await.expect("no panic").expect("it stands");
        // An endpoint that is gone without a word is found out. Until all is acknowledged, the
        // timers are others.
        let asked = || net.run(GATEWAY, "ss -Htno").matches("(keepalive,").count();
        let end = std::time::Instant::now() + PATIENCE;
        while asked() != 2 {
            assert!(std::time::Instant::now() < end, "{} of 2", asked());
        }
    });
}

#[test]
fn what_a_killed_daemon_left_is_replaced_by_the_next_and_found_by_off() {
    let Some(net) = Net::new() else { return };
    let before = net.rules();
    net.inside(GATEWAY, async || {
        // Rules without a daemon.
        let leave = || {
            let installed = Firewall::here().install(rules(&taken(&[], &[443]), 9, MARKS));
            std::mem::forget(installed.expect("they can be set"));
        };
        leave();
        let redirect = open("lnk0", &[443]).expect("it can be set");
        assert!(!net.rules().contains("--to-ports 9\n"), "{}", net.rules());
        assert_eq!(net.rules().matches("REDIRECT").count(), 2);
        drop(redirect);
        assert_eq!(net.rules(), before, "dropping it removes them");
        leave();
        let removed = Firewall::here().clear().removed;
        assert!(removed.iter().all(|(_, chain)| chain == "tandem-t-lnk0"));
        assert_eq!(removed.len(), 2);
    });
    assert_eq!(net.rules(), before);
}

#[test]
fn an_interface_that_comes_after_the_start_is_the_link_all_the_same() {
    for intercept in [Intercept::Redirect, Intercept::Tproxy] {
        // A new one: another test's program may hold the lock for a moment longer.
        let Some(net) = Net::new() else { return };
        net.inside(GATEWAY, async || {
            let link = config::Link {
                intercept,
                ..configured("late0", &[443])
            };
            let mut redirect = Redirect::open(&link, Own::None).expect("it can be set");
            let listeners = redirect.take_listeners();
            net.wire((GATEWAY, "late0"), (SERVER, "l0"), 4);
            for server in ["10.4.0.2", "fd00:4::2"].map(|address| at(address, 443)) {
                for host in [CLIENT, GATEWAY] {
                    let _client = net.connect(host, server).expect("it is taken in");
                    let found = next_way(&listeners, redirect.led_to()).await;
                    assert_eq!(found, Way::Tunnel(server), "from {host}");
                }
            }
            redirect.remove().await.expect("they can be removed");
        });
    }
}

#[test]
fn one_daemon_takes_a_link() {
    let Some(net) = Net::new() else { return };
    net.inside(GATEWAY, async || {
        let _first = open("lnk0", &[443]).expect("it can be set");
        let error = open("lnk0", &[443]).expect_err("taken");
        assert!(error.to_string().contains("another tandem client-side"));
    });
}

#[test]
fn what_goes_to_the_server_side_is_left_alone() {
    let Some(net) = Net::new() else { return };
    // Over IPv6 the server has no way back to the client.
    for (version, hosts) in [(0, &[CLIENT, GATEWAY][..]), (1, &[GATEWAY])] {
        let peer = at(BY_LINK[version], 443);
        let other = at(BY_LINK[1 - version], 443);
        net.inside(GATEWAY, async || {
            let link = config::Link {
                peer,
                ..configured("lnk0", &[443])
            };
            let mut redirect = once_free(|| Redirect::open(&link, Own::None)).await;
            let listeners = redirect.take_listeners();
            for host in hosts {
                // Nobody listens there.
                let error = net.connect(host, peer).expect_err("not taken in");
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{host}");
            }
            let _client = net.connect(GATEWAY, other).expect("taken in");
            let link = redirect.led_to().clone();
            assert_eq!(next_way(&listeners, &link).await, Way::Tunnel(other));
            redirect.remove().await.expect("it can be removed");
        });
    }
}
