//! One client at the volunteer: its records go to the origin as they are, the origin's stubs come
//! back and become records.
//!
//! Is not: an end of the client's TLS. Of what the client says nothing is understood here but where
//! its records end.
//!
//! Invariants: bytes of the client go to the one origin and nowhere else, and only if they are TLS
//! records; what the client gets is a correct prefix or nothing; what waits is bounded; a client
//! that has asked for nothing yet may end at any point, by losing its place; the origin is told of
//! what the client has taken, and is sent no more than it has room for (`tandem_split::credit`);
//! the channel is for another client only when both sides have said their last word about this one.

use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tandem_split::credit::{self, Receipts, Window};
use tandem_split::message::{Encodings, Message, Progress, Side};
use tandem_split::splice::Limits;
use tandem_split::{Decoder, Splicer, Want};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::Shared;
use super::cache::Thing;
use super::fetch::Fetcher;
use crate::places::Place;
use tandem_channel::ClientChannel;

/// How long a client may take for its first record: TCP repeats it after 1, 3 and 7 s (RFC 6298).
const HELLO: Duration = Duration::from_secs(10);
/// How long nothing may happen between origin and client.
const IDLE: Duration = Duration::from_secs(150);
/// How long a client may take nothing of what is written to it. Whatever it takes, it may go on for
/// so long again: 64 KiB over a line of 2.4 kbit/s take four minutes.
const STALL: Duration = Duration::from_secs(60);
/// How long a client that takes no more may take to say why.
const LAST_WORD: Duration = Duration::from_secs(2);
/// How long it may take to say what a client has taken where the origin hardly waits for it: by
/// then the client of a small file has left, or asks for something else, and it is said with that.
const AT_LEISURE: Duration = Duration::from_millis(25);
/// The same of its end, where the client has said that it leaves.
const AFTER_ALERT: Duration = Duration::from_secs(1);
/// Bytes of records that are written at once.
const BATCH: usize = 64 << 10;
/// Bytes that may wait in this machine for a client to take them, beside what its window lets
/// through: more than a line needs between two writes, and with a segment less than what the origin
/// is first told of. Without it megabytes that nobody has taken would count as taken.
const UNSENT: u32 = 32 << 10;
/// What is read at once from the origin.
const READ: usize = 32 << 10;

/// A client's last word.
const ALERT: u8 = 21;
/// How a connection begins (RFC 5246, sections 6.2.1 and 7.4).
const HANDSHAKE: u8 = 22;
const RECORD_HEADER: usize = 5;
const CLIENT_HELLO: u8 = 1;
/// What comes after the handshake: a request.
const APPLICATION_DATA: u8 = 23;

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
pub(super) async fn serve(
    shared: &Arc<Shared>,
    client: TcpStream,
    place: Place,
) -> Result<(), Failed> {
    client.set_nodelay(true).map_err(Failed::Client)?;
    SockRef::from(&client)
        .set_tcp_notsent_lowat(UNSENT)
        .map_err(Failed::Client)?;
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
    let mut splicer = Splicer::new(Encodings::DEFAULT, Limits::default());
    let mut hello = Vec::new();
    Message::Greeting(splicer.greeting()).write(&mut hello);
    hello.extend_from_slice(&first);
    let said = shared.ready.say(&hello).await;
    let said = said.map_err(Failed::Origin)?;
    let (channel, answer, target) = (said.channel, said.answer, said.target);
    let (from_origin, to_origin) = tokio::io::split(channel);
    shared.numbers.from_origin.add(answer.len() as u64);
    let start = splicer.push(&answer).map_err(Failed::Stubs)?;
    // The origin says its version in one piece.
    let version = splicer.answer();
    let version = version.ok_or(Failed::Origin(std::io::ErrorKind::InvalidData.into()))?;
    let mut sent = Window::new(credit::RECORDS);
    sent.note_sent(first.len() as u64);
    let (stands, standing) = watch::channel(Standing::default());

    let moved = Arc::new(Notify::new());
    let place = Arc::new(place);
    // A set ends its task when it is dropped: also where this connection ends for want of a place.
    let mut upward = JoinSet::new();
    let up = Upward {
        from_client,
        decoder,
        to_origin,
        sent,
        telling: Telling::of(standing),
        moved: Arc::clone(&moved),
        place: Arc::clone(&place),
    };
    if version.tells_progress() {
        upward.spawn(up.pass());
    } else {
        upward.spawn(up.pass_to_first_version());
    }
    let mut downward = Downward {
        shared: Arc::clone(shared),
        splicer,
        from_origin,
        to_client,
        gets: JoinSet::new(),
        moved,
        receipts: Receipts::of_content(),
        stands,
        arrived: Arrived::from(answer, start),
    };
    let served = downward.run(&mut upward).await;
    if downward.splicer.is_over() {
        // Whatever has become of the client: the origin has said all, and the channel is good for
        // the next one. The volunteer's own last word goes with what it says about that one.
        downward
            .stands
            .send_modify(|standing| standing.is_over = true);
        let said = timeout(LAST_WORD, upward.join_next()).await;
        if let Ok(Some(Ok(Ok(to_origin)))) = said
            && downward.arrived.is_empty()
        {
            let channel = downward.from_origin.unsplit(to_origin);
            shared.ready.take_back(channel, target);
        }
    } else if matches!(served, Err(Failed::Client(_))) {
        // Its last record may be an alert that says what was wrong, and it may not have gone up
        // yet. The origin ends when it has heard all.
        let mut unheard = tokio::io::sink();
        let end = tokio::io::copy(&mut downward.from_origin, &mut unheard);
        drop(timeout(LAST_WORD, end).await);
    }
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

/// How far it has come downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// Bytes of content that the client has taken, when it is time to say so.
    taken: u64,
    /// Whether the origin may wait for that.
    is_awaited: bool,
    /// Bytes of the client's records that the origin says it has taken.
    heard: u64,
    /// Whether the origin has said its last word about this client.
    is_over: bool,
}

