//! Keeps the zone up to date: new addresses at once, a changed challenge within a second, new
//! signatures and new keys in time.
//!
//! One of two name servers of a zone hears of the other here ([`crate::copied`]).
//!
//! Invariants: whoever reads gets one whole zone; its serial number rises with each change, also
//! over restarts as long as changes come less often than once a second on the whole; a change that
//! cannot be made leaves the zone as it was.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::Answers;
use crate::check::{self, Options};
use crate::copied::{Copied, Heard, KeyFiles, Lead, Other, later};
use crate::error::DnsError;
use crate::file;
use crate::key::Validity;
use crate::keys::Keys;
use crate::rollover::{Above, Phase};
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

/// Seconds between two questions to the zone above, and after a step that failed.
const ASK_AGAIN: u64 = 3600;

/// The keys, and when they are changed.
pub(crate) struct Changing {
    pub(crate) keys: Keys,
    /// Seconds after which a key is changed, if ever.
    pub(crate) lifetime: Option<u64>,
    /// How the zone above is asked.
    pub(crate) look: Options,
}

/// Who keeps it.
pub(crate) struct Keeper {
    shape: Shape,
    changing: Changing,
    /// What is known of the zone above, and from when on it is asked again.
    above: Above,
    ask_from: u64,
    /// From when on keys may be changed again, after that has failed.
    step_from: u64,
    challenge: Option<PathBuf>,
    /// The challenge file as it was read last.
    read: Vec<String>,
    answers: watch::Receiver<Arc<Answers>>,
    content: Content,
    signed: u64,
    zone: watch::Sender<Arc<Zone>>,
    other: Option<Paired>,
}

/// What there is of another name server of the zone.
struct Paired {
    lead: Lead,
    heard: watch::Receiver<Arc<Heard>>,
    copied: watch::Sender<Arc<Copied>>,
    /// The own files, as they were read last.
    files: KeyFiles,
}

impl Keeper {
    /// With a first zone.
    pub(crate) fn new(
        shape: Shape,
        changing: Changing,
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
        let zone = Zone::signed(&shape, &content, &changing.keys, validity(now))?;
        Ok(Self {
            shape,
            changing,
            above: Above::Unknown,
            ask_from: 0,
            step_from: 0,
            challenge,
            read,
            answers,
            content,
            signed: now,
            zone: watch::Sender::new(Arc::new(zone)),
            other: None,
        })
    }

    /// As one of two name servers of the zone.
    pub(crate) fn pair(&mut self, lead: Lead) -> Result<Other, DnsError> {
        let (heard, receiver) = watch::channel(Arc::default());
        let other = Paired {
            lead,
            heard: receiver,
            copied: watch::Sender::default(),
            files: self.changing.keys.files()?,
        };
        let copied = other.copied.subscribe();
        self.other = Some(other);
        self.tell_other();
        Ok(Other { copied, heard })
    }

    /// The zone, now and as it changes.
    pub(crate) fn zone(&self) -> watch::Receiver<Arc<Zone>> {
        self.zone.subscribe()
    }

