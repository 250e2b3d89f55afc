//! Scans of hand-made streams, whole and growing.

use super::*;
use crate::tls::ProtocolVersion;
use crate::tls::handshake::write_message;
use crate::tls::record::write_records;
use crate::tls::server_hello::HELLO_RETRY_REQUEST_RANDOM;
use std::borrow::Cow;

use proptest::prelude::*;

fn record(content_type: ContentType, fragment: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = fragment.len() as u16;
    out.extend(
        RecordHeader {
            content_type,
            version: ProtocolVersion::TLS1_2,
            length,
        }
        .to_bytes(),
    );
    out.extend(fragment);
    out
}

fn handshake_record(fragment: &[u8]) -> Vec<u8> {
    record(ContentType::Handshake, fragment)
}

fn message(msg_type: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(&mut out, HandshakeType(msg_type), body).expect("it fits");
    out
}

const CCS: [u8; 6] = [20, 3, 3, 0, 1, 1];
const TLS13_EXTENSIONS: [u8; 8] = [0, 6, 0, 43, 0, 2, 3, 4];

fn server_hello(random: [u8; 32], extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend(random);
    body.extend([0, 0x13, 0x01, 0]);
    body.extend(extensions);
    message(2, &body)
}

fn types(scan: &HandshakeScan) -> Vec<u8> {
    scan.messages
        .iter()
        .map(|message| message.msg_type.0)
        .collect()
}

#[test]
fn a_full_handshake_of_ssl_3_0() {
    let mut stream = Vec::new();
    let version = ProtocolVersion::SSL3_0;
    write_records(
        &mut stream,
        ContentType::Handshake,
        version,
        &message(2, &[9; 70]),
    );
    let certificates = [message(11, &[8; 300]), message(14, &[])].concat();
    write_records(&mut stream, ContentType::Handshake, version, &certificates);
    let clear = stream.len();
    stream.extend([20, 3, 0, 0, 1, 1, 22, 3, 0, 0, 64]);
    let scan = messages(&stream);
    assert_eq!(types(&scan), [2, 11, 14]);
    assert_eq!(
        (scan.end, scan.consumed_records),
        (ScanEnd::ChangeCipherSpec, clear)
    );
    assert_eq!(scan.messages[1].body(&stream), &[8; 300][..]);
    assert_eq!(scan.messages[2].body(&stream), &[][..]);
    assert_eq!(scan.messages[2].len(), 4);
    assert!(
        scan.messages
            .iter()
            .all(|message| matches!(message.gather(&stream), Cow::Borrowed(_)))
    );
}

#[test]
fn a_message_in_pieces() {
    // Cut in the header, after the header, and in the body.
    let bytes = message(11, &[1, 2, 3, 4, 5, 6]);
    let next = message(14, &[]);
    let stream = [
        handshake_record(&bytes[..2]),
        handshake_record(&bytes[2..4]),
        handshake_record(&bytes[4..7]),
        handshake_record(&[&bytes[7..], &next].concat()),
    ]
    .concat();
    let scan = messages(&stream);
    assert_eq!(types(&scan), [11, 14]);
    assert_eq!(scan.end, ScanEnd::NeedMore);
    let certificate = &scan.messages[0];
    assert_eq!(certificate.pieces, [5..7, 12..14, 19..22, 27..30]);
    assert_eq!(certificate.extent(), 5..30);
    assert_eq!(
        certificate.body_pieces().collect::<Vec<_>>(),
        [19..22, 27..30]
    );
    assert_eq!(certificate.gather(&stream), bytes);
    assert_eq!(certificate.body(&stream), &[1, 2, 3, 4, 5, 6][..]);
    assert_eq!((certificate.len(), certificate.body_len()), (10, 6));
    assert_eq!(scan.messages[1].pieces.first(), Some(&(30..34)));
}

