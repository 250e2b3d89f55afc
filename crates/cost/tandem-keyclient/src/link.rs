//! The connections to one key server: kept open, made again when they break, with many requests in
//! each at a time.
//!
//! Is not: whether this key server is asked.
//!
//! Invariants: a request that was taken ends: answered, or broken. A key server that has requests
//! and says nothing for the length of a deadline has failed. One that is connected has not failed
//! because it refuses a further connection.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tandem_channel::{ClientChannel, Connector, KeyExchange, Pin, Protocol, dial};
use tandem_keyserver::{
    Answer, Content, Frames, GREETING, KeyId, Outcome, Request, RequestId, Scheme,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedSender, channel};
use tokio::time::{sleep, timeout};

use crate::board::Board;

/// What channels to a key server are for. The content is not public: a key exchange that a quantum
/// computer does not break.
const PROTOCOL: Protocol = Protocol {
    name: tandem_keyserver::PROTOCOL,
    key_exchange: KeyExchange::Hybrid,
};
/// Requests on a connection that have no answer yet; the key server reads no more at a time.
const MAX_PIPELINE: usize = 64;
/// A connection that ends sooner, without a request, counts as a failure.
const MIN_LIFE: Duration = Duration::from_secs(1);
/// Before a connection that was refused beside others is asked for again.
const AGAIN: Duration = Duration::from_secs(2);
/// Read at once.
const PIECE: usize = 4_096;

/// A signature that is asked for.
pub(crate) struct Work {
    pub(crate) key: KeyId,
    pub(crate) scheme: Scheme,
    pub(crate) content: Content,
    pub(crate) to: UnboundedSender<Ended>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// With an answer.
    Answered(Outcome),
    /// Without; that key server.
    Broken(usize),
}

/// All connections to one key server.
pub(crate) struct Link {
    each: Vec<Sender<Work>>,
    open: Open,
}

/// Which of its connections are open.
type Open = Arc<[AtomicBool]>;

impl Link {
    /// Connects, in the background.
    pub(crate) fn start(board: &Arc<Board>, server: usize) -> Self {
        let connections = board.options.connections.max(1);
        let open: Open = (0..connections).map(|_| AtomicBool::default()).collect();
        let each = (0..connections).map(|own| {
            let (to, work) = channel(MAX_PIPELINE);
            tokio::spawn(keep(
                Arc::clone(board),
                server,
                Arc::clone(&open),
                own,
                work,
            ));
            to
        });
        Self {
            each: each.collect(),
            open,
        }
    }

    /// Asks over the connection with the most room, an open one where there is one; `false` where
    /// it has none.
    pub(crate) fn ask(&self, work: Work) -> bool {
        let each = self.each.iter().zip(self.open.iter());
        let best = each.max_by_key(|(to, open)| (open.load(Ordering::Relaxed), to.capacity()));
        best.is_some_and(|(to, _)| to.try_send(work).is_ok())
    }
}

/// Keeps one connection for as long as anybody may ask.
async fn keep(board: Arc<Board>, server: usize, open: Open, own: usize, mut work: Receiver<Work>) {
    let is_open = |is_open| open[own].store(is_open, Ordering::Relaxed);
    while !work.is_closed() {
        let why = match connect(&board, server).await {
            Ok(channel) => {
                if board.servers().reached(server) {
                    tracing::info!(server = board.address(server), "the key server is back");
                }
                is_open(true);
                let ended = talk(&board, server, channel, &mut work).await;
                is_open(false);
                match ended {
                    // It may be there still: one that restarts, or ends what was idle.
                    Ok(()) => continue,
                    Err(why) => why,
                }
            }
            // It is there, and has enough connections of this client.
            Err(why) if open.iter().any(|open| open.load(Ordering::Relaxed)) => {
                tracing::debug!(server = board.address(server), %why, "a further connection");
                rest(server, AGAIN, &mut work).await;
                continue;
            }
            Err(why) => why,
        };
        let (was_well, pause, is_last) = {
            let mut servers = board.servers();
            let was_well = servers.failed(server);
            let is_last = servers.to_ask(board.started.elapsed()).is_empty();
            (was_well, servers.rest(server), is_last)
        };
        let address = board.address(server);
        if was_well && is_last {
            tracing::error!(server = address, %why, "no key server can be reached: full handshakes fail until one is back, sessions are resumed still");
        } else if was_well {
            tracing::warn!(server = address, %why, "the key server cannot be reached; the others are asked");
        }
        rest(server, pause, &mut work).await;
    }
}

