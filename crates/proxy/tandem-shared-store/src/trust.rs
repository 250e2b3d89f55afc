//! Who vouches for a server that is reached by TLS.
//!
//! Is not: a certificate of our own. The server has to be content with a password.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, RootCertStore, StreamOwned};
use tandem_channel::crypto;

use crate::bounded::Bounded;

/// The authorities in a file.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// Why a file names no authorities.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct TrustError {
    path: PathBuf,
    why: String,
}

impl Trust {
    /// The certificates in this file, in PEM.
    ///
    /// # Errors
    /// It cannot be read, has none, or one that is malformed.
    pub fn read(path: &Path) -> Result<Self, TrustError> {
        let error = |why: String| TrustError {
            path: path.to_owned(),
            why,
        };
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|reason| error(reason.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots
                .add(certificate)
                .map_err(|reason| error(reason.to_string()))?;
        }
        if roots.is_empty() {
            return Err(error("no certificate in PEM".to_owned()));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|reason| error(reason.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// TLS over this connection, to the server of this name. The handshake begins with the first
    /// byte that is written.
    pub(crate) fn over(&self, socket: Bounded, host: &str) -> io::Result<Tls> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let client = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        Ok(StreamOwned::new(client, socket))
    }
}

/// A connection over TLS.
pub(crate) type Tls = StreamOwned<ClientConnection, Bounded>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_authorities_is_refused_with_its_name() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("ca.pem");
        let refused = || {
            let error = Trust::read(&path).expect_err("there are none");
            assert!(error.to_string().contains("ca.pem: "), "{error}");
        };
        refused();
        for text in [
            "",
            "no PEM",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(&path, text).expect("ours");
            refused();
        }
    }
}
