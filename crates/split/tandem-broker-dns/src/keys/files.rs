//! The files of the zone's keys, as one name server of the zone gives them to the other.
//!
//! Is not: when keys are changed: the one that follows takes what it is given, and makes none.
//!
//! Invariant: whatever step a stop comes between, the files can be read after it, and no key is
//! lost: one that is replaced is kept beside, as `dns.key.before`.

use std::fmt;
use std::path::Path;

use super::{Keys, beside};
use crate::error::DnsError;
use crate::file;
use crate::key::ZoneKey;

/// What is in them. Secret: to be given only to another server of the zone.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeyFiles {
    /// The current key, in PEM.
    pub current: Vec<u8>,
    /// The next one, during a change.
    pub next: Option<Vec<u8>>,
    /// How far the change has come.
    pub change: Option<Vec<u8>>,
}

impl fmt::Debug for KeyFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFiles(next: {})", self.next.is_some())
    }
}

impl Keys {
    /// What is in the files now.
    pub(crate) fn files(&self) -> Result<KeyFiles, DnsError> {
        Ok(KeyFiles {
            current: file::read_secret(&self.path)?.unwrap_or_default(),
            next: file::read_secret(&beside(&self.path, "next"))?,
            change: file::read_secret(&beside(&self.path, "change"))?,
        })
    }

    /// Writes these files, and reads the keys in them.
    pub(crate) fn take(&self, files: &KeyFiles, now: u64) -> Result<Self, DnsError> {
        for key in std::iter::once(&files.current).chain(&files.next) {
            ZoneKey::parse(key, &self.path)?;
        }
        let before = self.files()?;
        let (next, change) = (beside(&self.path, "next"), beside(&self.path, "change"));
        // A current key that is replaced is never the only copy of itself.
        if before.current != files.current {
            file::replace(&beside(&self.path, "before"), &before.current)?;
        }
        // With a next key, and what says so, or without both: in an order in which a stop between
        // two of them leaves files that can be read.
        match &files.next {
            Some(key) => {
                file::replace(&next, key)?;
                file::replace(&self.path, &files.current)?;
                put(&change, files.change.as_deref())?;
            }
            None => {
                file::replace(&self.path, &files.current)?;
                put(&change, files.change.as_deref())?;
                put(&next, None)?;
            }
        }
        Self::kept_in(&self.path, now)
    }
}

fn put(path: &Path, bytes: Option<&[u8]>) -> Result<(), DnsError> {
    match bytes {
        Some(bytes) => file::replace(path, bytes),
        None => match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(DnsError::file(path, error))
            }
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollover::{Above, Phase};

    const DAY: u64 = 24 * 3600;

    #[test]
    fn a_change_of_keys_is_followed_through_each_of_its_steps() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let mut lead = Keys::kept_in(&at("lead"), 0).expect("made");
        std::fs::copy(at("lead"), at("follow")).expect("own folder");
        let mut follow = Keys::kept_in(&at("follow"), 0).expect("copied");
        let mut now = 10_000_000_000;
        for phase in [
            Phase::Introduced,
            Phase::Announced,
            Phase::Switched,
            Phase::Steady,
        ] {
            now += 400 * DAY;
            let next = lead.step(now, Some(DAY), Above::HasNext).expect("a disk");
            lead = next.expect("it is time");
            assert_eq!(lead.phase(), phase);
            let files = lead.files().expect("readable");
            follow = follow.take(&files, now).expect("they are right");
            // And again after a restart.
            for keys in [&follow, &Keys::kept_in(&at("follow"), now).expect("kept")] {
                assert_eq!(keys.phase(), phase);
                assert_eq!(keys.dnskeys(), lead.dnskeys());
                assert_eq!(keys.signing().tag(), lead.signing().tag());
            }
            assert_eq!(follow.files().expect("readable"), files);
        }
        // It missed all of it, for as long as it was off.
        let late = Keys::kept_in(&at("late"), 0).expect("another key");
        let own = std::fs::read(at("late")).expect("there");
        let late = late
            .take(&lead.files().expect("readable"), now)
            .expect("taken");
        assert_eq!(late.dnskeys(), lead.dnskeys());
        assert_eq!(std::fs::read(at("late.before")).expect("kept"), own);
    }

    #[test]
    fn what_is_no_key_leaves_those_that_there_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = Keys::kept_in(&folder.path().join("key"), 0).expect("made");
        let files = KeyFiles {
            current: b"none".to_vec(),
            ..KeyFiles::default()
        };
        let before = keys.files().expect("readable");
        assert!(keys.take(&files, 0).is_err());
        assert_eq!(keys.files().expect("readable"), before);
        let shown = format!("{files:?}");
        assert!(!shown.contains("none"), "{shown}");
    }
}
