//! The site's certificate and key, from files; what does not fit splitting is refused with its
//! reason.
//!
//! Is not: validation of the chain, which is the clients' business.
//!
//! Invariants: the key is RSA, since no browser offers CBC suites with anything else; it is the
//! certificate's; the certificate names exactly one host, so that what its key vouches for is this
//! site alone.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, SignatureAlgorithm};
use tandem_channel::crypto::sign::any_supported_type;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::error::SplitIoError;

/// A site: its one name, and what proves it.
#[derive(Clone)]
pub struct Identity {
    host: String,
    key: Arc<CertifiedKey>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.host)
    }
}

impl Identity {
    /// Reads a chain and its key, both PEM.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what splitting needs; which, and why.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, SplitIoError> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| pem(certificate, error))?;
        let Some(leaf) = chain.first() else {
            return Err(SplitIoError::content(
                certificate,
                "no certificate in it (PEM is expected)",
            ));
        };
        let host = only_host(leaf).map_err(|reason| SplitIoError::content(certificate, reason))?;

        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| pem(key, error))?;
        let signer = any_supported_type(&private).map_err(|error| {
            SplitIoError::content(key, format!("no key that can be used here: {error}"))
        })?;
        if signer.algorithm() != SignatureAlgorithm::RSA {
            return Err(SplitIoError::content(
                key,
                format!(
                    "is an {:?} key; splitting needs RSA, as browsers offer cipher suites that can be split with RSA certificates only",
                    signer.algorithm()
                ),
            ));
        }
        let certified = CertifiedKey::new(chain, signer);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(_) => {
                return Err(SplitIoError::content(
                    key,
                    format!(
                        "is not the key of the certificate in {}",
                        certificate.display()
                    ),
                ));
            }
        }
        Ok(Self {
            host,
            key: Arc::new(certified),
        })
    }

    /// The host that the certificate names, in lower case; an address as its text.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }
}

/// The names in a certificate, in lower case; an address as its text.
///
/// # Errors
/// The file cannot be read, or has no certificate in it.
pub fn names_in(certificate: &Path) -> Result<Vec<String>, SplitIoError> {
    let leaf =
        CertificateDer::from_pem_file(certificate).map_err(|error| pem(certificate, error))?;
    let (_, parsed) = X509Certificate::from_der(&leaf).map_err(|error| {
        let reason = format!("not a well-formed certificate: {error}");
        SplitIoError::content(certificate, reason)
    })?;
    names(&parsed).map_err(|reason| SplitIoError::content(certificate, reason))
}

pub(super) fn pem(path: &Path, error: PemError) -> SplitIoError {
    match error {
        PemError::Io(source) => SplitIoError::File {
            path: path.to_owned(),
            source,
        },
        PemError::NoItemsFound => SplitIoError::content(
            path,
            "nothing of the kind that is needed in it (PEM is expected)",
        ),
        other => SplitIoError::content(path, format!("not well-formed PEM: {other:?}")),
    }
}

/// The one name in a certificate, or why it has none, several, or one that is too wide.
fn only_host(leaf: &CertificateDer<'_>) -> Result<String, String> {
    let (_, certificate) = X509Certificate::from_der(leaf)
        .map_err(|error| format!("not a well-formed certificate: {error}"))?;
    let rsa = "1.2.840.113549.1.1.1";
    if certificate.public_key().algorithm.algorithm.to_id_string() != rsa {
        return Err(
            "is no RSA certificate; browsers offer cipher suites that can be split with RSA certificates only".to_owned(),
        );
    }
    match names(&certificate)?.as_slice() {
        [] => Err("names no host (subject alternative name)".to_owned()),
        [name] if name.contains('*') => Err(format!(
            "names {name}: it must name exactly one host, as everything it vouches for can be served by strangers"
        )),
        [name] => Ok(name.clone()),
        several => Err(format!(
            "names {} hosts ({}): it must name exactly one, as everything it vouches for can be served by strangers",
            several.len(),
            several.join(", ")
        )),
    }
}

fn names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, String> {
    let extension = certificate
        .subject_alternative_name()
        .map_err(|error| format!("its subject alternative names cannot be read: {error}"))?;
    Ok(extension
        .map(|extension| extension.value.general_names.iter().map(name).collect())
        .unwrap_or_default())
}

fn name(general: &GeneralName<'_>) -> String {
    match general {
        GeneralName::DNSName(name) => name.to_ascii_lowercase(),
        GeneralName::IPAddress(bytes) => {
            if let Ok(octets) = <[u8; 4]>::try_from(*bytes) {
                Ipv4Addr::from(octets).to_string()
            } else if let Ok(octets) = <[u8; 16]>::try_from(*bytes) {
                Ipv6Addr::from(octets).to_string()
            } else {
                "an address of unknown form".to_owned()
            }
        }
        other => format!("{other}"),
    }
}
