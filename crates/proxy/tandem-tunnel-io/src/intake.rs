//! The ways in: how TCP connections, and UDP, come to the client side. SOCKS5 and HTTP CONNECT, for
//! programs that are told of a proxy; and what would leave by the link, for those that are not.
//!
//! Is not: what becomes of a connection; that is a relay's.
//!
//! Invariants: a client that does not say where it wants to go is closed after 10 s; heads that are
//! being read are bounded in number and size; whatever ends the ways in, the rules go.

mod connect;
pub(crate) mod fuzzing;
mod gate;
mod head;
mod passing_on;
mod redirect;
mod route;
mod socks;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tandem_daemon::{DaemonError, listener};
use tandem_link::tunnel::Target;
use tandem_tunnel::Rules;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::board::Board;
use crate::config::{ClientSide, Link, WhenDown};
use crate::datagrams::{Association, Queued};
use crate::error::TunnelError;
use crate::limits::ClientLimits;
use head::HeadReader;
use passing_on::PassingOn;
use redirect::{Own, Redirect, Way};
use socks::Granted;

pub(crate) use gate::Gate;
pub(crate) use redirect::{describe, rule_set};
pub(crate) use socks::{datagram, datagram_header};

/// How long a client may take to say where it wants to go: it is a program on this machine or one
/// near it.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Heads that are read at one time, for each listener. Other clients wait in the system's queue.
const MAX_HEADS: usize = 1024;

/// A connection that is to go through the tunnel.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The client's connection.
    pub(crate) stream: TcpStream,
    /// Where it goes.
    pub(crate) target: Target,
    /// Whose it is.
    pub(crate) client: SocketAddr,
    /// The client's first bytes, as far as they have been read: they come before those of
    /// `stream`. May be empty.
    pub(crate) first: Vec<u8>,
    /// By which way it came.
    pub(crate) came: Came,
}

/// What is taken in.
#[derive(Debug)]
pub(crate) enum Taken {
    /// A connection.
    Connection(Accepted),
    /// A client's leave to send datagrams.
    Association(Association),
}

/// By which way a connection came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// Its program asked a proxy.
    Asking,
    /// The firewall took it on its way to the server.
    Redirected,
}

/// What a client of an explicit proxy speaks.
#[derive(Debug, Clone, Copy)]
enum Protocol {
    Socks,
    Connect,
}

impl Protocol {
    /// The setting that names the address, as on the command line.
    fn setting(self) -> &'static str {
        match self {
            Protocol::Socks => "--socks",
            Protocol::Connect => "--http-proxy",
        }
    }
}

/// The addresses of the explicit proxies, bound. A step of its own, without a runtime: low ports
/// need a capability that is given up before there are threads.
#[derive(Debug)]
pub(crate) struct Proxies(Vec<(Protocol, std::net::TcpListener)>);

impl Proxies {
    /// Listens on the addresses that are configured. Connections wait.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub(crate) fn bind(config: &ClientSide) -> Result<Self, TunnelError> {
        Self::of(config.socks, config.http_proxy)
    }

    fn of(socks: Option<SocketAddr>, http_proxy: Option<SocketAddr>) -> Result<Self, TunnelError> {
        let wanted = [(Protocol::Socks, socks), (Protocol::Connect, http_proxy)];
        let mut bound = Vec::new();
        for (protocol, address) in wanted {
            if let Some(address) = address {
                bound.push((protocol, listen(protocol, address)?));
            }
        }
        Ok(Self(bound))
    }
}

/// The ways in that are open. Connections wait until [`Self::run`].
pub(crate) struct WaysIn {
    proxies: Vec<(Protocol, TcpListener)>,
    redirect: Option<Redirect>,
    gate: Arc<Gate>,
}

