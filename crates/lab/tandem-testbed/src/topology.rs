//! The lab's four hosts and what joins them.
//!
//! ```text
//!   client ------------- client-side ============== server-side ------------- server
//!   eth0    veth pair    lan0   link0  emulated link  link0  lan0   veth pair   eth0
//!   10.77.1.2       10.77.1.1   10.77.2.1        10.77.2.2   10.77.3.1       10.77.3.2
//!   fd77:1::2       fd77:1::1   fd77:2::1        fd77:2::2   fd77:3::1       fd77:3::2
//! ```
//!
//! With [`Gateways::Two`] there are two more, A' and B' of the thesis, each with a cable of its own
//! to its endpoint; the link is one medium that any of the client sides and any of the server sides
//! may be reached by ([`crate::emulator::Emulator::lead`]):
//!
//! ```text
//!   client -- eth1   lan0 other-client-side link0 == the link == link0 other-server-side lan0   eth1 -- server
//!        10.77.4.2   10.77.4.1        10.77.2.11          10.77.2.12            10.77.5.1   10.77.5.2
//! ```
//!
//! Endpoints keep their addresses on whichever way they are reached. IPv4 only.
//!
//! The gateways forward; every other setting of the kernel is left as it is, TCP's in particular.
//! The link's two ends are TUN devices, whose descriptors the emulator reads and writes. All
//! addresses exist inside the namespaces only.
//!
//! Invariant: when a [`Topology`] is dropped, nothing of it is left, unless it was told to stay.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::LabError;
use crate::lease::{self, Lease};
use crate::netns::Namespace;
use crate::tun;

/// The link's device in both gateways: what the daemons are given as `--link`.
pub const LINK_DEVICE: &str = "link0";

/// One of the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host {
    /// Where the client program runs.
    Client,
    /// The gateway at the client's end of the link.
    ClientSide,
    /// The gateway at the server's end of the link.
    ServerSide,
    /// Where the server program runs.
    Server,
    /// Another gateway at the client's end.
    OtherClientSide,
    /// Another gateway at the server's end.
    OtherServerSide,
}

impl Host {
    /// The four that every topology has, from client to server.
    pub const ALL: [Host; 4] = [
        Host::Client,
        Host::ClientSide,
        Host::ServerSide,
        Host::Server,
    ];

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Host::Client => "client",
            Host::ClientSide => "client-side",
            Host::ServerSide => "server-side",
            Host::Server => "server",
            Host::OtherClientSide => "other-client-side",
            Host::OtherServerSide => "other-server-side",
        }
    }

    /// Which daemon belongs there; `None` for the endpoints.
    pub fn role(self) -> Option<&'static str> {
        match self {
            Host::Client | Host::Server => None,
            Host::ClientSide | Host::OtherClientSide => Some("client-side"),
            Host::ServerSide | Host::OtherServerSide => Some("server-side"),
        }
    }

    /// The host with this name.
    ///
    /// # Errors
    /// `Usage`, with the names that there are.
    pub fn by_name(name: &str) -> Result<Host, LabError> {
        Host::ALL
            .into_iter()
            .find(|host| host.name() == name)
            .ok_or_else(|| {
                LabError::usage(
                    format!("host {name}"),
                    "the hosts are client, client-side, server-side, server",
                )
            })
    }
}

/// The address of the first server-side gateway on the link.
pub const SERVER_SIDE_ON_LINK: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 2);

/// The server's networks, one of each family.
pub const SERVER_NETWORKS: [&str; 2] = ["10.77.3.0/24", "fd77:3::/64"];

/// Which family of addresses an experiment uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// The client's address.
pub fn client_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 77, 1, 2).into(),
        Family::V6 => Ipv6Addr::new(0xfd77, 1, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// The server's address.
pub fn server_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 77, 3, 2).into(),
        Family::V6 => Ipv6Addr::new(0xfd77, 3, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// How many gateways stand at each end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gateways {
    /// One: the four hosts.
    One,
    /// Two: six hosts.
    Two,
}

/// One of two gateways at the same end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The one that every topology has.
    First,
    /// That of [`Gateways::Two`].
    Other,
}

impl Place {
    /// The gateway at the client's end.
    pub fn client_side(self) -> Host {
        match self {
            Place::First => Host::ClientSide,
            Place::Other => Host::OtherClientSide,
        }
    }

    /// The gateway at the server's end.
    pub fn server_side(self) -> Host {
        match self {
            Place::First => Host::ServerSide,
            Place::Other => Host::OtherServerSide,
        }
    }
}

/// Hosts in namespaces of their own.
#[derive(Debug)]
pub struct Topology {
    hosts: [Namespace; 4],
    /// The other client side and the other server side.
    others: Option<[Namespace; 2]>,
    lease: Lease,
}

/// The descriptors of the link's TUN devices, the first gateway's first.
#[derive(Debug)]
pub struct LinkEnds {
    /// In the client-side gateways.
    pub client_sides: Vec<OwnedFd>,
    /// In the server-side gateways.
    pub server_sides: Vec<OwnedFd>,
}

