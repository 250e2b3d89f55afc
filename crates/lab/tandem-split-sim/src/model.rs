//! What a simulation is made of: figures that were measured, and a scenario that is assumed.
//!
//! Is not: where figures come from; whoever calls reads them out of measurements.

use serde::Serialize;

use crate::chance::Shape;

/// Bytes of an answer that leave the origin, and how long the rest takes, as they were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// By the size of the body, growing.
    pub sizes: Vec<SizeCost>,
    /// Seconds of one request over HTTPS beside the time in which its bytes leave: round trips and
    /// work.
    pub https_seconds: f64,
    /// The same through a volunteer that has the body.
    pub warm_seconds: f64,
    /// The same through a volunteer that lacks it.
    pub cold_seconds: f64,
}

/// IP bytes that leave the origin for one body over a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeCost {
    /// Bytes of the body.
    pub body: u64,
    /// By HTTPS.
    pub https: u64,
    /// Through a volunteer that has the body: authentication data alone.
    pub warm: u64,
    /// Through a volunteer that lacks it.
    pub cold: u64,
}

/// Why a simulation cannot begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// Figures for fewer than two sizes, or not in growing order.
    TooFewSizes,
    /// A body of the page is smaller or larger than every one that was measured.
    SizeNotMeasured {
        /// Its bytes.
        body: u64,
    },
    /// More requests than 32 bits can count.
    TooManyRequests,
    /// A page without bodies, a crowd without clients, a line without a rate, or splitting without
    /// volunteers.
    Empty {
        /// What there is none of.
        what: &'static str,
    },
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooFewSizes => out.write_str("fewer than two sizes were measured"),
            Self::SizeNotMeasured { body } => {
                write!(out, "a body of {body} bytes is outside the measured sizes")
            }
            Self::TooManyRequests => out.write_str("too many clients for a page of so many bodies"),
            Self::Empty { what } => write!(out, "no {what}"),
        }
    }
}

impl std::error::Error for Unfit {}

impl Calibration {
    /// The cost of a body, on a straight line between the nearest sizes that were measured.
    ///
    /// # Errors
    /// [`Unfit::TooFewSizes`], [`Unfit::SizeNotMeasured`].
    pub fn cost(&self, body: u64) -> Result<SizeCost, Unfit> {
        let is_growing = |pair: &[SizeCost]| pair[0].body < pair[1].body;
        if self.sizes.len() < 2 || !self.sizes.windows(2).all(is_growing) {
            return Err(Unfit::TooFewSizes);
        }
        let around = |pair: &&[SizeCost]| (pair[0].body..=pair[1].body).contains(&body);
        let pair = self.sizes.windows(2).find(around);
        let Some([below, above]) = pair else {
            return Err(Unfit::SizeNotMeasured { body });
        };
        let (part, whole) = (body - below.body, above.body - below.body);
        let between = |low: u64, high: u64| {
            if low <= high {
                low + (high - low) * part / whole
            } else {
                low - (low - high) * part / whole
            }
        };
        let warm = between(below.warm, above.warm);
        Ok(SizeCost {
            body,
            https: between(below.https, above.https),
            warm,
            cold: between(below.cold, above.cold).max(warm),
        })
    }
}

/// How clients get the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// From the origin alone, by HTTPS.
    Https,
    /// Through volunteers.
    Split {
        /// What they hold when the crowd comes.
        caches: Caches,
        /// Whom they ask for what they lack.
        sharing: Sharing,
    },
}

/// What volunteers hold at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caches {
    /// Nothing of the page.
    Cold,
    /// All of it.
    Warm,
}

/// Whom volunteers ask for what they lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// The origin.
    OriginOnly,
    /// The volunteer to whom a piece belongs, then the origin.
    Peers,
}

/// To which of a name's addresses a client goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Any.
    AtRandom,
    /// One after the other, by the client's number.
    InTurn,
}

/// Volunteers that come and go. Those that are there at first begin a session then.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Churn {
    /// Mean seconds of a session.
    pub session_seconds: f64,
    /// How sessions are spread.
    pub shape: Shape,
    /// Mean seconds until the next one, exponential.
    pub absence_seconds: f64,
    /// What a volunteer still holds when it comes back.
    pub return_with: Caches,
}

/// What is simulated. All of it is assumed; nothing was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// How clients get the page.
    pub delivery: Delivery,
    /// How many want it.
    pub clients: u32,
    /// They come within so many seconds, each at any moment of these.
    pub crowd_seconds: f64,
    /// Bytes of the page's bodies: the first alone, then all others at once, each over a connection
    /// of its own.
    pub page: Vec<u64>,
    /// Mean seconds for which a client waits for the whole page, exponential.
    pub patience_seconds: f64,
    /// Bits per second that leave the origin.
    pub line_bits: u64,
    /// Volunteers of the site.
    pub volunteers: u32,
    /// Bits per second that leave each, for clients and other volunteers.
    pub volunteer_bits: u64,
    /// To which of them clients go.
    pub choice: Choice,
    /// How they come and go; `None`: all are there from the beginning to the end.
    pub churn: Option<Churn>,
    /// What origin, volunteers and broker are bounded by, and clients do.
    pub rules: Rules,
    /// Of everything random.
    pub seed: u64,
}

