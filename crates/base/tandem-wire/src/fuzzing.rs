//! What must hold for any input of any parser of this crate: one function for each, called by the
//! fuzz targets in `fuzz/`, by the replay of their corpora, and by property tests.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::packet::{Edit, TcpPacket};
use crate::seq::Seq;
use crate::stream::{Assembler, Inserted, MAX_PENDING};
use crate::tcp::{OptionsBuf, TcpOptions};
use crate::tls::handshake::{self, HandshakeType};
use crate::tls::record::{self, Records};
use crate::tls::stream::scan::{self, MAX_MESSAGES};
use crate::tls::stream::{
    Content, Framed, HandshakeScanner, Message, MessageBuffer, Plaintext, RecordReader,
};
use crate::tls::{
    CertificateEntry, CertificateList, CertificateStatus, ClientHello, ClientHelloRepr,
    ServerHello, ServerHelloRepr, certificate,
};
use crate::udp::{UdpPacket, Unreachable, fragments};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 10] = [
    ("tcp_packet", tcp_packet),
    ("udp_packet", udp_packet),
    ("tls_records", tls_records),
    ("handshake_scan", handshake_scan),
    ("tls_stream", tls_stream),
    ("client_hello", client_hello),
    ("server_hello", server_hello),
    ("certificate_list", certificate_list),
    ("certificate_entries", certificate_entries),
    ("stream_assembler", stream_assembler),
];

/// A datagram: written again it is the same datagram, its pieces have its bytes, and the message
/// that it did not arrive names it.
pub fn udp_packet(data: &[u8]) {
    let Some(datagram) = UdpPacket::parse(data) else {
        return;
    };
    let written = datagram.write().expect("what was parsed fits");
    assert_eq!(UdpPacket::parse(&written), Some(datagram));
    let (header_len, more) = match datagram.source.is_ipv4() {
        true => (20, 0),
        false => (40, 8),
    };
    let mut content = Vec::new();
    for piece in fragments(&written, 7) {
        assert!(piece.len() <= 1_280);
        content.extend_from_slice(&piece[header_len + more..]);
    }
    assert_eq!(content, written[header_len..]);
    let message = Unreachable::Port.write(datagram.source, datagram.destination);
    let message = message.expect("of one version of IP");
    let quoted = UdpPacket::parse(&message[header_len + 8..]).expect("a datagram");
    assert_eq!(quoted.source, datagram.source);
    assert_eq!(quoted.destination, datagram.destination);
}

/// A packet: rebuilt without a change it is the same bytes; rebuilt with one it parses and has
/// right checksums.
pub fn tcp_packet(data: &[u8]) {
    let Ok(packet) = TcpPacket::parse(data) else {
        return;
    };
    assert_eq!(
        packet.header_len() + packet.payload().len(),
        packet.bytes().len()
    );
    assert!(data.starts_with(packet.bytes()));
    let raw: usize = packet.options().count();
    assert!(raw <= packet.options_bytes().len());
    assert!(TcpOptions::parse(packet.options_bytes()).is_ok());

    let rebuilt = packet
        .rebuilt(&Edit::default())
        .expect("what was parsed fits");
    let again = TcpPacket::parse(&rebuilt).expect("what was built parses");
    assert!(again.checksums_valid());
    if packet.checksums_valid() {
        assert_eq!(rebuilt, packet.bytes());
    } else {
        assert_eq!(rebuilt.len(), packet.bytes().len());
        assert_eq!(again.payload(), packet.payload());
    }

    let mut options =
        OptionsBuf::from_bytes(packet.options_bytes()).expect("parsed options are well formed");
    assert!(options.len() <= packet.options_bytes().len());
    let before = options.without_experiment(0xfade);
    options = before;
    if options.push_experiment(0xfade, &[1, 2, 3]).is_ok() {
        assert_eq!(options.without_experiment(0xfade), before);
        let edit = Edit {
            seq: Some(Seq(1)),
            options: Some(options.as_slice()),
            payload: Some(b"new"),
            ..Edit::default()
        };
        if let Ok(edited) = packet.rebuilt(&edit) {
            let edited = TcpPacket::parse(&edited).expect("what was built parses");
            assert!(edited.checksums_valid());
            assert_eq!((edited.seq(), edited.payload()), (Seq(1), &b"new"[..]));
            assert_eq!(edited.options().experiment(0xfade), Some(&[1, 2, 3][..]));
        }
    }
}

/// Records: they cover the slice without holes, and each header written again is the same.
pub fn tls_records(data: &[u8]) {
    let mut records = Records::new(data);
    let mut at = 0;
    for record in records.by_ref() {
        let Ok(record) = record else {
            break;
        };
        assert_eq!(record.range.start, at);
        assert_eq!(data[record.fragment_range()], *record.fragment);
        assert_eq!(data[at..at + record::HEADER_LEN], record.header.to_bytes());
        assert!(record.fragment.len() <= record::MAX_FRAGMENT_LEN);
        at = record.range.end;
    }
    assert_eq!(records.offset(), at);
    assert_eq!(records.rest(), &data[at..]);
}

