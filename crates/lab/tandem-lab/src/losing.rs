//! A client-side proxy that has lost what it claims to hold: case 3 of the thesis's table 2.2 at
//! any moment, without a race.
//!
//! Its store answers every question about names (so the proxy announces the chain) and has no byte
//! of any certificate (so it cannot rebuild what is then sent by reference). Everything else is the
//! daemon itself: its rules, its queue, its engine.
//!
//! Is not: for any network but the lab's.

use std::path::PathBuf;
use std::sync::Arc;

use tandem_packet::{Direction, Output, Proxy, VerdictToken, Wakeup};
use tandem_packet_io::config::{Config, Role, Settings};
use tandem_packet_io::engine::Engine;
use tandem_store::{Digest, Kind, Latest, MemoryStore, Object, ObjectId, Site, Store};
use tandem_wire::{Instant, UnixTime};

use tandem_testbed::LabError;

/// How such a proxy is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LosingOptions {
    /// The interface of the link.
    pub link: String,
    /// The file with the key.
    pub key: PathBuf,
    /// `safe` or `mcveety`.
    pub wire: String,
}

/// Runs one until SIGTERM or SIGINT. `ready` is called once packets are looked at.
///
/// # Errors
/// `Command` with what the daemon says.
pub fn losing_proxy(options: LosingOptions, ready: impl FnOnce()) -> Result<(), LabError> {
    let failed = |error: tandem_packet_io::IoError| LabError::Command {
        command: "the proxy that loses its store".to_owned(),
        why: error.to_string(),
    };
    let settings = Settings {
        link: Some(options.link),
        key: Some(options.key),
        wire: Some(options.wire),
        admin: Some("none".to_owned()),
        ..Settings::default()
    };
    let config = Config::resolve(Role::ClientSide, settings).map_err(failed)?;
    let engine = tandem_packet::Config {
        role: config.role,
        wire: config.wire,
        client_certificates: config.client_certificates,
        key: config.key.load().map_err(failed)?,
        ports: config.ports.clone(),
        limits: config.limits,
    };
    let engine = Losing(Proxy::new(engine, NamesOnly::default()));
    tandem_packet_io::daemon::run_engine(config, engine, ready).map_err(failed)
}

/// A store that knows what it held, and holds nothing any more.
#[derive(Debug, Default)]
struct NamesOnly(MemoryStore);

impl Store for NamesOnly {
    fn part(&mut self, _: &Digest) -> Option<Arc<[u8]>> {
        None
    }

    fn part_by_prefix(&mut self, _: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        None
    }

    fn holds(&self, kind: Kind, id: &ObjectId) -> bool {
        self.0.holds(kind, id)
    }

    fn object(&mut self, kind: Kind, id: &ObjectId) -> Option<Object> {
        self.0.object(kind, id)
    }

    fn object_by_prefix(&mut self, prefix: &[u8]) -> Option<Object> {
        self.0.object_by_prefix(prefix)
    }

    fn expected(&mut self, kind: Kind, site: &Site, now: UnixTime, limit: usize) -> Vec<ObjectId> {
        self.0.expected(kind, site, now, limit)
    }

    fn unexpected(&self, kind: Kind, limit: usize) -> Vec<ObjectId> {
        self.0.unexpected(kind, limit)
    }

    fn latest(&self, kind: Kind, limit: usize) -> Vec<Latest> {
        self.0.latest(kind, limit)
    }

    fn learn(
        &mut self,
        kind: Kind,
        site: Option<&Site>,
        parts: &[&[u8]],
        now: UnixTime,
    ) -> ObjectId {
        self.0.learn(kind, site, parts, now)
    }
}

/// The packet engine with that store.
struct Losing(Proxy<NamesOnly>);

impl Engine for Losing {
    fn handle_packet(
        &mut self,
        token: VerdictToken,
        direction: Direction,
        packet: &[u8],
        now: Instant,
        wall: UnixTime,
    ) {
        self.0.handle_packet(token, direction, packet, now, wall);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        self.0.poll_timeout()
    }

    fn release_all(&mut self) {
        self.0.release_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_what_it_held_and_has_no_byte_of_it() {
        let mut store = NamesOnly::default();
        let site = Site::Address(([10, 77, 3, 2], 443).into());
        let certificate: &[u8] = b"a certificate";
        let id = store.learn(Kind::Chain, Some(&site), &[certificate], UnixTime(1_000));
        assert_eq!(store.expected(Kind::Chain, &site, UnixTime(1_001), 3), [id]);
        let chain = store.object(Kind::Chain, &id).map(|chain| chain.parts);
        let digest = Digest::of(certificate);
        assert_eq!(chain.as_deref(), Some(&[digest][..]));
        assert_eq!(store.part(&digest), None);
        assert_eq!(store.part_by_prefix(&digest.prefix16()), None);
    }
}
