//! What all tasks of one daemon have in common: the engine with its store, the numbers, the clocks,
//! and whether it is over.
//!
//! Is not: anything of one connection.
//!
//! Invariants: the engine is locked for one call at a time, and never while anything is waited for;
//! a task that panicked leaves the others their engine.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tandem_daemon::places::{self, Places};
use tandem_daemon::service_manager::ServiceManager;
use tandem_engine::{Engine, Look, PeerId, Role, Wanted};
use tandem_key_socket::KeySocket;
use tandem_link::tunnel::Malformed;
use tandem_store::{Keeping, Limits, Store as _};
use tandem_store_sqlite::SqliteStore;
use tandem_tunnel::renewal::{self, Answered, Step};
use tandem_tunnel::{Clock, Handshakes, Input, Least, Prefer, Relay, SharedStore};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::authorities;
use crate::board::{Board, Facts, Open, Tally};
use crate::clock::{Clocks, wall};
use crate::config::{ClientCertificates, Renewals};
use crate::error::TunnelError;
use crate::line::Line;
use crate::transport::quic;

/// TCP connections at a time. Each has two descriptors' worth of buffers in the kernel, and a few
/// kilobytes here.
pub(crate) const MAX_RELAYS: u32 = 10_000;

/// Between two rounds of what is not urgent.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Round trip of a tunnel of which nothing is known (RFC 9002, section 6.2.2).
const UNMEASURED: Duration = Duration::from_millis(333);

/// How long the end of the process waits for connections to be reset.
const RELAYS_FAREWELL: Duration = Duration::from_secs(1);

/// How long the end of the process waits for what is not yet on disk.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a tunnel that is up waits for what other server sides know of its peer. On the network
/// of a Valkey server it takes a millisecond.
const RECALL_PATIENCE: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct Shared {
    engine: Mutex<Engine<SqliteStore>>,
    shared_store: Option<Arc<dyn SharedStore>>,
    handshakes: Handshakes,
    keys: Keys,
    pub(crate) board: Arc<Board>,
    pub(crate) clocks: Clocks,
    room: Arc<Semaphore>,
    is_over: watch::Sender<bool>,
}

/// What is done about keys of handshakes.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Where this side's endpoints hand them in, if anywhere.
    pub(crate) socket: Option<KeySocket>,
    /// When one that costs a round trip is worth it.
    pub(crate) prefer: Prefer,
    /// What is known of the link.
    pub(crate) line: Line,
}

impl Keys {
    /// Binds the socket with this path, if there is one.
    ///
    /// # Errors
    /// It cannot be bound.
    pub(crate) fn open(
        path: Option<&Path>,
        prefer: Prefer,
        line: Line,
    ) -> Result<Self, TunnelError> {
        let socket = path.map(KeySocket::bind).transpose();
        let socket =
            socket.map_err(|error| TunnelError::setting("handshake-keys", error.to_string()))?;
        Ok(Self {
            socket,
            prefer,
            line,
        })
    }
}

/// Where what is held lies.
pub(crate) struct Held<'a> {
    /// The store's directory.
    pub(crate) store: &'a Path,
    /// The authorities' file, if there is one.
    pub(crate) authorities: Option<&'a Path>,
    /// Whether what sites renew is asked after.
    pub(crate) renewals: Renewals,
    /// Whether clients' certificates are held, too.
    pub(crate) client_certificates: ClientCertificates,
    /// What this side shares with others at its end, if it does.
    pub(crate) shared: Option<Arc<dyn SharedStore>>,
}

/// A place for a TCP connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    // In this order: once all places are free, none is shown as taken.
    _shown: Open,
    _permit: OwnedSemaphorePermit,
    /// Of the share of its peer, where there is one.
    _of_peer: Option<places::Place<PeerId>>,
}

