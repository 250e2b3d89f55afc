//! The TLS sessions below: their configurations, and one of them as bytes in, bytes out.
//!
//! Is not: sockets, or the protocol inside.
//!
//! Invariants: TLS 1.3 alone on legs and wherever `mc13` is chosen; no 0-RTT; nothing but a leg is
//! resumed (`tickets`); hybrid key exchange first, unless a client has chosen; a leg has negotiated
//! the protocol of legs before its exporter is asked for.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use mctls::schedule::{LEG_LABEL, LegSecret, SESSION_LABEL, SessionSecret};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, NamedGroup, RootCertStore, ServerConfig,
    ServerConnection,
};
use zeroize::Zeroizing;

use crate::error::{Error, Part};
use crate::verify::{Middleboxes, NamedByConfiguration};

/// The end-to-end session's protocol in ALPN.
const SESSION_ALPN: &[u8] = b"mc13";

/// How many tickets a leg brings: each is used once, and each leg that is not resumed brings one
/// more for those who need several at a time.
const LEG_TICKETS: usize = 1;

/// A leg's protocol in ALPN.
const LEG_ALPN: &[u8] = b"mc13-leg";

/// A certificate chain and its key.
#[derive(Debug)]
pub struct Identity {
    /// The leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The leaf's key.
    pub key: PrivateKeyDer<'static>,
}

impl Identity {
    fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (self.chain.clone(), self.key.clone_key())
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.chain.first().map_or([0; 32], |leaf| sha256(leaf))
    }
}

/// How a client agrees on the keys of its TLS sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyExchange {
    /// X25519MLKEM768 where the other side has it: what is recorded today stays secret from a
    /// quantum computer. Some 2,300 bytes more for each session.
    Hybrid,
    /// X25519 or P-256: for links on which those bytes count.
    Classical,
}

/// The provider, with these groups, and suites in the order in which the records' are
/// ([`mctls::suite::Suite`]): AES-128 protects the data in any case, and processors have
/// instructions for SHA-256, not for SHA-384, of which the key schedule of each session has much.
fn provider(key_exchange: KeyExchange) -> Arc<CryptoProvider> {
    let classical = [kx_group::X25519, kx_group::SECP256R1];
    let kx_groups = match key_exchange {
        KeyExchange::Hybrid => [&[kx_group::X25519MLKEM768], &classical[..]].concat(),
        KeyExchange::Classical => classical.to_vec(),
    };
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            TLS13_AES_128_GCM_SHA256,
            TLS13_CHACHA20_POLY1305_SHA256,
            TLS13_AES_256_GCM_SHA384,
        ],
        kx_groups,
        ..default_provider()
    })
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

fn middleboxes(roots: Arc<RootCertStore>) -> Arc<Middleboxes> {
    let algorithms = provider(KeyExchange::Hybrid).signature_verification_algorithms;
    Arc::new(Middleboxes { roots, algorithms })
}

/// A client's end-to-end session: `mc13` first, then what it speaks over plain TLS.
pub(crate) fn client(
    roots: Arc<RootCertStore>,
    plain: &[Vec<u8>],
    key_exchange: KeyExchange,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider(key_exchange))
        .with_protocol_versions(&[&TLS13])
        .map_err(Error::Configuration)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = with_mc13(plain);
    // The server is to show its certificate in each session: its digest stands in the terms.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

fn with_mc13(plain: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = vec![SESSION_ALPN.to_vec()];
    all.extend_from_slice(plain);
    all
}

/// A client's legs. What resumes them is the caller's ([`crate::tickets`]).
pub(crate) fn client_leg(
    roots: Arc<RootCertStore>,
    key_exchange: KeyExchange,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider(key_exchange))
        .with_protocol_versions(&[&TLS13])
        .map_err(Error::Configuration)?
        .dangerous()
        .with_custom_certificate_verifier(middleboxes(roots));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![LEG_ALPN.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// A middlebox's leg to the server. What resumes it is the caller's.
pub(crate) fn middlebox_leg(
    identity: &Identity,
    key_exchange: KeyExchange,
) -> Result<ClientConfig, Error> {
    let algorithms = provider(key_exchange).signature_verification_algorithms;
    let (chain, key) = identity.parts();
    let mut config = ClientConfig::builder_with_provider(provider(key_exchange))
        .with_protocol_versions(&[&TLS13])
        .map_err(Error::Configuration)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NamedByConfiguration { algorithms }))
        .with_client_auth_cert(chain, key)
        .map_err(Error::Configuration)?;
    config.alpn_protocols = vec![LEG_ALPN.to_vec()];
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// A server's end-to-end session.
pub(crate) fn server(identity: &Identity, plain: &[Vec<u8>]) -> Result<ServerConfig, Error> {
    let (chain, key) = identity.parts();
    let mut config = ServerConfig::builder_with_provider(provider(KeyExchange::Hybrid))
        .with_protocol_versions(&[&TLS13])
        .map_err(Error::Configuration)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(Error::Configuration)?;
    config.alpn_protocols = with_mc13(plain);
    // End-to-end sessions are not resumed.
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// A server's legs.
pub(crate) fn server_leg(
    identity: &Identity,
    roots: Arc<RootCertStore>,
) -> Result<ServerConfig, Error> {
    let (chain, key) = identity.parts();
    let mut config = ServerConfig::builder_with_provider(provider(KeyExchange::Hybrid))
        .with_protocol_versions(&[&TLS13])
        .map_err(Error::Configuration)?
        .with_client_cert_verifier(middleboxes(roots))
        .with_single_cert(chain, key)
        .map_err(Error::Configuration)?;
    config.alpn_protocols = vec![LEG_ALPN.to_vec()];
    config.send_tls13_tickets = LEG_TICKETS;
    Ok(config)
}

/// A client's legs end here.
pub(crate) fn middlebox_server(identity: &Identity) -> Result<ServerConfig, Error> {
    let mut config = server(identity, &[])?;
    config.alpn_protocols = vec![LEG_ALPN.to_vec()];
    config.send_tls13_tickets = LEG_TICKETS;
    Ok(config)
}

/// One TLS session: its bytes in and out, its data in and out.
pub(crate) struct Tls {
    connection: Connection,
    part: Part,
    end: End,
}

/// Whether the other side has said that no more data comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closed,
}