/// From the client to the origin, until the client has no more to say. With its first request the
/// client keeps its place.
struct Upward {
    from_client: OwnedReadHalf,
    decoder: Decoder,
    to_origin: WriteHalf<ClientChannel>,
    sent: Window,
    telling: Telling,
    moved: Arc<Notify>,
    place: Arc<Place>,
}

/// What is still to be said to the origin, and until when.
struct Telling {
    standing: watch::Receiver<Standing>,
    /// Bytes of content of which the origin is told that the client has taken them.
    told: u64,
    taken_by: Option<Instant>,
    end_by: Option<Instant>,
}

impl Telling {
    fn of(standing: watch::Receiver<Standing>) -> Self {
        Self {
            standing,
            told: 0,
            taken_by: None,
            end_by: None,
        }
    }

    /// Notes how far it has come downwards, and says so.
    fn note(&mut self, now: Instant) -> Standing {
        let standing = *self.standing.borrow_and_update();
        if standing.taken > self.told {
            let by = match standing.is_awaited {
                true => now,
                false => now + AT_LEISURE,
            };
            self.taken_by = Some(self.taken_by.map_or(by, |before| before.min(by)));
        }
        standing
    }

    /// Notes that the client has ended. The origin ends by itself where it has heard why.
    fn note_end(&mut self, by_alert: bool, now: Instant) {
        self.end_by = Some(if by_alert { now + AFTER_ALERT } else { now });
    }

    /// When there is something to be said at the latest.
    fn due(&self) -> Option<Instant> {
        self.taken_by.into_iter().chain(self.end_by).min()
    }

    /// Appends what it is time to say. What the client has taken is said with whatever else leaves.
    fn say(&mut self, out: &mut Vec<u8>, now: Instant) {
        let is_time = |by: &mut Option<Instant>| by.take_if(|by| *by <= now).is_some();
        let says_taken = is_time(&mut self.taken_by) || !out.is_empty();
        let taken = self.standing.borrow().taken;
        if says_taken && taken > self.told {
            (self.told, self.taken_by) = (taken, None);
            Message::Progress(Progress::Taken(taken)).write(out);
        }
        if is_time(&mut self.end_by) {
            Message::Progress(Progress::End).write(out);
        }
    }
}