impl Shared {
    /// With what is held here, and handshakes in this form.
    ///
    /// # Errors
    /// The store's directory is none, or the authorities' file is of no use.
    pub(crate) fn open(
        role: Role,
        held: Held<'_>,
        handshakes: Handshakes,
        keys: Keys,
        facts: Facts,
    ) -> Result<Arc<Self>, TunnelError> {
        let given = held.authorities.map(authorities::read).transpose()?;
        let (store, warnings) = SqliteStore::open(held.store, Limits::default())
            .map_err(|error| TunnelError::setting("store", error.to_string()))?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let how = match held.client_certificates {
            ClientCertificates::Persistent => tandem_engine::ClientCertificates::Persistent,
            ClientCertificates::None => tandem_engine::ClientCertificates::None,
        };
        let mut engine = Engine::new(role, how, None, store).with_hello_templates();
        if let Some(given) = given {
            let (count, set) = (given.count(), given.id());
            tracing::info!(count, %set, "certificates of authorities");
            engine = engine.with_authorities(given);
        }
        engine = match held.renewals {
            Renewals::Ahead => engine.with_renewals(),
            Renewals::AtVisits => engine,
        };
        if let Some(shared) = &held.shared {
            shared
                .start()
                .map_err(TunnelError::system("the shared store's thread"))?;
            engine = engine.with_notes();
        }
        Ok(Arc::new(Self {
            engine: Mutex::new(engine),
            shared_store: held.shared,
            handshakes,
            keys,
            board: Board::new(facts),
            clocks: Clocks::new(),
            room: Arc::new(Semaphore::new(MAX_RELAYS as usize)),
            is_over: watch::Sender::new(false),
        }))
    }

