//! The zone's keys: the one that signs, and beside it the next one while keys are changed; and the
//! files that they are kept in.
//!
//! ```text
//!   dns.key          the key that signs, or has signed until the change is over
//!   dns.key.next     the next one, during a change
//!   dns.key.change   how far a change has come, and since when
//!   dns.key.before   a key that the other name server of the zone has replaced
//! ```
//!
//! Is not: when something happens ([`crate::rollover`]).
//!
//! Invariant: what is published can be published again after a restart: files are written before.

mod files;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use hickory_proto::dnssec::rdata::{CDNSKEY, CDS, DNSKEY};
use hickory_proto::rr::Name;

use crate::error::DnsError;
use crate::file;
use crate::key::ZoneKey;
use crate::rollover::{Above, Phase, Rollover};

pub use files::KeyFiles;

/// See above.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    path: PathBuf,
    current: Arc<ZoneKey>,
    next: Option<Arc<ZoneKey>>,
    rollover: Rollover,
}

impl Keys {
    /// Those in the files; the first key is made if it is missing.
    pub(crate) fn kept_in(path: &Path, now: u64) -> Result<Self, DnsError> {
        let current = Arc::new(ZoneKey::kept_in(path)?);
        let state = beside(path, "change");
        let text = file::lines(&state, 256).map_err(|error| DnsError::file(&state, error))?;
        let rollover = match text.first() {
            None => Rollover::steady_since(age_of(path).unwrap_or(now)),
            Some(line) => Rollover::parse(line).ok_or_else(|| {
                DnsError::content(&state, "does not say how far the change of keys has come")
            })?,
        };
        let next = beside(path, "next");
        let (rollover, next) = match (rollover.phase, next.exists()) {
            (Phase::Steady, _) => (rollover, None),
            // The broker ended just before it noted that the change was over.
            (Phase::Switched, false) => (Rollover::steady_since(now), None),
            (Phase::Introduced | Phase::Announced, false) => {
                return Err(DnsError::content(
                    &next,
                    format!(
                        "is missing, and keys are being changed; put it back, or remove {} if the zone above does not show its DS record",
                        state.display()
                    ),
                ));
            }
            (Phase::Introduced | Phase::Announced | Phase::Switched, true) => {
                (rollover, Some(Arc::new(ZoneKey::kept_in(&next)?)))
            }
        };
        Ok(Self {
            path: path.to_owned(),
            current,
            next,
            rollover,
        })
    }

    /// All that are published, each of which signs them all.
    pub(crate) fn published(&self) -> impl Iterator<Item = &ZoneKey> {
        let next = self.next.iter();
        std::iter::once(&self.current).chain(next).map(Arc::as_ref)
    }

    /// The one that signs everything else.
    pub(crate) fn signing(&self) -> &ZoneKey {
        match (self.rollover.phase, &self.next) {
            (Phase::Switched, Some(next)) => next,
            (_, _) => &self.current,
        }
    }

    /// The one whose DS record the zone above is to show, where that is another than the current
    /// one's.
    pub(crate) fn announced(&self) -> Option<&Arc<ZoneKey>> {
        let is_announced = matches!(self.rollover.phase, Phase::Announced | Phase::Switched);
        self.next.as_ref().filter(|_| is_announced)
    }

    /// Whether the zone above is to be asked.
    pub(crate) fn awaits_above(&self) -> bool {
        self.rollover.phase == Phase::Announced
    }

