//! What a client-side proxy makes of a connection: what it hints at, on what ground it writes the
//! client's hello and its flight after the server's, what it learns.
//!
//! Invariants: nothing is made of that flight but after a CertificateRequest; a hello whose ticket
//! is not referred to goes as if there were no tickets.

use tandem_delta::{Reference, Source};
use tandem_store::{Limits, ObjectId, Store};
use tandem_wire::Instant;

use super::{Connection, Held, Moment, Outlook, Said, Streams, Word};
use crate::engine::{ClientCertificates, Engine};
use crate::event::Event;
use crate::objects::ticket;
use crate::peer::filter::{Filter, Fingerprint};
use crate::peer::intention::HeldBits;
use crate::peer::{Believed, ClientChain, Expected, Hints, expected_chains};
use crate::rewrite::{FlightSource, Ground, KnownHello, KnownTicket, thesis};
use crate::transcript::{ClientCertificate, Stage};

/// Most chains whose certificates a CPI names. Each certificate makes the hello 16 bytes longer.
const ANNOUNCED_CHAINS: usize = 2;

/// The starts of these names.
fn prefixes(ids: &[ObjectId]) -> Vec<[u8; 4]> {
    ids.iter().map(|id| id.prefix4()).collect()
}

impl Connection {
    /// What to hint at beside the hello, at most so much, the likeliest first.
    pub fn hints<S: Store>(
        &self,
        engine: &mut Engine<S>,
        moment: Moment,
        limit: usize,
    ) -> Vec<[u8; 4]> {
        prefixes(self.hinted(engine, moment, limit).ids())
    }

    fn hinted<S: Store>(&self, engine: &mut Engine<S>, moment: Moment, limit: usize) -> Hints {
        let site = self.site(moment.server);
        match Hints::to(&mut engine.store, &site, moment.wall, limit) {
            hints @ Hints::OfSite(_) => hints,
            Hints::Issuers(issuers) => {
                engine.tell(Event::NothingHeld);
                let authorities = engine.authorities.as_ref().map(|held| held.id());
                let ids = authorities.into_iter().chain(issuers).take(limit);
                Hints::Issuers(ids.collect())
            }
        }
    }

    /// What to tell beside the hello, on a carrier where both sides number it: once for each hello,
    /// and again, without `after`, where its delta was missed. `after` is the number of the hello
    /// that the delta names first. Where that one was answered in TLS 1.3, issuers are not hinted
    /// at: the next answer will be encrypted, too.
    pub fn say<S: Store>(
        &mut self,
        after: Option<u32>,
        engine: &mut Engine<S>,
        moment: Moment,
        limit: usize,
    ) -> Said {
        let site = self.handshake.server_name();
        let hellos = &engine.peer().hellos;
        let expected = after.map_or(Expected::Unknown, |after| hellos.answer_of(after, site));
        self.held = Held::default();
        if let Expected::Flight(flight) = expected {
            self.held.flight = Some(flight);
            return Said::Flight;
        }
        match (self.hinted(engine, moment, limit), expected) {
            (Hints::Issuers(_), Expected::Sealed) => return Said::Flight,
            (Hints::OfSite(ids), _) => {
                self.held.hinted = ids;
                self.held.is_of_site = true;
            }
            (Hints::Issuers(ids), _) => self.held.hinted = ids,
        }
        Said::Hints(prefixes(&self.held.hinted))
    }

    /// Whether it was said that an earlier flight is held.
    pub fn has_recalled(&self) -> bool {
        self.held.flight.is_some()
    }