impl Upward {
    /// Goes on behind the client's end: what it takes then is told all the same. Comes to its own
    /// with the origin's last word, and gives its side of the channel back: the volunteer's own is
    /// still to be said.
    async fn pass(mut self) -> Result<WriteHalf<ClientChannel>, Failed> {
        let mut buffer = vec![0; 16 << 10];
        let mut out = Vec::new();
        let (mut is_over, mut leaves_by_alert) = (false, false);
        loop {
            let reads = !is_over && self.sent.has_room(credit::RECORDS_AT_ONCE);
            let due = self.telling.due();
            tokio::select! {
                biased;
                changed = self.telling.standing.changed() => {
                    if changed.is_err() {
                        return Ok(self.to_origin);
                    }
                    let standing = self.telling.note(Instant::now());
                    if standing.is_over {
                        return Ok(self.to_origin);
                    }
                    let heard = self.sent.note_taken(standing.heard);
                    heard.map_err(|breach| Failed::Stubs(breach.into()))?;
                }
                read = self.from_client.read(&mut buffer), if reads => match read {
                    Ok(0) | Err(_) => {
                        is_over = true;
                        self.telling.note_end(leaves_by_alert, Instant::now());
                    }
                    Ok(len) => {
                        whole_records(&mut self.decoder, &buffer[..len], &mut out)?;
                        self.sent.note_sent(out.len() as u64);
                        leaves_by_alert = types(&out).last() == Some(ALERT);
                    }
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
            self.telling.say(&mut out, Instant::now());
            self.send(&mut out).await?;
        }
    }

    /// To an origin that knows no more than records, and no more of an end than the channel's.
    async fn pass_to_first_version(mut self) -> Result<WriteHalf<ClientChannel>, Failed> {
        let mut buffer = vec![0; 16 << 10];
        let mut out = Vec::new();
        loop {
            match self.from_client.read(&mut buffer).await {
                Ok(0) | Err(_) => {
                    self.to_origin.shutdown().await.map_err(Failed::Origin)?;
                    return Ok(self.to_origin);
                }
                Ok(len) => whole_records(&mut self.decoder, &buffer[..len], &mut out)?,
            }
            self.send(&mut out).await?;
        }
    }

    async fn send(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        if types(out).any(|kind| kind == APPLICATION_DATA) {
            self.place.keep();
        }
        if !out.is_empty() {
            self.to_origin
                .write_all(out)
                .await
                .map_err(Failed::Origin)?;
            self.to_origin.flush().await.map_err(Failed::Origin)?;
            self.moved.notify_one();
            out.clear();
        }
        Ok(())
    }
}

/// The types of these messages, which are whole: of records, and of what is said about them.
fn types(mut messages: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (header, rest) = messages.split_first_chunk::<RECORD_HEADER>()?;
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        messages = rest.get(length..).unwrap_or_default();
        Some(header[0])
    })
}

/// What a client is to take, and until when it has to take some of it.
struct Handing<'a> {
    rest: &'a [u8],
    deadline: Instant,
}

impl<'a> Handing<'a> {
    fn of(out: &'a [u8]) -> Self {
        Self {
            rest: out,
            deadline: Instant::now() + STALL,
        }
    }

