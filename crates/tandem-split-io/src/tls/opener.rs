//! Opens a client's record: AES in CBC mode, then padding and HMAC, in a time that does not depend on either.
//!
//! Is not: a sealer; what the server sends is never encrypted by the server.
//!
//! Whoever relays the record, and that is somebody nobody trusts, may change it and time the alert. RFC 5246, 6.2.3.2 asks that processing time
//! be the same whether or not the padding is correct; "Lucky Thirteen" (AlFardan and Paterson, 2013) showed that the MAC must be of constant
//! time, too, over a length that the padding decides. So: every byte that padding could cover is looked at, every block that could be the last of
//! the MAC's message is compressed, and what is not wanted is masked out.
//!
//! ```text
//!   IV 16 | AES-CBC( content | MAC | padding | length of the padding )
//! ```
//!
//! Invariant: branches and addresses depend on the record's length and the suite only, never on a decrypted byte.

use std::ops::Range;

use aes::cipher::{Block, BlockCipherDecrypt as _, KeyInit as _};
use aes::{Aes128Dec, Aes256Dec};
use subtle::{
    Choice, ConditionallySelectable as _, ConstantTimeEq as _, ConstantTimeGreater as _,
    ConstantTimeLess as _,
};

use super::digest::{Chain, Digest, MAX_BLOCK, MAX_DIGEST};

/// AES's block, and so CBC's.
const BLOCK: usize = 16;
/// The most padding that one byte can announce, with that byte.
const MAX_PADDING: usize = 256;
/// Sequence number, type, version, length: what the MAC covers before the content (RFC 5246, 6.2.3.1).
const HEADER: usize = 13;
/// The most bytes of content in a record (RFC 5246, 6.2.1).
const MAX_CONTENT: usize = 1 << 14;

/// The keys of the direction from the client.
pub(super) struct Opener {
    cipher: Cipher,
    digest: Digest,
    /// After the block of the key and the inner pad.
    inner: Chain,
    /// After the block of the key and the outer pad.
    outer: Chain,
}

enum Cipher {
    Aes128(Box<Aes128Dec>),
    Aes256(Box<Aes256Dec>),
}

impl Opener {
    /// With these keys; `None` where their lengths are none of the suites'.
    pub(super) fn new(digest: Digest, cipher_key: &[u8], mac_key: &[u8]) -> Option<Self> {
        let cipher = match cipher_key.len() {
            16 => Cipher::Aes128(Box::new(Aes128Dec::new_from_slice(cipher_key).ok()?)),
            32 => Cipher::Aes256(Box::new(Aes256Dec::new_from_slice(cipher_key).ok()?)),
            _ => return None,
        };
        if mac_key.len() != digest.output_len() {
            return None;
        }
        Some(Self {
            cipher,
            digest,
            inner: padded_key(digest, mac_key, 0x36),
            outer: padded_key(digest, mac_key, 0x5c),
        })
    }

    /// Opens a record's fragment in place: where its content lies, or nothing, whatever is wrong.
    pub(super) fn open(
        &self,
        sequence: u64,
        content_type: u8,
        fragment: &mut [u8],
    ) -> Option<Range<usize>> {
        let mac_len = self.digest.output_len();
        // Lengths are in clear, whoever relays the record knows them.
        let body = fragment.len().checked_sub(BLOCK)?;
        if body % BLOCK != 0 || body < (mac_len + 1).next_multiple_of(BLOCK) {
            return None;
        }
        self.decrypt(fragment);
        let plain = &fragment[BLOCK..];

        let (content_len, padding_is_good) = unpad(plain, mac_len);
        let lengths = body.saturating_sub(mac_len + MAX_PADDING)..=body - mac_len - 1;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&sequence.to_be_bytes());
        header[8] = content_type;
        header[9..11].copy_from_slice(&[3, 3]);
        header[11] = (content_len >> 8) as u8;
        header[12] = content_len as u8;

