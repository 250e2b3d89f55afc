//! ClientHellos by hand and at random.

use super::*;
use crate::tls::extension::tests::extensions;
use proptest::prelude::*;

fn repr() -> ClientHelloRepr {
    ClientHelloRepr {
        legacy_version: ProtocolVersion::TLS1_2,
        random: std::array::from_fn(|n| n as u8),
        session_id: vec![1, 2, 3],
        cipher_suites: vec![0x1301, 0xc02b, 0x00ff],
        compression_methods: vec![0],
        extensions: Some(vec![
            (ExtensionType::SERVER_NAME, sni(b"www.example.org")),
            (
                ExtensionType::SUPPORTED_VERSIONS,
                vec![6, 0x7a, 0x7a, 3, 4, 3, 3],
            ),
            (ExtensionType(0x0099), Vec::new()),
        ]),
    }
}

fn sni(name: &[u8]) -> Vec<u8> {
    let len = name.len() as u16;
    let mut data = (len + 3).to_be_bytes().to_vec();
    data.push(0);
    data.extend(len.to_be_bytes());
    data.extend(name);
    data
}

fn written(repr: &ClientHelloRepr) -> Vec<u8> {
    let mut body = Vec::new();
    repr.write(&mut body).expect("it fits");
    body
}

#[test]
fn fields() {
    let body = written(&repr());
    let hello = ClientHello::parse(&body).expect("well formed");
    assert_eq!(hello.legacy_version(), ProtocolVersion::TLS1_2);
    assert_eq!(hello.random()[31], 31);
    assert_eq!(hello.session_id(), [1, 2, 3]);
    assert_eq!(
        hello.cipher_suites().collect::<Vec<_>>(),
        [0x1301, 0xc02b, 0x00ff]
    );
    assert_eq!(
        hello.cipher_suites_bytes(),
        [0x13, 0x01, 0xc0, 0x2b, 0x00, 0xff]
    );
    assert_eq!(hello.compression_methods(), [0]);
    assert_eq!(hello.server_name(), Some("www.example.org"));
    let versions: Vec<_> = hello.supported_versions().expect("the extension").collect();
    assert_eq!(
        versions,
        [
            ProtocolVersion(0x7a7a),
            ProtocolVersion::TLS1_3,
            ProtocolVersion::TLS1_2
        ]
    );
}

#[test]
fn the_length_of_an_extension_is_known_before_its_body() {
    let body = written(&repr());
    let length = |front: &[u8], number| extension_len_in_front(front, ExtensionType(number));
    assert_eq!(length(&body, ExtensionType::SUPPORTED_VERSIONS.0), Some(7));
    assert_eq!(length(&body, 0x0099), Some(0));
    assert_eq!(length(&body, 0x0098), None);
    // All but the last extension's header is enough for the one before it.
    assert_eq!(
        length(
            &body[..body.len() - 4 - 7],
            ExtensionType::SUPPORTED_VERSIONS.0
        ),
        Some(7)
    );
    assert_eq!(
        length(
            &body[..body.len() - 4 - 8],
            ExtensionType::SUPPORTED_VERSIONS.0
        ),
        None
    );
    assert_eq!(length(&body[..body.len() - 1], 0x0099), None);
}

#[test]
fn no_block_and_an_empty_block_stay_what_they_are() {
    let mut without = repr();
    without.extensions = None;
    let mut empty = repr();
    empty.extensions = Some(Vec::new());
    let without = written(&without);
    let empty = written(&empty);
    assert_eq!(empty[..without.len()], without);
    assert_eq!(empty[without.len()..], [0, 0]);
    for body in [&without, &empty] {
        let hello = ClientHello::parse(body).expect("well formed");
        assert_eq!(hello.extensions().is_some(), body.len() == empty.len());
        assert_eq!(hello.server_name(), None);
        let mut again = Vec::new();
        hello.write(&mut again);
        assert_eq!(again, *body);
    }
}

#[test]
fn every_truncation_and_every_addition_is_refused() {
    let body = written(&repr());
    let mut without = repr();
    without.extensions = None;
    let end_of_fixed_part = written(&without).len();
    for len in 0..body.len() {
        let result = ClientHello::parse(&body[..len]);
        if len == end_of_fixed_part {
            assert!(result.is_ok());
        } else {
            assert_eq!(result, Err(TlsError::Truncated), "{len}");
        }
    }
    let mut longer = body;
    longer.push(0);
    assert_eq!(ClientHello::parse(&longer), Err(TlsError::TrailingBytes));
}

