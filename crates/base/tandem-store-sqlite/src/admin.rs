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
use std::path::Path;

use serde::Serialize;
use tandem_wire::clock::UnixTime;

pub use details::CertificateDetails;
pub use export::{Format, export};
pub use import::{Import, Imported, Several, import};

use crate::error::StoreError;
use crate::open;
use crate::serial::{text, texts};
use crate::store::SqliteStore;
use crate::warning::Warning;
use tandem_store::Limits;
use tandem_store::Site;
use tandem_store::backing::{Catalogue, ChainEntry};
use tandem_store::{ChainId, Digest};
use tandem_store::{Keeping, Store};
use tandem_store::{Purge, Purged};

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

/// What a row of chains is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A chain, leaf first.
    Chain,
    /// A chain without its leaf.
    Issuers,
    /// Messages that sites send in clear beside their chains: no certificate, though held as one.
    Extras,
}

/// One chain. Times are Unix seconds.
#[derive(Clone, Debug, Serialize)]
pub struct ChainRow {
    /// Its name.
    #[serde(serialize_with = "text")]
    pub id: ChainId,
    /// What it is.
    pub kind: Kind,
    /// The sites that showed it.
    #[serde(serialize_with = "texts")]
    pub sites: Vec<Site>,
    /// The names that its leaf answers to, as far as they are indexed.
    pub names: Vec<String>,
    /// Its certificates, leaf first.
    #[serde(serialize_with = "texts")]
    pub certificates: Vec<Digest>,
    /// Bytes of DER in it; certificates may be shared with other chains.
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
}

/// Says what the store in `directory` holds.
///
/// # Errors
/// [`StoreError`] if there is no store, or none that can be read.
pub fn list(directory: &Path) -> Result<Listing, StoreError> {
    let (_, catalogue) = open::look_into(directory, &Limits::none())?;
    let mut chains: Vec<(&ChainId, &ChainEntry)> = catalogue.chains().iter().collect();
    chains.sort_by_key(|(_, chain)| core::cmp::Reverse(chain.seen));
    let singles = catalogue
        .certificates()
        .iter()
        .filter_map(|(digest, entry)| {
            let not_after = entry.single.as_ref()?.not_after.map(|end| end.0);
            Some(SingleRow {
                digest: *digest,
                bytes: entry.length,
                added: entry.added.0,
                not_after,
            })
        });
    Ok(Listing {
        chains: chains
            .into_iter()
            .map(|(id, chain)| ChainRow::new(*id, chain, &catalogue))
            .collect(),
        singles: singles.collect(),
        bytes: catalogue.bytes(),
    })
}

/// Shows the one chain or certificate whose name begins with these hexadecimal digits. Where a
/// chain and a certificate both do, neither is shown.
///
/// # Errors
/// [`StoreError::NotFound`], [`StoreError::Ambiguous`], and as for [`list`].
pub fn show(directory: &Path, prefix: &str) -> Result<Shown, StoreError> {
    let (connection, catalogue) = open::look_into(directory, &Limits::none())?;
    let wanted = prefix.to_ascii_lowercase();
    let begins = |digest: &Digest| digest.to_string().starts_with(&wanted);
    let chains: Vec<_> = catalogue
        .chains()
        .iter()
        .filter(|(id, _)| begins(id.digest()))
        .collect();
    let is_extras = |digest: &Digest| {
        let held = catalogue.chains().values();
        held.filter(|chain| chain.is_extras())
            .any(|chain| chain.certificates.contains(digest))
    };
    let certificates: Vec<_> = catalogue
        .certificates()
        .keys()
        .filter(|digest| begins(digest) && !is_extras(digest))
        .collect();
    let details = |digests: &[Digest]| {
        let read = |digest: &Digest| open::read_certificate(&connection, digest);
        digests
            .iter()
            .filter_map(|digest| {
                let bytes = read(digest)?;
                Some(if is_extras(digest) {
                    CertificateDetails::of_extras(*digest, &bytes)
                } else {
                    CertificateDetails::of(*digest, &bytes)
                })
            })
            .collect()
    };
    match (chains.as_slice(), certificates.as_slice()) {
        ([(id, chain)], []) => Ok(Shown {
            chain: Some(ChainRow::new(**id, chain, &catalogue)),
            certificates: details(&chain.certificates),
        }),
        ([], [digest]) => Ok(Shown {
            chain: None,
            certificates: details(&[**digest]),
        }),
        ([], []) => Err(StoreError::NotFound {
            prefix: prefix.to_owned(),
        }),
        (chains, certificates) => {
            let count = chains.len() + certificates.len();
            Err(StoreError::Ambiguous {
                prefix: prefix.to_owned(),
                count,
            })
        }
    }
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
    if !open::exists(directory) {
        return Err(StoreError::NoStore {
            path: directory.to_owned(),
        });
    }
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
    fn new(id: ChainId, chain: &ChainEntry, catalogue: &Catalogue) -> Self {
        let length = |digest: &Digest| {
            catalogue
                .certificates()
                .get(digest)
                .map_or(0, |entry| entry.length)
        };
        let kind = match chain.sites().next() {
            Some(Site::Issuers) if chain.sites().count() == 1 => Kind::Issuers,
            _ if chain.is_extras() => Kind::Extras,
            _ => Kind::Chain,
        };
        Self {
            id,
            kind,
            sites: chain.sites().cloned().collect(),
            names: chain
                .facts
                .names
                .iter()
                .map(|name| name.as_str().to_owned())
                .collect(),
            bytes: chain.certificates.iter().map(length).sum(),
            certificates: chain.certificates.clone(),
            first_seen: chain.first_seen.0,
            last_seen: chain.last_seen.0,
            not_after: chain.facts.not_after.map(|UnixTime(end)| end),
            hits: chain.hits,
        }
    }
}
