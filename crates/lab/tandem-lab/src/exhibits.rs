//! Certificates as they crossed the link, for a reader to look at: the server's message in one
//! trial without proxies and in one through the thesis's format (figures 4-7 and 4-8).
//!
//! Is not: a measurement. It takes messages out of what the link carried and interprets no
//! certificate.

use tandem_netsim::link::Direction;
use tandem_wire::TcpPacket;
use tandem_wire::tls::stream;

use crate::lane::Trial;
use tandem_report::arm::Arm;
use tandem_report::row::Crossed;
use tandem_report::{CERTIFICATE, COMPRESSED_CERTIFICATE, Exhibit};
use tandem_testbed::emulator::Fate;

/// The arms that are set side by side: those of the thesis's figures.
const ARMS: [Arm; 2] = [Arm::PacketMcveety, Arm::Plain];

/// What has been found in a unit's trials.
#[derive(Debug, Default)]
pub(crate) struct Exhibits {
    compressed: Option<Vec<u8>>,
    normal: Option<Vec<u8>>,
}

impl Exhibits {
    /// Looks at a trial; the first of each kind is kept.
    pub(crate) fn add(&mut self, trial: &Trial) {
        let row = &trial.row;
        if !row.ok || !ARMS.contains(&row.arm) {
            return;
        }
        let (place, crossed, kind) = if row.arm == Arm::Plain {
            (&mut self.normal, Crossed::Chain, CERTIFICATE)
        } else {
            let reference = Crossed::Reference;
            (&mut self.compressed, reference, COMPRESSED_CERTIFICATE)
        };
        if place.is_none() && row.crossed == Some(crossed) {
            *place = message(trial, kind);
        }
    }

    /// Both, where both were found.
    pub(crate) fn exhibit(self, experiment: &str, link: &str, endpoints: &str) -> Option<Exhibit> {
        Some(Exhibit::new(
            [experiment, link, endpoints],
            &self.compressed?,
            &self.normal?,
        ))
    }
}

/// The first message of this type that the server's side of the link carried, header and body.
fn message(trial: &Trial, kind: u8) -> Option<Vec<u8>> {
    let exchange = trial.exchange.as_ref()?;
    let mut payloads: Vec<(i32, &[u8])> = Vec::new();
    for crossing in &trial.crossings {
        if crossing.direction != Direction::Down || crossing.fate != Fate::Taken {
            continue;
        }
        let Ok(packet) = TcpPacket::parse(&crossing.packet) else {
            continue;
        };
        let offset = packet.seq().distance_from(exchange.down_start);
        let is_known = payloads.iter().any(|(known, _)| *known == offset);
        if packet.source() == exchange.server && !packet.payload().is_empty() && !is_known {
            payloads.push((offset, packet.payload()));
        }
    }
    payloads.sort_by_key(|(offset, _)| *offset);
    // A rewritten flight is shorter than the numbers that its segments keep; one after the other
    // they are records all the same.
    let stream: Vec<u8> = payloads
        .into_iter()
        .flat_map(|(_, payload)| payload)
        .copied()
        .collect();
    let scan = stream::scan::messages(&stream);
    let found = scan
        .messages
        .iter()
        .find(|message| message.msg_type.0 == kind)?;
    let body = found.body(&stream);
    let length = u32::try_from(body.len()).ok()?.to_be_bytes();
    Some([&[kind], &length[1..], &*body].concat())
}