#[test]
fn a_growing_stream_says_what_it_waits_for() {
    let stream = [
        handshake_record(&message(11, &[7; 40])[..20]),
        handshake_record(&[7; 24]),
    ]
    .concat();
    let mut scanner = HandshakeScanner::new();
    assert_eq!(scanner.wanted(), 1);
    scanner.advance(&stream[..3]);
    assert_eq!(scanner.wanted(), 4);
    scanner.advance(&stream[..5]);
    assert_eq!((scanner.wanted(), scanner.unfinished()), (25, None));
    scanner.advance(&stream[..24]);
    assert_eq!((scanner.wanted(), scanner.unfinished()), (25, None));
    scanner.advance(&stream[..25]);
    let unfinished = UnfinishedMessage {
        msg_type: HandshakeType::CERTIFICATE,
        len: 44,
        present: 20,
    };
    assert_eq!(
        (scanner.wanted(), scanner.unfinished()),
        (26, Some(unfinished))
    );
    assert_eq!(scanner.scan().consumed_records, 25);
    // A shorter stream finds nothing new.
    scanner.advance(&stream[..3]);
    assert_eq!(scanner.advance(&stream).messages.len(), 1);
    assert_eq!(scanner.unfinished(), None);
    assert_eq!(scanner.into_scan(), messages(&stream));
}

#[test]
fn the_clear_part_ends() {
    let hello = handshake_record(&message(1, &[5; 50]));
    for (what, end) in [
        (&CCS[..], ScanEnd::ChangeCipherSpec),
        (&[23, 3, 3, 0, 0], ScanEnd::Encrypted),
        // The header is enough.
        (&[23, 3, 3, 1, 0], ScanEnd::Encrypted),
        (
            &[24, 3, 3, 0, 3, 1, 64, 0],
            ScanEnd::NotTls(TlsError::UnexpectedRecord),
        ),
        (
            &[21, 3, 3, 0, 3, 1, 2, 3],
            ScanEnd::NotTls(TlsError::UnexpectedRecord),
        ),
        (&[22, 3, 3, 0, 0], ScanEnd::NotTls(TlsError::EmptyFragment)),
        (&[20, 3, 3, 0, 0], ScanEnd::NotTls(TlsError::EmptyFragment)),
        (&[21, 3, 3, 0, 0], ScanEnd::NotTls(TlsError::EmptyFragment)),
        (
            &[22, 3, 3, 0xff, 0xff],
            ScanEnd::NotTls(TlsError::RecordTooLong(0xffff)),
        ),
        (b"EHLO", ScanEnd::NotTls(TlsError::BadContentType(b'E'))),
        (&[], ScanEnd::NeedMore),
        (&[20, 3, 3, 0, 1], ScanEnd::NeedMore),
    ] {
        let mut stream = [&hello[..], what].concat();
        let scan = messages(&stream);
        assert_eq!(
            (scan.end, scan.consumed_records),
            (end, hello.len()),
            "{what:?}"
        );
        assert_eq!(types(&scan), [1]);
        if end != ScanEnd::NeedMore {
            // An end is final.
            stream.extend(handshake_record(&message(1, &[])));
            assert_eq!(messages(&stream), scan);
        }
    }
    assert_eq!(
        messages(&[0x80, 0x2e, 1, 3, 1]).end,
        ScanEnd::NotTls(TlsError::SslV2Hello)
    );
}