    /// Where the delta of a server's flight takes its copies from: what was told with
    /// [`Connection::say`], and the store.
    pub fn source<'a, S: Store>(&'a self, engine: &'a mut Engine<S>) -> impl Source {
        FlightSource {
            store: &mut engine.store,
            earlier: self.held.flight.as_ref(),
            hinted: &self.held.hinted,
            crossed: self.crossed_clear(),
            authorities: engine.authorities.as_deref(),
        }
    }

    /// The thesis's: the hello with references to all certificates that are expected.
    pub fn announce<S: Store>(
        &self,
        hello: &[u8],
        engine: &mut Engine<S>,
        moment: Moment,
    ) -> Option<Vec<u8>> {
        let site = self.site(moment.server);
        let chains = expected_chains(&mut engine.store, &site, moment.wall, ANNOUNCED_CHAINS);
        if chains.is_empty() {
            engine.tell(Event::NothingHeld);
            return None;
        }
        thesis::announce(hello, &chains, &mut engine.store, engine.codes?)
    }

    /// What is to be made of the hello, as far as it has come; of one longer than `limit`, nothing.
    /// To be asked once for each hello that is complete.
    ///
    /// With [`Engine::with_hello_templates`], a hello that is not complete is [`Outlook::Open`],
    /// and one that is complete has a ground; its plan may still yield no delta. Such a delta needs
    /// an encoding that has numbers: [`tandem_delta::Encoding::Three`].
    pub fn hello<S: Store>(
        &self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        (limit, now): (usize, Instant),
    ) -> Outlook {
        let hello = streams.client;
        if !self.hello_is_complete() {
            let may_come = match engine.keeps_hellos {
                true => self.stage() == Stage::Going,
                false => ticket::begins(hello),
            };
            return match may_come {
                true => Outlook::Open,
                false => Outlook::Nothing,
            };
        }
        if hello.len() > limit {
            return Outlook::Nothing;
        }
        let shown = self.handshake.shown_ticket();
        let shown = shown.map(|ticket| KnownTicket {
            name: ticket::name_of(&ticket.bytes(hello)),
            ticket: ticket.clone(),
        });
        let ticket = shown.filter(|it| engine.peer().tickets.may_refer_to(&it.name, now));
        let read = self.handshake.hello(hello).filter(|_| engine.keeps_hellos);
        let known = match (read, ticket) {
            (None, None) => return Outlook::Nothing,
            (None, Some(ticket)) => KnownHello::Ticket(ticket),
            // A hello that is like no other may still be compressed.
            (Some(read), ticket) => {
                let peer = engine.peer();
                let templates = peer.hellos.similar_to(&read);
                peer.has_referred |= ticket.is_some() || !templates.is_empty();
                KnownHello::Similar {
                    templates,
                    steady: read.steady,
                    ticket,
                }
            }
        };
        Outlook::Ground(Ground::hello(known))
    }

    /// Before the client sends more: whether that may be a flight of which something can be made.
    pub fn client_flight_to_come<S: Store>(&self, engine: &mut Engine<S>) -> Option<Ground> {
        let is_wanted = match engine.client_certificates {
            ClientCertificates::None => false,
            ClientCertificates::Persistent => true,
            ClientCertificates::Cii { .. } => match &self.word {
                Word::Confirmed(held) => !held.is_empty(),
                Word::Nothing | Word::Published | Word::GoesBy(_) | Word::Considered(_) => false,
            },
            ClientCertificates::Filter { .. } => engine.peer().far.holds_any(),
        };
        let is_to_come = *self.handshake.client_certificate() == ClientCertificate::NotYet;
        let may_come = is_wanted && self.asks_for_certificate() && is_to_come;
        may_come.then(Ground::client_flight_to_come)
    }

    /// What is to be made of the client's flight, as far as it has come.
    pub fn client_flight<S: Store>(&self, streams: Streams<'_>, engine: &mut Engine<S>) -> Outlook {
        if let Some(outlook) = self.sealed_client_flight_outlook(engine) {
            return outlook;
        }
        let chain = match self.handshake.client_certificate() {
            ClientCertificate::NotYet => return Outlook::Open,
            ClientCertificate::None => return Outlook::Nothing,
            ClientCertificate::Chain(flight) => ClientChain::of(flight, streams.client),
        };
        let chain = chain.filter(|chain| !engine.peer().far.is_lacking(&chain.id()));
        match chain.map(|chain| self.believed(&chain, engine)) {
            Some(believed) if !believed.is_nothing() => {
                Outlook::Ground(Ground::client_flight(believed))
            }
            Some(_) | None => Outlook::Nothing,
        }
    }

    fn believed<S: Store>(&self, chain: &ClientChain, engine: &mut Engine<S>) -> Believed {
        let how = engine.client_certificates;
        match how {
            ClientCertificates::None => Believed::default(),
            ClientCertificates::Persistent => chain.remembered(&mut engine.store),
            ClientCertificates::Cii { .. } => match &self.word {
                Word::Confirmed(held) => chain.among(|reference| held.contains(reference)),
                Word::Nothing | Word::Published | Word::GoesBy(_) | Word::Considered(_) => {
                    Believed::default()
                }
            },
            ClientCertificates::Filter { .. } if engine.peer().far.holds(&chain.id()) => {
                chain.whole()
            }
            ClientCertificates::Filter { .. } => Believed::default(),
        }
    }

    /// What the client sent was not rebuilt.
    pub fn client_was_missed<S: Store>(&self, streams: Streams<'_>, engine: &mut Engine<S>) {
        if let Some(chain) = self.client_chain(streams) {
            engine.peer().far.lacks(chain.id());
        }
    }

    /// The chain that the client has shown.
    pub(super) fn client_chain(&self, streams: Streams<'_>) -> Option<ClientChain> {
        if let Some(shown) = self.crossed_client_flight() {
            return ClientChain::of(shown.flight, shown.bytes);
        }
        match self.handshake.client_certificate() {
            ClientCertificate::Chain(flight) => ClientChain::of(flight, streams.client),
            ClientCertificate::NotYet | ClientCertificate::None => None,
        }
    }

    /// The far side publishes what it holds. One that was held up in the link may be older than
    /// what is known since; a connection has one at most.
    pub fn published<S: Store>(&mut self, filter: Filter, engine: &mut Engine<S>) {
        let fingerprint = Fingerprint(filter.salt());
        let earlier = std::mem::replace(&mut self.word, Word::Published);
        if !matches!(earlier, Word::Published) && fingerprint != engine.peer().far.fingerprint() {
            engine.peer().far.publishes(fingerprint, filter);
            engine.tell(Event::FilterReceived);
        }
    }

    /// The far side says which of the certificates that the client's hello names it holds.
    pub fn confirmed<S: Store>(
        &mut self,
        held: HeldBits,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
    ) {
        let ClientCertificates::Cii { extension } = engine.client_certificates else {
            return;
        };
        if let Some(intention) = self.handshake.intention(streams.client, extension) {
            self.confirmed_by_name(intention.among(held), engine);
        }
    }

    /// The same by the certificates themselves; what is said again is no news.
    pub fn confirmed_by_name<S: Store>(&mut self, held: Vec<Reference>, engine: &mut Engine<S>) {
        if matches!(self.word, Word::Nothing) && !held.is_empty() {
            self.word = Word::Confirmed(held);
            engine.tell(Event::IntentionConfirmed);
        }
    }

    /// The client's chain is remembered, here or as what the far side has just learned.
    pub(super) fn learn_near_client<S: Store>(
        &self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        moment: Moment,
    ) {
        let learned = match engine.client_certificates {
            ClientCertificates::None => None,
            ClientCertificates::Persistent | ClientCertificates::Cii { .. } => {
                let store = &mut engine.store;
                let learned = self.learn_client(streams, store, moment.wall);
                learned.inspect(|chain| engine.peer().far.learned(chain))
            }
            ClientCertificates::Filter { .. } => {
                // What is beyond the bounds is held nowhere.
                let bound = Limits::default().object_bytes;
                let chain = self.client_chain(streams);
                let chain = chain.filter(|chain| chain.length() <= bound);
                chain.map(|chain| {
                    engine.peer().far.notes(chain.id());
                    chain.id()
                })
            }
        };
        if learned.is_some() {
            engine.tell(Event::ClientChainLearned);
        }
    }
}
