//! The dictionary that belongs to the encoding: what certificates of the web have in common.
//!
//! Is: 6 kB of DER around values, object identifiers, names of issuers and of CT logs, addresses of
//! CAs; `tandem-lab/examples/certificate-dictionary.rs` makes it. Is not: certificates; no key,
//! signature, serial number or site is in it (`docs/adr/0013-compressed-literals.md`).
//!
//! Invariant: it never changes. Another dictionary is another [`Encoding`].

use crate::encoding::Encoding;

/// The dictionary of [`Encoding::Two`] and what follows it.
const TWO: &[u8] = include_bytes!("../dictionary/two.bin");

/// The dictionary of this encoding.
pub(crate) fn of(encoding: Encoding) -> &'static [u8] {
    match encoding {
        Encoding::One => &[],
        Encoding::Two | Encoding::Three => TWO,
    }
}