impl Topology {
    /// Builds it under a name that is free.
    ///
    /// # Errors
    /// `NotRoot`, `Kernel`, `ProgramMissing`, `Command`, `Io`; what was built by then is taken down
    /// again.
    pub fn build(mtu: usize) -> Result<(Self, LinkEnds), LabError> {
        Self::build_under(Lease::any()?, mtu)
    }

    /// The same with so many gateways.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn build_with(mtu: usize, gateways: Gateways) -> Result<(Self, LinkEnds), LabError> {
        let (mut topology, mut ends) = Self::build(mtu)?;
        match gateways {
            Gateways::One => {}
            Gateways::Two => topology.add_others(mtu, &mut ends)?,
        }
        Ok((topology, ends))
    }

    fn add_others(&mut self, mtu: usize, ends: &mut LinkEnds) -> Result<(), LabError> {
        let create =
            |host: Host| Namespace::create(&lease::namespace(self.lease.name(), host.name()));
        self.others = Some([
            create(Host::OtherClientSide)?,
            create(Host::OtherServerSide)?,
        ]);
        for (end, gateway) in [
            (Host::Client, Host::OtherClientSide),
            (Host::Server, Host::OtherServerSide),
        ] {
            crate::command::ip(&format!(
                "link add eth1 netns {} type veth peer name lan0 netns {}",
                self.host(end).name(),
                self.host(gateway).name()
            ))?;
        }
        let device = |host: Host| self.host(host).run(|| tun::create(LINK_DEVICE));
        ends.client_sides.push(device(Host::OtherClientSide)?);
        ends.server_sides.push(device(Host::OtherServerSide)?);
        for (end, gateway, network, lan) in [
            (Host::Client, Host::OtherClientSide, 1, 4),
            (Host::Server, Host::OtherServerSide, 3, 5),
        ] {
            self.host(end).ip_batch(&format!(
                "link set eth1 up\naddr add 10.77.{lan}.2/24 dev eth1\n"
            ))?;
            self.host(gateway).ip_batch(&format!(
                "link set lan0 up\naddr add 10.77.{lan}.1/24 dev lan0\nroute add 10.77.{network}.0/24 via 10.77.{lan}.2\n"
            ))?;
            self.host(gateway).set("ipv4/ip_forward", "1")?;
        }
        self.host(Host::OtherClientSide)
            .ip_batch(&v4_link_addressing(11, 2, 3, mtu))?;
        self.host(Host::OtherServerSide)
            .ip_batch(&v4_link_addressing(12, 1, 1, mtu))?;
        // What comes back another way than it would be sent is wanted here, and some systems refuse
        // it.
        for host in [
            Host::Client,
            Host::ClientSide,
            Host::ServerSide,
            Host::Server,
            Host::OtherClientSide,
            Host::OtherServerSide,
        ] {
            for device in ["all", "eth0", "eth1", "lan0", LINK_DEVICE] {
                let key = format!("ipv4/conf/{device}/rp_filter");
                match self.host(host).set(&key, "0") {
                    Ok(()) => {}
                    // Not every host has every device.
                    Err(LabError::Io { source, .. })
                        if source.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Has both ends' TCP repeat nothing that is not acknowledged for so long (Linux, ip-sysctl:
    /// `tcp_rto_min_us`, `tcp_early_retrans`).
    ///
    /// # Errors
    /// `Io`.
    pub fn repeat_after(&self, wait: Duration) -> Result<(), LabError> {
        for host in [Host::Client, Host::Server] {
            let host = self.host(host);
            host.set("ipv4/tcp_early_retrans", "0")?;
            match host.set("ipv4/tcp_rto_min_us", &wait.as_micros().to_string()) {
                // Before Linux 6.11 the ends wait for 200 ms.
                Err(LabError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Has the client send by this gateway from now on.
    ///
    /// # Errors
    /// `Command`.
    pub fn client_sends_by(&self, place: Place) -> Result<(), LabError> {
        let (network, device) = match place {
            Place::First => (1, "eth0"),
            Place::Other => (4, "eth1"),
        };
        self.host(Host::Client).ip(&format!(
            "route replace default via 10.77.{network}.1 dev {device} src 10.77.1.2"
        ))
    }

    /// Has the server send by this gateway from now on.
    ///
    /// # Errors
    /// `Command`.
    pub fn server_sends_by(&self, place: Place) -> Result<(), LabError> {
        let (network, device) = match place {
            Place::First => (3, "eth0"),
            Place::Other => (5, "eth1"),
        };
        self.host(Host::Server).ip(&format!(
            "route replace default via 10.77.{network}.1 dev {device} src 10.77.3.2"
        ))
    }

    /// As [`Topology::build`], under a lease that is held.
    ///
    /// # Errors
    /// As [`Topology::build`].
    pub fn build_under(lease: Lease, mtu: usize) -> Result<(Self, LinkEnds), LabError> {
        let create = |host: Host| Namespace::create(&lease::namespace(lease.name(), host.name()));
        let hosts = [
            create(Host::Client)?,
            create(Host::ClientSide)?,
            create(Host::ServerSide)?,
            create(Host::Server)?,
        ];
        let topology = Self {
            hosts,
            others: None,
            lease,
        };
        for (end, gateway) in [
            (Host::Client, Host::ClientSide),
            (Host::Server, Host::ServerSide),
        ] {
            crate::command::ip(&format!(
                "link add eth0 netns {} type veth peer name lan0 netns {}",
                topology.host(end).name(),
                topology.host(gateway).name()
            ))?;
        }
        let device = |host: Host| topology.host(host).run(|| tun::create(LINK_DEVICE));
        let ends = LinkEnds {
            client_sides: vec![device(Host::ClientSide)?],
            server_sides: vec![device(Host::ServerSide)?],
        };
        for host in Host::ALL {
            topology.host(host).ip_batch(&lan_addressing(host))?;
        }
        topology.address_link(mtu)?;
        for gateway in [Host::ClientSide, Host::ServerSide] {
            topology.host(gateway).set("ipv4/ip_forward", "1")?;
            topology
                .host(gateway)
                .set("ipv6/conf/all/forwarding", "1")?;
        }
        Ok((topology, ends))
    }

    /// Gives the link's devices their addresses and routes. Needed again when the devices have been
    /// made anew.
    ///
    /// # Errors
    /// `Command`.
    pub fn address_link(&self, mtu: usize) -> Result<(), LabError> {
        self.host(Host::ClientSide)
            .ip_batch(&link_addressing(1, 2, 3, mtu))?;
        self.host(Host::ServerSide)
            .ip_batch(&link_addressing(2, 1, 1, mtu))
    }

    /// Does not take it down when dropped: it is for `lab down` to do.
    pub fn leave_standing(self) {
        self.lease.leave_belongings();
    }

    /// The namespace of a host.
    ///
    /// # Panics
    /// For one of the other gateways where there are none.
    pub fn host(&self, host: Host) -> &Namespace {
        let others = || {
            self.others
                .as_ref()
                .expect("who asks for another gateway has built it")
        };
        match host {
            Host::Client => &self.hosts[0],
            Host::ClientSide => &self.hosts[1],
            Host::ServerSide => &self.hosts[2],
            Host::Server => &self.hosts[3],
            Host::OtherClientSide => &others()[0],
            Host::OtherServerSide => &others()[1],
        }
    }

    /// A directory for this topology's files; it goes with the topology.
    pub fn directory(&self) -> PathBuf {
        self.lease.directory()
    }

    /// The kernel keeps what it learned of a destination (round trip, slow start threshold) and
    /// starts the next connection with it. Forgetting it makes trials independent, so that no
    /// arm profits from another.
    ///
    /// # Errors
    /// `Command`.
    pub fn forget_tcp_metrics(&self) -> Result<(), LabError> {
        self.host(Host::Client).ip("tcp_metrics flush all")?;
        self.host(Host::Server).ip("tcp_metrics flush all")
    }
}

/// What `ip` is told of a host's own network. No duplicate address detection: the addresses are
/// usable at once.
fn lan_addressing(host: Host) -> String {
    let lan = |device: &str, network: u8, own: u8| {
        format!(
            "link set {device} up\n\
             addr add 10.77.{network}.{own}/24 dev {device}\n\
             addr add fd77:{network}::{own}/64 dev {device} nodad\n"
        )
    };
    let default_route = |network: u8| {
        format!(
            "route add default via 10.77.{network}.1\nroute add default via fd77:{network}::1\n"
        )
    };
    match host {
        Host::Client => lan("eth0", 1, 2) + &default_route(1),
        Host::ClientSide => lan("lan0", 1, 1),
        Host::ServerSide => lan("lan0", 3, 1),
        Host::Server => lan("eth0", 3, 2) + &default_route(3),
        // Theirs is added when they are.
        Host::OtherClientSide | Host::OtherServerSide => String::new(),
    }
}

/// What `ip` is told of the link in a gateway. The device gets no link-local address and no
/// multicast, so that only what the endpoints send crosses the link.
fn link_addressing(near: u8, far: u8, network: u8, mtu: usize) -> String {
    format!(
        "{}\
         addr add fd77:2::{near}/64 dev {LINK_DEVICE} nodad\n\
         route add fd77:{network}::/64 dev {LINK_DEVICE}\n",
        v4_link_addressing(near, far, network, mtu)
    )
}

/// The same without IPv6.
fn v4_link_addressing(near: u8, far: u8, network: u8, mtu: usize) -> String {
    format!(
        "link set {LINK_DEVICE} addrgenmode none\n\
         link set {LINK_DEVICE} multicast off mtu {mtu} up\n\
         addr add 10.77.2.{near} peer 10.77.2.{far} dev {LINK_DEVICE}\n\
         route add 10.77.{network}.0/24 via 10.77.2.{far}\n"
    )
}
