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
//! tables hold: lengths, and by foreign keys that no object lacks a part and no expectation an
//! object.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use tandem_store::backing::{Key, LeafFacts, ObjectEntry};
use tandem_store::{DIGEST_LENGTH, Digest, KINDS, Kind, ObjectId};
use tandem_wire::clock::UnixTime;

use crate::rows;

/// Marks a SQLite file as ours: `TNDM`.
pub(crate) const APPLICATION_ID: i64 = 0x544e_444d;
/// The version that this program writes.
pub(crate) const VERSION: i64 = 3;

/// Version 3. Times are Unix seconds; `seen` and `used` are turns, which only grow; digests are
/// SHA-256; kinds are the names of [`KINDS`].
///
/// ```text
/// expectations(kind, site, object) --> objects(kind, id) <-- links(kind, object, position, part) --> parts(digest)
/// ```
const TABLES: &str = "
    CREATE TABLE parts (
        digest BLOB PRIMARY KEY NOT NULL CHECK (length(digest) = 32),
        bytes BLOB NOT NULL,
        added INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE objects (
        kind TEXT NOT NULL,
        id BLOB NOT NULL CHECK (length(id) = 32),
        names TEXT NOT NULL,
        not_after INTEGER,
        first_seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL,
        seen INTEGER NOT NULL,
        used INTEGER NOT NULL,
        hits INTEGER NOT NULL,
        PRIMARY KEY (kind, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE links (
        kind TEXT NOT NULL,
        object BLOB NOT NULL,
        position INTEGER NOT NULL,
        part BLOB NOT NULL REFERENCES parts (digest),
        PRIMARY KEY (kind, object, position),
        FOREIGN KEY (kind, object) REFERENCES objects (kind, id) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX links_by_part ON links (part);
    CREATE TABLE expectations (
        kind TEXT NOT NULL,
        site TEXT NOT NULL,
        object BLOB NOT NULL,
        seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL,
        PRIMARY KEY (kind, site, object),
        FOREIGN KEY (kind, object) REFERENCES objects (kind, id) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX expectations_by_object ON expectations (kind, object);
";

/// From version 2, which knew certificates and chains. What a site sends beside its chain was a
/// chain shown by `extras:SITE`, a list of issuers one shown by `issuers:`; a certificate held for
/// itself had a turn of its last use.
const FROM_2: &str = "
    DROP INDEX links_by_certificate;
    DROP INDEX sightings_by_chain;
    ALTER TABLE certificates RENAME TO old_certificates;
    ALTER TABLE chains RENAME TO old_chains;
    ALTER TABLE links RENAME TO old_links;
    ALTER TABLE sightings RENAME TO old_sightings;
    CREATE TEMP TABLE shown AS
        SELECT chains.id AS id, site, sightings.seen AS seen, sightings.last_seen AS last_seen,
            CASE WHEN site = 'issuers:' THEN 'issuers'
                WHEN site GLOB 'extras:*' THEN 'messages'
                ELSE 'chain' END AS kind
        FROM old_chains AS chains LEFT JOIN old_sightings AS sightings ON chain = id;
    CREATE TEMP TABLE kinds AS SELECT DISTINCT kind, id FROM shown;
";
const INTO_3: &str = "
    INSERT INTO parts SELECT digest, der, added FROM old_certificates;
    INSERT INTO objects
        SELECT kind, id, names, not_after, first_seen, last_seen, seen, used, hits
        FROM kinds JOIN old_chains USING (id);
    INSERT INTO objects
        SELECT 'certificate', digest, '', not_after, added, added, single_used, single_used, 0
        FROM old_certificates WHERE single_used IS NOT NULL;
    INSERT INTO links
        SELECT kind, chain, position, certificate FROM old_links JOIN kinds ON id = chain;
    INSERT INTO links
        SELECT 'certificate', digest, 0, digest
        FROM old_certificates WHERE single_used IS NOT NULL;
    INSERT INTO expectations
        SELECT kind,
            CASE kind WHEN 'issuers' THEN '*' WHEN 'messages' THEN substr(site, 8) ELSE site END,
            id, seen, last_seen
        FROM shown WHERE site IS NOT NULL;
    DROP TABLE temp.shown;
    DROP TABLE temp.kinds;
    DROP TABLE old_sightings;
    DROP TABLE old_links;
    DROP TABLE old_chains;
    DROP TABLE old_certificates;
";

/// What a database was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
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

/// Says what this database was made for.
pub(crate) fn find(connection: &Connection) -> rusqlite::Result<Schema> {
    let number =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let has_tables = connection
        .query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))
        .optional()?
        .is_some();
    Ok(match (has_tables, application) {
        (false, 0 | APPLICATION_ID) => Schema::Empty,
        (true, APPLICATION_ID) if version == VERSION => Schema::Current,
        (true, APPLICATION_ID) if version > VERSION => Schema::Newer(version),
        (true, APPLICATION_ID) if version >= 1 => Schema::Older(version),
        (true | false, _) => Schema::NotOurs,
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
    match from {
        1 => migrate_from_1(&transaction, names_per_leaf)?,
        2 => {
            transaction.execute_batch(FROM_2)?;
            transaction.execute_batch(TABLES)?;
            transaction.execute_batch(INTO_3)?;
        }
        _ => {}
    }
    mark(&transaction)?;
    transaction.commit()
}

/// Removes objects of kinds that only a later version knows, since nobody here would ever let them
/// go.
pub(crate) fn remove_unknown_kinds(connection: &Connection) -> rusqlite::Result<()> {
    let known: Vec<String> = KINDS.iter().map(|row| format!("'{}'", row.name)).collect();
    let known = known.join(", ");
    connection.execute_batch(&format!("DELETE FROM objects WHERE kind NOT IN ({known})"))
}

fn mark(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)
}

/// Version 1 was a table of certificates, one of chains that had their digests one after another,
/// and one of who showed which; it knew no names and no order but the time. What it lacks is read
/// out of the leaves, and turns are given out by last-seen times.
fn migrate_from_1(transaction: &Transaction<'_>, names_per_leaf: usize) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "ALTER TABLE certificates RENAME TO old_certificates;
         ALTER TABLE chains RENAME TO old_chains;
         ALTER TABLE sites RENAME TO old_sites;",
    )?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(
        "INSERT INTO parts (digest, bytes, added)
             SELECT digest, der, inserted FROM old_certificates WHERE length(digest) = 32;",
    )?;
    let mut old = transaction
        .prepare("SELECT id, certificates, last_seen FROM old_chains ORDER BY last_seen, id")?;
    let mut old = old.query([])?;
    let mut turn = 0;
    while let Some(row) = old.next()? {
        let (id, list): ([u8; DIGEST_LENGTH], Vec<u8>) = (row.get(0)?, row.get(1)?);
        let last_seen = UnixTime(u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0));
        let id = ObjectId::from_digest(Digest::from_bytes(id));
        let (digests, _) = list.as_chunks::<DIGEST_LENGTH>();
        let digests: Vec<Digest> = digests
            .iter()
            .map(|digest| Digest::from_bytes(*digest))
            .collect();
        let mut ders = Vec::with_capacity(digests.len());
        for digest in &digests {
            ders.push(rows::read_part(transaction, digest)?);
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
        let leaf = leaf.as_deref().unwrap_or_default();
        let facts = LeafFacts::read(Kind::Chain.row().reading, leaf, names_per_leaf);
        turn += 1;
        let mut object = ObjectEntry::new(digests, facts, last_seen);
        (object.seen, object.used) = (turn, turn);
        let key = Key {
            id,
            kind: Kind::Chain,
        };
        rows::ObjectRow::new(key, &object).write(transaction)?;
        transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO expectations (kind, site, object, seen, last_seen)
                     SELECT ?3, site, chain, ?2, last_seen FROM old_sites WHERE chain = ?1",
            )?
            .execute(params![
                id.as_bytes(),
                rows::to_i64(turn),
                key.kind.row().name
            ])?;
    }
    transaction.execute_batch(
        "DROP TABLE old_sites; DROP TABLE old_chains; DROP TABLE old_certificates;
         DELETE FROM parts WHERE digest NOT IN (SELECT part FROM links);",
    )
}
