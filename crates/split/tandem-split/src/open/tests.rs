//! What must hold of opening a client's records. Not: timing by the clock, which proves nothing on
//! a busy machine.

use proptest::prelude::*;

use super::*;
use crate::aes_cbc::{CbcKey, Lane};
use crate::seal::Sealer;

const CBC: [Suite; 4] = [
    Suite::EcdheRsaAes128CbcSha,
    Suite::EcdheRsaAes256CbcSha,
    Suite::EcdheRsaAes128CbcSha256,
    Suite::EcdheRsaAes256CbcSha384,
];
const DATA: RecordType = RecordType::ApplicationData;

fn opener(suite: Suite) -> Opener {
    Opener::tls12(
        suite,
        &vec![1; suite.mac_len()],
        &vec![2; suite.key_len()],
        0,
    )
    .expect("keys of the suite")
}

fn mac(suite: Suite, plaintext: &[u8]) -> Mac {
    Sealer::tls12(suite, &vec![1; suite.mac_len()], 0)
        .and_then(|mut sealer| sealer.seal(DATA, plaintext))
        .expect("keys of the suite")
}

/// A fragment that decrypts to these bytes, whole blocks of them.
fn fragment(suite: Suite, decrypted: &[u8]) -> Vec<u8> {
    let iv = [9; BLOCK_LEN];
    let mut fragment = [&iv, decrypted].concat();
    let range = BLOCK_LEN..fragment.len();
    CbcKey::new(suite.key_len(), &vec![2; suite.key_len()])
        .expect("a key of the suite")
        .encrypt(&mut fragment, &mut [Lane { iv, range }]);
    fragment
}

/// Plaintext, MAC and `padding` + 1 bytes of that value.
fn decrypted(suite: Suite, plaintext: &[u8], padding: u8) -> Vec<u8> {
    let mut bytes = [plaintext, mac(suite, plaintext).as_ref()].concat();
    bytes.resize(bytes.len() + usize::from(padding) + 1, padding);
    bytes
}

/// The paddings that fill the last block.
fn paddings(suite: Suite, len: usize) -> impl Iterator<Item = u8> {
    let open = (len + suite.mac_len() + 1) % BLOCK_LEN;
    let least = (BLOCK_LEN - open) % BLOCK_LEN;
    (least..256).step_by(BLOCK_LEN).map(|padding| padding as u8)
}

