//! Small texts in the store's directory that outlive the process.
//!
//! Is not: what they say.
//!
//! Invariants: a text is whole or not there, after a power cut, too; only its owner can read it; a
//! disk that fails is said once, and again when it works.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// One text.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    /// What it says, for the log.
    what: &'static str,
    /// Held while the file is written.
    last: Mutex<Last>,
}

/// How the last attempt to write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Worked,
    Failed,
}

impl Kept {
    /// A file in the directory of the store.
    pub(crate) fn new(store: &Path, name: &str, what: &'static str) -> Self {
        Self {
            path: store.join(name),
            what,
            last: Mutex::new(Last::Worked),
        }
    }

    /// What `parse` makes of the text. `None`: there is none yet, or it is of no use, which the log
    /// says.
    pub(crate) fn read<T>(&self, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let problem = match fs::read_to_string(&self.path) {
            Ok(text) => match parse(&text) {
                Some(read) => return Some(read),
                None => io::Error::other("it is damaged"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error,
        };
        let (file, what) = (self.path.display(), self.what);
        tracing::warn!("cannot use {file}: {problem}; {what} is counted from zero");
        None
    }

    /// Replaces the text; where that fails, the old one stays. Waits for the disk.
    pub(crate) fn write(&self, text: impl FnOnce() -> String) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Made while the file is locked: the last to write has the newest text.
        let result = replace(&self.path, &text());
        let (file, what) = (self.path.display(), self.what);
        *last = match (*last, result) {
            (Last::Worked, Ok(())) => Last::Worked,
            (Last::Failed, Ok(())) => {
                tracing::info!("{file} is written again");
                Last::Worked
            }
            (Last::Worked, Err(error)) => {
                tracing::warn!("cannot write {file}: {error}; a restart forgets {what}");
                Last::Failed
            }
            (Last::Failed, Err(_)) => Last::Failed,
        };
    }
}

/// Where it is the same nothing is written, which flash memory likes.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let beside = path.with_extension("new");
    let replaced = written(&beside, text).and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        // A full disk needs the room. It may not be there at all.
        let _ = fs::remove_file(&beside);
    }
    replaced
}

fn written(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    // Some file systems would do the renaming first, and a power cut would leave an empty file.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn text(kept: &Kept) -> Option<String> {
        kept.read(|text| Some(text.to_owned()))
    }

    #[test]
    fn a_text_is_replaced_and_only_its_owner_reads_it() {
        let store = tempfile::tempdir().expect("a directory");
        let kept = Kept::new(store.path(), "text", "it");
        assert_eq!(text(&kept), None);
        kept.write(|| "one".to_owned());
        kept.write(|| "two".to_owned());
        assert_eq!(text(&kept).as_deref(), Some("two"));
        let metadata = fs::metadata(&kept.path).expect("it is there");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let names = fs::read_dir(store.path()).expect("a directory");
        assert_eq!(names.count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind_and_is_written_later() {
        let store = tempfile::tempdir().expect("a directory");
        let kept = Kept::new(store.path(), "text", "it");
        // No file takes the place of a directory that is not empty.
        fs::create_dir_all(kept.path.join("full")).expect("ours");
        kept.write(|| "one".to_owned());
        assert_eq!(*kept.last.lock().expect("no panic"), Last::Failed);
        assert!(!kept.path.with_extension("new").exists());
        assert_eq!(text(&kept), None);
        fs::remove_dir_all(&kept.path).expect("ours");
        kept.write(|| "two".to_owned());
        assert_eq!(*kept.last.lock().expect("no panic"), Last::Worked);
        assert_eq!(text(&kept).as_deref(), Some("two"));
    }

    #[test]
    fn what_is_no_such_text_is_none() {
        let store = tempfile::tempdir().expect("a directory");
        let kept = Kept::new(store.path(), "text", "it");
        fs::write(&kept.path, [0xff]).expect("ours");
        assert_eq!(text(&kept), None);
        fs::write(&kept.path, "nonsense").expect("ours");
        assert_eq!(kept.read(|_| None::<()>), None);
    }
}