/// Bounds and delays. [`Rules::default`] has those of the programs, and says which are assumed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rules {
    /// Connections of clients that the origin serves at a time.
    pub origin_places: u32,
    /// Connections of clients that a volunteer serves at a time.
    pub volunteer_places: u32,
    /// After so many seconds a client whose connection was closed for want of a place tries again.
    pub retry_seconds: f64,
    /// So many seconds a client takes to find that a volunteer is not there, or there no more.
    pub dead_address_seconds: f64,
    /// So many seconds a volunteer that has gone remains in the name's addresses.
    pub unlisted_after_seconds: f64,
    /// So many seconds a volunteer that has come is not yet among them.
    pub listed_after_seconds: f64,
    /// So many seconds a volunteer that has gone remains in the list that volunteers go by.
    pub forgotten_after_seconds: f64,
    /// A round trip between two volunteers, seconds.
    pub peer_seconds: f64,
    /// A volunteer waits so long for another one, or twice as long as the origin takes, seconds.
    pub min_peer_patience: f64,
    /// Never longer than this, seconds.
    pub max_peer_patience: f64,
    /// So many seconds it waits for one that fetches from the origin, until something has come from
    /// there, and then again.
    pub next_word_seconds: f64,
    /// So many seconds it waits for one that fetches from the origin and gives nothing.
    pub peer_word_seconds: f64,
    /// So many seconds it waits for one piece, whatever else the other one gives.
    pub max_peer_wait_seconds: f64,
    /// So many seconds a volunteer that was silent is not asked again.
    pub passed_over_seconds: f64,
    /// So many seconds one is not asked again that was waited for, fetching, in vain.
    pub promised_seconds: f64,
    /// Bytes of a piece: a chunk.
    pub piece_bytes: u64,
    /// Pieces that come with the list of a megabyte, and belong to whom it belongs to.
    pub pieces_with_list: u64,
    /// Bytes whose turn it is at a time on the origin's line: a packet.
    pub origin_quantum: u64,
    /// Bytes whose turn it is at a time on a volunteer's line. Finer turns cost only events.
    pub volunteer_quantum: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            // docs/splitting.md, "Connection limits". The same for HTTPS, where a server has some
            // limit, too.
            origin_places: 4096,
            volunteer_places: 1024,
            // Assumed.
            retry_seconds: 5.0,
            // Assumed.
            dead_address_seconds: 3.0,
            // Two checks that fail, 20 s apart, and a TTL of 30 s (docs/splitting.md).
            unlisted_after_seconds: 70.0,
            // Three checks that pass.
            listed_after_seconds: 60.0,
            // `lease-seconds`: three renewals that do not come.
            forgotten_after_seconds: 180.0,
            // Assumed.
            peer_seconds: 0.03,
            // `PATIENCE`, `MAX_PATIENCE`, `NEXT_WORD`, `ITS_WORD` and `MAX_WAIT` in
            // tandem-split-io/src/volunteer/patience.rs, `AHEAD` in fetch.rs, `FAULT` and
            // `PROMISED` in peers.rs.
            min_peer_patience: 1.0,
            max_peer_patience: 10.0,
            next_word_seconds: 20.0,
            peer_word_seconds: 30.0,
            max_peer_wait_seconds: 60.0,
            pieces_with_list: 8,
            passed_over_seconds: 10.0,
            promised_seconds: 300.0,
            // A chunk: what is in a TLS record.
            piece_bytes: 16 << 10,
            origin_quantum: 1500,
            volunteer_quantum: 64 << 10,
        }
    }
}

impl Scenario {
    /// Whether it can be simulated, but for the sizes of its bodies.
    ///
    /// # Errors
    /// [`Unfit::Empty`], [`Unfit::TooManyRequests`].
    pub fn check(&self) -> Result<(), Unfit> {
        let is_split = matches!(self.delivery, Delivery::Split { .. });
        let missing = [
            (self.clients == 0, "clients"),
            (self.page.is_empty(), "bodies in the page"),
            (self.line_bits == 0, "rate of the origin's line"),
            (is_split && self.volunteers == 0, "volunteers"),
            (is_split && self.volunteer_bits == 0, "rate of volunteers"),
        ];
        if let Some((_, what)) = missing.into_iter().find(|(is_missing, _)| *is_missing) {
            return Err(Unfit::Empty { what });
        }
        let requests = u64::from(self.clients).checked_mul(self.page.len() as u64);
        match requests.map(u32::try_from) {
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) | None => Err(Unfit::TooManyRequests),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration() -> Calibration {
        let cost = |body, https, warm, cold| SizeCost {
            body,
            https,
            warm,
            cold,
        };
        Calibration {
            sizes: vec![
                cost(100, 3_000, 1_200, 1_400),
                cost(300, 3_200, 1_300, 1_700),
            ],
            https_seconds: 0.1,
            warm_seconds: 0.1,
            cold_seconds: 0.1,
        }
    }

    #[test]
    fn costs_lie_on_a_straight_line_between_measured_ones() {
        let costs = calibration().cost(200).expect("between");
        assert_eq!((costs.https, costs.warm, costs.cold), (3_100, 1_250, 1_550));
        assert_eq!(calibration().cost(300).map(|cost| cost.warm), Ok(1_300));
    }

    #[test]
    fn nothing_is_invented_beyond_them() {
        for body in [99, 301] {
            let unfit = Err(Unfit::SizeNotMeasured { body });
            assert_eq!(calibration().cost(body), unfit);
        }
        let mut one = calibration();
        one.sizes.pop();
        assert_eq!(one.cost(100), Err(Unfit::TooFewSizes));
    }
}
