//! What records say, and what a policy makes of it: each rule, and each way to break it.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::svcb::{
    Alpn, IpHint, Mandatory, SVCB, SvcParamKey, SvcParamValue, Unknown,
};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{Name, RData, Record};

use super::records::proposals;
use super::*;

type Params = Vec<(SvcParamKey, SvcParamValue)>;

const BY: &str = "_mc13-box.page.example";

fn port(number: u16) -> (SvcParamKey, SvcParamValue) {
    (SvcParamKey::Port, SvcParamValue::Port(number))
}

fn kind(text: &[u8]) -> (SvcParamKey, SvcParamValue) {
    let value = SvcParamValue::Unknown(Unknown(text.to_vec()));
    (SvcParamKey::Key(KIND_KEY), value)
}

fn answer(records: &[(u16, &str, Params)]) -> Message {
    let mut message = Message::query();
    for (place, target, params) in records {
        let target = target
            .split_terminator('.')
            .filter(|label| !label.is_empty());
        let target = Name::from_labels(target.map(str::as_bytes)).expect("a name");
        let record = SVCB::new(*place, target, params.clone());
        let owner = Name::from_ascii(BY).expect("a name");
        message.add_answer(Record::from_rdata(owner, 60, RData::SVCB(record)));
    }
    message
}

fn one(place: u16, target: &str, params: Params) -> Result<Proposal, Wrong> {
    let mut all = proposals(&answer(&[(place, target, params)])).expect("a record");
    all.remove(0)
}

/// What becomes of these records, for somebody who accepts this.
fn taken(records: &[(u16, &str, Params)], accept: &[&str], path: &[&str]) -> Outcome {
    let accepted = accept.iter().map(|text| Accepted::parse(text));
    let accepted = accepted.collect::<Result<_, _>>().expect("good");
    let mut via: Vec<_> = path
        .iter()
        .map(|text| ViaArgument::parse(text).expect("good"))
        .collect();
    let mut discovery = Discovery {
        accepted,
        ..Discovery::default()
    };
    discovery.take(BY, proposals(&answer(records)), &mut via);
    Outcome { discovery, via }
}

struct Outcome {
    discovery: Discovery,
    via: Vec<ViaArgument>,
}

impl Outcome {
    fn fates(&self) -> Vec<Fate> {
        self.discovery
            .found
            .iter()
            .map(|found| found.fate)
            .collect()
    }

    fn names(&self) -> Vec<&str> {
        self.via.iter().map(|one| one.via.name.as_str()).collect()
    }
}

#[test]
fn a_record_says_where_a_middlebox_is_and_what_it_calls_itself() {
    let four = SvcParamValue::Ipv4Hint(IpHint(vec![A(Ipv4Addr::new(192, 0, 2, 7))]));
    let six = SvcParamValue::Ipv6Hint(IpHint(vec![AAAA(Ipv6Addr::LOCALHOST)]));
    let plain = one(1, "Filter.Example.", vec![port(4443), kind(b"filter")]).expect("good");
    assert_eq!(plain.name, "filter.example");
    assert_eq!(plain.address, "filter.example:4443");
    assert_eq!(plain.kind.as_deref(), Some("filter"));
    let hint = (SvcParamKey::Ipv4Hint, four);
    let hinted = one(1, "a.example.", vec![port(1), hint]).expect("good");
    assert_eq!(hinted.address, "192.0.2.7:1");
    let hint = (SvcParamKey::Ipv6Hint, six);
    let hinted = one(1, "a.example.", vec![port(1), hint]).expect("good");
    assert_eq!(hinted.address, "[::1]:1");
}

#[test]
fn what_cannot_be_taken_is_told_of_with_the_reason() {
    let name = || "a.example".to_owned();
    let mandatory = |key| {
        let keys = SvcParamValue::Mandatory(Mandatory(vec![key]));
        (SvcParamKey::Mandatory, keys)
    };
    let alpn = |text: &str| {
        let alpn = SvcParamValue::Alpn(Alpn(vec![text.to_owned()]));
        (SvcParamKey::Alpn, alpn)
    };
    for (place, target, params, expected) in [
        (0, "a.example.", vec![port(1)], Wrong::Alias),
        (1, ".", vec![port(1)], Wrong::Target),
        (1, "_x.example.", vec![port(1)], Wrong::Target),
        (1, "127.0.0.1.", vec![port(1)], Wrong::Target),
        (1, "a\x1bb.example.", vec![port(1)], Wrong::Target),
        (1, "a.example.", vec![], Wrong::Port(name())),
        (1, "a.example.", vec![port(0)], Wrong::Port(name())),
        (
            1,
            "a.example.",
            vec![alpn("mc14-leg"), port(1)],
            Wrong::Protocol(name()),
        ),
        (
            1,
            "a.example.",
            vec![mandatory(SvcParamKey::Key(65300)), port(1)],
            Wrong::Mandatory(name(), 65300),
        ),
        (
            1,
            "a.example.",
            vec![port(1), kind(b"filter --via")],
            Wrong::Kind(name()),
        ),
        (
            1,
            "a.example.",
            vec![port(1), kind(b"")],
            Wrong::Kind(name()),
        ),
    ] {
        assert_eq!(one(place, target, params), Err(expected), "{target}");
    }
    let known = vec![mandatory(SvcParamKey::Port), alpn("mc13-leg"), port(1)];
    assert!(one(1, "a.example.", known).is_ok());
}

