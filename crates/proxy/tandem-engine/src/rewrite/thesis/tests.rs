//! Unit and property tests of the thesis's messages. Not here: what the proxies do with them
//! (`tandem-packet`).

//! The thesis's messages: announced, compressed, put back exactly, and left alone where they do not
//! fit.

use super::*;
use crate::samples::{
    TODAY, apart, chain, client_hello, flight, message, named, noise, packed, record, store,
};
use crate::transcript::Handshake;
use proptest::prelude::*;
use tandem_store::{Kind, MemoryStore, Site};

const SITE: Site = Site::Address(std::net::SocketAddr::V4(std::net::SocketAddrV4::new(
    std::net::Ipv4Addr::new(192, 0, 2, 1),
    443,
)));

fn read(bytes: &[u8]) -> Flight {
    let mut handshake = Handshake::new();
    handshake.client_sent(&client_hello(&[]));
    handshake.server_sent(bytes);
    handshake.flight().expect("a whole flight").clone()
}

fn announced(hello: &[u8], store: &mut MemoryStore) -> Option<Vec<u8>> {
    let chains = store.expected(Kind::Chain, &SITE, TODAY, 2);
    announce(hello, &chains, store, Codes::default())
}

/// The references to all certificates of these chains.
fn possession(chains: &[&[Vec<u8>]]) -> Possession {
    let references: Vec<Reference> = chains
        .iter()
        .flat_map(|chain| chain.iter())
        .map(|der| Reference(tandem_store::Digest::of(der).prefix16()))
        .collect();
    Possession::from_references(&references)
}

fn compressed(bytes: &[u8], held: &[&[Vec<u8>]]) -> Option<Vec<u8>> {
    compress(bytes, &read(bytes), &possession(held), Codes::default())
}

#[test]
fn a_hello_comes_back_exactly_with_and_without_an_extension_block() {
    let chain = chain(&[926, 900]);
    let mut held = store(&SITE, &[&chain]);
    for (hello, cost) in [
        (client_hello(&named("www.example.org")), 4 + 32),
        (client_hello(&[]), 2 + 4 + 32),
    ] {
        let longer = announced(&hello, &mut held).expect("there is something to announce");
        assert_eq!(longer.len(), hello.len() + cost);
        let body = lone_hello(&longer).expect("still one record with one hello");
        let parsed = ClientHello::parse(body).expect("all lengths agree again");
        let last = parsed.extensions().and_then(|block| block.iter().last());
        let last = last.expect("the announcement is the last extension");
        assert_eq!((last.extension_type.0, last.data.len()), (0x0099, 32));

        let stripped = strip(&longer, Codes::default()).expect("our own");
        assert_eq!(stripped.hello, hello);
        assert_eq!(stripped.references.len(), 2);
        assert_eq!(strip(&hello, Codes::default()), None);
    }
}

#[test]
fn a_hello_of_another_form_is_not_touched() {
    let chain = chain(&[926]);
    let mut held = store(&SITE, &[&chain]);
    let plain = client_hello(&named("www.example.org"));
    let once = announced(&plain, &mut held).expect("announced");
    let two_records = packed(&[plain[5..].to_vec()], 60);
    let with_more = [&plain[..], &record(22, &message(16, &[0; 9]))].concat();
    let cut = &plain[..plain.len() - 1];
    for hello in [
        &once[..],
        &two_records,
        &with_more,
        cut,
        &client_hello(&[0, 0]),
        &record(22, &message(2, &[0; 50])),
        &record(23, &plain[5..]),
        b"GET / HTTP/1.1\r\n",
        b"",
    ] {
        assert_eq!(announced(hello, &mut held), None, "{hello:x?}");
    }
    for payload in [&two_records[..], cut, b"GET", b""] {
        assert_eq!(strip(payload, Codes::default()), None, "{payload:x?}");
    }
}

#[test]
fn nothing_is_announced_where_nothing_is_held() {
    let hello = client_hello(&named("www.example.org"));
    let codes = Codes::default();
    assert_eq!(
        announce(&hello, &[], &mut MemoryStore::default(), codes),
        None
    );
    let unknown = ObjectId::of(&[b"gone"]);
    assert_eq!(
        announce(&hello, &[unknown], &mut MemoryStore::default(), codes),
        None
    );
}

#[test]
fn a_chain_that_is_held_becomes_references_alone() {
    let chain = chain(&[926, 900]);
    for bytes in [apart(&flight(&chain)), packed(&flight(&chain), 1 << 14)] {
        let shorter = compressed(&bytes, &[&chain]).expect("held");
        assert_eq!(bytes.len() - shorter.len(), 926 + 900 + 6 + 3 - 32);
        let mut held = store(&SITE, &[&chain]);
        let expanded = expand(&shorter, &mut held, Codes::default());
        assert_eq!(expanded, Expanded::Whole(bytes.clone()));
        let missing = expand(&shorter, &mut MemoryStore::default(), Codes::default());
        assert_eq!(missing, Expanded::Miss(Miss::NotHeld));
        let ordinary = expand(&bytes, &mut held, Codes::default());
        assert_eq!(ordinary, Expanded::Ordinary);
    }
}

