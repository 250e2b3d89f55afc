//! Makes the dictionary that both proxies compress certificates with, out of chains of the web.
//!
//! ```text
//! cargo run -p tandem-lab --example certificate-dictionary 2024-07-01 < chains.jsonl > two.bin
//! ```
//!
//! A line is a chain: `site`, `not_before`, `chain` (base64 DER, leaf first). Chains that begin on
//! the given day or later are left out: what is measured on them is measured on chains that the
//! dictionary has not seen.
//!
//! What goes in is what certificates of one issuer have in common: DER around the values, object
//! identifiers, issuers' names and key identifiers, addresses of CAs, policies, names of CT logs.
//! What is a certificate's own is blanked before anything is counted: serial number, validity,
//! subject and names of a leaf, keys, signatures, timestamps. So no certificate can be put together
//! from it, of no site and of no CA.
//!
//! It lies in `tandem-delta/dictionary/`. A dictionary belongs to a version of the encoding:
//! another one is a new version.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{Read, Write};
use std::ops::Range;

/// Most bytes of a dictionary. DEFLATE looks back 32 KiB, and what is compressed takes its part.
const MAX_LEN: usize = 24_000;

/// Strings of this length are not repeated in the dictionary.
const WINDOW: usize = 12;

/// Bytes beside a new string that go with it, so that matches run across.
const MARGIN: usize = 6;

/// Shorter pieces between two blanks say nothing.
const MIN_FRAGMENT: usize = 6;

/// Object identifiers of extensions with values of a certificate's own.
const SUBJECT_KEY: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x0e];
const SUBJECT_NAMES: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x11];
const SCT_LIST: &[u8] = &[0x06, 10, 0x2b, 0x06, 1, 4, 1, 0xd6, 0x79, 2, 4, 2];

/// A value in DER: where it begins, where its contents lie.
struct Value {
    tag: u8,
    start: usize,
    contents: Range<usize>,
}

/// The value at `at`.
fn value(der: &[u8], at: usize) -> Option<Value> {
    let (tag, first) = (*der.get(at)?, usize::from(*der.get(at + 1)?));
    let (length, header) = if first & 0x80 == 0 {
        (first, 2)
    } else {
        let count = first & 0x7f;
        let bytes = der.get(at + 2..at + 2 + count)?;
        let length = bytes
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte));
        (length, 2 + count)
    };
    let contents = at + header..at + header + length;
    der.get(contents.clone())?;
    Some(Value {
        tag,
        start: at,
        contents,
    })
}

/// The values within a constructed one.
fn values(der: &[u8], within: Range<usize>) -> Option<Vec<Value>> {
    let mut found = Vec::new();
    let mut at = within.start;
    while at < within.end {
        let next = value(der, at)?;
        at = next.contents.end;
        found.push(next);
    }
    Some(found)
}

/// Where a certificate has values of its own, in order (RFC 5280, section 4.1).
fn blanks(der: &[u8], is_leaf: bool) -> Option<Vec<Range<usize>>> {
    let parts = values(der, value(der, 0)?.contents)?;
    let [tbs, _, signature] = &parts[..] else {
        return None;
    };
    let fields = values(der, tbs.contents.clone())?;
    let serial = usize::from(fields.first()?.tag == 0xa0);
    let [number, _, _, validity, subject, key] = fields.get(serial..serial + 6)? else {
        return None;
    };
    let mut blanks = vec![
        2..4,
        tbs.start..fields[0].start,
        number.start + 1..number.contents.end,
        validity.contents.clone(),
        signature.start..signature.contents.end,
    ];
    if is_leaf {
        blanks.push(subject.start + 1..subject.contents.end);
    }
    let bits = values(der, key.contents.clone())?.pop()?;
    // An RSA key is a structure; its exponent is everyone's.
    let (header, trailer) = match der.get(bits.contents.start + 1)? {
        0x30 => (5, 5),
        _ => (2, 0),
    };
    blanks.push(bits.contents.start + header..bits.contents.end - trailer);
    for field in fields.iter().filter(|field| field.tag == 0xa3) {
        let list = value(der, field.contents.start)?;
        for extension in values(der, list.contents)? {
            let body = extension.contents;
            let bytes = &der[body.clone()];
            if bytes.starts_with(SUBJECT_KEY) {
                blanks.push(body.end.checked_sub(20)?..body.end);
            } else if bytes.starts_with(SUBJECT_NAMES) && is_leaf {
                blanks.push(body.start + SUBJECT_NAMES.len()..body.end);
            } else if bytes.starts_with(SCT_LIST) {
                blanks.extend(scts(der, body.start + SCT_LIST.len())?);
            }
        }
    }
    blanks.sort_by_key(|blank| blank.start);
    Some(blanks)
}

