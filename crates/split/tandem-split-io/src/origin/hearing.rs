//! What a volunteer says on a client's channel: the client's records, and how much of the answers
//! the client has taken.
//!
//! Is: read at once, whatever the session does, so that neither an alert nor credit waits behind
//! records that nobody takes. Is not: what either means.
//!
//! Invariant: records that wait are bounded. A volunteer is told how many have been taken and sends
//! no more than there is room for (`tandem_split::credit`); one of the first version is left to
//! TCP.

use std::sync::Arc;

use tandem_split::Decoder;
use tandem_split::credit::{self, Receipts};
use tandem_split::message::{Message, Progress};
use tokio::io::{AsyncReadExt as _, ReadHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use tandem_channel::ServerChannel;

/// Who says how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// Both sides.
    Both,
    /// Nobody: the volunteer is of the first version.
    Nobody,
}

/// A client's records that have come.
#[derive(Debug)]
pub(super) struct Records {
    queue: mpsc::UnboundedReceiver<(Vec<u8>, OwnedSemaphorePermit)>,
    receipts: Receipts,
    telling: Telling,
}

impl Records {
    /// The next one. May be dropped at any time, and nothing is lost by it.
    pub(super) async fn recv(&mut self) -> Option<Vec<u8>> {
        let (record, _room) = self.queue.recv().await?;
        self.receipts.add(record.len() as u64);
        Some(record)
    }

    /// Whether it is time to say how much was taken.
    pub(super) fn owe_receipt(&self) -> bool {
        self.telling == Telling::Both && self.receipts.are_due()
    }

    /// How much was taken, once each time that it is to be said.
    pub(super) fn poll_receipt(&mut self) -> Option<u64> {
        match self.telling {
            Telling::Both => self.receipts.poll(),
            Telling::Nobody => None,
        }
    }
}

/// What the volunteer says of its client: how many bytes of content it has taken.
pub(super) type Taken = watch::Receiver<u64>;

/// Where what is heard goes.
pub(super) struct Ear {
    /// Nowhere, once the client has ended.
    records: Option<mpsc::UnboundedSender<(Vec<u8>, OwnedSemaphorePermit)>>,
    room: Arc<Semaphore>,
    taken: watch::Sender<u64>,
    telling: Telling,
    goes_on: bool,
}

/// Whether more is to be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A word about this client.
    Word,
    /// The last one.
    Last,
}

/// Both ends.
pub(super) fn hearing(telling: Telling) -> (Ear, Records, Taken) {
    let (records, queue) = mpsc::unbounded_channel();
    let (taken, says) = watch::channel(0);
    let ear = Ear {
        records: Some(records),
        room: Arc::new(Semaphore::new(credit::RECORDS as usize)),
        taken,
        telling,
        goes_on: false,
    };
    let records = Records {
        queue,
        receipts: Receipts::of_records(),
        telling,
    };
    (ear, records, says)
}

impl Ear {
    /// The volunteer says when it has said its last word about this client, and goes on with the
    /// next.
    pub(super) fn until_over(self) -> Self {
        Self {
            goes_on: true,
            ..self
        }
    }

    /// Hears until the volunteer says no more, or what it may not: nothing then. What it says of
    /// another client is left in what is given back.
    pub(super) async fn hear(
        mut self,
        mut from_volunteer: ReadHalf<ServerChannel>,
        mut decoder: Decoder,
    ) -> Option<(ReadHalf<ServerChannel>, Decoder)> {
        let mut buffer = vec![0; 16 << 10];
        let (mut start, mut end) = (0, 0);
        loop {
            loop {
                match decoder.next_message() {
                    Ok(Some(message)) => {
                        if self.take(&message).await? == Heard::Last {
                            let rest = &buffer[start..end];
                            // There is room for a greeting and a hello: nothing more is said before
                            // the answer.
                            let is_all = decoder.push(rest) == rest.len();
                            return is_all.then_some((from_volunteer, decoder));
                        }
                    }
                    Ok(None) => break,
                    Err(_) => return None,
                }
            }
            if start == end {
                let Ok(len @ 1..) = from_volunteer.read(&mut buffer).await else {
                    return None;
                };
                (start, end) = (0, len);
            }
            start += decoder.push(&buffer[start..end]);
        }
    }

    /// Hands on a message; nothing if nobody wants more, or it should not have come.
    pub(super) async fn take(&mut self, message: &Message<'_>) -> Option<Heard> {
        match message {
            Message::Verbatim(record) => {
                let record = record.bytes().to_vec();
                let len = u32::try_from(record.len()).ok()?;
                let room = Arc::clone(&self.room);
                let room = match self.telling {
                    // More than it has credit for.
                    Telling::Both => room.try_acquire_many_owned(len).ok()?,
                    Telling::Nobody => room.acquire_many_owned(len).await.ok()?,
                };
                let is_wanted = self.records.as_ref()?.send((record, room)).is_ok();
                // Until its last word it may not know yet that nobody wants more.
                (is_wanted || self.goes_on).then_some(Heard::Word)
            }
            Message::Progress(Progress::Taken(bytes)) => {
                self.taken.send_replace(*bytes);
                Some(Heard::Word)
            }
            Message::Progress(Progress::End) => {
                self.records = None;
                Some(Heard::Word)
            }
            Message::Progress(Progress::Over) => Some(Heard::Last),
            // The decoder lets none of these through on this channel.
            Message::Stub(_)
            | Message::KeyExpose(_)
            | Message::Greeting(_)
            | Message::Miss(_)
            | Message::Found(_)
            | Message::ListPart(_)
            | Message::Absent(_)
            | Message::Progress(Progress::Coming) => None,
        }
    }
}
