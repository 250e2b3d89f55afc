//! One client at the volunteer: its records go to the origin as they are, the origin's stubs come
//! back and become records.
//!
//! Is not: an end of the client's TLS. Of what the client says nothing is understood here but where
//! its records end.
//!
//! Invariants: bytes of the client go to the one origin and nowhere else, and only if they are TLS
//! records; what the client gets is a correct prefix or nothing; what waits is bounded.

use std::sync::Arc;
use std::time::Duration;

use tandem_split::message::{Encodings, Message, Side};
use tandem_split::splice::Limits;
use tandem_split::{Decoder, Splicer, Want};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Shared;
use super::cache::Thing;
use super::fetch::Fetcher;
use tandem_channel::ClientChannel;

/// How long a client may take for its first record.
const HELLO: Duration = Duration::from_secs(15);
/// How long nothing may happen between origin and client.
const IDLE: Duration = Duration::from_secs(150);
/// How long a client may take to read what was written to it.
const STALL: Duration = Duration::from_secs(60);
/// How long a client that takes no more may take to say why.
const LAST_WORD: Duration = Duration::from_secs(2);
/// Bytes of records that are written at once.
const BATCH: usize = 64 << 10;

/// How a connection begins (RFC 5246, sections 6.2.1 and 7.4).
const HANDSHAKE: u8 = 22;
const RECORD_HEADER: usize = 5;
const CLIENT_HELLO: u8 = 1;

/// Why a client's connection ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("the client: {0}")]
    Client(std::io::Error),
    #[error("the origin: {0}")]
    Origin(std::io::Error),
    #[error("the client speaks no TLS: {0}")]
    NotTls(tandem_split::Error),
    #[error("the client's first record is no ClientHello")]
    NoHello,
    #[error("the origin's messages: {0}")]
    Stubs(tandem_split::Error),
    #[error("nothing happened in time")]
    Late,
    #[error("no random bytes")]
    NoRandom,
}

/// Serves one client to its end.
pub(super) async fn serve(shared: &Arc<Shared>, client: TcpStream) -> Result<(), Failed> {
    client.set_nodelay(true).map_err(Failed::Client)?;
    let (mut from_client, to_client) = client.into_split();
    let mut decoder = Decoder::new(Side::Client);
    let mut first = Vec::new();
    // Whoever says nothing, or no TLS, costs the origin nothing.
    timeout(
        HELLO,
        first_record(&mut from_client, &mut decoder, &mut first),
    )
    .await
    .map_err(|_| Failed::Late)??;
    if first.first() != Some(&HANDSHAKE) || first.get(RECORD_HEADER) != Some(&CLIENT_HELLO) {
        return Err(Failed::NoHello);
    }
    let splicer = Splicer::new(Encodings::DEFAULT, Limits::default());
    let mut hello = Vec::new();
    Message::Greeting(splicer.greeting()).write(&mut hello);
    hello.extend_from_slice(&first);
    let said = shared.ready.say(&hello).await;
    let (channel, answer) = said.map_err(Failed::Origin)?;
    let (from_origin, to_origin) = tokio::io::split(channel);

    let moved = Arc::new(Notify::new());
    let mut upward = tokio::spawn(pass_up(from_client, decoder, to_origin, Arc::clone(&moved)));
    let mut downward = Downward {
        shared: Arc::clone(shared),
        splicer,
        from_origin,
        to_client,
        gets: JoinSet::new(),
        moved,
    };
    let served = downward.run(answer, &mut upward).await;
    if matches!(served, Err(Failed::Client(_))) {
        // Its last record may be an alert that says what was wrong, and it may not have gone up
        // yet. The origin ends when it has heard all.
        let mut unheard = tokio::io::sink();
        let end = tokio::io::copy(&mut downward.from_origin, &mut unheard);
        drop(timeout(LAST_WORD, end).await);
    }
    upward.abort();
    served
}

async fn first_record(
    from_client: &mut OwnedReadHalf,
    decoder: &mut Decoder,
    out: &mut Vec<u8>,
) -> Result<(), Failed> {
    let mut buffer = vec![0; 4096];
    while out.is_empty() {
        let len = from_client
            .read(&mut buffer)
            .await
            .map_err(Failed::Client)?;
        if len == 0 {
            return Err(Failed::Client(std::io::ErrorKind::UnexpectedEof.into()));
        }
        whole_records(decoder, &buffer[..len], out)?;
    }
    Ok(())
}

/// Appends the records that are whole with these bytes.
fn whole_records(decoder: &mut Decoder, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
    loop {
        bytes = &bytes[decoder.push(bytes)..];
        while let Some(message) = decoder.next_message().map_err(Failed::NotTls)? {
            message.write(out);
        }
        if bytes.is_empty() {
            return Ok(());
        }
    }
}

