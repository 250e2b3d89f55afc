//! What other volunteers of the site ask this one for: answers out of its cache, or from the
//! origin.
//!
//! Who has to wait is told so, or would ask the origin as well (`patience`): once whatever the
//! reason is, and again as long as something comes from the origin.
//!
//! Is not: for strangers: who is no member gets no channel. Nor does a question go on to a third
//! volunteer, so that none can go in a circle.
//!
//! Invariants: what goes out is within the allowance that clients are served from; questions that
//! wait, and channels, are bounded.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tandem_split::message::{
    Absent, Channel, Found, Greeting, Message, Miss, Progress, Side, list_parts,
};
use tandem_split::{Decoder, Error};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Shared;
use super::cache::Thing;
use super::fetch::{Question, Reach};
use super::sharing::{self, Members};
use crate::greet::greet;
use crate::places::Place;
use tandem_channel::{Acceptor, ServerChannel};

/// How long a volunteer may take to say what it wants.
const GREETING: Duration = Duration::from_secs(5);
/// How long a channel without a question stays open; whoever asks closes it after a minute.
const IDLE: Duration = Duration::from_secs(90);
/// How long an answer may take to be read.
const STALL: Duration = Duration::from_secs(60);
/// After so long it is said that the answer is still to come, whether or not anything has come from
/// the origin: before the patience of whoever asks is over, and after a cache on disk has answered.
const FIRST_WORD: Duration = Duration::from_millis(250);
/// And after so long again, if something has come.
const NEXT_WORD: Duration = Duration::from_secs(2);
/// Questions of one volunteer that are looked into at a time.
const AT_ONCE: usize = 64;
/// Questions of one volunteer that may wait. It asks for eight chunks along with a list at most.
const WAITING: usize = 4096;

/// Serves one channel of misses to its end. `place` is a member's once the member's key is known.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    acceptor: &Acceptor,
    members: &Members,
    stream: TcpStream,
    place: Place,
) -> io::Result<()> {
    let sent = shared.numbers.to_peers.shared();
    let greeted = async {
        let mut io = acceptor.open(stream, sent).await.inspect_err(|_| {
            shared.numbers.refused_peers.add(1);
        })?;
        let mut decoder = Decoder::new(Side::Volunteer);
        let greeting = greet(&mut io, &mut decoder).await?;
        Ok::<_, io::Error>((io, decoder, greeting))
    };
    let (io, decoder, greeting) = timeout(GREETING, greeted).await??;
    place.count_as_member();
    if tandem_channel::holder(&io).is_some_and(|key| !place.count_for(key)) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    match greeting.channel {
        Channel::Misses => {}
        // No open relay: clients come by another port.
        Channel::Connection => return Err(io::ErrorKind::PermissionDenied.into()),
    }
    let mut questions = Questions {
        shared: Arc::clone(shared),
        members: members.clone(),
        io,
        decoder,
        greeting,
        next_word: Instant::now(),
        told: None,
        pending: VecDeque::new(),
        gets: JoinSet::new(),
        place,
    };
    questions.answer_all().await
}

struct Questions {
    shared: Arc<Shared>,
    members: Members,
    io: ServerChannel,
    decoder: Decoder,
    greeting: Greeting,
    /// When it is next to be said that answers are coming.
    next_word: Instant,
    /// What had come from the origin when that was last said.
    told: Option<u64>,
    pending: VecDeque<Question>,
    gets: JoinSet<(Miss, Option<Thing>)>,
    place: Place,
}

impl Questions {
    async fn answer_all(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        // The first question may have come with the greeting.
        self.take_in(&[]).map_err(io::Error::other)?;
        loop {
            while self.gets.len() < AT_ONCE
                && let Some(question) = self.pending.pop_front()
            {
                if self.gets.is_empty() {
                    (self.next_word, self.told) = (Instant::now() + FIRST_WORD, None);
                }
                let fetcher = Arc::clone(&self.shared.fetcher);
                self.gets
                    .spawn(async move { (question.miss, fetcher.get_for_peer(question).await) });
            }
            let has_room = self.pending.is_empty() && self.gets.len() < AT_ONCE;
            let is_idle = self.gets.is_empty();
            let is_coming = !is_idle && self.greeting.tells_coming();
            tokio::select! {
                read = self.io.read(&mut buffer), if has_room => match read? {
                    0 => return Ok(()),
                    len => {
                        if !self.is_member() {
                            return Err(io::ErrorKind::PermissionDenied.into());
                        }
                        self.take_in(&buffer[..len]).map_err(io::Error::other)?;
                    }
                },
                Some(got) = self.gets.join_next(), if !is_idle => {
                    // A task of ours that panicked has nothing to say: the volunteer asks somebody
                    // else.
                    if let Ok((miss, thing)) = got {
                        self.answer(miss, thing).await?;
                    }
                }
                () = sleep_until(self.next_word), if is_coming => self.say_coming().await?,
                () = sleep(IDLE), if is_idle => return Ok(()),
            }
        }
    }

    /// Whether the far end is a member still.
    fn is_member(&self) -> bool {
        let Some(key) = tandem_channel::holder(&self.io) else {
            return false;
        };
        sharing::has(&self.members, key)
    }

    /// Takes bytes, and the questions that are whole with them.
    fn take_in(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        loop {
            bytes = &bytes[self.decoder.push(bytes)..];
            while let Some(message) = self.decoder.next_message()? {
                if let Message::Miss(miss) = message {
                    self.place.keep();
                    self.shared.numbers.asked_by_peers.add(1);
                    let reach = Reach::Origin;
                    self.pending.push_back(Question { miss, reach });
                }
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Says that what is asked for is coming: at first in any case, then if more has come from the
    /// origin.
    async fn say_coming(&mut self) -> io::Result<()> {
        self.next_word = Instant::now() + NEXT_WORD;
        let came = Some(self.shared.fetcher.came());
        if self.told == came {
            return Ok(());
        }
        self.told = came;
        let mut out = Vec::new();
        Message::Progress(Progress::Coming).write(&mut out);
        self.write(&out).await
    }

    async fn answer(&mut self, miss: Miss, thing: Option<Thing>) -> io::Result<()> {
        let mut out = Vec::new();
        match thing {
            Some(Thing::Payload(payload)) => Message::Found(Found::new(&payload)).write(&mut out),
            Some(Thing::List(list)) => {
                for part in list_parts(&list) {
                    Message::ListPart(part).write(&mut out);
                }
                if let Miss::Object { first, count, .. } = miss {
                    // Nobody who needs something asks for so much at once.
                    if self.pending.len() + count as usize > WAITING {
                        return Err(io::ErrorKind::InvalidInput.into());
                    }
                    // Those that are not here are others' to have.
                    let chunks = list.chunks().skip(first as usize).take(count as usize);
                    self.pending.extend(chunks.map(|name| Question {
                        miss: Miss::Payload(name),
                        reach: Reach::Here,
                    }));
                }
            }
            None => Message::Absent(Absent(miss)).write(&mut out),
        }
        self.write(&out).await
    }

    async fn write(&mut self, out: &[u8]) -> io::Result<()> {
        self.shared.allowance.take(out.len()).await;
        timeout(STALL, async {
            self.io.write_all(out).await?;
            self.io.flush().await
        })
        .await?
    }
}
