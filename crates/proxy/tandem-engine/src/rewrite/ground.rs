//! Why a flight may be written shorter: what is known of what the far side holds of it.
//!
//! Is not: how that came to be known (`connection`, `peer`). Outside the engine nobody asks what
//! kind of object a ground is about.

use std::sync::Arc;

use tandem_delta::{Name, Planner, Reference};
use tandem_store::Store;

use super::server_flight::CROSSED_CLEAR;
use super::{KnownHello, plan_after, plan_client_flight, plan_flight, plan_numbered, thesis};
use crate::objects::Flight;
use crate::peer::{Authorities, Believed, Possession};

/// What is known of what the far side holds of one flight.
#[derive(Debug)]
pub struct Ground(Known);

#[derive(Debug)]
enum Known {
    /// The server's flight: what the client-side proxy said.
    Said(Possession),
    /// The same, on a carrier where both sides number what was said in this connection.
    Numbered(Possession),
    /// The server's flight: the client-side proxy holds this one before it.
    After(Arc<[u8]>),
    /// The client's flight after it, whose chain is still to be seen.
    ClientFlightUnseen,
    /// The client's flight: what of its chain is believed to be held.
    ClientFlight(Believed),
    /// The client's hello, in which a ticket has begun.
    HelloUnseen,
    /// The client's hello: what is believed to be held of it.
    Hello(KnownHello),
}

/// A flight that is to cross in another form.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Where its chain lies, if it has one.
    pub(crate) flight: Option<&'a Flight>,
    /// What its sender has sent, from its first byte on.
    pub(crate) stream: &'a [u8],
    /// Where in the stream the flight begins; it goes to the end.
    pub(crate) before: usize,
    /// How much of the stream's front the far side has by now.
    pub(crate) crossed: usize,
}

impl<'a> Outgoing<'a> {
    /// The flight itself.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        self.stream.get(self.before..)
    }
}

impl Ground {
    /// The server's flight: the far side has hinted at these.
    pub fn hinted(hints: &[[u8; 4]]) -> Self {
        Self(Known::Said(Possession::from_hints(hints)))
    }

    /// The same, where both sides number what was hinted at in this connection, and these
    /// authorities' certificates are held here.
    pub(crate) fn numbered(hints: &[[u8; 4]], held: Option<&Arc<Authorities>>) -> Self {
        let possession = Possession::from_hints(hints).with_authorities(held);
        Self(Known::Numbered(possession))
    }

    /// The server's flight: the far side holds this one before it.
    pub(crate) fn after(flight: Arc<[u8]>) -> Self {
        Self(Known::After(flight))
    }

    /// The server's flight: the far side has named these in the hello.
    pub fn announced(announcement: &thesis::Announcement) -> Self {
        let references = &announcement.references;
        Self(Known::Said(Possession::from_references(references)))
    }

    /// The client's flight, which has not come.
    pub(crate) fn client_flight_to_come() -> Self {
        Self(Known::ClientFlightUnseen)
    }

    pub(crate) fn client_flight(believed: Believed) -> Self {
        Self(Known::ClientFlight(believed))
    }

    /// The client's hello, which is to come whole before anything is made of it.
    pub fn hello_to_come() -> Self {
        Self(Known::HelloUnseen)
    }

    pub(crate) fn hello(known: KnownHello) -> Self {
        Self(Known::Hello(known))
    }

    /// Whether the flight is the client's flight, and it is still to be said what the far side
    /// holds of it.
    pub fn awaits_client_flight(&self) -> bool {
        match self.0 {
            Known::ClientFlightUnseen => true,
            Known::Said(_)
            | Known::Numbered(_)
            | Known::After(_)
            | Known::ClientFlight(_)
            | Known::HelloUnseen
            | Known::Hello(..) => false,
        }
    }

    /// Whether it is a server's flight that is written against the one before it.
    pub(crate) fn is_after_another(&self) -> bool {
        match self.0 {
            Known::After(_) => true,
            Known::Said(_)
            | Known::Numbered(_)
            | Known::ClientFlightUnseen
            | Known::ClientFlight(_)
            | Known::HelloUnseen
            | Known::Hello(..) => false,
        }
    }

    /// Whether all has passed that is to be written: the flight, or the hello.
    pub(crate) fn is_whole(&self, has_flight: bool, has_hello: bool) -> bool {
        match self.0 {
            Known::Said(_)
            | Known::Numbered(_)
            | Known::After(_)
            | Known::ClientFlightUnseen
            | Known::ClientFlight(_) => has_flight,
            Known::HelloUnseen | Known::Hello(..) => has_hello,
        }
    }

    /// The flight with references to what the far side holds; `None` where there is nothing to
    /// refer to.
    pub fn plan<'a>(&self, outgoing: Outgoing<'a>, store: &mut impl Store) -> Option<Planner<'a>> {
        let Outgoing {
            flight,
            stream,
            before,
            crossed,
        } = outgoing;
        let mut plan = match &self.0 {
            Known::Said(possession) => plan_flight(stream, flight?, possession, store),
            Known::Numbered(possession) => plan_numbered(stream, flight?, possession, store),
            Known::After(earlier) => plan_after(stream, flight?, Arc::clone(earlier)),
            Known::ClientFlight(believed) => {
                return plan_client_flight(stream, before, flight?, believed);
            }
            Known::Hello(known) if before == 0 => return Some(known.plan(stream)),
            Known::Hello(..) | Known::ClientFlightUnseen | Known::HelloUnseen => return None,
        };
        if crossed > 0 {
            let clear = 0..crossed;
            plan.copy(Name::Number(CROSSED_CLEAR), 0, [clear]);
        }
        Some(plan)
    }

    /// The same in the thesis's messages; of a server's flight, the hello says which of the
    /// client's certificates are held: `confirmation`.
    pub fn compress(
        &self,
        outgoing: Outgoing<'_>,
        confirmation: &[Reference],
        codes: thesis::Codes,
    ) -> Option<Vec<u8>> {
        let Outgoing {
            flight,
            stream,
            before,
            crossed: _,
        } = outgoing;
        match &self.0 {
            Known::Said(possession) => {
                let shorter = thesis::compress(stream, flight?, possession, codes)?;
                let confirmed = thesis::confirmation::add(&shorter, confirmation, codes);
                let length = stream.len().checked_sub(before)?;
                Some(confirmed.unwrap_or(shorter)).filter(|payload| payload.len() < length)
            }
            Known::ClientFlight(believed) => {
                let possession = believed.possession();
                thesis::compress_from(stream, before, flight?, &possession, codes)
            }
            // The thesis knows no message for a ticket, and no numbers.
            Known::Numbered(_)
            | Known::After(_)
            | Known::Hello(..)
            | Known::ClientFlightUnseen
            | Known::HelloUnseen => None,
        }
    }
}
