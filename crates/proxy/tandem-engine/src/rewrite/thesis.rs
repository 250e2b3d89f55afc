//! The messages of McVeety's thesis (2009, section 2.3): CPI in the ClientHello,
//! CompressedCertificate in the server's flight.
//!
//! Is: the edits of records that `--wire mcveety` makes, for redoing the thesis. Is not: harmless;
//! a CPI that reaches a server breaks its transcript, a reference that reaches a client breaks its
//! handshake.
//!
//! ```text
//! CPI                    extension, last of the hello: reference{1..}, 16 bytes each
//! CompressedCertificate  handshake message: reference{1..}            length divisible by 16: the whole chain is held
//!                        | entry{1..} pad?                            else
//!   entry = 1 reference  | 2 length(3) DER        pad = 0, so that the length is not divisible by 16
//! ```
//!
//! The confirmation of a client's CII rides in the ServerHello ([`confirmation`]).
//!
//! Invariant: [`strip`] undoes [`announce`] and [`expand`] undoes [`compress`], to the byte; what
//! does not have the exact form is left alone.

pub mod confirmation;

use std::ops::Range;

use tandem_delta::Reference;
use tandem_store::{Kind, ObjectId, Store};
use tandem_wire::tls::{
    ClientHello, ContentType, ExtensionType, Extensions, HandshakeType, Records,
};

use super::Miss;
use crate::objects::Flight;
use crate::peer::Possession;

/// The thesis's private code points (sections 2.3.2.2 and 2.3.3), neither of them assigned by IANA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    /// Extension type of the certificate possession indication, and of the confirmation of a CII.
    /// Default 0x0099.
    pub possession: u16,
    /// Handshake message type of CompressedCertificate. Default 0x99.
    pub compressed_certificate: u8,
}

impl Default for Codes {
    fn default() -> Self {
        Self {
            possession: 0x0099,
            compressed_certificate: 0x99,
        }
    }
}

/// Bytes of a record's header, and of a handshake message's.
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;

const ENTRY_PAD: u8 = 0;
const ENTRY_REFERENCE: u8 = 1;
const ENTRY_CERTIFICATE: u8 = 2;

/// Most certificates in one message; the longest public chains have about six.
const MAX_ENTRIES: usize = 32;

/// The hello with the references of these chains' certificates. `payload` is one record that holds
/// the ClientHello alone.
///
/// `None`: it has another form, has an empty extension block (which could not be told from none
/// afterwards) or has a CPI.
pub fn announce(
    payload: &[u8],
    chains: &[ObjectId],
    store: &mut impl Store,
    codes: Codes,
) -> Option<Vec<u8>> {
    let body = lone_hello(payload)?;
    let hello = ClientHello::parse(body).ok()?;
    let mut references: Vec<u8> = Vec::new();
    for id in chains {
        for digest in store
            .object(Kind::Chain, id)?
            .parts
            .iter()
            .take(MAX_ENTRIES)
        {
            if !references
                .as_chunks::<{ Reference::LEN }>()
                .0
                .contains(&digest.prefix16())
            {
                references.extend_from_slice(&digest.prefix16());
            }
        }
    }
    if references.is_empty() {
        // An empty list is none: nobody would take it off again.
        return None;
    }
    let mut extension = codes.possession.to_be_bytes().to_vec();
    extension.extend_from_slice(&u16::try_from(references.len()).ok()?.to_be_bytes());
    extension.extend_from_slice(&references);
    let mut edited = body.to_vec();
    match hello.extensions() {
        None => edited.extend_from_slice(&u16::try_from(extension.len()).ok()?.to_be_bytes()),
        Some(block) => {
            let length = block.as_bytes().len();
            if length == 0
                || block
                    .iter()
                    .any(|extension| extension.extension_type == ExtensionType(codes.possession))
            {
                return None;
            }
            let at = body.len() - length - 2;
            edited[at..at + 2]
                .copy_from_slice(&u16::try_from(length + extension.len()).ok()?.to_be_bytes());
        }
    }
    edited.extend_from_slice(&extension);
    reframe(
        payload,
        0..payload.len(),
        &[message(HandshakeType::CLIENT_HELLO.0, &edited)?].concat(),
    )
}

/// What a CPI said, and the hello as the client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The record without the extension.
    pub hello: Vec<u8>,
    /// The certificates that the far side holds.
    pub references: Vec<Reference>,
}

