//! The client's hello, written with references to the ticket and the earlier hellos that the far
//! side is believed to hold.
//!
//! Invariants: a wrong belief costs a miss, never a byte; where hellos are not remembered, nothing
//! but the ticket is written in another form.

use std::ops::Range;

use tandem_delta::{Name, Planner, Reference};

use crate::objects::ticket::ShownTicket;
use crate::peer::Template;

/// What is believed to be held of a hello.
#[derive(Debug)]
pub(crate) enum KnownHello {
    /// The ticket alone.
    Ticket(KnownTicket),
    /// Similar hellos, and perhaps the ticket.
    Similar {
        /// Those hellos, the most similar first. Without any, the hello is compressed alone.
        templates: Vec<Template>,
        /// Where the bytes of this hello lie that may repeat.
        steady: Vec<Range<usize>>,
        /// The ticket.
        ticket: Option<KnownTicket>,
    },
}

/// A ticket that is believed to be held.
#[derive(Debug)]
pub(crate) struct KnownTicket {
    /// Where it lies.
    pub(crate) ticket: ShownTicket,
    /// What it is called.
    pub(crate) name: Reference,
}

impl KnownHello {
    /// The plan of what the client has sent, its hello.
    pub(crate) fn plan<'t>(&self, stream: &'t [u8]) -> Planner<'t> {
        match self {
            Self::Ticket(known) => known.ticket.plan_hello(stream, known.name),
            Self::Similar {
                templates,
                steady,
                ticket,
            } => {
                let mut plan = match ticket {
                    Some(known) if !known.is_in_one_of(templates, stream) => {
                        known.ticket.plan_hello(stream, known.name)
                    }
                    Some(_) | None => Planner::new(stream),
                };
                let sources = templates.iter();
                plan.search(sources.map(|it| (Name::Number(it.number), it.bytes.clone())));
                steady.iter().for_each(|range| plan.compress(range.clone()));
                plan
            }
        }
    }
}

impl KnownTicket {
    /// Whether one of the templates has the ticket: then it can be copied from there, and needs no
    /// name of its own.
    fn is_in_one_of(&self, templates: &[Template], stream: &[u8]) -> bool {
        let ticket = self.ticket.bytes(stream);
        let mut hellos = templates.iter().map(|template| &template.bytes);
        hellos.any(|hello| hello.windows(ticket.len()).any(|part| part == &*ticket))
    }
}
