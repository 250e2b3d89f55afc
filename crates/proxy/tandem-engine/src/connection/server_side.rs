//! What a server-side proxy makes of a connection: what it confirms of a client's intention, what
//! it publishes of the clients' chains that it holds, what it learns.
//!
//! Invariants: nothing is said of what is not held; nothing is published but in a connection whose
//! server asks for a certificate, to a proxy that said which publication it goes by, once.

use std::time::Duration;

use tandem_delta::Reference;
use tandem_store::{Kind, Store};
use tandem_wire::Instant;

use super::{Connection, Moment, Said, Streams, Word};
use crate::engine::{ClientCertificates, Engine};
use crate::event::Event;
use crate::peer::filter::Filter;
use crate::peer::intention::HeldBits;
use crate::peer::{Asked, Crossed, Decision, Expected, Note, Peer};
use crate::rewrite::Ground;

impl Connection {
    /// The client's hello was rebuilt from a delta, in which this is the first number.
    pub fn hello_came_after(&mut self, number: Option<u32>) {
        self.after = number;
    }

    /// On what ground the server's flight is written, on a carrier where both sides number what the
    /// far side has told; to be asked once, when the flight's first bytes come.
    pub fn server_flight<S: Store>(&self, said: &Said, engine: &mut Engine<S>) -> Ground {
        let hints = match (said, self.after) {
            (Said::Hints(hints), _) => hints.as_slice(),
            (Said::Flight, None) => &[],
            (Said::Flight, Some(after)) => {
                match engine.peer().hellos.answer(after) {
                    Expected::Flight(flight) => return Ground::after(flight),
                    Expected::Sealed => {}
                    Expected::Unknown => engine.tell(Event::FlightNotRecalled),
                }
                &[]
            }
        };
        Ground::numbered(hints, engine.authorities.as_ref())
    }

    /// Which of the certificates that the client's hello names are held, in bits and by name; to be
    /// asked once, when the hello is complete.
    pub fn intention_held<S: Store>(
        &self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
    ) -> Option<(HeldBits, Vec<Reference>)> {
        let ClientCertificates::Cii { extension } = engine.client_certificates else {
            return None;
        };
        let intention = self.handshake.intention(streams.client, extension)?;
        let held = intention.held(&mut engine.store);
        if held == HeldBits(0) {
            engine.tell(Event::IntentionNotHeld);
            return None;
        }
        engine.tell(Event::IntentionHeld);
        Some((held, intention.among(held)))
    }

    /// Whether it is now that a publication is to be considered: once.
    pub fn is_to_publish<S: Store>(&mut self, engine: &Engine<S>) -> bool {
        if engine.filter_rate().is_none() || !self.asks_for_certificate() {
            return false;
        }
        let Word::GoesBy(asked) = self.word else {
            return false;
        };
        self.word = Word::Considered(asked);
        true
    }

    /// What to publish, in at most `room` bytes, where each publication costs `around` more; it
    /// takes `round_trip` until whoever is told says so.
    pub fn publication<S: Store>(
        &self,
        engine: &mut Engine<S>,
        (room, around): (usize, usize),
        (now, round_trip): (Instant, Duration),
    ) -> Option<Filter> {
        let (asked, rate) = (self.asked()?, engine.filter_rate()?);
        let (Peer { publisher, .. }, store) = engine.peer_and_store();
        match publisher.consider(asked, (room, around, rate), store, (now, round_trip)) {
            Decision::Nothing => None,
            Decision::TooExpensive => {
                engine.tell(Event::FilterHeldBack);
                None
            }
            Decision::Publish(filter) => Some(filter),
        }
    }

    fn asked(&self) -> Option<Asked> {
        match self.word {
            Word::GoesBy(asked) | Word::Considered(asked) => Some(asked),
            Word::Nothing | Word::Confirmed(_) | Word::Published => None,
        }
    }

    /// The client's chain is remembered.
    pub(super) fn learn_far_client<S: Store>(
        &self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        moment: Moment,
        (crossed, round_trip): (Crossed, Duration),
    ) {
        let Some(chain) = self.client_chain(streams) else {
            return;
        };
        let goes_by_filter = match engine.client_certificates {
            ClientCertificates::None => return,
            ClientCertificates::Persistent | ClientCertificates::Cii { .. } => false,
            ClientCertificates::Filter { .. } => true,
        };
        let (Peer { publisher, .. }, store) = engine.peer_and_store();
        let was_held = goes_by_filter && publisher.is_held(&chain.id(), store, moment.now);
        let is_new = !store.holds(Kind::Chain, &chain.id());
        let learned = self.learn_client(streams, store, moment.wall);
        if learned.is_none() {
            return;
        }
        if goes_by_filter {
            match self.asked() {
                Some(asked) if was_held => {
                    publisher.seen_again((&chain.id(), chain.length()), crossed, asked);
                }
                Some(_) | None if was_held => {}
                Some(_) | None => publisher.learned(&chain.id(), (moment.now, round_trip)),
            }
        }
        engine.tell(Event::ClientChainLearned);
        let flight = self.handshake.client_flight();
        if is_new && let Some(chain) = flight.and_then(|it| it.certificates(streams.client)) {
            engine.note(&Note::Chain(chain.iter().map(|der| &**der).collect()));
        }
    }
}
