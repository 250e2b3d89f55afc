//! tandem-channel: a connection between two programs that know each other by pinned keys: TCP under
//! TLS 1.3, each end authenticated by a raw Ed25519 key (RFC 7250); and the same TLS settings for
//! other transports. Also the one crypto provider of the workspace
//! (docs/adr/0012-crypto-provider.md).
//!
//! Is not: what is said on the channel.
//!
//! Invariants: no certificate authority has a say; a client talks only to the pinned key, or to the
//! first key that it met; the server's end counts every byte that it writes.

#![forbid(unsafe_code)]

mod config;
mod counted;
mod dial;
mod error;
mod key;
mod protocol;
mod secrecy;
mod verify;

pub use config::{SERVER_NAME, client_config, server_config};
pub use dial::{dial, first_of};
pub use error::ChannelError;
pub use key::{ChannelKey, End, KeyName};
pub use protocol::{KeyExchange, Protocol};
/// The crypto provider of the workspace. Its name is written here, in `Cargo.toml`, and where
/// records are opened with its ciphers themselves (`tandem-seal`).
pub use rustls::crypto::aws_lc_rs as crypto;
pub use secrecy::warn_if_exposed;
pub use verify::{Admission, Pin};

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use counted::Counted;

/// The client's end of a channel.
pub type ClientChannel = client::TlsStream<TcpStream>;
/// The client's end of one that counts what it receives.
pub type CountedChannel = client::TlsStream<Counted>;
/// The server's end of a channel.
pub type ServerChannel = server::TlsStream<Counted>;

/// Opens channels.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// As the holder of `key`, to the holder of the pinned one.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub fn new(protocol: Protocol, key: &ChannelKey, pin: Pin) -> Result<Self, ChannelError> {
        Ok(Self {
            tls: TlsConnector::from(Arc::new(client_config(protocol, key, pin)?)),
        })
    }

    /// Over this connection.
    ///
    /// # Errors
    /// The connection fails, or the other end is not the one that is pinned.
    pub async fn open(&self, stream: TcpStream) -> io::Result<ClientChannel> {
        stream.set_nodelay(true)?;
        self.tls.connect(server_name()?, stream).await
    }

    /// The same; what is read from the connection is added to `came`, byte by byte and not only
    /// when a record is whole.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_counted(
        &self,
        stream: TcpStream,
        came: Arc<AtomicU64>,
    ) -> io::Result<CountedChannel> {
        stream.set_nodelay(true)?;
        let counted = Counted::new(stream, Arc::default(), came);
        self.tls.connect(server_name()?, counted).await
    }
}

/// Accepts channels.
#[derive(Clone)]
pub struct Acceptor {
    tls: TlsAcceptor,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Acceptor {
    /// As the holder of `key`, from whoever is admitted.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub fn new(
        protocol: Protocol,
        key: &ChannelKey,
        admission: Admission,
    ) -> Result<Self, ChannelError> {
        Ok(Self {
            tls: TlsAcceptor::from(Arc::new(server_config(protocol, key, admission)?)),
        })
    }

    /// Over this connection; what is written to it is added to `sent`.
    ///
    /// # Errors
    /// The connection fails, or the other end is not admitted.
    pub async fn open(&self, stream: TcpStream, sent: Arc<AtomicU64>) -> io::Result<ServerChannel> {
        stream.set_nodelay(true)?;
        let counted = Counted::new(stream, sent, Arc::default());
        self.tls.accept(counted).await
    }
}

fn server_name() -> io::Result<ServerName<'static>> {
    ServerName::try_from(SERVER_NAME).map_err(io::Error::other)
}

/// The key that the client has shown.
#[must_use]
pub fn holder(channel: &ServerChannel) -> Option<KeyName> {
    KeyName::of(channel.get_ref().1.peer_certificates()?.first()?)
}

/// Who is at the other end of a connection over QUIC, by what the transport gives of TLS: the list
/// of what that end has shown.
#[must_use]
pub fn holder_of(shown: &dyn Any) -> Option<KeyName> {
    let shown = shown.downcast_ref::<Vec<CertificateDer<'static>>>()?;
    KeyName::of(shown.first()?)
}
