//! One connection, as a data plane hands it over: read along, and asked what is to be made of what
//! its endpoints send.
//!
//! Is not: the streams themselves, which the data plane keeps ([`Streams`]); packets, or when
//! something is held, sent again or given up. Invariant: all that depends on the kind of an object
//! is decided below here; a data plane names none.

mod answered;
mod client_key;
mod client_side;
mod consent;
mod sealed;
mod sealed_client;
mod server_side;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tandem_delta::Reference;
use tandem_store::{ObjectId, Site, Store};
use tandem_wire::{Instant, UnixTime};

use crate::engine::Engine;
use crate::event::Event;
use crate::objects::{Flight, Sender};
use crate::peer::{Asked, Crossed, Note, Role, TICKET_LIFETIME};
use crate::rewrite::{Ground, Outgoing};
use crate::transcript::{Handshake, Pass, Stage};

pub use answered::AnswerWatch;
use answered::Answering;
use consent::Consent;
pub use consent::HandOver;
use sealed::Sealed;
pub use sealed::SealedFlight;

/// What both ends have sent so far, each from its first byte on and without gaps.
#[derive(Debug, Clone, Copy)]
pub struct Streams<'a> {
    /// The client.
    pub client: &'a [u8],
    /// The server.
    pub server: &'a [u8],
}

/// Where and when something happens.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The server's address: the site, where the client named none.
    pub server: SocketAddr,
    /// By the clock that only goes forward.
    pub now: Instant,
    /// By the calendar.
    pub wall: UnixTime,
}

/// What is to be made of a flight.
#[derive(Debug)]
pub enum Outlook {
    /// That is known once more of it has come.
    Open,
    /// Nothing.
    Nothing,
    /// It is written on this ground.
    Ground(Ground),
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    handshake: Handshake,
    word: Word,
    /// At the server side: the number of the hello that the client's was written against.
    after: Option<u32>,
    /// At the client side, where the carrier has numbers: what was said to be held.
    held: Held,
    sealed: Sealed,
    consent: Consent,
    /// At the client side: who answers whom, where the client may hand in keys.
    answering: Option<Answering>,
}

/// What the client-side proxy has told the far side that it holds of the server's flight to come.
#[derive(Debug, Default)]
struct Held {
    /// The flight before it.
    flight: Option<Arc<[u8]>>,
    /// The objects that were hinted at, in that order.
    hinted: Vec<ObjectId>,
    /// Whether these are the site's, rather than issuers of any site.
    is_of_site: bool,
}

/// What the client-side proxy tells beside a hello about what it holds, on a carrier where both
/// sides number these things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It holds the flight that answered an earlier hello: the one that this hello's delta names
    /// first, if it names any.
    Flight,
    /// It holds the objects whose names start so; there may be none.
    Hints(Vec<[u8; 4]>),
}

/// What the other proxy has said in this connection of the clients' chains that it holds, or goes
/// by.
#[derive(Debug)]
enum Word {
    /// Nothing.
    Nothing,
    /// The server-side one: it holds these certificates of the client's intention.
    Confirmed(Vec<Reference>),
    /// The server-side one has published all that it holds.
    Published,
    /// The client-side one: which publication it goes by. Whether to publish another was not
    /// considered yet in this connection.
    GoesBy(Asked),
    /// The same, and it was.
    Considered(Asked),
}

impl Connection {
    /// One of which nothing was read yet. A client-side proxy may have said, with the SYN, which
    /// publication it goes by.
    pub fn new(asked: Option<Asked>) -> Self {
        Self {
            handshake: Handshake::new(),
            word: asked.map_or(Word::Nothing, Word::GoesBy),
            after: None,
            held: Held::default(),
            sealed: Sealed::Unread,
            consent: Consent::None,
            answering: None,
        }
    }

    /// Reads along.
    pub fn read(&mut self, sender: Sender, stream: &[u8]) {
        match sender {
            Sender::Client => {
                self.handshake.client_sent(stream);
                self.sealed.client_sent(stream);
            }
            Sender::Server => self.handshake.server_sent(stream),
        }
    }

