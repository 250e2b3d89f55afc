//! The end that invites: waits for the one that has the invitation, and hands the key over.
//!
//! Is not: how long it waits; whoever calls it drops the future.
//!
//! Invariants: strangers are bounded in number and time, and learn nothing; after the first guest
//! nobody is let in any more.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tandem_channel::{Acceptor, Admission, ChannelKey, ServerChannel};
use tandem_daemon::listener;
use tandem_link::tunnel::Target;
use tandem_wire::clock::UnixTime;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::error::PairError;
use crate::handover::{Handover, done, in_time, say_done};
use crate::invitation::Invitation;
use crate::{PATIENCE, PROTOCOL};

/// Connections at a time whose end has not shown itself yet. Others wait in the system's queue.
const MAX_STRANGERS: usize = 64;

/// An invitation, and the end that it leads to.
#[derive(Debug)]
pub struct Inviter {
    invitation: Invitation,
    acceptor: Acceptor,
}

/// Somebody who has tried and was not let in.
#[derive(Debug)]
pub struct Stranger {
    /// From where.
    pub from: SocketAddr,
    /// What went wrong.
    pub why: io::Error,
}

/// The end that has the invitation. Dropped, it is told nothing.
#[derive(Debug)]
pub struct Guest {
    channel: ServerChannel,
    from: SocketAddr,
}

impl Inviter {
    /// An invitation to `address`, where others reach this machine by TCP.
    ///
    /// # Errors
    /// The system has no random bytes, or the TLS library refuses its own defaults.
    pub fn new(address: Target, expires: UnixTime) -> Result<Self, PairError> {
        let own = ChannelKey::fleeting()?;
        let invitation = Invitation::new(address, own.name(), expires)?;
        let guest = invitation.guest_key()?.name();
        let acceptor = Acceptor::new(PROTOCOL, &own, Admission::Listed(HashSet::from([guest])))?;
        Ok(Self {
            invitation,
            acceptor,
        })
    }

    /// The invitation.
    #[must_use]
    pub fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Waits for the guest at `listener`. Of others `stranger` is told.
    pub async fn guest(self, listener: TcpListener, stranger: impl Fn(Stranger)) -> Guest {
        let (shown, mut come) = mpsc::channel(1);
        // Dropped with this future, and the listener with it.
        let mut listening = JoinSet::new();
        listening.spawn(listener::serve(listener, MAX_STRANGERS, move |stream| {
            let (acceptor, shown) = (self.acceptor.clone(), shown.clone());
            async move {
                let Ok(from) = stream.peer_addr() else {
                    return;
                };
                let opened = in_time(PATIENCE, acceptor.open(stream, Arc::default())).await;
                let one = match opened {
                    Ok(channel) => Ok(Guest { channel, from }),
                    Err(why) => Err(Stranger { from, why }),
                };
                // Nobody listens where another has been the first.
                let _ = shown.send(one).await;
            }
        }));
        loop {
            match come.recv().await {
                Some(Ok(guest)) => {
                    listening.shutdown().await;
                    return guest;
                }
                Some(Err(who)) => stranger(who),
                // The listener is served for ever.
                None => std::future::pending().await,
            }
        }
    }
}

impl Guest {
    /// From where it comes.
    #[must_use]
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// Hands the key over, and waits until the guest has stored it.
    ///
    /// # Errors
    /// [`PairError::Unconfirmed`]: the guest may have it or not.
    pub async fn hand_over(self, what: &Handover) -> Result<(), PairError> {
        let mut channel = self.channel;
        let handed = in_time(PATIENCE, async {
            what.send(&mut channel).await?;
            done(&mut channel).await
        });
        handed
            .await
            .map_err(|source| PairError::Unconfirmed { source })?;
        // The guest has it. Whether it learns that this is known is for its message only.
        let _ = in_time(PATIENCE, async {
            say_done(&mut channel).await?;
            channel.shutdown().await
        })
        .await;
        Ok(())
    }
}
