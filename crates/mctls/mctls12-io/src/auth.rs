//! Certificates and keys: X.509 by rustls-webpki, signatures by rustls's provider.

use std::sync::Arc;

use mctls_io::{Identity as Files, MIDDLEBOX_USAGE};
use mctls12::auth::{Identity, Party, Refusal, Scheme, Sign, Verify};
use mctls12::error::Misuse;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SigningKey;
use rustls::{RootCertStore, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use crate::error::Error;

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

/// The identity of a server or middlebox.
///
/// # Errors
/// [`Error::Settings`]: the key is neither an RSA key nor one for P-256.
pub fn identity(files: &Files) -> Result<Identity, Error> {
    let key = any_supported_type(&files.key);
    let key = key.map_err(|error| Error::Settings(error.to_string()))?;
    let mut schemes = [Scheme::Ecdsa, Scheme::Rsa].into_iter();
    let scheme = schemes.find(|one| key.choose_scheme(&[scheme(*one)]).is_some());
    let scheme = scheme.ok_or_else(|| {
        Error::Settings("the key has to be an RSA key, or one for ECDSA with P-256".into())
    })?;
    let chain = files.chain.iter();
    Ok(Identity {
        chain: chain.map(|certificate| certificate.to_vec()).collect(),
        key: Arc::new(Key { key, scheme }),
    })
}

/// Whether a chain's leaf is for this name.
pub(crate) fn is_for(chain: &[Vec<u8>], name: &str) -> bool {
    let leaf = chain
        .first()
        .map(|leaf| CertificateDer::from(leaf.as_slice()));
    leaf.is_some_and(|leaf| names(&leaf, name).is_some())
}

pub(crate) fn names(leaf: &CertificateDer<'_>, name: &str) -> Option<()> {
    let leaf = EndEntityCert::try_from(leaf).ok()?;
    let name = ServerName::try_from(name).ok()?;
    leaf.verify_is_valid_for_subject_name(&name).ok()
}

/// Verifies servers and middleboxes by these authorities.
#[derive(Debug)]
pub struct Roots {
    server: Arc<RootCertStore>,
    middleboxes: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Roots {
    /// Authorities of servers, and of middleboxes. Without any of middleboxes none is accepted.
    #[must_use]
    pub fn new(server: Arc<RootCertStore>, middleboxes: Arc<RootCertStore>) -> Self {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Self {
            server,
            middleboxes,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// Whether a chain is good for a party.
    pub(crate) fn certificate(&self, party: Party<'_>, chain: &[CertificateDer<'_>]) -> Option<()> {
        let (Party::Server(name) | Party::Middlebox(_, name)) = party;
        names(chain.first()?, name)?;
        self.authority(party, chain)
    }

    /// Whether an authority vouches for a chain and for this use of it, whatever its name.
    pub(crate) fn authority(&self, party: Party<'_>, chain: &[CertificateDer<'_>]) -> Option<()> {
        let (roots, usage) = match party {
            Party::Server(_) => (&self.server, KeyUsage::server_auth()),
            Party::Middlebox(..) => (&self.middleboxes, KeyUsage::required(MIDDLEBOX_USAGE)),
        };
        let (leaf, rest) = chain.split_first()?;
        let leaf = EndEntityCert::try_from(leaf).ok()?;
        let (algorithms, now) = (self.algorithms.all, UnixTime::now());
        leaf.verify_for_usage(algorithms, &roots.roots, rest, now, usage, None, None)
            .ok()
            .map(drop)
    }

    fn signature(
        &self,
        leaf: &CertificateDer<'_>,
        wanted: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> Option<()> {
        let leaf = EndEntityCert::try_from(leaf).ok()?;
        let mut mapping = self.algorithms.mapping.iter();
        let (_, algorithms) = mapping.find(|(one, _)| *one == scheme(wanted))?;
        let mut algorithms = algorithms.iter();
        algorithms.find_map(|one| leaf.verify_signature(*one, message, signature).ok())
    }
}

impl Verify for Roots {
    fn verify(
        &self,
        party: Party<'_>,
        chain: &[Vec<u8>],
        scheme: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refusal> {
        let chain = chain.iter().map(|one| CertificateDer::from(one.as_slice()));
        let chain: Vec<_> = chain.collect();
        let leaf = chain.first().ok_or(Refusal::Certificate)?;
        self.certificate(party, &chain)
            .ok_or(Refusal::Certificate)?;
        self.signature(leaf, scheme, message, signature)
            .ok_or(Refusal::Signature)
    }
}
