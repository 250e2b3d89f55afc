//! Records that OpenSSL wrote, for each suite: from the handshake's secrets to the very bytes.
//!
//! Those of TLS 1.2 are the Finished of `openssl s_server` 3.0.19; those of TLS 1.3 are
//! EncryptedExtensions and Finished of 3.6.3, which a distribution's OpenSSL does not speak yet.
//! `openssl.rs` does the same with programs.

use tandem_split::keys::{KeyBlock, TrafficKeys};
use tandem_split::message::{Channel, Encodings, Greeting, KeyExpose};
use tandem_split::open::Opener;
use tandem_split::splice::Limits;
use tandem_split::stub::StubWriter;
use tandem_split::{RecordType, Sealer, Splicer, Suite};

/// Suite, master secret, client random, server random, record with sequence number 0.
const TLS12: [(Suite, &str, &str, &str, &str); 4] = [
    (
        Suite::EcdheRsaAes128CbcSha,
        "0f84d5b801ecaf4f882d950dbf21b2119092db9444b23a85d01a1c97faab20445a5afb92c151821564e4b08bd70f0f9c",
        "9d9b3d3bc0309b3faa89d2bd85b3c1f8e7e5ecf3d67f12da5d23311e8aae3636",
        "94301910ffa36c3a63f50b9b4c3405fd9317db700f2088aa0c6f7a20c8922c66",
        "16030300406e8d0c8616b14ee9b189bf1d1088b4040c0aeece3a1a6edc32b53210d75a88ca9b2933d8298c1398331277ff602a907b8150cc1386e2ef2b6baf76295e23f7a3",
    ),
    (
        Suite::EcdheRsaAes256CbcSha,
        "7600959f1fa91459a0fb9147bda0c47c97c05c249e5f7f22e780c7cb8fa8af3e2f0330cb0d80c92edbd50727aa5e1af1",
        "e3740f11b4f6ad902ec3f6aa0a65eab4e132b22aea376a6a7665332d7333aca6",
        "2e59bbe756dd9c1862b2717b442f5a826ad2f3bfa1cc3a0f0fac555388f999bd",
        "160303004097895e95c69ae7ee424396acf5ba11062d43626902f4e0f07d6d6fac15a2ff15e6e83a7189eb3dd2c3620f4a81d16a394a0ae2bc63b796e3589dc7c5f4134ecf",
    ),
    (
        Suite::EcdheRsaAes128CbcSha256,
        "e6d477f6edabdb32f166d6848efdaf63b91c751827a0b3ffadcbd55bf835f4e7b49c42f97cc13dc1ff1fac5daa0ec746",
        "b7ecd1e2c713f31684a86b6a99478e846003b811bb6f9ff60acea282dd02703a",
        "e587e83ea141dd0059cb230030e674814f8ba35a01f5a2feb4d6d32d4dd8eb57",
        "1603030050218f303b2a54783a8d942b224900ad3b0374378209424abcecbcb5984b0cc62eae809520e71617e52defcd28c2c1519e3987c9fdf49aa18dfd92418ed68ca65d1b3b360e8b22e3277e5ca5c89c30e877",
    ),
    (
        Suite::EcdheRsaAes256CbcSha384,
        "4ed29aa097cca634faef7eccee75fe17149697dd6e75963819b29b1a15091166d1f70788016129f90c10412e3b77d18e",
        "58f8c472ce9a5eaf23217e4037cc2f1af91e333de2ea4846b7a049f467a11cdd",
        "eb251df08e2a5b9721065282ed9fc1ad9e94181e03a0b806fea4549d3a6a2c68",
        "1603030060dfd05ca6dd70a7e12d2a51ca547a4786ac2865510920c3825df974e47c958dadf0c6f584704b794ec498a7cc6c48b8c316af6d7ca85e5ced71abbadb684d386f31e524d79a36ae0a8b899b90c6b5a01b4c1ad46c4c8988d8427687e865f4df82",
    ),
];