impl WaysIn {
    /// Opens the ways in; sets the firewall's rules where a link is among them. What becomes of a
    /// connection is up to `rules` and `limits`. Within a runtime; takes as long as the firewall's
    /// programs.
    ///
    /// # Errors
    /// The firewall's rules cannot be set.
    pub(crate) fn open(
        proxies: Proxies,
        link: Option<&Link>,
        rules: Rules,
        limits: Option<Arc<ClientLimits>>,
        board: Arc<Board>,
    ) -> Result<Self, TunnelError> {
        let mut listening = Vec::new();
        for (protocol, listener) in proxies.0 {
            let listener = TcpListener::from_std(listener)
                .map_err(TunnelError::system("listening for programs"))?;
            listening.push((protocol, listener));
        }
        // The rules come last: what they lead to is to be served soon.
        let redirect = link
            .map(|link| Redirect::open(link, own(&rules, link)))
            .transpose()?;
        let mark = redirect.as_ref().and_then(Redirect::mark);
        Ok(Self {
            proxies: listening,
            redirect,
            gate: Arc::new(Gate::new(rules, limits, board, mark)),
        })
    }

    /// What each connection that is given on has to pass.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }

    /// The queue of UDP that would leave by the link, where that is taken in.
    pub(crate) fn take_datagrams(&mut self) -> Option<Queued> {
        self.redirect.as_mut().and_then(Redirect::take_datagrams)
    }

    /// Gives what is taken in to `relays`, until `stop` is ready; then the rules are removed, and
    /// after them nothing listens any more. Without anybody at the other end of `relays`
    /// connections are closed.
    ///
    /// # Errors
    /// The rules cannot be removed.
    pub(crate) async fn run(
        self,
        relays: mpsc::Sender<Taken>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), TunnelError> {
        let Self {
            proxies,
            mut redirect,
            gate,
        } = self;
        // Dropped at the end, and the listeners with it.
        let mut listening = JoinSet::new();
        for (protocol, listener) in proxies {
            let (relays, gate) = (relays.clone(), Arc::clone(&gate));
            listening.spawn(listener::serve(listener, MAX_HEADS, move |stream| {
                take_asked(protocol, stream, relays.clone(), Arc::clone(&gate))
            }));
        }
        if let Some(redirect) = &mut redirect {
            for listener in redirect.take_listeners() {
                let (relays, passing_on) = (relays.clone(), gate.passing_on().clone());
                let to = redirect.led_to().clone();
                listening.spawn(listener::serve(listener, MAX_HEADS, move |stream| {
                    let way = redirect::way(&stream, &to);
                    take_redirected(stream, way, relays.clone(), passing_on.clone())
                }));
            }
        }
        stop.await;
        match redirect {
            Some(redirect) => redirect.remove().await,
            None => Ok(()),
        }
    }
}

/// Whether the daemon makes connections of its own, which leave by the link, too.
pub(crate) fn own(rules: &Rules, link: &Link) -> Own {
    match link.when_down {
        WhenDown::Pass => Own::Spared,
        WhenDown::Fail if rules.has_direct() => Own::Spared,
        WhenDown::Fail => Own::None,
    }
}

/// Listens on `address`, for `protocol`.
fn listen(protocol: Protocol, address: SocketAddr) -> Result<std::net::TcpListener, TunnelError> {
    if !address.ip().is_loopback() {
        tracing::warn!(
            "{} {address}: whoever can reach this address can use the tunnel; nobody has to \
             authenticate",
            protocol.setting()
        );
    }
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|source| DaemonError::listening(protocol.setting(), address, source).into())
}

/// Takes a connection in whose client says where it wants to go.
async fn take_asked(
    protocol: Protocol,
    stream: TcpStream,
    relays: mpsc::Sender<Taken>,
    gate: Arc<Gate>,
) {
    let Ok(client) = stream.peer_addr() else {
        return;
    };
    let mut head = HeadReader::new(stream);
    let permits = |target: &Target| gate.permits(client.ip(), target);
    let talk = async {
        match protocol {
            Protocol::Socks => socks::talk(&mut head, permits).await,
            Protocol::Connect => {
                let target = connect::talk(&mut head, permits).await?;
                Ok(target.map(Granted::Connection))
            }
        }
    };
    // Refused, gone, or too slow: it is closed.
    let Ok(Ok(Some(granted))) = timeout(HEAD_TIME, talk).await else {
        return;
    };
    let (stream, first) = head.into_parts();
    let target = match granted {
        Granted::Connection(target) => target,
        Granted::Datagrams(relay, port) => {
            let association = Association {
                control: stream,
                relay,
                client: client.ip(),
                port,
            };
            return give(Taken::Association(association), &relays).await;
        }
    };
    let accepted = Accepted {
        stream,
        target,
        client,
        first,
        came: Came::Asking,
    };
    give(Taken::Connection(accepted), &relays).await;
}

