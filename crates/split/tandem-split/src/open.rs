//! The client's records opened by the origin: one answer and one timing for everything that is
//! wrong with them.
//!
//! CBC with the MAC inside has to look at the padding before it can look for the MAC, and whoever
//! can tell the two failures apart, by an alert or by a stop watch, reads the client's requests
//! (Vaudenay 2002; Lucky 13, AlFardan and Paterson 2013; Zombie POODLE 2019). The volunteer is the
//! best placed of all to try: it carries every record. Hence here:
//! - lengths that are wrong for everybody to see (no whole blocks, no room for a MAC) are refused
//!   at once, with the same answer;
//! - otherwise every record of one length takes the same steps: AES over all of it; a look at the
//!   last 256 bytes, whatever the padding says; the MAC taken from every place where it might be;
//!   HMAC over as many blocks as the longest plaintext would need (`open/fixed.rs`); one
//!   comparison. Wrong padding counts as the shortest, and its record fails by one bit that is
//!   looked at last;
//! - no branch and no index depends on what was decrypted until that bit is known.
//!
//! Is: decryption, check, sequence. Is not: the alert itself: the caller sends [`BadRecord::ALERT`]
//! for every refusal and ends the connection. A library cannot promise what a compiler or a
//! processor makes of it; the masks are `subtle`'s, which guard against the first, and a test holds
//! that the number of compressions depends on the record's length alone.
//!
//! Invariant: after one refusal nothing is opened any more: a guess costs a connection.
//!
//! Specifications: RFC 5246, section 6.2.3.2; RFC 7457, section 2.4; RFC 9150, section 6.

mod fixed;

use std::fmt;
use std::ops::Range;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeLess};
use tandem_wire::tls::record::MAX_PLAINTEXT_LEN;

use crate::aes_cbc::{BLOCK_LEN, CbcKey};
use crate::error::Error;
use crate::seal::{
    Keyed, MAX_MAC_LEN, Mac, Sequence, check_format, check_len, tls12_header, tls13_header,
};
use crate::suite::{Format, MacHash, RecordType, Suite};
use fixed::{FixedHmac, Sha1Blocks, Sha256Blocks, Sha384Blocks, narrow};

/// A record that was not the client's, or was changed on its way. There is no saying why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record that does not open")]
pub struct BadRecord;

impl BadRecord {
    /// The alert for it: fatal, bad_record_mac (RFC 5246, section 7.2.2).
    pub const ALERT: [u8; 2] = [2, 20];
}

/// What was in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// What it holds: in TLS 1.3 the type inside.
    pub record_type: RecordType,
    /// Where in the fragment its plaintext lies now.
    pub plaintext: Range<usize>,
}

/// Opens the records of one direction under one key, in order.
pub struct Opener {
    suite: Suite,
    keys: Keys,
    sequence: Option<Sequence>,
}

enum Keys {
    Cbc {
        cipher: CbcKey,
        mac: CbcMac,
    },
    Integrity {
        keyed: Keyed,
        static_iv: zeroize::Zeroizing<[u8; MAX_MAC_LEN]>,
    },
}

enum CbcMac {
    Sha1(FixedHmac<Sha1Blocks>),
    Sha256(FixedHmac<Sha256Blocks>),
    Sha384(FixedHmac<Sha384Blocks>),
}

impl Opener {
    /// For a suite of TLS 1.2, from the client's MAC key and encryption key. `first` is the next
    /// record's sequence number.
    ///
    /// # Errors
    /// [`crate::Misuse::KeyLength`], [`crate::Misuse::Format`] where keys or suite do not fit.
    pub fn tls12(suite: Suite, mac_key: &[u8], key: &[u8], first: u64) -> Result<Self, Error> {
        check_format(suite, Format::Cbc)?;
        check_len(suite.mac_len(), mac_key)?;
        let cipher = CbcKey::new(suite.key_len(), key)?;
        let mac = match suite.mac_hash() {
            MacHash::Sha1 => CbcMac::Sha1(FixedHmac::new(mac_key)),
            MacHash::Sha256 => CbcMac::Sha256(FixedHmac::new(mac_key)),
            MacHash::Sha384 => CbcMac::Sha384(FixedHmac::new(mac_key)),
        };
        Ok(Self {
            suite,
            keys: Keys::Cbc { cipher, mac },
            sequence: Some(Sequence::starting_at(first)),
        })
    }

