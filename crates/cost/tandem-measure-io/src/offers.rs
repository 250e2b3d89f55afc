//! What each connection offers, where it is limited: one group, one cipher, a client certificate.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tandem_channel::crypto;
use tandem_channel::crypto::kx_group;

use crate::error::MeasureError;

/// A group of the key agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// X25519.
    X25519,
    /// P-256.
    P256,
    /// P-384.
    P384,
    /// X25519 and ML-KEM-768 together (TLS 1.3).
    X25519MlKem768,
}

impl Group {
    /// All, in the order in which they are compared.
    pub const ALL: [Self; 4] = [Self::X25519, Self::P256, Self::P384, Self::X25519MlKem768];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }

    /// Whether TLS 1.2 has it.
    pub(crate) fn is_in_tls12(self) -> bool {
        match self {
            Self::X25519 | Self::P256 | Self::P384 => true,
            Self::X25519MlKem768 => false,
        }
    }
}

/// What encrypts the records, of either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128,
    /// AES-256-GCM.
    Aes256,
    /// ChaCha20-Poly1305.
    ChaCha20,
}

impl Cipher {
    /// All, in the order in which they are compared.
    pub const ALL: [Self; 3] = [Self::Aes128, Self::Aes256, Self::ChaCha20];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "AES-128-GCM",
            Self::Aes256 => "AES-256-GCM",
            Self::ChaCha20 => "ChaCha20-Poly1305",
        }
    }

    /// In the names of the suites that have it.
    fn in_suites(self) -> &'static str {
        match self {
            Self::Aes128 => "_AES_128_GCM_",
            Self::Aes256 => "_AES_256_GCM_",
            Self::ChaCha20 => "_CHACHA20_POLY1305_",
        }
    }
}

/// A client's certificates and key, in files of PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The client's own certificate, then those of its issuers.
    pub certificates: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What is offered. By default all that the TLS library offers, and no certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// The only group.
    pub group: Option<Group>,
    /// The only cipher.
    pub cipher: Option<Cipher>,
    /// What a server gets that asks for a certificate.
    pub identity: Option<Identity>,
}

impl Offers {
    /// Whether nothing is limited and nothing added.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The workspace's provider, with this alone.
    pub(crate) fn provider(&self) -> CryptoProvider {
        let mut provider = crypto::default_provider();
        if let Some(group) = self.group {
            provider.kx_groups = vec![match group {
                Group::X25519 => kx_group::X25519,
                Group::P256 => kx_group::SECP256R1,
                Group::P384 => kx_group::SECP384R1,
                Group::X25519MlKem768 => kx_group::X25519MLKEM768,
            }];
        }
        if let Some(cipher) = self.cipher {
            provider.cipher_suites.retain(|suite| {
                let name = suite.suite().as_str();
                name.is_some_and(|name| name.contains(cipher.in_suites()))
            });
        }
        provider
    }
}

impl Identity {
    /// Reads both files, and checks that they belong together.
    ///
    /// # Errors
    /// `File`, `Identity`.
    pub(crate) fn read(
        &self,
        provider: &CryptoProvider,
    ) -> Result<Arc<CertifiedKey>, MeasureError> {
        let wrong = |path: &PathBuf, why: String| MeasureError::Identity {
            path: path.clone(),
            why,
        };
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| MeasureError::File {
                path: path.clone(),
                source,
            })
        };
        let pem = read(&self.certificates)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(&self.certificates, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(&self.certificates, "no certificates".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|error| wrong(&self.key, error.to_string()))?;
        let both = CertifiedKey::from_der(chain, key, provider)
            .map_err(|error| wrong(&self.key, error.to_string()))?;
        Ok(Arc::new(both))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_that_alone() {
        let limited = |group, cipher| {
            let offers = Offers {
                group,
                cipher,
                identity: None,
            };
            offers.provider()
        };
        let all = limited(None, None);
        for group in Group::ALL {
            assert_eq!(limited(Some(group), None).kx_groups.len(), 1);
        }
        let mut suites = 0;
        for cipher in Cipher::ALL {
            // TLS 1.3, and TLS 1.2 with either kind of key.
            let limited = limited(None, Some(cipher));
            assert_eq!(limited.cipher_suites.len(), 3, "{cipher:?}");
            assert_eq!(limited.kx_groups.len(), all.kx_groups.len());
            suites += limited.cipher_suites.len();
        }
        assert_eq!(suites, all.cipher_suites.len());
    }
}