/// A record and its sequence number.
type Numbered = (u64, &'static str);

/// Suite, server's handshake traffic secret, and records.
const TLS13: [(Suite, &str, [Numbered; 2]); 2] = [
    (
        Suite::Sha256Sha256,
        "c2d3d275ff789fe82be6d11af6ab282afdc5696fd6ea3b37a23ae5dc24468c20",
        [
            (
                0,
                "170303002708000002000016042f1f0c54d99326a51e074cdff9adb3cf398b4209ecfae79a417e7b03224e66",
            ),
            (
                3,
                "170303004514000020eb3cf9134a1c3b378d3ac93c872bedeb594334d0caa52f9d20fbb05b3626d7eb16894b7347475b5df74b9c040e75ff526cecb0ac67850fa5ffef02973ffaf33097",
            ),
        ],
    ),
    (
        Suite::Sha384Sha384,
        "ce2cc2c4ebefd6fc0b5a52991d573ad182471c460898cde9c12ec97cbec0273322ab9fb1add5cb5aa7f9ab5c4338cc6e",
        [
            (
                0,
                "170303003708000002000016772db5f410a29d85bc09e89d87fcec6aa09ac7dbb959bb0128b44b924adf5778c13470b885e9d450bee878fe5bf336be",
            ),
            (
                3,
                "170303006514000030ce88d94261d74ef231a54d7c5a4c555f2c8ff6d99924548ced92d650c4d02c260ec18946b02dffaab83aac5ea6de550c16aab75ff45966058f1ffa0814d49f0b504e89f2e1af254120129b1befccea215833f9aff3aa1740c7dcb80e31095d2dc2",
            ),
        ],
    ),
];

fn bytes(hexadecimal: &str) -> Vec<u8> {
    (0..hexadecimal.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hexadecimal[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

fn array<const N: usize>(hexadecimal: &str) -> [u8; N] {
    bytes(hexadecimal).try_into().expect("the right length")
}

/// What a volunteer makes of the stub of this plaintext.
fn record(sealer: Sealer, keys: &KeyExpose, plaintext: &[u8], iv: [u8; 16]) -> Vec<u8> {
    let mut channel = Vec::new();
    Greeting::new(Channel::Connection, Encodings::DEFAULT).write(&mut channel);
    keys.write(&mut channel);
    StubWriter::new(sealer, Encodings::DEFAULT)
        .literal(&mut channel, RecordType::Handshake, plaintext)
        .expect("short");
    let mut splicer = Splicer::new(Encodings::DEFAULT, Limits::default());
    assert_eq!(splicer.push(&channel), Ok(channel.len()));
    let mut out = Vec::new();
    splicer
        .write_records(&mut out, usize::MAX, || iv)
        .expect("all is there");
    out
}

#[test]
fn records_of_tls_1_2() {
    for (suite, master, client_random, server_random, expected) in TLS12 {
        let (client_random, server_random) = (array(client_random), array(server_random));
        let block = KeyBlock::expand(suite, &array(master), &client_random, &server_random);
        let block = block.expect("a suite of TLS 1.2");
        let expected = bytes(expected);
        // The key block's order is client_MAC, server_MAC, client_key, server_key (RFC 5246,
        // section 6.3).
        let (mac_len, key_len) = (suite.mac_len(), suite.key_len());
        let secrets = block.secret_bytes();
        let mac_key = &secrets[mac_len..2 * mac_len];
        let key = &secrets[2 * mac_len + key_len..];
        let mut opener = Opener::tls12(suite, mac_key, key, 0).expect("its keys");
        let mut fragment = expected[5..].to_vec();
        let opened = opener
            .open(RecordType::Handshake, &mut fragment)
            .expect("it is the server's");
        let plaintext = &fragment[opened.plaintext];
        assert_eq!(
            (plaintext.len(), &plaintext[..4]),
            (16, &[20, 0, 0, 12][..]),
            "{suite}"
        );
        let iv = *expected[5..].first_chunk().expect("an IV");
        let made = record(block.sealer(0), &block.key_expose(), plaintext, iv);
        assert_eq!(made, expected, "{suite}");
    }
}

#[test]
fn records_of_tls_1_3() {
    for (suite, secret, records) in TLS13 {
        let keys = TrafficKeys::expand(suite, &bytes(secret)).expect("a suite of TLS 1.3");
        for (number, expected) in records {
            let expected = bytes(expected);
            // Nothing is encrypted: header, message, type, tag.
            let (inner, _) = expected[5..].split_at(expected.len() - 5 - suite.mac_len());
            let (inner_type, plaintext) = inner.split_last().expect("a type");
            assert_eq!(*inner_type, RecordType::Handshake.as_u8());
            let expose = KeyExpose::new(suite, &[]).expect("there is no key");
            let made = record(keys.sealer(number), &expose, plaintext, [0; 16]);
            assert_eq!(made, expected, "{suite}, {number}");
            let mut fragment = expected[5..].to_vec();
            let opened = keys
                .opener(number)
                .open(RecordType::ApplicationData, &mut fragment);
            assert_eq!(
                opened.map(|opened| opened.plaintext),
                Ok(0..plaintext.len())
            );
        }
    }
}
