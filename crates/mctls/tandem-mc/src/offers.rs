//! How a body that a cache holds is left out between the server and the cache.
//!
//! Behind each request's head the client says [`NOTHING`] in the context `cache-offers`, and a
//! cache on the way puts the digests of bodies that it holds for that page in its place. The server
//! answers with a *reference* where one of them is what it would send: a response whose content
//! coding is [`CODING`], which `Repr-Digest` (RFC 9530) says the body of, with a byte for each
//! [`PIECE_LEN`] bytes of it. The cache fills the body in. What the body has to be, and how much of
//! it was sent, the server says in the context `response-digest`, for which no cache has a key.
//!
//! Is not: what is held, and for how long ([`crate::boxes`]).
//!
//! Invariant: a body is the cache's only where its digest is the server's.

use aws_lc_rs::digest::{Context, SHA256};
use mctls::record::MAX_PAYLOAD_LEN;

/// What a client offers: nothing yet. A record needs a byte.
pub const NOTHING: &[u8] = b"0";
/// The content coding of a reference.
pub const CODING: &str = "mc-ref";
/// The header that says which body a reference stands for.
pub const REPR_DIGEST: &str = "Repr-Digest";
/// How many bytes of a body each byte of a reference stands for: seven records of the eight that
/// may stand in the place of one (`docs/mctls13.md`, section 7). The eighth is for a head.
pub const PIECE_LEN: usize = 7 * MAX_PAYLOAD_LEN;
/// Most digests in an offer.
pub const MAX_OFFERS: usize = 8;
/// Length of a digest in an offer.
const DIGEST_LEN: usize = 32;

/// SHA-256 of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; DIGEST_LEN]);

/// A digest that is being made.
#[derive(Clone)]
pub struct Hasher(Context);

impl Default for Hasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    /// Takes more of the body.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The digest of all that was taken.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut digest = [0; DIGEST_LEN];
        digest.copy_from_slice(self.0.finish().as_ref());
        Digest(digest)
    }
}

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(data: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(data);
        hasher.finish()
    }

    /// As in `Repr-Digest`: `sha-256=:BASE64:`.
    #[must_use]
    pub fn to_field(self) -> String {
        format!("sha-256=:{}:", base64(&self.0))
    }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or(0);
            out.push(match at <= three.len() {
                true => char::from(LETTERS[index]),
                false => '=',
            });
        }
    }
    out
}

/// The digests in an offer; `None` where it is none.
#[must_use]
pub fn read(offered: &[u8]) -> Option<Vec<Digest>> {
    if offered.is_empty() || offered == NOTHING {
        return Some(Vec::new());
    }
    let (digests, rest) = offered.as_chunks::<DIGEST_LEN>();
    let is_good = rest.is_empty() && digests.len() <= MAX_OFFERS;
    is_good.then(|| digests.iter().copied().map(Digest).collect())
}

/// These digests as an offer.
#[must_use]
pub fn write(digests: &[Digest]) -> Vec<u8> {
    match digests {
        [] => NOTHING.to_vec(),
        digests => digests.iter().flat_map(|digest| digest.0).collect(),
    }
}

/// How many bytes a reference to a body of this length has.
#[must_use]
pub fn reference_len(length: u64) -> u64 {
    length.div_ceil(u64::try_from(PIECE_LEN).unwrap_or(u64::MAX))
}

/// What a server says of a body to its client alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// [`Digest::to_field`] of it.
    pub digest: String,
    /// How many bytes the server has sent in its place.
    pub sent: u64,
}

impl Statement {
    /// As it is sent: `sha-256=:BASE64:;sent=12`.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{};sent={}", self.digest, self.sent)
    }

    /// Out of such a text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (digest, sent) = text.split_once(";sent=")?;
        Some(Self {
            digest: digest.to_owned(),
            sent: sent.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_as_in_rfc_9530() {
        // Appendix A of the RFC has this one for these bytes.
        let field = Digest::of(b"{\"hello\": \"world\"}\n").to_field();
        assert_eq!(
            field,
            "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
        );
    }

    #[test]
    fn offers_are_digests_or_nothing() {
        let digests = [Digest::of(b"a"), Digest::of(b"b")];
        assert_eq!(read(&write(&digests)), Some(digests.to_vec()));
        assert_eq!(read(&write(&[])), Some(Vec::new()));
        // What a middlebox has deleted.
        assert_eq!(read(b""), Some(Vec::new()));
        for wrong in [&[1; 31][..], &[1; 33], &[1; 32 * (MAX_OFFERS + 1)]] {
            assert_eq!(read(wrong), None);
        }
    }

    #[test]
    fn a_reference_has_a_byte_for_each_piece() {
        let piece = u64::try_from(PIECE_LEN).expect("short");
        for (length, bytes) in [(0, 0), (1, 1), (piece, 1), (piece + 1, 2)] {
            assert_eq!(reference_len(length), bytes, "{length}");
        }
    }

    #[test]
    fn a_statement_is_read_as_it_was_written() {
        let statement = Statement {
            digest: Digest::of(b"x").to_field(),
            sent: 7,
        };
        let text = statement.to_text();
        assert_eq!(Statement::parse(text.as_bytes()), Some(statement));
        assert_eq!(Statement::parse(b"sha-256=:x:"), None);
    }
}