        let expected = self.mac(
            &header,
            plain,
            content_len,
            *lengths.start(),
            *lengths.end(),
        );
        let found = mac_at(
            plain,
            content_len,
            *lengths.start(),
            *lengths.end(),
            mac_len,
        );
        let mac_is_good = expected[..mac_len].ct_eq(&found[..mac_len]);
        if !bool::from(padding_is_good & mac_is_good) || content_len as usize > MAX_CONTENT {
            return None;
        }
        Some(BLOCK..BLOCK + content_len as usize)
    }

    /// CBC, backwards, so that each block's predecessor is still there.
    fn decrypt(&self, fragment: &mut [u8]) {
        for end in (2 * BLOCK..=fragment.len()).rev().step_by(BLOCK) {
            let (before, here) = fragment[end - 2 * BLOCK..end].split_at_mut(BLOCK);
            let mut block: Block<Aes128Dec> = [0; BLOCK].into();
            block.copy_from_slice(here);
            match &self.cipher {
                Cipher::Aes128(cipher) => cipher.decrypt_block(&mut block),
                Cipher::Aes256(cipher) => cipher.decrypt_block(&mut block),
            }
            for ((to, from), chained) in here.iter_mut().zip(block).zip(before) {
                *to = from ^ *chained;
            }
        }
    }

    /// HMAC over the header and the first `content_len` bytes, which are between `least` and `most`.
    fn mac(
        &self,
        header: &[u8; HEADER],
        plain: &[u8],
        content_len: u32,
        least: usize,
        most: usize,
    ) -> [u8; MAX_DIGEST] {
        let digest = self.digest;
        let block_len = digest.block_len();
        let message_len = HEADER as u32 + content_len;
        // The end of the message, a byte 0x80 and the length fit into the block with this number.
        let last_block = (message_len + digest.length_len() as u32) >> digest.block_shift();
        // The block with the key comes before.
        let bits = (u64::from(message_len) + block_len as u64) * 8;
        let mut length = [0; 16];
        length[8..].copy_from_slice(&bits.to_be_bytes());

        let certain = (HEADER + least) / block_len;
        let blocks = (HEADER + most + digest.length_len()) / block_len + 1;
        let mut chain = self.inner;
        let mut wanted = [0_u64; 8];
        for number in 0..blocks {
            let start = number * block_len;
            let mut block = [0; MAX_BLOCK];
            for (index, to) in block[..block_len].iter_mut().enumerate() {
                let position = start + index;
                *to = match position.checked_sub(HEADER) {
                    None => header[position],
                    Some(offset) => plain.get(offset).copied().unwrap_or(0),
                };
            }
            if number >= certain {
                let is_last = (number as u32).ct_eq(&last_block);
                for (index, to) in block[..block_len].iter_mut().enumerate() {
                    let position = (start + index) as u32;
                    *to = u8::conditional_select(&0, to, position.ct_lt(&message_len));
                    *to = u8::conditional_select(to, &0x80, position.ct_eq(&message_len));
                    // Where the length stands in the last block, the message has ended.
                    if let Some(place) = (index + 16).checked_sub(block_len)
                        && place >= 16 - digest.length_len()
                    {
                        *to |= u8::conditional_select(&0, &length[place], is_last);
                    }
                }
                digest.compress(&mut chain, &block);
                for (to, from) in wanted.iter_mut().zip(chain.0) {
                    *to = u64::conditional_select(to, &from, is_last);
                }
            } else {
                digest.compress(&mut chain, &block);
            }
        }
        self.finish(&Chain(wanted))
    }

    /// The outer hash: over the key's block and the inner digest, of one length for each suite.
    fn finish(&self, inner: &Chain) -> [u8; MAX_DIGEST] {
        let digest = self.digest;
        let (block_len, output_len) = (digest.block_len(), digest.output_len());
        let mut block = [0; MAX_BLOCK];
        block[..output_len].copy_from_slice(&digest.output(inner)[..output_len]);
        block[output_len] = 0x80;
        let bits = ((block_len + output_len) * 8) as u64;
        block[block_len - 8..block_len].copy_from_slice(&bits.to_be_bytes());
        let mut chain = self.outer;
        digest.compress(&mut chain, &block);
        digest.output(&chain)
    }
}

/// The chaining value after the block of a key and a pad (RFC 2104, 2). A MAC key of TLS is never longer than a block.
fn padded_key(digest: Digest, key: &[u8], pad: u8) -> Chain {
    let mut block = [0; MAX_BLOCK];
    for (index, to) in block[..digest.block_len()].iter_mut().enumerate() {
        *to = pad ^ key.get(index).copied().unwrap_or(0);
    }
    let mut chain = digest.initial();
    digest.compress(&mut chain, &block);
    chain
}

/// How long the content is, and whether the padding is as it must be. Bad padding counts as none, so that the MAC is computed all the same.
fn unpad(plain: &[u8], mac_len: usize) -> (u32, Choice) {
    // The caller has seen to it that a MAC and one byte of padding fit in.
    let last = plain[plain.len() - 1];
    let padding = u32::from(last);
    let room = (plain.len() - mac_len - 1) as u32;
    let mut good = !padding.ct_gt(&room);
    for (index, byte) in plain.iter().rev().take(MAX_PADDING).enumerate() {
        let is_padding = !(index as u32).ct_gt(&padding);
        good &= !is_padding | byte.ct_eq(&last);
    }
    let padding = u32::conditional_select(&0, &padding, good);
    (room - padding, good)
}

/// The MAC that stands at `offset`, which is between `least` and `most`.
fn mac_at(
    plain: &[u8],
    offset: u32,
    least: usize,
    most: usize,
    mac_len: usize,
) -> [u8; MAX_DIGEST] {
    let mut mac = [0; MAX_DIGEST];
    for start in least..=most {
        let here = (start as u32).ct_eq(&offset);
        for (to, from) in mac[..mac_len].iter_mut().zip(&plain[start..]) {
            *to |= u8::conditional_select(&0, from, here);
        }
    }
    mac
}

#[cfg(test)]
mod tests;
