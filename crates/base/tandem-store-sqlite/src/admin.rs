//! What an operator may ask of a store on disk: `tandem store ls`, `show`, `import`, `export`,
//! `purge`.
//!
//! Not here: arguments and printing, which are the program's. Invariants: looking works while a
//! daemon has the store open, and disturbs it in nothing; changing needs the store for itself, and
//! says who has it otherwise; text out of certificates comes without control characters, since it
//! is some stranger's and goes to a terminal.

mod details;
mod export;
mod import;

use core::time::Duration;
use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use tandem_store::backing::{Catalogue, Key, ObjectEntry};
use tandem_store::{
    Digest, Keeping, Kind, KindRow, Limits, ObjectId, Purge, Purged, Reading, Site, Store,
};
use tandem_wire::clock::UnixTime;

pub use details::CertificateDetails;
pub use export::{Exported, Format, export};
pub use import::{Import, Imported, Several, import};

use crate::error::StoreError;
use crate::serial::{text, texts};
use crate::store::SqliteStore;
use crate::warning::Warning;
use crate::{files, open};

/// How long a command waits for the disk at each step. A daemon never waits; whoever typed a
/// command may.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that a store holds.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// Chains, the one seen last first.
    pub chains: Vec<ChainRow>,
    /// Certificates that are held without a chain, in order of their digests.
    pub singles: Vec<SingleRow>,
    /// Bytes held, as [`Limits::bytes`] counts them.
    pub bytes: u64,
}

/// One chain, or another object that sites show. Times are Unix seconds.
#[derive(Clone, Debug, Serialize)]
pub struct ChainRow {
    /// Its name.
    #[serde(serialize_with = "text")]
    pub id: ObjectId,
    /// What it is.
    #[serde(serialize_with = "text")]
    pub kind: Kind,
    /// The sites that showed it.
    #[serde(serialize_with = "texts")]
    pub sites: Vec<Site>,
    /// The names that its leaf answers to, as far as they are indexed.
    pub names: Vec<String>,
    /// Its parts: of a chain the certificates, leaf first.
    #[serde(serialize_with = "texts")]
    pub certificates: Vec<Digest>,
    /// Bytes in it; parts may be shared with other objects.
    pub bytes: u64,
    /// When it was first seen.
    pub first_seen: u64,
    /// When it was last seen.
    pub last_seen: u64,
    /// The last second of its leaf's validity; none if that is no X.509.
    pub not_after: Option<u64>,
    /// How often it was seen again.
    pub hits: u64,
}

/// One certificate that is held without a chain. Times are Unix seconds.
#[derive(Clone, Debug, Serialize)]
pub struct SingleRow {
    /// Its name.
    #[serde(serialize_with = "text")]
    pub digest: Digest,
    /// Bytes of DER.
    pub bytes: u64,
    /// When it was added.
    pub added: u64,
    /// The last second of its validity; none if it is no X.509.
    pub not_after: Option<u64>,
}

/// One chain or certificate, and all that can be read out of it.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// The chain, if it is one.
    pub chain: Option<ChainRow>,
    /// Its certificates, leaf first, or the only one.
    pub certificates: Vec<CertificateDetails>,
    /// Parts that are not among them because their bytes are damaged or missing.
    pub damaged: usize,
}

/// Says what the store in `directory` holds.
///
/// # Errors
/// [`StoreError`] if there is no store, or none that can be read.
pub fn list(directory: &Path) -> Result<Listing, StoreError> {
    let (_, catalogue) = open::look_into(directory, &Limits::none())?;
    let is_single = |key: &Key| key.kind == Kind::Certificate;
    let objects = catalogue.objects().iter();
    let mut chains: Vec<_> = objects.filter(|(key, _)| !is_single(key)).collect();
    chains.sort_by_key(|(_, object)| core::cmp::Reverse(object.seen));
    let objects = catalogue.objects().iter();
    let singles = objects.filter(|(key, _)| is_single(key));
    Ok(Listing {
        chains: chains
            .into_iter()
            .map(|(key, object)| ChainRow::new(*key, object, &catalogue))
            .collect(),
        singles: singles
            .map(|(key, object)| SingleRow {
                digest: *key.id.digest(),
                bytes: bytes_of(object, &catalogue),
                added: object.first_seen.0,
                not_after: object.facts.not_after.map(|end| end.0),
            })
            .collect(),
        bytes: catalogue.bytes(),
    })
}

