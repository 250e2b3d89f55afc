//! The server's flight of RFC 8448, section 3, opened and sealed.

use data_encoding::HEXLOWER;
use tandem_record_key::{Direction, RecordKey, Suite};
use tandem_seal::{Layout, Opener, Sealer};
use tandem_wire::tls::ContentType;

/// The bytes of this name.
fn vector(name: &str) -> Vec<u8> {
    let lines = include_str!("rfc8448-section-3.txt").lines();
    let hex: String = lines
        .skip_while(|line| *line != name)
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .map(str::trim)
        .collect();
    HEXLOWER.decode(hex.as_bytes()).expect("hexadecimal digits")
}

fn key() -> RecordKey {
    let random = vector("client_random").try_into().expect("32 bytes");
    let iv = vector("iv").try_into().expect("12 bytes");
    let suite = Suite::Aes128Gcm;
    RecordKey::new(Direction::FromServer, suite, random, &iv, &vector("key")).expect("16 bytes")
}

#[test]
fn the_server_s_flight_is_opened_and_sealed_to_the_same_bytes() {
    let (payload, record) = (vector("payload"), vector("record"));
    assert_eq!((payload.len(), record.len()), (657, 679), "as the RFC says");
    let opened = Opener::new(&key()).open(&record).expect("the first record");
    assert_eq!(opened.content_type, ContentType::Handshake);
    assert_eq!(opened.content, payload);
    assert_eq!(opened.padding, 0);
    let mut layout = Layout::default();
    assert!(layout.push(&opened));
    let mut encoded = Vec::new();
    layout.encode(&payload, &mut encoded);
    assert_eq!(encoded, [1], "one record for all messages");
    let layout = Layout::decode(&mut &encoded[..], &payload).expect("our own encoding");
    let sealed = layout.seal(&payload, &mut Sealer::new(&key()));
    assert!(sealed == Some(record));
}
