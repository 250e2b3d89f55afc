//! The server's side of one client's TLS: bytes of the client in, its requests out; answers in,
//! records in their parts out.
//!
//! Content of the application does not pass through the TLS library. It would make the proofs of
//! its records one by one; here they are made together, by the sealer that the library uses for its
//! own.
//!
//! Is not: I/O. Somebody else carries the bytes.
//!
//! Invariants: nothing that was handed in for the client leaves before its Finished is verified;
//! every record is used up once it is out; after an error there is one alert and nothing else.

use std::fmt;
use std::io::Read as _;
use std::sync::{Arc, PoisonError};

use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS12;
use rustls::{HandshakeKind, ServerConfig, ServerConnection};
use tandem_channel::crypto;
use tandem_split::RecordType;
use tandem_split::seal::Mac;

use super::identity::Identity;
use super::parts::{Record, Records};
use super::suites::{self, SharedSealer};
use super::tickets::Tickets;

/// The most bytes of content in a record (RFC 5246, 6.2.1).
pub const MAX_CONTENT: usize = 1 << 14;

/// Sessions of each kind that can be resumed, by whichever way the client comes. One takes some 200
/// bytes.
const SESSIONS: usize = 16_384;

/// Whether clients may resume sessions. A volunteer sees the name by which one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resumption {
    /// By ticket or by identifier, through whichever volunteer. Volunteers that compare what they
    /// see can tell that two connections are one client's, for as long as a ticket counts.
    #[default]
    Offered,
    /// Each connection costs a full handshake.
    Off,
}

/// What all connections of a site have in common.
#[derive(Clone)]
pub struct Site {
    host: Arc<str>,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Site({})", self.host)
    }
}

impl Site {
    /// With this certificate and key, and no session to resume.
    ///
    /// # Errors
    /// The TLS library refuses the certificate or the suites.
    pub fn new(identity: &Identity, resumption: Resumption) -> Result<Self, rustls::Error> {
        let provider = CryptoProvider {
            cipher_suites: suites::all(),
            ..crypto::default_provider()
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            // No higher version is spoken, so that no client is told of a downgrade (RFC 8446,
            // 4.1.3).
            .with_protocol_versions(&[&TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified_key())));
        config.ignore_client_order = true;
        config.require_ems = true;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        match resumption {
            // By identifier or by ticket, as clients know it. Either is a name, and short.
            Resumption::Offered => {
                config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
                config.ticketer = Arc::new(Tickets::new(SESSIONS));
            }
            // The library gives out identifiers unless told otherwise, and no tickets.
            Resumption::Off => config.session_storage = Arc::new(NoServerSessionStorage {}),
        }
        Ok(Self {
            host: identity.host().into(),
            config: Arc::new(config),
        })
    }

    /// The one host that this site is.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// One client's connection.
pub struct Endpoint {
    tls: ServerConnection,
    /// Once there are keys.
    sealer: Option<SharedSealer>,
    records: Records,
    received: Vec<u8>,
    closed: bool,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({} bytes received)", self.received.len())
    }
}

impl Endpoint {
    /// A client has come.
    ///
    /// # Errors
    /// The TLS library has no random bytes.
    pub fn new(site: &Site) -> Result<Self, rustls::Error> {
        Ok(Self {
            tls: ServerConnection::new(Arc::clone(&site.config))?,
            sealer: None,
            records: Records::default(),
            received: Vec::new(),
            closed: false,
        })
    }

    /// Takes in what the client sent.
    ///
    /// # Errors
    /// The client, or somebody on the way, broke the protocol. An alert is among the records then;
    /// nothing may follow.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), rustls::Error> {
        while !bytes.is_empty() {
            let read = self.tls.read_tls(&mut bytes);
            let tls = &mut self.tls;
            let (processed, sealer) = suites::with_sealer(|| tls.process_new_packets());
            if sealer.is_some() {
                self.sealer = sealer;
            }
            self.collect();
            let state = processed.inspect_err(|_| self.sealer = None)?;
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            // Exactly that much is there.
            if self.tls.reader().read_exact(&mut plain).is_ok() {
                self.received.extend_from_slice(&plain);
            }
            self.closed |= state.peer_has_closed();
            match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// What the client said, decrypted, not yet taken.
    pub fn received(&mut self) -> &mut Vec<u8> {
        &mut self.received
    }

    /// Whether the client has said that nothing more comes.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The name that the client asked for, once its hello is there.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.tls.server_name()
    }

    /// The number of the cipher suite, once there is one.
    #[must_use]
    pub fn suite(&self) -> Option<u16> {
        self.tls
            .negotiated_cipher_suite()
            .map(|suite| suite.suite().into())
    }

    /// Whether both Finished are there and good.
    #[must_use]
    pub fn is_established(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Whether an earlier session was resumed.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        matches!(self.tls.handshake_kind(), Some(HandshakeKind::Resumed))
    }

    /// The proofs of content for the client: each of these becomes a record, in their order. What
    /// is to be polled has to leave before them.
    ///
    /// # Errors
    /// There is no connection to send it on, yet or any more; or a record would be longer than
    /// [`MAX_CONTENT`].
    pub fn seal(&mut self, records: &[&[u8]]) -> std::io::Result<Vec<Mac>> {
        let sealer = self.sealer.as_ref().filter(|_| self.is_established());
        let sealer = sealer.ok_or(std::io::ErrorKind::NotConnected)?;
        let mut sealer = sealer.lock().unwrap_or_else(PoisonError::into_inner);
        let macs = sealer.seal_all(RecordType::ApplicationData, records);
        macs.map_err(std::io::Error::other)
    }

    /// Says that nothing more comes.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        self.collect();
        self.sealer = None;
    }

    /// The next record for the client.
    pub fn poll_record(&mut self) -> Option<Record> {
        self.records.pop()
    }

    fn collect(&mut self) {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            // Writing to a vector does not fail.
            if !matches!(self.tls.write_tls(&mut out), Ok(1..)) {
                break;
            }
        }
        self.records.push(&out);
    }
}
