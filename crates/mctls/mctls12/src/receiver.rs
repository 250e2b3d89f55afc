//! An endpoint's records from the other, and the checks of the paper, section 3.4.
//!
//! The writers' MAC says whether anybody without the right to write has changed the record: then
//! the session is over. The endpoints' MAC says whether a writer has: that is reported. The
//! readers' MAC is looked at only to say who has broken the writers'.
//!
//! What is not found: which writer it was; a middlebox that has not seen a record, and should have;
//! that a reader has deceived another reader behind it, where a writer stands in between.

use mctls::party::ContextId;

use crate::error::{Breach, CLOSE_NOTIFY, Check, Error, Misuse, Policy};
use crate::protect::{FullKeys, Place};
use crate::record::{ContentType, MAX_PAYLOAD_LEN, Record};

/// Whether data is as the other endpoint sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// It is.
    Original,
    /// A writer has changed it. Which one, nobody can tell.
    Changed,
}

/// Data that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// In which context.
    pub context: ContextId,
    /// The data.
    pub data: Vec<u8>,
    /// Whether a writer has changed it.
    pub provenance: Provenance,
}

/// What a record was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Data.
    Data(Delivery),
    /// The other endpoint has sent everything.
    Closed,
}

/// Receives records of one direction.
///
/// Invariant: what it gives out stands at its place in the order over all contexts.
pub struct Receiver {
    keys: FullKeys,
    next: u64,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closed,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Receiver {
    pub(crate) const fn new(keys: FullKeys) -> Self {
        Self {
            keys,
            next: 0,
            end: End::Open,
        }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// A check has failed, or the other side ended the session: it is over.
    pub fn open(&mut self, record: &Record) -> Result<Event, Error> {
        match record.kind {
            ContentType::ApplicationData => self.data(record).map(Event::Data),
            ContentType::Alert => match *self.control(record)? {
                [_, CLOSE_NOTIFY] => {
                    self.end = End::Closed;
                    Ok(Event::Closed)
                }
                [_, alert] => Err(Policy::Alert(alert).into()),
                _ => Err(Breach::Alert.into()),
            },
            ContentType::ChangeCipherSpec | ContentType::Handshake => {
                Err(Breach::Record(record.kind.code()).into())
            }
        }
    }

    fn data(&mut self, record: &Record) -> Result<Delivery, Error> {
        let context = record.context;
        let place = self.place(record)?;
        let keys = self.keys.contexts.get(&context);
        let keys = keys.ok_or(Breach::Context(context))?;
        let opened = keys.keys.open(&record.fragment);
        let opened = opened.filter(|opened| opened.data.len() <= MAX_PAYLOAD_LEN);
        let opened = opened.ok_or(Check::ReaderMac(context))?;
        if !place.holds(&keys.writers, &opened.data, &opened.writers) {
            let by_reader = place.holds(&keys.keys.readers, &opened.data, &opened.readers);
            return Err(match by_reader {
                true => Check::WriterMac(context),
                false => Check::ReaderMac(context),
            }
            .into());
        }
        let endpoints = &self.keys.endpoints.mac;
        let is_original = place.holds(endpoints, &opened.data, &opened.endpoints);
        Ok(Delivery {
            context,
            data: opened.data,
            provenance: match is_original {
                true => Provenance::Original,
                false => Provenance::Changed,
            },
        })
    }

    /// What is in a record of context 0.
    pub(crate) fn control(&mut self, record: &Record) -> Result<Vec<u8>, Error> {
        if record.context != ContextId::END_TO_END {
            return Err(Breach::Context(record.context).into());
        }
        let place = self.place(record)?;
        let opened = self.keys.endpoints.open(place, &record.fragment);
        Ok(opened.ok_or(Check::EndpointMac)?)
    }

    fn place(&mut self, record: &Record) -> Result<Place, Error> {
        if self.end == End::Closed {
            return Err(Breach::AfterClose.into());
        }
        let seq = self.next;
        self.next = seq.checked_add(1).ok_or(Misuse::SequenceSpent)?;
        Ok(Place {
            seq,
            kind: record.kind,
            context: record.context,
        })
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// [`Breach::Truncated`]: the other endpoint has not said so.
    pub const fn finish(&self) -> Result<(), Error> {
        match self.end {
            End::Closed => Ok(()),
            End::Open => Err(Error::Peer(Breach::Truncated)),
        }
    }
}

#[cfg(test)]
impl Receiver {
    /// The next record is the first behind the finished message again.
    pub(crate) const fn rewind(&mut self) {
        self.next = 1;
    }
}
