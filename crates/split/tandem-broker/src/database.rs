//! What the broker knows and a restart must not cost: the members, the last version of the list,
//! what members have said that they did, and whom looks have found to change records.
//!
//! Is not: when something is written ([`crate::keeper`]). A cache of nothing: all of it is in
//! memory while the broker runs.
//!
//! Invariants: one broker has the file at a time; every write is one transaction, and synchronous,
//! so that no version of the list is given out twice; a file of another program, of a later version
//! or of another site is never changed; a damaged one is set aside, not deleted.

mod bars;
pub(crate) mod copy;

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};
use tandem_barnraising::roster::Bar;
use tandem_barnraising::talk::Told;
use tandem_barnraising::uri::Name;
use tandem_barnraising::{Member, PublicKey};
use tandem_wire::UnixTime;

use crate::error::BrokerError;

pub(crate) use bars::Clocks;

/// Marks a SQLite file as a broker's: `TBRN`.
const APPLICATION_ID: i64 = 0x5442_524e;
/// The version of the tables below.
const VERSION: i64 = 4;
/// Damaged files that are kept.
const KEPT_CORRUPT: u32 = 3;

/// Version 4. Times are Unix seconds.
const SITE: &str = "
    CREATE TABLE site (
        name TEXT PRIMARY KEY NOT NULL,
        version INTEGER NOT NULL,
        clients INTEGER NOT NULL,
        sent INTEGER NOT NULL,
        from_origin INTEGER NOT NULL,
        accepted INTEGER NOT NULL DEFAULT 0
    ) STRICT;
";

/// The same. A volunteer has a row for each of its addresses. What it `was` told before it was last
/// started is kept apart from what it tells now; both are the same in all of its rows.
const MEMBERS: &str = "
    CREATE TABLE members (
        key BLOB NOT NULL CHECK (length(key) = 32),
        address TEXT NOT NULL,
        peers INTEGER NOT NULL,
        healthy INTEGER NOT NULL,
        joined INTEGER NOT NULL,
        clients INTEGER NOT NULL,
        sent INTEGER NOT NULL,
        from_origin INTEGER NOT NULL,
        was_clients INTEGER NOT NULL,
        was_sent INTEGER NOT NULL,
        was_from_origin INTEGER NOT NULL,
        PRIMARY KEY (key, address)
    ) STRICT, WITHOUT ROWID;
";

/// From version 1 to 2.
const SECOND: &str = "ALTER TABLE site ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;";

/// From version 2 to 3, before and after [`MEMBERS`]: the key alone was primary, and the columns
/// were the same.
const THIRD: [&str; 2] = [
    "ALTER TABLE members RENAME TO old_members;",
    "INSERT INTO members SELECT * FROM old_members; DROP TABLE old_members;",
];

/// A member, as it is kept: a volunteer at one of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) member: Member,
    pub(crate) standing: Standing,
    pub(crate) joined: UnixTime,
    /// What it said last.
    pub(crate) told: Told,
    /// What it had said before it was started anew.
    pub(crate) was: Told,
}

/// Whether browsers were sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Healthy,
    Unproven,
}

/// The site as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Site {
    /// The last version of the list.
    pub(crate) version: u64,
    /// What those have done who have left.
    pub(crate) gone: Told,
    /// When the last look at the site's name found nothing to refuse; 0: never, or a later one
    /// did.
    pub(crate) accepted: UnixTime,
}

/// What was kept.
#[derive(Debug)]
pub(crate) struct Kept {
    /// `None` in a new file.
    pub(crate) site: Option<Site>,
    pub(crate) members: Vec<Row>,
    pub(crate) bars: Vec<Bar>,
    /// When that was written.
    pub(crate) clocks: Clocks,
}

impl Kept {
    /// Whether there is anything to answer by. A standby that has never had a copy writes down
    /// version 0.
    pub(crate) fn is_known(&self) -> bool {
        self.site.is_some_and(|site| site.version > 0)
    }
}

