//! UDP against the kernel: rejected, passed, or taken for the tunnel.

use std::net::UdpSocket;

use tandem_wire::udp::UdpPacket;

use super::*;

/// UDP to port 443 for the tunnel, likewise.
async fn udp_taken(from: &[&str], when_down: WhenDown) -> Redirect {
    let link = config::Link {
        from: from.iter().copied().map(str::to_owned).collect(),
        udp: Udp::Tunnel,
        when_down,
        ..configured("lnk0", &[443])
    };
    once_free(|| Redirect::open(&link, Own::None)).await
}

/// A socket of `host` that has said something to a server.
fn asking(net: &Net, host: &str, server: SocketAddr) -> io::Result<UdpSocket> {
    net.inside(host, async || {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(server)?;
        socket.send(b"anybody?")?;
        Ok(socket)
    })
}

#[test]
fn udp_that_would_leave_by_the_link_is_rejected_at_once() {
    let Some(net) = Net::new() else { return };
    // A firewall that lets everything pass, and has been there before.
    for program in ["iptables", "ip6tables"] {
        net.run(GATEWAY, &format!("{program} -A FORWARD -j ACCEPT"));
    }
    let before = net.rules();
    let link = config::Link {
        udp: Udp::Reject,
        ..configured("lnk0", &[443])
    };
    for address in BY_LINK {
        let server = at(address, 443);
        let listening = net.inside(SERVER, async || UdpSocket::bind(server));
        let listening = listening.expect("a free port");
        listening.set_nonblocking(true).expect("ours");
        net.inside(GATEWAY, async || {
            let redirect = once_free(|| Redirect::open(&link, Own::None)).await;
            let client = asking(&net, CLIENT, server).expect("it can be sent");
            let refused = loop {
                let refused = client.recv(&mut [0; 16]).expect_err("nobody answers");
                // A signal, such as that of another test's child.
                if refused.kind() != io::ErrorKind::Interrupted {
                    break refused;
                }
            };
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "{server}");
            // What the kernel says of a rule in OUTPUT.
            let refused = asking(&net, GATEWAY, server).expect_err("it cannot be sent");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{server}");
            redirect.remove().await.expect("they can be removed");
        });
        let error = listening.recv(&mut [0; 16]).expect_err("nothing came");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
    assert_eq!(net.rules(), before);
}

/// What waits at this socket, or comes in time.
fn came(socket: &UdpSocket) -> io::Result<usize> {
    loop {
        match socket.recv(&mut [0; 16]) {
            // A signal, such as that of another test's child.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// A child that another test starts has the queue, too, for a moment.
fn wait_for_no_queue() {
    let end = std::time::Instant::now() + PATIENCE;
    let bound = || std::fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue");
    while !bound().expect("it is there").is_empty() {
        assert!(std::time::Instant::now() < end, "somebody has it");
    }
}

#[test]
fn udp_that_nobody_reads_passes_or_is_dropped_as_while_the_tunnel_is_down() {
    let Some(net) = Net::new() else { return };
    for (when_down, passes) in [(WhenDown::Pass, true), (WhenDown::Fail, false)] {
        for address in BY_LINK {
            let [taken, other] = [443, 444].map(|port| {
                let socket = net.inside(SERVER, async || UdpSocket::bind(at(address, port)));
                let socket = socket.expect("a free port");
                socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
                socket
            });
            net.inside(GATEWAY, async || {
                let mut redirect = udp_taken(&[], when_down).await;
                // What a daemon does that stops, or is killed.
                drop(redirect.take_datagrams());
                wait_for_no_queue();
                for host in [CLIENT, GATEWAY] {
                    // They go one after the other.
                    for port in [443, 444] {
                        asking(&net, host, at(address, port)).expect("it can be sent");
                    }
                    came(&other).expect("nobody takes it");
                    taken.set_nonblocking(!passes).expect("a socket");
                    assert_eq!(came(&taken).is_ok(), passes, "{host} {address}");
                }
                redirect.remove().await.expect("they can be removed");
            });
        }
    }
}

/// Who has sent the next datagram that is taken.
fn next_client(queued: &mut Queued) -> SocketAddr {
    let end = std::time::Instant::now() + PATIENCE;
    let mut client = None;
    while client.is_none() {
        assert!(std::time::Instant::now() < end, "none comes");
        let received = queued.queue.receive(|packet, _| {
            let datagram = UdpPacket::parse(packet.bytes).expect("it is UDP");
            client = client.or(Some(datagram.source));
        });
        received.expect("it can be read");
    }
    client.expect("it came")
}

#[test]
fn udp_of_machines_on_the_links_own_network_is_left_alone() {
    let Some(net) = Net::new() else { return };
    // The server has the gateway forward to a network that is behind the server itself.
    net.run(GATEWAY, "ip route add 10.9.0.0/24 via 10.2.0.2");
    net.run(GATEWAY, "ip -6 route add fd00:9::/64 via fd00:2::2");
    net.run(SERVER, "ip -6 route add fd00:9::/64 via fd00:2::1");
    net.inside(GATEWAY, async || {
        let mut redirect = udp_taken(&[], WhenDown::Fail).await;
        let mut queued = redirect.take_datagrams().expect("it is wanted");
        for (beyond, by_link) in [("10.9.0.1", BY_LINK[0]), ("fd00:9::1", BY_LINK[1])] {
            asking(&net, SERVER, at(beyond, 443)).expect("it can be sent");
            let client = asking(&net, CLIENT, at(by_link, 443)).expect("it can be sent");
            let client = client.local_addr().expect("it is connected");
            assert_eq!(next_client(&mut queued), client);
        }
        redirect.remove().await.expect("they can be removed");
    });
}

#[test]
fn where_interfaces_are_named_udp_of_this_machine_is_taken_unless_it_is_translated() {
    let Some(net) = Net::new() else { return };
    let translation = "-d 10.2.0.9 -p udp -j DNAT --to-destination 10.2.0.2";
    net.run(GATEWAY, &format!("iptables -t nat -A OUTPUT {translation}"));
    let before = net.rules();
    let server = at(BY_LINK[0], 443);
    let listening = net.inside(SERVER, async || UdpSocket::bind(server));
    let listening = listening.expect("a free port");
    let set = listening.set_read_timeout(Some(PATIENCE));
    set.expect("a socket");
    net.inside(GATEWAY, async || {
        let mut redirect = udp_taken(&["other0"], WhenDown::Fail).await;
        let mut queued = redirect.take_datagrams().expect("it is wanted");
        for (host, to) in [(GATEWAY, at("10.2.0.9", 443)), (CLIENT, server)] {
            asking(&net, host, to).expect("it can be sent");
            came(&listening).expect("it is left alone");
        }
        let own = asking(&net, GATEWAY, server).expect("it can be sent");
        let own = own.local_addr().expect("it is connected");
        assert_eq!(next_client(&mut queued), own);
        redirect.remove().await.expect("they can be removed");
    });
    assert_eq!(net.rules(), before);
}
