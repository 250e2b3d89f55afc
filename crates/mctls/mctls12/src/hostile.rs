//! What a dishonest middlebox can do with the keys that it has, for attack tests.
//!
//! Not part of the public interface: there only for tests and with the feature `hostile`. It has no
//! key that an honest middlebox has not.

use mctls::party::ContextId;

use crate::error::{Error, Misuse};
use crate::protect::{Opened, Place};
use crate::record::Record;
use crate::relay::Passing;

/// A forged record: what to pretend.
#[derive(Clone, Copy, Debug)]
pub struct Forgery<'a> {
    /// In which context.
    pub context: ContextId,
    /// With which data.
    pub data: &'a [u8],
    /// Under which IV.
    pub iv: [u8; 16],
    /// What is done to each byte of the readers' MAC.
    pub readers_xor: u8,
}

impl Passing<'_> {
    /// Appends a record for this one's place in the order: each MAC for which this middlebox has
    /// the key is made anew, the others are those of this record.
    ///
    /// # Errors
    /// This middlebox may not read this record, or nothing in that context.
    pub fn forge(&self, forgery: Forgery<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let no_key = Misuse::NotWriter(forgery.context);
        let (_, was) = self.opened.as_ref().ok_or(no_key)?;
        let keys = self.relay.keys().get(&forgery.context).ok_or(no_key)?;
        let (context, data) = (forgery.context, forgery.data);
        let place = Place {
            context,
            ..self.place
        };
        let readers = place.mac(&keys.readers, data);
        let writers = keys.writers.as_ref();
        let now = Opened {
            readers: readers.map(|byte| byte ^ forgery.readers_xor),
            writers: writers.map_or(was.writers, |key| place.mac(key, data)),
            endpoints: was.endpoints,
            data: data.to_vec(),
        };
        let record = Record {
            context,
            fragment: keys.seal(forgery.iv, &now),
            ..self.record
        };
        record.write(out);
        Ok(())
    }
}
