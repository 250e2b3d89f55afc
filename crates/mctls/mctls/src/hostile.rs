//! What a dishonest middlebox can do with the keys that it has, for attack tests.
//!
//! Not part of the public interface: there only for tests and with the feature `hostile`. It has no
//! key that an honest middlebox has not.

use crate::error::Error;
use crate::frame::write_record;
use crate::keys::Claim;
use crate::party::{Author, ContextId};
use crate::record::{Evidence, Group, Header, Place};
use crate::relay::{Passing, Relay};
use crate::secret::TAG_LEN;

/// A forged record: what to pretend.
#[derive(Clone, Copy, Debug)]
pub struct Forgery<'a> {
    /// In which context.
    pub context: ContextId,
    /// With which sequence number.
    pub seq: u64,
    /// In whose name.
    pub author: Author,
    /// With which data.
    pub payload: &'a [u8],
}

impl Passing {
    /// Its sequence number.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.group.seq
    }
}

impl Relay {
    /// Appends a record that says what is asked, with every tag that this middlebox's keys can make
    /// right; the others are taken over from `model`, a genuine record.
    ///
    /// # Errors
    /// This middlebox has no key of the context at all.
    pub fn forge(
        &mut self,
        forgery: Forgery<'_>,
        model: &Passing,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let header = Header {
            context: forgery.context,
            author: forgery.author,
            index: 0,
            place: Place::Last,
            seq: forgery.seq,
        };
        let no_key = crate::error::Misuse::NotWriter(forgery.context);
        let part = self.keys.seal(header, forgery.payload)?.ok_or(no_key)?;
        let context = self.terms.context(forgery.context).cloned();
        let mut group = Group {
            context: forgery.context,
            author: forgery.author,
            seq: forgery.seq,
            parts: vec![part],
            evidence: Evidence::default(),
        };
        let origin = model.claim.origin;
        let digest = group.digest();
        let original = match forgery.author {
            Author::Endpoint => digest,
            Author::Middlebox(_) => origin,
        };
        let claim = Claim::new(forgery.context, forgery.seq, original, digest);
        let old = &model.group.evidence;
        if let Some(context) = &context {
            let own = self.keys.writer_tag(&claim)?;
            let copied = old.writer.unwrap_or([0; TAG_LEN]);
            group.evidence = Evidence {
                writer: context.has_writer_tag().then(|| own.unwrap_or(copied)),
                endpoint: context
                    .has_endpoint_tag()
                    .then(|| old.endpoint.unwrap_or([0; TAG_LEN])),
                origin: (forgery.author != Author::Endpoint).then_some(origin),
                author: (forgery.author != Author::Endpoint)
                    .then(|| claim.author_tag(&self.author)),
                stamps: old.stamps.clone(),
            };
            if context.stamps(self.position) {
                group.evidence.author = None;
                let stamp = crate::record::Stamp {
                    position: self.position,
                    changed: (forgery.author != Author::Endpoint).then_some(digest),
                    tag: claim.stamp(&self.author, &model.claim.digest, &digest),
                };
                group.evidence.stamps.push(stamp);
            }
        }
        group.write(context.as_ref(), out, write_record);
        Ok(())
    }
}
