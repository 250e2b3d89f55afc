//! A client of our own that speaks what a browser would: to look at a site through a volunteer, and
//! to check its certificate.
//!
//! Is not: for the channel between volunteers and origin, nor for content: what it fetches is
//! looked at and thrown away.
//!
//! Invariants: the certificate is checked by the roots it is given and for the site's name, in
//! every connection: no session is resumed; nothing but the four suites that split is offered.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS12;
use rustls::{ClientConfig, RootCertStore};
use tandem_channel::crypto;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client};

use super::client_suites;
use crate::error::SplitIoError;

/// A connection, whose certificate was good.
pub type Connection = client::TlsStream<TcpStream>;

/// Opens connections as a browser would.
#[derive(Clone)]
pub struct Client {
    tls: TlsConnector,
    name: ServerName<'static>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({:?})", self.name)
    }
}

impl Client {
    /// To the site of this name, vouched for by one of the authorities in a PEM file.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate, or the name is invalid.
    pub fn new(site: &str, roots: &std::path::Path) -> Result<Self, SplitIoError> {
        let certificates = CertificateDer::pem_file_iter(roots)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| super::identity::pem(roots, error))?;
        let mut store = RootCertStore::empty();
        let (taken, _) = store.add_parsable_certificates(certificates);
        if taken == 0 {
            return Err(SplitIoError::content(
                roots,
                "no certificate of an authority in it (PEM is expected)",
            ));
        }
        let system = |error: rustls::Error| SplitIoError::System {
            what: "TLS",
            source: io::Error::other(error),
        };
        let provider = CryptoProvider {
            cipher_suites: client_suites::all(),
            ..crypto::default_provider()
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS12])
            .map_err(system)?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.require_ems = true;
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(site.to_owned()).map_err(|_| {
            system(rustls::Error::General(format!(
                "{site} is no name of a host"
            )))
        })?;
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    /// Over this connection.
    ///
    /// # Errors
    /// The connection fails, or the site's certificate is not good.
    pub async fn open(&self, stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        self.tls.connect(self.name.clone(), stream).await
    }
}