    /// How far the handshake is.
    pub fn stage(&self) -> Stage {
        let stage = self.sealed.stage();
        stage.unwrap_or_else(|| match self.handshake.stage() {
            Stage::Pass(Pass::Tls13) if self.consent.is_open() => Stage::Going,
            stage @ (Stage::Going | Stage::Finished | Stage::Pass(_)) => stage,
        })
    }

    /// Whether the whole ClientHello has passed.
    pub fn hello_is_complete(&self) -> bool {
        self.handshake.hello_is_complete()
    }

    /// Whether the server's flight has passed and asks the client for a certificate.
    pub fn asks_for_certificate(&self) -> bool {
        self.handshake.asks_for_certificate()
    }

    /// Whether all has passed of this end's that is to be written on this ground.
    pub fn is_whole(&self, ground: &Ground, sender: Sender) -> bool {
        ground.is_whole(self.flight(sender).is_some(), self.hello_is_complete())
    }

    /// What this end has sent, its stream from the byte after `before` on, as what is to cross in
    /// another form.
    pub fn outgoing<'a>(&'a self, sender: Sender, stream: &'a [u8], before: usize) -> Outgoing<'a> {
        match self.sealed_flight(sender, stream, before) {
            Some(sealed) => Outgoing {
                flight: Some(sealed.opened().flight()),
                stream: sealed.opened().bytes(),
                before: 0,
                crossed: sealed.crossed(),
            },
            None => Outgoing {
                flight: self.flight(sender),
                stream,
                before,
                crossed: 0,
            },
        }
    }

    /// The flight of this end, once all of it has passed: the server's first, or the client's
    /// flight after it where that shows a chain.
    fn flight(&self, sender: Sender) -> Option<&Flight> {
        match sender {
            Sender::Server => match self.sealed.opened() {
                Some(opened) => Some(opened.flight()),
                None => self.handshake.flight(),
            },
            Sender::Client => match self.opened_client_flight() {
                Some(flight) => Some(flight),
                None => self.handshake.client_flight(),
            },
        }
    }

    /// The server's first flight as later ones are written against it.
    fn flight_bytes<'a>(&'a self, server_stream: &'a [u8]) -> Option<&'a [u8]> {
        match self.sealed.opened() {
            Some(opened) => Some(opened.bytes()),
            None => self.handshake.flight_bytes(server_stream),
        }
    }

