//! Answers by their bytes: what fits, what is refused, what harms nothing. Is not: what real
//! programs make of them (`tests/dig.rs`).

use hickory_proto::rr::RData;
use proptest::prelude::*;

use super::*;
use crate::zone::tests::{name, zone};

fn full() -> Zone {
    let mut addresses: Vec<String> = (1..=40).map(|last| format!("192.0.2.{last}")).collect();
    addresses.extend((1..=40).map(|last| format!("2001:db8::{last}")));
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    zone("www.example.org", &addresses, &["a challenge"])
}

fn query(owner: &str, kind: RecordType, payload: Option<u16>) -> Vec<u8> {
    let mut message = Message::query();
    message.add_query(hickory_proto::op::Query::query(name(owner), kind));
    if let Some(payload) = payload {
        let mut edns = Edns::new();
        edns.set_max_payload(payload);
        edns.set_dnssec_ok(true);
        message.set_edns(edns);
    }
    message.to_vec().expect("small")
}

fn read_answer(bytes: &[u8]) -> Message {
    Message::from_vec(bytes).expect("well-formed")
}

const OWNERS: [&str; 6] = [
    "example.org.",
    "www.example.org.",
    "_acme-challenge.www.example.org.",
    "ns.example.org.",
    "a.b.c.example.org.",
    "elsewhere.test.",
];

const KINDS: [RecordType; 12] = [
    RecordType::A,
    RecordType::AAAA,
    RecordType::HTTPS,
    RecordType::CAA,
    RecordType::SOA,
    RecordType::NS,
    RecordType::DNSKEY,
    RecordType::TXT,
    RecordType::NSEC,
    RecordType::ANY,
    RecordType::RRSIG,
    RecordType::MX,
];

#[test]
fn every_answer_fits_what_was_asked_for_and_is_never_sent_in_part() {
    let zone = full();
    for owner in OWNERS {
        for kind in KINDS {
            for payload in [None, Some(512), Some(1232), Some(65535)] {
                let query = query(owner, kind, payload);
                let most = usize::from(payload.unwrap_or(512).min(UDP_MOST));
                let udp = reply(&zone, &query, Transport::Udp).expect("an answer");
                assert!(udp.len() <= most, "{owner} {kind}: {} bytes", udp.len());
                let tcp = reply(&zone, &query, Transport::Tcp).expect("an answer");
                let (udp, tcp) = (read_answer(&udp), read_answer(&tcp));
                assert!(!tcp.metadata.truncation);
                if udp.metadata.truncation {
                    assert!(udp.answers.is_empty() && udp.authorities.is_empty());
                } else {
                    assert_eq!(udp.answers.len(), tcp.answers.len(), "{owner} {kind}");
                    assert_eq!(udp.authorities.len(), tcp.authorities.len());
                }
                if payload == Some(1232) {
                    assert!(
                        !udp.metadata.truncation,
                        "{owner} {kind}: ordinary names fit"
                    );
                }
            }
        }
    }
}

#[test]
fn a_short_question_is_no_long_lever() {
    let zone = full();
    for owner in OWNERS {
        for kind in KINDS {
            let query = query(owner, kind, Some(4096));
            let short = cut(&query).expect("an answer");
            assert!(short.len() <= query.len(), "no longer than the question");
            assert!(read_answer(&short).metadata.truncation);
        }
    }
    let any = reply(
        &zone,
        &query("www.example.org.", RecordType::ANY, Some(4096)),
        Transport::Udp,
    );
    assert!(
        any.expect("an answer").len() < 400,
        "one set stands for all"
    );
}

#[test]
fn an_https_record_comes_with_addresses_as_far_as_they_fit() {
    let zone = full();
    let with = reply(
        &zone,
        &query("www.example.org.", RecordType::HTTPS, Some(1232)),
        Transport::Udp,
    );
    let with = read_answer(&with.expect("an answer"));
    let kinds = |kind| {
        with.additionals
            .iter()
            .filter(|record| record.record_type() == kind)
            .count()
    };
    assert_eq!(
        (
            kinds(RecordType::A),
            kinds(RecordType::AAAA),
            kinds(RecordType::RRSIG)
        ),
        (8, 8, 2)
    );
    let without = reply(
        &zone,
        &query("www.example.org.", RecordType::HTTPS, Some(512)),
        Transport::Udp,
    );
    let without = read_answer(&without.expect("an answer"));
    assert!(without.additionals.is_empty() && !without.metadata.truncation);
    assert!(
        without
            .answers
            .iter()
            .any(|record| matches!(record.data, RData::HTTPS(_)))
    );
}

#[test]
fn the_question_comes_back_as_it_was_written() {
    // Resolvers vary the case to make forgery harder.
    let query = query("wWw.eXaMpLe.OrG.", RecordType::A, None);
    let answer = read_answer(&reply(&full(), &query, Transport::Udp).expect("an answer"));
    assert_eq!(answer.queries[0].name().to_ascii(), "wWw.eXaMpLe.OrG.");
    assert_eq!(answer.answers.len(), 8);
}

#[test]
fn what_is_no_query_is_not_answered_and_what_is_odd_is_refused() {
    let zone = full();
    let good = query("www.example.org.", RecordType::A, None);
    for length in 0..HEADER_LEN {
        assert_eq!(reply(&zone, &good[..length], Transport::Udp), None);
    }
    let mut answer = good.clone();
    answer[2] |= 0x80;
    assert_eq!(
        reply(&zone, &answer, Transport::Udp),
        None,
        "nothing is said to an answer"
    );
    assert_eq!(cut(&answer), None);
    let code = |bytes: &[u8]| reply(&zone, bytes, Transport::Udp).map(|answer| answer[3] & 0x0f);
    let mut update = good.clone();
    update[2] |= 5 << 3;
    assert_eq!(code(&update), Some(4), "NOTIMP");
    for count in [[0, 0], [0, 2], [0xff, 0xff]] {
        let mut odd = good.clone();
        odd[4..6].copy_from_slice(&count);
        assert_eq!(code(&odd), Some(1), "FORMERR");
    }
    assert_eq!(code(&good[..good.len() - 1]), Some(1), "FORMERR");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let zone = zone_once();
        for transport in [Transport::Udp, Transport::Tcp] {
            if let Some(answer) = reply(zone, &bytes, transport) {
                prop_assert!(transport == Transport::Tcp || answer.len() <= usize::from(UDP_MOST));
                prop_assert_eq!(&answer[..2], &bytes[..2]);
                prop_assert_eq!(answer[2] & 0x80, 0x80);
            }
        }
        let _ = cut(&bytes);
    }

    #[test]
    fn a_harmed_query_is_safe(
        owner in 0..OWNERS.len(), kind in 0..KINDS.len(), edns in any::<Option<u16>>(),
        harm in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut_at in any::<prop::sample::Index>(),
    ) {
        let mut bytes = query(OWNERS[owner], KINDS[kind], edns);
        for (at, value) in harm {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut_at.index(bytes.len() + 1).max(HEADER_LEN));
        if let Some(answer) = reply(zone_once(), &bytes, Transport::Udp) {
            prop_assert!(answer.len() <= usize::from(UDP_MOST));
            prop_assert_eq!(&answer[..2], &bytes[..2]);
        }
    }
}

fn zone_once() -> &'static Zone {
    static ZONE: std::sync::OnceLock<Zone> = std::sync::OnceLock::new();
    ZONE.get_or_init(full)
}
