//! The TLS settings of both ends, for TCP and for what else runs TLS 1.3 (QUIC, RFC 9001).
//!
//! Is not: a connection.
//!
//! Invariants: TLS 1.3 only; both ends show a raw key; no tickets, so no 0-RTT data.

use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::error::ChannelError;
use crate::key::ChannelKey;
use crate::protocol::Protocol;
use crate::verify::{Admission, Pin};

/// The name that clients give to the TLS library. It is neither sent nor checked: the key is.
pub const SERVER_NAME: &str = "pinned.invalid";

/// The client's settings: as the holder of `key`, to the holder of the pinned one.
///
/// # Errors
/// The TLS library refuses its own defaults.
pub fn client_config(
    protocol: Protocol,
    key: &ChannelKey,
    pin: Pin,
) -> Result<ClientConfig, ChannelError> {
    let mut config = ClientConfig::builder_with_provider(protocol.provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(ChannelError::tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pin))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
            key.certified(),
        )));
    config.alpn_protocols = vec![protocol.name.to_vec()];
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The server's settings: as the holder of `key`, from whoever is admitted.
///
/// # Errors
/// The TLS library refuses its own defaults.
pub fn server_config(
    protocol: Protocol,
    key: &ChannelKey,
    admission: Admission,
) -> Result<ServerConfig, ChannelError> {
    let mut config = ServerConfig::builder_with_provider(protocol.provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(ChannelError::tls)?
        .with_client_cert_verifier(Arc::new(admission))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
            key.certified(),
        )));
    config.alpn_protocols = vec![protocol.name.to_vec()];
    // Tickets would cost a slow line more than they save: the handshake has no certificate.
    config.send_tls13_tickets = 0;
    Ok(config)
}
