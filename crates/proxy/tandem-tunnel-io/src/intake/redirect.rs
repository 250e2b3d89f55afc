//! Connections that would leave by the link, taken in by the firewall's targets REDIRECT or TPROXY:
//! the port to which they lead, and where each connection was going.
//!
//! Is not: the setting of rules ([`tandem_firewall`]). What goes to the far side's address and port
//! is left alone: the daemon's own connections, where the tunnel runs over TCP.
//!
//! | table, hook | connections |
//! |---|---|
//! | nat OUTPUT `-o LINK` | of this machine's programs that leave by the link |
//! | nat PREROUTING `! -i LINK` | of other machines, from any other interface |
//! | nat PREROUTING `-i IFACE` | in place of these where interfaces are named: from each of them |
//! | mangle PREROUTING | with TPROXY, in place of nat PREROUTING |
//! | filter OUTPUT, FORWARD `-o LINK` | for UDP that is to be rejected |
//! | mangle POSTROUTING `-o LINK` | for UDP that is to go through the tunnel; FORWARD, too, where interfaces are named |
//! | raw OUTPUT | answers to that UDP |
//!
//! A connection of another machine can be taken in PREROUTING only, before the kernel has looked up
//! its route, and no match of iptables looks it up there. So all of them are taken, and
//! the kernel is asked for the route when one is accepted. What another interface leads to is
//! passed on from here, with an address of this machine as its source. So the rules of FORWARD do
//! not see any of them: the interfaces that are named, and rules of INPUT, say whose connections
//! are taken in. Rules by destination would be a second copy of the routes, which change;
//! `rpfilter` looks at the source's route, and `addrtype` at the kind of an address.
//!
//! Invariants: a connection to the port itself goes nowhere; what the kernel has no route for is
//! not passed on; the rules go before the port does, and soon after a daemon that is killed.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{Ip6tOriginalDst, OriginalDst};
use socket2::{Domain, Protocol, Socket, Type};
use tandem_firewall::lock::{InstanceLock, StartLock};
use tandem_firewall::{Firewall, LinkName, Owner, RuleSet, RulesKeeper, Sight, privilege};
use tandem_queue::QueueError;
use tandem_queue::queue::{Overflow, PacketQueue};
use tandem_queue::raw::{RawSockets, Routing};
use tokio::net::{TcpListener, TcpStream};

use super::route;
use crate::config::{self, Intercept, Udp, WhenDown};
use crate::datagrams::Queued;
use crate::error::TunnelError;
use rules::{queue_number, rules};

mod rules;

/// Connections that the system holds until they are accepted.
const BACKLOG: i32 = 1024;

/// How often a port is looked for that is free in both versions of IP.
const TRIES: usize = 16;

/// The rules in force, and the listeners to which they lead. Dropping it removes the rules.
#[derive(Debug)]
pub(super) struct Redirect {
    // Fields are dropped in this order.
    rules: RulesKeeper,
    listeners: Vec<TcpListener>,
    datagrams: Option<Queued>,
    to: LedTo,
    mark: Option<u32>,
    _instance: InstanceLock,
}

/// Which connections are redirected.
#[derive(Debug, Clone)]
struct Taken<'a> {
    link: LinkName,
    /// None: of any other than the link.
    from: Vec<LinkName>,
    ports: &'a [u16],
    /// But not to here.
    peer: SocketAddr,
    intercept: Intercept,
    udp: Udp,
    when_down: WhenDown,
}

/// Where the rules lead, and of which link.
#[derive(Debug, Clone)]
pub(super) struct LedTo {
    link: LinkName,
    port: u16,
}

impl<'a> Taken<'a> {
    /// What is configured. The interfaces may come later: rules know them by their names.
    fn of(config: &'a config::Link) -> Result<Self, TunnelError> {
        let link = LinkName::new(&config.interface)?;
        if (config.udp, config.intercept) == (Udp::Tunnel, Intercept::Tproxy) {
            let problem = "`tunnel` needs `--intercept redirect`";
            return Err(TunnelError::setting("udp", problem));
        }
        let from = config.from.iter().map(|name| {
            LinkName::new(name).map_err(|_| {
                let name = name.escape_debug();
                TunnelError::setting("from", format!("`{name}` is no name of an interface"))
            })
        });
        Ok(Self {
            link,
            from: from.collect::<Result<_, _>>()?,
            ports: &config.ports,
            peer: config.peer,
            intercept: config.intercept,
            udp: config.udp,
            when_down: config.when_down,
        })
    }
}

/// Whether the daemon itself connects to servers by the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// It does not.
    None,
    /// It does, and these connections are not redirected.
    Spared,
}

/// Marks of packets, one bit each.
#[derive(Debug, Clone, Copy)]
struct Marks {
    /// Of the daemon's own connections to servers, if it makes any.
    own: Option<u32>,
    /// Of what is delivered to this machine's sockets, with TPROXY.
    delivered: Option<u32>,
    /// Of answers to UDP, which the daemon makes.
    answers: Option<u32>,
}