/// Undoes [`announce`]; `None` where the payload is not what that writes.
pub fn strip(payload: &[u8], codes: Codes) -> Option<Announcement> {
    let body = lone_hello(payload)?;
    let hello = ClientHello::parse(body).ok()?;
    let (references, edited) = without_last(body, hello.extensions()?, codes)?;
    let hello = reframe(
        payload,
        0..payload.len(),
        &message(HandshakeType::CLIENT_HELLO.0, &edited)?,
    )?;
    Some(Announcement { hello, references })
}

/// The references in a hello's last extension, if that is one of possession, and the hello's body
/// without it.
fn without_last(
    body: &[u8],
    block: Extensions<'_>,
    codes: Codes,
) -> Option<(Vec<Reference>, Vec<u8>)> {
    let last = block
        .iter()
        .last()
        .filter(|extension| extension.extension_type == ExtensionType(codes.possession))?;
    let (references, rest) = last.data.as_chunks::<{ Reference::LEN }>();
    if references.is_empty() || !rest.is_empty() {
        return None;
    }
    let own = MESSAGE_HEADER + last.data.len();
    let length = block.as_bytes().len();
    let at = body.len() - length - 2;
    let mut edited = body[..body.len() - own].to_vec();
    if length == own {
        edited.truncate(at);
    } else {
        edited[at..at + 2].copy_from_slice(&u16::try_from(length - own).ok()?.to_be_bytes());
    }
    Some((references.iter().copied().map(Reference).collect(), edited))
}

/// The flight with references in place of the certificates that the far side holds; `None` where
/// that saves nothing, or the Certificate message spans records.
pub fn compress(
    bytes: &[u8],
    flight: &Flight,
    possession: &Possession,
    codes: Codes,
) -> Option<Vec<u8>> {
    // What a server says by this number itself would be taken for the confirmation of a CII.
    if confirmation::take(bytes, codes).is_some() {
        return None;
    }
    compress_from(bytes, 0, flight, possession, codes)
}

/// The same for the client's flight after the server's, which begins at offset `from` of its
/// stream.
pub fn compress_from(
    stream: &[u8],
    from: usize,
    flight: &Flight,
    possession: &Possession,
    codes: Codes,
) -> Option<Vec<u8>> {
    let bytes = stream.get(from..)?;
    let (record, whole) = message_in_record(bytes, HandshakeType::CERTIFICATE.0)?;
    let certificates = flight.certificates(stream)?;
    let held: Vec<Option<Reference>> = certificates
        .iter()
        .map(|der| possession.certificate(der))
        .collect();
    if held.iter().all(Option::is_none) {
        return None;
    }
    let mut body = Vec::new();
    if held.iter().all(Option::is_some) {
        held.iter()
            .flatten()
            .for_each(|reference| body.extend_from_slice(&reference.0));
    } else {
        for (reference, der) in held.iter().zip(&certificates) {
            match reference {
                Some(reference) => {
                    body.push(ENTRY_REFERENCE);
                    body.extend_from_slice(&reference.0);
                }
                None => {
                    body.push(ENTRY_CERTIFICATE);
                    body.extend_from_slice(&u24(der.len())?);
                    body.extend_from_slice(der);
                }
            }
        }
        if body.len() % Reference::LEN == 0 {
            body.push(ENTRY_PAD);
        }
    }
    let replaced = message(codes.compressed_certificate, &body)?;
    let shorter = splice(bytes, record, whole, &replaced)?;
    (shorter.len() < bytes.len()).then_some(shorter)
}

/// What became of a payload that may hold a CompressedCertificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expanded {
    /// The flight as the server sent it.
    Whole(Vec<u8>),
    /// It could not be rebuilt here.
    Miss(Miss),
    /// The payload holds no CompressedCertificate.
    Ordinary,
}

/// Undoes [`compress`].
pub fn expand(payload: &[u8], store: &mut impl Store, codes: Codes) -> Expanded {
    let Some((record, whole)) = message_in_record(payload, codes.compressed_certificate) else {
        return Expanded::Ordinary;
    };
    let Some(entries) = entries(&payload[whole.start + MESSAGE_HEADER..whole.end]) else {
        return Expanded::Ordinary;
    };
    let mut list = Vec::new();
    for entry in entries {
        let held;
        let der = match entry {
            Entry::Certificate(der) => der,
            Entry::Reference(prefix) => match store.part_by_prefix(prefix) {
                Some((_, der)) => {
                    held = der;
                    &held
                }
                None => return Expanded::Miss(Miss::NotHeld),
            },
        };
        let Some(length) = u24(der.len()) else {
            return Expanded::Miss(Miss::Malformed);
        };
        list.extend_from_slice(&length);
        list.extend_from_slice(der);
    }
    let rebuilt = u24(list.len())
        .and_then(|length| message(HandshakeType::CERTIFICATE.0, &[&length[..], &list].concat()))
        .and_then(|message| splice(payload, record, whole, &message));
    rebuilt.map_or(Expanded::Miss(Miss::Malformed), Expanded::Whole)
}