/// From the client to the origin, until the client has no more to say.
async fn pass_up(
    mut from_client: OwnedReadHalf,
    mut decoder: Decoder,
    mut to_origin: WriteHalf<ClientChannel>,
    moved: Arc<Notify>,
) -> Result<(), Failed> {
    let mut buffer = vec![0; 16 << 10];
    let mut out = Vec::new();
    loop {
        let read = from_client.read(&mut buffer).await;
        match read {
            Ok(0) | Err(_) => {
                to_origin.shutdown().await.map_err(Failed::Origin)?;
                return Ok(());
            }
            Ok(len) => whole_records(&mut decoder, &buffer[..len], &mut out)?,
        }
        to_origin.write_all(&out).await.map_err(Failed::Origin)?;
        to_origin.flush().await.map_err(Failed::Origin)?;
        moved.notify_one();
        out.clear();
    }
}

/// From the origin to the client.
struct Downward {
    shared: Arc<Shared>,
    splicer: Splicer,
    from_origin: ReadHalf<ClientChannel>,
    to_client: OwnedWriteHalf,
    gets: JoinSet<(Want, Option<Thing>)>,
    /// Something has gone up: a long upload is no idle connection.
    moved: Arc<Notify>,
}

impl Downward {
    async fn run(
        &mut self,
        answer: Vec<u8>,
        upward: &mut tokio::task::JoinHandle<Result<(), Failed>>,
    ) -> Result<(), Failed> {
        self.shared.numbers.from_origin.add(answer.len() as u64);
        let (mut start, mut end) = (0, answer.len());
        let mut buffer = answer;
        buffer.resize(32 << 10, 0);
        let mut is_over = false;
        let mut client_is_done = false;
        loop {
            if start < end {
                start += self
                    .splicer
                    .push(&buffer[start..end])
                    .map_err(Failed::Stubs)?;
            }
            self.write().await?;
            if start < end && self.splicer.has_room() {
                continue;
            }
            if is_over && start == end && self.splicer.is_drained() {
                return self.to_client.shutdown().await.map_err(Failed::Client);
            }
            tokio::select! {
                read = self.from_origin.read(&mut buffer), if !is_over && start == end => {
                    let len = read.map_err(Failed::Origin)?;
                    self.shared.numbers.from_origin.add(len as u64);
                    (start, end) = (0, len);
                    if len == 0 {
                        is_over = true;
                        self.splicer.end().map_err(Failed::Stubs)?;
                    }
                }
                Some(got) = self.gets.join_next(), if !self.gets.is_empty() => {
                    // A task of ours that panicked has nothing to give; the connection ends by its
                    // idle time.
                    if let Ok((want, thing)) = got {
                        self.take(want, thing);
                    }
                }
                ended = &mut *upward, if !client_is_done => {
                    client_is_done = true;
                    if let Ok(ended) = ended {
                        ended?;
                    }
                }
                () = self.moved.notified() => {}
                () = tokio::time::sleep(IDLE) => return Err(Failed::Late),
            }
        }
    }

    /// Writes what can be written, and asks for what is lacking.
    async fn write(&mut self) -> Result<(), Failed> {
        let mut out = Vec::new();
        loop {
            while let Some(want) = self.splicer.poll_want() {
                self.ask(want);
            }
            out.clear();
            let mut has_random = true;
            let written = self.splicer.write_records(&mut out, BATCH, || {
                let mut iv = [0; 16];
                has_random &= getrandom::fill(&mut iv).is_ok();
                iv
            });
            if !has_random {
                return Err(Failed::NoRandom);
            }
            if !out.is_empty() {
                self.shared.allowance.take(out.len()).await;
                timeout(STALL, self.to_client.write_all(&out))
                    .await
                    .map_err(|_| Failed::Late)?
                    .map_err(Failed::Client)?;
                self.shared.numbers.to_clients.add(out.len() as u64);
            }
            written.map_err(Failed::Stubs)?;
            if out.is_empty() {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, want: Want) {
        // What is in memory takes no task of its own.
        if let Some(thing) = self.shared.fetcher.at_hand(want) {
            return self.take(want, Some(thing));
        }
        let fetcher: Arc<Fetcher> = Arc::clone(&self.shared.fetcher);
        self.gets
            .spawn(async move { (want, fetcher.get(want).await) });
    }

    fn take(&mut self, want: Want, thing: Option<Thing>) {
        match thing {
            Some(Thing::Payload(payload)) => {
                self.splicer.give(&payload);
            }
            Some(Thing::List(list)) => {
                self.splicer.give_list(&list);
            }
            None => self.splicer.missing(want),
        }
    }
}
