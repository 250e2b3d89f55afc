//! The name of the server in a client's first bytes.
//!
//! Is not: what the relay makes of the hello.
//!
//! Invariants: work is linear in the bytes, however they come; no more than [`MAX_LEN`] of them are
//! asked for.

use tandem_wire::tls::stream::{HandshakeScanner, ScanEnd};
use tandem_wire::tls::{ClientHello, HandshakeType};

/// Bytes in which a hello has to be whole: one record of the greatest length (RFC 8446, section
/// 5.1), and some.
const MAX_LEN: usize = 18 * 1024;

/// Reads a client's first bytes for the name of the server.
#[derive(Debug, Default)]
pub struct FirstFlight {
    scanner: HandshakeScanner,
}

/// What the bytes so far say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// More are needed.
    Unfinished,
    /// A hello with the name of the server (RFC 6066, section 3).
    Named(String),
    /// A hello without one, or something else than TLS.
    Unnamed,
}

impl FirstFlight {
    /// Goes on over `bytes`, which begin with those of all earlier calls.
    pub fn read(&mut self, bytes: &[u8]) -> Hello {
        let scan = self.scanner.advance(bytes);
        let Some(first) = scan.messages.first() else {
            return match scan.end {
                ScanEnd::NeedMore if bytes.len() < MAX_LEN => Hello::Unfinished,
                ScanEnd::NeedMore
                | ScanEnd::ChangeCipherSpec
                | ScanEnd::Encrypted
                | ScanEnd::NotTls(_)
                | ScanEnd::Limit => Hello::Unnamed,
            };
        };
        if first.msg_type != HandshakeType::CLIENT_HELLO {
            return Hello::Unnamed;
        }
        let body = first.body(bytes);
        let hello = ClientHello::parse(&body).ok();
        match hello.and_then(|hello| hello.server_name()) {
            Some(name) => Hello::Named(name.to_owned()),
            None => Hello::Unnamed,
        }
    }
}

#[cfg(test)]
mod tests {
    use tandem_wire::tls::record::write_records;
    use tandem_wire::tls::{ClientHelloRepr, ContentType, ExtensionType, ProtocolVersion};
    use tandem_wire::tls::{handshake, record};

    use super::*;

    /// The record of a hello, with this name and an extension of so many bytes.
    fn hello(name: Option<&str>, filling: usize) -> Vec<u8> {
        let mut extensions = vec![(ExtensionType(0xfafa), vec![0; filling])];
        if let Some(name) = name {
            let len = u16::try_from(name.len()).expect("short");
            let mut list = (len + 3).to_be_bytes().to_vec();
            list.push(0);
            list.extend(len.to_be_bytes());
            list.extend(name.as_bytes());
            extensions.push((ExtensionType::SERVER_NAME, list));
        }
        let hello = ClientHelloRepr {
            legacy_version: ProtocolVersion::TLS1_2,
            random: [7; 32],
            session_id: Vec::new(),
            cipher_suites: vec![0x1301],
            compression_methods: vec![0],
            extensions: Some(extensions),
        };
        let (mut body, mut message, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        hello.write(&mut body).expect("it fits");
        handshake::write_message(&mut message, HandshakeType::CLIENT_HELLO, &body)
            .expect("it fits");
        // Two records, so that a message lies in both.
        let (front, rest) = message.split_at(message.len() / 2);
        for part in [front, rest] {
            write_records(
                &mut bytes,
                ContentType::Handshake,
                ProtocolVersion::TLS1_0,
                part,
            );
        }
        bytes
    }

    #[test]
    fn a_name_is_found_once_the_hello_is_whole_however_it_is_cut() {
        let bytes = hello(Some("Www.example.com"), 100);
        let mut flight = FirstFlight::default();
        for cut in 0..bytes.len() {
            assert_eq!(flight.read(&bytes[..cut]), Hello::Unfinished, "{cut}");
        }
        let named = Hello::Named("Www.example.com".to_owned());
        assert_eq!(flight.read(&bytes), named);
        // What follows changes nothing.
        assert_eq!(flight.read(&[&bytes[..], b"more"].concat()), named);
        assert_eq!(FirstFlight::default().read(&bytes), named);
    }

    #[test]
    fn what_has_no_name_is_known_at_once() {
        for bytes in [
            &hello(None, 0)[..],
            &hello(Some("not a name"), 0),
            b"GET / HTTP/1.1\r\n",
            b"SSH-2.0-x",
            &[22, 3, 1, 0, 4, 2, 0, 0, 0],
            &[22, 3, 1, 0, 4, 1, 0, 0, 0],
            &[23, 3, 3, 0, 1, 0],
        ] {
            assert_eq!(FirstFlight::default().read(bytes), Hello::Unnamed);
        }
    }

    #[test]
    fn no_more_is_asked_for_than_a_hello_has() {
        let huge = hello(Some("a.example"), 40_000);
        const { assert!(record::MAX_PLAINTEXT_LEN < MAX_LEN) };
        let mut flight = FirstFlight::default();
        assert_eq!(flight.read(&huge[..MAX_LEN - 1]), Hello::Unfinished);
        assert_eq!(flight.read(&huge[..MAX_LEN]), Hello::Unnamed);
    }
}
