//! The formats in which proxies write what crosses the link: one trait, two implementations.
//!
//! Is not: when something is written, held, repeated or given up; that is the same in both
//! (`writer`, `inbound`). Outside these files nobody asks which format it is, only what it does:
//! a third is a file here, and an arm of [`ask`].

mod mcveety;
mod safe;

use tandem_delta::Reference;
use tandem_engine::Ground;
use tandem_engine::thesis::{Announcement, Codes};
use tandem_link::inband::frame::Sender;
use tandem_link::inband::{FlowId, Key, Version};
use tandem_store::Store;
use tandem_wire::{Seq, TcpPacket};

use crate::config::WireFormat;
use mcveety::Mcveety;
use safe::Safe;

/// A flight that is to cross in another form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    /// What the engine has to know of it.
    pub(crate) flight: tandem_engine::Outgoing<'a>,
    /// The sequence number of its first byte.
    pub(crate) from: Seq,
    pub(crate) ground: &'a Ground,
    pub(crate) key: &'a Key,
    /// The flow, the version that is spoken in it, and who sends the flight.
    pub(crate) whose: (FlowId, Version, Sender),
    /// The thesis's: what the server's hello is to say of the client's certificates.
    pub(crate) confirmation: &'a [Reference],
}

/// How proxies write what crosses the link, and what that allows.
pub(crate) trait Format {
    /// Whether the proxies show themselves to each other in each connection; else the far one is
    /// taken for granted.
    fn shows_itself(&self) -> bool;

    /// Whether an endpoint discards what nobody rebuilt. All that goes beyond the thesis rests on
    /// that: asking for originals, hellos in another form, publications, what is absorbed.
    fn is_harmless(&self) -> bool;

    /// How often a flight that was written is written again before its originals go.
    fn tries(&self) -> u8;

    /// In how many segments a flight may be written.
    fn max_segments(&self) -> usize;

    /// The options of those segments; `None` where the flight cannot be written.
    fn options(&self, template: &TcpPacket<'_>) -> Option<Vec<u8>>;

    /// What goes in place of a flight; `None` where nothing does.
    fn write(&self, outgoing: Outgoing<'_>, store: &mut impl Store) -> Option<Vec<u8>>;

    /// What a hello itself says of what the far side has stored.
    fn announced(&self, hello: &[u8]) -> Option<Announcement>;

    /// The numbers of its messages where these stand in the handshake itself; `None` where all is
    /// said in options and frames.
    fn codes(&self) -> Option<Codes>;
}

/// Asks the format that is configured.
macro_rules! ask {
    ($wire:expr, $format:ident => $question:expr) => {
        match $wire {
            WireFormat::Safe => {
                let $format = Safe;
                $question
            }
            WireFormat::Mcveety(codes) => {
                let $format = Mcveety(*codes);
                $question
            }
        }
    };
}

impl Format for WireFormat {
    fn shows_itself(&self) -> bool {
        ask!(self, format => format.shows_itself())
    }

    fn is_harmless(&self) -> bool {
        ask!(self, format => format.is_harmless())
    }

    fn tries(&self) -> u8 {
        ask!(self, format => format.tries())
    }

    fn max_segments(&self) -> usize {
        ask!(self, format => format.max_segments())
    }

    fn options(&self, template: &TcpPacket<'_>) -> Option<Vec<u8>> {
        ask!(self, format => format.options(template))
    }

    fn write(&self, outgoing: Outgoing<'_>, store: &mut impl Store) -> Option<Vec<u8>> {
        ask!(self, format => format.write(outgoing, store))
    }

    fn announced(&self, hello: &[u8]) -> Option<Announcement> {
        ask!(self, format => format.announced(hello))
    }

    fn codes(&self) -> Option<Codes> {
        ask!(self, format => format.codes())
    }
}