#[test]
fn every_padding_opens_and_every_wrong_byte_of_it_is_refused() {
    for suite in CBC {
        for len in [0, 1, 15, 16, 100, 1_000] {
            let plaintext = vec![0xab; len];
            for padding in paddings(suite, len) {
                let good = decrypted(suite, &plaintext, padding);
                let mut record = fragment(suite, &good);
                let opened = opener(suite).open(DATA, &mut record).expect("it is good");
                assert_eq!(
                    record[opened.plaintext], plaintext,
                    "{suite} {len} {padding}"
                );
                // Every byte behind the plaintext: MAC, padding, padding length.
                let behind = len..good.len();
                for at in behind.step_by(1 + usize::from(padding) / 16) {
                    let mut bad = good.clone();
                    bad[at] ^= 0x40;
                    assert_eq!(
                        opener(suite).open(DATA, &mut fragment(suite, &bad)),
                        Err(BadRecord),
                        "{suite} {len} {padding} {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn padding_longer_than_the_record_is_refused_like_any_other() {
    for suite in CBC {
        let len = BLOCK_LEN * 4;
        for padding in (len - suite.mac_len())..256 {
            let bad = vec![padding as u8; len];
            assert_eq!(
                opener(suite).open(DATA, &mut fragment(suite, &bad)),
                Err(BadRecord)
            );
        }
    }
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    for suite in CBC {
        for len in 0..200 {
            let possible = len > 16 + suite.mac_len() && len % 16 == 0;
            // Zeros do not open either way; the point is that nothing is indexed out of bounds.
            assert_eq!(
                opener(suite).open(DATA, &mut vec![0; len]),
                Err(BadRecord),
                "{possible}"
            );
        }
    }
}

#[test]
fn a_plaintext_over_the_limit_is_refused_with_the_same_answer() {
    let suite = Suite::EcdheRsaAes128CbcSha;
    let keyed = Keyed::new(suite.mac_hash(), &vec![1; suite.mac_len()]);
    for (len, opens) in [(MAX_PLAINTEXT_LEN, true), (MAX_PLAINTEXT_LEN + 1, false)] {
        let plaintext = vec![0; len];
        let mac = keyed.mac(&[&tls12_header(0, DATA, len), &plaintext]);
        let mut bytes = [&plaintext, mac.as_ref()].concat();
        let padding = BLOCK_LEN - bytes.len() % BLOCK_LEN;
        bytes.resize(bytes.len() + padding, (padding - 1) as u8);
        let opened = opener(suite).open(DATA, &mut fragment(suite, &bytes));
        assert_eq!(opened.is_ok(), opens, "{len}");
    }
}

#[test]
fn a_record_without_padding_is_refused_although_its_mac_is_good() {
    for suite in CBC {
        // The MAC's end fills the last block: what stands where the padding length should is a
        // byte of the MAC. Many plaintexts, so that the byte is a possible length and an
        // impossible one.
        let len = BLOCK_LEN * 20 - suite.mac_len();
        for filler in 0..64 {
            let plaintext = vec![filler; len];
            let bytes = [&plaintext, mac(suite, &plaintext).as_ref()].concat();
            assert!(bytes.len().is_multiple_of(BLOCK_LEN));
            assert_eq!(
                opener(suite).open(DATA, &mut fragment(suite, &bytes)),
                Err(BadRecord),
                "{suite} {filler}"
            );
        }
    }
}

#[test]
fn after_a_refusal_nothing_opens_any_more() {
    let suite = Suite::EcdheRsaAes128CbcSha;
    // Good records with the numbers 0 and 1: whether or not the refused one has used up a number.
    let mut sealer = Sealer::tls12(suite, &vec![1; suite.mac_len()], 0).expect("a key");
    let mut good = || {
        let mac = sealer.seal(DATA, b"GET /").expect("a MAC");
        let mut bytes = [b"GET /", mac.as_ref()].concat();
        bytes.extend([6; 7]);
        fragment(suite, &bytes)
    };
    let (first, second) = (good(), good());
    for mut record in [first.clone(), second.clone()] {
        let mut opener = opener(suite);
        assert_eq!(opener.open(DATA, &mut [0; 64]), Err(BadRecord));
        assert_eq!(opener.open(DATA, &mut record), Err(BadRecord));
    }
    // In order, and with nothing refused before, they open.
    let mut opener = opener(suite);
    for mut record in [first, second] {
        assert!(opener.open(DATA, &mut record).is_ok());
    }
}

#[test]
fn type_and_sequence_number_are_part_of_a_record() {
    let suite = Suite::EcdheRsaAes256CbcSha384;
    let padding = paddings(suite, 5).next().expect("there is one");
    let good = fragment(suite, &decrypted(suite, b"GET /", padding));
    assert!(opener(suite).open(DATA, &mut good.clone()).is_ok());
    let mut other = opener(suite);
    assert_eq!(
        other.open(RecordType::Alert, &mut good.clone()),
        Err(BadRecord)
    );
    let mut twice = opener(suite);
    assert!(twice.open(DATA, &mut good.clone()).is_ok());
    assert_eq!(twice.open(DATA, &mut good.clone()), Err(BadRecord));
}

#[test]
fn integrity_records_may_be_padded_and_have_a_type() {
    let suite = Suite::Sha256Sha256;
    let (key, iv) = ([1; 32], [2; 32]);
    let open = |inner: &[u8], outer| {
        let (nonce, header) = tls13_header(&iv, 0, inner.len());
        let mac = Keyed::new(suite.mac_hash(), &key).mac(&[&nonce[..32], &header, inner]);
        let mut fragment = [inner, mac.as_ref()].concat();
        Opener::tls13(suite, &key, &iv, 0)
            .expect("keys of the suite")
            .open(outer, &mut fragment)
    };
    let opened = |record_type, len| {
        Ok(Opened {
            record_type,
            plaintext: 0..len,
        })
    };
    assert_eq!(open(b"hello\x17\0\0\0", DATA), opened(DATA, 5));
    assert_eq!(open(&[1, 0, 21], DATA), opened(RecordType::Alert, 2));
    assert_eq!(open(&[23], DATA), opened(DATA, 0));
    assert_eq!(open(&[0, 0, 0], DATA), Err(BadRecord));
    assert_eq!(open(&[], DATA), Err(BadRecord));
    assert_eq!(open(b"hello\x63", DATA), Err(BadRecord));
    assert_eq!(open(b"hello\x17", RecordType::Handshake), Err(BadRecord));
}

proptest! {
    #[test]
    fn no_fragment_opens_without_the_key(
        suite in prop::sample::select(Suite::ALL.to_vec()),
        mut bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut opener = match suite.format() {
            Format::Cbc => opener(suite),
            Format::Integrity => {
                let key = vec![1; suite.mac_len()];
                Opener::tls13(suite, &key, &key, 0).expect("keys of the suite")
            }
        };
        prop_assert_eq!(opener.open(DATA, &mut bytes), Err(BadRecord));
    }
}
