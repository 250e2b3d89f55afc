//! How records and key material are protected.
//!
//! ```text
//! context    IV 16 | AES-128-CBC(data | MAC_readers 32 | MAC_writers 32 | MAC_endpoints 32 | padding)
//! alerts     the same with the direction's keys between the endpoints, three times the same MAC
//! finished   IV 16 | AES-128-CBC(message | MAC 32 | padding)
//! MAC        HMAC-SHA256(key, 0 (8) | type 1 | 0x0666 (2) | length of data 2 | data)
//! material   AES-256-CBC with the padding of PKCS #7, and no MAC at all
//! ```
//!
//! Is not: safe. A MAC covers neither the context nor the place in the stream: the prototype copies
//! its counters and never writes them back, so the sequence number is always 0. Opening takes no
//! constant time (Lucky Thirteen).

use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit,
    KeyInit,
};
use aes::{Aes128, Aes256};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

use crate::record::{ContentType, VERSION};

const BLOCK_LEN: usize = 16;
const MAC_LEN: usize = 32;

/// A MAC.
pub(crate) type Tag = [u8; MAC_LEN];

/// AES in CBC mode.
pub(crate) enum Aes {
    /// With the padding of TLS, of the least length.
    Short(Box<Aes128>),
    /// With that of PKCS #7.
    Long(Box<Aes256>),
}

impl Aes {
    pub(crate) fn new_128(key: &[u8]) -> Self {
        Self::Short(Box::new(Aes128::new_from_slice(key).expect("16 bytes")))
    }

    pub(crate) fn new_256(key: &[u8; 32]) -> Self {
        Self::Long(Box::new(Aes256::new(key.into())))
    }

    /// What is encrypted, padding and all.
    pub(crate) fn seal(&self, iv: [u8; BLOCK_LEN], plain: &[&[u8]]) -> Vec<u8> {
        let mut out = plain.concat();
        let padding = BLOCK_LEN - out.len() % BLOCK_LEN;
        let value = match self {
            Self::Short(_) => padding - 1,
            Self::Long(_) => padding,
        };
        let value = u8::try_from(value).expect("at most a block");
        out.resize(out.len() + padding, value);
        match self {
            Self::Short(cipher) => encrypt(cipher.as_ref(), &iv, &mut out),
            Self::Long(cipher) => encrypt(cipher.as_ref(), &iv, &mut out),
        }
        out
    }

    /// What was encrypted, without its padding.
    pub(crate) fn open(&self, iv: &[u8; BLOCK_LEN], sealed: &[u8]) -> Option<Vec<u8>> {
        if !sealed.len().is_multiple_of(BLOCK_LEN) {
            return None;
        }
        let mut plain = sealed.to_vec();
        match self {
            Self::Short(cipher) => decrypt(cipher.as_ref(), iv, &mut plain),
            Self::Long(cipher) => decrypt(cipher.as_ref(), iv, &mut plain),
        }
        let value = *plain.last()?;
        let padding = match (self, usize::from(value)) {
            (Self::Short(_), value) => value + 1,
            (Self::Long(_), value @ 1..=BLOCK_LEN) => value,
            (Self::Long(_), _) => return None,
        };
        let len = plain.len().checked_sub(padding)?;
        let is_padding = plain[len..].iter().all(|byte| *byte == value);
        plain.truncate(len);
        is_padding.then_some(plain)
    }
}

fn encrypt<C>(cipher: &C, iv: &[u8; BLOCK_LEN], bytes: &mut [u8])
where
    C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
{
    let blocks = Array::cast_slice_from_core_mut(bytes.as_chunks_mut().0);
    cbc::Encryptor::inner_iv_init(cipher, iv.into()).encrypt_blocks(blocks);
}

fn decrypt<C>(cipher: &C, iv: &[u8; BLOCK_LEN], bytes: &mut [u8])
where
    C: BlockCipherDecrypt<BlockSize = aes::cipher::consts::U16>,
{
    let blocks = Array::cast_slice_from_core_mut(bytes.as_chunks_mut().0);
    cbc::Decryptor::inner_iv_init(cipher, iv.into()).decrypt_blocks(blocks);
}

/// The MAC over a record.
pub(crate) fn tag(key: &hmac::Key, kind: ContentType, data: &[u8]) -> Tag {
    let length = u16::try_from(data.len()).expect("a record holds less");
    let mut context = hmac::Context::with_key(key);
    context.update(&[0; 8]);
    context.update(&[kind.code()]);
    context.update(&VERSION.to_be_bytes());
    context.update(&length.to_be_bytes());
    context.update(data);
    let mut tag = [0; MAC_LEN];
    tag.copy_from_slice(context.sign().as_ref());
    tag
}

