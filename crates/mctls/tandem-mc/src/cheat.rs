//! A middlebox that oversteps: it may read, and writes. For the demonstration and the tests.
//!
//! Is not: offered by the command line. Invariant: it has no key that an honest middlebox with its
//! rights has not.

use mctls::config::{Configuration, Context};
use mctls::hostile::Forgery;
use mctls::party::{Author, ContextId, Direction, Position};
use mctls::relay::Passing;
use mctls_io::{Consent, Service, Verdict};

use crate::layout::Layout;

/// Puts other words in place of a response's body, in the name of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cheat {
    bodies: Option<ContextId>,
}

impl Service for Cheat {
    fn joined(&mut self, _: Position, configuration: &Configuration) -> Consent {
        self.bodies = Layout::of(&configuration.terms).map(|layout| layout.response_body);
        Consent::Given
    }

    fn inspect(&mut self, _: Direction, _: &Context, _: &[u8]) -> Verdict {
        Verdict::Forward
    }

    fn overstep<'a>(&mut self, mut passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
        if passing.text().is_none() || Some(passing.context()) != self.bodies {
            return Some(passing);
        }
        let forgery = Forgery {
            context: passing.context(),
            seq: passing.seq(),
            author: Author::Endpoint,
            payload: b"what the server never said",
        };
        match passing.forge(forgery, out) {
            Ok(()) => None,
            // Without the key to read there is nothing that it could do.
            Err(_) => Some(passing),
        }
    }
}
