//! Secrets, the PRF of TLS 1.2 with SHA-256 (RFC 5246, section 5), and the hash over the handshake.
//!
//! Invariants: a secret is overwritten when it is dropped; `Debug` shows nothing of it.

use aws_lc_rs::digest::{Context, SHA256, digest};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

/// A SHA-256 digest.
pub(crate) type Digest = [u8; 32];

/// SHA-256 over some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// Bytes that only client and server know.
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
    pub(crate) fn prf(&self, label: &str, seeds: [&[u8]; 2], length: usize) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.bytes());
        let seed = [label.as_bytes(), seeds[0], seeds[1]].concat();
        // It does not grow, so no copy of it stays behind.
        let mut out = Zeroizing::new(Vec::with_capacity(length + 32));
        let mut a = hmac::sign(&key, &seed);
        while out.len() < length {
            let mut context = hmac::Context::with_key(&key);
            context.update(a.as_ref());
            context.update(&seed);
            out.extend_from_slice(context.sign().as_ref());
            a = hmac::sign(&key, a.as_ref());
        }
        out.truncate(length);
        Self(out)
    }
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
        let mut out = [0; 32];
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
        let hex = |text: &str| HEXLOWER.decode(text.as_bytes()).expect("hexadecimal");
        let secret = Secret::new(&hex("9bbe436ba940f017b17652849a71db35"));
        let seed = hex("a0ba9f936cda311827a6f796ffd5198c");
        let expected = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a\
                        6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab\
                        4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701\
                        87347b66";
        let found = secret.prf("test label", [&seed, &[]], 100);
        assert_eq!(HEXLOWER.encode(found.bytes()), expected);
    }
}
