//! The directory and the files of a store on disk: who may read them, who may write, and what
//! becomes of damaged ones.
//!
//! Not here: what is in them. Invariants: every file is made with mode 0600 and every directory
//! with 0700, since a store is a browsing history; nothing that is damaged is deleted before three
//! others of its kind were kept; a directory that was there before is never changed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::warning::Warning;

/// The database's name in the store's directory.
const DATABASE: &str = "store.sqlite";
/// The lock file's name there. It is of its own, since closing any descriptor of a database lets go
/// of SQLite's locks on it.
const LOCK: &str = "lock";
/// Damaged files that are kept. One may be worth a look; a disk that damages each of them must not
/// fill up.
const KEPT_CORRUPT: u32 = 3;
/// Bits that let anybody but the owner in.
const OTHERS: u32 = 0o077;

/// Where the database of a store in `directory` is.
pub(crate) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// Whether there is a store in `directory`.
pub(crate) fn find(directory: &Path) -> Result<(), StoreError> {
    let path = directory.to_owned();
    match fs::metadata(database(directory)) {
        Ok(found) if found.is_file() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let reason = error.to_string();
            Err(StoreError::Forbidden { path, reason })
        }
        Ok(_) | Err(_) => Err(StoreError::NoStore { path }),
    }
}

/// Why a file that SQLite could not open may not be opened, if that is the reason. Not for a
/// database that this process has open: see [`LOCK`].
pub(crate) fn refusal(path: &Path) -> Option<String> {
    let error = File::open(path).err()?;
    (error.kind() == io::ErrorKind::PermissionDenied).then(|| error.to_string())
}

/// Makes the directory if it is not there.
pub(crate) fn prepare_directory(
    directory: &Path,
) -> Result<Result<Option<Warning>, Warning>, StoreError> {
    let not_a_directory = || StoreError::NotADirectory {
        path: directory.to_owned(),
    };
    if directory.as_os_str().is_empty() {
        return Err(not_a_directory());
    }
    match fs::metadata(directory) {
        Ok(found) if !found.is_dir() => Err(not_a_directory()),
        Ok(found) => {
            let mode = found.permissions().mode() & 0o777;
            let open = Warning::OpenDirectory {
                path: directory.to_owned(),
                mode,
            };
            Ok(Ok((mode & OTHERS != 0).then_some(open)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory);
            match made {
                Ok(()) => Ok(Ok(None)),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    Err(not_a_directory())
                }
                Err(error) => Ok(Err(unwritable(directory, &error))),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(not_a_directory()),
        Err(error) => Ok(Err(unwritable(directory, &error))),
    }
}

/// Makes the database's file if it is not there, and closes it to others. To be called while no
/// connection is open.
pub(crate) fn prepare_database(path: &Path) -> Result<(), Warning> {
    let made = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path);
    let closed = match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => close_to_others(path),
        Err(error) => Err(error),
    };
    closed.map_err(|error| unwritable(path, &error))
}

fn close_to_others(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// That of the file under this name; `None` if there is none, or it cannot be told.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// The right to write to a store, until it is dropped or its process ends in whatever way (flock).
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the right, or says who has it.
    pub(crate) fn take(directory: &Path) -> Result<Self, Warning> {
        let path = directory.join(LOCK);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut file = options
            .open(&path)
            .map_err(|error| unwritable(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Warning::InUse {
                    path: directory.to_owned(),
                    process: read_process(&mut file),
                });
            }
            Err(TryLockError::Error(error)) => return Err(unwritable(&path, &error)),
        }
        // Only for the message to whoever comes second: a full disk is no reason to go without a
        // lock.
        let noted = file
            .set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        drop(noted);
        Ok(Self { _file: file })
    }
}

fn read_process(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Moves a damaged database out of the way. Its journal goes with it; its shared-memory file holds
/// nothing of its own.
pub(crate) fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let free = (1..=KEPT_CORRUPT)
        .map(|number| put_aside(path, number))
        .find(|candidate| !candidate.exists());
    let target = free.unwrap_or_else(|| put_aside(path, KEPT_CORRUPT));
    fs::rename(path, &target)?;
    let journal = with_suffix(path, "-wal");
    if journal.exists() {
        fs::rename(&journal, with_suffix(&target, "-wal"))?;
    }
    match fs::remove_file(with_suffix(path, "-shm")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(target),
    }
}

/// The name of a damaged database that was moved out of the way.
fn put_aside(path: &Path, number: u32) -> PathBuf {
    with_suffix(path, &format!(".corrupt-{number}"))
}

/// Removes damaged databases that were moved out of the way.
pub(crate) fn remove_put_aside(path: &Path) -> io::Result<()> {
    let databases = (1..=KEPT_CORRUPT).map(|number| put_aside(path, number));
    for file in databases.flat_map(|file| [with_suffix(&file, "-wal"), file]) {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(suffix);
    text.into()
}

/// Reads a file that an operator named, if it is no longer than `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {limit} bytes"),
        ));
    }
    Ok(bytes)
}

fn unwritable(path: &Path, error: &io::Error) -> Warning {
    Warning::Unwritable {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
