//! Key agreement on X25519 or P-256, from random bytes that come in as an argument (RFC 8422).

use aws_lc_rs::agreement::{Algorithm, ECDH_P256, PrivateKey, UnparsedPublicKey, X25519, agree};
use zeroize::Zeroizing;

use crate::error::{Breach, Misuse};
use crate::secret::Secret;

/// A group, by its number in RFC 8422, section 5.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    X25519,
    P256,
}

impl Group {
    /// All there are, in the order in which they are offered: the shorter keys first.
    pub(crate) const ALL: [Self; 2] = [Self::X25519, Self::P256];

    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::X25519 => 29,
            Self::P256 => 23,
        }
    }

    pub(crate) fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.code() == code)
    }

    const fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::X25519 => &X25519,
            Self::P256 => &ECDH_P256,
        }
    }
}

/// A private key and its public one.
#[derive(Debug)]
pub(crate) struct KeyPair {
    group: Group,
    private: PrivateKey,
    public: Vec<u8>,
}

impl KeyPair {
    pub(crate) fn new(group: Group, random: &[u8; 32]) -> Result<Self, Misuse> {
        let private = PrivateKey::from_private_key(group.algorithm(), random);
        let private = private.map_err(|_| Misuse::Entropy)?;
        let public = private.compute_public_key().map_err(|_| Misuse::Entropy)?;
        let public = public.as_ref().to_vec();
        Ok(Self {
            group,
            private,
            public,
        })
    }

    pub(crate) const fn group(&self) -> Group {
        self.group
    }

    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    /// The secret with whoever has the private key of this point.
    pub(crate) fn agree(&self, peer: &[u8]) -> Result<Secret, Breach> {
        let peer = UnparsedPublicKey::new(self.group.algorithm(), peer);
        agree(&self.private, peer, Breach::Point, |secret| {
            Ok(Secret::new(secret))
        })
    }
}

/// The random bytes of one end of one connection: from a good source, never used twice.
#[derive(Clone)]
pub struct Entropy {
    pub(crate) random: [u8; 32],
    pub(crate) first: Zeroizing<[u8; 32]>,
    pub(crate) second: Zeroizing<[u8; 32]>,
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entropy")
    }
}

impl Entropy {
    /// How many random bytes an end needs.
    pub const LEN: usize = 3 * 32;

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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_on_one_secret() {
        for group in Group::ALL {
            let pair = |seed| KeyPair::new(group, &[seed; 32]).expect("a key");
            let (one, two) = (pair(1), pair(2));
            let shared = one.agree(two.public()).expect("a point");
            assert_eq!(two.agree(one.public()), Ok(shared));
        }
    }

    /// RFC 7748, section 6.1: a shared secret of zeros is refused; RFC 8422, section 5.11: points
    /// off the curve are.
    #[test]
    fn what_is_no_point_is_refused() {
        let own = KeyPair::new(Group::X25519, &[1; 32]).expect("a key");
        assert_eq!(own.agree(&[0; 32]), Err(Breach::Point));
        assert_eq!(own.agree(&[9; 31]), Err(Breach::Point));
        let own = KeyPair::new(Group::P256, &[1; 32]).expect("a key");
        let mut off = own.public().to_vec();
        off[64] ^= 1;
        assert_eq!(own.agree(&off), Err(Breach::Point));
        let refused = KeyPair::new(Group::P256, &[0xff; 32]).map(drop);
        assert_eq!(refused, Err(Misuse::Entropy));
    }
}
