//! A key for rustls whose private half lies at a key server.
//!
//! Is not: the certificate; that stays with the web server.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use tandem_keyserver::{KeyId, KeyKind, Scheme};

use crate::client::Client;
use crate::error::ClientError;

/// The first of these that a client of the web server takes: PSS before PKCS #1, and the shortest
/// hash first, which is as good as the others here.
const PREFERRED: [Scheme; 10] = [
    Scheme::Ed25519,
    Scheme::EcdsaP256Sha256,
    Scheme::EcdsaP384Sha384,
    Scheme::EcdsaP521Sha512,
    Scheme::RsaPssSha256,
    Scheme::RsaPssSha384,
    Scheme::RsaPssSha512,
    Scheme::RsaPkcs1Sha256,
    Scheme::RsaPkcs1Sha384,
    Scheme::RsaPkcs1Sha512,
];

impl Client {
    /// What rustls serves a site with: this chain, the site's own certificate first, and a key that
    /// signs at the key server. Nothing is asked before a handshake needs it.
    ///
    /// # Errors
    /// The certificate cannot be read, or has a key of another kind.
    pub fn certified_key(
        &self,
        chain: Vec<CertificateDer<'static>>,
    ) -> Result<CertifiedKey, ClientError> {
        let first = chain.first().ok_or(ClientError::Certificate)?;
        let parsed = ParsedCertificate::try_from(first).map_err(|_| ClientError::Certificate)?;
        let public = parsed.subject_public_key_info().as_ref().to_vec();
        let kind = KeyKind::of_public_key(&public).ok_or(ClientError::Certificate)?;
        let key = Arc::new(RemoteKey {
            client: self.clone(),
            id: KeyId::of_public_key(&public),
            kind,
            public,
        });
        Ok(CertifiedKey::new(chain, Arc::new(Handle(key))))
    }
}

#[derive(Debug)]
struct RemoteKey {
    client: Client,
    id: KeyId,
    kind: KeyKind,
    public: Vec<u8>,
}

#[derive(Debug)]
struct Handle(Arc<RemoteKey>);

impl SigningKey for Handle {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = |scheme: &Scheme| offered.contains(&code_of(*scheme));
        let mut own = PREFERRED
            .into_iter()
            .filter(|scheme| scheme.key_kind() == self.0.kind);
        let scheme = own.find(is_offered)?;
        Some(Box::new(RemoteSigner {
            key: Arc::clone(&self.0),
            scheme,
        }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.0.public.as_slice()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.0.kind {
            KeyKind::Rsa => SignatureAlgorithm::RSA,
            KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => SignatureAlgorithm::ECDSA,
            KeyKind::Ed25519 => SignatureAlgorithm::ED25519,
        }
    }
}

#[derive(Debug)]
struct RemoteSigner {
    key: Arc<RemoteKey>,
    scheme: Scheme,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.key.client.sign(self.key.id, self.scheme, message);
        signature.map_err(|error| Error::General(error.to_string()))
    }

    fn scheme(&self) -> SignatureScheme {
        code_of(self.scheme)
    }
}

fn code_of(scheme: Scheme) -> SignatureScheme {
    SignatureScheme::from(scheme.code())
}
