//! ServerHellos by hand and at random.

use super::*;
use crate::tls::extension::tests::extensions;
use proptest::prelude::*;

fn repr(extensions: Option<Vec<(ExtensionType, Vec<u8>)>>) -> ServerHelloRepr {
    ServerHelloRepr {
        version: ProtocolVersion::TLS1_2,
        random: [7; 32],
        session: Some(SessionFields {
            session_id: vec![4, 5],
            compression_method: 1,
        }),
        cipher_suite: 0xc02f,
        extensions,
    }
}

fn written(repr: &ServerHelloRepr) -> Vec<u8> {
    let mut body = Vec::new();
    repr.write(&mut body).expect("it fits");
    body
}

#[test]
fn fields_of_tls_1_2() {
    let body = written(&repr(None));
    let hello = ServerHello::parse(&body).expect("well formed");
    assert_eq!(hello.version(), ProtocolVersion::TLS1_2);
    assert_eq!(hello.selected_version(), ProtocolVersion::TLS1_2);
    assert_eq!(hello.random(), &[7; 32]);
    assert_eq!(hello.session_id(), [4, 5]);
    assert_eq!(hello.cipher_suite(), 0xc02f);
    assert_eq!(hello.compression_method(), 1);
    assert_eq!(hello.extensions(), None);
    assert!(!hello.is_tls13_or_later() && !hello.is_hello_retry_request());
    for version in [
        ProtocolVersion::SSL3_0,
        ProtocolVersion::TLS1_0,
        ProtocolVersion::TLS1_1,
    ] {
        let mut older = repr(Some(Vec::new()));
        older.version = version;
        let body = written(&older);
        let hello = ServerHello::parse(&body).expect("well formed");
        assert_eq!(hello.selected_version(), version);
        assert!(!hello.is_tls13_or_later());
    }
    let body = written(&repr(Some(vec![(ExtensionType::SERVER_NAME, vec![7])])));
    let hello = ServerHello::parse(&body).expect("well formed");
    let extensions = hello.extensions().expect("a block");
    assert_eq!(extensions.find(ExtensionType::SERVER_NAME), Some(&[7][..]));
}

/// RFC 8446, section 4.2.1: "a server which negotiates TLS 1.3 MUST respond by sending a
/// supported_versions extension".
#[test]
fn tls_1_3_shows_in_an_extension() {
    let versions = |number: u16| {
        Some(vec![(
            ExtensionType::SUPPORTED_VERSIONS,
            number.to_be_bytes().to_vec(),
        )])
    };
    for version in [0x0304, 0x7f17, 0x7e01, 0xfb1a] {
        let body = written(&repr(versions(version)));
        let hello = ServerHello::parse(&body).expect("well formed");
        assert_eq!(hello.selected_version(), ProtocolVersion(version));
        assert!(hello.is_tls13_or_later());
    }
    // An extension that cannot be read still says that this is no TLS 1.2.
    let body = written(&repr(Some(vec![(
        ExtensionType::SUPPORTED_VERSIONS,
        vec![3],
    )])));
    let hello = ServerHello::parse(&body).expect("well formed");
    assert_eq!(hello.selected_version(), ProtocolVersion::TLS1_2);
    assert!(hello.is_tls13_or_later());
}

/// RFC 8446, section 4.1.3: a HelloRetryRequest is known by its random, the SHA-256 of its name.
#[test]
fn a_hello_retry_request_is_known_by_its_random() {
    let mut retry = repr(None);
    retry.random = HELLO_RETRY_REQUEST_RANDOM;
    let body = written(&retry);
    assert!(
        ServerHello::parse(&body)
            .expect("well formed")
            .is_hello_retry_request()
    );
}

/// draft-ietf-tls-tls13-18, section 4.1.3: no session identifier, no compression method.
#[test]
fn the_short_form_of_early_drafts() {
    let mut body = vec![0x7f, 0x12];
    body.extend([3; 32]);
    body.extend([0x13, 0x01, 0, 4, 0, 51, 0, 0]);
    let hello = ServerHello::parse(&body).expect("well formed");
    assert_eq!(hello.selected_version().tls13_draft(), Some(18));
    assert_eq!(
        (
            hello.cipher_suite(),
            hello.session_id(),
            hello.compression_method()
        ),
        (0x1301, &[][..], 0)
    );
    assert!(hello.is_tls13_or_later());
    let mut again = Vec::new();
    hello.write(&mut again);
    assert_eq!(again, body);
    let repr = ServerHelloRepr::from(&hello);
    assert_eq!((repr.session.is_none(), written(&repr)), (true, body));
    // Draft 22 has the form of TLS 1.2.
    let mut later = repr;
    later.version = ProtocolVersion(0x7f16);
    assert_eq!(later.write(&mut Vec::new()), Err(TlsError::BadLength));
}

#[test]
fn every_truncation_and_every_addition_is_refused() {
    let body = written(&repr(Some(vec![(ExtensionType(35), vec![1])])));
    let fixed = written(&repr(None)).len();
    for len in (0..body.len()).filter(|len| *len != fixed) {
        assert_eq!(
            ServerHello::parse(&body[..len]),
            Err(TlsError::Truncated),
            "{len}"
        );
    }
    assert_eq!(
        ServerHello::parse(&[&body[..], &[0]].concat()),
        Err(TlsError::TrailingBytes)
    );
    let mut long_id = body;
    long_id[34] = 33;
    long_id.extend([0; 40]);
    assert_eq!(ServerHello::parse(&long_id), Err(TlsError::BadLength));
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let mut out = vec![9];
    let too_long = repr(Some(vec![(ExtensionType(1), vec![0; 70_000])]));
    assert_eq!(too_long.write(&mut out), Err(TlsError::FieldTooLong));
    let mut long_id = repr(None);
    long_id.session = Some(SessionFields {
        session_id: vec![0; 33],
        compression_method: 0,
    });
    assert_eq!(long_id.write(&mut out), Err(TlsError::BadLength));
    assert_eq!(out, [9]);
}

proptest! {
    #[test]
    fn what_is_written_parses_as_the_same(
        version in prop_oneof![Just(0x0303_u16), Just(0x7f12), any::<u16>()],
        random: [u8; 32],
        session_id in proptest::collection::vec(any::<u8>(), 0..=32),
        compression_method: u8,
        cipher_suite: u16,
        extensions in extensions(),
    ) {
        let version = ProtocolVersion(version);
        let session = (!is_short_form(version)).then_some(SessionFields { session_id, compression_method });
        let repr = ServerHelloRepr { version, random, session, cipher_suite, extensions };
        let body = written(&repr);
        let hello = ServerHello::parse(&body).expect("well formed");
        prop_assert_eq!(ServerHelloRepr::from(&hello), repr);
        crate::fuzzing::server_hello(&body);
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        crate::fuzzing::server_hello(&bytes);
    }
}
