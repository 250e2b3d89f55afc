//! The settings of the two daemons of tunnel mode, checked.
//!
//! Is not: the command line, nor the key's bytes in any form that prints.
//!
//! Invariant: what is here is consistent in itself; whether this machine can do it is found out by
//! starting.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tandem_link::inband::Key;
use tandem_tunnel::dns::Clients;
use tandem_tunnel::{Allowed, Handshakes, Limits, Prefer, Rules, SharedStore, Tariff, WayOut};

pub use crate::line::Line;
pub use crate::names::{Names, names, read_clients};
pub use tandem_channel::KeyName;

/// The client side: takes TCP connections in, and has one connection to the server side.
#[derive(Clone, Debug)]
pub struct ClientSide {
    /// The pair's key, or this side's own.
    pub key: Key,
    /// The name of the server side's key; `None`: it has the pair's.
    pub server: Option<KeyName>,
    /// Where the server side listens.
    pub peer: SocketAddr,
    /// What is intercepted; `None`: nothing, and no privilege is needed.
    pub link: Option<Link>,
    /// Where SOCKS5 is spoken, if anywhere.
    pub socks: Option<SocketAddr>,
    /// Where HTTP CONNECT is spoken, if anywhere.
    pub http_proxy: Option<SocketAddr>,
    /// Which connections use the tunnel, and what becomes of the others.
    pub rules: Rules,
    /// How much of the link each client may use in a day.
    pub limits: Limits,
    /// What the link costs, if that is to be shown.
    pub tariff: Option<Tariff>,
    /// Whether the server side is told of clients' addresses.
    pub client_addresses: ClientAddresses,
    /// When sites' renewed certificates cross.
    pub renewals: Renewals,
    /// What is done with clients' certificates; the server side does the same.
    pub client_certificates: ClientCertificates,
    /// Where DNS is answered, if anywhere.
    pub dns: Option<Dns>,
    /// The UNIX socket by which clients' programs hand in their handshake keys, if any do.
    pub handshake_keys: Option<PathBuf>,
    /// When a key that costs a round trip is worth it.
    pub prefer: Prefer,
    /// A file of authorities' certificates, if there is one; the server side has the same.
    pub authorities: Option<PathBuf>,
    /// What is known of the line to the server side.
    pub line: Line,
    /// In which form handshakes cross.
    pub handshakes: Handshakes,
    /// Directory of the store.
    pub store: PathBuf,
    /// Address of the admin port; `None`: there is none.
    pub admin: Option<SocketAddr>,
    /// Why it is tunnel mode, for the status; `None`: it was asked for.
    pub mode_reason: Option<&'static str>,
}

/// Whether clients' addresses leave this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAddresses {
    /// The server side does not learn of them.
    Kept,
    /// It is told.
    Told,
}

/// What is done with clients' certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Both sides remember them, on disk, and they cross as references.
    #[default]
    Persistent,
    /// They are neither touched nor remembered.
    None,
}

/// When a site's renewed certificate crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewals {
    /// At the next visit.
    AtVisits,
    /// Ahead of it, while the link is awake and nothing else crosses.
    Ahead,
}

/// Which connections are intercepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Those that would leave by this interface...
    pub interface: String,
    /// ...to these ports. At least one.
    pub ports: Vec<u16>,
    /// Not what goes to here: the server side, where this side's own connections go.
    pub peer: SocketAddr,
    /// Of other machines, only those that come by one of these interfaces; none: by any other than
    /// the link.
    pub from: Vec<String>,
    /// How those of other machines are taken in.
    pub intercept: Intercept,
    /// What becomes of UDP to these ports that would leave by the interface.
    pub udp: Udp,
    /// What becomes of them while the tunnel is down.
    pub when_down: WhenDown,
}

/// What becomes of UDP on its way to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Udp {
    /// It goes past the tunnel.
    Pass,
    /// It is rejected, with an ICMP message to its sender.
    Reject,
    /// It goes through the tunnel.
    Tunnel,
}

/// By which target of the firewall connections of other machines are taken in. Those of this
/// machine's programs are redirected in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intercept {
    /// REDIRECT: the kernel translates their addresses.
    Redirect,
    /// TPROXY: without translation.
    Tproxy,
}

/// What becomes of intercepted connections while there is no tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDown {
    /// They go to their servers from here, without the other side.
    Pass,
    /// They wait for the tunnel, and fail if it does not come up.
    Fail,
}

/// Where DNS is answered, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// One address, UDP and TCP; none that stands for all of a machine's, since a reply comes from
    /// where the question went.
    pub address: SocketAddr,
    /// Who may ask.
    pub clients: Clients,
}

/// The server side: connects to servers on behalf of the client side.
#[derive(Clone, Debug)]
pub struct ServerSide {
    /// The pair's key.
    pub key: Key,
    /// Names of the keys of client sides that come with keys of their own.
    pub clients: HashSet<KeyName>,
    /// Where the client side finds it: UDP, and TCP.
    pub listen: SocketAddr,
    /// Which servers it may connect to.
    pub allowed: Allowed,
    /// As whom it comes to them.
    pub way_out: WayOut,
    /// Whom it asks the client side's DNS questions.
    pub dns_server: DnsServer,
    /// What is done with clients' certificates; the client side does the same.
    pub client_certificates: ClientCertificates,
    /// The UNIX socket by which servers' programs hand in their handshake keys, if any do.
    pub handshake_keys: Option<PathBuf>,
    /// When a client's key, which costs a round trip, is worth it.
    pub prefer: Prefer,
    /// A file of authorities' certificates, if there is one; the client side has the same.
    pub authorities: Option<PathBuf>,
    /// What is known of the line to the client side.
    pub line: Line,
    /// In which form handshakes cross.
    pub handshakes: Handshakes,
    /// Directory of the store.
    pub store: PathBuf,
    /// What it shares with other server sides of the same key, if it does.
    pub shared_store: Option<Arc<dyn SharedStore>>,
    /// Address of the admin port; `None`: there is none.
    pub admin: Option<SocketAddr>,
    /// Why it is tunnel mode, for the status; `None`: it was asked for.
    pub mode_reason: Option<&'static str>,
}

/// A resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsServer {
    /// The first that this machine's `/etc/resolv.conf` names when something is asked.
    System,
    /// This one.
    At(SocketAddr),
    /// None: no question is answered.
    Nobody,
}
