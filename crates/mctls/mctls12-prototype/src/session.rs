//! An endpoint's records behind the handshake.
//!
//! Invariants: what comes out was vouched for by the MACs of this format, which is not much:
//! records can be repeated, dropped, moved to another place, and sent back to their author, and
//! nobody notices (`protect.rs`); nothing follows a direction's end.

use std::collections::BTreeMap;

use mctls::party::ContextId;

use crate::entropy::Ivs;
use crate::error::{Breach, CLOSE_NOTIFY, Check, Error, Malformed, Misuse, Policy};
use crate::list::{context_of, slice_of};
use crate::protect::{ContextKeys, EndKeys, holds, seal, tag};
use crate::record::{ALERT_SLICE, ContentType, MAX_PAYLOAD_LEN, Record, write};

pub use mctls12::receiver::{Delivery, Event, Provenance};

/// Keys of the contexts, by slice.
pub(crate) type Contexts = BTreeMap<u8, ContextKeys>;

/// Protects what an endpoint sends.
pub struct Sender {
    contexts: Contexts,
    keys: EndKeys,
    ivs: Ivs,
    is_closed: bool,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

impl Sender {
    pub(crate) const fn new(contexts: Contexts, keys: EndKeys, ivs: Ivs) -> Self {
        Self {
            contexts,
            keys,
            ivs,
            is_closed: false,
        }
    }

    /// Appends a record with data of a context.
    ///
    /// # Errors
    /// No such context, more data than a record holds, or the direction is closed.
    pub fn seal(&mut self, id: ContextId, data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if self.is_closed {
            return Err(Misuse::Closed.into());
        }
        if data.len() > MAX_PAYLOAD_LEN {
            return Err(Misuse::PayloadLength(data.len()).into());
        }
        let slice = id.0.checked_add(1).unwrap_or_default();
        let keys = self.contexts.get(&slice).ok_or(Misuse::Context(id))?;
        let writers = keys.writers.as_ref().ok_or(Misuse::Context(id))?;
        let kind = ContentType::ApplicationData;
        let macs = [&keys.readers, writers, &self.keys.mac].map(|key| tag(key, kind, data));
        let fragment = seal(&keys.cipher, self.ivs.next(), data, &macs);
        write(out, kind, slice_of(id), &fragment);
        Ok(())
    }

    /// Appends the record that ends the direction.
    ///
    /// # Errors
    /// It is closed already.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.alert(1, CLOSE_NOTIFY, out)
    }

    /// Appends the record that ends the session.
    ///
    /// # Errors
    /// The direction is closed.
    pub fn abort(&mut self, code: u8, out: &mut Vec<u8>) -> Result<(), Error> {
        self.alert(2, code, out)
    }

    fn alert(&mut self, level: u8, code: u8, out: &mut Vec<u8>) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Err(Misuse::Closed.into());
        }
        let fragment = self.keys.seal_alert(self.ivs.next(), [level, code]);
        write(out, ContentType::Alert, ALERT_SLICE, &fragment);
        Ok(())
    }
}

/// Opens what an endpoint receives.
pub struct Receiver {
    contexts: Contexts,
    keys: EndKeys,
    is_closed: bool,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver")
    }
}

impl Receiver {
    pub(crate) const fn new(contexts: Contexts, keys: EndKeys) -> Self {
        Self {
            contexts,
            keys,
            is_closed: false,
        }
    }

    /// Opens a record. The prototype only prints that a writers' MAC does not hold; here that ends
    /// the session.
    ///
    /// # Errors
    /// A MAC does not hold, the other side has ended the session, or the record has no place here.
    pub fn open(&mut self, record: &Record) -> Result<Event, Error> {
        if self.is_closed {
            return Err(Breach::AfterClose.into());
        }
        match record.kind {
            ContentType::ApplicationData => self.data(record).map(Event::Data),
            ContentType::Alert if record.slice == ALERT_SLICE => {
                let alert = self.keys.open_alert(&record.fragment);
                match alert.ok_or(Check::EndpointMac)?.as_slice() {
                    [_, CLOSE_NOTIFY] => {
                        self.is_closed = true;
                        Ok(Event::Closed)
                    }
                    [_, code] => Err(Policy::Alert(*code).into()),
                    _ => Err(Breach::Alert.into()),
                }
            }
            ContentType::Alert | ContentType::Handshake | ContentType::ChangeCipherSpec => {
                Err(Breach::Record(record.kind.code()).into())
            }
        }
    }

    fn data(&self, record: &Record) -> Result<Delivery, Error> {
        let breach = Breach::Slice(record.slice);
        let context = context_of(record.slice).ok_or(breach)?;
        let keys = self.contexts.get(&record.slice).ok_or(breach)?;
        let checked = checked(keys, context, record)?;
        let is_original = holds(
            &self.keys.mac,
            record.kind,
            &checked.data,
            &checked.endpoints,
        );
        Ok(Delivery {
            context,
            data: checked.data,
            provenance: match is_original {
                true => Provenance::Original,
                false => Provenance::Changed,
            },
        })
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// [`Breach::Truncated`]: before the direction was closed.
    pub fn finish(&self) -> Result<(), Error> {
        match self.is_closed {
            true => Ok(()),
            false => Err(Breach::Truncated.into()),
        }
    }
}

/// What is in a context's record, if the MACs hold that the holder of these keys can check.
pub(crate) fn checked(
    keys: &ContextKeys,
    id: ContextId,
    record: &Record,
) -> Result<crate::protect::Opened, Error> {
    let opened = keys.open(&record.fragment).ok_or(Check::ReaderMac(id))?;
    if opened.data.len() > MAX_PAYLOAD_LEN {
        let (kind, length) = (record.kind.code(), opened.data.len());
        return Err(Malformed::TooLong { kind, length }.into());
    }
    if !holds(&keys.readers, record.kind, &opened.data, &opened.readers) {
        return Err(Check::ReaderMac(id).into());
    }
    let writers = keys.writers.as_ref();
    if writers.is_some_and(|key| !holds(key, record.kind, &opened.data, &opened.writers)) {
        return Err(Check::WriterMac(id).into());
    }
    Ok(opened)
}
