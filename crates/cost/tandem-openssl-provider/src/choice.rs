//! Which signature scheme of TLS is meant by what OpenSSL sets one after the other: digest,
//! padding, length of the salt.
//!
//! Is not: whether a key server allows it.

use tandem_keyserver::{KeyKind, Scheme};

/// A digest of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digest {
    Sha256,
    Sha384,
    Sha512,
}

impl Digest {
    /// By one of OpenSSL's names for it.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "SHA256" | "SHA2-256" | "SHA-256" => Some(Self::Sha256),
            "SHA384" | "SHA2-384" | "SHA-384" => Some(Self::Sha384),
            "SHA512" | "SHA2-512" | "SHA-512" => Some(Self::Sha512),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// What has been set so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    digest: Option<Digest>,
    is_pss: bool,
}

impl Choice {
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Takes a digest, none where the name is empty; `false` where keys of this kind do not go with
    /// it: a curve has one, RSA any, Ed25519 none (RFC 8446, section 4.2.3).
    pub(crate) fn set_digest(&mut self, kind: KeyKind, name: &str) -> bool {
        self.digest = Digest::of_name(name);
        if self.digest.is_none() && !name.is_empty() {
            return false;
        }
        match kind {
            KeyKind::Rsa => {
                self.digest.get_or_insert(Digest::Sha256);
                true
            }
            KeyKind::P256 => *self.digest.get_or_insert(Digest::Sha256) == Digest::Sha256,
            KeyKind::P384 => *self.digest.get_or_insert(Digest::Sha384) == Digest::Sha384,
            KeyKind::P521 => *self.digest.get_or_insert(Digest::Sha512) == Digest::Sha512,
            KeyKind::Ed25519 => self.digest.is_none(),
        }
    }

    /// Takes a padding by its name, or by its number in `openssl/rsa.h`.
    pub(crate) fn set_padding(&mut self, mode: &str) -> bool {
        self.is_pss = matches!(mode, "pss" | "6");
        self.is_pss || matches!(mode, "pkcs1" | "1")
    }

    /// Takes a length of the salt: TLS has the digest's (RFC 8446, section 4.2.3).
    pub(crate) fn set_salt(&mut self, len: &str) -> bool {
        let digest = self.digest.map(|digest| digest.bytes().to_string());
        matches!(len, "digest" | "-1") || digest.as_deref() == Some(len)
    }

    /// The scheme, where there is one.
    pub(crate) fn scheme(&self, kind: KeyKind) -> Option<Scheme> {
        match (kind, self.digest, self.is_pss) {
            (KeyKind::Rsa, Some(Digest::Sha256), false) => Some(Scheme::RsaPkcs1Sha256),
            (KeyKind::Rsa, Some(Digest::Sha384), false) => Some(Scheme::RsaPkcs1Sha384),
            (KeyKind::Rsa, Some(Digest::Sha512), false) => Some(Scheme::RsaPkcs1Sha512),
            (KeyKind::Rsa, Some(Digest::Sha256), true) => Some(Scheme::RsaPssSha256),
            (KeyKind::Rsa, Some(Digest::Sha384), true) => Some(Scheme::RsaPssSha384),
            (KeyKind::Rsa, Some(Digest::Sha512), true) => Some(Scheme::RsaPssSha512),
            (KeyKind::P256, _, false) => Some(Scheme::EcdsaP256Sha256),
            (KeyKind::P384, _, false) => Some(Scheme::EcdsaP384Sha384),
            (KeyKind::P521, _, false) => Some(Scheme::EcdsaP521Sha512),
            (KeyKind::Ed25519, _, false) => Some(Scheme::Ed25519),
            (KeyKind::Rsa, None, _)
            | (KeyKind::P256 | KeyKind::P384 | KeyKind::P521 | KeyKind::Ed25519, _, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(kind: KeyKind, digest: &str, padding: &[&str]) -> Option<Scheme> {
        let mut choice = Choice::default();
        let is_right =
            choice.set_digest(kind, digest) && padding.iter().all(|mode| choice.set_padding(mode));
        is_right.then(|| choice.scheme(kind))?
    }

    #[test]
    fn what_openssl_sets_is_a_scheme_of_tls() {
        let rsa = KeyKind::Rsa;
        assert_eq!(chosen(rsa, "SHA2-256", &[]), Some(Scheme::RsaPkcs1Sha256));
        assert_eq!(chosen(rsa, "sha384", &["pss"]), Some(Scheme::RsaPssSha384));
        assert_eq!(chosen(rsa, "SHA512", &["6"]), Some(Scheme::RsaPssSha512));
        assert_eq!(
            chosen(KeyKind::P256, "SHA256", &[]),
            Some(Scheme::EcdsaP256Sha256)
        );
        assert_eq!(
            chosen(KeyKind::P384, "", &[]),
            Some(Scheme::EcdsaP384Sha384)
        );
        assert_eq!(
            chosen(KeyKind::P521, "SHA512", &[]),
            Some(Scheme::EcdsaP521Sha512)
        );
        assert_eq!(chosen(KeyKind::Ed25519, "", &[]), Some(Scheme::Ed25519));
        for (kind, digest, padding) in [
            (rsa, "SHA1", &[][..]),
            (rsa, "SHA256", &["oaep"]),
            (KeyKind::P256, "SHA384", &[]),
            (KeyKind::P521, "SHA256", &[]),
            (KeyKind::P256, "SHA256", &["pss"]),
            (KeyKind::Ed25519, "SHA512", &[]),
        ] {
            assert_eq!(chosen(kind, digest, padding), None, "{kind:?} {digest}");
        }
    }

    #[test]
    fn the_salt_is_as_long_as_the_digest() {
        let mut choice = Choice::default();
        assert!(choice.set_digest(KeyKind::Rsa, "SHA384"));
        for (len, is_right) in [
            ("digest", true),
            ("-1", true),
            ("48", true),
            ("32", false),
            ("max", false),
        ] {
            assert_eq!(choice.set_salt(len), is_right, "{len}");
        }
    }
}
