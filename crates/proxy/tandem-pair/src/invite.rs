//! The end that invites: waits for the one that has the invitation, and hands the key over.
//!
//! Is not: how long it waits; whoever calls it drops the future.
//!
//! Invariants: strangers are bounded in number and time, and learn nothing; however many there are
//! of one network, they keep nobody else out; after the first guest nobody is let in any more.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use tandem_channel::{Acceptor, Admission, ChannelKey, ServerChannel};
use tandem_daemon::listener;
use tandem_link::tunnel::Target;
use tandem_wire::clock::UnixTime;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::error::PairError;
use crate::handover::{Handover, done, in_time, say_done};
use crate::invitation::Invitation;
use crate::{PATIENCE, PROTOCOL};

/// Connections at a time whose end has not shown itself yet. Past this number each that comes takes
/// the place of another.
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
        let here = Strangers::default();
        listening.spawn(listener::serve_admitted(listener, move |stream, from| {
            let (acceptor, shown) = (self.acceptor.clone(), shown.clone());
            let place = here.take(from);
            Some(async move {
                let Ok(from) = stream.peer_addr() else {
                    return;
                };
                let opened = tokio::select! {
                    biased;
                    opened = in_time(PATIENCE, acceptor.open(stream, Arc::default())) => opened,
                    // It never sends.
                    _ = place => Err(io::Error::other("too many others came")),
                };
                let one = match opened {
                    Ok(channel) => Ok(Guest { channel, from }),
                    Err(why) => Err(Stranger { from, why }),
                };
                // Nobody listens where another has been the first.
                let _ = shown.send(one).await;
            })
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

/// Those who have not shown themselves yet, in the order in which they came.
#[derive(Debug, Default)]
struct Strangers(Mutex<Vec<Place>>);

#[derive(Debug)]
struct Place {
    network: Option<IpNet>,
    /// Dropped where somebody else takes the place.
    lost: oneshot::Sender<()>,
}

impl Strangers {
    /// A place for one more; where there is none, the first of the largest crowd loses its own.
    /// What is returned is ready once this one is lost.
    fn take(&self, from: IpAddr) -> oneshot::Receiver<()> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|place| !place.lost.is_closed());
        if places.len() >= MAX_STRANGERS {
            let crowd = |place: &Place| {
                let of_it = places.iter().filter(|one| one.network == place.network);
                of_it.count()
            };
            let crowds = places.iter().map(crowd);
            let largest = crowds.enumerate().rev().max_by_key(|(_, crowd)| *crowd);
            if let Some((first, _)) = largest {
                places.remove(first);
            }
        }
        let (lost, place) = oneshot::channel();
        let network = network(from);
        places.push(Place { network, lost });
        place
    }
}

/// Of what one end may have every address: an address of IPv4, a /48 of IPv6 (RFC 6177).
fn network(address: IpAddr) -> Option<IpNet> {
    let address = address.to_canonical();
    let len = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 48,
    };
    // No prefix is longer than the address.
    Some(IpNet::new(address, len).ok()?.trunc())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn take(strangers: &Strangers, from: &str) -> oneshot::Receiver<()> {
        strangers.take(from.parse().expect("an address"))
    }

    fn is_held(place: &mut oneshot::Receiver<()>) -> bool {
        place.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn a_crowd_of_one_network_displaces_itself_alone() {
        for crowd in [
            |_| "192.0.2.1".to_owned(),
            |n| format!("2001:db8:0:{n:x}::1"),
        ] as [fn(usize) -> String; 2]
        {
            let strangers = Strangers::default();
            let mut crowd_held: Vec<_> = (0..MAX_STRANGERS - 1)
                .map(|n| take(&strangers, &crowd(n)))
                .collect();
            let mut guest = take(&strangers, "198.51.100.1");
            assert!(crowd_held.iter_mut().all(is_held));
            crowd_held.extend((0..MAX_STRANGERS).map(|n| take(&strangers, &crowd(n))));
            assert!(is_held(&mut guest));
            let held = crowd_held.iter_mut().map(is_held).collect::<Vec<_>>();
            let lost = held.iter().filter(|held| !**held).count();
            assert_eq!(lost, MAX_STRANGERS);
            assert!(
                held[lost..].iter().all(|held| *held),
                "not the first of them"
            );
        }
    }

    #[test]
    fn who_has_gone_holds_no_place() {
        let strangers = Strangers::default();
        let mut first = take(&strangers, "192.0.2.1");
        for _ in 0..MAX_STRANGERS * 2 {
            drop(take(&strangers, "192.0.2.1"));
        }
        assert!(is_held(&mut first));
    }
}
