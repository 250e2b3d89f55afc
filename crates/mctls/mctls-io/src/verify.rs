//! Who may be a middlebox, and which server a middlebox may have.
//!
//! Is not: which middlebox is admitted to which session; that is the configuration's, by digest.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

/// The extended key usage of middleboxes, `docs/mctls13.md` section 10, in DER.
pub const MIDDLEBOX_USAGE: &[u8] = &[
    0x69, 0x82, 0x84, 0xf2, 0x9e, 0xd6, 0x83, 0x82, 0xd2, 0xa3, 0xad, 0xa4, 0x85, 0x98, 0xf5, 0xaf,
    0xce, 0xfe, 0x95, 0x08,
];

/// The same, as it is written in a configuration of OpenSSL.
pub const MIDDLEBOX_USAGE_OID: &str = "2.25.173392805500454916924251427653178854024";

/// Most bytes of the certificates that a leg shows: what is kept to resume it has a bound.
pub(crate) const MAX_CHAIN_LEN: usize = 32 << 10;

fn check_length(leaf: &CertificateDer<'_>, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
    let length = leaf.len() + chain.iter().map(|one| one.len()).sum::<usize>();
    match length <= MAX_CHAIN_LEN {
        true => Ok(()),
        false => Err(Error::General(
            "its certificates are longer than 32 KiB".into(),
        )),
    }
}

/// Middleboxes with a certificate for that use, from these authorities.
#[derive(Debug)]
pub(crate) struct Middleboxes {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl Middleboxes {
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        check_length(leaf, chain)?;
        let certificate = EndEntityCert::try_from(leaf).map_err(refused)?;
        let usage = KeyUsage::required(MIDDLEBOX_USAGE);
        let verified = certificate.verify_for_usage(
            self.algorithms.all,
            &self.roots.roots,
            chain,
            now,
            usage,
            None,
            None,
        );
        verified.map(drop).map_err(refused)
    }
}

fn refused(error: webpki::Error) -> Error {
    match error {
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        _ => CertificateError::BadEncoding,
    }
    .into()
}

/// Whether a leaf certificate is for this name.
pub(crate) fn is_for(leaf: &CertificateDer<'_>, name: &str) -> bool {
    let certificate = EndEntityCert::try_from(leaf);
    let name = ServerName::try_from(name);
    match (certificate, name) {
        (Ok(certificate), Ok(name)) => certificate.verify_is_valid_for_subject_name(&name).is_ok(),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => false,
    }
}

impl ServerCertVerifier for Middleboxes {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(leaf, chain, now)?;
        match is_for(leaf, &name.to_str()) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Middleboxes {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(leaf, chain, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The server of a middlebox's leg: whoever has the key of the certificate that it shows. Which
/// certificate that has to be, the session's configuration says.
#[derive(Debug)]
pub(crate) struct NamedByConfiguration {
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for NamedByConfiguration {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        check_length(leaf, chain)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn only_tls13() -> Error {
    Error::General("legs are TLS 1.3".into())
}
