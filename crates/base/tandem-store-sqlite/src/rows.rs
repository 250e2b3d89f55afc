//! Between rows and the catalogue: reading all of it once at the start, writing batches of what
//! changed afterwards.
//!
//! Not here: when, and on which thread. Invariants: a batch owns its rows, so that whoever writes
//! it needs nothing else; it is one transaction; writing it twice does no harm. Bytes are checked
//! against their digest wherever they are read.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use tandem_store::Limits;
use tandem_store::Site;
use tandem_store::backing::Changes;
use tandem_store::backing::Contents;
use tandem_store::backing::LeafFacts;
use tandem_store::backing::Pattern;
use tandem_store::backing::{Catalogue, CertificateEntry, ChainEntry, Sighting, Single};
use tandem_store::{ChainId, DIGEST_LENGTH, Digest};
use tandem_wire::clock::UnixTime;

/// Between names in a row. No host name has one.
const BETWEEN_NAMES: char = '\n';

/// Reads everything but the bytes of certificates.
pub(crate) fn read_catalogue(
    connection: &Connection,
    limits: Limits,
) -> rusqlite::Result<Catalogue> {
    let mut catalogue = Catalogue::new(limits);
    read_certificates(connection, &mut catalogue)?;
    read_chains(connection, &mut catalogue)?;
    read_sightings(connection, &mut catalogue)?;
    catalogue.finish_restoring();
    Ok(catalogue)
}

fn read_certificates(connection: &Connection, catalogue: &mut Catalogue) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare("SELECT digest, length(der), added, single_used, not_after FROM certificates")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let not_after = row.get::<_, Option<i64>>(4)?.map(to_time);
        let single = row.get::<_, Option<i64>>(3)?.map(|used| Single {
            used: to_u64(used),
            not_after,
        });
        catalogue.restore_certificate(
            digest(row, 0)?,
            to_u64(row.get(1)?),
            to_time(row.get(2)?),
            single,
        );
    }
    Ok(())
}

fn read_chains(connection: &Connection, catalogue: &mut Catalogue) -> rusqlite::Result<()> {
    let mut links =
        connection.prepare("SELECT certificate FROM links WHERE chain = ?1 ORDER BY position")?;
    let mut statement = connection.prepare(
        "SELECT id, names, not_after, first_seen, last_seen, seen, used, hits FROM chains ORDER BY seen",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = ChainId::from_digest(digest(row, 0)?);
        let certificates = links.query_map([id.as_bytes()], |row| digest(row, 0))?;
        let names: String = row.get(1)?;
        let names = names
            .split(BETWEEN_NAMES)
            .filter_map(Pattern::new)
            .collect();
        let facts = LeafFacts {
            names,
            not_after: row.get::<_, Option<i64>>(2)?.map(to_time),
        };
        let certificates = certificates.collect::<Result<_, _>>()?;
        let mut chain = ChainEntry::new(certificates, facts, to_time(row.get(3)?));
        chain.last_seen = to_time(row.get(4)?);
        chain.seen = to_u64(row.get(5)?);
        chain.used = to_u64(row.get(6)?);
        chain.hits = to_u64(row.get(7)?);
        if !catalogue.restore_chain(id, chain) {
            catalogue.changes_mut().chains.insert(id);
        }
    }
    Ok(())
}

fn read_sightings(connection: &Connection, catalogue: &mut Catalogue) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("SELECT site, chain, seen, last_seen FROM sightings ORDER BY seen")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let site: String = row.get(0)?;
        let chain = ChainId::from_digest(digest(row, 1)?);
        let sighting = Sighting {
            chain,
            seen: to_u64(row.get(2)?),
            last_seen: to_time(row.get(3)?),
        };
        // What is no site was not written by us, and can be asked for by nobody.
        if let Ok(site) = site.parse() {
            catalogue.restore_sighting(&site, sighting);
        }
    }
    Ok(())
}

/// Reads the bytes of one certificate; `None` if there is no such row, or if it holds other bytes.
pub(crate) fn read_certificate(
    connection: &Connection,
    digest: &Digest,
) -> rusqlite::Result<Option<Arc<[u8]>>> {
    let mut statement =
        connection.prepare_cached("SELECT der FROM certificates WHERE digest = ?1")?;
    let der: Option<Vec<u8>> = statement
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(der.filter(|der| Digest::of(der) == *digest).map(Arc::from))
}

/// Rows to be written and deleted in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    certificates: Vec<CertificateRow>,
    chains: Vec<ChainRow>,
    sightings: Vec<(Site, Sighting)>,
    gone_certificates: Vec<Digest>,
    gone_chains: Vec<ChainId>,
    gone_sightings: Vec<(Site, ChainId)>,
}

#[derive(Debug)]
struct CertificateRow {
    digest: Digest,
    /// `None` if it is not in memory, and hence on disk.
    der: Option<Arc<[u8]>>,
    added: UnixTime,
    single: Option<Single>,
}