/// The lengths before a list of SCTs; the time and the signature of each (RFC 6962, section 3.2).
fn scts(der: &[u8], at: usize) -> Option<Vec<Range<usize>>> {
    let list = value(der, value(der, at)?.contents.start)?.contents;
    let mut sct = list.start + 2;
    let mut blanks: Vec<Range<usize>> = std::iter::once(at..sct).collect();
    while sct < list.end {
        let length = u16::from_be_bytes([*der.get(sct)?, *der.get(sct + 1)?]);
        let end = sct + 2 + usize::from(length);
        // Length, version, log; time; extensions, algorithm; signature.
        let time = sct + 2 + 1 + 32;
        blanks.push(time..time + 8);
        blanks.push(time + 8 + 4..end);
        sct = end;
    }
    Some(blanks)
}

/// What lies between the blanks.
fn fragments(der: &[u8], is_leaf: bool) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    let mut at = 0;
    for blank in blanks(der, is_leaf)? {
        if blank.start > at {
            found.push(der.get(at..blank.start)?);
        }
        at = at.max(blank.end);
    }
    found.push(der.get(at..)?);
    found.retain(|fragment| fragment.len() >= MIN_FRAGMENT);
    Some(found)
}

/// The new parts of a fragment, beside what the dictionary has, with a margin around each.
fn news<'f>(fragment: &'f [u8], known: &HashSet<&[u8]>) -> Vec<&'f [u8]> {
    let mut is_known = vec![false; fragment.len()];
    for (at, window) in fragment.windows(WINDOW).enumerate() {
        if known.contains(window) {
            is_known[at..at + WINDOW].fill(true);
        }
    }
    let mut parts = Vec::new();
    let mut at = 0;
    for run in is_known.chunk_by(|one, other| one == other) {
        let end = at + run.len();
        if !run[0] && run.len() >= 4 {
            parts.push(&fragment[at.saturating_sub(MARGIN)..(end + MARGIN).min(fragment.len())]);
        }
        at = end;
    }
    parts
}

/// A fragment's standing: the sites that show it, and the chains.
#[derive(Default)]
struct Seen<'s> {
    sites: BTreeSet<&'s str>,
    chains: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let until = std::env::args()
        .nth(1)
        .ok_or("the first day of the chains that are left out is missing")?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut chains: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        if line["not_before"].as_str().is_none_or(|day| *day >= *until) {
            continue;
        }
        let site = line["site"].as_str().ok_or("a line without a site")?;
        let ders = line["chain"].as_array().ok_or("a line without a chain")?;
        let ders = ders.iter().map(|der| {
            let base64 = der.as_str().ok_or("a certificate that is no text")?;
            Ok(data_encoding::BASE64.decode(base64.as_bytes())?)
        });
        let ders = ders.collect::<Result<_, Box<dyn std::error::Error>>>()?;
        chains.push((site.to_owned(), ders));
    }
    let mut seen: BTreeMap<&[u8], Seen<'_>> = BTreeMap::new();
    for (site, chain) in &chains {
        for (index, der) in chain.iter().enumerate() {
            let fragments = fragments(der, index == 0).ok_or("a certificate that is none")?;
            for fragment in fragments {
                let seen = seen.entry(fragment).or_default();
                seen.sites.insert(site);
                seen.chains += 1;
            }
        }
    }
    let mut fragments: Vec<(&[u8], Seen<'_>)> = seen.into_iter().collect();
    fragments.retain(|(_, seen)| seen.chains > 1);
    fragments.sort_by_key(|(fragment, seen)| {
        std::cmp::Reverse((seen.sites.len(), seen.chains, *fragment))
    });
    let mut known: HashSet<&[u8]> = HashSet::new();
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut length = 0;
    for (fragment, _) in &fragments {
        for part in news(fragment, &known) {
            if length + part.len() <= MAX_LEN {
                length += part.len();
                parts.push(part);
                known.extend(part.windows(WINDOW));
            }
        }
    }
    // What is met most lies nearest to what is compressed.
    parts.reverse();
    std::io::stdout().write_all(&parts.concat())?;
    eprintln!(
        "{} chains, {} strings, {length} bytes",
        chains.len(),
        parts.len()
    );
    Ok(())
}
