//! Secrets of 32 bytes and what is derived from them: HKDF (RFC 5869) and HMAC with SHA-256.
//!
//! Invariants: a secret is overwritten when it is dropped; `Debug` shows nothing of it; tags are
//! compared in constant time.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// Length of a tag in a record, in bytes: the length of an AEAD tag, so that no check is the
/// weakest.
pub(crate) const TAG_LEN: usize = 16;

/// Length of a digest, a secret and a proof in bytes.
pub(crate) const HASH_LEN: usize = 32;

/// A truncated HMAC.
pub(crate) type Tag = [u8; TAG_LEN];

/// A digest of SHA-256.
pub(crate) type Digest = [u8; HASH_LEN];

/// 32 bytes that only some parties know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; HASH_LEN]>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A secret of these bytes. The caller overwrites its own copy.
    #[must_use]
    pub fn new(bytes: [u8; HASH_LEN]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, to be sent where only those see them who may.
    pub(crate) fn bytes(&self) -> &[u8; HASH_LEN] {
        &self.0
    }

    /// HKDF-Extract.
    pub(crate) fn extract(salt: &[u8], first: &Self, second: &Self) -> Self {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, salt));
        context.update(first.bytes());
        context.update(second.bytes());
        Self::new(full(&context.sign()))
    }

    /// HKDF-Expand-Label of RFC 8446, section 7.1, with "mc13 " for a prefix.
    pub(crate) fn expand<const N: usize>(&self, label: &str, context: &[u8]) -> Zeroizing<[u8; N]> {
        const { assert!(N <= HASH_LEN, "one block of HKDF-Expand") };
        let byte = |length: usize| u8::try_from(length).expect("labels and contexts are short");
        let mut info = vec![0, byte(N), byte(5 + label.len())];
        info.extend_from_slice(b"mc13 ");
        info.extend_from_slice(label.as_bytes());
        info.push(byte(context.len()));
        info.extend_from_slice(context);
        info.push(1);
        let block = Zeroizing::new(full(&hmac::sign(&self.key(), &info)));
        let mut out = Zeroizing::new([0; N]);
        out.copy_from_slice(&block[..N]);
        out
    }

    /// A secret derived with this label and context.
    pub(crate) fn derive(&self, label: &str, context: &[u8]) -> Self {
        Self(self.expand(label, context))
    }

    pub(crate) fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.bytes())
    }

    /// HMAC over the parts, one after the other. Callers have parts of fixed lengths.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> Digest {
        mac(&self.key(), parts)
    }
}

/// HMAC over the parts, one after the other.
pub(crate) fn mac(key: &hmac::Key, parts: &[&[u8]]) -> Digest {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    full(&context.sign())
}

/// The first bytes of an HMAC, as it stands in a record.
pub(crate) fn tag(key: &hmac::Key, parts: &[&[u8]]) -> Tag {
    let full = mac(key, parts);
    let mut tag = [0; TAG_LEN];
    tag.copy_from_slice(&full[..TAG_LEN]);
    tag
}

/// Whether two proofs are the same, in constant time.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    verify_slices_are_equal(left, right).is_ok()
}

/// SHA-256 over the parts, one after the other.
pub(crate) fn hash(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    finish(context)
}

pub(crate) fn finish(context: Context) -> Digest {
    let digest = context.finish();
    let mut out = [0; HASH_LEN];
    out.copy_from_slice(digest.as_ref());
    out
}

fn full(tag: &hmac::Tag) -> Digest {
    let mut out = [0; HASH_LEN];
    out.copy_from_slice(tag.as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_secret_is_shown() {
        assert_eq!(format!("{:?}", Secret::new([0xab; 32])), "Secret");
    }

    #[test]
    fn labels_and_contexts_separate_what_is_derived() {
        let secret = Secret::new([1; 32]);
        let all = [
            secret.derive("a", b""),
            secret.derive("b", b""),
            secret.derive("a", b"b"),
            Secret::new([2; 32]).derive("a", b""),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one));
        }
    }
}
