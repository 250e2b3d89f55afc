//! DNS from a client's message to the reply, with the far side and the time made up here.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, NULL, SOA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use tandem_link::tunnel::{DnsAnswer, DnsQuery};
use tandem_wire::Instant;

use super::*;

const ID: u16 = 0xbeef;
/// What the server side asks under.
const OTHER_ID: u16 = 0x1234;

fn name(text: &str) -> Name {
    Name::from_str(text).expect("a name")
}

fn after(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// A client's message.
fn asks(text: &str, kind: RecordType, change: impl FnOnce(&mut Message)) -> Vec<u8> {
    asks_for(name(text), kind, change)
}

fn asks_for(name: Name, kind: RecordType, change: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message::new(ID, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, kind));
    change(&mut message);
    message.to_vec().expect("it is short")
}

fn request(bytes: &[u8], transport: Transport) -> Request {
    match read(bytes, transport) {
        Asked::Question(request) => request,
        other => panic!("{other:?}"),
    }
}

/// A question for an address.
fn wants(text: &str) -> Request {
    request(&asks(text, RecordType::A, |_| {}), Transport::Udp)
}

fn with_edns(message: &mut Message) {
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    edns.set_dnssec_ok(true);
    message.set_edns(edns);
}

fn a(text: &str, ttl: u32, last: u8) -> Record {
    Record::from_rdata(name(text), ttl, RData::A(A::new(192, 0, 2, last)))
}

fn soa(ttl: u32, minimum: u32) -> Record {
    let soa = SOA::new(name("ns.test."), name("root.test."), 1, 2, 3, 4, minimum);
    Record::from_rdata(name("test."), ttl, RData::SOA(soa))
}

/// What a resolver answers to the message that it was asked.
fn answers(question: &Question, change: impl FnOnce(&mut Message)) -> Vec<u8> {
    let asked = question.message(OTHER_ID).expect("it is short");
    let asked = Message::from_vec(&asked).expect("ours");
    let mut message = Message::response(OTHER_ID, OpCode::Query);
    message.metadata.recursion_available = true;
    message.add_queries(asked.queries);
    message.set_edns(Edns::new());
    change(&mut message);
    message.to_vec().expect("it is short")
}

/// The answer after it has crossed.
fn crossed(question: &Question, message: &[u8]) -> Arc<Answer> {
    let Heard::Answer(answer) = hear(question, OTHER_ID, message) else {
        panic!("no answer");
    };
    let mut bytes = Vec::new();
    answer.write(&mut bytes);
    let answer = DnsAnswer::parse(&bytes).expect("ours");
    Arc::new(Answer::of_link(question, answer).expect("ours"))
}

fn answered(request: &Request, change: impl FnOnce(&mut Message)) -> Arc<Answer> {
    crossed(request.question(), &answers(request.question(), change))
}

fn reply(request: &Request, answer: &Answer, age: Age) -> Message {
    let bytes = request.reply(answer, age).expect("it is short");
    Message::from_vec(&bytes).expect("whole")
}

fn ttls(message: &Message) -> Vec<u32> {
    message.all_sections().map(|record| record.ttl).collect()
}

#[test]
fn a_question_crosses_in_its_case_and_its_key_has_none() {
    let kind = RecordType::from(65_280);
    let bytes = Name::from_labels([&b"\0\xff\xc0"[..], b"x.Y"]).expect("two labels");
    for name in [
        Name::root(),
        name("a.test."),
        name("wWw.eXample.TEST."),
        bytes,
    ] {
        let asked = asks_for(name.clone(), kind, with_edns);
        let mut bytes = Vec::new();
        let asked = request(&asked, Transport::Udp);
        asked.question().to_link().write(&mut bytes);
        let link = DnsQuery::parse(&bytes).expect("ours");
        let question = Question::of_link(&link).expect("ours");
        let resolver = question.message(OTHER_ID).expect("it is short");
        let resolver = Message::from_vec(&resolver).expect("whole");
        let there = resolver.queries[0].clone();
        assert!(there.name().eq_case(&name), "{name}: {there}");
        assert_eq!(there.query_type(), kind);
        assert!(resolver.edns.is_some_and(|edns| edns.flags().dnssec_ok));
        let lower = asks_for(name.to_lowercase(), kind, with_edns);
        let lower = request(&lower, Transport::Tcp);
        assert_eq!(lower.question().key(), question.key());
    }
    let plain = wants("a.test.");
    let signed = request(&asks("a.test.", RecordType::A, with_edns), Transport::Udp);
    assert_ne!(plain.question().key(), signed.question().key());
}

