//! Who the ends are: certificates, signatures, and who checks them.
//!
//! Is not: X.509, which is the adapter's: signing and verifying come in as [`Sign`] and [`Verify`].

use std::sync::Arc;

use crate::error::Misuse;

/// A signature scheme, by its number in RFC 8446, section 4.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `ecdsa_secp256r1_sha256`.
    Ecdsa,
    /// `rsa_pkcs1_sha256`.
    Rsa,
}

impl Scheme {
    /// All there are, in the order in which they are offered.
    pub const ALL: [Self; 2] = [Self::Ecdsa, Self::Rsa];

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Ecdsa => 0x0403,
            Self::Rsa => 0x0401,
        }
    }

    /// The cipher suite of a server that signs like this: `TLS_ECDHE_…_WITH_AES_128_GCM_SHA256`
    /// (RFC 5289, section 3.2).
    #[must_use]
    pub const fn suite(self) -> u16 {
        match self {
            Self::Ecdsa => 0xc02b,
            Self::Rsa => 0xc02f,
        }
    }

    pub(crate) fn of_suite(suite: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.suite() == suite)
    }
}

/// Signs with the key of a certificate.
pub trait Sign: Send + Sync {
    /// How.
    fn scheme(&self) -> Scheme;

    /// The signature over a message, which is not hashed before.
    ///
    /// # Errors
    /// [`Misuse::Signing`]: the key cannot sign.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misuse>;
}

/// Certificates in DER, the leaf first, and the leaf's key.
#[derive(Clone)]
pub struct Identity {
    /// The certificates.
    pub chain: Vec<Vec<u8>>,
    /// The key.
    pub key: Arc<dyn Sign>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// Why a server is not who it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Verifies servers.
pub trait Verify: Send + Sync {
    /// Whether the chain, leaf first, is good for this name, now.
    ///
    /// # Errors
    /// It is not.
    fn certificate(&self, name: &str, chain: &[&[u8]]) -> Result<(), Refused>;

    /// Whether the leaf's key made this signature.
    ///
    /// # Errors
    /// It did not.
    fn signature(
        &self,
        leaf: &[u8],
        scheme: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refused>;
}
