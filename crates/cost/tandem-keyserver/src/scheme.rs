//! Signature schemes of TLS (RFC 8446, section 4.2.3), and which key and which version has which.
//!
//! Is not: a signature. Schemes with SHA-1 have no place here, nor those of other curves.

use std::fmt;

use crate::content::TlsVersion;
use crate::key::KeyKind;

/// How something is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// RSASSA-PKCS1-v1_5 with SHA-256; TLS 1.2 alone has it.
    RsaPkcs1Sha256,
    /// RSASSA-PKCS1-v1_5 with SHA-384; TLS 1.2 alone has it.
    RsaPkcs1Sha384,
    /// RSASSA-PKCS1-v1_5 with SHA-512; TLS 1.2 alone has it.
    RsaPkcs1Sha512,
    /// RSASSA-PSS with SHA-256.
    RsaPssSha256,
    /// RSASSA-PSS with SHA-384.
    RsaPssSha384,
    /// RSASSA-PSS with SHA-512.
    RsaPssSha512,
    /// ECDSA with SHA-256, on P-256.
    EcdsaP256Sha256,
    /// ECDSA with SHA-384, on P-384.
    EcdsaP384Sha384,
    /// ECDSA with SHA-512, on P-521.
    EcdsaP521Sha512,
    /// Ed25519.
    Ed25519,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::RsaPkcs1Sha256,
        Self::RsaPkcs1Sha384,
        Self::RsaPkcs1Sha512,
        Self::RsaPssSha256,
        Self::RsaPssSha384,
        Self::RsaPssSha512,
        Self::EcdsaP256Sha256,
        Self::EcdsaP384Sha384,
        Self::EcdsaP521Sha512,
        Self::Ed25519,
    ];

    /// Its number in IANA's registry.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::RsaPkcs1Sha256 => 0x0401,
            Self::RsaPkcs1Sha384 => 0x0501,
            Self::RsaPkcs1Sha512 => 0x0601,
            Self::RsaPssSha256 => 0x0804,
            Self::RsaPssSha384 => 0x0805,
            Self::RsaPssSha512 => 0x0806,
            Self::EcdsaP256Sha256 => 0x0403,
            Self::EcdsaP384Sha384 => 0x0503,
            Self::EcdsaP521Sha512 => 0x0603,
            Self::Ed25519 => 0x0807,
        }
    }

    /// The scheme with this number.
    #[must_use]
    pub fn of_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.code() == code)
    }

    /// Its name in IANA's registry.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RsaPkcs1Sha256 => "rsa_pkcs1_sha256",
            Self::RsaPkcs1Sha384 => "rsa_pkcs1_sha384",
            Self::RsaPkcs1Sha512 => "rsa_pkcs1_sha512",
            Self::RsaPssSha256 => "rsa_pss_rsae_sha256",
            Self::RsaPssSha384 => "rsa_pss_rsae_sha384",
            Self::RsaPssSha512 => "rsa_pss_rsae_sha512",
            Self::EcdsaP256Sha256 => "ecdsa_secp256r1_sha256",
            Self::EcdsaP384Sha384 => "ecdsa_secp384r1_sha384",
            Self::EcdsaP521Sha512 => "ecdsa_secp521r1_sha512",
            Self::Ed25519 => "ed25519",
        }
    }

    /// The scheme with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// The keys that sign so.
    #[must_use]
    pub fn key_kind(self) -> KeyKind {
        match self {
            Self::RsaPkcs1Sha256
            | Self::RsaPkcs1Sha384
            | Self::RsaPkcs1Sha512
            | Self::RsaPssSha256
            | Self::RsaPssSha384
            | Self::RsaPssSha512 => KeyKind::Rsa,
            Self::EcdsaP256Sha256 => KeyKind::P256,
            Self::EcdsaP384Sha384 => KeyKind::P384,
            Self::EcdsaP521Sha512 => KeyKind::P521,
            Self::Ed25519 => KeyKind::Ed25519,
        }
    }

    /// Whether a handshake of this version may be signed so (RFC 8446, section 4.2.3: PKCS #1 v1.5
    /// is for certificates alone in TLS 1.3).
    #[must_use]
    pub fn is_of(self, version: TlsVersion) -> bool {
        let is_pkcs1 = matches!(
            self,
            Self::RsaPkcs1Sha256 | Self::RsaPkcs1Sha384 | Self::RsaPkcs1Sha512
        );
        version == TlsVersion::V12 || !is_pkcs1
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_scheme() {
        for scheme in Scheme::ALL {
            assert_eq!(Scheme::of_code(scheme.code()), Some(scheme));
            assert_eq!(Scheme::of_name(scheme.name()), Some(scheme));
        }
        // SHA-1, and a scheme of RSA keys that are for PSS alone.
        assert_eq!(Scheme::of_code(0x0201), None);
        assert_eq!(Scheme::of_name("rsa_pss_pss_sha256"), None);
    }

    #[test]
    fn pkcs1_signs_no_handshake_of_tls_1_3() {
        assert!(!Scheme::RsaPkcs1Sha256.is_of(TlsVersion::V13));
        assert!(Scheme::RsaPkcs1Sha256.is_of(TlsVersion::V12));
        assert!(Scheme::RsaPssSha256.is_of(TlsVersion::V13));
    }
}
