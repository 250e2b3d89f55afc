//! Middleboxes that DNS proposes: dnsmasq gives the records, and the sessions are real. What is
//! hostile or silent in place of a DNS server is a fake, and says so.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::rdata::svcb::{IpHint, SVCB, SvcParamKey, SvcParamValue, Unknown};
use hickory_proto::rr::{Name, RData, Record};
use hickory_proto::serialize::binary::BinEncodable as _;
use tandem_mc::certificates::For;
use tandem_mc::discover::{Fate, KIND_KEY};
use tandem_mc::report::{Outcome, Report, Word};
use tandem_testkit::{free_port, has, is_root};

use super::BLOCKS;
use super::common::{Daemon, Place, Ran, page, program};

const SITE: &str = "_mc13-box.page.example";

/// A record that proposes a middlebox at this address.
fn record(place: u16, name: &str, address: &str, kind: &str) -> SVCB {
    let address: SocketAddr = address.parse().expect("an address");
    let IpAddr::V4(ip) = address.ip() else {
        panic!("the tests use IPv4");
    };
    let kind = SvcParamValue::Unknown(Unknown(kind.as_bytes().to_vec()));
    let params = vec![
        (SvcParamKey::Port, SvcParamValue::Port(address.port())),
        (
            SvcParamKey::Ipv4Hint,
            SvcParamValue::Ipv4Hint(IpHint(vec![A(ip)])),
        ),
        (SvcParamKey::Key(KIND_KEY), kind),
    ];
    let labels = name.split('.').map(str::as_bytes);
    let target = Name::from_labels(labels).expect("a name");
    SVCB::new(place, target, params)
}

/// dnsmasq with these records, until it is dropped.
struct Dnsmasq {
    child: Child,
    address: String,
}

