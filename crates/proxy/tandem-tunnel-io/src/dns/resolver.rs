//! The server side's way to a resolver: one question, one answer.
//!
//! Is not: a resolver, nor the system's: that knows addresses only.
//!
//! Invariants: nobody but the configured resolver is asked; a reply counts if it comes from there,
//! has the identifier and the question; each question ends in bounded time and is answered, if only
//! by a failure; questions are bounded in number.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tandem_daemon::places::{Places, Share};
use tandem_engine::PeerId;
use tandem_link::tunnel::{DnsAnswer, DnsQuery, Ending, MAX_QUERY};
use tandem_tunnel::dns::{self, Heard, Question, hear};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use crate::board::{Board, Tally};
use crate::config::DnsServer;
use crate::transport::{Receiving, Sending, Stream};
use crate::whole::{read_question, write_answer};

/// Questions at a time, of all client sides together, which share them. Each has a socket.
const MAX_OPEN: usize = 512;
/// After which a datagram is sent again: as `dig` and stub resolvers do within their time-out.
const TRY: Duration = Duration::from_secs(3);
/// For a question in all. The other side's clients wait for nine seconds.
const PATIENCE: Duration = Duration::from_secs(8);

const DNS_PORT: u16 = 53;
/// The system's resolver (resolv.conf(5)), and how much of the file is read.
const SYSTEM: &str = "/etc/resolv.conf";
const MAX_SYSTEM: u64 = 64 * 1024;

/// See the module.
pub(crate) struct Resolver {
    server: DnsServer,
    board: Arc<Board>,
    places: Arc<Places<PeerId>>,
}

impl Resolver {
    pub(crate) fn new(server: DnsServer, board: Arc<Board>, share: Share) -> Self {
        Self {
            server,
            board,
            places: Places::new(MAX_OPEN, share),
        }
    }

    /// Answers the query, of this peer, of which `begun` has come.
    pub(crate) async fn serve<S: Sending, R: Receiving>(
        &self,
        (mut stream, peer): (Stream<S, R>, PeerId),
        begun: &[u8],
    ) {
        if let Err(ending) = self.answer((&mut stream, peer), begun).await {
            stream.break_off(ending);
        }
    }

    async fn answer<S: Sending, R: Receiving>(
        &self,
        (stream, peer): (&mut Stream<S, R>, PeerId),
        begun: &[u8],
    ) -> Result<(), Ending> {
        let query = read_question(&mut stream.receiving, begun, MAX_QUERY).await?;
        let question = DnsQuery::parse(&query).and_then(|query| Question::of_link(&query));
        let question = question.map_err(|_| Ending::Malformed)?;
        let place = self.places.take(peer).ok_or(Ending::Overloaded)?;
        let answer = match self.server {
            DnsServer::Nobody => dns::refusal(),
            DnsServer::System => self.resolve(system(Path::new(SYSTEM)), &question).await,
            DnsServer::At(server) => self.resolve(server, &question).await,
        };
        let mut bytes = Vec::new();
        answer.write(&mut bytes);
        // Others need not wait until it has been taken.
        drop(place);
        write_answer(&mut stream.sending, &bytes, PATIENCE).await
    }

    async fn resolve(&self, server: SocketAddr, question: &Question) -> DnsAnswer {
        let answer = timeout(PATIENCE, ask(server, question)).await;
        let (answer, tally) = match answer {
            Ok(Ok(answer)) => (answer, Tally::DnsResolved),
            Ok(Err(_)) | Err(_) => {
                tracing::debug!(%server, "the resolver does not answer");
                (dns::failure(), Tally::DnsUnresolved)
            }
        };
        self.board.count(tally, 1);
        answer
    }
}

/// Asks over UDP, and over TCP where the answer is too long for it.
async fn ask(server: SocketAddr, question: &Question) -> io::Result<DnsAnswer> {
    // RFC 5452, section 4.5: neither the identifier nor the port can be foreseen; the system
    // chooses the port.
    let [id, other] = {
        let random = getrandom::u32().map_err(|error| io::Error::other(error.to_string()))?;
        [(random >> 16) as u16, random as u16]
    };
    match datagrams(server, question, id).await? {
        Heard::Answer(answer) => Ok(answer),
        Heard::Cut | Heard::Other => connection(server, question, other).await,
    }
}

