//! How records are protected (the paper, section 3.4): TLS 1.2's AES-128-CBC with HMAC-SHA256, MAC
//! before encryption, with three MACs where TLS has one.
//!
//! ```text
//! fragment   IV 16 | AES-128-CBC(data | MACs | padding)     padding: n + 1 bytes of value n
//! MACs       context k: MAC_readers 32 | MAC_writers 32 | MAC_endpoints 32;  context 0: MAC_endpoints
//! MAC        HMAC(key, seq 8 | type 1 | version 2 | length of data 2 | context 1 | data)
//! ```
//!
//! Is not: who checks which MAC ([`crate::receiver`], [`crate::relay`]).
//!
//! Invariants: a wrong padding is told from a wrong MAC by nobody but a clock: opening takes no
//! constant time, as in the TLS of 2015 (Lucky Thirteen); an IV is derived from a secret of its
//! author's and the sequence number, so none comes twice.

use std::collections::BTreeMap;

use aes::Aes128;
use aes::cipher::{Array, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit};
use aws_lc_rs::hmac;
use mctls::party::{ContextId, Direction};

use crate::message::Recipient;
use crate::record::{ContentType, VERSION};
use crate::schedule::{KeyPair, Purpose, Randoms, endpoint_keys, reader_keys, writer_key};
use crate::secret::{Digest, HASH_LEN, Secret, mac, same};

const BLOCK_LEN: usize = 16;

/// AES-128 in CBC mode with the padding of TLS.
pub(crate) struct Cbc(Box<Aes128>);

impl Cbc {
    pub(crate) fn new(key: &Secret) -> Self {
        let key: &[u8; 16] = key.bytes().try_into().expect("the schedule makes 16 bytes");
        Self(Box::new(Aes128::new(key.into())))
    }

    /// The IV, and behind it what is encrypted.
    pub(crate) fn seal(&self, iv: [u8; BLOCK_LEN], plain: &[&[u8]]) -> Vec<u8> {
        let length: usize = plain.iter().map(|part| part.len()).sum();
        let padding = BLOCK_LEN - length % BLOCK_LEN;
        let mut out = Vec::with_capacity(BLOCK_LEN + length + padding);
        out.extend_from_slice(&iv);
        plain.iter().for_each(|part| out.extend_from_slice(part));
        let value = u8::try_from(padding - 1).expect("at most a block");
        out.resize(BLOCK_LEN + length + padding, value);
        let blocks = Array::cast_slice_from_core_mut(out[BLOCK_LEN..].as_chunks_mut().0);
        let iv = (&iv).into();
        cbc::Encryptor::inner_iv_init(self.0.as_ref(), iv).encrypt_blocks(blocks);
        out
    }

    /// What was encrypted, without its padding.
    pub(crate) fn open(&self, fragment: &[u8]) -> Option<Vec<u8>> {
        let (iv, sealed) = fragment.split_first_chunk::<BLOCK_LEN>()?;
        if sealed.is_empty() || !sealed.len().is_multiple_of(BLOCK_LEN) {
            return None;
        }
        let mut plain = sealed.to_vec();
        let blocks = Array::cast_slice_from_core_mut(plain.as_chunks_mut().0);
        cbc::Decryptor::inner_iv_init(self.0.as_ref(), iv.into()).decrypt_blocks(blocks);
        let value = *plain.last()?;
        let length = plain.len().checked_sub(usize::from(value) + 1)?;
        let is_padding = plain[length..].iter().all(|byte| *byte == value);
        plain.truncate(length);
        is_padding.then_some(plain)
    }
}

/// Makes IVs that nobody can foresee.
pub(crate) struct Ivs {
    key: hmac::Key,
    direction: Direction,
}

impl Ivs {
    pub(crate) fn new(secret: &Secret, direction: Direction) -> Self {
        let key = secret.key();
        Self { key, direction }
    }

    pub(crate) fn at(&self, seq: u64) -> [u8; BLOCK_LEN] {
        let direction = match self.direction {
            Direction::ToServer => 0,
            Direction::ToClient => 1,
        };
        iv(&self.key, direction, seq)
    }

    /// For the key material that is sent to a recipient.
    pub(crate) fn for_material(secret: &Secret, recipient: Recipient) -> [u8; BLOCK_LEN] {
        iv(&secret.key(), 2, recipient.code().into())
    }
}

fn iv(key: &hmac::Key, use_of_it: u8, number: u64) -> [u8; BLOCK_LEN] {
    let full = mac(key, &[&[use_of_it], &number.to_be_bytes()]);
    let mut iv = [0; BLOCK_LEN];
    iv.copy_from_slice(&full[..BLOCK_LEN]);
    iv
}

/// Where a record stands: what its MACs cover beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) kind: ContentType,
    pub(crate) context: ContextId,
}

impl Place {
    pub(crate) fn mac(&self, key: &hmac::Key, data: &[u8]) -> Digest {
        let length = u16::try_from(data.len()).expect("a record holds less");
        let parts: [&[u8]; 6] = [
            &self.seq.to_be_bytes(),
            &[self.kind.code()],
            &VERSION.to_be_bytes(),
            &length.to_be_bytes(),
            &[self.context.0],
            data,
        ];
        mac(key, &parts)
    }

    pub(crate) fn holds(&self, key: &hmac::Key, data: &[u8], tag: &Digest) -> bool {
        same(&self.mac(key, data), tag)
    }
}

/// What was in a context's record. Nothing of it has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) data: Vec<u8>,
    pub(crate) readers: Digest,
    pub(crate) writers: Digest,
    pub(crate) endpoints: Digest,
}

