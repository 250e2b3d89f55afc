//! The PRF of TLS 1.0 (RFC 2246, section 5), which the prototype uses with a suite of TLS 1.2, and
//! the hashes over the handshake that go with it.
//!
//! Is not: what is derived with it ([`crate::schedule`]).

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest as _, Md5};
use sha1::Sha1;
use zeroize::Zeroizing;

/// Length of what a finished message has, in bytes.
pub(crate) const VERIFY_LEN: usize = 12;

/// `PRF(secret, label, seed)`: MD5 over the secret's first half, XOR SHA-1 over its second; a byte
/// in the middle belongs to both.
pub(crate) fn prf(secret: &[u8], label: &str, seeds: &[&[u8]], len: usize) -> Zeroizing<Vec<u8>> {
    let half = secret.len().div_ceil(2);
    let seed = [&[label.as_bytes()], seeds].concat().concat();
    let mut out = p_hash::<Hmac<Md5>>(&secret[..half], &seed, len);
    let other = p_hash::<Hmac<Sha1>>(&secret[secret.len() - half..], &seed, len);
    for (byte, other) in out.iter_mut().zip(other.iter()) {
        *byte ^= other;
    }
    out
}

fn p_hash<M: Mac + KeyInit>(secret: &[u8], seed: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
    let mac = |parts: &[&[u8]]| {
        let mut mac = <M as KeyInit>::new_from_slice(secret).expect("HMAC takes any key");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes()
    };
    let mut out = Zeroizing::new(Vec::with_capacity(len + 20));
    let mut a = mac(&[seed]);
    while out.len() < len {
        out.extend_from_slice(&mac(&[&a, seed]));
        a = mac(&[&a]);
    }
    out.truncate(len);
    out
}

/// MD5 and SHA-1 over all handshake messages so far.
#[derive(Clone, Default)]
pub(crate) struct Transcript {
    md5: Md5,
    sha1: Sha1,
}

impl Transcript {
    pub(crate) fn add(&mut self, message: &[u8]) {
        self.md5.update(message);
        self.sha1.update(message);
    }

    /// What a finished message has: `client finished` or `server finished` is its label.
    pub(crate) fn finished(&self, master: &[u8], label: &str) -> [u8; VERIFY_LEN] {
        let (md5, sha1) = (self.md5.clone().finalize(), self.sha1.clone().finalize());
        let bytes = prf(master, label, &[&md5, &sha1], VERIFY_LEN);
        bytes.as_slice().try_into().expect("as many as asked for")
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;

    /// Both were published on the mailing list of the TLS working group; the second is widely used.
    #[test]
    fn the_prf_is_that_of_published_vectors() {
        let long = prf(&[0xab; 48], "PRF Testvector", &[&[0xcd; 64]], 104);
        assert_eq!(
            HEXLOWER.encode(&long),
            "d3d4d1e349b5d515044666d51de32bab258cb521b6b053463e354832fd976754443bcf9a296519bc289abcbc\
             1187e4ebd31e602353776c408aafb74cbc85eff69255f9788faa184cbb957a9819d84a5d7eb006eb459d3ae8\
             de9810454b8b2d8f1afbc655a8c9a013"
        );
        // An odd length would show a half that is cut wrong; "secret" has 6, and this one 7 bytes.
        let short = prf(b"secret", "label", &[b"seed"], 20);
        assert_eq!(
            HEXLOWER.encode(&short),
            "b5baf4722b91851a8816d22ebd8c1d8cc2e94d55"
        );
    }
}
