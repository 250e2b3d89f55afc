//! From a directory to a store's lock, connections and thread, or to the reason why there will be
//! none; and looking into a store that somebody else has open.
//!
//! Not here: the files themselves, the settings of connections. Invariant: what is not a store's is
//! never changed.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tandem_store::Digest;
use tandem_store::Limits;
use tandem_store::backing::Catalogue;

use crate::database::{self, Fault, Opened};
use crate::disk::{Disk, Scrub};
use crate::error::StoreError;
use crate::schema::{self, Schema};
use crate::warning::Warning;
use crate::writer::Writer;
use crate::{files, rows};

/// Reads the catalogue of the store in `directory` beside whoever has it open, with a connection
/// that reads parts.
pub(crate) fn look_into(
    directory: &Path,
    limits: &Limits,
) -> Result<(Connection, Catalogue), StoreError> {
    let path = files::database(directory);
    files::find(directory)?;
    let read = || {
        let connection = database::open_reader(&path)?;
        let catalogue = match schema::find(&connection)? {
            Schema::Empty => Catalogue::new(limits.clone()),
            Schema::Current | Schema::Older(_) | Schema::Newer(_) | Schema::NotOurs => {
                rows::read_catalogue(&connection, limits.clone())?
            }
        };
        Ok((connection, catalogue))
    };
    read().map_err(|fault| match fault {
        Fault::Corrupt(reason) => StoreError::Damaged {
            path: path.clone(),
            reason,
        },
        Fault::Disk(reason) => match files::refusal(&path) {
            Some(reason) => StoreError::Forbidden {
                path: directory.to_owned(),
                reason,
            },
            None => StoreError::Unreadable {
                path: path.clone(),
                reason,
            },
        },
        Fault::Newer(found) => StoreError::Unusable(Warning::NewerSchema {
            path: path.clone(),
            found,
            known: schema::VERSION,
        }),
        Fault::NotOurs => StoreError::Unusable(Warning::NotOurs { path: path.clone() }),
        Fault::Removed => StoreError::NoStore {
            path: directory.to_owned(),
        },
    })
}

/// Reads one part for [`look_into`]'s caller.
pub(crate) fn read_part(connection: &Connection, digest: &Digest) -> Option<Arc<[u8]>> {
    rows::read_part(connection, digest).ok().flatten()
}

/// Opens lock, file and thread, or says why not.
pub(crate) fn open_disk(
    directory: &Path,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<(Disk, Catalogue), Warning> {
    let lock = files::Lock::take(directory)?;
    let path = files::database(directory);
    let Opened {
        connection,
        catalogue,
        migrated_from,
    } = open_database(&path, limits, warnings)?;
    if let Some(from) = migrated_from {
        warnings.push(Warning::Migrated {
            path: path.clone(),
            from,
            to: schema::VERSION,
        });
    }
    let reader = database::open_reader(&path)
        .and_then(|reader| {
            // A look-up stands in the way of every packet: rather none than a late one.
            reader.busy_timeout(Duration::ZERO)?;
            Ok(reader)
        })
        .map_err(|fault| unusable(&path, fault))?;
    let writer = Writer::start(connection, &path).map_err(|error| Warning::Unwritable {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    let disk = Disk {
        path,
        reader,
        writer,
        in_flight: None,
        scrub: Scrub::Done,
        trouble: None,
        _lock: lock,
    };
    Ok((disk, catalogue))
}

/// Opens the database; if it is damaged, moves it aside and makes another.
fn open_database(
    path: &Path,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<Opened, Warning> {
    files::prepare_database(path)?;
    match database::open(path, limits) {
        Err(Fault::Corrupt(reason)) => {
            let moved_to = files::move_aside(path).map_err(|error| Warning::Unwritable {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
            warnings.push(Warning::Corrupt {
                path: path.to_owned(),
                reason,
                moved_to,
            });
            files::prepare_database(path)?;
            database::open(path, limits)
        }
        opened => opened,
    }
    .map_err(|fault| unusable(path, fault))
}

fn unusable(path: &Path, fault: Fault) -> Warning {
    let path = path.to_owned();
    match fault {
        Fault::Corrupt(reason) | Fault::Disk(reason) => Warning::Unwritable { path, reason },
        Fault::Newer(found) => Warning::NewerSchema {
            path,
            found,
            known: schema::VERSION,
        },
        Fault::NotOurs => Warning::NotOurs { path },
        Fault::Removed => Warning::Unwritable {
            path,
            reason: "it was removed meanwhile".to_owned(),
        },
    }
}
