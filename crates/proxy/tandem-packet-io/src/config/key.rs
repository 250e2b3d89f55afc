//! Where the pair's key comes from, and reading it.
//!
//! Is not: the key's use, which is `tandem-link`'s.
//!
//! Invariant: the digits are never printed, not by `Debug` either.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tandem_link::inband::Key;

use crate::error::IoError;

/// The most that is read of a key file: the digits and some white space.
const MAX_BYTES: u64 = 4096;

/// Where the pair's key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChoice {
    /// In this file.
    File(PathBuf),
    /// Nowhere, on purpose: anybody on the path may speak as the other proxy.
    Insecure,
    /// Nothing was said: packet mode does not start.
    Unset,
}

/// Reads a key file: 64 hex digits, white space around them ignored. Warns if others than the owner
/// may read it.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read_key(path: &Path) -> Result<Key, IoError> {
    let unreadable = |source| IoError::KeyFile {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_file() && metadata.mode() & 0o077 != 0 {
        tracing::warn!(
            mode = format_args!("{:03o}", metadata.mode() & 0o777),
            "others may read the key file {}; run `chmod 600` on it",
            path.display()
        );
    }
    let mut text = String::new();
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Key::from_hex(&text)
        .map_err(|why| IoError::setting("key", format!("{}: {why}", path.display())))
}

pub(super) fn choose(file: Option<PathBuf>, insecure: Option<bool>) -> Result<KeyChoice, IoError> {
    match (file, insecure.unwrap_or(false)) {
        (Some(_), true) => Err(IoError::setting(
            "insecure-no-key",
            "a key is set too; take one of them away",
        )),
        (Some(path), false) => Ok(KeyChoice::File(path)),
        (None, true) => Ok(KeyChoice::Insecure),
        (None, false) => Ok(KeyChoice::Unset),
    }
}

impl KeyChoice {
    /// The key, or `None` where that is on purpose.
    ///
    /// # Errors
    /// Nothing was said, or the file cannot be read or holds something else.
    pub fn load(&self) -> Result<Option<Key>, IoError> {
        match self {
            KeyChoice::File(path) => read_key(path).map(Some),
            KeyChoice::Insecure => {
                tracing::warn!("without a key anybody on the path may speak as the other proxy");
                Ok(None)
            }
            KeyChoice::Unset => Err(IoError::setting(
                "key",
                "name the file of the key that both sides share (`tandem keygen` makes one), or say --insecure-no-key",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file_and_not_its_content() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("key");
        let choice = KeyChoice::File(path.clone());
        let missing = choice.load().expect_err("there is none");
        assert!(matches!(missing, IoError::KeyFile { .. }), "{missing:?}");
        assert!(missing.to_string().contains("64 hex digits"));
        std::fs::write(&path, "secret words").expect("writable");
        let wrong = choice.load().expect_err("no key");
        assert!(wrong.to_string().contains("tandem keygen"));
        assert!(!wrong.to_string().contains("secret"));
        std::fs::write(&path, format!("\n{}\n", "0a".repeat(32))).expect("writable");
        let key = choice.load().expect("64 digits");
        assert_eq!(key, Some(Key::from_bytes([10; 32])));
    }

    #[test]
    fn no_key_has_to_be_on_purpose() {
        let unset = choose(None, None).expect("left open");
        assert!(unset.load().is_err());
        let insecure = choose(None, Some(true)).expect("on purpose");
        assert_eq!(insecure.load().expect("on purpose"), None);
        assert!(choose(Some(PathBuf::from("k")), Some(true)).is_err());
    }
}
