//! The door: where volunteers join, renew and leave. One question, one answer, and the channel is
//! closed.
//!
//! ```text
//!   length (4) | question      length (4) | answer
//! ```
//!
//! Is not: the decision ([`crate::keeper`]), nor the form of what is said
//! (`tandem_barnraising::talk`).
//!
//! Invariants: whoever speaks holds the key that names it; who comes too often, or holds too many
//! places, is sent away before a handshake is made for it, and costs members nothing; one that
//! stalls holds a place for seconds, and places are bounded.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tandem_barnraising::PublicKey;
use tandem_barnraising::admission::Rate;
use tandem_barnraising::talk::{MAX_QUESTION, Question};
use tandem_channel::{Acceptor, KeyExchange, Protocol, ServerChannel};
use tandem_daemon::listener;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::keeper::{Keeper, Part};
use crate::moment::Clock;
use crate::places::{self, Places};

/// How long one may take to show its key and ask,
const PATIENCE: Duration = Duration::from_secs(5);
/// and to take the answer, which a slow disk may keep waiting.
const PATIENCE_ANSWER: Duration = Duration::from_secs(10);
/// The channel between broker and volunteers. What crosses it is published anyway.
pub(crate) const BROKER: Protocol = Protocol {
    name: b"tandem-broker/1",
    key_exchange: KeyExchange::Classical,
};

/// Between two attempts to listen.
const AGAIN: Duration = Duration::from_secs(1);

/// Connections of a network for each of its requests that may count: a channel may break, and who
/// leaves does not count as a request.
const TRIES: u32 = 4;

/// See above.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) acceptor: Acceptor,
    pub(crate) keeper: Keeper,
    pub(crate) rate: Rate,
}

impl Door {
    /// Serves whenever this broker does not follow another one, for ever. While it follows, nobody
    /// listens: volunteers that try this address are refused at once, and go on to the other.
    pub(crate) async fn serve_unless_following(self, address: SocketAddr) {
        let mut part = self.keeper.part();
        let follows = |part: &Part| *part == Part::Following;
        loop {
            if part.wait_for(|part| !follows(part)).await.is_err() {
                return;
            }
            match listener::listen("listen", address).await {
                Ok(listener) => tokio::select! {
                    () = self.clone().serve(listener) => {}
                    _ = part.wait_for(follows) => {}
                },
                Err(error) => {
                    tracing::error!(%error, "volunteers cannot come; tried again");
                    sleep(AGAIN).await;
                }
            }
        }
    }

    /// Serves for ever.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let numbers = self.keeper.numbers();
        let clock = Clock::start();
        let rate = Rate {
            every: self.rate.every / TRIES,
            burst: self.rate.burst.saturating_mul(TRIES),
        };
        let places = Places::new(self.keeper.addresses(), rate);
        listener::serve(listener, places::ALL, |stream| {
            let from = stream.peer_addr().map(|address| address.ip()).ok();
            let admitted = from.and_then(|from| Some((from, places.take(from, clock.now())?)));
            let (acceptor, keeper) = (self.acceptor.clone(), self.keeper.clone());
            let strangers = numbers.strangers.clone();
            async move {
                let Some((from, _place)) = admitted else {
                    strangers.add(1);
                    return;
                };
                if let Err(error) = talk(&acceptor, &keeper, stream, from).await {
                    strangers.add(1);
                    tracing::debug!(%error, "a channel ended early");
                }
            }
        })
        .await;
    }
}

async fn talk(
    acceptor: &Acceptor,
    keeper: &Keeper,
    stream: TcpStream,
    from: IpAddr,
) -> io::Result<()> {
    let (channel, key, question) = timeout(PATIENCE, asked(acceptor, stream)).await??;
    timeout(
        PATIENCE_ANSWER,
        answer(keeper, channel, from, key, question),
    )
    .await?
}

async fn asked(
    acceptor: &Acceptor,
    stream: TcpStream,
) -> io::Result<(ServerChannel, PublicKey, Question)> {
    let mut channel = acceptor.open(stream, Arc::new(AtomicU64::new(0))).await?;
    let peer = tandem_channel::holder(&channel).ok_or_else(malformed)?;
    let length = channel.read_u32().await? as usize;
    if length > MAX_QUESTION {
        return Err(malformed());
    }
    let mut bytes = vec![0; length];
    channel.read_exact(&mut bytes).await?;
    let question = Question::parse(&bytes).ok_or_else(malformed)?;
    Ok((channel, PublicKey(peer.bytes()), question))
}

async fn answer(
    keeper: &Keeper,
    mut channel: ServerChannel,
    from: IpAddr,
    key: PublicKey,
    question: Question,
) -> io::Result<()> {
    let answer = keeper.answer(key, from, question).await;
    let answer = answer.ok_or_else(malformed)?.write();
    // An answer is far shorter than 4 GiB.
    channel.write_u32(answer.len() as u32).await?;
    channel.write_all(&answer).await?;
    channel.shutdown().await
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