    /// A place for one more TCP connection; `None` where there are too many.
    pub(crate) fn place(&self) -> Option<Place> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            self.board.count(Tally::RelaysRefused, 1);
            return None;
        };
        Some(Place {
            _shown: self.board.relay(),
            _permit: permit,
            _of_peer: None,
        })
    }

    /// The same, of this peer's share.
    pub(crate) fn place_of(&self, peer: PeerId, places: &Arc<Places<PeerId>>) -> Option<Place> {
        let Some(of_peer) = places.take(peer) else {
            self.board.count(Tally::RelaysRefused, 1);
            return None;
        };
        Some(Place {
            _of_peer: Some(of_peer),
            ..self.place()?
        })
    }

    /// A relay to which nothing has happened, as all of this daemon's are.
    pub(crate) fn relay(&self, relay: Relay) -> Relay {
        relay.with(self.handshakes)
    }

    /// How long a client side may take to say where a stream goes: as long as for a handshake.
    pub(crate) fn opening(&self) -> Duration {
        quic::expected(&self.keys.line).patience
    }

    /// One at the server side, whose target comes within this time.
    pub(crate) fn server_side_relay(&self, opening: Duration) -> Relay {
        let Keys { prefer, line, .. } = &self.keys;
        let relay = Relay::server_side(self.clocks.now() + opening);
        self.relay(match prefer.asked_at(line.rate, line.round_trip) {
            Some(least) => relay.asking_for_keys(least),
            None => relay,
        })
    }

    /// At what clients' keys are offered, if they are taken here; the round trip is what was
    /// measured, if it was.
    pub(crate) fn offers_keys_at(&self, measured: Option<Duration>) -> Option<Least> {
        let Keys {
            socket,
            prefer,
            line,
        } = &self.keys;
        socket.as_ref()?;
        let round_trip = line.round_trip.or(measured).unwrap_or(UNMEASURED);
        Some(prefer.offered_at(line.rate, round_trip))
    }

    /// Tells a relay what has happened.
    pub(crate) fn tell(&self, relay: &mut Relay, input: Input<'_>) {
        self.with_engine(|engine, clock| {
            // A server hands its key in before it writes: it counts before these bytes do.
            self.take_keys(engine, clock);
            relay.handle_input(input, engine, clock);
        });
    }

    /// The same of bytes that its endpoint has sent. Most are of connections whose handshakes are
    /// over, for which nobody waits for the engine.
    pub(crate) fn endpoint_sent(&self, relay: &mut Relay, bytes: Vec<u8>) {
        if let Err(bytes) = relay.pass_to_tunnel(bytes) {
            self.tell(relay, Input::Endpoint(&bytes));
        }
    }

    /// The same of bytes that came on its stream.
    pub(crate) fn tunnel_brought(&self, relay: &mut Relay, bytes: Vec<u8>) {
        if let Err(bytes) = relay.pass_to_endpoint(bytes) {
            self.tell(relay, Input::Tunnel(&bytes));
        }
    }

    /// Takes the keys that come, for ever.
    pub(crate) async fn keys(&self) -> Result<(), TunnelError> {
        let Some(keys) = &self.keys.socket else {
            return std::future::pending().await;
        };
        keys.each(|| self.with_engine(|engine, clock| self.take_keys(engine, clock)))
            .await
            .map_err(TunnelError::system("waiting for handshake keys"))
    }

    /// Takes keys that have come; whether these were all. The engine is locked meanwhile, so that
    /// nobody sees the socket empty and a key not yet there.
    fn take_keys(&self, engine: &mut Engine<SqliteStore>, clock: Clock) -> bool {
        let Some(keys) = &self.keys.socket else {
            return true;
        };
        let taken = keys.take();
        self.board
            .count(Tally::RecordKeysMalformed, taken.malformed);
        for key in taken.keys {
            engine.release_key(key, clock.now);
        }
        taken.is_all
    }

    /// Tells a relay that it is time.
    pub(crate) fn remind(&self, relay: &mut Relay) {
        self.with_engine(|engine, clock| {
            // It may be time to look for a key.
            self.take_keys(engine, clock);
            relay.handle_timeout(engine, clock);
        });
    }

    /// What other server sides know of this peer is known here, if that is to be had in time; if it
    /// comes later, then.
    pub(crate) async fn recall(self: &Arc<Self>, peer: PeerId) {
        let Some(store) = &self.shared_store else {
            return;
        };
        let (said, heard) = oneshot::channel();
        let then = move |notes| {
            // It fails only where the daemon ends.
            let _ = said.send(notes);
        };
        store.recall(peer, Box::new(then));
        let shared = Arc::clone(self);
        let taking = tokio::spawn(async move {
            if let Ok(notes) = heard.await {
                shared.take_notes(peer, &notes);
            }
        });
        if tokio::time::timeout(RECALL_PATIENCE, taking).await.is_err() {
            self.board.count(Tally::RecallsLate, 1);
        }
    }

    fn take_notes(&self, peer: PeerId, notes: &[Vec<u8>]) {
        let used = self.with_engine(|engine, clock| {
            let notes = notes.iter().map(Vec::as_slice);
            engine.recall(peer, notes, (clock.now, clock.wall))
        });
        self.board.count(Tally::NotesUsed, used);
    }

    /// Which sites to ask after, where the line has carried nothing for so long.
    pub(crate) fn renewals_due(&self, quiet: Duration) -> Vec<Wanted> {
        self.with_engine(|engine, clock| engine.renewals_due(quiet, (clock.now, clock.wall)))
    }

    /// Takes in what the other side has answered.
    pub(crate) fn renewed(&self, wanted: &Wanted, answer: &[u8]) -> Result<Answered, Malformed> {
        self.with_engine(|engine, _| renewal::take_answer(engine, wanted, answer))
    }

    /// Reads what the other side asks; the random value is for a hello.
    pub(crate) fn read_renewal(
        &self,
        question: &[u8],
        random: [u8; 32],
    ) -> Result<Step, Malformed> {
        self.with_engine(|engine, clock| {
            renewal::read_question(engine, question, (random, clock.wall))
        })
    }

    /// What to answer, where a site was looked at.
    pub(crate) fn renewal_answer(&self, look: &Look, seen: Option<Vec<u8>>) -> Vec<u8> {
        self.with_engine(|engine, clock| renewal::answer(engine, look, (seen, clock.wall)))
    }

    /// All tasks are to end.
    pub(crate) fn end(&self) {
        self.is_over.send_replace(true);
    }

    /// Is ready once [`Shared::end`] was called.
    pub(crate) async fn over(&self) {
        let mut is_over = self.is_over.subscribe();
        // It fails only where the sender is gone, and that is here.
        let _ = is_over.wait_for(|is_over| *is_over).await;
    }

    /// For whoever has to end in order: becomes true when all tasks are to end.
    pub(crate) fn watch_end(&self) -> watch::Receiver<bool> {
        self.is_over.subscribe()
    }

    /// Is ready once all TCP connections have ended, or after a while.
    pub(crate) async fn relays_ended(&self) {
        let all = self.room.acquire_many(MAX_RELAYS);
        let _ = tokio::time::timeout(RELAYS_FAREWELL, all).await;
    }

    /// Looks after the store and the service manager, for ever.
    pub(crate) async fn upkeep(&self, manager: &ServiceManager) {
        loop {
            tokio::time::sleep(UPKEEP_INTERVAL).await;
            manager.alive();
            self.with_engine(|engine, clock| self.look_after(engine, clock));
        }
    }

    /// The end: waits until what was learned is on disk, within bounds.
    pub(crate) fn close(&self) {
        self.flush_shared_store(FAREWELL);
        let is_synced = self.with_engine(|engine, _| engine.store().sync(FAREWELL));
        if !is_synced {
            tracing::info!("not all that was learned is on disk");
        }
    }

    /// What was learned is where other server sides find it, within this time if it can be.
    pub(crate) fn flush_shared_store(&self, within: Duration) {
        if let Some(store) = &self.shared_store {
            share(&**store, self.with_engine(|engine, _| engine.notes()));
            store.flush(within);
        }
    }

    /// What upkeep does in a round.
    #[cfg(test)]
    pub(crate) fn look(&self) {
        self.with_engine(|engine, clock| self.look_after(engine, clock));
    }

    /// How many peers are known.
    #[cfg(test)]
    pub(crate) fn peers(&self) -> u64 {
        self.with_engine(|engine, _| engine.known_peers())
    }

    fn look_after(&self, engine: &mut Engine<SqliteStore>, clock: Clock) {
        engine.expire_keys(clock.now);
        for event in engine.events() {
            self.board.event(event.name(), event.amount());
        }
        if let Some(store) = &self.shared_store {
            share(&**store, engine.notes());
            self.board.numbers(store.numbers());
            self.board.note("shared_store", store.state());
        }
        let known_peers = engine.known_peers();
        let (hellos, hello_bytes) = engine.hello_templates();
        let (tickets, ticket_bytes) = engine.session_tickets();
        let store = engine.store();
        store.maintain(clock.wall);
        for warning in store.take_warnings() {
            tracing::warn!("{warning}");
        }
        let health = store.health();
        let on_disk = match health.keeping {
            Keeping::Disk => 1,
            Keeping::Memory | Keeping::DiskFailing => 0,
        };
        self.board.numbers([
            ("known_peers", known_peers),
            ("hello_templates", hellos as u64),
            ("hello_template_bytes", hello_bytes as u64),
            ("session_tickets", tickets as u64),
            ("session_ticket_bytes", ticket_bytes as u64),
            ("store_parts", health.parts),
            ("store_objects", health.objects),
            ("store_bytes", health.bytes),
            ("store_unwritten_bytes", health.unwritten_bytes),
            ("store_evicted", health.evicted),
            ("store_disk_reads", health.disk_reads),
            ("store_disk_errors", health.disk_errors),
            ("store_on_disk", on_disk),
        ]);
    }

    fn with_engine<T>(&self, call: impl FnOnce(&mut Engine<SqliteStore>, Clock) -> T) -> T {
        // A call that panicked has left the store whole: it is written by one statement each.
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = Clock {
            now: self.clocks.now(),
            wall: wall(),
        };
        call(&mut engine, clock)
    }
}

