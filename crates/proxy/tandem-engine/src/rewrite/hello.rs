//! The client's hello, written with references to the ticket and the earlier hellos that the far
//! side is believed to hold.
//!
//! Invariant: a wrong belief costs a miss, never a byte.

use std::ops::Range;

use tandem_delta::{Name, Planner, Reference};

use crate::objects::ticket::ShownTicket;
use crate::peer::Template;

/// What is believed to be held of a hello.
#[derive(Debug)]
pub(crate) struct KnownHello {
    /// The ticket that it shows, and the ticket's name.
    pub(crate) ticket: Option<(ShownTicket, Reference)>,
    /// The hellos that it is like, the likest first.
    pub(crate) templates: Vec<Template>,
    /// What of it may repeat.
    pub(crate) steady: Vec<Range<usize>>,
}

impl KnownHello {
    /// The plan of what the client has sent, its hello.
    pub(crate) fn plan<'t>(&self, stream: &'t [u8]) -> Planner<'t> {
        let ticket = self.ticket.as_ref();
        // A template that has the ticket too is named anyway.
        let ticket = ticket.filter(|(ticket, _)| {
            let ticket = ticket.bytes(stream);
            let mut templates = self.templates.iter();
            !templates.any(|template| contains(&template.bytes, &ticket))
        });
        let mut plan = match ticket {
            Some((ticket, name)) => ticket.plan_hello(stream, *name),
            None => Planner::new(stream),
        };
        let templates = self.templates.iter();
        plan.search(templates.map(|it| (Name::Number(it.number), it.bytes.clone())));
        self.steady
            .iter()
            .for_each(|range| plan.compress(range.clone()));
        plan
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len().max(1)).any(|window| window == part)
}
