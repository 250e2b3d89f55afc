//! The pair's key and the store.
//!
//! Is not: their reading, which is the daemons'; an open store is not opened a second time.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use tandem_packet_io::config::{Key, KeyChoice, read_key};

use super::report::Check;

/// The store is 64 MiB at most; below this there is no room for it and a journal.
const MIN_FREE_BYTES: u64 = 100_000_000;

/// Packet mode's key.
pub(super) fn pair_key(choice: &KeyChoice) -> Check {
    match choice {
        KeyChoice::File(path) => key_file(path).0,
        KeyChoice::Insecure => Check::warning(
            "key",
            "there is none (--insecure-no-key): anybody on the path may speak as the other proxy",
            "for more than a trial: `tandem keygen`, and --key on both sides",
        ),
        KeyChoice::Unset => no_key(),
    }
}

/// Tunnel mode's key, and what it is.
pub(super) fn tunnel_key(path: Option<&Path>) -> (Check, Option<Key>) {
    match path {
        Some(path) => key_file(path),
        None => (no_key(), None),
    }
}

fn no_key() -> Check {
    Check::problem(
        "key",
        "no key file is named",
        "`tandem keygen FILE` on one side, carry the file to the other, --key FILE on both",
    )
}

fn key_file(path: &Path) -> (Check, Option<Key>) {
    let key = match read_key(path) {
        Ok(key) => key,
        Err(error) => return (Check::of_error("key", &error), None),
    };
    let shown = path.display();
    let mode = fs::metadata(path).map_or(0, |file| file.mode());
    let check = if mode & 0o077 == 0 {
        Check::ok("key", format!("{shown} can be read, and by its owner only"))
    } else {
        Check::warning(
            "key",
            format!("others may read {shown} (mode {:03o})", mode & 0o777),
            format!("chmod 600 {shown}; if others had access, make a new key for both sides"),
        )
    };
    (check, Some(key))
}

/// Whether what is learned can be kept in `directory`.
pub(super) fn store(directory: &Path) -> Check {
    let shown = directory.display();
    // The daemon makes it, within the first folder above that is there.
    let mut place: PathBuf = directory.to_owned();
    while !place.exists() {
        if !place.pop() || place.as_os_str().is_empty() {
            place = PathBuf::from(".");
        }
    }
    if !place.is_dir() {
        return Check::problem(
            "store",
            format!("{} is no folder", place.display()),
            "name another folder with --store",
        );
    }
    if access(&place, AccessFlags::W_OK | AccessFlags::X_OK).is_err() {
        return Check::problem(
            "store",
            format!("this user may not write in {}", place.display()),
            "run this as the user that the proxy runs as, or name another folder with --store",
        );
    }
    match statvfs(&place) {
        Ok(disk) => {
            let free = disk.blocks_available() * disk.fragment_size();
            if free < MIN_FREE_BYTES {
                return Check::warning(
                    "store",
                    format!("{} MB are left on the disk of {shown}", free / 1_000_000),
                    "make room: what is learned is lost at the next start",
                );
            }
            let there = if place == directory {
                "can be written"
            } else {
                "is made by the first start"
            };
            Check::ok(
                "store",
                format!("{shown} {there}; {} MB are free", free / 1_000_000),
            )
        }
        Err(errno) => Check::warning(
            "store",
            format!("the disk of {shown} cannot be asked for room: {errno}"),
            "see that it is mounted",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Verdict;
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_that_others_may_read_is_a_warning_and_none_a_problem() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        assert_eq!(key_file(&path).0.verdict, Verdict::Problem);
        fs::write(&path, "no key").expect("ours");
        assert_eq!(key_file(&path).0.verdict, Verdict::Problem);
        fs::write(&path, "0a".repeat(32)).expect("ours");
        for (mode, verdict) in [(0o644, Verdict::Warning), (0o600, Verdict::Ok)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            let (check, key) = key_file(&path);
            assert_eq!(check.verdict, verdict, "{check:?}");
            assert!(key.is_some());
        }
        assert_eq!(pair_key(&KeyChoice::Unset).verdict, Verdict::Problem);
    }

    #[test]
    fn a_store_that_is_a_file_is_a_problem_and_one_to_be_made_is_well() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let made = store(&path.join("below"));
        assert_ne!(made.verdict, Verdict::Problem, "{made:?}");
        assert!(!path.exists(), "nothing is made");
        fs::write(&path, "").expect("ours");
        assert_eq!(store(&path).verdict, Verdict::Problem);
        assert_eq!(store(&path.join("below")).verdict, Verdict::Problem);
    }
}