impl Tls {
    pub(crate) fn client(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        part: Part,
    ) -> Result<Self, Error> {
        let connection = ClientConnection::new(Arc::clone(config), name);
        Self::new(connection.map(Connection::from), part)
    }

    pub(crate) fn server(config: &Arc<ServerConfig>, part: Part) -> Result<Self, Error> {
        let connection = ServerConnection::new(Arc::clone(config));
        Self::new(connection.map(Connection::from), part)
    }

    fn new(connection: Result<Connection, rustls::Error>, part: Part) -> Result<Self, Error> {
        let mut connection = connection.map_err(|source| Error::Tls { part, source })?;
        // What is written is bounded by the protocol's messages and sent at once.
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            part,
            end: End::Open,
        })
    }

    /// Takes bytes of the session; appends what they said.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], data: &mut Vec<u8>) -> Result<(), Error> {
        while !bytes.is_empty() {
            // Behind a close_notify it takes nothing more; what comes there says nothing (RFC 8446,
            // section 6.1).
            if self.connection.read_tls(&mut bytes)? == 0 {
                break;
            }
            let part = self.part;
            let state = self.connection.process_new_packets();
            let state = state.map_err(|source| Error::Tls { part, source })?;
            if state.peer_has_closed() {
                self.end = End::Closed;
            }
            let start = data.len();
            data.resize(start + state.plaintext_bytes_to_read(), 0);
            self.connection.reader().read_exact(&mut data[start..])?;
        }
        Ok(())
    }

    /// Takes data to send.
    pub(crate) fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        Ok(self.connection.writer().write_all(data)?)
    }

    /// Says that no more data comes.
    pub(crate) fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// Appends the session's bytes that are to be sent.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        while self.connection.wants_write() {
            self.connection.write_tls(out)?;
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.end == End::Closed
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// How keys are agreed on; `None` until that is known.
    pub(crate) fn key_exchange(&self) -> Option<KeyExchange> {
        let group = self.connection.negotiated_key_exchange_group()?;
        Some(match group.name() {
            NamedGroup::X25519MLKEM768 => KeyExchange::Hybrid,
            _ => KeyExchange::Classical,
        })
    }

    /// Whether this end-to-end session is of our protocol. `None`: that is not known yet.
    pub(crate) fn is_mc13(&self) -> Option<bool> {
        let alpn = self.connection.alpn_protocol();
        match (alpn, self.is_ready()) {
            (Some(protocol), _) => Some(protocol == SESSION_ALPN),
            (None, true) => Some(false),
            (None, false) => None,
        }
    }

    /// Its cipher suite, once there is one.
    #[cfg(test)]
    pub(crate) fn suite(&self) -> Option<rustls::CipherSuite> {
        Some(self.connection.negotiated_cipher_suite()?.suite())
    }

    /// Whether it goes on from an earlier one, without certificates.
    #[cfg(test)]
    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// The leaf certificate that the other side has shown, in this session or in the one that it
    /// resumes.
    pub(crate) fn leaf(&self) -> Option<&CertificateDer<'static>> {
        self.connection.peer_certificates()?.first()
    }

    /// Its digest; zeros where there is none.
    pub(crate) fn peer_digest(&self) -> [u8; 32] {
        self.leaf().map_or([0; 32], |leaf| sha256(leaf))
    }

    fn export(&self, label: &str) -> Result<Zeroizing<[u8; 32]>, Error> {
        let part = self.part;
        let mut secret = Zeroizing::new([0; 32]);
        self.connection
            .export_keying_material(&mut secret[..], label.as_bytes(), Some(&[]))
            .map_err(|source| Error::Tls { part, source })?;
        Ok(secret)
    }

    pub(crate) fn session_secret(&self) -> Result<SessionSecret, Error> {
        Ok(SessionSecret::new(*self.export(SESSION_LABEL)?))
    }

    pub(crate) fn leg_secret(&self) -> Result<LegSecret, Error> {
        if self.connection.alpn_protocol() != Some(LEG_ALPN) {
            let (part, source) = (self.part, rustls::Error::NoApplicationProtocol);
            return Err(Error::Tls { part, source });
        }
        Ok(LegSecret::new(*self.export(LEG_LABEL)?))
    }
}