#[test]
fn what_a_forwarder_does_not_pass_on_is_refused() {
    let class = |class| {
        move |message: &mut Message| {
            message.queries[0].set_query_class(class);
        }
    };
    let of = |bytes: &[u8]| match read(bytes, Transport::Udp) {
        Asked::Refused(reply) => {
            let reply = Message::from_vec(&reply).expect("whole");
            assert_eq!(reply.id, ID);
            reply.response_code
        }
        other => panic!("{other:?}"),
    };
    let none = |_: &mut Message| {};
    let refused = ResponseCode::Refused;
    assert_eq!(
        of(&asks("a.test.", RecordType::ANY, none)),
        ResponseCode::NotImp
    );
    assert_eq!(of(&asks("a.test.", RecordType::AXFR, none)), refused);
    assert_eq!(of(&asks("a.test.", RecordType::IXFR, none)), refused);
    assert_eq!(of(&asks("a.test.", RecordType::OPT, none)), refused);
    let chaos = asks("version.bind.", RecordType::TXT, class(DNSClass::CH));
    assert_eq!(of(&chaos), refused);
    let update = asks("a.test.", RecordType::SOA, |message| {
        message.metadata.op_code = OpCode::Update;
    });
    assert_eq!(of(&update), ResponseCode::NotImp);
    let two = asks("a.test.", RecordType::A, |message| {
        let query = message.queries[0].clone();
        message.add_query(query);
    });
    assert_eq!(of(&two), ResponseCode::FormErr);
    let later = asks("a.test.", RecordType::A, |message| {
        let mut edns = Edns::new();
        edns.set_version(1);
        message.set_edns(edns);
    });
    // BADVERS and BADSIG are one number.
    assert_eq!(u16::from(of(&later)), 16);
    let cut = asks("a.test.", RecordType::A, none);
    assert_eq!(of(&cut[..cut.len() - 1]), ResponseCode::FormErr);
}

#[test]
fn nothing_is_said_to_an_answer_or_to_less_than_a_header() {
    let answer = asks("a.test.", RecordType::A, |message| {
        message.metadata.message_type = MessageType::Response;
    });
    assert_eq!(read(&answer, Transport::Udp), Asked::Nothing);
    assert_eq!(read(&answer[..11], Transport::Tcp), Asked::Nothing);
}

#[test]
fn records_reach_the_client_as_the_resolver_wrote_them() {
    let asked = request(
        &asks("a.test.", RecordType::from(65_280), with_edns),
        Transport::Tcp,
    );
    let unknown = RData::Unknown {
        code: RecordType::from(65_280),
        rdata: NULL::with(vec![0xc0, 0x0c, 0xff, 0]),
    };
    let change = |message: &mut Message| {
        message.add_answer(Record::from_rdata(
            name("a.test."),
            60,
            RData::CNAME(CNAME(name("b.test."))),
        ));
        message.add_answer(Record::from_rdata(name("b.test."), 61, unknown));
        message.add_authority(soa(62, 63));
        message.add_additional(a("b.test.", 64, 1));
    };
    let there = answers(asked.question(), change);
    let answer = crossed(asked.question(), &there);
    let here = asked.reply(&answer, Age::New).expect("it is short");
    // The header's flags, and EDNS at the end, are of this hop.
    let records = 12 + 8 + 4..there.len() - 11;
    assert_eq!(here[records.clone()], there[records]);
    let here = Message::from_vec(&here).expect("whole");
    assert_eq!((here.id, here.response_code), (ID, ResponseCode::NoError));
    assert_eq!(ttls(&here), [60, 61, 62, 64]);
    assert!(here.edns.is_some_and(|edns| edns.flags().dnssec_ok));
}

