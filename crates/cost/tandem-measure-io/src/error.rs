//! What keeps a measurement from being begun. What fails during one is counted instead.

use std::io;
use std::path::PathBuf;

use tandem_measure::MixError;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The URL is none that can be measured.
    #[error("{url}: {why}; give a URL such as https://localhost:8443/")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The server's name has no address.
    #[error("no address for {host}: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Options that exclude each other.
    #[error("{0}")]
    Options(&'static str),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has no certificates.
    #[error("{}: no certificates in PEM; give the issuer's with --ca, or use --insecure", path.display())]
    Certificates {
        /// Which.
        path: PathBuf,
    },
    /// A file has no client certificate, or no key, or not the certificate's.
    #[error("{}: {why}; give the client's certificates with --client-cert and their key with --client-key, both in PEM", path.display())]
    Identity {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A list of paths is none.
    #[error("{name}: {source}")]
    Mix {
        /// Its file, or its name.
        name: String,
        /// Why.
        source: MixError,
    },
    /// TLS could not be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The system gave no thread, timer or random number.
    #[error("{what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Why there is none.
        source: io::Error,
    },
}

impl MeasureError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
