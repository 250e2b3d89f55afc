//! One connection packet by packet, as the link carried it: for waterfalls and for showing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tandem_netsim::link::{Direction, DirectionConfig, LinkConfig};

use crate::describe;
use crate::emulator::Crossing;
use crate::lane::Trial;
use crate::links;
use crate::moment::Moment;

/// A connection's packets in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    /// The link's name.
    pub link: String,
    /// The endpoints' name.
    pub endpoints: String,
    /// The arm's name.
    pub arm: String,
    /// When the client had the server's Finished, seconds after its SYN.
    pub seconds_handshake: Option<f64>,
    /// When it had the first byte of application data.
    pub seconds_first_byte: Option<f64>,
    /// What crossed.
    pub rungs: Vec<Rung>,
}

/// A packet. Times are seconds after the client's SYN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// From client to server.
    pub up: bool,
    /// IP bytes.
    pub bytes: usize,
    /// When it came to the link.
    pub offered: f64,
    /// When the link began to send it; later than `offered` where others were before it.
    pub started: f64,
    /// When it came out at the far end.
    pub arrived: f64,
    /// What it carried.
    pub words: String,
}

impl Ladder {
    /// Of a trial on this link. Packets that never arrived are left out.
    pub fn of(trial: &Trial, link: &LinkConfig) -> Self {
        let zero = trial
            .exchange
            .as_ref()
            .map(|exchange| exchange.syn)
            .or_else(|| trial.crossings.first().map(|crossing| crossing.offered))
            .unwrap_or_default();
        Self {
            link: trial.row.link.clone(),
            endpoints: trial.row.endpoints.clone(),
            arm: trial.row.arm.name().to_owned(),
            seconds_handshake: trial.row.seconds_handshake,
            seconds_first_byte: trial.row.seconds_first_byte,
            rungs: trial
                .crossings
                .iter()
                .filter_map(|crossing| Rung::of(crossing, link, zero))
                .collect(),
        }
    }
}

impl Rung {
    fn of(crossing: &Crossing, link: &LinkConfig, zero: Moment) -> Option<Self> {
        let arrived = crossing.delivered?.seconds_since(zero);
        let offered = crossing.offered.seconds_since(zero);
        let direction = side(link, crossing.direction);
        let bytes = crossing.packet.len();
        Some(Self {
            up: crossing.direction == Direction::Up,
            bytes,
            offered,
            started: (arrived
                - direction.delay.as_secs_f64()
                - links::air_seconds(direction, bytes as f64))
            .max(offered),
            arrived,
            words: describe::packet_in_words(&crossing.packet),
        })
    }
}

/// How long a packet takes to be sent in a direction.
pub(crate) fn air_time(link: &LinkConfig, direction: Direction, bytes: usize) -> Duration {
    Duration::try_from_secs_f64(links::air_seconds(side(link, direction), bytes as f64))
        .unwrap_or_default()
}

fn side(link: &LinkConfig, direction: Direction) -> &DirectionConfig {
    match direction {
        Direction::Up => &link.up,
        Direction::Down => &link.down,
    }
}
