//! What a proxy holds, and knows of the other, from connection to connection.
//!
//! Is not: what one connection has shown (`connection`). Invariant: what is said of objects to the
//! outside is said in [`Event`]s, which wait until they are taken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tandem_delta::Source;
use tandem_record_key::{Direction, RecordKey};
use tandem_store::{Kind, ObjectId, Site, Store};
use tandem_wire::{Instant, UnixTime};

use crate::event::{Event, UnusedKey};
use crate::objects::hello::Hello;
use crate::peer::filter::{Fingerprint, Rate};
use crate::peer::{Authorities, Epoch, Note, Peer, PeerId, Peers, Role, SessionTickets};
use crate::renewal::Watch;
use crate::rewrite::thesis::Codes;
use crate::rewrite::{Ground, LocalSource};
use crate::sealed::{Answers, KeyClient, LateKeys, ReleasedKeys, Sought};
use crate::transcript::Handshake;

/// Most notes that wait to be taken: what some hundred handshakes a second make.
const MAX_NOTES: usize = 1_024;

/// How the client-side proxy comes to know what of a client's chain the server-side one holds
/// (McVeety 2009, section 2.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// It does not ask: a client's flight is never touched nor opened, and its chain is remembered
    /// neither here nor in a note.
    None,
    /// It remembers: what a finished handshake has shown to both is held by both, until a miss
    /// tells otherwise.
    #[default]
    Persistent,
    /// The client names its chain in its hello, and the server-side proxy confirms which of it is
    /// held.
    Cii {
        /// Number of the hello's extension. Default [`crate::intention::EXTENSION`].
        extension: u16,
    },
    /// The server-side proxy publishes a filter of what it holds; the client-side one keeps no
    /// client's chain itself. Not in the thesis's format, which has no place for it.
    Filter {
        /// How many chains pass for held though they are not. Default [`Rate::DEFAULT`].
        rate: Rate,
    },
}

/// What a proxy holds, and knows of the other.
#[derive(Debug)]
pub struct Engine<S> {
    pub(crate) role: Role,
    pub(crate) client_certificates: ClientCertificates,
    /// The numbers of the thesis's messages, where these are what the proxies say to each other.
    pub(crate) codes: Option<Codes>,
    pub(crate) store: S,
    /// Whether hellos are remembered, and written against earlier ones.
    pub(crate) keeps_hellos: bool,
    /// What it has been given, and refers to where the other has been given the same.
    pub(crate) authorities: Option<Arc<Authorities>>,
    /// At the client side: which sites' chains to ask after, where that is wanted.
    pub(crate) renewals: Option<Watch>,
    /// Keys of sealed handshakes, until their flights come.
    pub(crate) keys: ReleasedKeys,
    /// At the server side: servers whose keys come later than that.
    pub(crate) late: LateKeys<SocketAddr>,
    /// At the client side: clients that hand in keys.
    pub(crate) clients: LateKeys<KeyClient>,
    /// At the client side: which clients answer which sites with a certificate.
    pub(crate) answers: Answers,
    peers: Peers,
    /// Which of them the next calls are about.
    facing: PeerId,
    /// What is remembered of peers since it was last taken, where somebody takes it.
    notes: Option<Vec<(PeerId, Vec<u8>)>>,
    events: Vec<Event>,
}

impl<S: Store> Engine<S> {
    /// A proxy at this end of the link that knows nothing of the other yet. `codes` are those of
    /// the thesis's format, where that is spoken.
    pub fn new(
        role: Role,
        client_certificates: ClientCertificates,
        codes: Option<Codes>,
        store: S,
    ) -> Self {
        Self {
            role,
            client_certificates,
            codes,
            store,
            keeps_hellos: false,
            authorities: None,
            renewals: None,
            keys: ReleasedKeys::default(),
            late: LateKeys::default(),
            clients: LateKeys::default(),
            answers: Answers::default(),
            peers: Peers::new(role),
            facing: PeerId::OTHER_END,
            notes: None,
            events: Vec::new(),
        }
    }

    /// The same engine, which also remembers hellos and writes a hello against earlier ones. For a
    /// data plane that can hold every hello until it is complete, checks what it rebuilds, and
    /// tells the engines of both sides what both have seen ([`crate::Connection::hello_seen`]).
    #[must_use]
    pub fn with_hello_templates(mut self) -> Self {
        self.keeps_hellos = true;
        self
    }

    /// The same engine, which holds these from the start. At a site of which the client side holds
    /// nothing it says so, and the server side refers to them if it has been given the same. For a
    /// data plane on which both sides number what is hinted at ([`crate::Connection::say`]).
    #[must_use]
    pub fn with_authorities(mut self, authorities: Authorities) -> Self {
        self.authorities = Some(Arc::new(authorities));
        self
    }

    /// The same engine, which also makes notes of what it remembers of each peer, for other proxies
    /// at its end ([`Engine::notes`], [`Engine::recall`]).
    #[must_use]
    pub fn with_notes(mut self) -> Self {
        self.notes = Some(Vec::new());
        self
    }