/// One context's keys in one direction, as far as their holder has them.
pub(crate) struct ContextKeys {
    pub(crate) cipher: Cbc,
    pub(crate) readers: hmac::Key,
    pub(crate) writers: Option<hmac::Key>,
}

impl ContextKeys {
    pub(crate) fn open(&self, fragment: &[u8]) -> Option<Opened> {
        let mut data = self.cipher.open(fragment)?;
        let length = data.len().checked_sub(3 * HASH_LEN)?;
        let mut macs = [[0; HASH_LEN]; 3];
        for (mac, bytes) in macs.iter_mut().zip(data[length..].chunks_exact(HASH_LEN)) {
            mac.copy_from_slice(bytes);
        }
        data.truncate(length);
        let [readers, writers, endpoints] = macs;
        Some(Opened {
            data,
            readers,
            writers,
            endpoints,
        })
    }

    pub(crate) fn seal(&self, iv: [u8; BLOCK_LEN], opened: &Opened) -> Vec<u8> {
        let parts: [&[u8]; 4] = [
            &opened.data,
            &opened.readers,
            &opened.writers,
            &opened.endpoints,
        ];
        self.cipher.seal(iv, &parts)
    }
}

/// Keys of one direction between the endpoints.
pub(crate) struct EndpointKeys {
    cipher: Cbc,
    pub(crate) mac: hmac::Key,
}

impl EndpointKeys {
    pub(crate) fn new(pair: &KeyPair) -> Self {
        Self {
            cipher: Cbc::new(&pair.key),
            mac: pair.mac.key(),
        }
    }

    /// The fragment of a record of context 0.
    pub(crate) fn seal(&self, iv: [u8; BLOCK_LEN], place: Place, data: &[u8]) -> Vec<u8> {
        self.cipher.seal(iv, &[data, &place.mac(&self.mac, data)])
    }

    /// What is in one, if its MAC holds.
    pub(crate) fn open(&self, place: Place, fragment: &[u8]) -> Option<Vec<u8>> {
        let mut data = self.cipher.open(fragment)?;
        let length = data.len().checked_sub(HASH_LEN)?;
        let mut tag = [0; HASH_LEN];
        tag.copy_from_slice(&data[length..]);
        data.truncate(length);
        // Padding that TLS permits may make room for more data than a record holds.
        u16::try_from(length).ok()?;
        place.holds(&self.mac, &data, &tag).then_some(data)
    }
}

/// What the keys of contexts are derived from, as far as their holder has it.
pub(crate) type Wholes = BTreeMap<(ContextId, Purpose), Secret>;

/// The keys of all contexts of which the holder has the readers' key.
pub(crate) fn context_keys(
    wholes: &Wholes,
    randoms: &Randoms,
    direction: Direction,
) -> BTreeMap<ContextId, ContextKeys> {
    let readers = wholes.iter().filter(|((_, purpose), _)| match purpose {
        Purpose::Read => true,
        Purpose::Write => false,
    });
    let keys = readers.map(|(&(context, _), whole)| {
        let pair = reader_keys(whole, context, randoms, direction);
        let writers = wholes.get(&(context, Purpose::Write));
        let keys = ContextKeys {
            cipher: Cbc::new(&pair.key),
            readers: pair.mac.key(),
            writers: writers.map(|whole| writer_key(whole, context, randoms, direction).key()),
        };
        (context, keys)
    });
    keys.collect()
}

/// Everything an endpoint has for one direction.
pub(crate) struct FullKeys {
    pub(crate) endpoints: EndpointKeys,
    pub(crate) contexts: BTreeMap<ContextId, FullContext>,
}

/// A context's keys, all of them.
pub(crate) struct FullContext {
    pub(crate) keys: ContextKeys,
    pub(crate) writers: hmac::Key,
}

impl FullKeys {
    pub(crate) fn new(
        session: &Secret,
        wholes: &Wholes,
        randoms: &Randoms,
        direction: Direction,
    ) -> Self {
        let contexts = context_keys(wholes, randoms, direction).into_iter();
        let contexts = contexts.filter_map(|(id, keys)| {
            let writers = keys.writers.clone()?;
            Some((id, FullContext { keys, writers }))
        });
        Self {
            endpoints: EndpointKeys::new(&endpoint_keys(session, randoms, direction)),
            contexts: contexts.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_opens_and_padding_is_checked() {
        let cbc = Cbc::new(&Secret::new(&[7; 16]));
        for length in 0..40 {
            let data = vec![5; length];
            let sealed = cbc.seal([9; 16], &[&data]);
            assert!(sealed.len().is_multiple_of(16) && sealed.len() > 16 + length);
            assert_eq!(cbc.open(&sealed), Some(data));
        }
        let mut sealed = cbc.seal([9; 16], &[&[1; 3]]);
        // The IV's last byte but one is that of a byte of padding: its value is another then.
        sealed[14] ^= 1;
        assert_eq!(cbc.open(&sealed), None);
        assert_eq!(cbc.open(&sealed[..31]), None);
        assert_eq!(cbc.open(&[0; 16]), None);
    }

    #[test]
    fn a_mac_covers_where_a_record_stands() {
        let key = Secret::new(&[7; 32]).key();
        let place = Place {
            seq: 1,
            kind: ContentType::ApplicationData,
            context: ContextId(1),
        };
        let tag = place.mac(&key, b"data");
        assert!(place.holds(&key, b"data", &tag));
        assert!(!place.holds(&key, b"dato", &tag));
        for other in [
            Place { seq: 2, ..place },
            Place {
                kind: ContentType::Alert,
                ..place
            },
            Place {
                context: ContextId(2),
                ..place
            },
        ] {
            assert!(!other.holds(&key, b"data", &tag));
        }
    }
}
