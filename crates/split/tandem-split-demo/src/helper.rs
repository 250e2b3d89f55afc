//! A volunteer of the demonstration: it joins at the broker, and is reached by a browser at a port
//! of its own.
//!
//! Is not: another volunteer than `tandem split volunteer`; the parts are the same.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use tandem_barnraising::SiteUri;
use tandem_broker::member::{self, Membership};
use tandem_split_io::volunteer::{self, Placement, Volunteer};
use tokio::net::{TcpListener, TcpStream};

use crate::error::DemoError;

/// Bytes that it may keep on disk.
const CACHE: u64 = 256 << 20;

/// See above.
pub(crate) struct Joined {
    pub(crate) name: &'static str,
    pub(crate) volunteer: Volunteer,
    pub(crate) membership: Membership,
    /// Where a browser comes to it.
    pub(crate) door: SocketAddr,
    before: Option<TcpListener>,
}

impl Joined {
    /// Joins. `listen` is an address of its own, as the broker knows volunteers by theirs.
    pub(crate) async fn join(
        name: &'static str,
        uri: SiteUri,
        folder: &Path,
        listen: SocketAddr,
        peers: SocketAddr,
    ) -> Result<Self, DemoError> {
        let cache = folder.join(name);
        let key = volunteer::key(Some(&cache))?;
        let membership = Membership::join(member::Settings {
            uri,
            key: key.clone(),
            listen: vec![listen],
            peers: vec![peers],
            cache: Some(cache.clone()),
        })
        .await?;
        let (origin, members) = (membership.origin().clone(), membership.members());
        let volunteer = Volunteer::bind(volunteer::Settings {
            key,
            origin: origin.address,
            origin_key: Some(origin.key),
            listen: vec![listen],
            cache: Some(cache),
            cache_limit: CACHE,
            rate: None,
            directory: Arc::new(Placement::over(members.clone())),
            members,
            peer_listen: vec![peers],
        })
        .await?;
        let door = volunteer.address().map_err(DemoError::Folder)?;
        Ok(Self {
            name,
            volunteer,
            membership,
            door,
            before: None,
        })
    }

    /// Browsers take every name under `localhost` for 127.0.0.1, so that a volunteer with another
    /// address gets a door there.
    pub(crate) async fn with_door(mut self, port: u16) -> Result<Self, DemoError> {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let failed = |source| DemoError::Listen { address, source };
        let before = TcpListener::bind(address).await.map_err(failed)?;
        self.door = before.local_addr().map_err(failed)?;
        self.before = Some(before);
        Ok(self)
    }

    /// Serves for ever, and stays a member.
    pub(crate) async fn serve(self) {
        let (tally, guide) = (self.volunteer.tally(), self.volunteer.guide());
        let staying = self.membership.stay(
            move || tally.told(),
            // The demonstration's origin does not move.
            move |origin| {
                let _ = guide.lead_to(&origin.address, origin.key);
            },
        );
        let behind = self.volunteer.address();
        let door = async {
            if let (Some(door), Ok(behind)) = (self.before, behind) {
                pass_all(door, behind).await;
            }
        };
        tokio::join!(staying, door, self.volunteer.serve());
    }
}

async fn pass_all(door: TcpListener, behind: SocketAddr) {
    while let Ok((mut client, _)) = door.accept().await {
        tokio::spawn(async move {
            if let Ok(mut volunteer) = TcpStream::connect(behind).await {
                // Either side may go away at any time.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut volunteer).await;
            }
        });
    }
}
