//! Who a party is: its certificates, its private key, and who checks them.
//!
//! Is not: X.509 and private keys, which are the adapter's: [`Private`] and [`Verify`].

use std::sync::Arc;

pub use mctls12::auth::{Party, Refusal};
use zeroize::Zeroizing;

use crate::error::{Error, Misuse, Policy};
pub use crate::rsa::RsaKey;

/// Length of a key that is sealed, in bytes.
pub const SEALED_KEY_LEN: usize = 32;

/// An RSA key.
pub trait Private: Send + Sync {
    /// The signature over a message, which is not hashed before: PKCS #1 v1.5 with SHA-256.
    ///
    /// # Errors
    /// [`Misuse::Signing`]: the key cannot sign.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misuse>;

    /// What was sealed with PKCS #1 v1.5 for this key; `None`: nothing of that length.
    fn open(&self, sealed: &[u8]) -> Option<Zeroizing<[u8; SEALED_KEY_LEN]>>;
}

/// Certificates in DER, the leaf first, and the leaf's key.
#[derive(Clone)]
pub struct Identity {
    /// The certificates: 1 to 8.
    pub chain: Vec<Vec<u8>>,
    /// The key.
    pub key: Arc<dyn Private>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// Verifies certificates.
pub trait Verify: Send + Sync {
    /// The key of a chain that is good for the party. A middlebox's name is what the client calls
    /// it; for a server, which is told no names, the host of its address.
    ///
    /// # Errors
    /// What is wrong.
    fn verify(&self, party: Party<'_>, chain: &[Vec<u8>]) -> Result<RsaKey, Refusal>;
}

/// The error where a party's certificate is refused.
pub(crate) const fn refused(party: Party<'_>) -> Error {
    Error::Policy(match party {
        Party::Server(_) => Policy::ServerCertificate,
        Party::Middlebox(position, _) => Policy::MiddleboxCertificate(position),
    })
}