impl Marks {
    /// Some that are free, as far as this thread sees those of others.
    fn choose(
        own: Own,
        firewall: &Firewall,
        taken: &Taken<'_>,
        sight: Sight,
    ) -> Result<Self, TunnelError> {
        let chain = Owner::Tunnel.chain(&taken.link);
        let own = match own {
            Own::None => None,
            Own::Spared => Some(firewall.free_mark(&chain, sight, 0)?),
        };
        let delivered = match taken.intercept {
            Intercept::Redirect => None,
            Intercept::Tproxy => {
                Some(firewall.free_mark(&chain, sight, own.unwrap_or_default())?)
            }
        };
        let answers = match taken.udp {
            Udp::Pass | Udp::Reject => None,
            Udp::Tunnel => {
                let others = own.unwrap_or_default() | delivered.unwrap_or_default();
                Some(firewall.free_mark(&chain, sight, others)?)
            }
        };
        Ok(Self {
            own,
            delivered,
            answers,
        })
    }
}

/// What becomes of a connection that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It would leave by the link, to this address.
    Tunnel(SocketAddr),
    /// It would leave by another interface, to this address.
    PassOn(SocketAddr),
    /// It was not redirected, or leads nowhere.
    Nowhere,
}

impl Redirect {
    /// Redirects what leaves by the link.
    ///
    /// # Errors
    /// Another daemon has the link, a capability, a program or a feature of the kernel is missing.
    pub(super) fn open(config: &config::Link, own: Own) -> Result<Self, TunnelError> {
        let taken = Taken::of(config)?;
        let link = taken.link.clone();
        warn_if_absent(&link);
        if (config.when_down, config.udp) == (WhenDown::Fail, Udp::Pass) {
            tracing::warn!(
                "UDP to the same ports, such as HTTP/3, uses {link} directly in spite of --when-down fail: \
                 see --udp"
            );
        }
        privilege::require()?;
        // Packet mode's lock, too: there is nothing to do for both on one link.
        let instance = InstanceLock::take("client-side", &link)?;
        let (listeners, port) = listeners(&taken)
            .map_err(TunnelError::system("listening for redirected connections"))?;
        // Nobody else sets rules meanwhile.
        let _starting = StartLock::take()?;
        let firewall = Firewall::here();
        let marks = Marks::choose(own, &firewall, &taken, Sight::Full)?;
        let rules = rules(&taken, port, marks);
        firewall.try_features(&rules)?;
        let datagrams = marks.answers.map(|mark| queued(config, &link, mark));
        let datagrams = datagrams.transpose()?;
        // The keeper itself says what it does.
        let rules = RulesKeeper::start(firewall.install_guarded(rules)?, |_| {})?;
        Ok(Self {
            rules,
            listeners,
            datagrams,
            to: LedTo { link, port },
            mark: marks.own,
            _instance: instance,
        })
    }

    /// The listeners, one for each version of IP. Whoever takes them keeps them until the rules
    /// are removed.
    pub(super) fn take_listeners(&mut self) -> Vec<TcpListener> {
        std::mem::take(&mut self.listeners)
    }

    /// The queue of UDP, where that is taken. Until the rules are removed, UDP that nobody reads
    /// there passes or is dropped, as while the tunnel is down.
    pub(super) fn take_datagrams(&mut self) -> Option<Queued> {
        self.datagrams.take()
    }

    /// Where the rules lead.
    pub(super) fn led_to(&self) -> &LedTo {
        &self.to
    }

    /// The mark of connections that are not redirected, if there is one.
    pub(super) fn mark(&self) -> Option<u32> {
        self.mark
    }

    /// Takes the rules away.
    ///
    /// # Errors
    /// One of the firewall's programs failed.
    pub(super) async fn remove(self) -> Result<(), TunnelError> {
        match tokio::task::spawn_blocking(move || self.rules.remove()).await {
            Ok(removed) => Ok(removed?),
            // It panicked, and the rules went with it.
            Err(_) => Ok(()),
        }
    }
}

/// Says so where there is no such interface: a modem's comes when it has dialled, and a misspelt
/// one never.
fn warn_if_absent(link: &LinkName) {
    if if_nametoindex(link.as_str()).is_err() {
        tracing::warn!(
            "there is no network interface {link} now (`ip link` lists those there are): \
             connections are taken in as soon as there is one"
        );
    }
}

/// The queue of UDP, and sockets whose packets have this mark.
fn queued(config: &config::Link, link: &LinkName, mark: u32) -> Result<Queued, QueueError> {
    let overflow = match config.when_down {
        WhenDown::Pass => Overflow::Passes,
        WhenDown::Fail => Overflow::Drops,
    };
    Ok(Queued {
        queue: PacketQueue::bind(queue_number(link), overflow)?,
        answers: RawSockets::open(Routing::AsRouted, mark)?,
    })
}

