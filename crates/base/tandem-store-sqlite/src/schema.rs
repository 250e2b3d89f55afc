//! The tables, their versions, and how one version becomes the next.
//!
//! Not here: reading and writing rows. Invariants: a database is either empty, or has our
//! application id and a version; a version once released never changes; bringing one up to date is
//! one transaction, so that it happens wholly or not at all.
//!
//! The thesis lets triggers stamp each row with the time and delete old ones after each insertion
//! (section A.7). Here the time comes in with each row, from the one clock that the event loop
//! reads, and what goes when is decided by the catalogue, for rows and memory alike: a trigger
//! would be a second opinion, run within somebody's handshake. What a constraint can hold, the
//! tables hold: lengths, and by foreign keys that no chain lacks a certificate and no sighting a
//! chain.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tandem_store::backing::ChainEntry;
use tandem_store::backing::LeafFacts;
use tandem_store::{ChainId, DIGEST_LENGTH, Digest};
use tandem_wire::clock::UnixTime;

use crate::rows;

/// Marks a SQLite file as ours: `TNDM`.
pub(crate) const APPLICATION_ID: i64 = 0x544e_444d;
/// The version that this program writes.
pub(crate) const VERSION: i64 = 2;

/// Version 2. Times are Unix seconds; `seen` and `used` are turns, which only grow; digests are
/// SHA-256.
///
/// ```text
/// sightings(site, chain) --> chains(id) <-- links(chain, position, certificate) --> certificates(digest)
/// ```
const TABLES: &str = "
    CREATE TABLE certificates (
        digest BLOB PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
        der BLOB NOT NULL,
        added INTEGER NOT NULL,
        single_used INTEGER,
        not_after INTEGER
    ) STRICT;
    CREATE TABLE chains (
        id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 32),
        names TEXT NOT NULL,
        not_after INTEGER,
        first_seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL,
        seen INTEGER NOT NULL,
        used INTEGER NOT NULL,
        hits INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE links (
        chain BLOB NOT NULL REFERENCES chains (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        certificate BLOB NOT NULL REFERENCES certificates (digest),
        PRIMARY KEY (chain, position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX links_by_certificate ON links (certificate);
    CREATE TABLE sightings (
        site TEXT NOT NULL,
        chain BLOB NOT NULL REFERENCES chains (id) ON DELETE CASCADE,
        seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL,
        PRIMARY KEY (site, chain)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX sightings_by_chain ON sightings (chain);
";

/// What kind of database a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Without any table.
    Empty,
    /// Of this program's version.
    Current,
    /// Of an earlier version.
    Older(i64),
    /// Of a later version.
    Newer(i64),
    /// Some other program's.
    NotOurs,
}

/// Says what kind of database this is.
pub(crate) fn kind(connection: &Connection) -> rusqlite::Result<Kind> {
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let has_tables = connection
        .query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))
        .optional()?
        .is_some();
    Ok(match (has_tables, application) {
        (false, 0 | APPLICATION_ID) => Kind::Empty,
        (true, APPLICATION_ID) if version == VERSION => Kind::Current,
        (true, APPLICATION_ID) if version > VERSION => Kind::Newer(version),
        (true, APPLICATION_ID) if version >= 1 => Kind::Older(version),
        (true | false, _) => Kind::NotOurs,
    })
}

/// Makes the tables in an empty database.
pub(crate) fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    mark(&transaction)?;
    transaction.commit()
}

/// Brings an older database up to date.
pub(crate) fn migrate(
    connection: &mut Connection,
    from: i64,
    names_per_leaf: usize,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    if from == 1 {
        migrate_1_to_2(&transaction, names_per_leaf)?;
    }
    mark(&transaction)?;
    transaction.commit()
}

fn mark(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)
}

/// Version 1 was a table of certificates, one of chains that had their digests one after another,
/// and one of who showed which; it knew no names and no order but the time. What it lacks is read
/// out of the leaves, and turns are given out by last-seen times.
fn migrate_1_to_2(transaction: &Transaction<'_>, names_per_leaf: usize) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "ALTER TABLE certificates RENAME TO old_certificates;
         ALTER TABLE chains RENAME TO old_chains;
         ALTER TABLE sites RENAME TO old_sites;",
    )?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(
        "INSERT INTO certificates (digest, der, added)
             SELECT digest, der, inserted FROM old_certificates WHERE length(digest) = 32;",
    )?;
    let mut old = transaction
        .prepare("SELECT id, certificates, last_seen FROM old_chains ORDER BY last_seen, id")?;
    let mut old = old.query([])?;
    let mut turn = 0;
    while let Some(row) = old.next()? {
        let (id, list): ([u8; DIGEST_LENGTH], Vec<u8>) = (row.get(0)?, row.get(1)?);
        let last_seen = UnixTime(u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0));
        let id = ChainId::from_digest(Digest::from_bytes(id));
        let (digests, _) = list.as_chunks::<DIGEST_LENGTH>();
        let digests: Vec<Digest> = digests
            .iter()
            .map(|digest| Digest::from_bytes(*digest))
            .collect();
        let mut ders = Vec::with_capacity(digests.len());
        for digest in &digests {
            ders.push(rows::read_certificate(transaction, digest)?);
        }
        // A chain that lacks a certificate cannot be rebuilt.
        let Some(leaf) = ders
            .iter()
            .all(Option::is_some)
            .then(|| ders.first())
            .flatten()
        else {
            continue;
        };
        let facts = LeafFacts::of(leaf.as_deref().unwrap_or_default(), names_per_leaf);
        turn += 1;
        let mut chain = ChainEntry::new(digests, facts, last_seen);
        (chain.seen, chain.used) = (turn, turn);
        rows::ChainRow::new(id, &chain).write(transaction)?;
        transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO sightings (site, chain, seen, last_seen)
                     SELECT site, chain, ?2, last_seen FROM old_sites WHERE chain = ?1",
            )?
            .execute(params![id.as_bytes(), rows::to_i64(turn)])?;
    }
    transaction.execute_batch(
        "DROP TABLE old_sites; DROP TABLE old_chains; DROP TABLE old_certificates;
         DELETE FROM certificates WHERE digest NOT IN (SELECT certificate FROM links);",
    )
}