/// Takes requests that were handed in before it was known that there is no connection.
async fn rest(server: usize, pause: Duration, work: &mut Receiver<Work>) {
    let breaking = async {
        while let Some(work) = work.recv().await {
            broken(server, &work);
        }
    };
    // Nobody can ask any more, or it is time to try again.
    let _ = timeout(pause, breaking).await;
}

fn broken(server: usize, work: &Work) {
    // Another key server may have answered, and nobody wants it any more.
    let _ = work.to.send(Ended::Broken(server));
}

async fn connect(board: &Board, server: usize) -> io::Result<ClientChannel> {
    let settings = board
        .options
        .servers
        .get(server)
        .ok_or(io::ErrorKind::NotFound)?;
    let connector = Connector::new(PROTOCOL, &board.options.key, Pin::to(settings.key));
    let connector = connector.map_err(io::Error::other)?;
    timeout(board.options.deadline, async {
        let stream = dial(&settings.address, board.options.deadline).await?;
        let mut channel = connector.open(stream).await?;
        let mut greeting = [0; GREETING.len()];
        match channel.read_exact(&mut greeting).await {
            Ok(_) if greeting == GREETING => Ok(channel),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!(
                    "it does not admit this channel key, {}, or has too many connections of it ({error})",
                    board.options.key.name()
                ),
            )),
        }
    })
    .await?
}

/// Until the connection ends, `Ok` where the key server has ended it; or nobody can ask any more.
async fn talk(
    board: &Board,
    server: usize,
    channel: ClientChannel,
    work: &mut Receiver<Work>,
) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(channel);
    let mut pending = Pending {
        server,
        works: HashMap::new(),
    };
    let mut frames = Frames::of_answers();
    let mut piece = vec![0; PIECE];
    let mut next_id = 0;
    let began_at = Instant::now();
    let mut heard_at = began_at;
    loop {
        let silent = board.options.deadline.saturating_sub(heard_at.elapsed());
        tokio::select! {
            some = work.recv(), if pending.works.len() < MAX_PIPELINE => {
                let Some(asked) = some else { return Ok(()) };
                if asked.to.is_closed() {
                    continue;
                }
                if pending.works.is_empty() {
                    heard_at = Instant::now();
                }
                let id = RequestId(next_id);
                next_id = next_id.wrapping_add(1);
                let Work { key, scheme, content, .. } = asked;
                let frame = Request { id, key, scheme, content }.to_frame();
                pending.works.insert(id, asked);
                timeout(board.options.deadline, async {
                    to.write_all(&frame).await?;
                    to.flush().await
                })
                .await??;
            }
            read = from.read(&mut piece) => {
                let len = match read {
                    Ok(len) => len,
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                    Err(error) => return Err(error),
                };
                if len == 0 {
                    // One that ends each connection at once is not there.
                    return match began_at.elapsed() < MIN_LIFE && next_id == 0 {
                        true => Err(io::ErrorKind::ConnectionAborted.into()),
                        false => Ok(()),
                    };
                }
                heard_at = Instant::now();
                frames.push(&piece[..len]);
                while let Some(body) = frames.next_body().map_err(io::Error::other)? {
                    let answer = Answer::read(&body).map_err(io::Error::other)?;
                    if let Some(asked) = pending.works.remove(&answer.id) {
                        // Another key server may have been faster.
                        let _ = asked.to.send(Ended::Answered(answer.outcome));
                    }
                }
            }
            () = sleep(silent), if !pending.works.is_empty() => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it answers nothing"));
            }
        }
    }
}

/// Requests without an answer; those that are left at the end are broken.
struct Pending {
    server: usize,
    works: HashMap<RequestId, Work>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.works
            .values()
            .for_each(|work| broken(self.server, work));
    }
}