    /// The keys as they are after the next step, if it is time for one.
    pub(crate) fn step(
        &self,
        now: u64,
        lifetime: Option<u64>,
        above: Above,
    ) -> Result<Option<Self>, DnsError> {
        let Some(rollover) = self.rollover.next(now, lifetime, above) else {
            return Ok(None);
        };
        let next_path = beside(&self.path, "next");
        let (current, next) = match rollover.phase {
            Phase::Introduced => {
                let next = Arc::new(ZoneKey::kept_in(&next_path)?);
                (Arc::clone(&self.current), Some(next))
            }
            Phase::Announced | Phase::Switched => (Arc::clone(&self.current), self.next.clone()),
            Phase::Steady => {
                match std::fs::rename(&next_path, &self.path) {
                    Ok(()) => {}
                    // A try before this one has renamed it, and could not note that it had.
                    Err(error) if error.kind() == ErrorKind::NotFound && self.next_is_kept() => {}
                    Err(error) => return Err(DnsError::file(&self.path, error)),
                }
                let current = self.next.as_ref().unwrap_or(&self.current);
                (Arc::clone(current), None)
            }
        };
        let state = beside(&self.path, "change");
        file::replace(&state, rollover.to_text().as_bytes())?;
        Ok(Some(Self {
            path: self.path.clone(),
            current,
            next,
            rollover,
        }))
    }

    /// Whether the next key is where the current one is kept.
    fn next_is_kept(&self) -> bool {
        let next = self.next.as_ref().map(|next| next.tag());
        self.path.exists() && ZoneKey::kept_in(&self.path).is_ok_and(|key| Some(key.tag()) == next)
    }

    /// What the zone above has to show: the next key's, once it is asked to.
    pub(crate) fn ds(&self, zone: &Name) -> Result<String, DnsError> {
        let next = self.announced().unwrap_or(&self.current);
        next.ds(zone)
    }

    /// How far a change has come.
    pub(crate) fn phase(&self) -> Phase {
        self.rollover.phase
    }

    /// The records of all keys.
    pub(crate) fn dnskeys(&self) -> Vec<DNSKEY> {
        self.published().map(ZoneKey::dnskey).collect()
    }

    /// What the zone above is asked to show, where it is asked (RFC 7344).
    pub(crate) fn child(&self, zone: &Name) -> Result<Option<(CDS, CDNSKEY)>, DnsError> {
        let child = |key: &Arc<ZoneKey>| Ok((key.cds(zone)?, key.cdnskey()));
        self.announced().map(child).transpose()
    }
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

/// When a file was written, in seconds of Unix time.
fn age_of(path: &Path) -> Option<u64> {
    let written = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = written.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn tags(keys: &Keys) -> Vec<u16> {
        keys.published().map(ZoneKey::tag).collect()
    }

    #[test]
    fn a_change_goes_on_after_a_restart_at_each_step() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dns.key");
        let mut now = 1_800_000_000;
        let first = Keys::kept_in(&path, now).expect("made");
        let old = first.signing().tag();
        assert_eq!(tags(&first), [old]);
        // Its file was written just now, whatever the time of this test is.
        let written = age_of(&path).expect("there");
        assert!(
            first
                .step(written + 9 * DAY, Some(10 * DAY), Above::Unknown)
                .is_ok_and(|it| it.is_none())
        );
        now = written + 10 * DAY;
        let mut new = None;
        for (wait, above, phase) in [
            (0, Above::Unknown, Phase::Introduced),
            (2 * DAY, Above::Unknown, Phase::Announced),
            (1, Above::HasNext, Phase::Switched),
            (9 * DAY, Above::Unknown, Phase::Steady),
        ] {
            now += wait;
            let keys = Keys::kept_in(&path, now).expect("kept");
            let lifetime = Some(10 * DAY);
            let stepped = keys.step(now, lifetime, above).expect("files");
            let stepped = stepped.expect("it is time");
            assert_eq!(stepped.phase(), phase);
            let again = Keys::kept_in(&path, now).expect("kept");
            assert_eq!(tags(&again), tags(&stepped), "{phase:?}");
            assert_eq!(again.signing().tag(), stepped.signing().tag());
            assert_eq!(again.phase(), phase);
            let other = *new.get_or_insert_with(|| tags(&again)[1]);
            let (expected, signing): (&[u16], u16) = match phase {
                Phase::Introduced | Phase::Announced => (&[old, other], old),
                Phase::Switched => (&[old, other], other),
                Phase::Steady => (&[other], other),
            };
            assert_eq!(
                (tags(&again).as_slice(), again.signing().tag()),
                (expected, signing)
            );
            let is_announced = matches!(phase, Phase::Announced | Phase::Switched);
            assert_eq!(again.announced().is_some(), is_announced);
        }
        // It is as old as its change, and a file that was left is no key.
        let last = Keys::kept_in(&path, now).expect("kept");
        assert!(
            last.step(now + 9 * DAY, Some(10 * DAY), Above::Unknown)
                .is_ok_and(|it| it.is_none())
        );
        assert!(!beside(&path, "next").exists());
    }

