//! Keeps the zone up to date: new addresses at once, a changed challenge within a second, new
//! signatures in time.
//!
//! Invariants: whoever reads gets one whole zone; its serial number rises with each change, also
//! over restarts as long as changes come less often than once a second on the whole; a change that
//! cannot be made leaves the zone as it was.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::Answers;
use crate::error::DnsError;
use crate::file;
use crate::key::{Validity, ZoneKey};
use crate::settings::Shape;
use crate::zone::{Content, Zone};

/// Between two looks at the challenge file.
const LOOK: Duration = Duration::from_secs(1);

/// Signatures count from so many seconds before they are made, for clocks that are behind,
const BEFORE: u64 = 3 * 3600;
/// to so many after: answers are kept for an hour at most, and a broker that is gone for longer
/// answers nothing anyway.
const AFTER: u64 = 3 * 24 * 3600;
/// They are made anew after so many, and where the clock has been set back behind their making:
/// they may begin in the future then.
const RENEW: u64 = 6 * 3600;

/// Most values of the challenge record, and most bytes of its file.
const CHALLENGES: usize = 8;
const CHALLENGE_BYTES: u64 = 4096;

/// Who keeps it.
pub(crate) struct Keeper {
    shape: Shape,
    key: Arc<ZoneKey>,
    challenge: Option<PathBuf>,
    /// The challenge file as it was read last.
    read: Vec<String>,
    answers: watch::Receiver<Arc<Answers>>,
    content: Content,
    signed: u64,
    zone: watch::Sender<Arc<Zone>>,
}

impl Keeper {
    /// With a first zone.
    pub(crate) fn new(
        shape: Shape,
        key: Arc<ZoneKey>,
        challenge: Option<PathBuf>,
        mut answers: watch::Receiver<Arc<Answers>>,
    ) -> Result<Self, DnsError> {
        let now = unix_time();
        let read = match &challenge {
            Some(path) => {
                file::lines(path, CHALLENGE_BYTES).map_err(|error| DnsError::file(path, error))?
            }
            None => Vec::new(),
        };
        let content = Content {
            answers: Answers::clone(&answers.borrow_and_update()),
            challenge: usable(&read),
            serial: now as u32,
        };
        let zone = Zone::signed(&shape, &content, &key, validity(now))?;
        Ok(Self {
            shape,
            key,
            challenge,
            read,
            answers,
            content,
            signed: now,
            zone: watch::Sender::new(Arc::new(zone)),
        })
    }

    /// The zone, now and as it changes.
    pub(crate) fn zone(&self) -> watch::Receiver<Arc<Zone>> {
        self.zone.subscribe()
    }

    /// Keeps it, for ever.
    pub(crate) async fn run(mut self) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = true;
        loop {
            // Nobody who tells of addresses any more: those that were told last stay.
            tokio::select! {
                changed = self.answers.changed(), if told => told = changed.is_ok(),
                _ = looks.tick() => self.read_challenge(),
            }
            self.update(unix_time());
        }
    }

    fn read_challenge(&mut self) {
        let Some(path) = &self.challenge else {
            return;
        };
        match file::lines(path, CHALLENGE_BYTES) {
            Ok(lines) if lines != self.read => {
                tracing::info!(values = lines.len(), "the challenge file has changed");
                self.read = lines;
            }
            Ok(_) => {}
            // Said at every change of it, not at every look.
            Err(error) if !self.read.is_empty() => {
                tracing::warn!(path = %path.display(), %error, "the challenge file cannot be read");
                self.read.clear();
            }
            Err(_) => {}
        }
    }

    fn update(&mut self, now: u64) {
        let wanted = Content {
            answers: Answers::clone(&self.answers.borrow_and_update()),
            challenge: usable(&self.read),
            serial: self.content.serial,
        };
        if wanted == self.content && is_fresh(self.signed, now) {
            return;
        }
        let content = Content {
            serial: next_serial(self.content.serial, now),
            ..wanted
        };
        match Zone::signed(&self.shape, &content, &self.key, validity(now)) {
            Ok(zone) => {
                tracing::debug!(
                    serial = content.serial,
                    addresses = content.answers.addresses.len(),
                    "zone changed"
                );
                self.content = content;
                self.signed = now;
                self.zone.send_replace(Arc::new(zone));
            }
            Err(error) => tracing::error!(%error, "the zone stays as it was"),
        }
    }
}

/// The lines that can be values of a TXT record of one string: printable, at most 255 bytes.
fn usable(lines: &[String]) -> Vec<String> {
    let fits =
        |line: &&String| line.len() <= 255 && line.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    let mut values: Vec<String> = lines
        .iter()
        .filter(fits)
        .take(CHALLENGES)
        .cloned()
        .collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The time where that is later, or else the next number (RFC 1982: numbers go round).
fn next_serial(last: u32, now: u64) -> u32 {
    let next = last.wrapping_add(1);
    let ahead = (now as u32).wrapping_sub(next);
    if ahead < 1 << 31 { now as u32 } else { next }
}

fn is_fresh(signed: u64, now: u64) -> bool {
    (signed..signed.saturating_add(RENEW)).contains(&now)
}

fn validity(now: u64) -> Validity {
    Validity {
        from: now.saturating_sub(BEFORE),
        until: now + AFTER,
    }
}

fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_rise_whatever_the_clock_does() {
        assert_eq!(next_serial(100, 200), 200);
        assert_eq!(next_serial(200, 200), 201);
        assert_eq!(next_serial(200, 100), 201);
        assert_eq!(next_serial(u32::MAX, 5), 5, "past the end they begin anew");
        assert_eq!(next_serial(u32::MAX, u64::from(u32::MAX)), 0);
    }

    #[test]
    fn signatures_are_made_anew_in_time_and_when_the_clock_goes_back() {
        let signed = 1_800_000_000;
        assert!(is_fresh(signed, signed) && is_fresh(signed, signed + RENEW - 1));
        assert!(!is_fresh(signed, signed + RENEW) && !is_fresh(signed, signed - 1));
    }

    #[test]
    fn an_answer_given_just_before_a_renewal_can_be_kept_to_its_end() {
        // The longest time to live that the settings take.
        const MAX_TTL: u64 = 3_600;
        let signed = 1_800_000_000;
        let last = signed + RENEW - 1;
        assert!(is_fresh(signed, last));
        let validity = validity(signed);
        assert!(validity.until >= last + MAX_TTL, "{validity:?}");
        // A resolver whose clock is an hour behind takes what was signed just now.
        assert!(validity.from <= signed - 3_600, "{validity:?}");
    }

    #[test]
    fn only_values_that_a_record_can_hold_are_taken() {
        let lines = ["b", "a", "b", "\u{e9}", &"x".repeat(256)].map(str::to_owned);
        assert_eq!(usable(&lines), ["a", "b"]);
        let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(usable(&many).len(), CHALLENGES);
    }
}