    /// For a suite of TLS 1.3, from the client's write key and IV. `first` is the next record's
    /// sequence number.
    ///
    /// # Errors
    /// [`crate::Misuse::KeyLength`], [`crate::Misuse::Format`] where key, IV or suite do not fit.
    pub fn tls13(suite: Suite, key: &[u8], iv: &[u8], first: u64) -> Result<Self, Error> {
        check_format(suite, Format::Integrity)?;
        check_len(suite.mac_len(), key)?;
        check_len(suite.static_iv_len(), iv)?;
        let mut static_iv = zeroize::Zeroizing::new([0; MAX_MAC_LEN]);
        static_iv[..iv.len()].copy_from_slice(iv);
        Ok(Self {
            suite,
            keys: Keys::Integrity {
                keyed: Keyed::new(suite.mac_hash(), key),
                static_iv,
            },
            sequence: Some(Sequence::starting_at(first)),
        })
    }

    /// The suite.
    #[must_use]
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Opens the next record in place: `record_type` is its header's, `fragment` all behind the
    /// header.
    ///
    /// # Errors
    /// [`BadRecord`], whatever is wrong, and for every record after it.
    pub fn open(
        &mut self,
        record_type: RecordType,
        fragment: &mut [u8],
    ) -> Result<Opened, BadRecord> {
        // Gone unless the record is good.
        let mut sequence = self.sequence.take().ok_or(BadRecord)?;
        let number = sequence.spend().map_err(|_| BadRecord)?;
        let opened = match &self.keys {
            Keys::Cbc { cipher, mac } => open_cbc(cipher, mac, number, record_type, fragment),
            Keys::Integrity { keyed, static_iv } => {
                let static_iv = &static_iv[..self.suite.static_iv_len()];
                open_integrity(keyed, static_iv, number, record_type, fragment)
            }
        }?;
        self.sequence = Some(sequence);
        Ok(opened)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({}, {:?})", self.suite, self.sequence)
    }
}

fn open_cbc(
    cipher: &CbcKey,
    mac: &CbcMac,
    sequence: u64,
    record_type: RecordType,
    fragment: &mut [u8],
) -> Result<Opened, BadRecord> {
    let mac_len = match mac {
        CbcMac::Sha1(_) => MacHash::Sha1.digest_len(),
        CbcMac::Sha256(_) => MacHash::Sha256.digest_len(),
        CbcMac::Sha384(_) => MacHash::Sha384.digest_len(),
    };
    // The lengths are for everybody to see: no time to hide.
    let (iv, bytes) = fragment
        .split_first_chunk_mut::<BLOCK_LEN>()
        .ok_or(BadRecord)?;
    if !bytes.len().is_multiple_of(BLOCK_LEN) || bytes.len() <= mac_len {
        return Err(BadRecord);
    }
    cipher.decrypt(iv, bytes);
    let (content_len, padding_is_good) = content_len(bytes, mac_len);
    let found = mac_at(bytes, content_len, mac_len);
    // The length field of the MAC's header holds what the padding leaves.
    let mut header = tls12_header(sequence, record_type, 0);
    let [.., high, low] = narrow(content_len).to_be_bytes();
    header[11..].copy_from_slice(&[high, low]);
    let longest = bytes.len() - mac_len;
    let expected = match mac {
        CbcMac::Sha1(keyed) => keyed.mac(&header, &bytes[..longest], content_len),
        CbcMac::Sha256(keyed) => keyed.mac(&header, &bytes[..longest], content_len),
        CbcMac::Sha384(keyed) => keyed.mac(&header, &bytes[..longest], content_len),
    };
    let is_good = padding_is_good & found.as_ref().ct_eq(expected.as_ref());
    // From here on it is known that the client wrote this, or that nobody will hear more than that
    // it did not.
    if !bool::from(is_good) || content_len > MAX_PLAINTEXT_LEN {
        return Err(BadRecord);
    }
    Ok(Opened {
        record_type,
        plaintext: BLOCK_LEN..BLOCK_LEN + content_len,
    })
}

