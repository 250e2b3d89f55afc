//! Opening a database: the settings of a connection, telling a damaged file from a disk that is
//! full or closed, and reading what is there.
//!
//! Not here: files as such, the store. Invariant: a file that is not ours, or of a later version,
//! is not written to.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tandem_store::Limits;
use tandem_store::backing::Catalogue;

use crate::rows;
use crate::schema::{self, Schema};

/// How long to wait for another connection's lock. Readers of ours hold none for longer than a
/// transaction.
const BUSY: core::time::Duration = core::time::Duration::from_secs(2);
/// Bytes to which the journal is cut back after a checkpoint: that of SQLite's own default
/// checkpoint, 1,000 pages of 4,096.
const JOURNAL_LIMIT: i64 = 4_096_000;
/// Kibibytes of pages that SQLite keeps; the store's own front does better, since it knows what is
/// in use.
const PAGE_CACHE_KIB: i64 = 512;

/// Why a database is of no use.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is damaged; what SQLite says of it.
    Corrupt(String),
    /// It cannot be read or written now; what the system says.
    Disk(String),
    /// A later version of this program wrote it.
    Newer(i64),
    /// Some other program's.
    NotOurs,
    /// It is no longer where it was: nobody would find what is written to it.
    Removed,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::AuthorizationForStatementDenied
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NoLargeFileSupport
                | ErrorCode::OutOfMemory
                | ErrorCode::OperationInterrupted
                | ErrorCode::OperationAborted,
            ) => Self::Disk(reason),
            // What is left is a file that SQLite does not understand, or whose rows are not as we
            // write them: missing tables, violated constraints, values of another type.
            Some(_) | None => Self::Corrupt(reason),
        }
    }
}

/// A database that was found in order.
#[derive(Debug)]
pub(crate) struct Opened {
    /// For the writer.
    pub(crate) connection: Connection,
    /// What is in it.
    pub(crate) catalogue: Catalogue,
    /// The version that it had, if it had to be brought up to date.
    pub(crate) migrated_from: Option<i64>,
}

/// Opens a database for writing, makes or migrates its tables, checks it, and reads what is in it.
pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Opened, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    harden(&connection)?;
    // SQLite falls back to reading where it cannot write.
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(Fault::Disk("read-only file".to_owned()));
    }
    let schema = schema::find(&connection)?;
    let migrated_from = match schema {
        Schema::Empty => {
            // Only before the first table can a database learn to give pages back.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            None
        }
        Schema::Current => None,
        Schema::Older(version) => Some(version),
        Schema::Newer(version) => return Err(Fault::Newer(version)),
        Schema::NotOurs => return Err(Fault::NotOurs),
    };
    let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if check != "ok" {
        return Err(Fault::Corrupt(check));
    }
    tune(&connection)?;
    match schema {
        Schema::Empty => schema::create(&mut connection)?,
        Schema::Older(version) => schema::migrate(&mut connection, version, limits.names_per_leaf)?,
        Schema::Current | Schema::Newer(_) | Schema::NotOurs => {}
    }
    schema::remove_unknown_kinds(&connection)?;
    let catalogue = rows::read_catalogue(&connection, limits.clone())?;
    Ok(Opened {
        connection,
        catalogue,
        migrated_from,
    })
}

/// Opens a database for reading only, beside whoever writes.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    harden(&connection)?;
    match schema::find(&connection)? {
        Schema::Current | Schema::Empty => Ok(connection),
        Schema::Older(version) => Err(Fault::Disk(format!(
            "it has schema {version} of an earlier version; the daemon brings it up to date when it starts"
        ))),
        Schema::Newer(version) => Err(Fault::Newer(version)),
        Schema::NotOurs => Err(Fault::NotOurs),
    }
}

/// Makes a connection safe to use on a file that somebody may have tampered with.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)
}

/// Settings of the one connection that writes.
fn tune(connection: &Connection) -> rusqlite::Result<()> {
    // Readers never wait for the writer, and a commit is an append. Without a sync at each commit a
    // power cut may lose the last transactions; it cannot damage the file (sqlite.org/wal.html,
    // section 2).
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    debug_assert_eq!(mode, "wal", "a file on disk can have a journal");
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_LIMIT)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What is deleted is overwritten: a store is a browsing history.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}