impl Dnsmasq {
    fn start(records: &[SVCB]) -> Self {
        let port = free_port();
        let mut command = Command::new("dnsmasq");
        command.args([
            "--no-daemon",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
        ]);
        command.args([
            "--pid-file=",
            "--listen-address=127.0.0.1",
            "--bind-interfaces",
        ]);
        command.args(["--local=/example/", "--edns-packet-max=512"]);
        command.arg(format!("--port={port}"));
        if is_root() {
            command.arg("--user=root");
        }
        for record in records {
            let bytes = record.to_bytes().expect("a record");
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            command.arg(format!("--dns-rr={SITE},64,{hex}"));
        }
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it is installed");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let started = said.find(|line| line.as_ref().is_ok_and(|line| line.contains("started")));
        assert!(started.is_some(), "dnsmasq starts");
        // What it still says has a reader.
        std::thread::spawn(move || said.for_each(drop));
        Self {
            child,
            address: format!("127.0.0.1:{port}"),
        }
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fake: a DNS server that says to each question what `says` makes of it.
fn fake(says: impl Fn(&Message) -> Vec<u8> + Send + 'static) -> String {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = socket.local_addr().expect("bound").to_string();
    // It ends with the process of the test.
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let question = Message::from_vec(&buffer[..length]).expect("a question");
            let answer = says(&question);
            if !answer.is_empty() {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    address
}

/// An answer to a question, with these records.
fn answer(question: &Message, code: ResponseCode, records: &[SVCB]) -> Vec<u8> {
    let mut answer = question.clone();
    answer.metadata.message_type = MessageType::Response;
    answer.metadata.response_code = code;
    let owner = Name::from_ascii(format!("{SITE}.")).expect("a name");
    for record in records {
        let data = RData::SVCB(record.clone());
        answer.add_answer(Record::from_rdata(owner.clone(), 60, data));
    }
    answer.to_vec().expect("a message")
}

/// A fetch of this page that asks this resolver about the site.
fn get(place: &Place, path: &str, server: &str, resolver: &str, more: &[&str]) -> Ran {
    let out = place.text("out");
    let asked = ["--discover", "--resolver", resolver, "--json", "-o", &out];
    Ran::of(&mut place.get(path, server, &[], &[&asked, more].concat()))
}

/// A session without any middlebox that came to its end all the same.
#[track_caller]
fn went_on_without(place: &Place, ran: &Ran) -> Report {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = std::fs::read_to_string(place.path("out")).expect("a page");
    assert_eq!(text, page());
    let report = ran.report();
    assert!(report.middleboxes.is_empty(), "{report:?}");
    report
}

fn fates(report: &Report) -> Vec<Fate> {
    report.found.iter().map(|found| found.fate).collect()
}

#[test]
fn a_middlebox_that_dns_proposes_gets_nothing_but_what_the_user_writes() {
    if !has(&["dnsmasq"]) {
        return;
    }
    let place = Place::new();
    let server = place.server(&[]);
    let filter = place.middlebox("filter.example", "filter", BLOCKS);
    // It would like to read everything.
    let dns = Dnsmasq::start(&[record(1, "filter.example", &filter.address, "ids")]);
    let page = |path: &str, more: &[&str]| get(&place, path, &server.address, &dns.address, more);

    let shown = went_on_without(&place, &page("/", &[]));
    assert_eq!(fates(&shown), [Fate::Refused]);
    let why = shown.found[0].why.as_deref();
    assert_eq!(why, Some("to accept it: --accept filter.example=ids"));

    let accept = ["--accept", "filter.example=filter"];
    let ran = page("/", &accept);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = ran.report();
    assert_eq!(fates(&report), [Fate::Accepted]);
    assert_eq!(report.middleboxes[0].found_by.as_deref(), Some(SITE));
    let rights: Vec<Word> = report.contexts.iter().map(|row| row.rights[0]).collect();
    assert_eq!(rights, [Word::Read, Word::None, Word::None, Word::None]);
    assert!(report.contexts[0].saw.contains(&1), "{report:?}");

    let blocked = page("/games.html", &accept);
    let words = "filter.example (middlebox 1) blocked the exchange";
    assert_eq!(
        blocked.failed_with(1),
        words,
        "there is no second try without it"
    );

    let explained = |more: &[&str]| {
        let arguments = [
            "explain",
            "--discover=page.example",
            "--resolver",
            &dns.address,
        ];
        let ran = Ran::of(program().args(arguments).args(more));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        String::from_utf8(ran.stdout).expect("UTF-8")
    };
    let line = format!(
        "    filter.example at {}, which calls itself ids: accepted\n",
        filter.address
    );
    let told = explained(&accept);
    assert!(
        told.contains("proposed by DNS, _mc13-box.page.example\n"),
        "{told}"
    );
    assert!(
        told.contains(&line) && told.contains("you ── filter ── server"),
        "{told}"
    );
    assert!(explained(&[]).contains("not accepted; to accept it: --accept"));
}

#[test]
fn a_middlebox_of_another_name_or_none_at_all_is_left_out_before_anything_is_sent() {
    if !has(&["dnsmasq"]) {
        return;
    }
    let place = Place::new();
    let server = place.server(&[]);
    let spy = place.middlebox("spy.example", "null", "");
    // Who answers there is a middlebox of another name, no middlebox, and nobody.
    let nobody = format!("127.0.0.1:{}", free_port());
    for (there, word) in [
        (&spy.address, "certificate"),
        (&server.address, "cut before its end"),
        (&nobody, "refused"),
    ] {
        let dns = Dnsmasq::start(&[record(1, "filter.example", there, "filter")]);
        let accept = ["--accept", "filter.example=filter"];
        let ran = get(&place, "/", &server.address, &dns.address, &accept);
        let report = went_on_without(&place, &ran);
        assert_eq!(fates(&report), [Fate::Dropped], "{report:?}");
        let why = report.found[0].why.clone().expect("it says why");
        assert!(why.contains(word), "{why}");
        std::fs::remove_file(place.path("out")).expect("a page");
        let strict = [&accept[..], &["--when-missing", "fail"]].concat();
        let ran = get(&place, "/", &server.address, &dns.address, &strict);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.report().outcome, Outcome::Failed);
        assert!(!place.path("out").exists());
    }
}

#[test]
fn one_that_does_not_answer_costs_a_bounded_time_and_the_others_stay() {
    if !has(&["dnsmasq"]) {
        return;
    }
    let place = Place::new();
    let server = place.server(&[]);
    let filter = place.middlebox("filter.example", "filter", BLOCKS);
    // It takes connections, and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let there = silent.local_addr().expect("bound").to_string();
    let dns = Dnsmasq::start(&[
        record(7, "filter.example", &filter.address, "filter"),
        record(3, "silent.example", &there, "null"),
    ]);
    let more = [
        "--accept",
        "filter.example=filter",
        "--accept",
        "silent.example",
        "--timeout",
        "10",
    ];
    let ran = get(&place, "/", &server.address, &dns.address, &more);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = ran.report();
    assert_eq!(
        fates(&report),
        [Fate::Dropped, Fate::Accepted],
        "in order of places"
    );
    let why = report.found[0].why.clone().expect("it says why");
    assert!(why.contains("did not answer within 10s"), "{why}");
    assert_eq!(report.middleboxes[0].name, "filter.example");
    assert!(report.contexts[0].saw.contains(&1), "{report:?}");
}

#[test]
fn an_answer_that_is_too_long_for_udp_is_asked_for_over_tcp() {
    if !has(&["dnsmasq"]) {
        return;
    }
    let place = Place::new();
    let server = place.server(&[]);
    let records: Vec<SVCB> = (1..=8)
        .map(|number| {
            let name = format!("m{number}.{}.example", "long".repeat(15));
            record(number, &name, "127.0.0.1:9", "null")
        })
        .collect();
    let dns = Dnsmasq::start(&records);
    let report = went_on_without(
        &place,
        &get(&place, "/", &server.address, &dns.address, &[]),
    );
    assert_eq!(fates(&report), [Fate::Refused; 8], "{report:?}");
}

/// What a fake server says.
type Says = Box<dyn Fn(&Message) -> Vec<u8> + Send>;

/// A name for what a fake server says, what it says, and a part of the line about it.
type Case = (&'static str, Says, &'static str);

#[test]
fn dns_that_fails_or_lies_is_a_line_and_by_policy_an_end() {
    let place = Place::new();
    let server = place.server(&[]);
    let nine: Vec<SVCB> = (1..=9)
        .map(|number| record(number, &format!("m{number}.example"), "127.0.0.1:9", "null"))
        .collect();
    let nonsense = [
        record(0, "a.example", "127.0.0.1:9", "null"),
        record(1, "a\x1b[2j.example", "127.0.0.1:9", "null"),
        record(2, "b.example", "127.0.0.1:9", "x --accept y"),
        record(3, "c.example", "127.0.0.1:0", "null"),
    ];
    let says = |code, records: Vec<SVCB>| -> Says {
        Box::new(move |question| answer(question, code, &records))
    };
    let cases: [Case; 6] = [
        (
            "no name",
            says(ResponseCode::NXDomain, Vec::new()),
            "it proposes no middlebox",
        ),
        (
            "a failure",
            says(ResponseCode::ServFail, Vec::new()),
            "the resolver says",
        ),
        ("nine", says(ResponseCode::NoError, nine), "9 records"),
        (
            "nonsense",
            says(ResponseCode::NoError, nonsense.to_vec()),
            "a record with priority 0",
        ),
        ("silence", Box::new(|_| Vec::new()), "no answer within 5 s"),
        (
            "no message",
            Box::new(|question| [&question.metadata.id.to_be_bytes()[..], &[0x81; 9]].concat()),
            "it could not be asked",
        ),
    ];
    for (what, says, words) in cases {
        let resolver = fake(says);
        let accept = ["--accept", "filter.example=filter"];
        let ran = get(&place, "/", &server.address, &resolver, &accept);
        let report = went_on_without(&place, &ran);
        let why = report.found[0].why.clone().expect("it says why");
        assert!(why.contains(words), "{what}: {why}");
        let told = Ran::of(program().args([
            "explain",
            "--discover=page.example",
            "--resolver",
            &resolver,
        ]));
        let table = String::from_utf8(told.stdout).expect("UTF-8");
        assert!(table.contains(words), "{what}: {table}");
        assert!(!table.contains('\x1b'), "{what}: {table:?}");
        std::fs::remove_file(place.path("out")).expect("a page");
        let strict = [&accept[..], &["--when-missing", "fail"]].concat();
        let ran = get(&place, "/", &server.address, &resolver, &strict);
        let line = ran.failed_with(1);
        assert!(
            line.contains("filter.example") && line.contains(words),
            "{what}: {line}"
        );
        assert!(!place.path("out").exists());
    }
}

#[test]
fn a_server_that_does_not_admit_a_discovered_middlebox_is_asked_without_it() {
    let place = Place::new();
    place.write("serve.toml", "[[middlebox]]\nname = \"other.example\"\n");
    let config = place.text("serve.toml");
    let server = place.server(&["--config", &config]);
    let files = place.issue("filter.example", For::Middlebox);
    place.write("box.toml", BLOCKS);
    let settings = place.text("box.toml");
    let filter = Daemon::start(&files, &["box", "--kind", "filter", "--config", &settings]);
    let there = record(1, "filter.example", &filter.address, "filter");
    let resolver = fake(move |question| {
        answer(
            question,
            ResponseCode::NoError,
            std::slice::from_ref(&there),
        )
    });
    let accept = ["--accept", "filter.example=filter"];
    let ran = get(&place, "/", &server.address, &resolver, &accept);
    let report = went_on_without(&place, &ran);
    assert_eq!(fates(&report), [Fate::Dropped]);
}