#[test]
fn the_first_protected_record_is_seen_as_soon_as_its_header_is() {
    let hello = handshake_record(&message(1, &[5; 50]));
    let sealed = handshake_record(&[7; 40]);
    let stream = [&hello[..], &CCS, &sealed, &sealed].concat();
    let begun = hello.len() + CCS.len() + 5;
    let mut scanner = HandshakeScanner::new();
    for len in 0..=stream.len() {
        scanner.advance(&stream[..len]);
        let expected = match len {
            len if len < begun => FirstProtected::None,
            len if len < begun + 40 => FirstProtected::Begun(ContentType::Handshake),
            _ => FirstProtected::Whole(ContentType::Handshake),
        };
        assert_eq!(scanner.first_protected(), expected, "{len}");
    }
    let after = |end: &[u8]| {
        let mut scanner = HandshakeScanner::new();
        scanner.advance(&[&hello[..], end].concat());
        scanner.first_protected()
    };
    let data = FirstProtected::Whole(ContentType::ApplicationData);
    assert_eq!(after(&[23, 3, 3, 0, 1, 9]), data);
    let not_tls = FirstProtected::NotTls(TlsError::BadContentType(b'E'));
    assert_eq!(after(&[&CCS[..], b"E"].concat()), not_tls);
    // What ended otherwise has no such record.
    assert_eq!(after(b"EHLO"), FirstProtected::None);
}

#[test]
fn nothing_comes_between_the_records_of_one_message() {
    let half = handshake_record(&message(1, &[5; 50])[..20]);
    for what in [
        &CCS[..],
        &[23, 3, 3, 0, 0],
        &[21, 3, 3, 0, 2, 1, 112],
        &[24, 3, 3, 0, 1],
    ] {
        let stream = [&half[..], what].concat();
        assert_eq!(
            messages(&stream).end,
            ScanEnd::NotTls(TlsError::UnexpectedRecord),
            "{what:?}"
        );
    }
}

#[test]
fn a_warning_before_the_server_hello_is_passed_over() {
    let stream = [
        &[21, 3, 1, 0, 2, 1, 112][..],
        &handshake_record(&server_hello([1; 32], &[])),
        &CCS,
    ]
    .concat();
    let scan = messages(&stream);
    assert_eq!(
        (types(&scan), scan.end),
        (vec![2], ScanEnd::ChangeCipherSpec)
    );
}

#[test]
fn tls_1_3_ends_with_its_server_hello() {
    let hello = handshake_record(&server_hello([1; 32], &TLS13_EXTENSIONS));
    let scan = messages(&hello);
    assert_eq!(
        (types(&scan), scan.end, scan.consumed_records),
        (vec![2], ScanEnd::Encrypted, hello.len())
    );
    // A key change inside a record is forbidden.
    let together = [
        server_hello([1; 32], &TLS13_EXTENSIONS),
        message(8, &[0, 0]),
    ]
    .concat();
    assert_eq!(
        messages(&handshake_record(&together)).end,
        ScanEnd::NotTls(TlsError::UnexpectedRecord)
    );
}

/// RFC 8446, appendix D.4: the ChangeCipherSpec after a HelloRetryRequest means nothing.
#[test]
fn after_a_hello_retry_request_the_real_hello_is_still_in_clear() {
    let retry = handshake_record(&server_hello(HELLO_RETRY_REQUEST_RANDOM, &TLS13_EXTENSIONS));
    let hello = handshake_record(&server_hello([1; 32], &TLS13_EXTENSIONS));
    let stream = [&retry[..], &CCS, &hello, &[23, 3, 3, 0, 9]].concat();
    let scan = messages(&stream);
    assert_eq!((types(&scan), scan.end), (vec![2, 2], ScanEnd::Encrypted));
    assert_eq!(scan.consumed_records, stream.len() - 5);
    let other_ccs = [&retry[..], &[20, 3, 3, 0, 1, 2]].concat();
    assert_eq!(messages(&other_ccs).end, ScanEnd::ChangeCipherSpec);
}

#[test]
fn a_length_of_16_megabytes_ends_the_scan_at_once() {
    let scan = messages(&handshake_record(&[11, 0xff, 0xff, 0xff, 1, 2, 3]));
    assert_eq!((scan.end, scan.messages.len()), (ScanEnd::Limit, 0));
    let [_, a, b, c] = (MAX_BODY_LEN as u32).to_be_bytes();
    let mut scanner = HandshakeScanner::new();
    assert_eq!(
        scanner.advance(&handshake_record(&[11, a, b, c])).end,
        ScanEnd::NeedMore
    );
    assert_eq!(scanner.unfinished().expect("begun").len, MAX_BODY_LEN + 4);
    let scan = messages(&handshake_record(&[11, a, b, c + 1]));
    assert_eq!(scan.end, ScanEnd::Limit);
}

