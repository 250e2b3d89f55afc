//! TLS as a plan asks for it: versions, trust, resumption.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption as ClientResumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use crate::error::MeasureError;
use crate::plan::{Plan, Resumption, TlsVersion, Trust};
use crate::sessions::Sessions;
use crate::witness::{WatchedIdentity, WatchedVerifier, Witness};

/// Where distributions keep the issuers that they trust: Debian and Alpine, Fedora, SUSE.
const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// What all threads have in common, and who watches their handshakes. A thread adds its sessions:
/// [`with_sessions`].
///
/// # Errors
/// `Options`, `File`, `Certificates`, `Identity`, `Tls`.
pub(crate) fn config(plan: &Plan) -> Result<(ClientConfig, Arc<Witness>), MeasureError> {
    let provider = Arc::new(plan.offers.provider());
    let witness = Arc::new(Witness::default());
    let inner: Arc<dyn ServerCertVerifier> = match &plan.trust {
        // Nobody's are looked at.
        _ if plan.target.name.is_none() => Arc::new(Anybody(Arc::clone(&provider))),
        Trust::Anybody => Arc::new(Anybody(Arc::clone(&provider))),
        Trust::File(path) => by_roots(path, &provider)?,
        Trust::System => by_roots(&system(), &provider)?,
    };
    let versions: &[&SupportedProtocolVersion] = match plan.version()? {
        Some(TlsVersion::V12) => &[&TLS12],
        Some(TlsVersion::V13) => &[&TLS13],
        None => &[&TLS13, &TLS12],
    };
    let identity = match &plan.offers.identity {
        Some(identity) => Some(identity.read(&provider)?),
        None => None,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(WatchedVerifier {
            inner,
            witness: Arc::clone(&witness),
        }));
    let mut config = match identity {
        Some(inner) => builder.with_client_cert_resolver(Arc::new(WatchedIdentity {
            inner,
            witness: Arc::clone(&witness),
        })),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.enable_early_data = plan.resumption == Resumption::ZeroRtt;
    Ok((config, witness))
}

/// The same with sessions of its own.
pub(crate) fn with_sessions(
    config: &ClientConfig,
    resumption: Resumption,
    sessions: Arc<Sessions>,
) -> ClientConfig {
    let mut config = config.clone();
    let stored = ClientResumption::store(sessions);
    config.resumption = match resumption {
        Resumption::None => ClientResumption::disabled(),
        Resumption::Id => stored.tls12_resumption(Tls12Resumption::SessionIdOnly),
        Resumption::Any | Resumption::Ticket | Resumption::Psk | Resumption::ZeroRtt => {
            stored.tls12_resumption(Tls12Resumption::SessionIdOrTickets)
        }
    };
    config
}

/// The file with the system's issuers: of `SSL_CERT_FILE`, as for OpenSSL, or the first that is
/// there.
fn system() -> PathBuf {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named.unwrap_or_else(|| {
        let mut known = SYSTEM.iter().map(PathBuf::from);
        known
            .find(|path| path.exists())
            .unwrap_or_else(|| SYSTEM[0].into())
    })
}

fn by_roots(
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, MeasureError> {
    let pem = std::fs::read(path).map_err(|source| MeasureError::File {
        path: path.to_owned(),
        source,
    })?;
    let mut roots = RootCertStore::empty();
    // A system's bundle may have a certificate in it that webpki does not read; the rest counts.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten());
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|_| MeasureError::Certificates {
            path: path.to_owned(),
        })
}

/// Takes any certificate, and checks the signatures of handshakes with it.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
