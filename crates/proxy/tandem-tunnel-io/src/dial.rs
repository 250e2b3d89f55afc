//! The server side's connections to servers: names are looked up, addresses checked, and connected
//! to.
//!
//! Is not: the rule what is allowed ([`Allowed`]), nor from which address is connected
//! (`way_out.rs`), nor how many names are looked up at a time (`lookups.rs`).
//!
//! Invariants: no address is connected to that is not allowed, whatever a name resolves to; every
//! step takes bounded time.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use tandem_channel::first_of;
use tandem_daemon::places::Share;
use tandem_engine::PeerId;
use tandem_link::tunnel::{Ending, Open, Target};
use tandem_tunnel::{Allowed, WayOut};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::board::{Board, Tally};
use crate::lookups::Lookups;
use crate::own_addresses::is_own;
use crate::way_out::Leaving;

/// For the resolver. Its own time-out is 5 s a server, twice (resolv.conf(5)).
const RESOLVE: Duration = Duration::from_secs(10);
/// For connecting, all addresses together: three SYNs (RFC 6298, section 2) and their answers.
const CONNECT: Duration = Duration::from_secs(20);
/// Addresses that are tried of those that a name has.
const MAX_ADDRESSES: usize = 4;

/// Connects.
pub(crate) struct Dialer {
    allowed: Allowed,
    leaving: Leaving,
    board: Arc<Board>,
    lookups: Lookups,
    own_addresses: OwnAddresses,
}

/// Whether addresses of this machine itself are connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnAddresses {
    /// Where the list has them.
    AsAllowed,
    /// Never.
    Never,
}

impl Dialer {
    pub(crate) fn new(allowed: Allowed, way: WayOut, board: Arc<Board>) -> Self {
        Self {
            allowed,
            leaving: Leaving::new(way, Arc::clone(&board)),
            board,
            lookups: Lookups::new(Share::All),
            own_addresses: OwnAddresses::AsAllowed,
        }
    }

    /// The same, with this mark on every packet (`SO_MARK`), which needs CAP_NET_ADMIN.
    pub(crate) fn marked(self, mark: Option<u32>) -> Self {
        Self {
            leaving: self.leaving.marked(mark),
            ..self
        }
    }

    /// The same, with this share for each client side.
    pub(crate) fn shared_out(self, share: Share) -> Self {
        Self {
            lookups: Lookups::new(share),
            ..self
        }
    }

    /// The same, with this word on addresses of this machine itself.
    pub(crate) fn with_own_addresses(self, own_addresses: OwnAddresses) -> Self {
        Self {
            own_addresses,
            ..self
        }
    }

    /// A connection to the target, for this peer, or what the client is to see instead.
    pub(crate) async fn dial(&self, open: Open, peer: PeerId) -> Result<TcpStream, Ending> {
        let origin = self.leaving.origin(open.client());
        let mut addresses = self.resolve(open.target, peer).await?;
        self.leaving.sort(&mut addresses, origin);
        let permitted: Vec<SocketAddr> = addresses
            .into_iter()
            .filter(|address| self.permits(*address))
            .take(MAX_ADDRESSES)
            .collect();
        if permitted.is_empty() {
            self.board.count(Tally::ServersNotAllowed, 1);
            return Err(Ending::NotAllowed);
        }
        let connect = |address| self.leaving.connect(address, origin);
        let connected = first_of(&permitted, CONNECT, connect).await;
        let tally = match &connected {
            Ok(_) => Tally::ServersConnected,
            Err(_) => Tally::ServersFailed,
        };
        self.board.count(tally, 1);
        connected.map_err(|error| ending(&error))
    }

    /// A socket for datagrams to the target and back: it receives from nobody else. They come from
    /// an address of this machine, whatever the way out of connections is.
    pub(crate) async fn datagrams(
        &self,
        target: Target,
        peer: PeerId,
    ) -> Result<UdpSocket, Ending> {
        let addresses = self.resolve(target, peer).await?;
        // What is sent to many is answered by any number of them.
        let mut permitted = addresses
            .into_iter()
            .filter(|address| !address.ip().is_multicast() && self.permits(*address))
            .take(MAX_ADDRESSES)
            .peekable();
        if permitted.peek().is_none() {
            self.board.count(Tally::ServersNotAllowed, 1);
            return Err(Ending::NotAllowed);
        }
        let mut last = io::Error::from(io::ErrorKind::NetworkUnreachable);
        for address in permitted {
            match self.leaving.socket(address).await {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(ending(&last))
    }

    fn permits(&self, address: SocketAddr) -> bool {
        let permits_own = match self.own_addresses {
            OwnAddresses::AsAllowed => self.allowed.permits_own(),
            OwnAddresses::Never => false,
        };
        self.allowed.permits(address) && (permits_own || !is_own(address.ip()))
    }

    /// At least one address. One of IPv4 that was mapped into IPv6 is what it stands for: a
    /// client's address of IPv4 can connect to it.
    async fn resolve(&self, target: Target, peer: PeerId) -> Result<Vec<SocketAddr>, Ending> {
        let mut found = match target {
            Target::Address(address) => vec![address],
            Target::Name { name, port } => self.look_up((name, port), peer).await?,
        };
        for address in &mut found {
            address.set_ip(address.ip().to_canonical());
        }
        Ok(found)
    }

    async fn look_up(
        &self,
        (name, port): (String, u16),
        peer: PeerId,
    ) -> Result<Vec<SocketAddr>, Ending> {
        self.board.count(Tally::NamesResolved, 1);
        let asked = name.clone();
        let lookup = self.lookups.run(peer, move || {
            let found = (asked.as_str(), port).to_socket_addrs()?;
            Ok(found.collect())
        });
        let found: Vec<SocketAddr> = match timeout(RESOLVE, lookup).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::debug!(name, %error, "no address");
                Vec::new()
            }
            Err(_) => return Err(Ending::TimedOut),
        };
        if found.is_empty() {
            return Err(Ending::NameNotFound);
        }
        Ok(found)
    }
}