#[test]
fn messages_and_records_are_bounded() {
    let mut stream = Vec::new();
    let empty = message(0, &[]);
    write_records(
        &mut stream,
        ContentType::Handshake,
        ProtocolVersion::TLS1_2,
        &empty.repeat(MAX_MESSAGES),
    );
    let scan = messages(&stream);
    assert_eq!(
        (scan.messages.len(), scan.end),
        (MAX_MESSAGES, ScanEnd::NeedMore)
    );
    stream.extend(handshake_record(&empty));
    let scan = messages(&stream);
    assert_eq!(
        (scan.messages.len(), scan.end),
        (MAX_MESSAGES, ScanEnd::Limit)
    );

    let alerts = [21, 3, 3, 0, 2, 1, 112].repeat(MAX_RECORDS);
    let scan = messages(&alerts);
    assert_eq!(
        (scan.end, scan.consumed_records),
        (ScanEnd::NeedMore, alerts.len())
    );
    let scan = messages(&[&alerts[..], &alerts[..7]].concat());
    assert_eq!(
        (scan.end, scan.consumed_records),
        (ScanEnd::Limit, alerts.len())
    );
}

#[test]
fn a_large_message_in_one_byte_records_fed_byte_by_byte() {
    let bytes = message(11, &[3; 2000]);
    let stream: Vec<u8> = bytes.chunks(1).flat_map(handshake_record).collect();
    let mut scanner = HandshakeScanner::new();
    for len in 0..=stream.len() {
        scanner.advance(&stream[..len]);
    }
    let scan = scanner.into_scan();
    assert_eq!(scan.messages[0].pieces.len(), bytes.len());
    assert_eq!(scan.messages[0].gather(&stream), bytes);
}

proptest! {
    /// Messages cut into records at random places come out as they went in.
    #[test]
    fn any_cutting_gives_the_same_messages(
        bodies in proptest::collection::vec((0..30_u8, proptest::collection::vec(any::<u8>(), 0..200)), 1..6),
        cuts in proptest::collection::vec(1..50_usize, 1..20),
        cut_by in any::<u8>(),
    ) {
        // Type 2 with a random body that happens to be TLS 1.3 would end the scan.
        let bodies: Vec<_> = bodies.into_iter().filter(|(msg_type, _)| *msg_type != 2).collect();
        let all: Vec<u8> = bodies.iter().flat_map(|(msg_type, body)| message(*msg_type, body)).collect();
        let mut stream = Vec::new();
        let mut rest = &all[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(*cut));
            stream.extend(handshake_record(now));
            rest = later;
        }
        let scan = messages(&stream);
        prop_assert_eq!(scan.consumed_records, stream.len());
        let found: Vec<_> = scan.messages.iter().map(|m| (m.msg_type.0, m.body(&stream).into_owned())).collect();
        prop_assert_eq!(found, bodies);
        crate::fuzzing::handshake_scan(&stream);
        crate::fuzzing::tls_stream(&[&[cut_by][..], &stream].concat());
    }

    #[test]
    fn no_input_panics(
        pieces in proptest::collection::vec((19..25_u8, proptest::collection::vec(0..4_u8, 0..30)), 0..8),
        tail in proptest::collection::vec(any::<u8>(), 0..8),
        cut_by in any::<u8>(),
    ) {
        let mut stream = Vec::new();
        for (content_type, fragment) in pieces {
            stream.extend([content_type, 3, 3, 0, fragment.len() as u8]);
            stream.extend(fragment);
        }
        stream.extend(tail);
        crate::fuzzing::handshake_scan(&stream);
        crate::fuzzing::tls_stream(&[&[cut_by][..], &stream].concat());
    }
}
