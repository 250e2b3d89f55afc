//! A middlebox's records behind the handshake, in one direction.
//!
//! Invariants: a record that is not changed goes on as it came; one whose MACs do not hold, as far
//! as this middlebox can tell, does not go on.

use mctls::config::Right;
use mctls::party::ContextId;

use crate::entropy::Ivs;
use crate::error::{Breach, Error, Misuse};
use crate::list::{context_of, slice_of};
use crate::protect::{Opened, seal, tag};
use crate::record::{ALERT_SLICE, ContentType, MAX_PAYLOAD_LEN, Record, write};
use crate::session::{Contexts, checked};

/// Passes on the records of one direction.
pub struct Relay {
    contexts: Contexts,
    /// All contexts of the session, also those whose keys this middlebox has not.
    all: Vec<u8>,
    ivs: Ivs,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Relay")
    }
}

/// A record that is passing.
pub struct Passing<'a> {
    relay: &'a mut Relay,
    record: Record,
    opened: Option<(ContextId, Opened)>,
}

impl std::fmt::Debug for Passing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passing")
    }
}

impl Relay {
    pub(crate) const fn new(contexts: Contexts, all: Vec<u8>, ivs: Ivs) -> Self {
        Self { contexts, all, ivs }
    }

    /// What this middlebox may do: that for which both endpoints have sent keys.
    #[must_use]
    pub fn right(&self, id: ContextId) -> Right {
        let slice = id.0.checked_add(1).unwrap_or_default();
        match self.contexts.get(&slice) {
            None => Right::None,
            Some(keys) if keys.writers.is_some() => Right::Write,
            Some(_) => Right::Read,
        }
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// A MAC does not hold, or the record has no place here.
    pub fn receive(&mut self, record: Record) -> Result<Passing<'_>, Error> {
        let breach = Breach::Slice(record.slice);
        let opened = match record.kind {
            ContentType::Alert if record.slice == ALERT_SLICE => None,
            ContentType::ApplicationData if self.all.contains(&record.slice) => {
                let id = context_of(record.slice).ok_or(breach)?;
                let keys = self.contexts.get(&record.slice);
                let opened = keys.map(|keys| checked(keys, id, &record)).transpose()?;
                opened.map(|opened| (id, opened))
            }
            ContentType::ApplicationData => return Err(breach.into()),
            ContentType::Alert | ContentType::Handshake | ContentType::ChangeCipherSpec => {
                return Err(Breach::Record(record.kind.code()).into());
            }
        };
        Ok(Passing {
            relay: self,
            record,
            opened,
        })
    }
}

impl Passing<'_> {
    /// The context and the data, if this middlebox may read it.
    #[must_use]
    pub fn data(&self) -> Option<(ContextId, &[u8])> {
        let (id, opened) = self.opened.as_ref()?;
        Some((*id, &opened.data))
    }

    /// Passes it on as it came.
    pub fn forward(self, out: &mut Vec<u8>) {
        self.record.write(out);
    }

    /// Passes something else on in its place; none deletes it. The endpoints' MAC stays: by it the
    /// other end knows that this is a change.
    ///
    /// # Errors
    /// [`Misuse`]: no right to write, or more than a record holds.
    pub fn replace(self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if data.len() > MAX_PAYLOAD_LEN {
            return Err(Misuse::PayloadLength(data.len()).into());
        }
        let context = context_of(self.record.slice).unwrap_or(ContextId::END_TO_END);
        let refused = Misuse::NotWriter(context);
        let (id, opened) = self.opened.ok_or(refused)?;
        let keys = self.relay.contexts.get(&slice_of(id)).ok_or(refused)?;
        let writers = keys.writers.as_ref().ok_or(refused)?;
        if data.is_empty() {
            return Ok(());
        }
        let kind = self.record.kind;
        let (readers, writers) = (tag(&keys.readers, kind, data), tag(writers, kind, data));
        let macs = [readers, writers, opened.endpoints];
        let fragment = seal(&keys.cipher, self.relay.ivs.next(), data, &macs);
        write(out, kind, slice_of(id), &fragment);
        Ok(())
    }
}