/// See above.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
    site: Name,
}

/// Why a file is of no use.
enum Fault {
    Corrupt(String),
    Busy,
    Other(BrokerError),
}

impl Fault {
    fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => {
                Self::Corrupt(reason)
            }
            Some(_) => Self::Other(unusable(path, reason)),
        }
    }
}

impl Database {
    /// Opens the file, which is made if it is missing, and reads what is in it.
    ///
    /// # Errors
    /// It cannot be used, or is somebody else's.
    pub(crate) fn open(path: &Path, site: &Name) -> Result<(Self, Kept), BrokerError> {
        prepare(path).map_err(|error| unusable(path, error.to_string()))?;
        let opened = match Self::try_open(path, site) {
            Err(Fault::Corrupt(reason)) => {
                let moved = move_aside(path).map_err(|error| unusable(path, error.to_string()))?;
                tracing::warn!(path = %path.display(), %reason, moved_to = %moved.display(),
                    "the database is damaged and was set aside: volunteers are known again when they renew");
                prepare(path).map_err(|error| unusable(path, error.to_string()))?;
                Self::try_open(path, site)
            }
            opened => opened,
        };
        opened.map_err(|fault| match fault {
            Fault::Corrupt(reason) => unusable(path, reason),
            Fault::Busy => BrokerError::DatabaseBusy {
                path: path.to_owned(),
            },
            Fault::Other(error) => error,
        })
    }

    fn try_open(path: &Path, site: &Name) -> Result<(Self, Kept), Fault> {
        let fault = |error: rusqlite::Error| Fault::of(path, &error);
        let foreign = |reason: String| {
            Fault::Other(BrokerError::Foreign {
                path: path.to_owned(),
                reason,
            })
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(fault)?;
        harden(&connection).map_err(fault)?;
        let (application, version, has_tables) = kind(&connection).map_err(fault)?;
        match (has_tables, application, version) {
            (false, 0 | APPLICATION_ID, _) | (true, APPLICATION_ID, 1..=VERSION) => {}
            (true, APPLICATION_ID, later) => {
                return Err(foreign(format!(
                    "is of a later version of Tandem (schema {later}, this one knows {VERSION}); run that, or name another directory as `state`"
                )));
            }
            _ => {
                return Err(foreign(
                    "is some other program's; name another directory as `state`".to_owned(),
                ));
            }
        }
        // From here on nobody else can read or write it: an exclusive lock is kept from the first
        // transaction on.
        connection
            .pragma_update(None, "locking_mode", "EXCLUSIVE")
            .map_err(fault)?;
        connection
            .execute_batch("BEGIN IMMEDIATE; COMMIT;")
            .map_err(fault)?;
        let check: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(fault)?;
        if check != "ok" {
            return Err(Fault::Corrupt(check));
        }
        tune(&connection).map_err(fault)?;
        if !has_tables {
            let transaction = connection.transaction().map_err(fault)?;
            create(&transaction).map_err(fault)?;
            transaction.commit().map_err(fault)?;
        } else if version < VERSION {
            let transaction = connection.transaction().map_err(fault)?;
            upgrade(&transaction, version).map_err(fault)?;
            transaction.commit().map_err(fault)?;
        }
        let kept = read(&connection, site).map_err(fault)?;
        let database = Self {
            connection,
            site: site.clone(),
        };
        if kept.site.is_none()
            && let Some(other) = database.other_site().map_err(fault)?
        {
            return Err(foreign(format!(
                "is the broker's of {other}, not of {site}; name another directory as `state`"
            )));
        }
        Ok((database, kept))
    }

    fn other_site(&self) -> rusqlite::Result<Option<String>> {
        self.connection
            .query_row("SELECT name FROM site LIMIT 1", [], |row| row.get(0))
            .optional()
    }

    /// Writes the site, all rows of these volunteers (without a row: it is no member any more), and
    /// what is held against these addresses.
    pub(crate) fn write<'a>(
        &mut self,
        site: Site,
        clocks: Clocks,
        volunteers: impl IntoIterator<Item = (&'a PublicKey, Vec<Row>)>,
        bars: impl IntoIterator<Item = (IpAddr, Option<Bar>)>,
    ) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        write_site(&transaction, &self.site, site)?;
        clocks.write(&transaction)?;
        for (key, rows) in volunteers {
            transaction
                .prepare_cached("DELETE FROM members WHERE key = ?1")?
                .execute(params![key.0])?;
            for row in rows {
                write_row(&transaction, &row)?;
            }
        }
        for (address, bar) in bars {
            match bar {
                Some(bar) => bars::write(&transaction, &bar)?,
                None => bars::delete(&transaction, address)?,
            }
        }
        transaction.commit()
    }
}