/// A handshake scan: fed in two ways it finds the same, and the messages lie where it says.
pub fn handshake_scan(data: &[u8]) {
    let at_once = scan::messages(data);
    assert!(at_once.consumed_records <= data.len());
    assert!(at_once.messages.len() <= MAX_MESSAGES);
    let mut end = 0;
    for message in &at_once.messages {
        assert!(message.body_len() <= handshake::MAX_BODY_LEN);
        for piece in &message.pieces {
            assert!(piece.start >= end && piece.start < piece.end && piece.end <= data.len());
            end = piece.end;
        }
        let gathered = message.gather(data);
        let mut written = Vec::new();
        handshake::write_message(&mut written, message.msg_type, &message.body(data))
            .expect("it fits");
        assert_eq!(gathered, written);
        match message.msg_type {
            HandshakeType::CLIENT_HELLO => client_hello(&message.body(data)),
            HandshakeType::SERVER_HELLO => server_hello(&message.body(data)),
            HandshakeType::CERTIFICATE => certificate_list(&message.body(data)),
            _ => {}
        }
    }

    let mut whole = HandshakeScanner::new();
    whole.advance(data);
    let mut growing = HandshakeScanner::new();
    // Uneven steps, small enough that long inputs take many.
    let mut len = 0;
    let mut step = 1;
    while len < data.len() {
        growing.advance(&data[..len]);
        len += step;
        step = step % 7 + 1;
    }
    growing.advance(data);
    assert_eq!(*growing.scan(), at_once);
    assert_eq!(growing.first_protected(), whole.first_protected());
    if let Some(unfinished) = growing.unfinished() {
        assert!(unfinished.present <= unfinished.len);
    }
}

/// The three layers with nobody who keeps the stream: a first byte with the steps that it is cut
/// by, then the stream. The same messages however it is cut, those of a scan first, and bounded.
pub fn tls_stream(data: &[u8]) {
    let Some((&steps, stream)) = data.split_first() else {
        return;
    };
    let at_once = read_in_pieces(stream, usize::MAX);
    assert_eq!(read_in_pieces(stream, 1), at_once);
    assert_eq!(read_in_pieces(stream, usize::from(steps).max(1)), at_once);
    // A scan is stricter: it ends earlier, and finds no other messages until then.
    let scan = scan::messages(stream);
    for (span, message) in scan.messages.iter().zip(&at_once) {
        assert_eq!(span.gather(stream), *message);
    }
    assert!(scan.messages.len() <= at_once.len());
}

/// The messages in clear of a stream that comes in pieces of `step` bytes, kept by none but the
/// layers.
fn read_in_pieces(stream: &[u8], step: usize) -> Vec<Vec<u8>> {
    let mut plaintext = Plaintext::new();
    let mut messages = MessageBuffer::new(handshake::MAX_BODY_LEN);
    let mut found = Vec::new();
    // What of a record has come: the only bytes that wait here.
    let mut waiting = Vec::new();
    for piece in stream.chunks(step) {
        waiting.extend_from_slice(piece);
        let mut records = RecordReader::new();
        loop {
            let record = match records.peek(&waiting) {
                Ok(Framed::Whole(record)) => record,
                Ok(Framed::Cut | Framed::Begun(_)) => break,
                Err(_) => return found,
            };
            let content = plaintext.take(record.header.content_type, record.fragment);
            if content == Content::Handshake {
                let each = |message: Message<'_>| {
                    let hello = ServerHello::parse(message.body());
                    if let (HandshakeType::SERVER_HELLO, Ok(hello)) = (message.msg_type, hello)
                        && hello.is_hello_retry_request()
                    {
                        plaintext.ignore_change(true);
                    }
                    found.push(message.bytes.to_vec());
                };
                if messages.push(record.fragment, each).is_err() {
                    return found;
                }
            }
            records.pass(&record);
        }
        waiting.drain(..records.offset());
        assert!(waiting.len() < record::HEADER_LEN + record::MAX_FRAGMENT_LEN);
        assert!(messages.held().len() < handshake::HEADER_LEN + handshake::MAX_BODY_LEN);
    }
    found
}

/// A ClientHello: view and owned form are written as the same bytes, and extensions lie where they
/// say.
pub fn client_hello(body: &[u8]) {
    let Ok(hello) = ClientHello::parse(body) else {
        return;
    };
    let mut written = Vec::new();
    hello.write(&mut written);
    assert_eq!(written, body);
    written.clear();
    ClientHelloRepr::from(&hello)
        .write(&mut written)
        .expect("what was parsed fits");
    assert_eq!(written, body);
    for extension in hello.extensions().into_iter().flatten() {
        let range = extension.range();
        assert_eq!(
            body[range.start..range.start + 2],
            extension.extension_type.0.to_be_bytes()
        );
        assert_eq!(body[range.start + 4..range.end], *extension.data);
    }
    if let Some(name) = hello.server_name() {
        assert!(!name.is_empty() && name.is_ascii() && name.len() <= 253);
    }
    if let Some(versions) = hello.supported_versions() {
        assert!(versions.count() <= 127);
    }
}

