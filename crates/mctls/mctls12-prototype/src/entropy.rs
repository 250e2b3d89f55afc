//! Random bytes for one session, expanded from one seed.
//!
//! Invariant: each use has its own bytes.

use aws_lc_rs::hmac;
use mctls::party::Direction;
use zeroize::Zeroizing;

/// Random bytes for one session.
pub struct Entropy(hmac::Key);

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entropy")
    }
}

/// What bytes are for.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    Random,
    Exponent,
    /// The half of a context's key: its slice, and 0 for the readers', 1 for the writers'.
    Half(u8, u8),
    /// The key of an envelope to a recipient.
    EnvelopeKey(u8),
    /// Its IV.
    EnvelopeIv(u8),
    /// The padding of RSA.
    Padding(u8),
    /// IVs of records.
    Ivs,
}

impl Entropy {
    /// Length of the seed in bytes.
    pub const LEN: usize = 32;

    /// From random bytes that were used for nothing else.
    #[must_use]
    pub fn new(seed: &[u8; Self::LEN]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, seed))
    }

    pub(crate) fn bytes(&self, what: Use, length: usize) -> Zeroizing<Vec<u8>> {
        let label = match what {
            Use::Random => [0, 0, 0],
            Use::Exponent => [1, 0, 0],
            Use::Half(slice, purpose) => [2, slice, purpose],
            Use::EnvelopeKey(recipient) => [3, recipient, 0],
            Use::EnvelopeIv(recipient) => [4, recipient, 0],
            Use::Padding(recipient) => [5, recipient, 0],
            Use::Ivs => [6, 0, 0],
        };
        let mut out = Zeroizing::new(Vec::with_capacity(length + 32));
        for block in 0_u32.. {
            if out.len() >= length {
                break;
            }
            let mut context = hmac::Context::with_key(&self.0);
            context.update(&label);
            context.update(&block.to_be_bytes());
            out.extend_from_slice(context.sign().as_ref());
        }
        out.truncate(length);
        out
    }

    pub(crate) fn array<const N: usize>(&self, what: Use) -> [u8; N] {
        let bytes = self.bytes(what, N);
        bytes.as_slice().try_into().expect("as many as asked for")
    }
}

/// Makes IVs that nobody can foresee.
pub(crate) struct Ivs {
    key: hmac::Key,
    direction: Direction,
    count: u64,
}

impl Ivs {
    pub(crate) fn new(entropy: &Entropy, direction: Direction) -> Self {
        let key = entropy.bytes(Use::Ivs, 32);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Self {
            key,
            direction,
            count: 0,
        }
    }

    pub(crate) fn next(&mut self) -> [u8; 16] {
        let direction = match self.direction {
            Direction::ToServer => 0,
            Direction::ToClient => 1,
        };
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&[direction]);
        context.update(&self.count.to_be_bytes());
        self.count += 1;
        let mut iv = [0; 16];
        iv.copy_from_slice(&context.sign().as_ref()[..16]);
        iv
    }
}