    /// The notes that were made since this was last asked; of too many, the first.
    pub fn notes(&mut self) -> Vec<(PeerId, Vec<u8>)> {
        self.notes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes in notes of this peer that another proxy at this end has made, or anybody: what is in
    /// them is remembered as if it had been seen here, the first note first. The rest is left.
    /// Returns how many were of use.
    pub fn recall<'n>(
        &mut self,
        peer: PeerId,
        notes: impl IntoIterator<Item = &'n [u8]>,
        (now, wall): (Instant, UnixTime),
    ) -> usize {
        self.face(peer);
        let read = notes.into_iter().filter_map(Note::read);
        read.filter(|note| self.recall_one(note, (now, wall)))
            .count()
    }

    fn recall_one(&mut self, note: &Note<'_>, (now, wall): (Instant, UnixTime)) -> bool {
        match note {
            Note::Answered { hello, flight } => read_hello(hello, |hello| {
                let hellos = &mut self.peer().hellos;
                hellos.is_new(hello) && {
                    hellos.learn(hello);
                    hellos.answered(hello, flight)
                }
            }),
            Note::Sealed { hello } => read_hello(hello, |hello| {
                let hellos = &mut self.peer().hellos;
                hellos.is_new(hello) && {
                    hellos.learn(hello);
                    hellos.sealed(hello);
                    !hellos.is_new(hello)
                }
            }),
            Note::Ticket {
                site,
                ticket,
                until,
            } => {
                let left = until.0.saturating_sub(wall.0);
                let left = Duration::from_secs(left);
                !left.is_zero() && self.peer().tickets.learn(site, ticket, Some(left), now)
            }
            Note::Chain(chain) => match self.client_certificates {
                // Others at this end may keep them.
                ClientCertificates::None => false,
                ClientCertificates::Persistent
                | ClientCertificates::Cii { .. }
                | ClientCertificates::Filter { .. } => {
                    let id = self.store.learn(Kind::Chain, None, chain, wall);
                    self.store.holds(Kind::Chain, &id)
                }
            },
        }
    }

    /// Makes a note of the peer that it is about, where somebody takes them.
    pub(crate) fn note(&mut self, note: &Note<'_>) {
        let peer = self.facing;
        if let Some(notes) = self.notes.as_mut().filter(|notes| notes.len() < MAX_NOTES)
            && let Some(bytes) = note.write()
        {
            notes.push((peer, bytes));
        }
    }

    /// What is held here.
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// What a delta that arrives takes its copies from.
    pub fn source(&mut self, now: Instant) -> impl Source {
        let (peer, store) = self.peer_and_store();
        LocalSource::new(peer, store, now)
    }

    /// What has happened since this was last asked.
    pub fn events(&mut self) -> impl Iterator<Item = Event> {
        self.events.drain(..)
    }

    /// From now on it is about this peer. Without this call there is one, [`PeerId::OTHER_END`]: in
    /// packet mode no proxy says which it is.
    pub fn face(&mut self, peer: PeerId) {
        self.facing = peer;
    }

    /// What is known of the proxy that it is about.
    pub(crate) fn peer(&mut self) -> &mut Peer {
        self.peers.get(self.facing, Epoch::UNANNOUNCED)
    }

