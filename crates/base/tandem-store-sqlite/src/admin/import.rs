//! Certificates and chains out of files: PEM, DER, JSON lines.
//!
//! Not here: trust. A wrong certificate in a store costs bytes, not security, so what is checked is
//! what shows a wrong file. Invariant: either everything that was named is taken in, or nothing.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tandem_store::backing::Key;
use tandem_store::{Kind, Limits, NameError, Site, Store};
use tandem_wire::clock::UnixTime;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{finish, open_for_writing};
use crate::error::{Place, StoreError};
use crate::files::read_bounded;
use crate::warning::Warning;

/// Bytes of the longest file that is taken in: that of a full store in Base64, and some.
const FILE_LIMIT: u64 = 256 << 20;

/// How to take in what a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Import {
    /// The site that shows the chains of PEM and DER files. Default: none; they are found by the
    /// names in their leaves.
    pub site: Option<Site>,
    /// What several certificates in one PEM or DER file are. Default: a chain.
    pub several: Several,
}

/// What several certificates in one file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Several {
    /// A chain, leaf first, each one issued by the next. A file of one certificate is a single one.
    #[default]
    Chain,
    /// Single certificates, in no order: for bundles of authorities.
    Certificates,
}

/// How much was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Chains and other objects that sites show, with those that were there before.
    pub chains: usize,
    /// Single certificates, with those that were there before.
    pub certificates: usize,
    /// What was beyond the limits, and left out.
    pub refused: usize,
}

/// One object to take in.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    kind: Kind,
    site: Option<Site>,
    parts: Vec<Vec<u8>>,
}

impl Item {
    fn certificate(der: Vec<u8>) -> Self {
        Self {
            kind: Kind::Certificate,
            site: None,
            parts: vec![der],
        }
    }
}

/// Takes the contents of files into the store in `directory`, which is made if there is none.
///
/// A file is JSON lines if it opens with a brace, PEM if it has a `-----BEGIN`, DER otherwise. In
/// PEM files, private keys and whatever else is no certificate are passed over. JSON lines are as
/// [`export`](super::export) writes them, and are taken as they are: servers do show chains that
/// are out of order.
///
/// # Errors
/// [`StoreError::Malformed`] with the place in the file; [`StoreError::InUse`] if a daemon has the
/// store; [`StoreError`] if a file cannot be read or the store not written.
pub fn import(
    directory: &Path,
    limits: &Limits,
    files: &[PathBuf],
    how: &Import,
    now: UnixTime,
) -> Result<(Imported, Vec<Warning>), StoreError> {
    let mut items = Vec::new();
    for path in files {
        let unreadable = |error: std::io::Error| StoreError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
        };
        let bytes = read_bounded(path, FILE_LIMIT).map_err(unreadable)?;
        items.extend(Reading { path, how }.items(&bytes)?);
    }
    let (mut store, warnings) = open_for_writing(directory, limits)?;
    let mut imported = Imported::default();
    for Item { kind, site, parts } in items {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let id = store.learn(kind, site.as_ref(), &parts, now);
        let is_held = store.catalogue().objects().contains_key(&Key { id, kind });
        let count = match (is_held, kind) {
            (false, _) => &mut imported.refused,
            (true, Kind::Certificate) => &mut imported.certificates,
            (true, _) => &mut imported.chains,
        };
        *count += 1;
    }
    finish(store, directory)?;
    Ok((imported, warnings))
}

/// One file that is being read.
struct Reading<'a> {
    path: &'a Path,
    how: &'a Import,
}

#[derive(Deserialize)]
struct Line {
    site: Option<String>,
    chain: Option<Vec<String>>,
    certificate: Option<String>,
    kind: Option<String>,
    parts: Option<Vec<String>>,
}