fn share(store: &dyn SharedStore, notes: Vec<(PeerId, Vec<u8>)>) {
    for (peer, note) in notes {
        store.note(peer, note);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use tandem_record_key::{Direction, RecordKey, Suite};

    use super::*;

    fn server_side(store: &Path, keys: Option<KeySocket>) -> Arc<Shared> {
        let facts = Facts {
            role: "server-side",
            link: String::new(),
        };
        let role = Role::ServerSide;
        let keys = Keys {
            socket: keys,
            ..Keys::default()
        };
        let held = Held {
            store,
            authorities: None,
            renewals: Renewals::AtVisits,
            client_certificates: ClientCertificates::default(),
            shared: None,
        };
        let shared = Shared::open(role, held, Handshakes::Shortened, keys, facts);
        shared.expect("a store")
    }

    fn key() -> RecordKey {
        let suite = Suite::Aes128Gcm;
        let key = RecordKey::new(Direction::FromServer, suite, [1; 32], &[2; 12], &[3; 16]);
        key.expect("the suite's length")
    }

    #[test]
    fn a_key_is_known_before_what_its_server_wrote_after_it_is_looked_at() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("keys");
        let keys = KeySocket::bind(&path).expect("a socket");
        // Nobody waits for keys here: what a relay is told has to bring them in.
        let shared = server_side(&home.path().join("store"), Some(keys));
        let program = UnixDatagram::unbound().expect("a socket");
        let sent = program.send_to(&key().to_datagram(), &path);
        sent.expect("it is there");
        let mut relay = shared.relay(Relay::server_side(shared.clocks.now() + shared.opening()));
        shared.tell(&mut relay, Input::EndpointEnd);
        let released = shared.with_engine(|engine, _| {
            let mut events = engine.events();
            events.any(|event| event.name() == "record_keys_released" && event.amount() == 1)
        });
        assert!(released);
    }

    #[test]
    fn a_key_for_which_nothing_comes_goes_although_no_other_follows() {
        let store = tempfile::tempdir().expect("a directory");
        let shared = server_side(store.path(), None);
        shared.with_engine(|engine, clock| {
            engine.release_key(key(), clock.now);
            let later = Clock {
                now: clock.now + Duration::from_secs(10),
                ..clock
            };
            shared.look_after(engine, later);
            engine.expire_keys(later.now);
            assert_eq!(engine.events().count(), 0, "it was counted before");
        });
    }
}
