//! A store's contents as files that other programs read.
//!
//! Not here: taking such files in. Invariant: what is exported as JSON lines and imported again is
//! the same certificates, chains and sites; PEM has the certificates only.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tandem_store::backing::{Key, ObjectEntry};
use tandem_store::{Digest, Kind, Limits};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::details::{CERTIFICATE, pem};
use super::has_certificates;
use crate::error::StoreError;
use crate::open;

/// How to write a store's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Certificates in PEM (RFC 7468), each once, with a line of text before each chain's leaf. For
    /// other programs. What is no certificate is left out.
    Pem,
    /// One JSON object a line: for each chain and site `{"site", "not_before", "chain": [DER in
    /// Base64, leaf first]}`, the site being null where none is known; for a certificate
    /// without a chain `{"certificate"}`; for any other object `{"kind", "site", "parts"}`. For
    /// another store.
    JsonLines,
}

#[derive(Serialize)]
struct ChainLine<'a> {
    site: Option<String>,
    not_before: Option<String>,
    chain: &'a [String],
}

#[derive(Serialize)]
struct ObjectLine<'a> {
    kind: &'static str,
    site: Option<String>,
    parts: &'a [String],
}

#[derive(Serialize)]
struct CertificateLine {
    certificate: String,
}

/// How many objects an export holds, and how many it lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Objects that were written.
    pub written: usize,
    /// Objects that were left out because a part of them is damaged or missing.
    pub damaged: usize,
}

/// Writes all that the store in `directory` holds to `output`, and counts the objects. They come in
/// the order in which they were seen, so that a store that takes them in again orders them alike.
/// An object with a damaged part is left out.
///
/// # Errors
/// As for [`list`](super::list), and [`StoreError::Output`].
pub fn export(
    directory: &Path,
    format: Format,
    output: &mut dyn Write,
) -> Result<Exported, StoreError> {
    let (connection, catalogue) = open::look_into(directory, &Limits::none())?;
    let mut objects: Vec<_> = catalogue.objects().iter().collect();
    objects.sort_by_key(|(key, object)| (key.kind == Kind::Certificate, object.seen));
    let mut exported = Exported::default();
    let mut certificates = BTreeSet::new();
    for (key, object) in objects {
        if format == Format::Pem && !has_certificates(key.kind.row()) {
            continue;
        }
        let parts = object.parts.iter();
        let parts = parts.map(|digest| open::read_part(&connection, digest));
        let Some(parts) = parts.collect::<Option<Vec<_>>>() else {
            exported.damaged += 1;
            continue;
        };
        exported.written += 1;
        match format {
            Format::Pem => write_pem(output, key, object, &parts, &mut certificates)?,
            Format::JsonLines => write_lines(output, key, object, &parts)?,
        }
    }
    Ok(exported)
}

/// Writes the certificates that were not `written` before.
fn write_pem(
    output: &mut dyn Write,
    key: &Key,
    object: &ObjectEntry,
    ders: &[Arc<[u8]>],
    written: &mut BTreeSet<Digest>,
) -> Result<(), StoreError> {
    if key.kind != Kind::Certificate {
        let sites: Vec<String> = object.sites().map(ToString::to_string).collect();
        writeln!(
            output,
            "Chain {} of {} certificates, shown by: {}",
            key.id,
            ders.len(),
            sites.join(", ")
        )?;
    }
    for (digest, der) in object.parts.iter().zip(ders) {
        if written.insert(*digest) {
            output.write_all(pem(CERTIFICATE, der).as_bytes())?;
        }
    }
    Ok(())
}

/// Writes a line for each site.
fn write_lines(
    output: &mut dyn Write,
    key: &Key,
    object: &ObjectEntry,
    parts: &[Arc<[u8]>],
) -> Result<(), StoreError> {
    let encoded = parts.iter().map(|part| data_encoding::BASE64.encode(part));
    let encoded: Vec<String> = encoded.collect();
    let sites = object.sites().map(|site| Some(site.to_string()));
    let sites: Vec<Option<String>> = sites.collect();
    let sites = if sites.is_empty() { vec![None] } else { sites };
    for site in sites {
        match (key.kind, encoded.as_slice()) {
            (Kind::Chain, chain) => {
                let not_before = parts.first().and_then(|leaf| first_day(leaf));
                write_line(
                    output,
                    &ChainLine {
                        site,
                        not_before,
                        chain,
                    },
                )?;
            }
            (Kind::Certificate, [certificate]) => {
                let certificate = certificate.clone();
                write_line(output, &CertificateLine { certificate })?;
            }
            (kind, parts) => {
                let kind = kind.row().name;
                write_line(output, &ObjectLine { kind, site, parts })?;
            }
        }
    }
    Ok(())
}

fn write_line(output: &mut dyn Write, line: &impl Serialize) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *output, line).map_err(std::io::Error::from)?;
    Ok(output.write_all(b"\n")?)
}

/// The first day of a leaf's validity, as `2025-06-01`.
fn first_day(leaf: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
    let start = certificate.validity().not_before.to_datetime();
    Some(format!(
        "{:04}-{:02}-{:02}",
        start.year(),
        u8::from(start.month()),
        start.day()
    ))
}