#[cfg(test)]
impl Database {
    /// As a disk that has become read-only would.
    pub(crate) fn refuse_writing(&mut self) {
        let set = self.connection.pragma_update(None, "query_only", true);
        set.expect("a setting of this connection");
    }

    /// As it was.
    pub(crate) fn allow_writing(&mut self) {
        let set = self.connection.pragma_update(None, "query_only", false);
        set.expect("a setting of this connection");
    }
}

fn read(connection: &Connection, site: &Name) -> rusqlite::Result<Kept> {
    Ok(Kept {
        site: read_site(connection, site)?,
        members: read_members(connection)?,
        bars: bars::read(connection)?,
        clocks: Clocks::read(connection)?,
    })
}

fn write_site(connection: &Connection, name: &Name, site: Site) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO site VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![
            name.as_str(),
            number(site.version),
            number(site.gone.clients),
            number(site.gone.sent),
            number(site.gone.from_origin),
            number(site.accepted.0)
        ])?;
    Ok(())
}

fn write_row(connection: &Connection, row: &Row) -> rusqlite::Result<()> {
    let healthy = match row.standing {
        Standing::Healthy => 1,
        Standing::Unproven => 0,
    };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO members VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            row.member.key.0,
            row.member.address.to_string(),
            row.member.peers.port(),
            healthy,
            number(row.joined.0),
            number(row.told.clients),
            number(row.told.sent),
            number(row.told.from_origin),
            number(row.was.clients),
            number(row.was.sent),
            number(row.was.from_origin),
        ])?;
    Ok(())
}

fn read_site(connection: &Connection, site: &Name) -> rusqlite::Result<Option<Site>> {
    connection
        .query_row(
            "SELECT version, clients, sent, from_origin, accepted FROM site WHERE name = ?1",
            [site.as_str()],
            |row| {
                Ok(Site {
                    version: unsigned(row, 0)?,
                    gone: told(row, 1)?,
                    accepted: UnixTime(unsigned(row, 4)?),
                })
            },
        )
        .optional()
}

/// Members in the order in which the roster is to take them back: healthy ones before others, and
/// of these who joined first, so that nobody gains by a restart.
fn read_members(connection: &Connection) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare(
        "SELECT key, address, peers, healthy, joined, clients, sent, from_origin,
                was_clients, was_sent, was_from_origin FROM members
         ORDER BY healthy = 0, joined, key, address",
    )?;
    let rows = statement.query_map([], |row| {
        let text: String = row.get(1)?;
        let address: IpAddr = text.parse().map_err(|_| rusqlite::Error::InvalidQuery)?;
        Ok(Row {
            member: Member {
                key: PublicKey(row.get(0)?),
                address,
                peers: SocketAddr::new(address, row.get(2)?),
            },
            standing: match row.get::<_, i64>(3)? {
                0 => Standing::Unproven,
                _ => Standing::Healthy,
            },
            joined: UnixTime(unsigned(row, 4)?),
            told: told(row, 5)?,
            was: told(row, 8)?,
        })
    })?;
    rows.collect()
}

