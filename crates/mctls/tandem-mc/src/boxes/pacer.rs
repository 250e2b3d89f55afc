//! A pacer: spreads bursts towards the client over time, so that a slow link behind it does not
//! have to drop what comes too fast.
//!
//! Reads the heads of responses, for their types, and changes nothing. What waits is bounded
//! ([`mctls_io::middlebox::MAX_WAITING`]); the server is kept waiting for more.
//!
//! Is not: a limit for several sessions together. Invariant: what waits goes on as its very bytes,
//! no faster than the rate.

use std::num::NonZeroU32;

use mctls::party::Direction;
use mctls_io::Pace;

use crate::error::McError;
use crate::http::{Head, Side};
use crate::service::{Decision, HttpService};
use crate::settings::BoxSettings;

/// What goes at once after a pause, unless its settings say otherwise: two records.
const BURST: u32 = 1 << 15;
/// The slowest rate: a record of 16 KiB has to come within the minute that endpoints wait.
const MIN_RATE: u32 = 1000;

/// How fast, and what.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pace: Pace,
    types: Vec<String>,
}

impl Rules {
    pub(crate) fn of(settings: &BoxSettings) -> Result<Self, McError> {
        let rate = settings.rate.filter(|rate| *rate >= MIN_RATE);
        let burst = settings.burst.unwrap_or(BURST);
        match (rate.and_then(NonZeroU32::new), NonZeroU32::new(burst)) {
            (Some(bytes_per_second), Some(burst)) => Ok(Self {
                pace: Pace {
                    bytes_per_second,
                    burst,
                },
                types: settings.types.clone(),
            }),
            (None, _) | (_, None) => Err(McError::config(
                "a pacer needs `rate`, in bytes a second, 1000 at least; `burst`, if given, is 1 \
                 or more bytes",
            )),
        }
    }
}

/// For one session.
#[derive(Debug)]
pub(crate) struct Pacer {
    rules: Rules,
    is_paced: bool,
}

impl Pacer {
    pub(crate) fn new(rules: Rules) -> Self {
        let is_paced = rules.types.is_empty();
        Self { rules, is_paced }
    }
}

impl HttpService for Pacer {
    fn head(&mut self, side: Side, head: &mut Head) -> Decision {
        if side == Side::Responses && !self.rules.types.is_empty() {
            let kind = head.text("content-type").unwrap_or_default();
            let kind = kind.to_ascii_lowercase();
            let mut types = self.rules.types.iter();
            self.is_paced = types.any(|one| kind.starts_with(&one.to_ascii_lowercase()));
        }
        Decision::Pass
    }

    fn pace(&self, direction: Direction) -> Option<Pace> {
        (self.is_paced && direction == Direction::ToClient).then_some(self.rules.pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(types: &[&str]) -> Pacer {
        let settings = BoxSettings {
            rate: Some(5000),
            types: types.iter().map(|&one| one.to_owned()).collect(),
            ..BoxSettings::default()
        };
        Pacer::new(Rules::of(&settings).expect("good settings"))
    }

    #[test]
    fn what_is_sent_to_the_client_is_paced_and_requests_are_not() {
        let pacer = pacer(&[]);
        assert!(pacer.pace(Direction::ToClient).is_some());
        assert_eq!(pacer.pace(Direction::ToServer), None);
    }

    #[test]
    fn only_types_that_are_named_are_paced() {
        let mut pacer = pacer(&["video/"]);
        for (kind, is_paced) in [
            ("text/html", false),
            ("Video/mp4", true),
            ("text/css", false),
        ] {
            let mut head = Head::response(200, "OK").with("Content-Type", kind);
            assert_eq!(pacer.head(Side::Responses, &mut head), Decision::Pass);
            assert_eq!(
                pacer.pace(Direction::ToClient).is_some(),
                is_paced,
                "{kind}"
            );
        }
    }

    #[test]
    fn a_rate_that_endpoints_would_not_wait_for_is_refused() {
        for rate in [None, Some(0), Some(999)] {
            let settings = BoxSettings {
                rate,
                ..BoxSettings::default()
            };
            assert!(Rules::of(&settings).is_err());
        }
    }
}
