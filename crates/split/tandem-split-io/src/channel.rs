//! The channel between volunteer and origin: TCP under TLS 1.3, both ends known by a raw Ed25519
//! key (RFC 7250).
//!
//! Is not: what is said on it, nor what makes the content trustworthy; that is the client's own
//! TLS, whatever becomes of the channel.
//!
//! Invariants: no certificate authority has a say; a volunteer speaks to the key that it was told,
//! or to the one that it met first; an origin counts every byte that it writes.

mod counted;
mod greet;
mod key;
mod verify;

pub(crate) use greet::greet;
pub use key::{ChannelKey, KeyName};
pub use verify::{Admission, Pin};

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use counted::Counted;

/// What a channel is for: both sides ask for it (RFC 7301), so that nothing else is taken for a
/// volunteer, an origin or a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Stubs and misses, between origin and volunteer.
    Split,
    /// Joining and leaving, between broker and volunteer.
    Broker,
}

impl Protocol {
    fn name(self) -> Vec<u8> {
        match self {
            Self::Split => b"tandem-split/1".to_vec(),
            Self::Broker => b"tandem-broker/1".to_vec(),
        }
    }
}

/// The volunteer's end of a channel.
pub type ToOrigin = client::TlsStream<TcpStream>;
/// The origin's end of a channel.
pub type ToVolunteer = server::TlsStream<Counted>;

/// Opens channels to an origin.
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
    pub fn new(key: &ChannelKey, pin: Pin) -> Result<Self, rustls::Error> {
        Self::speaking(Protocol::Split, key, pin)
    }

    /// The same, for another protocol.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub fn speaking(protocol: Protocol, key: &ChannelKey, pin: Pin) -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pin))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                key.certified(),
            )));
        config.alpn_protocols = vec![protocol.name()];
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Over this connection.
    ///
    /// # Errors
    /// The connection fails, or the other end is not the one that is pinned.
    pub async fn open(&self, stream: TcpStream) -> io::Result<ToOrigin> {
        stream.set_nodelay(true)?;
        // Nobody looks at the name: the key is what is checked.
        let name = ServerName::try_from("origin.invalid").map_err(io::Error::other)?;
        self.tls.connect(name, stream).await
    }
}

/// Takes channels from volunteers.
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
    pub fn new(key: &ChannelKey, admission: Admission) -> Result<Self, rustls::Error> {
        Self::speaking(Protocol::Split, key, admission)
    }

    /// The same, for another protocol.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults.
    pub fn speaking(
        protocol: Protocol,
        key: &ChannelKey,
        admission: Admission,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(admission))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
                key.certified(),
            )));
        config.alpn_protocols = vec![protocol.name()];
        // Tickets would cost the thin line more than they save: the handshake has no certificate.
        config.send_tls13_tickets = 0;
        Ok(Self {
            tls: TlsAcceptor::from(Arc::new(config)),
        })
    }

    /// Over this connection; what is written to it is added to `sent`.
    ///
    /// # Errors
    /// The connection fails, or the other end is not admitted.
    pub async fn open(&self, stream: TcpStream, sent: Arc<AtomicU64>) -> io::Result<ToVolunteer> {
        stream.set_nodelay(true)?;
        self.tls.accept(Counted::new(stream, sent)).await
    }
}

/// The key that the volunteer has shown.
#[must_use]
pub fn holder(channel: &ToVolunteer) -> Option<KeyName> {
    KeyName::of(channel.get_ref().1.peer_certificates()?.first()?)
}
