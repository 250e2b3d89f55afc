//! A middlebox's records of one direction: it forwards what it may not read, checks what it may,
//! and changes what it may write (the paper, section 3.4).
//!
//! A reader checks the readers' MAC, a writer the writers'. A writer that changes a record makes
//! both anew and passes on the endpoints' MAC as it came. Records are neither added nor taken away,
//! since their numbers run on: an empty one stands for what is deleted.

use std::collections::BTreeMap;

use mctls::config::Right;
use mctls::party::{ContextId, Direction};

use crate::error::{Check, Error, Misuse};
use crate::protect::{ContextKeys, Ivs, Opened, Place};
use crate::record::{ContentType, MAX_PAYLOAD_LEN, Record};
use crate::secret::Secret;

/// Passes on records of one direction.
pub struct Relay {
    keys: BTreeMap<ContextId, ContextKeys>,
    ivs: Ivs,
    next: u64,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Relay {
    pub(crate) fn new(
        keys: BTreeMap<ContextId, ContextKeys>,
        iv: &Secret,
        direction: Direction,
        passed: u64,
    ) -> Self {
        Self {
            keys,
            ivs: Ivs::new(iv, direction),
            next: passed,
        }
    }

    /// What this middlebox may do in a context: that for which both endpoints have sent it keys.
    #[must_use]
    pub fn right(&self, context: ContextId) -> Right {
        match self.keys.get(&context) {
            None => Right::None,
            Some(keys) if keys.writers.is_none() => Right::Read,
            Some(_) => Right::Write,
        }
    }

    /// Takes a record. Nothing goes on before [`Passing::forward`] or [`Passing::replace`].
    ///
    /// # Errors
    /// [`Check`]: it was changed by a party that may not. [`Misuse::SequenceSpent`].
    pub fn receive(&mut self, record: Record) -> Result<Passing<'_>, Error> {
        let seq = self.next;
        self.next = seq.checked_add(1).ok_or(Misuse::SequenceSpent)?;
        let place = Place {
            seq,
            kind: record.kind,
            context: record.context,
        };
        let keys = match record.kind {
            ContentType::ApplicationData => self.keys.get(&record.context),
            ContentType::ChangeCipherSpec | ContentType::Alert | ContentType::Handshake => None,
        };
        let opened = match keys {
            None => None,
            Some(keys) => Some((keys, check(keys, place, &record)?)),
        };
        Ok(Passing {
            record,
            place,
            opened,
            relay: self,
        })
    }
}

#[cfg(any(test, feature = "hostile"))]
impl Relay {
    /// All that this middlebox has.
    pub(crate) const fn keys(&self) -> &BTreeMap<ContextId, ContextKeys> {
        &self.keys
    }
}

fn check(keys: &ContextKeys, place: Place, record: &Record) -> Result<Opened, Error> {
    let context = record.context;
    let opened = keys.open(&record.fragment);
    let opened = opened.filter(|opened| opened.data.len() <= MAX_PAYLOAD_LEN);
    let opened = opened.ok_or(Check::ReaderMac(context))?;
    let readers = || place.holds(&keys.readers, &opened.data, &opened.readers);
    match &keys.writers {
        Some(writers) if place.holds(writers, &opened.data, &opened.writers) => Ok(opened),
        Some(_) if readers() => Err(Check::WriterMac(context).into()),
        None if readers() => Ok(opened),
        Some(_) | None => Err(Check::ReaderMac(context).into()),
    }
}

/// A record on its way.
#[must_use = "it goes nowhere by itself"]
pub struct Passing<'a> {
    pub(crate) record: Record,
    pub(crate) place: Place,
    pub(crate) opened: Option<(&'a ContextKeys, Opened)>,
    pub(crate) relay: &'a Relay,
}

impl std::fmt::Debug for Passing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passing")
            .field("context", &self.record.context)
            .finish_non_exhaustive()
    }
}

impl Passing<'_> {
    /// Its context.
    #[must_use]
    pub const fn context(&self) -> ContextId {
        self.record.context
    }

    /// Its data, if this middlebox may read it.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        let opened = self.opened.as_ref();
        opened.map(|(_, opened)| opened.data.as_slice())
    }

    /// Passes it on as it came.
    pub fn forward(self, out: &mut Vec<u8>) {
        self.record.write(out);
    }

    /// Puts other data in its place.
    ///
    /// # Errors
    /// [`Misuse`]: this middlebox may not write in this context, or that is too much data.
    pub fn replace(self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let context = self.record.context;
        if data.len() > MAX_PAYLOAD_LEN {
            return Err(Misuse::PayloadLength(data.len()).into());
        }
        let (keys, opened) = self.opened.ok_or(Misuse::NotWriter(context))?;
        let writers = keys.writers.as_ref().ok_or(Misuse::NotWriter(context))?;
        let changed = Opened {
            readers: self.place.mac(&keys.readers, data),
            writers: self.place.mac(writers, data),
            endpoints: opened.endpoints,
            data: data.to_vec(),
        };
        let fragment = keys.seal(self.relay.ivs.at(self.place.seq), &changed);
        let record = Record {
            fragment,
            ..self.record
        };
        record.write(out);
        Ok(())
    }
}
