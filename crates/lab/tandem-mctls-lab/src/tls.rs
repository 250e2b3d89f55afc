//! Plain TLS 1.3 by rustls, for the arms that are compared: key exchange and cipher suite of the
//! arms with contexts, no resumption.

use std::sync::Arc;

use mctls_io::Identity;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tandem_testbed::LabError;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::route::SERVER;

/// The groups and the suite that the arms with contexts use, too.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1],
        ..default_provider()
    })
}

/// A client.
///
/// # Errors
/// `Command` where rustls refuses.
pub(crate) fn connector(roots: &Arc<RootCertStore>) -> Result<TlsConnector, LabError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| refused(&error))?;
    let mut config = config
        .with_root_certificates(Arc::clone(roots))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A server.
///
/// # Errors
/// `Command` where rustls refuses.
pub(crate) fn acceptor(identity: Identity) -> Result<TlsAcceptor, LabError> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| refused(&error))?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(identity.chain, identity.key)
        .map_err(|error| refused(&error))?;
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The server's name, as rustls has it.
///
/// # Errors
/// Never: the name is one.
pub(crate) fn server_name() -> Result<ServerName<'static>, LabError> {
    ServerName::try_from(SERVER).map_err(|error| refused(&error))
}

fn refused(error: &dyn std::fmt::Display) -> LabError {
    LabError::Command {
        command: "rustls".to_owned(),
        why: error.to_string(),
    }
}