#[test]
fn places_order_a_path_and_two_for_one_place_have_none() {
    let records = [
        (2, "b.example.", vec![port(1)]),
        (1, "a.example.", vec![port(1)]),
        (3, "c.example.", vec![port(1)]),
        (3, "d.example.", vec![port(1)]),
    ];
    let accept = ["a.example", "b.example", "c.example", "d.example"];
    let got = taken(&records, &accept, &["z.example:1"]);
    assert_eq!(got.names(), ["z.example", "a.example", "b.example"]);
    let ignored = got
        .fates()
        .iter()
        .filter(|fate| **fate == Fate::Ignored)
        .count();
    assert_eq!(ignored, 2);
}

#[test]
fn a_record_grants_nothing_that_the_user_has_not_written() {
    let records = [
        (1, "spy.example.", vec![port(1), kind(b"ids")]),
        (2, "filter.example.", vec![port(1), kind(b"ids")]),
        (3, "quiet.example.", vec![port(1), kind(b"ids")]),
    ];
    let got = taken(&records, &["filter.example=filter", "quiet.example"], &[]);
    assert_eq!(got.fates(), [Fate::Refused, Fate::Accepted, Fate::Accepted]);
    let why = got.discovery.found[0].why.as_deref();
    assert_eq!(why, Some("to accept it: --accept spy.example=ids"));
    let grants: Vec<_> = got.via.iter().map(|one| one.grants.clone()).collect();
    assert_eq!(
        grants,
        [Grants::Kind(Kind::Filter), Grants::Some(Vec::new())]
    );
    assert!(
        got.via
            .iter()
            .all(|one| one.found_by.as_deref() == Some(BY))
    );
}

#[test]
fn too_many_records_or_none_propose_nothing() {
    let names: Vec<String> = (1..=9)
        .map(|number| format!("b{number}.example."))
        .collect();
    let records: Vec<_> = (1..)
        .zip(&names)
        .map(|(place, name)| (place, name.as_str(), vec![port(1)]))
        .collect();
    assert_eq!(proposals(&answer(&records)), Err(Silence::Many(9)));
    assert_eq!(
        proposals(&answer(&records[..8])).map(|all| all.len()),
        Ok(8)
    );
    assert_eq!(proposals(&answer(&[])), Err(Silence::Nothing));
    let mut failed = answer(&[]);
    failed.metadata.response_code = ResponseCode::ServFail;
    assert!(matches!(proposals(&failed), Err(Silence::Refused(_))));
}

#[test]
fn a_session_has_no_more_middleboxes_than_it_can_and_none_twice() {
    let records = [(1, "a.example.", vec![port(1)])];
    let full: Vec<String> = (1..=16)
        .map(|number| format!("m{number}.example:1"))
        .collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    let got = taken(&records, &["a.example"], &full);
    assert_eq!((got.fates(), got.via.len()), (vec![Fate::Ignored], 16));
    let got = taken(&records, &["a.example"], &["a.example@192.0.2.1:9"]);
    assert_eq!((got.fates(), got.via.len()), (vec![Fate::Ignored], 1));
}

#[test]
fn the_one_that_is_to_blame_leaves_the_path_and_else_all_that_dns_proposed() {
    let records = [
        (1, "a.example.", vec![port(1)]),
        (2, "b.example.", vec![port(1)]),
    ];
    let path = ["own.example:1"];
    for (blamed, left) in [
        (Some(1), &["own.example", "b.example"][..]),
        (Some(2), &["own.example", "a.example"]),
        (Some(0), &["own.example"]),
        (None, &["own.example"]),
    ] {
        let mut got = taken(&records, &["a.example", "b.example"], &path);
        assert!(got.discovery.drop_from(&mut got.via, blamed, "why"));
        assert_eq!(got.names(), left, "{blamed:?}");
        let dropped = got
            .fates()
            .iter()
            .filter(|fate| **fate == Fate::Dropped)
            .count();
        assert_eq!(dropped, 3 - left.len());
    }
    let mut none = taken(&[], &[], &path);
    assert!(!none.discovery.drop_from(&mut none.via, None, "why"));
    assert_eq!(none.names(), ["own.example"]);
}

#[test]
fn a_policy_that_insists_fails_where_an_accepted_one_is_missing() {
    let check = |records: &[(u16, &str, Params)], missing| {
        let mut got = taken(records, &["a.example=filter"], &[]);
        got.discovery.missing = missing;
        got.discovery.check(&got.via)
    };
    let there = [(1, "a.example.", vec![port(1)])];
    assert!(check(&there, Missing::Fail).is_ok());
    assert!(check(&[], Missing::Continue).is_ok());
    let failed = check(&[], Missing::Fail).expect_err("it is missing");
    let words = failed.to_string();
    assert!(
        words.contains("a.example") && words.contains("nothing was sent"),
        "{words}"
    );
}

#[test]
fn domains_are_names_of_hosts() {
    for (text, expected) in [
        ("Page.Example.", Some("page.example")),
        ("localhost", Some("localhost")),
        ("", None),
        (".", None),
        ("a..b", None),
        ("192.0.2.1", None),
        ("a b", None),
        ("a_b.example", None),
        ("\u{e9}.example", None),
    ] {
        assert_eq!(domain(text).ok().as_deref(), expected, "{text:?}");
    }
    assert!(domain(&"a.".repeat(127)).is_ok());
    assert!(domain(&format!("{}.example", "a".repeat(64))).is_err());
    assert!(Accepted::parse("a.example=everything").is_err());
}
