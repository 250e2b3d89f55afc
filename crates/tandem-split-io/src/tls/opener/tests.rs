//! Against a straightforward sealer, made of another library's HMAC; with every length of padding, and every byte broken.

use super::*;
use crate::tls::digest::COMPRESSED;
use aes::cipher::BlockCipherEncrypt as _;
use aes::{Aes128Enc, Aes256Enc};
use hmac::{Hmac, Mac as _};

const DIGESTS: [Digest; 3] = [Digest::Sha1, Digest::Sha256, Digest::Sha384];
const APPLICATION_DATA: u8 = 23;

fn key(len: usize) -> Vec<u8> {
    (0..len).map(|byte| (byte * 7 + 3) as u8).collect()
}

fn reference_mac(digest: Digest, sequence: u64, content: &[u8]) -> Vec<u8> {
    let key = key(digest.output_len());
    let mut message = sequence.to_be_bytes().to_vec();
    message.extend([APPLICATION_DATA, 3, 3]);
    message.extend((content.len() as u16).to_be_bytes());
    message.extend(content);
    match digest {
        Digest::Sha1 => Hmac::<sha1::Sha1>::new_from_slice(&key)
            .expect("any length")
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        Digest::Sha256 => Hmac::<sha2::Sha256>::new_from_slice(&key)
            .expect("any length")
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
        Digest::Sha384 => Hmac::<sha2::Sha384>::new_from_slice(&key)
            .expect("any length")
            .chain_update(message)
            .finalize()
            .into_bytes()
            .to_vec(),
    }
}

/// CBC over whole blocks, the initialisation vector in front.
fn encrypt(cipher_key: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0x5a; BLOCK];
    for chunk in plain.chunks_exact(BLOCK) {
        let mut block: Block<Aes128Enc> = [0; BLOCK].into();
        let before = out[out.len() - BLOCK..].to_vec();
        for ((to, from), chained) in block.iter_mut().zip(chunk).zip(before) {
            *to = from ^ chained;
        }
        if cipher_key.len() == 16 {
            Aes128Enc::new_from_slice(cipher_key)
                .expect("a key")
                .encrypt_block(&mut block);
        } else {
            Aes256Enc::new_from_slice(cipher_key)
                .expect("a key")
                .encrypt_block(&mut block);
        }
        out.extend_from_slice(&block);
    }
    out
}

/// The plaintext of a record: `blocks` more blocks of padding than needed.
fn plain(digest: Digest, sequence: u64, content: &[u8], blocks: usize) -> Vec<u8> {
    let mut plain = content.to_vec();
    plain.extend(reference_mac(digest, sequence, content));
    let padding = BLOCK - 1 - plain.len() % BLOCK + blocks * BLOCK;
    plain.extend(std::iter::repeat_n(padding as u8, padding + 1));
    plain
}

fn opener(digest: Digest, cipher_len: usize) -> Opener {
    Opener::new(digest, &key(cipher_len), &key(digest.output_len())).expect("fitting keys")
}

fn open(opener: &Opener, sequence: u64, mut fragment: Vec<u8>) -> Option<Vec<u8>> {
    opener
        .open(sequence, APPLICATION_DATA, &mut fragment)
        .map(|range| fragment[range].to_vec())
}

#[test]
fn every_length_of_content_and_of_padding_is_opened() {
    for digest in DIGESTS {
        for cipher_len in [16, 32] {
            let opener = opener(digest, cipher_len);
            for len in (0..130).step_by(3).chain([1000, 16383, 16384]) {
                let content: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
                for blocks in [0, 1, 15] {
                    let plain = plain(digest, len as u64, &content, blocks);
                    let padding = plain[plain.len() - 1];
                    if usize::from(padding) + 1 < blocks * BLOCK {
                        continue;
                    }
                    let fragment = encrypt(&key(cipher_len), &plain);
                    assert_eq!(
                        open(&opener, len as u64, fragment).as_ref(),
                        Some(&content),
                        "{digest:?} {len} {blocks}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_changed_byte_anywhere_is_refused() {
    for digest in DIGESTS {
        let opener = opener(digest, 16);
        let plain = plain(digest, 5, b"GET / HTTP/1.1\r\n\r\n", 3);
        let fragment = encrypt(&key(16), &plain);
        assert!(open(&opener, 5, fragment.clone()).is_some());
        for index in 0..fragment.len() {
            let mut broken = fragment.clone();
            broken[index] ^= 0x40;
            assert_eq!(open(&opener, 5, broken), None, "{digest:?} {index}");
        }
        // What the encryption does not hide from the test: each byte of MAC and padding for itself.
        for index in 18..plain.len() {
            let mut broken = plain.clone();
            broken[index] ^= 1;
            assert_eq!(
                open(&opener, 5, encrypt(&key(16), &broken)),
                None,
                "{digest:?} {index}"
            );
        }
        assert_eq!(open(&opener, 6, fragment), None, "another sequence number");
    }
}

#[test]
fn a_length_that_no_record_has_is_refused() {
    let opener = opener(Digest::Sha1, 16);
    for len in (0..49).chain([63, 65]) {
        assert_eq!(open(&opener, 0, vec![0; len]), None, "{len}");
    }
}

#[test]
fn good_and_bad_records_of_one_length_cost_the_same_work() {
    for digest in DIGESTS {
        let opener = opener(digest, 32);
        let mut works = std::collections::BTreeSet::new();
        let len = 640;
        for content_len in 350..=len - digest.output_len() - 1 {
            let content = vec![1; content_len];
            let mut plain = content.clone();
            plain.extend(reference_mac(digest, 0, &content));
            let padding = len - plain.len() - 1;
            if padding > 255 {
                continue;
            }
            plain.extend(std::iter::repeat_n(padding as u8, padding + 1));
            let before = COMPRESSED.get();
            assert!(open(&opener, 0, encrypt(&key(32), &plain)).is_some());
            works.insert(COMPRESSED.get() - before);
        }
        for last in 0..=255 {
            let mut plain = vec![9; len];
            plain[len - 1] = last;
            let before = COMPRESSED.get();
            assert!(open(&opener, 0, encrypt(&key(32), &plain)).is_none());
            works.insert(COMPRESSED.get() - before);
        }
        assert_eq!(works.len(), 1, "{digest:?}: {works:?}");
    }
}
