//! What came of a simulation.

use serde::Serialize;

use crate::time::Time;

/// Within so many seconds, clients are counted as served.
pub const WITHIN: [u32; 4] = [3, 10, 30, 120];

/// What came of a simulation. Bytes are IP bytes; seconds count from the first moment of the crowd.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Clients that got the whole page.
    pub served: u32,
    /// Clients that ran out of patience.
    pub gave_up: u32,
    /// Share of all clients that got the page within so many seconds ([`WITHIN`]).
    pub served_within: [f64; 4],
    /// Seconds from a client's coming to the end of the page, of those that got it.
    pub latency: Option<Percentiles>,
    /// When the last client was served or had given up.
    pub ended_seconds: f64,
    /// What the origin's line carried.
    pub line: LineBytes,
    /// Of the time until the end, the share in which the line was busy.
    pub line_busy: f64,
    /// Most transfers that waited for the line at a time.
    pub max_waiting: u64,
    /// Most bytes that did.
    pub max_waiting_bytes: u64,
    /// Connections that were closed for want of a place at the origin.
    pub refused_by_origin: u64,
    /// For want of a place at a volunteer.
    pub refused_by_volunteers: u64,
    /// Connections to volunteers that were not there, or left while they served.
    pub dead_addresses: u64,
    /// Volunteers that were given authentication data for a client.
    pub volunteers_used: u32,
    /// Bytes of bodies and pieces that volunteers sent to clients.
    pub to_clients: u64,
    /// To each other.
    pub to_peers: u64,
    /// Where pieces of bodies came from that clients needed.
    pub pieces: Pieces,
    /// The line as time goes by.
    pub series: Vec<Sample>,
}

/// Bytes on the origin's line, by what they were for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LineBytes {
    /// Whole answers by HTTPS.
    pub https: u64,
    /// Handshakes and authentication data for volunteers.
    pub proofs: u64,
    /// Pieces of bodies for volunteers that lacked them.
    pub misses: u64,
    /// Of all these, bytes for clients that did not wait for the whole page, and pieces that a
    /// volunteer had by the time they came, or that came to one that had gone.
    pub in_vain: u64,
}

impl LineBytes {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.https + self.proofs + self.misses
    }
}

/// How often a volunteer needed a piece for a client, and where it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pieces {
    /// It was in its cache.
    pub held: u64,
    /// It was on its way already.
    pub coming: u64,
    /// Another volunteer gave it.
    pub from_peers: u64,
    /// The origin was asked.
    pub from_origin: u64,
    /// Other volunteers had been asked before, and were late or gone.
    pub peers_late: u64,
}

/// Latencies in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of them are lower.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// The highest.
    pub max: f64,
}

impl Percentiles {
    /// Of latencies in any order.
    pub(crate) fn of(latencies: &mut [Time]) -> Option<Self> {
        latencies.sort_unstable();
        // The nearest rank.
        let rank = |percent: usize| (latencies.len() * percent).div_ceil(100).max(1) - 1;
        let at = |percent| Some(latencies.get(rank(percent))?.seconds());
        Some(Self {
            p50: at(50)?,
            p90: at(90)?,
            p99: at(99)?,
            max: at(100)?,
        })
    }
}

/// A moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds.
    pub at: f64,
    /// Bytes that have left the origin so far.
    pub sent: u64,
    /// Transfers that wait for its line.
    pub waiting: u64,
    /// Bytes that do.
    pub waiting_bytes: u64,
    /// Clients served so far.
    pub served: u32,
    /// Clients that have come so far.
    pub came: u32,
    /// Volunteers that are there.
    pub volunteers: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_those_that_there_are() {
        assert_eq!(Percentiles::of(&mut []), None);
        let mut latencies: Vec<Time> = (1..=200)
            .rev()
            .map(|s| Time::from_micros(s * 1_000_000))
            .collect();
        let found = Percentiles::of(&mut latencies).expect("some");
        assert_eq!(
            (found.p50, found.p90, found.p99, found.max),
            (100.0, 180.0, 198.0, 200.0)
        );
        let one = Percentiles::of(&mut [Time::from_micros(5)]).expect("one");
        assert_eq!((one.p50, one.max), (5e-6, 5e-6));
    }
}
