//! Secrets, the PRF of TLS 1.2 with SHA-256 (RFC 5246, section 5), HMAC and SHA-256.
//!
//! Invariants: a secret is overwritten when it is dropped; `Debug` shows nothing of it; MACs are
//! compared in constant time.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// Length of a digest and a MAC in bytes.
pub(crate) const HASH_LEN: usize = 32;

/// A digest or MAC.
pub(crate) type Digest = [u8; HASH_LEN];

/// Bytes that only some parties know.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// One after the other.
    pub(crate) fn join(first: &Self, second: &Self) -> Self {
        Self(Zeroizing::new([first.bytes(), second.bytes()].concat()))
    }

    /// The PRF: so many bytes.
    pub(crate) fn prf(&self, label: &str, seeds: &[&[u8]], length: usize) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.bytes());
        let mut seed = label.as_bytes().to_vec();
        seeds.iter().for_each(|part| seed.extend_from_slice(part));
        // It does not grow, so no copy of it stays behind.
        let mut out = Zeroizing::new(Vec::with_capacity(length + HASH_LEN));
        let mut a = Zeroizing::new(mac(&key, &[&seed]));
        while out.len() < length {
            out.extend_from_slice(&*Zeroizing::new(mac(&key, &[&*a, &seed])));
            a = Zeroizing::new(mac(&key, &[&*a]));
        }
        out.truncate(length);
        Self(out)
    }

    /// For HMAC.
    pub(crate) fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.bytes())
    }
}

/// HMAC over the parts, one after the other.
pub(crate) fn mac(key: &hmac::Key, parts: &[&[u8]]) -> Digest {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    let mut out = [0; HASH_LEN];
    out.copy_from_slice(context.sign().as_ref());
    out
}

/// Whether two MACs are the same, in constant time.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    verify_slices_are_equal(left, right).is_ok()
}

/// SHA-256 over all handshake messages so far.
#[derive(Clone)]
pub(crate) struct Transcript(Context);

impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transcript")
    }
}

impl Transcript {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn add(&mut self, message: &[u8]) {
        self.0.update(message);
    }

    pub(crate) fn digest(&self) -> Digest {
        let mut out = [0; HASH_LEN];
        out.copy_from_slice(self.0.clone().finish().as_ref());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    #[test]
    fn nothing_of_a_secret_is_shown() {
        assert_eq!(format!("{:?}", Secret::new(&[0xab; 32])), "Secret");
    }

    /// A vector that was published on the IETF's TLS list, and which OpenSSL's TLS1-PRF confirms.
    #[test]
    fn the_prf_is_that_of_tls_1_2() {
        let hex = |text: &str| {
            HEXLOWER
                .decode(text.as_bytes())
                .expect("as the test has it")
        };
        let secret = Secret::new(&hex("9bbe436ba940f017b17652849a71db35"));
        let seed = hex("a0ba9f936cda311827a6f796ffd5198c");
        let expected = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a\
                        6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab\
                        4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701\
                        87347b66";
        let found = secret.prf("test label", &[&seed], 100);
        assert_eq!(HEXLOWER.encode(found.bytes()), expected);
    }
}
