//! One certificate in words, for a person.
//!
//! Not here: what the index makes of it. Invariant: no control character, and no character that
//! turns text around, comes out.

use serde::Serialize;
use tandem_store::Digest;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::serial::text;

/// Names that are shown of one certificate. Nobody reads more.
const NAMES_SHOWN: usize = 1_000;
/// Columns of Base64 in PEM (RFC 7468, section 2).
const PEM_COLUMNS: usize = 64;
/// The label of certificates (RFC 7468, section 5.1).
pub(super) const CERTIFICATE: &str = "CERTIFICATE";

/// One certificate in words. Times are Unix seconds, negative before 1970.
#[derive(Clone, Debug, Serialize)]
pub struct CertificateDetails {
    /// Its name.
    #[serde(serialize_with = "text")]
    pub digest: Digest,
    /// Bytes of DER.
    pub bytes: usize,
    /// What is in it; none if it is no X.509.
    pub contents: Option<Contents>,
    /// The certificate itself; under another label where it is none.
    pub pem: String,
}

/// What X.509 says in a certificate.
#[derive(Clone, Debug, Serialize)]
pub struct Contents {
    /// Who it is about.
    pub subject: String,
    /// Who says so.
    pub issuer: String,
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// Alternative names, at most a thousand: DNS names as they are, others with their kind before
    /// them.
    pub names: Vec<String>,
    /// First second of validity.
    pub not_before: i64,
    /// Last second of validity.
    pub not_after: i64,
    /// The object identifier of the key's algorithm.
    pub key_algorithm: String,
    /// The object identifier of the signature's algorithm.
    pub signature_algorithm: String,
}

impl CertificateDetails {
    /// Reads what can be read.
    pub(super) fn of(digest: Digest, der: &[u8]) -> Self {
        let contents = X509Certificate::from_der(der)
            .ok()
            .map(|(_, certificate)| Contents::of(&certificate));
        Self {
            digest,
            bytes: der.len(),
            contents,
            pem: pem(CERTIFICATE, der),
        }
    }

    /// What is no certificate: nothing is read in it.
    pub(super) fn of_messages(digest: Digest, messages: &[u8]) -> Self {
        Self {
            digest,
            bytes: messages.len(),
            contents: None,
            pem: pem("TLS HANDSHAKE MESSAGES", messages),
        }
    }
}

impl Contents {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let names = alternatives
            .iter()
            .flat_map(|extension| &extension.value.general_names);
        Self {
            subject: harmless(&certificate.subject().to_string()),
            issuer: harmless(&certificate.issuer().to_string()),
            serial: certificate.tbs_certificate.raw_serial_as_string(),
            names: names
                .take(NAMES_SHOWN)
                .map(|name| harmless(&in_words(name)))
                .collect(),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            key_algorithm: certificate.public_key().algorithm.algorithm.to_id_string(),
            signature_algorithm: certificate.signature_algorithm.algorithm.to_id_string(),
        }
    }
}

fn in_words(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => {
            match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
                (Ok(address), _) => core::net::Ipv4Addr::from(address).to_string(),
                (_, Ok(address)) => core::net::Ipv6Addr::from(address).to_string(),
                (Err(_), Err(_)) => format!("address of {} bytes", bytes.len()),
            }
        }
        other => other.to_string(),
    }
}

/// The bytes as RFC 7468 writes them.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let base64 = data_encoding::BASE64.encode(der);
    let mut pem = String::with_capacity(base64.len() + base64.len() / PEM_COLUMNS + 64);
    pem.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so any place is between two characters.
        let (line, after) = rest.split_at(rest.len().min(PEM_COLUMNS));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

/// Text that does nothing to a terminal.
pub(super) fn harmless(text: &str) -> String {
    let turns_text = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut harmless = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns_text(c) {
            harmless.extend(c.escape_default());
        } else {
            harmless.push(c);
        }
    }
    harmless
}
