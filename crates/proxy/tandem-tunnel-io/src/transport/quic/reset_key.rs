//! The key by which a server side that was restarted tells a client side that their connection is
//! gone (stateless reset, RFC 9000, section 10.3).
//!
//! Is not: a key for anything else.
//!
//! Invariant: it derives from the pair's key, so that it outlives the process. One server side has
//! it: two that share a pair's key must not share an address (RFC 9000, section 21.11).

use hmac::{Hmac, KeyInit as _, Mac as _};
use quinn::crypto::{CryptoError, HmacKey};
use sha2::Sha256;

/// See the module.
pub(super) struct ResetKey(Hmac<Sha256>);

impl ResetKey {
    /// That of the pair with this key.
    pub(super) fn of_pair(pair_key: &[u8; 32]) -> Self {
        let label = b"tandem tunnel, stateless reset";
        let key = keyed(pair_key).chain_update(label).finalize().into_bytes();
        Self(keyed(&key))
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length (RFC 2104, section 2)")
}

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let signature = self.0.clone().chain_update(data).finalize().into_bytes();
        signature_out.copy_from_slice(&signature);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mac = self.0.clone().chain_update(data);
        mac.verify_slice(signature).map_err(|_| CryptoError)
    }
}
