//! The comment that a packet gets in a capture: which way it goes, what it carries, and what the
//! proxies say in it.
//!
//! Is not: the narration, which follows a connection (`describe.rs`); what is told here of a packet
//! is in the packet.

use tandem_engine::thesis::{self, Codes};
use tandem_netsim::link::Direction;
use tandem_wire::{TcpOption, TcpPacket};

/// The comment on a packet, `words` being the narrator's.
pub(crate) fn comment(direction: Direction, words: &str, packet: &[u8]) -> String {
    let way = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    let mut comment = format!("{way}: {words}");
    for said in proxies(packet) {
        comment.push_str("\nTandem, ");
        comment.push_str(&said);
    }
    comment
}

/// What the proxies say in a packet.
fn proxies(packet: &[u8]) -> Vec<String> {
    let Ok(packet) = TcpPacket::parse(packet) else {
        return Vec::new();
    };
    let mut said: Vec<String> = packet
        .options()
        .filter_map(|option| match option {
            TcpOption::Experiment { id, data, .. }
                if id == tandem_link::inband::option::EXPERIMENT_ID =>
            {
                tandem_link::inband::describe::option(data)
            }
            TcpOption::Experiment { .. }
            | TcpOption::Nop
            | TcpOption::EndOfList
            | TcpOption::MaximumSegmentSize(_)
            | TcpOption::WindowScale(_)
            | TcpOption::SackPermitted
            | TcpOption::Sack(_)
            | TcpOption::Timestamps(_)
            | TcpOption::Md5(_)
            | TcpOption::Authentication(_)
            | TcpOption::Multipath(_)
            | TcpOption::FastOpen(_)
            | TcpOption::Other { .. } => None,
        })
        .collect();
    said.extend(tandem_link::inband::describe::frame(packet.payload()));
    if let Some(announced) = thesis::strip(packet.payload(), Codes::default()) {
        let count = announced.references.len();
        said.push(format!(
            "the thesis's possession indication: {count} certificates"
        ));
    }
    said
}