    /// The certificate list of the server's first flight.
    fn list<'a>(&'a self, server_stream: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self.sealed.opened() {
            Some(opened) => Some(opened.flight().list(opened.bytes())),
            None => Some(self.handshake.flight()?.list(server_stream)),
        }
    }

    /// Whom the client asked for: the name in its hello or, where it named nobody, the address that
    /// it connected to.
    pub fn site(&self, server: SocketAddr) -> Site {
        let name = self.handshake.server_name();
        name.map_or(Site::Address(server), |name| Site::Name(name.clone()))
    }

    /// Remembers the client's hello, so that the next one may be written against it. To be called
    /// at both sides when the server's first bytes have come: at the server side before they are
    /// sent over the link, at the client side when they arrive. Then the server side is never asked
    /// for a hello that it has not learned. Calling it again does no harm.
    ///
    /// Does nothing in an engine without [`Engine::with_hello_templates`], or before the hello is
    /// complete. `streams.client` still has to begin with the hello.
    pub fn hello_seen<S: Store>(&self, streams: Streams<'_>, engine: &mut Engine<S>) {
        if !engine.keeps_hellos {
            return;
        }
        if let Some(hello) = self.handshake.hello(streams.client)
            && engine.peer().hellos.learn(&hello)
        {
            engine.tell(Event::HelloLearned);
        }
    }

    /// Both Finished have passed: what each sent is what the other accepted, so that it is
    /// remembered. In TLS 1.3 the client's Finished is the last: of a client's chain that has
    /// crossed opened, nothing says that its server accepts it. `crossed` says how the client's
    /// flight came over the link, `round_trip` how long it takes until whoever has learned it too
    /// says so.
    pub fn finished<S: Store>(
        &self,
        streams: Streams<'_>,
        engine: &mut Engine<S>,
        moment: Moment,
        (crossed, round_trip): (Crossed, Duration),
    ) {
        self.gave_up(streams, engine, moment);
        if engine.keeps_hellos
            && let Some(hello) = self.handshake.hello(streams.client)
            && let Some(flight) = self.flight_bytes(streams.server)
            && engine.peer().hellos.answered(&hello, flight)
        {
            engine.tell(Event::FlightLearned);
            let hello = hello.bytes;
            engine.note(&Note::Answered { hello, flight });
        }
        let site = self.site(moment.server);
        let (store, wall) = (&mut engine.store, moment.wall);
        let learned = match self.sealed.opened() {
            Some(opened) => sealed::learn(opened, store, &site, wall),
            None => self.handshake.learn(streams.server, store, &site, wall),
        };
        if learned {
            engine.tell(Event::ChainLearned);
            if let Some(list) = self.list(streams.server) {
                engine.visited(&site, moment.server.port(), &list, wall);
            }
        }
        match engine.role {
            Role::ClientSide => self.learn_near_client(streams, engine, moment),
            Role::ServerSide => {
                self.learn_far_client(streams, engine, moment, (crossed, round_trip));
            }
        }
    }

    /// Nothing more is followed. Remembers the session tickets of a handshake that went as far as
    /// that goes: the one that the server gave and, where it took it and sent no certificate, the
    /// one that the client showed.
    ///
    /// An abbreviated handshake is followed no further than to the server's ChangeCipherSpec, and
    /// nothing vouches for its tickets but that a client shows them again. Nobody is told of them
    /// before that.
    pub fn gave_up<S: Store>(&self, streams: Streams<'_>, engine: &mut Engine<S>, moment: Moment) {
        self.note_answer(engine);
        // The thesis's format has no message for them.
        if engine.codes.is_some() {
            return;
        }
        if self.stage() == Stage::Pass(Pass::Tls13) {
            let server_random = Self::server_random(streams.server);
            self.key_may_come(streams, server_random, engine, moment.now);
        }
        if engine.keeps_hellos
            && self.stage() == Stage::Pass(Pass::Tls13)
            && let Some(hello) = self.handshake.hello(streams.client)
        {
            if engine.peer().hellos.is_new(&hello) {
                engine.note(&Note::Sealed { hello: hello.bytes });
            }
            engine.peer().hellos.sealed(&hello);
        }
        let taken = match self.stage() {
            Stage::Finished => None,
            Stage::Pass(Pass::Resumed) => self.handshake.shown_ticket(),
            Stage::Going | Stage::Pass(_) => return,
        };
        let given = self.handshake.given_ticket(streams.server);
        let taken = taken.map(|taken| (taken.bytes(streams.client), None));
        let given = given.map(|given| (given.bytes, given.lifetime));
        for (ticket, lifetime) in taken.into_iter().chain(given) {
            let site = self.site(moment.server);
            if engine
                .peer()
                .tickets
                .learn(&site, &ticket, lifetime, moment.now)
            {
                engine.tell(Event::TicketLearned);
                let lifetime = lifetime.unwrap_or(TICKET_LIFETIME).min(TICKET_LIFETIME);
                let until = UnixTime(moment.wall.0.saturating_add(lifetime.as_secs()));
                let ticket = &*ticket;
                engine.note(&Note::Ticket {
                    site,
                    ticket,
                    until,
                });
            }
        }
    }

    /// Bytes of memory in use, about; the streams are the caller's.
    pub fn footprint(&self) -> usize {
        let flight = self.held.flight.as_ref().map_or(0, |flight| flight.len());
        self.handshake.footprint()
            + self.sealed.footprint()
            + flight
            + self.held.hinted.len() * size_of::<ObjectId>()
    }
}

#[cfg(test)]
mod tests;