    /// Keeps it, for ever.
    pub(crate) async fn run(mut self) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut told, mut hears) = (true, self.other.is_some());
        let mut asked = JoinSet::new();
        loop {
            // Nobody who tells of addresses any more: those that were told last stay.
            tokio::select! {
                changed = self.answers.changed(), if told => told = changed.is_ok(),
                heard = heard(&mut self.other), if hears => hears = heard,
                _ = looks.tick() => self.read_challenge(),
                Some(above) = asked.join_next(), if !asked.is_empty() => {
                    self.above = above.unwrap_or(Above::Unknown);
                }
            }
            self.listen();
            let now = self.now();
            if asked.is_empty()
                && let Some(question) = self.question(now)
            {
                asked.spawn(question);
            }
            self.change_keys(now);
            self.update(now);
        }
    }

    /// What has been heard, and what there is to tell, goes into the zone.
    pub(crate) fn catch_up(&mut self) {
        self.listen();
        self.update(self.now());
    }

    /// The other server's clock, where this one follows: so both sign for the same time.
    fn now(&self) -> u64 {
        let clock = match &self.other {
            Some(other) if other.lead == Lead::Follows => other.heard.borrow().clock,
            Some(_) | None => None,
        };
        clock.map_or_else(unix_time, |clock| clock.now())
    }

    /// Takes in what was heard of the other server.
    fn listen(&mut self) {
        let now = self.now();
        let Some(other) = &mut self.other else {
            return;
        };
        let heard = Arc::clone(&other.heard.borrow_and_update());
        let Some(copied) = &heard.copied else {
            return;
        };
        match other.lead {
            // Whoever has asked the other one has seen a later number.
            Lead::Leads => {
                if later(self.content.serial, copied.serial) != self.content.serial {
                    self.content.serial = copied.serial;
                    self.signed = 0;
                }
            }
            Lead::Follows => {
                if copied.keys == other.files || now < self.step_from {
                    return;
                }
                match self.changing.keys.take(&copied.keys, now) {
                    Ok(keys) => {
                        tracing::info!("the zone's keys are now those of the primary");
                        self.changing.keys = keys;
                        other.files = copied.keys.clone();
                        self.signed = 0;
                    }
                    Err(error) => {
                        tracing::error!(%error, "the primary's keys of the zone cannot be taken; tried again in an hour");
                        self.step_from = now + ASK_AGAIN;
                    }
                }
            }
        }
    }

    /// The other server is to have it as it is here.
    fn tell_other(&mut self) {
        let Some(other) = &mut self.other else {
            return;
        };
        let now = Copied {
            serial: self.content.serial,
            challenge: self.read.clone(),
            keys: other.files.clone(),
        };
        other.copied.send_if_modified(|last| {
            let is_other = **last != now;
            if is_other {
                *last = Arc::new(now);
            }
            is_other
        });
    }

    /// Whether this server follows another one, and with which serial, if that is there.
    fn follows(&self) -> Option<Option<u32>> {
        let other = self.other.as_ref()?;
        match other.lead {
            Lead::Leads => None,
            Lead::Follows => {
                let heard = other.heard.borrow();
                let serial = heard.copied.as_ref().map(|copied| copied.serial);
                Some(serial.filter(|_| heard.is_there))
            }
        }
    }

    /// The question whether the zone above shows the next key, when it is time for it.
    fn question(&mut self, now: u64) -> Option<impl Future<Output = Above> + use<>> {
        if self.follows().is_some() {
            return None;
        }
        let keys = &self.changing.keys;
        let next = keys.announced().filter(|_| keys.awaits_above())?;
        // A clock that was set back does not put it off.
        if now < self.ask_from && self.ask_from - now <= ASK_AGAIN {
            return None;
        }
        let (zone, options) = (self.shape.zone.clone(), self.changing.look.clone());
        let question = check::above(zone, Arc::clone(next), options);
        self.ask_from = now + ASK_AGAIN;
        Some(question)
    }

    /// Goes on with the change of keys, when it is time.
    pub(crate) fn change_keys(&mut self, now: u64) {
        if now < self.step_from || self.follows().is_some() {
            return;
        }
        let Changing { keys, lifetime, .. } = &self.changing;
        match keys.step(now, *lifetime, self.above) {
            Ok(None) => {}
            Ok(Some(keys)) => {
                self.tell_of(&keys);
                if let Some(other) = &mut self.other {
                    // Without its files the other server stays at the step before.
                    match keys.files() {
                        Ok(files) => other.files = files,
                        Err(error) => {
                            tracing::error!(%error, "the other name server does not get the zone's keys")
                        }
                    }
                }
                self.changing.keys = keys;
                self.above = Above::Unknown;
                // All is signed anew.
                self.signed = 0;
            }
            Err(error) => {
                tracing::error!(%error, "the zone's key stays as it is for now");
                self.step_from = now + ASK_AGAIN;
            }
        }
    }

    fn tell_of(&self, keys: &Keys) {
        match keys.phase() {
            Phase::Introduced => tracing::info!("the zone's next key is published"),
            Phase::Announced => {
                let ds = keys
                    .announced()
                    .and_then(|key| key.ds(&self.shape.zone).ok());
                tracing::warn!(
                    ds = ds.unwrap_or_default(),
                    "the zone above is asked to show another DS record (CDS); if it does not read that, give it this one in place of the old"
                );
            }
            Phase::Switched => {
                let tag = keys.signing().tag();
                tracing::info!(tag, "the zone's next key signs: the zone above shows it");
            }
            Phase::Steady => tracing::info!("the zone's old key is gone"),
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

    pub(crate) fn update(&mut self, now: u64) {
        let last = self.content.serial;
        let followed = self.follows().flatten();
        let lines = self.challenges();
        let wanted = Content {
            answers: Answers::clone(&self.answers.borrow_and_update()),
            challenge: usable(&lines),
            serial: followed.map_or(last, |serial| later(last, serial)),
        };
        if wanted == self.content && is_fresh(self.signed, now) {
            self.tell_other();
            return;
        }
        let content = match followed {
            Some(_) => wanted,
            None => Content {
                serial: next_serial(last, now),
                ..wanted
            },
        };
        match Zone::signed(&self.shape, &content, &self.changing.keys, validity(now)) {
            Ok(zone) => {
                tracing::debug!(
                    serial = content.serial,
                    addresses = content.answers.addresses.len(),
                    "zone changed"
                );
                self.content = content;
                self.signed = now;
                self.zone.send_replace(Arc::new(zone));
                self.tell_other();
            }
            Err(error) => tracing::error!(%error, "the zone stays as it was"),
        }
    }

    /// Those of the own file, and where this server follows, those of the other's.
    fn challenges(&self) -> Vec<String> {
        let mut lines = self.read.clone();
        if let Some(other) = &self.other
            && other.lead == Lead::Follows
            && let Some(copied) = &other.heard.borrow().copied
        {
            lines.extend_from_slice(&copied.challenge);
        }
        lines
    }
}

/// Waits for news of the other server; whether there can be more.
async fn heard(other: &mut Option<Paired>) -> bool {
    match other {
        Some(other) => other.heard.changed().await.is_ok(),
        None => std::future::pending().await,
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

pub(crate) fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_are_changed_step_by_step_and_the_zone_is_signed_anew_each_time() {
        const DAY: u64 = 24 * 3600;
        let folder = tempfile::tempdir().expect("a folder");
        let settings: crate::Settings = serde_json::from_value(serde_json::json!({
            "key": folder.path().join("key"), "listen": ["127.0.0.1:0"], "key-days": 30,
            "nameservers": {"ns.example.net": []},
        }))
        .expect("settings");
        let site = tandem_barnraising::uri::Name::parse("www.tandem-site.org").expect("a name");
        let start = unix_time();
        let changing = Changing {
            keys: settings.zone_keys(start).expect("made"),
            lifetime: settings.key_lifetime(),
            look: Options::default(),
        };
        let (_answers, receiver) = watch::channel(Arc::default());
        let shape = settings.shape(&site).expect("right");
        let mut keeper = Keeper::new(shape, changing, None, receiver).expect("a zone");
        let zone = keeper.zone();
        let mut now = start;
        let mut serial = zone.borrow().serial;
        let mut stepped = |keeper: &mut Keeper, wait: u64, above: Above| {
            now += wait;
            keeper.above = above;
            keeper.change_keys(now);
            keeper.update(now);
            let zone = Arc::clone(&keeper.zone().borrow());
            let is_new = zone.serial != serial;
            serial = zone.serial;
            let set = |kind| {
                let node = zone.top().and_then(|top| top.set(kind));
                node.map_or((0, 0), |shown| {
                    (shown.set.records.len(), shown.set.signatures.len())
                })
            };
            use hickory_proto::rr::RecordType;
            let sets = [
                RecordType::DNSKEY,
                RecordType::SOA,
                RecordType::CDS,
                RecordType::CDNSKEY,
            ];
            (is_new, sets.map(set))
        };
        let alone = [(1, 1), (1, 1), (0, 0), (0, 0)];
        let two = [(2, 2), (1, 1), (0, 0), (0, 0)];
        let announced = [(2, 2), (1, 1), (1, 1), (1, 1)];
        let (nothing, seen) = (Above::Unknown, Above::HasNext);
        assert_eq!(stepped(&mut keeper, 1, nothing), (false, alone));
        assert_eq!(stepped(&mut keeper, 31 * DAY, nothing), (true, two));
        assert!(
            keeper.question(start).is_none(),
            "nothing is to be seen yet"
        );
        assert_eq!(stepped(&mut keeper, 2 * DAY, nothing), (true, announced));
        assert!(keeper.question(start).is_some());
        assert!(keeper.question(start + 1).is_none(), "once an hour");
        assert!(keeper.question(start + ASK_AGAIN).is_some());
        assert_eq!(stepped(&mut keeper, 1, nothing), (false, announced));
        let old = keeper.changing.keys.signing().tag();
        assert_eq!(stepped(&mut keeper, 1, seen), (true, announced));
        assert_ne!(keeper.changing.keys.signing().tag(), old);
        assert_eq!(stepped(&mut keeper, 9 * DAY, nothing), (true, alone));
        assert_ne!(keeper.changing.keys.signing().tag(), old);
    }

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
