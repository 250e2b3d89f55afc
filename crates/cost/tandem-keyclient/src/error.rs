//! What can go wrong, at the start and with one signature.
//!
//! Is not: what rustls makes of it, which is a failed handshake.

use std::path::PathBuf;

use tandem_channel::ChannelError;
use tandem_keyserver::Refusal;

/// Why there is no client, or no key for a certificate.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it must.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate has a key of another kind.
    #[error("the certificate's key is not RSA, P-256, P-384, P-521 or Ed25519")]
    Certificate,
    /// The channel's key cannot be used.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// Why there is no signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// It is not what a TLS server signs in a handshake.
    #[error("the message is not one of a TLS handshake")]
    NotAHandshake,
    /// None can be reached.
    #[error("no key server can be reached")]
    NoServer,
    /// None has answered in time.
    #[error("no key server has answered in time")]
    TooLate,
    /// So many wait already that this one does not.
    #[error("too many handshakes wait for a signature")]
    TooManyWaiting,
    /// Each that was asked has refused; the last one for this reason.
    #[error("the key server refuses: {0}")]
    Refused(Refusal),
    /// The machine has no thread for it.
    #[error("a thread could not be started")]
    NoThread,
}