    #[test]
    fn a_change_whose_end_could_not_be_noted_ends_at_the_next_try() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dns.key");
        let now = 1_800_000_000;
        Keys::kept_in(&path, now).expect("made");
        let state = beside(&path, "change");
        let note = Rollover {
            phase: Phase::Switched,
            since: now,
        };
        file::replace(&state, note.to_text().as_bytes()).expect("own folder");
        let next = ZoneKey::kept_in(&beside(&path, "next")).expect("made");
        let keys = Keys::kept_in(&path, now).expect("kept");
        // A folder in its place cannot be replaced by a file, whoever tries.
        std::fs::remove_file(&state).expect("own folder");
        std::fs::create_dir(&state).expect("own folder");
        let late = now + 365 * DAY;
        for _ in 0..2 {
            let failed = keys.step(late, None, Above::HasNext).expect_err("no note");
            assert!(failed.to_string().contains("dns.key.change"), "{failed}");
        }
        std::fs::remove_dir(&state).expect("own folder");
        let stepped = keys.step(late, None, Above::HasNext).expect("files");
        let stepped = stepped.expect("it is time");
        assert_eq!(stepped.phase(), Phase::Steady);
        assert_eq!(stepped.signing().tag(), next.tag());
        let again = Keys::kept_in(&path, late).expect("kept");
        assert_eq!(again.signing().tag(), next.tag());
    }

    #[test]
    fn a_change_does_not_end_while_its_key_is_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dns.key");
        let now = 1_800_000_000;
        Keys::kept_in(&path, now).expect("made");
        let note = Rollover {
            phase: Phase::Switched,
            since: now,
        };
        file::replace(&beside(&path, "change"), note.to_text().as_bytes()).expect("own folder");
        let next = beside(&path, "next");
        ZoneKey::kept_in(&next).expect("made");
        let keys = Keys::kept_in(&path, now).expect("kept");
        std::fs::remove_file(&next).expect("own folder");
        let failed = keys.step(now + 365 * DAY, None, Above::HasNext);
        assert!(failed.is_err(), "the old key is still there");
    }

    #[test]
    fn a_next_key_that_is_lost_is_not_replaced_by_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dns.key");
        let now = 1_800_000_000;
        let first = Keys::kept_in(&path, now).expect("made");
        let old = first.signing().tag();
        let text = |phase, since| Rollover { phase, since }.to_text();
        let state = beside(&path, "change");
        for phase in [Phase::Introduced, Phase::Announced] {
            file::replace(&state, text(phase, now).as_bytes()).expect("own folder");
            assert!(Keys::kept_in(&path, now).is_err(), "{phase:?}");
        }
        // As when the broker was killed between its last two steps.
        file::replace(&state, text(Phase::Switched, now).as_bytes()).expect("own folder");
        let keys = Keys::kept_in(&path, now).expect("the change is over");
        assert_eq!(
            (tags(&keys).as_slice(), keys.phase()),
            (&[old][..], Phase::Steady)
        );
        file::replace(&state, b"nonsense\n").expect("own folder");
        assert!(Keys::kept_in(&path, now).is_err());
    }
}