impl Reading<'_> {
    fn items(&self, bytes: &[u8]) -> Result<Vec<Item>, StoreError> {
        const BEGIN: &[u8] = b"-----BEGIN";
        if bytes.trim_ascii_start().starts_with(b"{") {
            self.json_lines(bytes)
        } else if bytes.windows(BEGIN.len()).any(|window| window == BEGIN) {
            self.certificates(self.pem(bytes)?)
        } else {
            self.certificates(self.der(bytes)?)
        }
    }

    fn malformed(&self, place: Place, reason: impl ToString) -> StoreError {
        StoreError::Malformed {
            path: self.path.to_owned(),
            place,
            reason: reason.to_string(),
        }
    }

    fn pem(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut ders = Vec::new();
        for block in Pem::iter_from_buffer(bytes) {
            let place = Place::Certificate(ders.len() + 1);
            let block = block.map_err(|error| self.malformed(place, error))?;
            if block.label == "CERTIFICATE" {
                ders.push(block.contents);
            }
        }
        Ok(ders)
    }

    /// Certificates one after another.
    fn der(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut ders = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let place = Place::Certificate(ders.len() + 1);
            let (after, _) = X509Certificate::from_der(rest).map_err(|error| {
                self.malformed(place, format!("not a certificate in DER ({error})"))
            })?;
            ders.push(rest[..rest.len() - after.len()].to_vec());
            rest = after;
        }
        Ok(ders)
    }

    fn certificates(&self, ders: Vec<Vec<u8>>) -> Result<Vec<Item>, StoreError> {
        let mut parsed = Vec::with_capacity(ders.len());
        for (number, der) in (1..).zip(&ders) {
            let not_one = |reason: &str| {
                self.malformed(
                    Place::Certificate(number),
                    format!("not a certificate ({reason})"),
                )
            };
            match X509Certificate::from_der(der) {
                Ok(([], certificate)) => parsed.push(certificate),
                Ok(_) => return Err(not_one("there are bytes after it")),
                Err(error) => return Err(not_one(&error.to_string())),
            }
        }
        if parsed.is_empty() {
            return Err(self.malformed(Place::Certificate(1), "there is none"));
        }
        let is_chain =
            self.how.several == Several::Chain && (parsed.len() > 1 || self.how.site.is_some());
        if !is_chain {
            drop(parsed);
            return Ok(ders.into_iter().map(Item::certificate).collect());
        }
        for (number, pair) in (1_usize..).zip(parsed.windows(2)) {
            if let [issued, issuer] = pair
                && issued.issuer().as_raw() != issuer.subject().as_raw()
            {
                let reason = format!(
                    "issued by \"{}\", but the next is \"{}\": in a chain the leaf comes first and each one's issuer next; \
                     import a file that is no chain as single certificates",
                    super::details::harmless(&issued.issuer().to_string()),
                    super::details::harmless(&issuer.subject().to_string()),
                );
                return Err(self.malformed(Place::Certificate(number), reason));
            }
        }
        drop(parsed);
        Ok(vec![Item {
            kind: Kind::Chain,
            site: self.how.site.clone(),
            parts: ders,
        }])
    }

    fn json_lines(&self, bytes: &[u8]) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let place = Place::Line(number);
            let line: Line =
                serde_json::from_slice(line).map_err(|error| self.malformed(place, error))?;
            let decode = |base64: String| {
                let bytes = data_encoding::BASE64.decode(base64.as_bytes());
                bytes.map_err(|error| self.malformed(place, format!("not Base64 ({error})")))
            };
            let (listed, kind, parts) = match (line.chain, line.certificate, line.parts) {
                (Some(chain), None, None) => (true, Kind::Chain, chain),
                (None, Some(certificate), None) => (false, Kind::Certificate, vec![certificate]),
                (None, None, Some(parts)) => {
                    let kind = line.kind.as_deref().unwrap_or_default().parse();
                    (
                        false,
                        kind.map_err(|error| self.malformed(place, error))?,
                        parts,
                    )
                }
                _ => {
                    let reason = "needs one of \"chain\", \"certificate\" and \"parts\"";
                    return Err(self.malformed(place, reason));
                }
            };
            let (kind, site) = match line.site.as_deref() {
                None => (kind, None),
                Some(site) => {
                    let (earlier, site) = of_site(site).filter(|_| listed).unwrap_or((kind, site));
                    let site = site
                        .parse()
                        .map_err(|error: NameError| self.malformed(place, error))?;
                    (earlier, Some(site))
                }
            };
            items.push(Item {
                kind,
                site,
                parts: parts.into_iter().map(decode).collect::<Result<_, _>>()?,
            });
        }
        Ok(items)
    }
}

/// What files of earlier versions say before a site: they held everything as a chain.
fn of_site(site: &str) -> Option<(Kind, &str)> {
    if site == "issuers:" {
        return Some((Kind::Issuers, "*"));
    }
    let site = site.strip_prefix("extras:")?;
    Some((Kind::Messages, site))
}