/// A ServerHello: view and owned form are written as the same bytes.
pub fn server_hello(body: &[u8]) {
    let Ok(hello) = ServerHello::parse(body) else {
        return;
    };
    let mut written = Vec::new();
    hello.write(&mut written);
    assert_eq!(written, body);
    written.clear();
    ServerHelloRepr::from(&hello)
        .write(&mut written)
        .expect("what was parsed fits");
    assert_eq!(written, body);
    if hello.selected_version() != hello.version() {
        assert!(hello.is_tls13_or_later());
    }
    for extension in hello.extensions().into_iter().flatten() {
        assert_eq!(body[extension.range()][4..], *extension.data);
    }
}

/// Certificate and CertificateStatus bodies: written as the same bytes, items where they say.
pub fn certificate_list(body: &[u8]) {
    let mut written = Vec::new();
    if let Ok(list) = CertificateList::parse(body) {
        list.write(&mut written);
        assert_eq!(written, body);
        for item in list {
            assert!(!item.der.is_empty());
            assert_eq!(body[item.range()], *item.der);
        }
        written.clear();
        certificate::write_certificates(&mut written, list.iter().map(|item| item.der))
            .expect("what was parsed fits");
        assert_eq!(written, body);
    }
    if let Ok(status) = CertificateStatus::parse(body) {
        written.clear();
        status.write(&mut written);
        assert_eq!(written, body);
    }
}

/// A stream out of segments that the input describes, three bytes each (kind, offset, length): what
/// is in order is what was sent, whatever the order; limits hold.
pub fn stream_assembler(data: &[u8]) {
    const LIMIT: usize = 512;
    let start = Seq(u32::MAX - 100);
    let byte_at = |offset: u32| offset.wrapping_mul(0x9e37_79b1).to_be_bytes()[0];
    let mut stream = Assembler::new(start, LIMIT);
    let mut consumed = 0_u32;
    for step in data.as_chunks::<3>().0 {
        let [kind, offset, len] = *step;
        let offset = consumed.saturating_sub(64) + u32::from(offset) * 3;
        let len = u32::from(len) / 2;
        let mut payload: Vec<u8> = (offset..offset + len).map(byte_at).collect();
        let before = (stream.contiguous().to_vec(), stream.held());
        match kind % 8 {
            0 => {
                let held = u32::try_from(stream.contiguous().len()).expect("below the limit");
                let count = len.min(held);
                stream.consume(count as usize);
                consumed += count;
            }
            1 => {
                payload.iter_mut().for_each(|byte| *byte = !*byte);
                // Bytes that differ are taken only where nothing is held; keep the truth true.
                if before.1 > 0 {
                    let mut copy = stream.clone();
                    if copy.insert(start.wrapping_add(offset), &payload) == Inserted::Conflict {
                        stream.insert(start.wrapping_add(offset), &payload);
                        assert_eq!(
                            (stream.contiguous(), stream.held()),
                            (&before.0[..], before.1)
                        );
                    }
                }
            }
            _ => {
                let outcome = stream.insert(start.wrapping_add(offset), &payload);
                assert_ne!(outcome, Inserted::Conflict);
                if outcome != Inserted::New {
                    assert_eq!(
                        (stream.contiguous(), stream.held()),
                        (&before.0[..], before.1)
                    );
                } else {
                    assert!(stream.held() > before.1);
                }
            }
        }
        assert!(stream.held() <= LIMIT);
        assert!(stream.held() - stream.contiguous().len() <= LIMIT && MAX_PENDING > 0);
        assert_eq!(stream.start_seq(), start.wrapping_add(consumed));
        let expected: Vec<u8> = (consumed..)
            .take(stream.contiguous().len())
            .map(byte_at)
            .collect();
        assert_eq!(stream.contiguous(), expected);
    }
}

/// A Certificate message of TLS 1.3: its entries lie one behind the other up to the body's end. Or
/// a CompressedCertificate message: the one entry goes to the end.
pub fn certificate_entries(data: &[u8]) {
    if let Ok(entry) = CertificateEntry::of_compressed(data) {
        assert_eq!((entry.listed().start, entry.der.end), (5, data.len()));
        assert!(!entry.der.is_empty() && entry.extensions == (data.len()..data.len()));
    }
    let Ok(entries) = CertificateEntry::parse_all(data) else {
        return;
    };
    let mut at = 4 + usize::from(data[0]);
    for entry in &entries {
        assert_eq!(entry.listed().start, at);
        assert!(!entry.der.is_empty() && entry.extensions.start == entry.der.end + 2);
        at = entry.extensions.end;
    }
    assert_eq!(at, data.len());
    assert!(entries.len() <= certificate::MAX_CERTIFICATES);
}