    /// The same, beside what is held here.
    pub(crate) fn peer_and_store(&mut self) -> (&mut Peer, &mut S) {
        let peer = self.peers.get(self.facing, Epoch::UNANNOUNCED);
        (peer, &mut self.store)
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    /// The fingerprint of what is known of the other proxy's holdings, where this one goes by what
    /// is published.
    pub fn goes_by(&mut self) -> Option<Fingerprint> {
        self.filter_rate().map(|_| self.peer().far.fingerprint())
    }

    /// The rate of what is published; `None` where nothing is.
    pub(crate) fn filter_rate(&self) -> Option<Rate> {
        match self.client_certificates {
            ClientCertificates::Filter { rate } if self.codes.is_none() => Some(rate),
            ClientCertificates::Filter { .. }
            | ClientCertificates::None
            | ClientCertificates::Persistent
            | ClientCertificates::Cii { .. } => None,
        }
    }

    /// A hello crosses in another form. To be called once for each that does.
    pub fn hello_written(&mut self) {
        self.tell(match self.keeps_hellos {
            true => Event::HelloShortened,
            false => Event::TicketReferred,
        });
    }

    /// A flight crosses in another form, on this ground. To be called once for each that does.
    pub fn flight_written(&mut self, ground: &Ground) {
        if ground.is_after_another() {
            self.tell(Event::FlightRecalled);
        }
    }

    /// The far side has rebuilt such a hello.
    pub fn hello_rebuilt(&mut self) {
        let keeps_hellos = self.keeps_hellos;
        let peer = self.peer();
        if peer.has_referred || !keeps_hellos {
            peer.tickets.rebuilt();
            peer.hellos.rebuilt();
        }
    }

    /// The far side has not rebuilt such a hello. It does not say what it lacks, so everything is
    /// forgotten that hellos may refer to. Where several are under way when it restarts, that
    /// counts as one miss.
    pub fn hello_missed(&mut self) {
        if !self.keeps_hellos {
            self.peer().tickets.missed();
            return self.tell(Event::TicketMissed);
        }
        self.tell(Event::HelloMissed);
        let peer = self.peer();
        if std::mem::take(&mut peer.has_referred) {
            peer.tickets.missed();
            peer.hellos.missed();
        }
    }

    /// A server's flight could not be rebuilt here, though it was written against what this side
    /// had said that it holds.
    pub fn server_flight_not_rebuilt(&mut self) {
        self.peer().hellos.flight_missed();
    }

    /// A client's flight could not be rebuilt here: the store may have let go of more.
    pub fn client_flight_not_rebuilt(&mut self, now: Instant) {
        self.peer().publisher.doubt(now);
    }

    /// An endpoint of this side has released the key of a server's flight: at the server side a
    /// server, at the client side a client, which may release its own, too. To be called before
    /// the bytes of that connection are handed in that the endpoint wrote afterwards: a server's
    /// key that comes later than ServerHello is of no use, unless it was waited for, as it is where
    /// the server's keys have come late before. A client's key of the server's flight always comes
    /// later, and is of no use if it does not name the server's random. That of the client's
    /// direction is there when the client's flight begins, or of no use.
    pub fn release_key(&mut self, key: RecordKey, now: Instant) {
        self.tell(Event::KeyReleased);
        let otherwise = match (key.direction(), self.role) {
            (Direction::FromServer, Role::ServerSide) => {
                self.late
                    .key_comes(key.client_random(), key.server_random(), now)
            }
            (Direction::FromServer, Role::ClientSide) if key.server_random().is_none() => {
                return self.tell_unused(vec![UnusedKey::Unbound]);
            }
            (Direction::FromServer, Role::ClientSide) => {
                self.clients
                    .key_comes(key.client_random(), key.server_random(), now)
            }
            (Direction::FromClient, Role::ClientSide) => UnusedKey::Direction,
            // The client's key is the client's to release.
            (Direction::FromClient, Role::ServerSide) => {
                return self.tell_unused(vec![UnusedKey::Direction]);
            }
        };
        let unused = self.keys.put(key, otherwise, now);
        self.tell_unused(unused);
    }

    /// Lets go of keys whose flights have not come. To be called from time to time: otherwise the
    /// last keys stay until another one comes.
    pub fn expire_keys(&mut self, now: Instant) {
        let unused = self.keys.expire(now);
        self.tell_unused(unused);
    }

    /// Lets go of keys that turn out to be of no use.
    pub(crate) fn drop_keys(&mut self, sought: &Sought) {
        let unused = self.keys.drop_beside(sought);
        self.tell_unused(unused);
    }

    /// Bytes that asking this client for a key is worth at its answer to this site.
    pub(crate) fn worth_of_answer(&self, client: KeyClient, site: &Site) -> usize {
        match self.client_certificates {
            ClientCertificates::Persistent => self.answers.worth(client, site),
            // No answer is opened.
            ClientCertificates::None
            | ClientCertificates::Cii { .. }
            | ClientCertificates::Filter { .. } => 0,
        }
    }

    /// A client's flight with this chain was not rebuilt at the far side, as it says.
    pub fn client_chain_lacking(&mut self, chain: ObjectId) {
        self.peer().far.lacks(chain);
    }

    fn tell_unused(&mut self, keys: Vec<UnusedKey>) {
        self.events.extend(keys.into_iter().map(Event::KeyUnused));
    }

    /// What was to be published has gone, in a packet of so many bytes.
    pub fn published(&mut self, bytes: usize) {
        self.tell(Event::FilterPublished(bytes as u64));
    }

    /// How many session tickets are remembered, and about how many bytes they take.
    pub fn session_tickets(&self) -> (usize, usize) {
        self.peers.session_tickets()
    }

    /// Remembers a session ticket as if it had been given at `now`: for trying out what becomes of
    /// it.
    #[doc(hidden)]
    pub fn remember_ticket(&mut self, site: &Site, ticket: &[u8], now: Instant) {
        self.peer().tickets.learn(site, ticket, None, now);
    }

    /// Of how many peers something is remembered.
    pub fn known_peers(&self) -> u64 {
        self.peers.count()
    }

    /// How many hellos are remembered, and about how many bytes they take.
    pub fn hello_templates(&self) -> (usize, usize) {
        self.peers.hello_templates()
    }

    /// Forgets all session tickets, as a restart does.
    #[doc(hidden)]
    pub fn forget_tickets(&mut self) {
        self.peer().tickets = SessionTickets::new(self.role);
    }
}

/// What is made of a hello that is alone in these bytes; `false` where none is.
fn read_hello(bytes: &[u8], made: impl FnOnce(&Hello<'_>) -> bool) -> bool {
    let mut handshake = Handshake::new();
    handshake.client_sent(bytes);
    let read = handshake.hello(bytes);
    read.is_some_and(|hello| hello.bytes.len() == bytes.len() && made(&hello))
}
