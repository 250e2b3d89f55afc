//! What handshakes show that the TLS library tells only while it shakes hands: the staple, and
//! whether the server asked for a certificate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// What was seen in any handshake of a run.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    staple: AtomicUsize,
    asked: AtomicBool,
}

impl Witness {
    /// Bytes of the staple, 0 where there was none.
    pub(crate) fn staple_bytes(&self) -> usize {
        self.staple.load(Ordering::Relaxed)
    }

    /// Whether the server asked for a certificate, where there was one to give.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// A verifier, watched.
#[derive(Debug)]
pub(crate) struct WatchedVerifier {
    pub(crate) inner: Arc<dyn ServerCertVerifier>,
    pub(crate) witness: Arc<Witness>,
}

impl ServerCertVerifier for WatchedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let witness = &self.witness;
        witness.staple.store(ocsp_response.len(), Ordering::Relaxed);
        self.inner
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The client's certificate, watched.
#[derive(Debug)]
pub(crate) struct WatchedIdentity {
    pub(crate) inner: Arc<CertifiedKey>,
    pub(crate) witness: Arc<Witness>,
}

impl ResolvesClientCert for WatchedIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.witness.asked.store(true, Ordering::Relaxed);
        Some(Arc::clone(&self.inner))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
