//! Between rows and the catalogue: reading all of it once at the start, writing batches of what
//! changed afterwards.
//!
//! Not here: when, and on which thread. Invariants: a batch owns its rows, so that whoever writes
//! it needs nothing else; it is one transaction; writing it twice does no harm. Bytes are checked
//! against their digest wherever they are read.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use tandem_store::backing::{
    Catalogue, Changes, Contents, Expectation, Key, LeafFacts, ObjectEntry, Pattern,
};
use tandem_store::{DIGEST_LENGTH, Digest, Limits, ObjectId, Site};
use tandem_wire::clock::UnixTime;

/// Between names in a row. No host name has one.
const BETWEEN_NAMES: char = '\n';

/// Reads everything but the bytes of parts.
pub(crate) fn read_catalogue(
    connection: &Connection,
    limits: Limits,
) -> rusqlite::Result<Catalogue> {
    let mut catalogue = Catalogue::new(limits);
    read_parts(connection, &mut catalogue)?;
    read_objects(connection, &mut catalogue)?;
    read_expectations(connection, &mut catalogue)?;
    catalogue.finish_restoring();
    Ok(catalogue)
}

fn read_parts(connection: &Connection, catalogue: &mut Catalogue) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT digest, length(bytes), added FROM parts")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        catalogue.restore_part(digest(row, 0)?, to_u64(row.get(1)?), to_time(row.get(2)?));
    }
    Ok(())
}

fn read_objects(connection: &Connection, catalogue: &mut Catalogue) -> rusqlite::Result<()> {
    let mut links = connection
        .prepare("SELECT part FROM links WHERE kind = ?1 AND object = ?2 ORDER BY position")?;
    let mut statement = connection.prepare(
        "SELECT kind, id, names, not_after, first_seen, last_seen, seen, used, hits
             FROM objects ORDER BY seen",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Some(key) = key(row, 0, 1)? else {
            continue;
        };
        let parts = links.query_map(params![key.kind.row().name, key.id.as_bytes()], |row| {
            digest(row, 0)
        })?;
        let names: String = row.get(2)?;
        let names = names
            .split(BETWEEN_NAMES)
            .filter_map(Pattern::new)
            .collect();
        let facts = LeafFacts {
            names,
            not_after: row.get::<_, Option<i64>>(3)?.map(to_time),
        };
        let parts = parts.collect::<Result<_, _>>()?;
        let mut object = ObjectEntry::new(parts, facts, to_time(row.get(4)?));
        object.last_seen = to_time(row.get(5)?);
        object.seen = to_u64(row.get(6)?);
        object.used = to_u64(row.get(7)?);
        object.hits = to_u64(row.get(8)?);
        if !catalogue.restore_object(key, object) {
            catalogue.changes_mut().objects.insert(key);
        }
    }
    Ok(())
}

fn read_expectations(connection: &Connection, catalogue: &mut Catalogue) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare("SELECT kind, object, site, seen, last_seen FROM expectations ORDER BY seen")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let site: String = row.get(2)?;
        // What is no site was not written by us, and can be asked for by nobody.
        let (Some(key), Ok(site)) = (key(row, 0, 1)?, site.parse()) else {
            continue;
        };
        let expectation = Expectation {
            object: key.id,
            seen: to_u64(row.get(3)?),
            last_seen: to_time(row.get(4)?),
        };
        catalogue.restore_expectation(&site, key.kind, expectation);
    }
    Ok(())
}

/// Reads the bytes of one part; `None` if there is no such row, or if it holds other bytes.
pub(crate) fn read_part(
    connection: &Connection,
    digest: &Digest,
) -> rusqlite::Result<Option<Arc<[u8]>>> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM parts WHERE digest = ?1")?;
    let bytes: Option<Vec<u8>> = statement
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(bytes
        .filter(|bytes| Digest::of(bytes) == *digest)
        .map(Arc::from))
}

/// Rows to be written and deleted in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    parts: Vec<PartRow>,
    objects: Vec<ObjectRow>,
    expectations: Vec<ExpectationRow>,
    gone_parts: Vec<Digest>,
    gone_objects: Vec<Key>,
    gone_expectations: Vec<(Site, Key)>,
}

#[derive(Debug)]
struct PartRow {
    digest: Digest,
    bytes: Arc<[u8]>,
    added: UnixTime,
}

/// An object's row, and those of its links.
#[derive(Debug)]
pub(crate) struct ObjectRow {
    key: Key,
    parts: Vec<Digest>,
    names: String,
    not_after: Option<UnixTime>,
    first_seen: UnixTime,
    last_seen: UnixTime,
    seen: u64,
    used: u64,
    hits: u64,
}

/// What a site is expected to show.
#[derive(Debug)]
pub(crate) struct ExpectationRow {
    /// The site.
    pub(crate) site: Site,
    /// The object.
    pub(crate) key: Key,
    /// The turn when it was last shown there.
    pub(crate) seen: u64,
    /// The time.
    pub(crate) last_seen: UnixTime,
}