#[test]
fn of_a_chain_that_is_held_in_part_the_rest_crosses_in_full() {
    let chain = chain(&[926, 900, 910]);
    let bytes = apart(&flight(&chain));
    let shorter = compressed(&bytes, &[&chain[1..]]).expect("two are held");
    let (_, whole) = message_in_record(&shorter, 0x99).expect("a CompressedCertificate");
    let body = &shorter[whole.start + MESSAGE_HEADER..whole.end];
    assert_eq!(body[0], ENTRY_CERTIFICATE);
    assert_eq!(body[4 + 926], ENTRY_REFERENCE);
    assert_ne!(body.len() % 16, 0);
    let mut held = store(&SITE, &[&chain[1..]]);
    let expanded = expand(&shorter, &mut held, Codes::default());
    assert_eq!(expanded, Expanded::Whole(bytes));
}

#[test]
fn a_partial_list_that_could_be_mistaken_for_references_alone_is_padded() {
    // 1 + 16 and 1 + 3 + length, together divisible by 16.
    let chain = [noise(800, 1), noise(11 + 16 * 20, 2)];
    let bytes = apart(&flight(&chain));
    let shorter = compressed(&bytes, &[&chain[..1]]).expect("one is held");
    let (_, whole) = message_in_record(&shorter, 0x99).expect("a CompressedCertificate");
    assert_eq!((whole.len() - MESSAGE_HEADER) % 16, 1);
    let mut held = store(&SITE, &[&chain[..1]]);
    let expanded = expand(&shorter, &mut held, Codes::default());
    assert_eq!(expanded, Expanded::Whole(bytes));
}

#[test]
fn what_saves_nothing_or_spans_records_is_not_compressed() {
    let chain = chain(&[926, 900]);
    let bytes = apart(&flight(&chain));
    assert_eq!(compressed(&bytes, &[]), None);
    assert_eq!(compressed(&packed(&flight(&chain), 500), &[&chain]), None);
    let tiny = [noise(9, 1)];
    assert_eq!(compressed(&apart(&flight(&tiny)), &[&tiny]), None);
}

#[test]
fn a_message_that_no_writer_of_ours_made_is_left_alone() {
    let kinds: [&[u8]; 6] = [
        &[],
        &[3; 17],
        &[ENTRY_REFERENCE; 16 + 2],
        &[ENTRY_CERTIFICATE, 0xff, 0xff, 0xff, 1],
        &[ENTRY_PAD],
        &[7; 16 * 33],
    ];
    for body in kinds {
        let payload = record(22, &message(0x99, body));
        let expanded = expand(&payload, &mut MemoryStore::default(), Codes::default());
        assert_eq!(expanded, Expanded::Ordinary, "{body:x?}");
    }
}

proptest! {
    #[test]
    fn strip_undoes_announce(
        name in "[a-z]{1,20}",
        block in proptest::option::of(proptest::collection::vec(
            (any::<u16>(), proptest::collection::vec(any::<u8>(), 0..40)), 1..6)),
        sizes in proptest::collection::vec(1usize..400, 1..8),
    ) {
        let chain = chain(&sizes);
        let mut held = store(&SITE, &[&chain]);
        let extensions = match &block {
            None => Vec::new(),
            Some(pairs) => {
                let mut block = named(&name)[2..].to_vec();
                for (kind, data) in pairs {
                    block.extend(kind.to_be_bytes());
                    block.extend((data.len() as u16).to_be_bytes());
                    block.extend(data);
                }
                [&(block.len() as u16).to_be_bytes()[..], &block].concat()
            }
        };
        let hello = client_hello(&extensions);
        if let Some(longer) = announced(&hello, &mut held) {
            let stripped = strip(&longer, Codes::default()).expect("our own");
            prop_assert_eq!(stripped.hello, hello);
        } else {
            prop_assert!(block.is_some_and(|pairs| pairs.iter().any(|(kind, _)| *kind == 0x99)));
        }
    }

    #[test]
    fn expand_undoes_compress(
        sizes in proptest::collection::vec(1usize..1_200, 1..6),
        known in proptest::collection::vec(any::<bool>(), 6),
        size in 1usize..8_000,
    ) {
        let chain = chain(&sizes);
        let bytes = packed(&flight(&chain), size);
        let held: Vec<Vec<u8>> = chain
            .iter()
            .zip(&known)
            .filter(|(_, known)| **known)
            .map(|(der, _)| der.clone())
            .collect();
        if let Some(shorter) = compressed(&bytes, &[&held]) {
            prop_assert!(shorter.len() < bytes.len());
            let mut store = store(&SITE, &[&held]);
            prop_assert_eq!(expand(&shorter, &mut store, Codes::default()), Expanded::Whole(bytes));
        }
    }

    #[test]
    fn any_payload_is_stripped_or_expanded_to_something_that_comes_back(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let payload = record(22, &message(0x99, &bytes));
        let _ = expand(&payload, &mut MemoryStore::default(), Codes::default());
        let _ = strip(&record(22, &message(1, &bytes)), Codes::default());
        let _ = expand(&bytes, &mut MemoryStore::default(), Codes::default());
        let _ = strip(&bytes, Codes::default());
    }
}
