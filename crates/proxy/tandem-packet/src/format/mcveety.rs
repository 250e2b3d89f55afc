//! The thesis's format (McVeety 2009): its own messages in the handshake itself.
//!
//! Is not: harmless. It assumes that the other proxy is there, and knows nothing of what this
//! project has added.

use tandem_engine::thesis::{self, Announcement, Codes};
use tandem_store::Store;
use tandem_wire::TcpPacket;

use super::{Format, Outgoing};

#[derive(Clone, Copy)]
pub(super) struct Mcveety(pub(super) Codes);

impl Format for Mcveety {
    fn shows_itself(&self) -> bool {
        false
    }

    fn is_harmless(&self) -> bool {
        false
    }

    /// The second copy goes unaltered (section 2.2.4.1).
    fn tries(&self) -> u8 {
        0
    }

    /// Its messages carry no length of the whole: the reader takes each segment by itself.
    fn max_segments(&self) -> usize {
        1
    }

    fn options(&self, template: &TcpPacket<'_>) -> Option<Vec<u8>> {
        Some(template.options_bytes().to_vec())
    }

    fn write(&self, outgoing: Outgoing<'_>, _store: &mut impl Store) -> Option<Vec<u8>> {
        let Outgoing {
            ground,
            flight,
            confirmation,
            ..
        } = outgoing;
        ground.compress(flight, confirmation, self.0)
    }

    fn announced(&self, hello: &[u8]) -> Option<Announcement> {
        thesis::strip(hello, self.0)
    }

    fn codes(&self) -> Option<Codes> {
        Some(self.0)
    }
}