/// Takes a connection in that the firewall has redirected.
async fn take_redirected(
    stream: TcpStream,
    way: Way,
    relays: mpsc::Sender<Taken>,
    passing_on: PassingOn,
) {
    let Ok(client) = stream.peer_addr() else {
        return;
    };
    match way {
        Way::Tunnel(server) => {
            let accepted = Accepted {
                stream,
                target: Target::Address(server),
                client,
                first: Vec::new(),
                came: Came::Redirected,
            };
            give(Taken::Connection(accepted), &relays).await;
        }
        Way::PassOn(server) => {
            passing_on.start(stream, Vec::new(), TcpStream::connect(server));
        }
        // It is closed.
        Way::Nowhere => {}
    }
}

async fn give(taken: Taken, relays: &mpsc::Sender<Taken>) {
    if relays.send(taken).await.is_err() {
        tracing::debug!("a connection is closed: the daemon ends");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;

    use super::*;
    use crate::board::Facts;

    /// A client of a proxy on a free port.
    struct Proxied {
        client: TcpStream,
        accepted: mpsc::Receiver<Taken>,
        /// Sent or dropped, it ends the proxy.
        stop: oneshot::Sender<()>,
    }

    async fn proxied(protocol: Protocol) -> Proxied {
        with_rules(protocol, &[]).await
    }

    async fn with_rules(protocol: Protocol, rules: &[&str]) -> Proxied {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let proxies = match protocol {
            Protocol::Socks => Proxies::of(any, None),
            Protocol::Connect => Proxies::of(None, any),
        }
        .expect("a free port");
        let rules = rules.iter().map(|rule| rule.parse().expect(rule));
        let board = Board::new(Facts {
            role: "client-side",
            link: String::new(),
        });
        let rules = Rules::new(rules.collect());
        let ways = WaysIn::open(proxies, None, rules, None, board).expect("within a runtime");
        let address = ways.proxies[0].1.local_addr().expect("bound");
        let (relays, accepted) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(ways.run(relays, async move {
            let _ = stopped.await;
        }));
        let client = TcpStream::connect(address).await.expect("it listens");
        Proxied {
            client,
            accepted,
            stop,
        }
    }

    fn connection(taken: Option<Taken>) -> Accepted {
        match taken {
            Some(Taken::Connection(accepted)) => accepted,
            other => panic!("a connection is given on, not {other:?}"),
        }
    }

    async fn expect(client: &mut TcpStream, bytes: &[u8]) {
        let mut said = vec![0; bytes.len()];
        client.read_exact(&mut said).await.expect("it answers");
        assert_eq!(said, bytes);
    }

    #[tokio::test]
    async fn a_socks_client_is_answered_at_once_and_no_byte_of_it_is_lost() {
        let mut proxied = proxied(Protocol::Socks).await;
        // All in one segment: a client that does not wait for answers.
        proxied
            .client
            .write_all(b"\x05\x01\x00\x05\x01\x00\x03\x09a.example\x01\xbbhello")
            .await
            .expect("it reads");
        expect(&mut proxied.client, b"\x05\x00\x05\x00\x00\x01\0\0\0\0\0\0").await;
        let mut taken = connection(proxied.accepted.recv().await);
        assert_eq!(taken.target.to_string(), "a.example:443");
        assert_eq!(
            taken.client,
            proxied.client.local_addr().expect("connected")
        );
        assert_eq!(taken.first, b"hello");
        proxied
            .client
            .write_all(b", more")
            .await
            .expect("it stands");
        expect(&mut taken.stream, b", more").await;
    }

    #[tokio::test]
    async fn a_connect_client_is_answered_at_once_and_no_byte_of_it_is_lost() {
        let mut proxied = proxied(Protocol::Connect).await;
        proxied
            .client
            .write_all(b"CONNECT a.example:8443 HTTP/1.1\r\nHost: a.example\r\n\r\nhello")
            .await
            .expect("it reads");
        expect(
            &mut proxied.client,
            b"HTTP/1.1 200 Connection established\r\n\r\n",
        )
        .await;
        let taken = connection(proxied.accepted.recv().await);
        assert_eq!(taken.target.to_string(), "a.example:8443");
        assert_eq!(taken.first, b"hello");
    }

    #[tokio::test]
    async fn refused_clients_get_the_whole_reply_and_the_end() {
        for (protocol, said, reply) in [
            (Protocol::Socks, &b"\x04\x01\x01\xbb"[..], "\0["),
            (
                Protocol::Connect,
                &b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 9\r\n\r\nsomething"[..],
                "HTTP/1.1 405 ",
            ),
        ] {
            let Proxied {
                mut client,
                mut accepted,
                stop,
            } = proxied(protocol).await;
            client.write_all(said).await.expect("it reads");
            let mut read = Vec::new();
            client.read_to_end(&mut read).await.expect("no reset");
            assert!(read.starts_with(reply.as_bytes()), "{read:?}");
            drop((client, stop));
            assert!(accepted.recv().await.is_none(), "nothing was taken in");
        }
    }

    #[tokio::test]
    async fn what_the_rules_refuse_is_answered_so_and_not_given_on() {
        let rules = ["refuse to=*.example", "refuse to=192.0.2.0/24 ports=80"];
        let head = "HTTP/1.1 403 ";
        for (protocol, said, reply) in [
            (
                Protocol::Socks,
                &b"\x05\x01\x00\x05\x01\x00\x03\x09a.example\x01\xbb"[..],
                "\x05\0\x05\x02\0",
            ),
            (
                Protocol::Socks,
                b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50",
                "\x05\0\x05\x02\0",
            ),
            (
                Protocol::Connect,
                b"CONNECT a.example:443 HTTP/1.1\r\n\r\n",
                head,
            ),
            (
                Protocol::Connect,
                b"CONNECT 192.0.2.1:80 HTTP/1.1\r\n\r\n",
                head,
            ),
        ] {
            let mut proxied = with_rules(protocol, &rules).await;
            proxied.client.write_all(said).await.expect("it reads");
            let mut read = Vec::new();
            let read_all = proxied.client.read_to_end(&mut read);
            read_all.await.expect("no reset");
            assert!(read.starts_with(reply.as_bytes()), "{read:?}");
            drop((proxied.client, proxied.stop));
            assert!(
                proxied.accepted.recv().await.is_none(),
                "nothing was taken in"
            );
        }
        // What depends on the hello is not refused before that has come.
        let mut proxied = with_rules(Protocol::Socks, &rules).await;
        let said = b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb";
        proxied.client.write_all(said).await.expect("it reads");
        expect(&mut proxied.client, b"\x05\x00\x05\x00\x00\x01\0\0\0\0\0\0").await;
        assert!(proxied.accepted.recv().await.is_some());
    }

    #[tokio::test]
    async fn after_the_stop_nothing_listens() {
        let Proxied {
            client,
            mut accepted,
            stop,
        } = proxied(Protocol::Socks).await;
        let address = client.peer_addr().expect("connected");
        stop.send(()).expect("it runs");
        drop(client);
        // The last sender goes with the listeners.
        assert!(accepted.recv().await.is_none());
        // Another test may have been given the port since, for as long as it runs.
        let start = std::time::Instant::now();
        while let Err(error) = std::net::TcpListener::bind(address) {
            assert!(start.elapsed() < Duration::from_secs(60), "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_named_with_its_setting() {
        let proxied = proxied(Protocol::Socks).await;
        let taken = proxied.client.peer_addr().expect("connected");
        let error = Proxies::of(None, Some(taken)).expect_err("in use");
        assert!(error.to_string().contains("http-proxy"), "{error}");
    }
}
