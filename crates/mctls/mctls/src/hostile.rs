//! What a dishonest middlebox can do with the keys that it has, for attack tests.
//!
//! Not part of the public interface: there only for tests and with the feature `hostile`. It has no
//! key that an honest middlebox has not.

use crate::error::Error;
use crate::frame::write_group;
use crate::keys::Claim;
use crate::party::{Author, ContextId};
use crate::record::{Evidence, Group, Header, Place};
use crate::relay::Passing;
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

impl Passing<'_> {
    /// Its sequence number.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.group.seq
    }

    /// Appends a record that says what is asked, with every tag that this middlebox's keys can make
    /// right; the others are taken over from this one, which is genuine.
    ///
    /// # Errors
    /// This middlebox has no key of the context at all.
    pub fn forge(&mut self, forgery: Forgery<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let header = Header {
            context: forgery.context,
            author: forgery.author,
            index: 0,
            place: Place::Last,
            seq: forgery.seq,
        };
        let relay = &mut *self.relay;
        let no_key = crate::error::Misuse::NotWriter(forgery.context);
        let part = relay.keys.seal(header, forgery.payload)?.ok_or(no_key)?;
        let context = relay.terms.context(forgery.context).cloned();
        let mut group = Group {
            context: forgery.context,
            author: forgery.author,
            seq: forgery.seq,
            parts: vec![part],
            evidence: Evidence::default(),
        };
        let named = forgery.author != Author::Endpoint;
        let own = Claim::of(&self.group);
        let origin = own.origin;
        let digest = group.digest();
        let whole = relay.keys.whole_tag(header, &group.parts[0].sealed)?;
        let original = if named { origin } else { digest };
        let claim = Claim::new(forgery.context, forgery.seq, original, digest);
        let old = &self.group.evidence;
        if let Some(context) = &context {
            let tag = relay.keys.writer_tag(&claim)?.or(whole);
            let copied = old.writer.unwrap_or([0; TAG_LEN]);
            group.evidence = Evidence {
                writer: context.has_writer_tag().then(|| tag.unwrap_or(copied)),
                endpoint: context
                    .has_endpoint_tag()
                    .then(|| old.endpoint.unwrap_or([0; TAG_LEN])),
                origin: named.then_some(origin),
                author: named.then(|| claim.author_tag(&relay.author)),
                stamps: old.stamps.clone(),
            };
            if context.stamps(relay.position) {
                group.evidence.author = None;
                let changed = named.then_some(digest);
                group.evidence.stamps.push(crate::record::Stamp {
                    position: relay.position,
                    changed,
                    tag: claim.stamp(&relay.author, &own.digest, changed.as_ref()),
                });
            }
        }
        write_group(out, &group, context.as_ref());
        Ok(())
    }
}
