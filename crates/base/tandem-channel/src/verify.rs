//! Who may be at the other end: for a client, one pinned key; for a server, any key, those on a
//! list, or those that a function admits.
//!
//! Is not: what an admitted end may do.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use tandem_file::Over;

use crate::crypto;
use crate::error::ChannelError;
use crate::key::KeyName;

/// The server that a client talks to.
#[derive(Debug)]
pub struct Pin {
    key: Mutex<Option<KeyName>>,
    /// Where the first key that was met is kept.
    kept_in: Option<PathBuf>,
}

impl Pin {
    /// This one and no other.
    #[must_use]
    pub fn to(key: KeyName) -> Self {
        Self {
            key: Mutex::new(Some(key)),
            kept_in: None,
        }
    }

    /// The first that is met, kept in a file if there is one.
    ///
    /// # Errors
    /// The file is there and cannot be read as a key.
    pub fn first_met(kept_in: Option<PathBuf>) -> Result<Self, ChannelError> {
        let key = match kept_in.as_deref().map(std::fs::read_to_string) {
            None => None,
            Some(Ok(text)) => Some(text.parse().map_err(|reason: String| {
                ChannelError::content(kept_in.as_deref().unwrap_or(Path::new("")), reason)
            })?),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
            Some(Err(source)) => {
                return Err(ChannelError::File {
                    path: kept_in.unwrap_or_default(),
                    source,
                });
            }
        };
        Ok(Self {
            key: Mutex::new(key),
            kept_in,
        })
    }

    fn accept(&self, met: KeyName) -> Result<(), Error> {
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        match *key {
            Some(pinned) if pinned == met => Ok(()),
            Some(pinned) => {
                tracing::error!(%pinned, %met, "the other end has another key than the pinned one; the connection is closed");
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            None => {
                tracing::warn!(%met, "first contact: this key is trusted from now on");
                *key = Some(met);
                if let Some(path) = &self.kept_in
                    && let Err(error) =
                        tandem_file::write(path, format!("{met}\n").as_bytes(), Over::Another)
                {
                    tracing::warn!(path = %path.display(), %error, "the key could not be stored");
                }
                Ok(())
            }
        }
    }
}

/// The clients that are served.
pub enum Admission {
    /// Every client that has a key.
    Any,
    /// These.
    Listed(HashSet<KeyName>),
    /// Those for which this returns true when they connect.
    If(Box<dyn Fn(KeyName) -> bool + Send + Sync>),
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "Any",
            Self::Listed(_) => "Listed",
            Self::If(_) => "If",
        })
    }
}

impl Admission {
    /// Those in a file: one key on each line; `#` begins a comment.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no key.
    pub fn listed_in(path: &Path) -> Result<Self, ChannelError> {
        let text = std::fs::read_to_string(path).map_err(|source| ChannelError::File {
            path: path.to_owned(),
            source,
        })?;
        let mut keys = HashSet::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                keys.insert(line.parse().map_err(|reason| {
                    ChannelError::content(path, format!("line {}: {reason}", number + 1))
                })?);
            }
        }
        Ok(Self::Listed(keys))
    }

    fn admits(&self, key: KeyName) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(keys) => keys.contains(&key),
            Self::If(admits) => admits(key),
        }
    }
}

fn name_of(key: &CertificateDer<'_>) -> Result<KeyName, Error> {
    KeyName::of(key).ok_or_else(|| CertificateError::BadEncoding.into())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    crypto::default_provider().signature_verification_algorithms
}

/// Whether the signature over the handshake is that of the raw key.
fn verify(
    message: &[u8],
    key: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(key.as_ref());
    verify_tls13_signature_with_raw_key(message, &key, signed, &algorithms())
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.accept(name_of(end_entity)?)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Admission {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.admits(name_of(end_entity)?) {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