/// Shows the one object or certificate whose name begins with these hexadecimal digits. Where
/// several do, none is shown.
///
/// # Errors
/// [`StoreError::NotFound`], [`StoreError::Ambiguous`], and as for [`list`].
pub fn show(directory: &Path, prefix: &str) -> Result<Shown, StoreError> {
    let (connection, catalogue) = open::look_into(directory, &Limits::none())?;
    let wanted = prefix.to_ascii_lowercase();
    let begins = |digest: &&Digest| digest.to_string().starts_with(&wanted);
    let objects = catalogue.objects();
    let of_certificates = objects
        .iter()
        .filter(|(key, _)| has_certificates(key.kind.row()));
    let parts = of_certificates.flat_map(|(_, object)| &object.parts);
    let ids = objects.keys().map(|key| key.id.digest());
    let found: BTreeSet<&Digest> = ids.chain(parts).filter(begins).collect();
    let name = match found.len() {
        0 => {
            return Err(StoreError::NotFound {
                prefix: prefix.to_owned(),
            });
        }
        1 => found.first().copied(),
        _ => None,
    };
    let Some(name) = name else {
        return Err(StoreError::Ambiguous {
            prefix: prefix.to_owned(),
            count: found.len(),
        });
    };
    let object = objects
        .iter()
        .find(|(key, _)| key.id.digest() == name && key.kind != Kind::Certificate);
    let (is_certificate, parts) = match object {
        Some((key, object)) => (has_certificates(key.kind.row()), object.parts.as_slice()),
        None => (true, core::slice::from_ref(name)),
    };
    let read = parts.iter().filter_map(|digest| {
        let bytes = open::read_part(&connection, digest)?;
        Some(if is_certificate {
            CertificateDetails::of(*digest, &bytes)
        } else {
            CertificateDetails::of_messages(*digest, &bytes)
        })
    });
    let certificates: Vec<_> = read.collect();
    Ok(Shown {
        chain: object.map(|(key, object)| ChainRow::new(*key, object, &catalogue)),
        damaged: parts.len() - certificates.len(),
        certificates,
    })
}

/// Whether the parts of such objects are certificates.
fn has_certificates(row: &KindRow) -> bool {
    match row.reading {
        Reading::NamesAndEnd | Reading::End => true,
        Reading::Nothing => false,
    }
}

fn bytes_of(object: &ObjectEntry, catalogue: &Catalogue) -> u64 {
    let parts = object.parts.iter();
    let lengths = parts.filter_map(|digest| catalogue.parts().get(digest));
    lengths.map(|part| part.length).sum()
}

/// Removes things from a store, and overwrites what was there.
///
/// # Errors
/// [`StoreError::InUse`] if a daemon has the store; otherwise as for [`list`], or if the disk
/// refuses.
pub fn purge(
    directory: &Path,
    limits: &Limits,
    what: &Purge,
) -> Result<(Purged, Vec<Warning>), StoreError> {
    files::find(directory)?;
    let (mut store, warnings) = open_for_writing(directory, limits)?;
    let purged = store.purge(what);
    finish(store, directory)?;
    Ok((purged, warnings))
}

/// Opens a store that must be on disk and nobody else's. It gives up nothing that is held, since
/// the daemon whose store it is may have been given more room than whoever typed the command knows.
fn open_for_writing(
    directory: &Path,
    limits: &Limits,
) -> Result<(SqliteStore, Vec<Warning>), StoreError> {
    let held =
        open::look_into(directory, &Limits::none()).map_or(0, |(_, catalogue)| catalogue.bytes());
    let limits = Limits {
        bytes: limits.bytes.max(held),
        ..limits.clone()
    };
    let (store, mut warnings) = SqliteStore::open(directory, limits)?;
    match store.health().keeping {
        Keeping::Disk | Keeping::DiskFailing => Ok((store, warnings)),
        // The last warning is the one that ended the attempt.
        Keeping::Memory => Err(match warnings.pop() {
            Some(Warning::InUse { path, process }) => StoreError::InUse { path, process },
            Some(warning) => StoreError::Unusable(warning),
            None => StoreError::NotWritten {
                path: directory.to_owned(),
                reason: "unknown".to_owned(),
            },
        }),
    }
}

/// Waits until all is on disk.
fn finish(mut store: SqliteStore, directory: &Path) -> Result<(), StoreError> {
    if store.sync(PATIENCE) {
        return Ok(());
    }
    let reasons: Vec<String> = store
        .take_warnings()
        .iter()
        .map(ToString::to_string)
        .collect();
    Err(StoreError::NotWritten {
        path: directory.to_owned(),
        reason: reasons.join("; "),
    })
}

impl ChainRow {
    fn new(key: Key, object: &ObjectEntry, catalogue: &Catalogue) -> Self {
        let names = object.facts.names.iter();
        Self {
            id: key.id,
            kind: key.kind,
            sites: object.sites().cloned().collect(),
            names: names.map(|name| name.as_str().to_owned()).collect(),
            bytes: bytes_of(object, catalogue),
            certificates: object.parts.clone(),
            first_seen: object.first_seen.0,
            last_seen: object.last_seen.0,
            not_after: object.facts.not_after.map(|UnixTime(end)| end),
            hits: object.hits,
        }
    }
}
