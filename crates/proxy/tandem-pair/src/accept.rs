//! The end that was invited: fetches the key.
//!
//! Is not: where the key is kept.
//!
//! Invariant: it is taken only from the holder of the key that the invitation names.

use std::io;
use std::net::SocketAddr;

use rustls::{CertificateError, Error as TlsError};
use tandem_channel::{ClientChannel, Connector, Pin, dial};
use tandem_link::tunnel::Target;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::error::PairError;
use crate::handover::{Handover, done, in_time, say_done};
use crate::invitation::Invitation;
use crate::{PATIENCE, PROTOCOL};

/// What was fetched. The other end waits until it is said that it is stored.
#[derive(Debug)]
pub struct Received {
    /// What was handed over.
    pub handover: Handover,
    /// The address of the tunnel: UDP.
    pub peer: SocketAddr,
    channel: ClientChannel,
}

/// Fetches the key.
///
/// # Errors
/// Nobody answers, or somebody else, or it breaks off. Once the other end has sent the key the
/// invitation is used up.
pub async fn accept(invitation: &Invitation) -> Result<Received, PairError> {
    let address = || invitation.address().clone();
    let key = invitation.guest_key()?;
    let connector = Connector::new(PROTOCOL, &key, Pin::to(invitation.server()))?;
    let connected = connect(invitation.address()).await;
    let (stream, at) = connected.map_err(|source| PairError::Unreachable {
        address: address(),
        source,
    })?;
    let mut channel = in_time(PATIENCE, connector.open(stream))
        .await
        .map_err(|source| not_opened(address(), source))?;
    let handover = in_time(PATIENCE, Handover::receive(&mut channel))
        .await
        .map_err(|source| PairError::BrokenOff {
            address: address(),
            source,
        })?;
    Ok(Received {
        peer: SocketAddr::new(at.ip(), handover.port),
        handover,
        channel,
    })
}

impl Received {
    /// Tells the other end that the key is stored.
    ///
    /// # Errors
    /// [`PairError::Unconfirmed`]: the other end may have learned that or not.
    pub async fn confirm(mut self) -> Result<(), PairError> {
        let confirmed = in_time(PATIENCE, async {
            say_done(&mut self.channel).await?;
            done(&mut self.channel).await
        });
        confirmed
            .await
            .map_err(|source| PairError::Unconfirmed { source })?;
        // The other end has closed it already, and has all that it needs.
        let _ = in_time(PATIENCE, self.channel.shutdown()).await;
        Ok(())
    }
}

/// To the first address that answers.
async fn connect(target: &Target) -> io::Result<(TcpStream, SocketAddr)> {
    let stream = match target {
        Target::Address(address) => dial(*address, PATIENCE).await?,
        Target::Name { name, port } => dial((name.as_str(), *port), PATIENCE).await?,
    };
    let at = stream.peer_addr()?;
    Ok((stream, at))
}

/// Why there is no channel over a connection that was made.
fn not_opened(address: Target, source: io::Error) -> PairError {
    let said = source
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<TlsError>());
    match said {
        Some(TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) => {
            PairError::WrongKey { address }
        }
        Some(_) => PairError::Foreign { address, source },
        None => PairError::BrokenOff { address, source },
    }
}
