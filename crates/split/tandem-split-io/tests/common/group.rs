//! Volunteers that share, each with a runtime of its own, so that one can be taken away like a
//! process that is killed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tandem_barnraising::{Peer, PublicKey};
use tandem_channel::KeyName;
use tandem_daemon::metrics::Number;
use tandem_split_io::volunteer::{self, Placement, Volunteer};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::{Site, value};

/// One volunteer. Dropping it kills it.
pub(crate) struct Helper {
    pub(crate) address: SocketAddr,
    pub(crate) member: Peer,
    /// Where it answers other volunteers.
    pub(crate) peers: SocketAddr,
    pub(crate) members: watch::Sender<Arc<[Peer]>>,
    numbers: Vec<Number>,
    runtime: Option<Runtime>,
}

impl Helper {
    /// One that knows of nobody yet.
    pub(crate) fn start(site: &Site, cache: Option<PathBuf>) -> Self {
        let loopback = "127.0.0.1:0".parse().expect("an address");
        Self::start_at(site, cache, loopback)
    }

    /// The same, which others ask there.
    pub(crate) fn start_at(site: &Site, cache: Option<PathBuf>, peers: SocketAddr) -> Self {
        Self::behind(site.to_origin.address, site.origin_key, cache, peers)
    }

    /// The same with another way to an origin.
    pub(crate) fn behind(
        origin: SocketAddr,
        key: KeyName,
        cache: Option<PathBuf>,
        peers: SocketAddr,
    ) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (members, receiver) = watch::channel(Arc::default());
        let loopback = "127.0.0.1:0".parse().expect("an address");
        let settings = volunteer::Settings {
            key: volunteer::key(cache.as_deref()).expect("a key"),
            origin: origin.to_string(),
            origin_key: Some(key),
            listen: vec![loopback],
            cache,
            cache_limit: 1 << 30,
            rate: None,
            directory: Arc::new(Placement::over(receiver.clone())),
            members: receiver,
            peer_listen: vec![peers],
        };
        let bound = runtime
            .block_on(Volunteer::bind(settings))
            .expect("the volunteer starts");
        let peers = bound.peer_address().expect("it listens for peers");
        let member = Peer::at(PublicKey(bound.key().bytes()), peers);
        let (address, numbers) = (bound.address().expect("bound"), bound.numbers());
        runtime.spawn(bound.serve());
        Self {
            address,
            member,
            peers,
            members,
            numbers,
            runtime: Some(runtime),
        }
    }

    pub(crate) fn counts(&self, name: &str) -> u64 {
        value(&self.numbers, &format!("tandem_split_volunteer_{name}"))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Tells all of these of all of these, and of some more.
pub(crate) fn acquaint(helpers: &[Helper], more: &[Peer]) {
    let all: Arc<[Peer]> = helpers
        .iter()
        .map(|helper| helper.member)
        .chain(more.iter().copied())
        .collect();
    for helper in helpers {
        helper.members.send_replace(Arc::clone(&all));
    }
}
