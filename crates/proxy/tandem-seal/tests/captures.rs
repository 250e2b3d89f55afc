//! A handshake of a public site, captured with its key log: the server's flight opened with key and
//! IV alone, and sealed to the same bytes.
//!
//! The capture is not part of the project; without it the test says so and passes.

#![expect(
    clippy::disallowed_methods,
    reason = "a test reads files; the crate does not"
)]

#[path = "../../../base/tandem-wire/tests/support/mod.rs"]
mod captured;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha384;
use tandem_record_key::{Direction, RecordKey, Suite};
use tandem_seal::{Layout, Opener, Sealer};
use tandem_wire::tls::{ContentType, Records};
use tandem_wire::{Assembler, TcpFlags, TcpPacket};

const CAPTURE: &str = "cryptohack/dsb-tls3.cryptohack.org.pcapng";
const KEY_LOG: &str = "cryptohack/keylogfile.txt";

/// HKDF-Expand-Label without a context (RFC 8446, section 7.1), of a length that takes one block.
fn expand(secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let mut mac = Hmac::<Sha384>::new_from_slice(secret).expect("any length");
    mac.update(&(length as u16).to_be_bytes());
    mac.update(&[label.len() as u8]);
    mac.update(label.as_bytes());
    mac.update(&[0, 1]);
    mac.finalize().into_bytes()[..length].to_vec()
}

/// All that the server sent.
fn server_stream(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut stream: Option<(Assembler, _)> = None;
    for packet in packets
        .iter()
        .filter_map(|bytes| TcpPacket::parse(bytes).ok())
    {
        let flags = packet.flags();
        if flags.contains(TcpFlags::SYN) && flags.contains(TcpFlags::ACK) {
            let first = packet.seq().wrapping_add(1);
            stream = Some((Assembler::new(first, 1 << 17), packet.source()));
        } else if let Some((stream, server)) = &mut stream
            && packet.source() == *server
        {
            stream.insert(packet.seq(), packet.payload());
        }
    }
    stream.expect("a connection").0.contiguous().to_vec()
}

#[test]
fn a_captured_flight_is_opened_and_sealed_to_the_same_bytes() {
    let Some(folder) = captured::captures_folder() else {
        return;
    };
    let log = std::fs::read_to_string(folder.join(KEY_LOG)).expect("the key log is readable");
    let line = log.lines().find_map(|line| {
        line.strip_prefix("SERVER_HANDSHAKE_TRAFFIC_SECRET ")?
            .split_once(' ')
    });
    let (random, secret) = line.expect("the server's secret");
    let decoded = |hex: &str| {
        HEXLOWER
            .decode(hex.trim().as_bytes())
            .expect("hexadecimal digits")
    };
    let secret = decoded(secret);
    let key = RecordKey::new(
        Direction::FromServer,
        Suite::Aes256Gcm,
        decoded(random).try_into().expect("32 bytes"),
        &expand(&secret, "iv", 12).try_into().expect("12 bytes"),
        &expand(&secret, "key", 32),
    )
    .expect("32 bytes");

    let mut captures = captured::capture_files(&folder).into_iter();
    let capture = captures.find(|path| path.ends_with(CAPTURE));
    let stream = server_stream(&captured::ip_packets(&capture.expect("the capture")));
    let mut opener = Opener::new(&key);
    let (mut layout, mut plaintext, mut ciphertext) = (Layout::default(), Vec::new(), Vec::new());
    let mut passed = 0;
    for record in Records::new(&stream).map_while(Result::ok) {
        if record.header.content_type != ContentType::ApplicationData {
            continue;
        }
        match opener.open(&stream[record.range.clone()]) {
            Some(opened) => {
                assert!(layout.push(&opened));
                plaintext.extend_from_slice(&opened.content);
                ciphertext.extend_from_slice(&stream[record.range]);
            }
            // Under application keys.
            None => passed += 1,
        }
    }
    assert!(
        plaintext.starts_with(&[8]),
        "EncryptedExtensions come first"
    );
    assert!(passed > 0, "what follows Finished does not open");
    let mut encoded = Vec::new();
    layout.encode(&plaintext, &mut encoded);
    let layout = Layout::decode(&mut &encoded[..], &plaintext).expect("our own encoding");
    let sealed = layout.seal(&plaintext, &mut Sealer::new(&key));
    assert!(sealed.as_ref() == Some(&ciphertext));
    assert_eq!(encoded, [0], "a record for each message");
}
