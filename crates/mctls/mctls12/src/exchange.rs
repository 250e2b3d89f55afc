//! Ephemeral keys: ECDH over secp256r1, from random bytes that come in as an argument.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use zeroize::Zeroizing;

use crate::error::{Malformed, Misuse};
use crate::secret::Secret;

/// Length of a public key: an uncompressed point.
pub(crate) const POINT_LEN: usize = 65;

/// A public key.
pub(crate) type Point = [u8; POINT_LEN];

/// A key pair of one session.
#[derive(Debug)]
pub(crate) struct Ephemeral {
    private: PrivateKey,
    public: Point,
}

impl Ephemeral {
    pub(crate) fn new(random: &[u8; 32]) -> Result<Self, Misuse> {
        let private = PrivateKey::from_private_key(&ECDH_P256, random);
        let private = private.map_err(|_| Misuse::Entropy)?;
        let computed = private.compute_public_key().map_err(|_| Misuse::Entropy)?;
        let public = Point::try_from(computed.as_ref()).map_err(|_| Misuse::Entropy)?;
        Ok(Self { private, public })
    }

    pub(crate) const fn public(&self) -> &Point {
        &self.public
    }

    /// The pre-secret with whoever has the private key of this point.
    pub(crate) fn agree(&self, peer: &Point) -> Result<Secret, Malformed> {
        let peer = UnparsedPublicKey::new(&ECDH_P256, peer.as_slice());
        agree(&self.private, peer, Malformed::Point, |secret| {
            Ok(Secret::new(secret))
        })
    }
}

/// The random bytes of one party in one session: from a good source, never used twice.
#[derive(Clone)]
pub struct Entropy {
    pub(crate) random: [u8; 32],
    pub(crate) first: Zeroizing<[u8; 32]>,
    pub(crate) second: Zeroizing<[u8; 32]>,
    pub(crate) secret: Secret,
    pub(crate) iv: Secret,
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entropy")
    }
}

impl Entropy {
    /// How many random bytes a party needs.
    pub const LEN: usize = 5 * 32;

    /// Out of random bytes. The caller overwrites its own copy.
    #[must_use]
    pub fn new(bytes: &[u8; Self::LEN]) -> Self {
        let part = |index: usize| {
            let mut part = [0; 32];
            part.copy_from_slice(&bytes[32 * index..][..32]);
            part
        };
        Self {
            random: part(0),
            first: Zeroizing::new(part(1)),
            second: Zeroizing::new(part(2)),
            secret: Secret::new(&part(3)),
            iv: Secret::new(&part(4)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree_on_one_secret() {
        let [one, two] = [[1; 32], [2; 32]].map(|random| Ephemeral::new(&random).expect("a key"));
        let shared = one.agree(two.public()).expect("a point");
        assert_eq!(two.agree(one.public()), Ok(shared));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!(Ephemeral::new(&[0xff; 32]).map(drop), Err(Misuse::Entropy));
        let own = Ephemeral::new(&[1; 32]).expect("a key");
        let mut off = *own.public();
        off[POINT_LEN - 1] ^= 1;
        assert_eq!(own.agree(&off), Err(Malformed::Point));
    }
}