#[test]
fn forbidden_lengths() {
    let base = written(&repr());
    let odd = [&base[..34], &[0, 0, 3, 0, 1, 2, 1, 0]].concat();
    assert_eq!(ClientHello::parse(&odd), Err(TlsError::BadLength));
    let mut repr_of = repr();
    repr_of.session_id = vec![0; 33];
    assert_eq!(repr_of.write(&mut Vec::new()), Err(TlsError::BadLength));
    let mut long_id = base[..34].to_vec();
    long_id.push(33);
    long_id.extend([0; 33]);
    long_id.extend([0, 2, 0, 1, 1, 0]);
    assert_eq!(ClientHello::parse(&long_id), Err(TlsError::BadLength));
    let no_suites = [&base[..34], &[0, 0, 0, 1, 0]].concat();
    assert_eq!(ClientHello::parse(&no_suites), Err(TlsError::BadLength));
    let no_compression = [&base[..34], &[0, 0, 2, 0, 1, 0]].concat();
    assert_eq!(
        ClientHello::parse(&no_compression),
        Err(TlsError::BadLength)
    );
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let mut too_long = repr();
    too_long.extensions = Some(vec![(ExtensionType(1), vec![0; 70_000])]);
    let mut out = vec![9];
    assert_eq!(too_long.write(&mut out), Err(TlsError::FieldTooLong));
    assert_eq!(out, [9]);
    let mut suites = repr();
    suites.cipher_suites = vec![1; 40_000];
    assert_eq!(suites.write(&mut out), Err(TlsError::FieldTooLong));
    assert_eq!(out, [9]);
}

fn name_in(extensions: Vec<(ExtensionType, Vec<u8>)>) -> Option<String> {
    let mut hello = repr();
    hello.extensions = Some(extensions);
    let body = written(&hello);
    ClientHello::parse(&body)
        .expect("well formed")
        .server_name()
        .map(str::to_owned)
}

#[test]
fn server_names_that_count() {
    let long_label = [b'a'; 63];
    let longest = [
        &long_label[..],
        b".",
        &long_label,
        b".",
        &long_label,
        b".",
        &long_label[..61],
    ]
    .concat();
    assert_eq!(longest.len(), MAX_HOST_NAME_LEN);
    for name in [
        &b"example.org"[..],
        b"Www.EXAMPLE.org",
        b"localhost",
        b"_a-b.c1",
        b"xn--bcher-kva.example",
        &longest,
    ] {
        let expected = std::str::from_utf8(name).expect("ASCII");
        assert_eq!(
            name_in(vec![(ExtensionType::SERVER_NAME, sni(name))]).as_deref(),
            Some(expected)
        );
    }
}

#[test]
fn server_names_that_do_not_count() {
    let long_label = [b'a'; 64];
    let too_long = [&[b'a'; 63][..]; 4].join(&b'.');
    for name in [
        &b""[..],
        b".",
        b"example.org.",
        b".example.org",
        b"a..b",
        b"exa mple.org",
        b"example.org\0",
        b"b\xc3\xbccher.example",
        b"*.example.org",
        b"[2001:db8::1]",
        &long_label,
        &too_long,
    ] {
        assert_eq!(
            name_in(vec![(ExtensionType::SERVER_NAME, sni(name))]),
            None,
            "{name:?}"
        );
    }
    let twice = vec![(ExtensionType::SERVER_NAME, sni(b"a.example")); 2];
    assert_eq!(name_in(twice), None);
    for data in [
        &[][..],
        &[0, 0],
        &[0, 4, 0, 0, 1],
        &[0, 4, 1, 0, 1, b'a'],
        &[0, 4, 0, 0, 1, b'a', 0],
        &[0, 8, 0, 0, 1, b'a', 0, 0, 1, b'b'],
    ] {
        assert_eq!(
            name_in(vec![(ExtensionType::SERVER_NAME, data.to_vec())]),
            None,
            "{data:?}"
        );
    }
}

#[test]
fn supported_versions_that_do_not_add_up_are_none() {
    for data in [&[][..], &[3, 3, 4, 3], &[2, 3], &[2, 3, 4, 3]] {
        let mut hello = repr();
        hello.extensions = Some(vec![(ExtensionType::SUPPORTED_VERSIONS, data.to_vec())]);
        let body = written(&hello);
        assert!(
            ClientHello::parse(&body)
                .expect("well formed")
                .supported_versions()
                .is_none()
        );
    }
}

proptest! {
    #[test]
    fn what_is_written_parses_as_the_same(
        version: u16,
        random: [u8; 32],
        session_id in proptest::collection::vec(any::<u8>(), 0..=32),
        cipher_suites in proptest::collection::vec(any::<u16>(), 1..20),
        compression_methods in proptest::collection::vec(any::<u8>(), 1..4),
        extensions in extensions(),
    ) {
        let legacy_version = ProtocolVersion(version);
        let repr = ClientHelloRepr { legacy_version, random, session_id, cipher_suites, compression_methods, extensions };
        let body = written(&repr);
        let hello = ClientHello::parse(&body).expect("well formed");
        prop_assert_eq!(ClientHelloRepr::from(&hello), repr);
        crate::fuzzing::client_hello(&body);
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        crate::fuzzing::client_hello(&bytes);
    }

    #[test]
    fn a_changed_byte_never_panics(at: usize, value: u8) {
        let mut body = written(&repr());
        let at = at % body.len();
        body[at] = value;
        crate::fuzzing::client_hello(&body);
    }
}