enum Entry<'a> {
    Reference(&'a [u8; Reference::LEN]),
    Certificate(&'a [u8]),
}

fn entries(mut body: &[u8]) -> Option<Vec<Entry<'_>>> {
    let (references, rest) = body.as_chunks::<{ Reference::LEN }>();
    if rest.is_empty() {
        return (1..=MAX_ENTRIES)
            .contains(&references.len())
            .then(|| references.iter().map(Entry::Reference).collect());
    }
    let mut entries = Vec::new();
    while let Some((&kind, rest)) = body.split_first() {
        let (entry, rest) = match kind {
            ENTRY_REFERENCE => rest
                .split_first_chunk()
                .map(|(reference, rest)| (Entry::Reference(reference), rest))?,
            ENTRY_CERTIFICATE => {
                let (length, rest) = rest.split_first_chunk::<3>()?;
                let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
                rest.split_at_checked(length)
                    .map(|(der, rest)| (Entry::Certificate(der), rest))?
            }
            ENTRY_PAD if rest.is_empty() => break,
            _ => return None,
        };
        entries.push(entry);
        body = rest;
    }
    (1..=MAX_ENTRIES)
        .contains(&entries.len())
        .then_some(entries)
}

/// The body of the ClientHello that is all there is in `payload`: one record, one message.
fn lone_hello(payload: &[u8]) -> Option<&[u8]> {
    let (record, whole) = message_in_record(payload, HandshakeType::CLIENT_HELLO.0)?;
    let alone = record == (0..payload.len()) && whole == (RECORD_HEADER..payload.len());
    alone.then(|| &payload[whole.start + MESSAGE_HEADER..])
}

/// Where the first message of this type lies, header included, if it lies in one record of a run of
/// whole records: the record's range and the message's.
fn message_in_record(bytes: &[u8], wanted: u8) -> Option<(Range<usize>, Range<usize>)> {
    for record in Records::new(bytes) {
        let record = record.ok()?;
        if record.header.content_type != ContentType::Handshake {
            return None;
        }
        let mut at = record.range.start + RECORD_HEADER;
        while let Some(&[kind, high, middle, low]) =
            bytes[at..record.range.end].first_chunk::<MESSAGE_HEADER>()
        {
            let end = at + MESSAGE_HEADER + u32::from_be_bytes([0, high, middle, low]) as usize;
            if end > record.range.end {
                break;
            }
            if kind == wanted {
                return Some((record.range, at..end));
            }
            at = end;
        }
    }
    None
}

fn message(kind: u8, body: &[u8]) -> Option<Vec<u8>> {
    Some([&[kind], &u24(body.len())?[..], body].concat())
}

/// A length in three bytes.
fn u24(length: usize) -> Option<[u8; 3]> {
    let [0, bytes @ ..] = u32::try_from(length).ok()?.to_be_bytes() else {
        return None;
    };
    Some(bytes)
}

/// `bytes` with `replacement` in place of the message at `whole`, and the length of its record
/// corrected.
fn splice(
    bytes: &[u8],
    record: Range<usize>,
    whole: Range<usize>,
    replacement: &[u8],
) -> Option<Vec<u8>> {
    let fragment = [
        &bytes[record.start + RECORD_HEADER..whole.start],
        replacement,
        &bytes[whole.end..record.end],
    ]
    .concat();
    reframe(bytes, record, &fragment)
}

/// `bytes` with another fragment in the record at `record`.
fn reframe(bytes: &[u8], record: Range<usize>, fragment: &[u8]) -> Option<Vec<u8>> {
    // RFC 5246, section 6.2.1: a plaintext fragment has at most 2^14 bytes.
    let length = u16::try_from(fragment.len())
        .ok()
        .filter(|length| *length <= 1 << 14)?;
    let mut out = bytes[..record.start + 3].to_vec();
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(fragment);
    out.extend_from_slice(&bytes[record.end..]);
    Some(out)
}

#[cfg(test)]
mod tests;
