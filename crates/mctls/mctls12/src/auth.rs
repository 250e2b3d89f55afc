//! Who a party is: its certificates, its signatures, and who checks them.
//!
//! Is not: X.509, which is the adapter's: signing and verifying come in as [`Sign`] and [`Verify`].

use std::sync::Arc;

use mctls::party::Position;

use crate::error::{Check, Error, Malformed, Misuse, Policy};

/// A signature scheme of TLS 1.2 with SHA-256, by its number in RFC 8446, section 4.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `rsa_pkcs1_sha256`.
    Rsa,
    /// `ecdsa_secp256r1_sha256`.
    Ecdsa,
}

impl Scheme {
    /// Its number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Rsa => 0x0401,
            Self::Ecdsa => 0x0403,
        }
    }

    pub(crate) const fn from_code(code: u16) -> Result<Self, Malformed> {
        match code {
            0x0401 => Ok(Self::Rsa),
            0x0403 => Ok(Self::Ecdsa),
            other => Err(Malformed::Scheme(other)),
        }
    }
}

/// A cipher suite, by its number in RFC 5289, section 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// `TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256`.
    Ecdsa,
    /// `TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256`.
    Rsa,
}

impl Suite {
    /// All there are, in the order in which they are offered.
    pub const ALL: [Self; 2] = [Self::Ecdsa, Self::Rsa];

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Ecdsa => 0xc023,
            Self::Rsa => 0xc027,
        }
    }

    /// The suite with this number.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.code() == code)
    }

    /// How its server signs.
    #[must_use]
    pub const fn scheme(self) -> Scheme {
        match self {
            Self::Ecdsa => Scheme::Ecdsa,
            Self::Rsa => Scheme::Rsa,
        }
    }

    /// The suite of a server that signs like this.
    #[must_use]
    pub const fn of(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Ecdsa => Self::Ecdsa,
            Scheme::Rsa => Self::Rsa,
        }
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
    /// The certificates: 1 to 8, and at most 16,000 bytes together.
    pub chain: Vec<Vec<u8>>,
    /// The key.
    pub key: Arc<dyn Sign>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// Whose certificate is to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party<'a> {
    /// The server with this name.
    Server(&'a str),
    /// The middlebox at this place, with this name.
    Middlebox(Position, &'a str),
}

/// Why a party is not who it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its certificate is not good, or not for its name, or not for this use.
    Certificate,
    /// It has not proved its key.
    Signature,
}

/// Verifies certificates and signatures.
pub trait Verify: Send + Sync {
    /// Whether the chain is good for the party, and the signature over the message by its leaf. A
    /// server that does not care who the middleboxes are (the paper, section 3.6) accepts any.
    ///
    /// # Errors
    /// What is wrong.
    fn verify(
        &self,
        party: Party<'_>,
        chain: &[Vec<u8>],
        scheme: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refusal>;
}

/// The error of a refusal.
pub(crate) const fn refused(party: Party<'_>, refusal: Refusal) -> Error {
    match (party, refusal) {
        (Party::Server(_), Refusal::Certificate) => Error::Policy(Policy::ServerCertificate),
        (Party::Server(_), Refusal::Signature) => Error::Forged(Check::ServerSignature),
        (Party::Middlebox(position, _), Refusal::Certificate) => {
            Error::Policy(Policy::MiddleboxCertificate(position))
        }
        (Party::Middlebox(position, _), Refusal::Signature) => {
            Error::Forged(Check::MiddleboxSignature(position))
        }
    }
}