#[test]
fn times_to_live_count_down_and_the_shortest_ends_the_answer() {
    let asked = wants("a.test.");
    let answer = answered(&asked, |message| {
        message.add_answer(a("a.test.", 300, 1));
        message.add_authority(a("ns.test.", 100, 2));
    });
    let key = asked.question().key();
    let mut cache = Cache::default();
    cache.keep(key.clone(), answer, after(1000));
    for since in [0, 1, 99] {
        let Found::Answer(answer, age) = cache.find(&key, after(1000 + since)) else {
            panic!("it is kept");
        };
        let since = u32::try_from(since).expect("small");
        assert_eq!(
            ttls(&reply(&asked, &answer, age)),
            [300 - since, 100 - since]
        );
    }
    let past = cache.find(&key, after(1100));
    assert!(matches!(past, Found::Stale(_)), "{past:?}");
}

#[test]
fn a_client_in_another_case_gets_its_own_question_back() {
    let answer = answered(&wants("a.test."), |message| {
        message.add_answer(a("a.test.", 300, 1));
    });
    let other = wants("A.tEst.");
    let message = reply(&other, &answer, Age::Kept(Duration::ZERO));
    assert!(message.queries[0].name().eq_case(&name("A.tEst.")));
    assert!(message.answers[0].name.eq_case(&name("A.tEst.")));
}

#[test]
fn an_answer_is_kept_for_as_long_as_its_kind_permits() {
    let day = 86_400_u32;
    let huge = |message: &mut Message| {
        message.add_answer(a("a.test.", 1 << 30, 1));
    };
    let no_time = |message: &mut Message| {
        message.add_answers([a("a.test.", 300, 1), a("a.test.", 0, 2)]);
    };
    let negative = |message: &mut Message| {
        message.add_answer(a("a.test.", 1 << 31, 1));
    };
    let nothing = |ttl, minimum| {
        move |message: &mut Message| {
            message.metadata.response_code = ResponseCode::NXDomain;
            message.add_authority(soa(ttl, minimum));
        }
    };
    let failed = |message: &mut Message| {
        message.metadata.response_code = ResponseCode::ServFail;
        message.add_answer(a("a.test.", 300, 1));
    };
    let asked = wants("a.test.");
    for (answer, expected) in [
        (answered(&asked, huge), day),
        // RFC 1035, section 3.2.1: it is for this transaction alone.
        (answered(&asked, no_time), 0),
        // RFC 2181, section 8.
        (answered(&asked, negative), 0),
        // RFC 2308, section 5: the less of both; not without SOA.
        (answered(&asked, nothing(900, 60)), 60),
        (answered(&asked, nothing(60, 900)), 60),
        (answered(&asked, nothing(day, day)), 3 * 3600),
        (answered(&asked, |_| {}), 0),
        (answered(&asked, failed), 5),
    ] {
        let (key, mut cache) = (asked.question().key(), Cache::default());
        cache.keep(key.clone(), Arc::clone(&answer), after(0));
        let is_fresh = |found| matches!(found, Found::Answer(_, Age::Kept(_)));
        if let Some(last) = expected.checked_sub(1) {
            let found = cache.find(&key, after(last.into()));
            assert!(is_fresh(found), "{answer:?}");
        }
        let found = cache.find(&key, after(expected.into()));
        assert!(!is_fresh(found), "{answer:?}");
    }
    let shown = reply(&asked, &answered(&asked, nothing(900, 60)), Age::New);
    assert_eq!(ttls(&shown), [60]);
}

