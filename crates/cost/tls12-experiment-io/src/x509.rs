//! Certificates and keys: X.509 by rustls-webpki, signatures by rustls's provider.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::SigningKey;
use rustls::{RootCertStore, SignatureScheme};
use tandem_channel::crypto::sign::any_supported_type;
use tls12_experiment::auth::{Identity, Refused, Scheme, Sign, Verify};
use tls12_experiment::error::Misuse;
use webpki::{EndEntityCert, KeyUsage};

use crate::Failure;

const fn scheme(scheme: Scheme) -> SignatureScheme {
    match scheme {
        Scheme::Rsa => SignatureScheme::RSA_PKCS1_SHA256,
        Scheme::Ecdsa => SignatureScheme::ECDSA_NISTP256_SHA256,
    }
}

/// A private key.
struct Key {
    key: Arc<dyn SigningKey>,
    scheme: Scheme,
}

impl Sign for Key {
    fn scheme(&self) -> Scheme {
        self.scheme
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misuse> {
        let signer = self.key.choose_scheme(&[scheme(self.scheme)]);
        let signed = signer.ok_or(Misuse::Signing)?.sign(message);
        signed.map_err(|_| Misuse::Signing)
    }
}

/// The certificates of a PEM file, in DER.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|error| Failure::Settings(format!("{}: {error}", path.display())))
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    let key = PrivateKeyDer::from_pem_file(path);
    key.map_err(|error| Failure::Settings(format!("{}: {error}", path.display())))
}

/// The authorities of a PEM file.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// Certificates and key out of PEM files.
///
/// # Errors
/// [`Failure::Settings`]: no such files, or a key that is neither an RSA key nor one for P-256.
pub fn identity(chain: &Path, key: &Path) -> Result<Identity, Failure> {
    let signing = any_supported_type(&private_key(key)?)?;
    let mut schemes = Scheme::ALL.into_iter();
    let chosen = schemes.find(|one| signing.choose_scheme(&[scheme(*one)]).is_some());
    let chosen = chosen.ok_or_else(|| {
        Failure::Settings(format!(
            "{}: neither an RSA key nor one for ECDSA with P-256",
            key.display()
        ))
    })?;
    let chain = certificates(chain)?;
    Ok(Identity {
        chain: chain.iter().map(|one| one.to_vec()).collect(),
        key: Arc::new(Key {
            key: signing,
            scheme: chosen,
        }),
    })
}

/// Verifies servers by these authorities.
#[derive(Debug)]
pub struct Roots {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Roots {
    /// The authorities of a PEM file.
    ///
    /// # Errors
    /// [`Failure::Settings`], [`Failure::Stock`]: no such file, or not certificates.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Ok(Self {
            roots: roots(path)?,
            algorithms: tandem_channel::crypto::default_provider()
                .signature_verification_algorithms,
        })
    }
}

impl Verify for Roots {
    fn certificate(&self, name: &str, chain: &[&[u8]]) -> Result<(), Refused> {
        let chain: Vec<CertificateDer<'_>> =
            chain.iter().map(|one| CertificateDer::from(*one)).collect();
        let (leaf, rest) = chain.split_first().ok_or(Refused)?;
        let leaf = EndEntityCert::try_from(leaf).map_err(|_| Refused)?;
        let name = ServerName::try_from(name).map_err(|_| Refused)?;
        let named = leaf.verify_is_valid_for_subject_name(&name);
        named.map_err(|_| Refused)?;
        let usage = KeyUsage::server_auth();
        let (algorithms, now) = (self.algorithms.all, UnixTime::now());
        leaf.verify_for_usage(algorithms, &self.roots.roots, rest, now, usage, None, None)
            .map(drop)
            .map_err(|_| Refused)
    }

    fn signature(
        &self,
        leaf: &[u8],
        wanted: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refused> {
        let leaf = CertificateDer::from(leaf);
        let leaf = EndEntityCert::try_from(&leaf).map_err(|_| Refused)?;
        let mut mapping = self.algorithms.mapping.iter();
        let found = mapping.find(|(one, _)| *one == scheme(wanted));
        let (_, algorithms) = found.ok_or(Refused)?;
        let mut algorithms = algorithms.iter();
        algorithms
            .find_map(|one| leaf.verify_signature(*one, message, signature).ok())
            .ok_or(Refused)
    }
}