fn told(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Told> {
    Ok(Told {
        clients: unsigned(row, first)?,
        sent: unsigned(row, first + 1)?,
        from_origin: unsigned(row, first + 2)?,
    })
}

fn unsigned(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(index).map(i64::cast_unsigned)
}

/// SQLite has no unsigned numbers; what does not fit is as large as can be.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn kind(connection: &Connection) -> rusqlite::Result<(i64, i64, bool)> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let has_tables = connection
        .query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))
        .optional()?
        .is_some();
    Ok((
        pragma("application_id")?,
        pragma("user_version")?,
        has_tables,
    ))
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(SITE)?;
    connection.execute_batch(MEMBERS)?;
    connection.execute_batch(bars::TABLES)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)
}

fn upgrade(connection: &Connection, from: i64) -> rusqlite::Result<()> {
    if from < 2 {
        connection.execute_batch(SECOND)?;
    }
    if from < 3 {
        let [before, after] = THIRD;
        for step in [before, MEMBERS, after] {
            connection.execute_batch(step)?;
        }
    }
    connection.execute_batch(bars::TABLES)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Makes a connection safe to use on a file that somebody may have tampered with.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

fn tune(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A version of the list that was given out must be known after a power cut, too.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

/// Makes the file, for its owner alone, if it is not there.
fn prepare(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves a damaged file out of the way, with its journal.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = |number: u32| with_suffix(path, &format!(".corrupt-{number}"));
    let free = (1..=KEPT_CORRUPT)
        .map(aside)
        .find(|candidate| !candidate.exists());
    let target = free.unwrap_or_else(|| aside(KEPT_CORRUPT));
    fs::rename(path, &target)?;
    for suffix in ["-wal", "-shm"] {
        match fs::rename(with_suffix(path, suffix), with_suffix(&target, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(target)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(suffix);
    text.into()
}

fn unusable(path: &Path, reason: String) -> BrokerError {
    BrokerError::Database {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn row(number: u8) -> Row {
        let address = IpAddr::from([192, 0, 2, number]);
        Row {
            member: Member {
                key: PublicKey([number; 32]),
                address,
                peers: SocketAddr::new(address, 7),
            },
            standing: Standing::Healthy,
            joined: UnixTime(5),
            told: Told {
                clients: 1,
                sent: 2,
                from_origin: 3,
            },
            was: Told {
                clients: 4,
                sent: 5,
                from_origin: 6,
            },
        }
    }

    fn written(path: &Path) -> (Site, Row) {
        let (mut database, kept) = Database::open(path, &name("a.example")).expect("a new file");
        assert!(kept.site.is_none() && kept.members.is_empty());
        let site = Site {
            version: 9,
            gone: row(1).told,
            accepted: UnixTime(7),
        };
        let (one, two) = (row(1), row(2));
        let rows = [(&one.member.key, vec![one]), (&two.member.key, vec![two])];
        let clocks = Clocks::default();
        database.write(site, clocks, rows, []).expect("a disk");
        let gone = [(&two.member.key, Vec::new())];
        database.write(site, clocks, gone, []).expect("a disk");
        (site, one)
    }

    #[test]
    fn what_was_written_is_there_after_a_restart_and_one_broker_has_it_at_a_time() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        let (site, row) = written(&path);
        let (held, kept) = Database::open(&path, &name("a.example")).expect("as it was");
        assert_eq!((kept.site, kept.members), (Some(site), vec![row]));
        let second = Database::open(&path, &name("a.example"));
        assert!(matches!(second, Err(BrokerError::DatabaseBusy { .. })));
        drop(held);
        let other = Database::open(&path, &name("b.example"));
        let Err(BrokerError::Foreign { reason, .. }) = other else {
            panic!("{other:?}");
        };
        assert!(reason.contains("a.example"), "{reason}");
    }

    #[test]
    fn who_was_healthy_the_longest_is_read_first() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        let (mut database, _) = Database::open(&path, &name("a.example")).expect("a new file");
        let aged = |number: u8, standing: Standing, joined: u64| Row {
            standing,
            joined: UnixTime(joined),
            ..row(number)
        };
        let rows = [
            aged(1, Standing::Unproven, 1),
            aged(2, Standing::Healthy, 30),
            aged(3, Standing::Healthy, 20),
            aged(4, Standing::Healthy, 20),
        ];
        let keys = rows.each_ref().map(|row| row.member.key);
        let site = Site {
            version: 9,
            gone: row(1).told,
            accepted: UnixTime(7),
        };
        let written = keys.iter().zip(rows.map(|row| vec![row]));
        let clocks = Clocks::default();
        database.write(site, clocks, written, []).expect("a disk");
        drop(database);
        let (_, kept) = Database::open(&path, &name("a.example")).expect("as it was");
        let order: Vec<u8> = kept.members.iter().map(|row| row.member.key.0[0]).collect();
        assert_eq!(order, [3, 4, 2, 1]);
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_a_foreign_one_is_left_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        written(&path);
        let mut bytes = fs::read(&path).expect("ours");
        bytes[..100].fill(0xff);
        fs::write(&path, &bytes).expect("ours");
        let (_, kept) = Database::open(&path, &name("a.example")).expect("a new one");
        assert!(kept.site.is_none());
        let aside = folder.path().join("broker.sqlite.corrupt-1");
        assert_eq!(fs::read(aside).expect("kept"), bytes);

        let path = folder.path().join("other.sqlite");
        let other = Connection::open(&path).expect("a file");
        other
            .execute_batch("CREATE TABLE theirs (a)")
            .expect("a disk");
        drop(other);
        let before = fs::read(&path).expect("theirs");
        let opened = Database::open(&path, &name("a.example"));
        assert!(matches!(opened, Err(BrokerError::Foreign { .. })));
        assert_eq!(fs::read(&path).expect("theirs"), before);
    }

    #[test]
    fn a_volunteer_has_a_row_for_each_address_that_it_has_now() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        let (mut database, _) = Database::open(&path, &name("a.example")).expect("a new file");
        let four = row(1);
        let address: IpAddr = "2001:db8::1".parse().expect("an address");
        let six = Row {
            member: Member {
                address,
                peers: SocketAddr::new(address, 7),
                ..four.member
            },
            standing: Standing::Unproven,
            ..four
        };
        for rows in [vec![four, six], vec![six], vec![four, six]] {
            let kept = rows.clone();
            let written = [(&four.member.key, rows)];
            let site = Site::default();
            let clocks = Clocks::default();
            database.write(site, clocks, written, []).expect("a disk");
            drop(database);
            let opened = Database::open(&path, &name("a.example")).expect("as it was");
            assert_eq!(opened.1.members, kept);
            database = opened.0;
        }
    }

    #[test]
    fn a_file_with_a_bar_of_no_address_is_damaged() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        let (mut database, _) = Database::open(&path, &name("a.example")).expect("a new file");
        let new = bars::tests::bars().map(|bar| (bar.address, Some(bar)));
        let written = database.write(Site::default(), Clocks::default(), [], new);
        written.expect("a disk");
        let set = "UPDATE bars SET address = address || 'x'";
        database.connection.execute_batch(set).expect("a disk");
        drop(database);
        let (_, kept) = Database::open(&path, &name("a.example")).expect("a new one");
        assert!(kept.site.is_none() && kept.bars.is_empty());
        assert!(folder.path().join("broker.sqlite.corrupt-1").exists());
    }

    /// What `sqlite3 .dump` says of a file that a broker wrote when volunteers had one address
    /// (2026-11-28), with its two pragmas: one volunteer that is well, and one that never was.
    const SECOND_FILE: &str = include_str!("database/version2.sql");

    #[test]
    fn a_file_of_the_second_version_is_taken_over() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        let second = Connection::open(&path).expect("a file");
        second.execute_batch(SECOND_FILE).expect("a disk");
        drop(second);
        let kept_row = |host: u8, port: u16, standing: Standing, told: [u64; 3]| {
            let address = IpAddr::from([127, 0, 0, host]);
            let [clients, sent, from_origin] = told;
            let told = Told {
                clients,
                sent,
                from_origin,
            };
            (SocketAddr::new(address, port), standing, told)
        };
        for _ in 0..2 {
            let (database, kept) = Database::open(&path, &name("a.example")).expect("ours");
            assert_eq!(kept.site.map(|site| site.version), Some(1_795_867_774));
            let rows = kept.members.iter();
            let rows: Vec<_> = rows
                .map(|row| (row.member.peers, row.standing, row.told))
                .collect();
            assert_eq!(
                rows,
                [
                    kept_row(2, 17_444, Standing::Healthy, [9, 14_807, 8_557]),
                    kept_row(3, 0, Standing::Unproven, [0; 3]),
                ]
            );
            let first = kept.members[0].member;
            assert_eq!(first.address, first.peers.ip());
            assert!(first.key.to_string().starts_with("62be61853e6c5204"));
            let (_, version, _) = kind(&database.connection).expect("ours");
            assert_eq!(version, VERSION);
        }
    }

    /// The same of one that volunteers with two addresses came to (2026-11-28): one that is well at
    /// both, and one that never was well.
    const THIRD_FILE: &str = include_str!("database/version3.sql");

    #[test]
    fn a_file_of_the_third_version_is_taken_over_and_takes_bars() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        let third = Connection::open(&path).expect("a file");
        third.execute_batch(THIRD_FILE).expect("a disk");
        drop(third);
        let (mut database, before) = Database::open(&path, &name("a.example")).expect("ours");
        let rows = before.members.iter();
        let rows: Vec<_> = rows
            .map(|row| (row.member.address.to_string(), row.standing, row.told.sent))
            .collect();
        let well = |address: &str| (address.to_owned(), Standing::Healthy, 103_798);
        let never = ("127.0.0.3".to_owned(), Standing::Unproven, 0);
        assert_eq!(rows, [well("127.0.0.2"), well("::1"), never]);
        assert_eq!(
            (&before.bars[..], before.clocks),
            (&[][..], Clocks::default())
        );
        let bars = bars::tests::bars();
        let clocks = Clocks {
            steady: UnixTime(8),
            wall: UnixTime(9),
        };
        let site = before.site.expect("it has one");
        let new = bars.map(|bar| (bar.address, Some(bar)));
        database.write(site, clocks, [], new).expect("a disk");
        drop(database);
        let (database, kept) = Database::open(&path, &name("a.example")).expect("ours");
        assert_eq!((kept.site, &kept.members), (before.site, &before.members));
        assert_eq!((&kept.bars[..], kept.clocks), (&bars[..], clocks));
        let (_, version, _) = kind(&database.connection).expect("ours");
        assert_eq!(version, VERSION);
    }

    #[test]
    fn the_first_version_is_taken_over() {
        let folder = tempfile::tempdir().expect("a directory");
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        for path in [&first, &second] {
            let file = Connection::open(path).expect("a file");
            file.execute_batch(SECOND_FILE).expect("a disk");
        }
        let file = Connection::open(&first).expect("a file");
        file.execute_batch("ALTER TABLE site DROP COLUMN accepted; PRAGMA user_version = 1;")
            .expect("a disk");
        drop(file);
        let (_, second) = Database::open(&second, &name("a.example")).expect("ours");
        for _ in 0..2 {
            let (_, kept) = Database::open(&first, &name("a.example")).expect("ours");
            assert_eq!(kept.site, second.site);
            assert_eq!(kept.members, second.members);
        }
    }

    #[test]
    fn a_later_version_is_not_touched() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("broker.sqlite");
        written(&path);
        let later = Connection::open(&path).expect("a file");
        later
            .pragma_update(None, "user_version", VERSION + 1)
            .expect("a disk");
        drop(later);
        let opened = Database::open(&path, &name("a.example"));
        let Err(BrokerError::Foreign { reason, .. }) = opened else {
            panic!("{opened:?}");
        };
        assert!(reason.contains("later version"), "{reason}");
    }
}