/// How many bytes come before MAC and padding, and whether the padding is what it should be: n + 1
/// bytes of value n. Where it is not, none is taken off. `bytes` has more than `mac_len` bytes.
fn content_len(bytes: &[u8], mac_len: usize) -> (usize, Choice) {
    let last = bytes.len() - 1;
    let padding = u32::from(bytes[last]);
    // Room for the MAC, and for padding + 1 bytes: both lengths are far below 2^32.
    let mut good = !narrow(last - mac_len).ct_lt(&padding);
    for distance in 0..bytes.len().min(256) {
        let belongs = !padding.ct_lt(&narrow(distance));
        let differs = !bytes[last - distance].ct_eq(&bytes[last]);
        good &= !(belongs & differs);
    }
    let taken_off = u32::conditional_select(&0, &(padding + 1), good);
    (bytes.len() - mac_len - taken_off as usize, good)
}

/// The `mac_len` bytes at `at`, which is secret: one of the 257 last places where they can be.
fn mac_at(bytes: &[u8], at: usize, mac_len: usize) -> Mac {
    let first = (bytes.len() - mac_len).saturating_sub(256);
    // Every byte from `first` on is looked at; those of the MAC fall into a ring at a place that is
    // public, turned by one that is not.
    let mut ring = [0; MAX_MAC_LEN];
    let mut turn = 0;
    let mut is_inside = Choice::from(0);
    for (index, byte) in bytes.iter().enumerate().skip(first) {
        let place = (index - first) % mac_len;
        let is_start = narrow(index).ct_eq(&narrow(at));
        is_inside |= is_start;
        is_inside &= narrow(index).ct_lt(&narrow(at + mac_len));
        ring[place] |= u8::conditional_select(&0, byte, is_inside);
        turn |= u32::conditional_select(&0, &narrow(place), is_start);
    }
    let mut mac = [0; MAX_MAC_LEN];
    for byte in &mut mac[..mac_len] {
        for (place, turned) in ring[..mac_len].iter().enumerate() {
            let is_here = narrow(place).ct_eq(&turn);
            *byte |= u8::conditional_select(&0, turned, is_here);
        }
        let next = turn + 1;
        turn = u32::conditional_select(&0, &next, next.ct_lt(&narrow(mac_len)));
    }
    Mac::new(&mac[..mac_len])
}

/// TLS 1.3 without encryption: everything but the key is public, and the MAC is compared in
/// constant time.
fn open_integrity(
    keyed: &Keyed,
    static_iv: &[u8],
    sequence: u64,
    record_type: RecordType,
    fragment: &[u8],
) -> Result<Opened, BadRecord> {
    let inner_len = fragment
        .len()
        .checked_sub(static_iv.len())
        .ok_or(BadRecord)?;
    if record_type != RecordType::ApplicationData || inner_len > MAX_PLAINTEXT_LEN + 1 {
        return Err(BadRecord);
    }
    let (inner, found) = fragment.split_at(inner_len);
    let (nonce, header) = tls13_header(static_iv, sequence, inner_len);
    let expected = keyed.mac(&[&nonce[..static_iv.len()], &header, inner]);
    if !bool::from(expected.as_ref().ct_eq(found)) {
        return Err(BadRecord);
    }
    // Zeros behind the type are padding (RFC 8446, section 5.4).
    let end = inner.iter().rposition(|&byte| byte != 0).ok_or(BadRecord)?;
    let record_type = RecordType::from_u8(inner[end]).ok_or(BadRecord)?;
    Ok(Opened {
        record_type,
        plaintext: 0..end,
    })
}

#[cfg(test)]
mod tests;