fn message(question: &Question, id: u16) -> io::Result<Vec<u8>> {
    let message = question.message(id);
    message.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The first answer that is one.
async fn datagrams(server: SocketAddr, question: &Question, id: u16) -> io::Result<Heard> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // From nobody else anything is received.
    socket.connect(server).await?;
    let message = message(question, id)?;
    let mut received = vec![0; usize::from(u16::MAX)];
    loop {
        socket.send(&message).await?;
        let again = Instant::now() + TRY;
        while let Ok(length) = timeout_at(again, socket.recv(&mut received)).await {
            match hear(question, id, &received[..length?]) {
                Heard::Other => {}
                heard @ (Heard::Cut | Heard::Answer(_)) => return Ok(heard),
            }
        }
    }
}

async fn connection(server: SocketAddr, question: &Question, id: u16) -> io::Result<DnsAnswer> {
    let mut stream = TcpStream::connect(server).await?;
    let message = message(question, id)?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let framed = [&length.to_be_bytes()[..], &message].concat();
    stream.write_all(&framed).await?;
    let mut received = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut received).await?;
    match hear(question, id, &received) {
        Heard::Answer(answer) => Ok(answer),
        Heard::Cut | Heard::Other => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The first name server of this file, as it is now; without one, this machine.
fn system(path: &Path) -> SocketAddr {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SYSTEM).read_to_string(&mut text));
    if let Err(error) = read {
        tracing::debug!(path = %path.display(), %error, "no resolver is named");
    }
    SocketAddr::new(first_server(&text), DNS_PORT)
}

/// resolv.conf(5). Link-local addresses with a scope are left out: the next is taken.
fn first_server(text: &str) -> IpAddr {
    let named = text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())?;
        address?.parse().ok()
    });
    named.unwrap_or(Ipv4Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Facts;
    use crate::whole::QUESTION;
    use crate::whole::tests::{Full, Rest};

    /// With what a stream is reset that takes nothing, and on which this comes after a query.
    async fn reset_with(rest: Rest) -> Option<u32> {
        let board = Board::new(Facts {
            role: "server-side",
            link: String::new(),
        });
        let resolver = Resolver::new(DnsServer::Nobody, board, Share::All);
        let sending = Full::default();
        let stream = Stream {
            sending: sending.clone(),
            receiving: rest,
        };
        let served = timeout(
            QUESTION * 2,
            resolver.serve((stream, PeerId::OTHER_END), b"\x81\x01\x01a"),
        );
        served.await.expect("in bounded time");
        sending.reset_with()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_broken_off_and_does_not_end_in_order() {
        let code = reset_with(Rest::End).await;
        assert_eq!(code, Some(Ending::TimedOut.code()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_end_is_given_up() {
        let code = reset_with(Rest::Pieces(0)).await;
        assert_eq!(code, Some(Ending::TimedOut.code()));
        let code = reset_with(Rest::Pieces(8)).await;
        assert_eq!(code, Some(Ending::Malformed.code()));
    }

    #[test]
    fn the_systems_resolver_is_the_first_that_is_named_now() {
        for (text, expected) in [
            ("", "127.0.0.1"),
            ("nameserver\noptions edns0\n", "127.0.0.1"),
            (
                "# nameserver 192.0.2.9\nsearch a\nnameserver 192.0.2.1\n",
                "192.0.2.1",
            ),
            (
                "nameserver fe80::1%eth0\nnameserver\t2001:db8::1 # x\n",
                "2001:db8::1",
            ),
        ] {
            assert_eq!(first_server(text).to_string(), expected, "{text:?}");
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        for address in ["192.0.2.1", "192.0.2.2"] {
            let line = format!("nameserver {address}\n");
            std::fs::write(file.path(), line).expect("ours");
            assert_eq!(system(file.path()).to_string(), format!("{address}:53"));
        }
        let gone = system(Path::new("/nonexistent"));
        assert_eq!(gone.to_string(), "127.0.0.1:53");
    }
}