impl Batch {
    /// What there is now under the names of what changed.
    pub(crate) fn of(changes: &Changes, memory: &Contents) -> Self {
        let mut batch = Self::default();
        let catalogue = &memory.catalogue;
        for digest in &changes.parts {
            match (catalogue.parts().get(digest), memory.bodies.peek(digest)) {
                (Some(entry), Some(bytes)) => batch.parts.push(PartRow {
                    digest: *digest,
                    bytes,
                    added: entry.added,
                }),
                // It is not in memory, and hence on disk.
                (Some(_), None) => {}
                (None, _) => batch.gone_parts.push(*digest),
            }
        }
        for key in &changes.objects {
            match catalogue.objects().get(key) {
                Some(object) => batch.objects.push(ObjectRow::new(*key, object)),
                None => batch.gone_objects.push(*key),
            }
        }
        for (site, key) in &changes.expectations {
            match catalogue.expectation(site, key) {
                Some(expectation) => batch.expectations.push(ExpectationRow {
                    site: site.clone(),
                    key: *key,
                    seen: expectation.seen,
                    last_seen: expectation.last_seen,
                }),
                None => batch.gone_expectations.push((site.clone(), *key)),
            }
        }
        batch
    }

    /// Writes it all, or nothing. Parts come before the objects that have them, and go after them.
    pub(crate) fn write(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        self.parts
            .iter()
            .try_for_each(|row| row.write(&transaction))?;
        for Key { id, kind } in &self.gone_objects {
            transaction
                .prepare_cached("DELETE FROM objects WHERE kind = ?1 AND id = ?2")?
                .execute(params![kind.row().name, id.as_bytes()])?;
        }
        self.objects
            .iter()
            .try_for_each(|row| row.write(&transaction))?;
        self.expectations
            .iter()
            .try_for_each(|row| row.write(&transaction))?;
        for (site, Key { id, kind }) in &self.gone_expectations {
            transaction
                .prepare_cached(
                    "DELETE FROM expectations WHERE kind = ?1 AND site = ?2 AND object = ?3",
                )?
                .execute(params![kind.row().name, site.to_string(), id.as_bytes()])?;
        }
        for digest in &self.gone_parts {
            transaction
                .prepare_cached("DELETE FROM parts WHERE digest = ?1")?
                .execute([digest.as_bytes()])?;
        }
        transaction.commit()
    }
}

impl PartRow {
    fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        transaction
            .prepare_cached(
                "INSERT INTO parts (digest, bytes, added) VALUES (?1, ?2, ?3)
                     ON CONFLICT DO UPDATE SET bytes = excluded.bytes",
            )?
            .execute(params![
                self.digest.as_bytes(),
                self.bytes,
                to_i64(self.added.0)
            ])
            .map(drop)
    }
}

impl ObjectRow {
    /// The row of this object.
    pub(crate) fn new(key: Key, object: &ObjectEntry) -> Self {
        let names: Vec<&str> = object.facts.names.iter().map(Pattern::as_str).collect();
        Self {
            key,
            parts: object.parts.clone(),
            names: names.join(&BETWEEN_NAMES.to_string()),
            not_after: object.facts.not_after,
            first_seen: object.first_seen,
            last_seen: object.last_seen,
            seen: object.seen,
            used: object.used,
            hits: object.hits,
        }
    }

    /// Writes it. The links of an object are what its name is computed from, so they never change.
    pub(crate) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let (kind, id) = (self.key.kind.row().name, self.key.id.as_bytes());
        transaction
            .prepare_cached(
                "INSERT INTO objects (kind, id, names, not_after, first_seen, last_seen, seen, used, hits)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                 ON CONFLICT DO UPDATE SET
                     last_seen = excluded.last_seen, seen = excluded.seen, used = excluded.used, hits = excluded.hits",
            )?
            .execute(params![
                kind,
                id,
                self.names,
                self.not_after.map(|end| to_i64(end.0)),
                to_i64(self.first_seen.0),
                to_i64(self.last_seen.0),
                to_i64(self.seen),
                to_i64(self.used),
                to_i64(self.hits)
            ])?;
        let mut link = transaction.prepare_cached(
            "INSERT OR IGNORE INTO links (kind, object, position, part) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for (position, part) in (0_i64..).zip(&self.parts) {
            link.execute(params![kind, id, position, part.as_bytes()])?;
        }
        Ok(())
    }
}

impl ExpectationRow {
    /// Writes it.
    pub(crate) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        transaction
            .prepare_cached(
                "INSERT INTO expectations (kind, site, object, seen, last_seen) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET seen = excluded.seen, last_seen = excluded.last_seen",
            )?
            .execute(params![
                self.key.kind.row().name,
                self.site.to_string(),
                self.key.id.as_bytes(),
                to_i64(self.seen),
                to_i64(self.last_seen.0)
            ])
            .map(drop)
    }
}

fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    row.get::<_, [u8; DIGEST_LENGTH]>(column)
        .map(Digest::from_bytes)
}

/// An object's kind and name; `None` for a kind that only a later version knows.
fn key(row: &Row<'_>, kind: usize, id: usize) -> rusqlite::Result<Option<Key>> {
    let kind: String = row.get(kind)?;
    let id = ObjectId::from_digest(digest(row, id)?);
    Ok(kind.parse().ok().map(|kind| Key { id, kind }))
}

/// SQLite's integers have a sign. Times and turns beyond 2^63 are as good as 2^63 - 1.
pub(crate) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn to_time(seconds: i64) -> UnixTime {
    UnixTime(to_u64(seconds))
}
