//! A store's contents as files that other programs read.
//!
//! Not here: taking such files in. Invariant: what is exported as JSON lines and imported again is
//! the same certificates, chains and sites; PEM has the certificates only.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use tandem_store::Digest;
use tandem_store::Limits;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::details::{CERTIFICATE, pem};
use crate::error::StoreError;
use crate::open;

/// How to write a store's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Certificates in PEM (RFC 7468), each once, with a line of text before each chain's leaf. For
    /// other programs. What sites send beside their chains is left out.
    Pem,
    /// One JSON object a line: for each chain and site `{"site", "not_before", "chain": [DER in
    /// Base64, leaf first]}`, the site being null where none is known; for a certificate
    /// without a chain `{"certificate"}`. For another store.
    JsonLines,
}

#[derive(Serialize)]
struct ChainLine<'a> {
    site: Option<String>,
    not_before: Option<String>,
    chain: &'a [String],
}

#[derive(Serialize)]
struct CertificateLine {
    certificate: String,
}

/// Writes all that the store in `directory` holds to `output`, and says how many chains and single
/// certificates that were. Chains come in the order in which they were seen, so that a store that
/// takes them in again orders them alike.
///
/// # Errors
/// As for [`list`](super::list), and [`StoreError::Output`].
pub fn export(
    directory: &Path,
    format: Format,
    output: &mut dyn Write,
) -> Result<usize, StoreError> {
    let (connection, catalogue) = open::look_into(directory, &Limits::none())?;
    let mut chains: Vec<_> = catalogue.chains().iter().collect();
    chains.sort_by_key(|(_, chain)| chain.seen);
    let singles = catalogue
        .certificates()
        .iter()
        .filter(|(_, entry)| entry.single.is_some());
    let read = |digest: &Digest| open::read_certificate(&connection, digest);
    let mut count = 0;
    let mut written = std::collections::BTreeSet::new();
    for (id, chain) in chains {
        if format == Format::Pem && chain.is_extras() {
            continue;
        }
        let Some(ders) = chain
            .certificates
            .iter()
            .map(read)
            .collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        count += 1;
        match format {
            Format::Pem => {
                let sites: Vec<String> = chain.sites().map(ToString::to_string).collect();
                writeln!(
                    output,
                    "Chain {id} of {} certificates, shown by: {}",
                    ders.len(),
                    sites.join(", ")
                )?;
                for (digest, der) in chain.certificates.iter().zip(&ders) {
                    if written.insert(*digest) {
                        output.write_all(pem(CERTIFICATE, der).as_bytes())?;
                    }
                }
            }
            Format::JsonLines => {
                let not_before = ders.first().and_then(|leaf| first_day(leaf));
                let encoded: Vec<String> = ders
                    .iter()
                    .map(|der| data_encoding::BASE64.encode(der))
                    .collect();
                let sites = chain.sites().map(|site| Some(site.to_string()));
                let sites: Vec<Option<String>> = sites.collect();
                for site in if sites.is_empty() { vec![None] } else { sites } {
                    write_line(
                        output,
                        &ChainLine {
                            site,
                            not_before: not_before.clone(),
                            chain: &encoded,
                        },
                    )?;
                }
            }
        }
    }
    for digest in singles.map(|(digest, _)| digest) {
        let Some(der) = read(digest) else {
            continue;
        };
        count += 1;
        match format {
            Format::Pem if written.insert(*digest) => {
                output.write_all(pem(CERTIFICATE, &der).as_bytes())?
            }
            Format::Pem => {}
            Format::JsonLines => {
                write_line(
                    output,
                    &CertificateLine {
                        certificate: data_encoding::BASE64.encode(&der),
                    },
                )?;
            }
        }
    }
    Ok(count)
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