/// What an error of a connection means to the other side.
pub(crate) fn ending(error: &io::Error) -> Ending {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Ending::Refused,
        io::ErrorKind::HostUnreachable => Ending::HostUnreachable,
        // EINVAL: the route is a black hole (ip-route(8)).
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::AddrNotAvailable => Ending::NetworkUnreachable,
        io::ErrorKind::TimedOut => Ending::TimedOut,
        // A firewall of this machine (EPERM, EACCES).
        io::ErrorKind::PermissionDenied => Ending::NotAllowed,
        _ => match error.raw_os_error() {
            // ENFILE, EMFILE: no descriptors are left (errno(3)).
            Some(23 | 24) => Ending::Overloaded,
            _ => Ending::Reset,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare};

    use super::*;
    use crate::board::Facts;
    use tokio::net::TcpListener;

    const PEER: PeerId = PeerId::OTHER_END;

    fn dialer(rules: &[&str]) -> Dialer {
        let board = Board::new(Facts {
            role: "server-side",
            link: String::new(),
        });
        let rules = rules.iter().map(|rule| rule.parse().expect("a rule"));
        Dialer::new(Allowed::new(rules.collect()), WayOut::Own, board)
    }

    #[tokio::test]
    async fn what_is_allowed_is_connected_to_by_address_and_by_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let dialer = dialer(&[format!("127.0.0.0/8:{}", address.port()).as_str()]);
        let by_address = dialer.dial(Open::to(Target::Address(address)), PEER).await;
        assert!(by_address.is_ok(), "{by_address:?}");
        let name = Target::Name {
            name: "localhost".to_owned(),
            port: address.port(),
        };
        let by_name = dialer.dial(Open::to(name), PEER).await;
        assert!(by_name.is_ok(), "{by_name:?}");
    }

    #[tokio::test]
    async fn an_address_of_ipv4_that_was_mapped_into_ipv6_is_connected_to_as_itself() {
        for (target, expected) in [
            ("[::ffff:192.0.2.1]:443", "192.0.2.1:443"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("192.0.2.1:443", "192.0.2.1:443"),
        ] {
            let target = Target::Address(target.parse().expect("an address"));
            let resolved = dialer(&[]).resolve(target, PEER).await;
            assert_eq!(resolved, Ok(vec![expected.parse().expect("an address")]));
        }
    }

    #[test]
    fn without_rules_a_public_address_of_this_machine_is_not_connected_to() {
        if !tandem_testkit::has_root_and(&["ip"]) {
            return;
        }
        let checked = std::thread::spawn(|| {
            // A network of this thread and of the programs that it runs.
            unshare(CloneFlags::CLONE_NEWNET).expect("root may");
            // The second of a network: what connects to it comes from the first.
            for line in [
                "link set lo up",
                "addr add 93.184.215.14/24 dev lo",
                "addr add 93.184.215.15/24 dev lo",
            ] {
                let status = Command::new("ip").args(line.split(' ')).status();
                assert!(status.expect("it is installed").success(), "{line}");
            }
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let address: SocketAddr = "93.184.215.15:443".parse().expect("an address");
                let _listener = TcpListener::bind(address).await.expect("it is free");
                for (rules, expected) in [
                    (&[][..], Err(Ending::NotAllowed)),
                    (&["93.184.215.0/24"][..], Ok(())),
                ] {
                    let open = Open::to(Target::Address(address));
                    let dialled = dialer(rules).dial(open, PEER).await;
                    assert_eq!(dialled.map(|_| ()), expected);
                }
            });
        });
        checked.join().expect("the checks hold");
    }

    #[tokio::test]
    async fn a_name_that_leads_to_an_address_that_is_not_allowed_is_not_connected_to() {
        let dialer = dialer(&[]);
        for target in [
            Target::Address("127.0.0.1:443".parse().expect("an address")),
            Target::Name {
                name: "localhost".to_owned(),
                port: 443,
            },
        ] {
            let refused = dialer.dial(Open::to(target), PEER).await.map(|_| ());
            assert_eq!(refused, Err(Ending::NotAllowed));
        }
    }

    #[tokio::test]
    async fn nobody_there_is_refused_and_no_such_name_is_not_found() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let dialer = dialer(&["127.0.0.0/8"]);
        let refused = dialer
            .dial(Open::to(Target::Address(address)), PEER)
            .await
            .map(|_| ());
        assert_eq!(refused, Err(Ending::Refused));
        // RFC 6761, section 6.4: no name ends in this.
        let name = Target::Name {
            name: "nobody.invalid".to_owned(),
            port: 443,
        };
        let unknown = dialer.dial(Open::to(name), PEER).await.map(|_| ());
        assert_eq!(unknown, Err(Ending::NameNotFound));
    }

    #[test]
    fn errors_of_the_system_have_these_endings() {
        let of = |number| ending(&io::Error::from_raw_os_error(number));
        // Numbers of errno(3) on Linux.
        assert_eq!(of(111), Ending::Refused);
        assert_eq!(of(113), Ending::HostUnreachable);
        assert_eq!(of(101), Ending::NetworkUnreachable);
        assert_eq!(of(22), Ending::NetworkUnreachable);
        assert_eq!(of(110), Ending::TimedOut);
        assert_eq!(of(104), Ending::Reset);
        assert_eq!(of(13), Ending::NotAllowed);
        assert_eq!(of(24), Ending::Overloaded);
    }
}