    /// Has it take some. May be dropped at any time, and nothing is lost by it.
    async fn some(&mut self, to_client: &mut (impl AsyncWrite + Unpin)) -> Result<(), Failed> {
        let wrote = timeout_at(self.deadline, to_client.write(self.rest)).await;
        match wrote.map_err(|_| Failed::Late)?.map_err(Failed::Client)? {
            0 => Err(Failed::Client(std::io::ErrorKind::WriteZero.into())),
            len => {
                *self = Self::of(&self.rest[len..]);
                Ok(())
            }
        }
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
    receipts: Receipts,
    stands: watch::Sender<Standing>,
    arrived: Arrived,
}

/// What has come from the origin and was not pushed yet.
struct Arrived {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_over: bool,
    /// Why no more comes.
    failed: Option<std::io::Error>,
}

impl Arrived {
    /// What came first, of which `start` bytes were pushed.
    fn from(mut first: Vec<u8>, start: usize) -> Self {
        let end = first.len();
        first.resize(READ.max(end), 0);
        Self {
            buffer: first,
            start,
            end,
            is_over: false,
            failed: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether more is to be read.
    fn wants(&self) -> bool {
        self.is_empty() && !self.is_over && self.failed.is_none()
    }
}

impl Downward {
    async fn run(
        &mut self,
        upward: &mut JoinSet<Result<WriteHalf<ClientChannel>, Failed>>,
    ) -> Result<(), Failed> {
        let mut client_is_done = false;
        loop {
            self.push()?;
            self.write().await?;
            if !self.arrived.is_empty() && self.splicer.has_room() {
                continue;
            }
            if let Some(error) = self.arrived.failed.take() {
                return Err(Failed::Origin(error));
            }
            let is_over = self.arrived.is_over || self.splicer.is_over();
            if is_over && self.arrived.is_empty() && self.splicer.is_drained() {
                return self.to_client.shutdown().await.map_err(Failed::Client);
            }
            tokio::select! {
                read = self.from_origin.read(&mut self.arrived.buffer), if self.reads() => {
                    self.take_in(read)?;
                }
                Some(got) = self.gets.join_next(), if !self.gets.is_empty() => {
                    // A task of ours that panicked has nothing to give; the connection ends by its
                    // idle time.
                    if let Ok((want, thing)) = got {
                        self.take(want, thing);
                    }
                }
                Some(ended) = upward.join_next(), if !client_is_done => {
                    client_is_done = true;
                    // Behind the origin's last word the client is still to get what there is.
                    if let Ok(ended) = ended
                        && !self.splicer.is_over()
                    {
                        ended?;
                    }
                }
                () = self.moved.notified() => {}
                () = tokio::time::sleep(IDLE) => return Err(Failed::Late),
            }
        }
    }

    /// Whether more is to come from the origin for this client, and there is room for it.
    fn reads(&self) -> bool {
        self.arrived.wants() && !self.splicer.is_over()
    }

    /// Takes what was read from the origin, or that it has ended.
    fn take_in(&mut self, read: std::io::Result<usize>) -> Result<(), Failed> {
        match read {
            Ok(len) => {
                self.shared.numbers.from_origin.add(len as u64);
                (self.arrived.start, self.arrived.end) = (0, len);
                if len == 0 {
                    self.arrived.is_over = true;
                    self.splicer.end().map_err(Failed::Stubs)?;
                }
            }
            Err(error) => self.arrived.failed = Some(error),
        }
        Ok(())
    }

    /// Hands on to the splicer what it has room for, and to the way upwards what the origin says.
    fn push(&mut self) -> Result<(), Failed> {
        let arrived = &mut self.arrived;
        if !arrived.is_empty() {
            let bytes = &arrived.buffer[arrived.start..arrived.end];
            arrived.start += self.splicer.push(bytes).map_err(Failed::Stubs)?;
        }
        let heard = self.splicer.heard();
        self.stands.send_if_modified(|standing| {
            let is_new = standing.heard != heard;
            standing.heard = heard;
            is_new
        });
        Ok(())
    }

    /// Has the client take all of `out`, however slowly, and hears the origin meanwhile: it may
    /// have to say that the client may send more, to one that sends before it reads.
    async fn hand_over(&mut self, out: &[u8]) -> Result<(), Failed> {
        let mut handing = Handing::of(out);
        while !handing.rest.is_empty() {
            let reads = self.reads() && self.splicer.has_room();
            tokio::select! {
                biased;
                handed = handing.some(&mut self.to_client) => handed?,
                read = self.from_origin.read(&mut self.arrived.buffer), if reads => {
                    // What is wrong with it is said again behind what came before.
                    self.take_in(read).ok();
                    self.push().ok();
                }
            }
        }
        Ok(())
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
                self.hand_over(&out).await?;
                self.shared.numbers.to_clients.add(out.len() as u64);
                self.receipts.note_taken(self.splicer.content_written());
                if let Some(taken) = self.receipts.poll() {
                    let is_awaited = !self.splicer.ends_short();
                    self.stands.send_modify(|standing| {
                        (standing.taken, standing.is_awaited) = (taken, is_awaited);
                    });
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_each_minute_gets_all_and_one_that_takes_nothing_is_left()
    {
        let out = vec![7; BATCH];
        let (mut to_client, mut client) = tokio::io::duplex(1024);
        let slow = tokio::spawn(async move {
            let mut taken = vec![0; BATCH];
            for part in taken.chunks_mut(1024) {
                tokio::time::sleep(STALL - Duration::from_secs(1)).await;
                client.read_exact(part).await.expect("it is there");
            }
            (client, taken)
        });
        let mut handing = Handing::of(&out);
        while !handing.rest.is_empty() {
            assert!(handing.some(&mut to_client).await.is_ok());
        }
        let (_client, taken) = slow.await.expect("no panic");
        assert!(taken == out);

        let mut handing = Handing::of(&out);
        assert!(handing.some(&mut to_client).await.is_ok());
        let start = Instant::now();
        let given_up = handing.some(&mut to_client).await;
        assert!(matches!(given_up, Err(Failed::Late)));
        assert_eq!(start.elapsed(), STALL);
    }

    #[test]
    fn what_nobody_waits_for_is_told_with_something_else_or_a_little_later() {
        let (stands, standing) = watch::channel(Standing::default());
        let mut telling = Telling::of(standing);
        let start = Instant::now();
        let taken = |taken: u64, is_awaited: bool| {
            stands.send_modify(|standing| {
                (standing.taken, standing.is_awaited) = (taken, is_awaited);
            });
        };
        let said = |telling: &mut Telling, so_far: &[u8], at: Instant| {
            let mut out = so_far.to_vec();
            telling.say(&mut out, at);
            types(&out).collect::<Vec<u8>>()
        };
        let record = [ALERT, 3, 3, 0, 0];
        let kind = |progress: Progress| {
            let mut out = Vec::new();
            Message::Progress(progress).write(&mut out);
            out[0]
        };
        let (told, end) = (kind(Progress::Taken(0)), kind(Progress::End));
        assert_eq!(
            (telling.due(), said(&mut telling, &record, start)),
            (None, vec![ALERT])
        );

        // At once where the origin may wait; later where it does not, and once.
        taken(1000, true);
        telling.note(start);
        assert_eq!(said(&mut telling, &[], start), [told]);
        taken(2000, false);
        telling.note(start);
        assert_eq!(telling.due(), Some(start + AT_LEISURE));
        assert_eq!(said(&mut telling, &[], start), [0; 0]);
        assert_eq!(said(&mut telling, &[], start + AT_LEISURE), [told]);
        assert_eq!(
            (telling.due(), said(&mut telling, &record, start)),
            (None, vec![ALERT])
        );

        // With a record that leaves; and at once when the origin begins to wait.
        taken(3000, false);
        telling.note(start);
        assert_eq!(said(&mut telling, &record, start), [ALERT, told]);
        taken(4000, false);
        telling.note(start);
        taken(4000, true);
        telling.note(start);
        assert_eq!(telling.due(), Some(start));

        // The end of a client that has said that it leaves.
        assert_eq!(said(&mut telling, &[], start), [told]);
        telling.note_end(true, start);
        assert_eq!(said(&mut telling, &[], start), [0; 0]);
        assert_eq!(said(&mut telling, &[], start + AFTER_ALERT), [end]);
        telling.note_end(false, start);
        assert_eq!(said(&mut telling, &[], start), [end]);
        assert_eq!(telling.due(), None);
    }

    #[test]
    fn a_request_is_told_from_a_handshake_behind_other_records_too() {
        let record = |kind: u8, length: u8| {
            let body = vec![APPLICATION_DATA; usize::from(length)];
            [vec![kind, 3, 3, 0, length], body].concat()
        };
        let handshake = [record(HANDSHAKE, 70), record(20, 1), record(HANDSHAKE, 64)].concat();
        let has_data = |messages: &[u8]| types(messages).any(|kind| kind == APPLICATION_DATA);
        assert!(!has_data(&[]) && !has_data(&handshake));
        assert!(has_data(&record(APPLICATION_DATA, 0)));
        assert!(has_data(
            &[handshake.clone(), record(APPLICATION_DATA, 9)].concat()
        ));
        let leaving = [record(APPLICATION_DATA, 9), record(ALERT, 26)].concat();
        assert_eq!(types(&leaving).last(), Some(ALERT));
    }
}
