//! Connections that would leave by the link, taken in by the firewall's target REDIRECT: the rules,
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
//!
//! A connection of another machine can be redirected in PREROUTING only, before the kernel has
//! looked up its route, and no match of iptables looks it up there. So all of them are taken, and
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
use tandem_firewall::{
    Firewall, Link, LinkName, Owner, RuleSet, RulesKeeper, Sight, Table, TableRules, Trial,
    port_lists, privilege,
};
use tokio::net::{TcpListener, TcpStream};

use super::route;
use crate::config::{self, WhenDown};
use crate::error::TunnelError;

/// Connections that the system holds until they are accepted.
const BACKLOG: i32 = 1024;

/// How often a port is looked for that is free in both versions of IP.
const TRIES: usize = 16;

/// What goes to this machine is no business of the link's.
const TO_THIS_MACHINE: &str = "-m addrtype --dst-type LOCAL -j RETURN";

/// The rules in force, and the listeners to which they lead. Dropping it removes the rules.
#[derive(Debug)]
pub(super) struct Redirect {
    // Fields are dropped in this order.
    rules: RulesKeeper,
    listeners: Vec<TcpListener>,
    link: LinkName,
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
}

impl<'a> Taken<'a> {
    /// What is configured, where there is such a link. The other interfaces may come later.
    fn of(config: &'a config::Link) -> Result<Self, TunnelError> {
        let link = LinkName::new(&config.interface)?;
        Link::find(&link)?;
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

impl Own {
    /// The mark of its connections, as far as this thread sees those of others.
    fn mark(
        self,
        firewall: &Firewall,
        link: &LinkName,
        sight: Sight,
    ) -> Result<Option<u32>, TunnelError> {
        Ok(match self {
            Self::None => None,
            Self::Spared => Some(firewall.free_mark(&Owner::Tunnel.chain(link), sight)?),
        })
    }
}

/// What becomes of a redirected connection.
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
    /// There is no such interface, another daemon has it, a capability, a program or a feature of
    /// the kernel is missing.
    pub(super) fn open(config: &config::Link, own: Own) -> Result<Self, TunnelError> {
        let taken = Taken::of(config)?;
        let link = taken.link.clone();
        privilege::require()?;
        // Packet mode's lock, too: there is nothing to do for both on one link.
        let instance = InstanceLock::take("client-side", &link)?;
        let (listeners, port) =
            listeners().map_err(TunnelError::system("listening for redirected connections"))?;
        // Nobody else sets rules meanwhile.
        let _starting = StartLock::take()?;
        let firewall = Firewall::here();
        let mark = own.mark(&firewall, &link, Sight::Full)?;
        let rules = rules(&taken, port, mark);
        firewall.try_features(&rules)?;
        // The keeper itself says what it does.
        let rules = RulesKeeper::start(firewall.install(rules)?.guarded()?, |_| {})?;
        Ok(Self {
            rules,
            listeners,
            link,
            mark,
            _instance: instance,
        })
    }

    /// The listeners, one for each version of IP. Whoever takes them keeps them until the rules
    /// are removed.
    pub(super) fn take_listeners(&mut self) -> Vec<TcpListener> {
        std::mem::take(&mut self.listeners)
    }

    /// The link.
    pub(super) fn link(&self) -> &LinkName {
        &self.link
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

/// What [`Redirect::open`] would have the firewall do, as input for a shell. Changes nothing.
///
/// # Errors
/// There is no such interface, or the firewall cannot be read.
pub(crate) fn describe(config: &config::Link, own: Own) -> Result<String, TunnelError> {
    let taken = Taken::of(config)?;
    let sight = Sight::here()?;
    let free = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(TunnelError::system("looking for a free port"))?;
    let firewall = Firewall::here();
    let mark = own.mark(&firewall, &taken.link, sight)?;
    let rules = firewall.describe(&rules(&taken, free.port(), mark), sight)?;
    Ok(format!(
        "# Each start takes a free port of its own for --to-ports.\n{rules}"
    ))
}

/// The rules of [`Redirect::open`], for whoever looks for them: the port that they lead to and the
/// mark are not those in force.
///
/// # Errors
/// There is no such interface.
pub(crate) fn rule_set(config: &config::Link) -> Result<RuleSet, TunnelError> {
    let own = match config.when_down {
        WhenDown::Pass => Own::Spared,
        WhenDown::Fail => Own::None,
    };
    let taken = Taken::of(config)?;
    let mark = own.mark(&Firewall::here(), &taken.link, Sight::None)?;
    Ok(rules(&taken, 0, mark))
}

/// What a connection that came to one of the listeners is for.
pub(super) fn way(stream: &TcpStream, link: &LinkName) -> Way {
    let (Ok(here), Ok(client)) = (stream.local_addr(), stream.peer_addr()) else {
        return Way::Nowhere;
    };
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
    match route::forwarded(client, server) {
        // Its number changes when the interface is made anew, as pppd does.
        Ok(index) if if_nametoindex(link.as_str()) == Ok(index) => Way::Tunnel(server),
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

/// Listeners on one port of all addresses, and the port.
fn listeners() -> io::Result<(Vec<TcpListener>, u16)> {
    for _ in 0..TRIES {
        let v4 = listener((Ipv4Addr::UNSPECIFIED, 0).into())?;
        let port = v4.local_addr()?.port();
        match listener((Ipv6Addr::UNSPECIFIED, port).into()) {
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

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // IPv4 has a listener of its own.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The rules that lead to `to`, but for what has the mark. The same for IPv4 and IPv6.
fn rules(taken: &Taken<'_>, to: u16, mark: Option<u32>) -> RuleSet {
    let Taken {
        link,
        from,
        ports,
        peer,
    } = taken;
    let mut hooks: Vec<String> = match from.as_slice() {
        [] => vec![format!("PREROUTING ! -i {link}")],
        from => from
            .iter()
            .map(|it| format!("PREROUTING -i {it}"))
            .collect(),
    };
    hooks.push(format!("OUTPUT -o {link}"));
    let mut jumps = Vec::new();
    for ports in port_lists(ports) {
        for hook in &hooks {
            jumps.push(format!("{hook} -p tcp -m multiport --dports {ports}"));
        }
    }
    let mut rules = vec![TO_THIS_MACHINE.to_owned(), not_to(*peer)];
    let mut trials = trials();
    if let Some(mark) = mark {
        let is_marked = format!("-m mark --mark {mark:#x}/{mark:#x} -j RETURN");
        trials.push(trial(
            "the match mark",
            "CONFIG_NETFILTER_XT_MARK",
            &is_marked,
        ));
        rules.push(is_marked);
    }
    rules.push(format!("-p tcp -j REDIRECT --to-ports {to}"));
    let nat = TableRules {
        table: Table::Nat,
        rules,
        jumps,
    };
    RuleSet::new(Owner::Tunnel, link, vec![nat], trials)
}

/// What goes to the server side is left alone. Of a rule for one version of IP the other's program
/// takes no notice (iptables(8), `-4` and `-6`).
fn not_to(peer: SocketAddr) -> String {
    let (address, port) = (peer.ip().to_canonical(), peer.port());
    let version = if address.is_ipv4() { "-4" } else { "-6" };
    format!("{version} -p tcp -d {address} --dport {port} -j RETURN")
}

/// The rules that need a feature of the kernel, each alone.
fn trials() -> Vec<Trial> {
    vec![
        trial(
            "the match multiport",
            "CONFIG_NETFILTER_XT_MATCH_MULTIPORT",
            "-p tcp -m multiport --dports 443 -j RETURN",
        ),
        trial(
            "the match addrtype",
            "CONFIG_NETFILTER_XT_MATCH_ADDRTYPE",
            TO_THIS_MACHINE,
        ),
        trial(
            "the target REDIRECT",
            "CONFIG_NETFILTER_XT_TARGET_REDIRECT",
            "-p tcp -j REDIRECT --to-ports 443",
        ),
    ]
}

fn trial(feature: &'static str, kernel_option: &'static str, rule: &str) -> Trial {
    Trial {
        feature,
        kernel_option,
        table: Table::Nat,
        rule: rule.to_owned(),
    }
}

#[cfg(test)]
mod tests;
