//! Notes as they lie in the server: encrypted under keys that follow from the key of the
//! server-side proxies, which the server never sees.
//!
//! ```text
//!   name of a peer's list:  "tandem:1:" | hex(HMAC(key, "...names" | peer)), half of it
//!   a note:                 nonce 12 | AES-256-GCM(note) | tag 16, with a key for each peer
//! ```
//!
//! Is not: what a note says. Invariants: a note that was written with another key, for another
//! peer, or by anybody else, does not open; each peer's key seals under random nonces no more notes
//! than the peer makes handshakes (NIST SP 800-38D, section 8.3 allows 2^32).

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tandem_engine::PeerId;
use zeroize::Zeroizing;

/// Bytes of a note beside its own.
const OVERHEAD: usize = NONCE_LEN + 16;

/// What each list's name begins with. The number is the version of what is in it.
const PREFIX: &str = "tandem:1:";

const NAMES: &[u8] = b"tandem shared store: names of peers";
const NOTES: &[u8] = b"tandem shared store: notes of a peer";

/// The secret that all server-side proxies of a fleet have.
pub(crate) struct Secret(Zeroizing<[u8; 32]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*key))
    }

    /// The name of the list of this peer's notes.
    pub(crate) fn name(&self, peer: PeerId) -> Vec<u8> {
        let mac = self.derive(NAMES, peer);
        let half = mac.get(..16).unwrap_or_default();
        format!("{PREFIX}{}", data_encoding::HEXLOWER.encode(half)).into_bytes()
    }

    /// A note of this peer, sealed. `None`: the system has no random bytes, or the note is longer
    /// than any.
    pub(crate) fn seal(&self, peer: PeerId, note: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = Vec::with_capacity(note.len() + OVERHEAD);
        sealed.extend(note);
        let used = Nonce::assume_unique_for_key(nonce);
        let key = self.key(peer)?;
        key.seal_in_place_append_tag(used, Aad::empty(), &mut sealed)
            .ok()?;
        let sealed = [&nonce[..], &sealed].concat();
        (sealed.len() <= crate::resp::MAX_STRING).then_some(sealed)
    }

    /// A note, if this is one of this peer.
    pub(crate) fn open(&self, peer: PeerId, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let key = self.key(peer)?;
        let length = key
            .open_in_place(nonce, Aad::empty(), &mut bytes)
            .ok()?
            .len();
        bytes.truncate(length);
        Some(bytes)
    }

    fn key(&self, peer: PeerId) -> Option<LessSafeKey> {
        let key = self.derive(NOTES, peer);
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).ok()?))
    }

    fn derive(&self, label: &[u8], peer: PeerId) -> Zeroizing<[u8; 32]> {
        let mac = Hmac::<Sha256>::new_from_slice(&*self.0);
        let mac = mac.expect("HMAC takes a key of any length");
        let mac = mac.chain_update(label).chain_update(peer.0);
        Zeroizing::new(mac.finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId([1; 32]);
    const OTHER: PeerId = PeerId([2; 32]);

    #[test]
    fn a_note_opens_for_its_peer_with_the_same_key_alone() {
        let secret = Secret::new(&[7; 32]);
        let sealed = secret.seal(PEER, b"note").expect("random bytes");
        assert_eq!(secret.open(PEER, &sealed).as_deref(), Some(&b"note"[..]));
        assert_eq!(
            Secret::new(&[7; 32]).open(PEER, &sealed).as_deref(),
            Some(&b"note"[..])
        );
        assert_eq!(secret.open(OTHER, &sealed), None);
        assert_eq!(Secret::new(&[8; 32]).open(PEER, &sealed), None);
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(secret.open(PEER, &changed), None, "byte {index}");
            assert_eq!(secret.open(PEER, &sealed[..index]), None, "cut at {index}");
        }
    }

    #[test]
    fn neither_a_note_nor_a_peer_shows() {
        let secret = Secret::new(&[7; 32]);
        let sealed = secret.seal(PEER, &[b'x'; 64]).expect("random bytes");
        assert!(!sealed.windows(4).any(|part| part == b"xxxx"));
        assert_ne!(
            sealed,
            secret.seal(PEER, &[b'x'; 64]).expect("random bytes")
        );
        let name = String::from_utf8(secret.name(PEER)).expect("text");
        assert_eq!(name.len(), PREFIX.len() + 32);
        assert!(!name.contains("0101"), "{name}");
        assert_ne!(secret.name(PEER), secret.name(OTHER));
        assert_ne!(secret.name(PEER), Secret::new(&[8; 32]).name(PEER));
    }

    #[test]
    fn what_no_reply_could_carry_is_not_sealed() {
        let secret = Secret::new(&[7; 32]);
        let longest = crate::resp::MAX_STRING - OVERHEAD;
        assert!(secret.seal(PEER, &vec![0; longest]).is_some());
        assert!(secret.seal(PEER, &vec![0; longest + 1]).is_none());
    }
}