/// Whether a MAC holds.
pub(crate) fn holds(key: &hmac::Key, kind: ContentType, data: &[u8], found: &Tag) -> bool {
    verify_slices_are_equal(&tag(key, kind, data), found).is_ok()
}

/// What was in a record of a context. Nothing of it has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) data: Vec<u8>,
    pub(crate) readers: Tag,
    pub(crate) writers: Tag,
    pub(crate) endpoints: Tag,
}

/// The keys of a context, as far as their holder has them. Both directions share them.
pub(crate) struct ContextKeys {
    pub(crate) cipher: Aes,
    pub(crate) readers: hmac::Key,
    pub(crate) writers: Option<hmac::Key>,
}

/// One direction's keys between the endpoints.
pub(crate) struct EndKeys {
    pub(crate) cipher: Aes,
    pub(crate) mac: hmac::Key,
}

/// A record's fragment with these MACs behind its data.
pub(crate) fn seal(cipher: &Aes, iv: [u8; BLOCK_LEN], data: &[u8], macs: &[Tag]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = vec![data];
    parts.extend(macs.iter().map(|mac| mac.as_slice()));
    [&iv[..], &cipher.seal(iv, &parts)].concat()
}

/// The data of a fragment, and so many MACs.
fn open<const N: usize>(cipher: &Aes, fragment: &[u8]) -> Option<(Vec<u8>, [Tag; N])> {
    let (iv, sealed) = fragment.split_first_chunk()?;
    let mut data = cipher.open(iv, sealed)?;
    let len = data.len().checked_sub(N * MAC_LEN)?;
    let mut macs = [[0; MAC_LEN]; N];
    for (mac, bytes) in macs.iter_mut().zip(data[len..].chunks_exact(MAC_LEN)) {
        mac.copy_from_slice(bytes);
    }
    data.truncate(len);
    Some((data, macs))
}

impl ContextKeys {
    pub(crate) fn open(&self, fragment: &[u8]) -> Option<Opened> {
        let (data, [readers, writers, endpoints]) = open(&self.cipher, fragment)?;
        Some(Opened {
            data,
            readers,
            writers,
            endpoints,
        })
    }
}

impl EndKeys {
    pub(crate) fn seal_finished(&self, iv: [u8; BLOCK_LEN], message: &[u8]) -> Vec<u8> {
        let mac = tag(&self.mac, ContentType::Handshake, message);
        seal(&self.cipher, iv, message, &[mac])
    }

    pub(crate) fn open_finished(&self, fragment: &[u8]) -> Option<Vec<u8>> {
        let (message, [mac]) = open(&self.cipher, fragment)?;
        holds(&self.mac, ContentType::Handshake, &message, &mac).then_some(message)
    }

    pub(crate) fn seal_alert(&self, iv: [u8; BLOCK_LEN], alert: [u8; 2]) -> Vec<u8> {
        let mac = tag(&self.mac, ContentType::Alert, &alert);
        seal(&self.cipher, iv, &alert, &[mac; 3])
    }

    /// An alert whose last MAC holds; the others say no more.
    pub(crate) fn open_alert(&self, fragment: &[u8]) -> Option<Vec<u8>> {
        let (alert, [_, _, mac]) = open(&self.cipher, fragment)?;
        holds(&self.mac, ContentType::Alert, &alert, &mac).then_some(alert)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_and_padding_is_checked() {
        for aes in [Aes::new_128(&[7; 16]), Aes::new_256(&[7; 32])] {
            for len in 0..40 {
                let data = vec![5; len];
                let sealed = aes.seal([9; 16], &[&data]);
                assert!(sealed.len().is_multiple_of(16) && sealed.len() > len);
                assert_eq!(aes.open(&[9; 16], &sealed), Some(data));
                assert_eq!(aes.open(&[9; 16], &sealed[1..]), None);
            }
            assert_eq!(aes.open(&[9; 16], &[]), None);
        }
    }

    /// Where all is padding, a change of the IV is a change of the padding.
    #[test]
    fn padding_has_the_values_that_it_may_have() {
        let (tls, pkcs7) = (Aes::new_128(&[7; 16]), Aes::new_256(&[7; 32]));
        for (aes, last) in [(tls, 15), (pkcs7, 16)] {
            let sealed = aes.seal([0; 16], &[]);
            for value in 0..=255 {
                let mut iv = [0; 16];
                iv[15] = last ^ value;
                let is_short = match aes {
                    Aes::Short(_) => value == 0,
                    Aes::Long(_) => value == 1,
                };
                let opened = aes.open(&iv, &sealed);
                assert_eq!(opened.is_some(), value == last || is_short, "{value}");
            }
        }
    }
}
