//! Small texts in the store's directory that outlive the process.
//!
//! Is not: what they say.
//!
//! Invariants: a text is whole or not there; only its owner can read it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Hands the text to `take`, if there is one.
///
/// # Errors
/// It cannot be read, or `take` says that it is no such text.
pub(crate) fn read(path: &Path, take: impl FnOnce(&str) -> bool) -> io::Result<()> {
    match fs::read_to_string(path) {
        Ok(text) if take(&text) => Ok(()),
        Ok(_) => Err(io::Error::other("it has another form")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Replaces the text. Where it is the same nothing is written, which flash memory likes.
///
/// # Errors
/// It cannot be written; then the old one stays.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&beside)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&beside, path)
}