#[test]
fn a_stale_answer_is_given_for_a_day_after_a_try_has_failed() {
    let asked = wants("a.test.");
    let key = asked.question().key();
    let mut cache = Cache::default();
    let answer = answered(&asked, |message| {
        message.metadata.authentic_data = true;
        message.add_answer(a("a.test.", 60, 1));
    });
    assert!(!cache.failed(&key, after(0)), "nothing is there");
    let failure = answered(&asked, |message| {
        message.metadata.response_code = ResponseCode::ServFail;
    });
    cache.keep(key.clone(), Arc::clone(&failure), after(0));
    assert!(!cache.failed(&key, after(0)), "nothing to fall back on");
    cache.keep(key.clone(), Arc::clone(&answer), after(0));
    let is_stale = |found| matches!(found, Found::Stale(_));
    assert!(is_stale(cache.find(&key, after(60))));
    assert!(cache.failed(&key, after(60)));
    let given = Found::Answer(Arc::clone(&answer), Age::Stale);
    assert_eq!(cache.find(&key, after(89)), given);
    assert!(is_stale(cache.find(&key, after(90))));
    // What says that nothing was found out does not take its place either.
    cache.keep(key.clone(), failure, after(90));
    assert_eq!(cache.find(&key, after(91)), given);
    assert_eq!(ttls(&reply(&asked, &answer, Age::Stale)), [30]);
    assert!(is_stale(cache.find(&key, after(60 + 86_399))));
    assert_eq!(cache.find(&key, after(60 + 86_400)), Found::Nothing);
    assert_eq!((cache.len(), cache.bytes()), (0, 0));
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let used = wants("used.test.").question().key();
    for (records, expected) in [(1, 8000..=8192), (100, 500..=1500)] {
        let answer = answered(&wants("used.test."), |message| {
            message.add_answers((0..records).map(|last| a("used.test.", 300, last)));
        });
        let mut cache = Cache::default();
        cache.keep(used.clone(), Arc::clone(&answer), after(0));
        let key = |number| wants(&format!("{number}.test.")).question().key();
        for number in 0..9_000 {
            cache.keep(key(number), Arc::clone(&answer), after(0));
            assert!(cache.len() <= 8192 && cache.bytes() <= 4 << 20);
            assert!(matches!(cache.find(&used, after(1)), Found::Answer(..)));
        }
        assert!(expected.contains(&cache.len()), "{}", cache.len());
        assert!(matches!(
            cache.find(&key(8_999), after(1)),
            Found::Answer(..)
        ));
        assert_eq!(cache.find(&key(0), after(1)), Found::Nothing);
    }
}

#[test]
fn the_answer_that_goes_is_the_one_used_least_recently_and_each_counts_once() {
    let answer = answered(&wants("a.test."), |message| {
        message.add_answer(a("a.test.", 300, 1));
    });
    let key = |name: &str| wants(&format!("{name}.test.")).question().key();
    let mut cache = Cache::default();
    let keep = |cache: &mut Cache, name: &str| {
        cache.keep(key(name), Arc::clone(&answer), after(0));
    };
    keep(&mut cache, "again");
    let one = cache.bytes();
    assert!(one > 0);
    keep(&mut cache, "once");
    keep(&mut cache, "found");
    let is_there = |cache: &mut Cache, name| cache.find(&key(name), after(1)) != Found::Nothing;
    assert!(is_there(&mut cache, "found"));
    // The answer that is kept in place of another takes its room, and is newer.
    keep(&mut cache, "again");
    assert_eq!(cache.len(), 3);
    assert!(cache.bytes() <= 3 * one, "{} for three", cache.bytes());
    for number in 0..8_190 {
        keep(&mut cache, &number.to_string());
    }
    assert_eq!(cache.len(), 8_192);
    assert!(!is_there(&mut cache, "once"), "it is the oldest");
    keep(&mut cache, "next");
    assert!(!is_there(&mut cache, "found"), "nobody has asked again");
    assert!(is_there(&mut cache, "again"));
}