/// What [`Redirect::open`] would have the firewall do, as input for a shell. Changes nothing.
///
/// # Errors
/// The link's name is invalid, or the firewall cannot be read.
pub(crate) fn describe(config: &config::Link, own: Own) -> Result<String, TunnelError> {
    let taken = Taken::of(config)?;
    warn_if_absent(&taken.link);
    let sight = Sight::here()?;
    let free = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(TunnelError::system("looking for a free port"))?;
    let firewall = Firewall::here();
    let marks = Marks::choose(own, &firewall, &taken, sight)?;
    let rules = firewall.describe(&rules(&taken, free.port(), marks), sight)?;
    let option = match taken.intercept {
        Intercept::Redirect => "--to-ports",
        Intercept::Tproxy => "--to-ports and --on-port",
    };
    Ok(format!(
        "# Each start takes a free port of its own for {option}.\n{rules}"
    ))
}

/// The rules of [`Redirect::open`], for whoever looks for them: the port that they lead to and the
/// mark are not those in force.
///
/// # Errors
/// The link's name is invalid.
pub(crate) fn rule_set(config: &config::Link) -> Result<RuleSet, TunnelError> {
    let own = match config.when_down {
        WhenDown::Pass => Own::Spared,
        WhenDown::Fail => Own::None,
    };
    let taken = Taken::of(config)?;
    let marks = Marks::choose(own, &Firewall::here(), &taken, Sight::None)?;
    Ok(rules(&taken, 0, marks))
}

/// What a connection that came to one of the listeners is for.
pub(super) fn way(stream: &TcpStream, to: &LedTo) -> Way {
    let (Ok(here), Ok(client)) = (stream.local_addr(), stream.peer_addr()) else {
        return Way::Nowhere;
    };
    // With TPROXY a socket has the server's address itself.
    if here.port() != to.port {
        return by_route(client, here, to);
    }
    let Some(server) = original_destination(stream, here) else {
        return Way::Nowhere;
    };
    if (server.ip(), server.port()) == (here.ip(), here.port()) {
        return Way::Nowhere;
    }
    // What OUTPUT redirects goes to the loopback address (nf_nat_redirect), and its route was the
    // link's: that is in the rule.
    if here.ip().is_loopback() {
        return Way::Tunnel(server);
    }
    by_route(client, server, to)
}

/// What becomes of a connection of another machine's.
fn by_route(client: SocketAddr, server: SocketAddr, to: &LedTo) -> Way {
    match route::forwarded(client, server) {
        // Its number changes when the interface is made anew, as pppd does.
        Ok(index) if if_nametoindex(to.link.as_str()) == Ok(index) => Way::Tunnel(server),
        Ok(_) => Way::PassOn(server),
        Err(errno) => {
            tracing::debug!(%client, %server, %errno, "a connection that would not be forwarded");
            Way::Nowhere
        }
    }
}

/// Where the connection was going before it was redirected: `None` if the kernel does not know it.
fn original_destination(stream: &TcpStream, here: SocketAddr) -> Option<SocketAddr> {
    match here {
        SocketAddr::V4(_) => {
            let said = getsockopt(stream, OriginalDst).ok()?;
            let address = Ipv4Addr::from_bits(u32::from_be(said.sin_addr.s_addr));
            let port = u16::from_be(said.sin_port);
            Some(SocketAddrV4::new(address, port).into())
        }
        SocketAddr::V6(_) => {
            let said = getsockopt(stream, Ip6tOriginalDst).ok()?;
            let address = Ipv6Addr::from(said.sin6_addr.s6_addr);
            let port = u16::from_be(said.sin6_port);
            Some(SocketAddrV6::new(address, port, 0, 0).into())
        }
    }
}

/// Listeners on one port of all addresses, and the port, which is none of those that are taken: a
/// connection to it was not taken in by TPROXY.
fn listeners(taken: &Taken<'_>) -> io::Result<(Vec<TcpListener>, u16)> {
    for _ in 0..TRIES {
        let v4 = listener((Ipv4Addr::UNSPECIFIED, 0).into(), taken.intercept)?;
        let port = v4.local_addr()?.port();
        if taken.ports.contains(&port) {
            continue;
        }
        match listener((Ipv6Addr::UNSPECIFIED, port).into(), taken.intercept) {
            Ok(v6) => return Ok((vec![v4, v6], port)),
            // A kernel without IPv6.
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                return Ok((vec![v4], port));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

fn listener(address: SocketAddr, intercept: Intercept) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // IPv4 has a listener of its own.
        socket.set_only_v6(true)?;
    }
    match intercept {
        Intercept::Redirect => {}
        // Its connections have addresses of other machines (`IP_TRANSPARENT`, ip(7)).
        Intercept::Tproxy if address.is_ipv6() => socket.set_ip_transparent_v6(true)?,
        Intercept::Tproxy => socket.set_ip_transparent_v4(true)?,
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests;