/// A chain's row, and those of its links.
#[derive(Debug)]
pub(crate) struct ChainRow {
    id: ChainId,
    certificates: Vec<Digest>,
    names: String,
    not_after: Option<UnixTime>,
    first_seen: UnixTime,
    last_seen: UnixTime,
    seen: u64,
    used: u64,
    hits: u64,
}

impl Batch {
    /// What there is now under the names of what changed.
    pub(crate) fn of(changes: &Changes, memory: &Contents) -> Self {
        let mut batch = Self::default();
        let catalogue = &memory.catalogue;
        for digest in &changes.certificates {
            match catalogue.certificates().get(digest) {
                Some(entry) => batch
                    .certificates
                    .push(CertificateRow::new(*digest, entry, memory)),
                None => batch.gone_certificates.push(*digest),
            }
        }
        for id in &changes.chains {
            match catalogue.chains().get(id) {
                Some(chain) => batch.chains.push(ChainRow::new(*id, chain)),
                None => batch.gone_chains.push(*id),
            }
        }
        for (site, id) in &changes.sightings {
            match catalogue.sighting(site, id) {
                Some(sighting) => batch.sightings.push((site.clone(), *sighting)),
                None => batch.gone_sightings.push((site.clone(), *id)),
            }
        }
        batch
    }

    /// Writes it all, or nothing. Certificates come before the chains that have them, and go after
    /// them.
    pub(crate) fn write(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        self.certificates
            .iter()
            .try_for_each(|row| row.write(&transaction))?;
        for id in &self.gone_chains {
            transaction
                .prepare_cached("DELETE FROM chains WHERE id = ?1")?
                .execute([id.as_bytes()])?;
        }
        self.chains
            .iter()
            .try_for_each(|row| row.write(&transaction))?;
        for (site, sighting) in &self.sightings {
            transaction
                .prepare_cached(
                    "INSERT INTO sightings (site, chain, seen, last_seen) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT DO UPDATE SET seen = excluded.seen, last_seen = excluded.last_seen",
                )?
                .execute(params![
                    site.to_string(),
                    sighting.chain.as_bytes(),
                    to_i64(sighting.seen),
                    to_i64(sighting.last_seen.0)
                ])?;
        }
        for (site, id) in &self.gone_sightings {
            transaction
                .prepare_cached("DELETE FROM sightings WHERE site = ?1 AND chain = ?2")?
                .execute(params![site.to_string(), id.as_bytes()])?;
        }
        for digest in &self.gone_certificates {
            transaction
                .prepare_cached("DELETE FROM certificates WHERE digest = ?1")?
                .execute([digest.as_bytes()])?;
        }
        transaction.commit()
    }
}

impl CertificateRow {
    fn new(digest: Digest, entry: &CertificateEntry, memory: &Contents) -> Self {
        Self {
            digest,
            der: memory.bodies.peek(&digest),
            added: entry.added,
            single: entry.single.clone(),
        }
    }

    fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let used = self.single.as_ref().map(|single| to_i64(single.used));
        let not_after = self
            .single
            .as_ref()
            .and_then(|single| single.not_after)
            .map(|end| to_i64(end.0));
        match &self.der {
            Some(der) => transaction
                .prepare_cached(
                    "INSERT INTO certificates (digest, der, added, single_used, not_after) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT DO UPDATE SET single_used = excluded.single_used, not_after = excluded.not_after",
                )?
                .execute(params![self.digest.as_bytes(), der, to_i64(self.added.0), used, not_after]),
            None => transaction
                .prepare_cached("UPDATE certificates SET single_used = ?2, not_after = ?3 WHERE digest = ?1")?
                .execute(params![self.digest.as_bytes(), used, not_after]),
        }
        .map(drop)
    }
}

impl ChainRow {
    /// The row of this chain.
    pub(crate) fn new(id: ChainId, chain: &ChainEntry) -> Self {
        let names: Vec<&str> = chain.facts.names.iter().map(Pattern::as_str).collect();
        Self {
            id,
            certificates: chain.certificates.clone(),
            names: names.join(&BETWEEN_NAMES.to_string()),
            not_after: chain.facts.not_after,
            first_seen: chain.first_seen,
            last_seen: chain.last_seen,
            seen: chain.seen,
            used: chain.used,
            hits: chain.hits,
        }
    }

    /// Writes it. The links of a chain are what its name is computed from, so they never change.
    pub(crate) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let id = self.id.as_bytes();
        transaction
            .prepare_cached(
                "INSERT INTO chains (id, names, not_after, first_seen, last_seen, seen, used, hits)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT DO UPDATE SET
                     last_seen = excluded.last_seen, seen = excluded.seen, used = excluded.used, hits = excluded.hits",
            )?
            .execute(params![
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
            "INSERT OR IGNORE INTO links (chain, position, certificate) VALUES (?1, ?2, ?3)",
        )?;
        for (position, certificate) in (0_i64..).zip(&self.certificates) {
            link.execute(params![id, position, certificate.as_bytes()])?;
        }
        Ok(())
    }
}

fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    row.get::<_, [u8; DIGEST_LENGTH]>(column)
        .map(Digest::from_bytes)
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