#[test]
fn what_is_too_long_for_udp_sends_the_client_to_tcp() {
    for (edns, records, is_cut) in [
        (None, 20, false),
        (None, 40, true),
        (Some(()), 40, false),
        (Some(()), 90, true),
    ] {
        let bytes = asks("a.test.", RecordType::A, |message| {
            if edns.is_some() {
                with_edns(message);
            }
        });
        let asked = request(&bytes, Transport::Udp);
        let answer = answered(&asked, |message| {
            message.add_answers((0..records).map(|last| a("a.test.", 300, last)));
        });
        let bytes = asked.reply(&answer, Age::New).expect("it is short");
        let message = Message::from_vec(&bytes).expect("whole");
        assert_eq!(message.truncation, is_cut, "{records}");
        assert_eq!(message.answers.is_empty(), is_cut);
        assert_eq!(message.edns.is_some(), edns.is_some());
        assert!(bytes.len() <= if edns.is_some() { 1232 } else { 512 });
        let asked = request(&asks("a.test.", RecordType::A, |_| {}), Transport::Tcp);
        let message = reply(&asked, &answer, Age::New);
        assert_eq!(message.answers.len(), usize::from(records));
    }
}

#[test]
fn only_the_resolvers_answer_to_this_question_is_heard() {
    let asked = wants("a.test.");
    let good = answers(asked.question(), |message| {
        message.add_answer(a("a.test.", 300, 1));
    });
    let heard = |message: &[u8]| hear(asked.question(), OTHER_ID, message);
    assert!(matches!(heard(&good), Heard::Answer(_)));
    // A resolver that does not keep the case.
    let other_case = hear(wants("A.test.").question(), OTHER_ID, &good);
    assert!(matches!(other_case, Heard::Answer(_)));
    assert_eq!(hear(asked.question(), ID, &good), Heard::Other);
    assert_eq!(
        hear(wants("b.test.").question(), OTHER_ID, &good),
        Heard::Other
    );
    assert_eq!(
        heard(&asked.question().message(OTHER_ID).expect("short")),
        Heard::Other
    );
    for length in 0..good.len() {
        assert_eq!(heard(&good[..length]), Heard::Other, "{length}");
    }
    let cut = answers(asked.question(), |message| {
        message.metadata.truncation = true
    });
    assert_eq!(heard(&cut), Heard::Cut);
    // An error that only EDNS can say, and one of a server that says nothing else.
    let extended = answers(asked.question(), |message| {
        message.metadata.response_code = ResponseCode::BADCOOKIE;
    });
    let bare = answers(asked.question(), |message| {
        message.metadata.response_code = ResponseCode::Refused;
        message.queries.clear();
        message.edns = None;
    });
    for (message, code) in [(extended, 2), (bare, 5)] {
        let Heard::Answer(answer) = heard(&message) else {
            panic!("it is one");
        };
        assert_eq!((answer.state.code, answer.records.len()), (code, 0));
    }
}

#[test]
fn an_answer_of_the_far_side_that_is_none_is_refused() {
    let asked = wants("a.test.");
    let message = answers(asked.question(), |message| {
        message.add_answer(a("a.test.", 300, 1));
    });
    let Heard::Answer(good) = hear(asked.question(), OTHER_ID, &message) else {
        panic!("it is one");
    };
    let refused = |change: &dyn Fn(&mut DnsAnswer)| {
        let mut answer = good.clone();
        change(&mut answer);
        assert!(Answer::of_link(asked.question(), answer).is_err());
    };
    refused(&|answer| answer.counts.answers += 1);
    refused(&|answer| answer.counts.answers = 0);
    refused(&|answer| answer.records.push(0));
    refused(&|answer| answer.records[3] = 41);
    refused(&|answer| answer.records = vec![0; 65_536]);
    for (answer, code) in [
        (failure(), ResponseCode::ServFail),
        (refusal(), ResponseCode::Refused),
    ] {
        let answer = Answer::of_link(asked.question(), answer).expect("no records");
        assert!(answer.is_failure());
        assert_eq!(reply(&asked, &answer, Age::New).response_code, code);
    }
}
