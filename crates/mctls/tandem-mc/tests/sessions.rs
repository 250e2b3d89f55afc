//! Server, middleboxes and client as real processes: what passes, what is blocked, what is changed,
//! and who is named.

mod common;
#[path = "sessions/discovery.rs"]
mod discovery;
#[path = "sessions/dissector.rs"]
mod dissector;
#[path = "sessions/gateways.rs"]
mod gateways;
#[path = "sessions/icap.rs"]
mod icap;
#[path = "sessions/kinds.rs"]
mod kinds;
#[path = "sessions/paper.rs"]
mod paper;
#[path = "sessions/prototype.rs"]
mod prototype;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::{Place, Ran, page, program};
use mctls_io::{Service, Timeouts};
use tandem_mc::certificates::For;
use tandem_mc::cheat::Cheat;
use tandem_mc::layout::Kind;
use tandem_mc::middlebox::Standing;
use tandem_mc::report::{Outcome, Word};
use tandem_mc::settings::{BoxSettings, identity};

const BLOCKS: &str = "block = [\"/games\"]";

#[test]
fn a_page_comes_through_two_middleboxes_and_each_saw_what_it_may() {
    let place = Place::new();
    let server = place.server(&[]);
    let filter = place.middlebox("filter.example", "filter", BLOCKS);
    let null = place.middlebox("null.example", "null", "");
    let via = [
        format!("filter.example@{}=filter", filter.address),
        format!("null.example@{}=response-body:read", null.address),
    ];
    let via: Vec<&str> = via.iter().map(String::as_str).collect();
    let (out, report) = (place.text("out"), place.text("report.json"));
    let more = ["-o", &out, "--json", "--report", &report];
    let ran = Ran::of(&mut place.get("/", &server.address, &via, &more));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&out).expect("a page"), page());
    let got = ran.report();
    assert_eq!((got.outcome, got.status), (Outcome::Complete, Some(200)));
    assert_eq!(got.body_bytes, u64::try_from(page().len()).expect("short"));
    let saw: Vec<Vec<u8>> = got
        .contexts
        .iter()
        .map(|row| row.saw.iter().copied().collect())
        .collect();
    assert_eq!(saw, [vec![1], vec![], vec![], vec![2]]);
    assert!(got.contexts.iter().all(|row| row.changed.is_empty()));
    let told = Ran::of(program().args(["explain", &report]));
    let table = String::from_utf8(told.stdout).expect("UTF-8");
    assert!(
        table.contains("you ── filter ── null ── page.example"),
        "{table}"
    );
    assert!(table.contains("read saw"), "{table}");
    let json = Ran::of(program().args(["explain", "--json", &report]));
    assert_eq!(json.report(), got);
}

#[test]
fn without_an_option_the_page_goes_to_standard_output_and_the_table_beside_it() {
    let place = Place::new();
    let server = place.server(&[]);
    let ran = Ran::of(&mut place.get("/", &server.address, &[], &[]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(String::from_utf8(ran.stdout).expect("text"), page());
    assert!(ran.stderr.contains("you ── page.example"), "{}", ran.stderr);
    assert!(ran.stderr.contains("all vouched for"), "{}", ran.stderr);
    let ran = Ran::of(&mut place.get("/none", &server.address, &[], &["--json"]));
    assert_eq!((ran.code, ran.report().status), (Some(0), Some(404)));
}

#[test]
fn a_page_on_the_list_is_blocked_by_name_and_nothing_is_written() {
    let place = Place::new();
    let server = place.server(&[]);
    let filter = place.middlebox("filter.example", "filter", BLOCKS);
    let via = format!("filter.example@{}=filter", filter.address);
    let out = place.text("out");
    for contexts in ["4", "1"] {
        let more = ["-o", &out, "--json", "--contexts", contexts];
        let ran = Ran::of(&mut place.get("/%67ames.html", &server.address, &[&via], &more));
        let words = "filter.example (middlebox 1) blocked the exchange";
        assert_eq!(ran.failed_with(1), words);
        let report = ran.report();
        assert_eq!(
            (report.outcome, report.ended_by),
            (Outcome::Blocked, Some(1))
        );
        assert!(!place.path("out").exists());
        let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &more));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        std::fs::remove_file(place.path("out")).expect("a page");
    }
}

#[test]
fn an_attack_is_found_in_a_head_and_in_a_page_across_records() {
    let place = Place::new();
    // The pattern begins at the end of one record's 16,384 bytes.
    let body = [&"x".repeat(16_380), "ATTACK AT DAWN", &"y".repeat(9_000)].concat();
    place.write("site/bad.txt", &body);
    let server = place.server(&[]);
    let patterns = "patterns = [\"attack at dawn\", \"etc/passwd\"]";
    let ids = place.middlebox("ids.example", "ids", patterns);
    let via = format!("ids.example@{}=ids", ids.address);
    let words = "ids.example (middlebox 1) blocked the exchange";
    for contexts in ["4", "1"] {
        let more = ["--contexts", contexts];
        let bad = Ran::of(&mut place.get("/bad.txt", &server.address, &[&via], &more));
        assert_eq!(bad.failed_with(1), words);
        let head = Ran::of(&mut place.get("/?../../etc/passwd", &server.address, &[&via], &more));
        assert_eq!(head.failed_with(1), words);
        let good = Ran::of(&mut place.get("/", &server.address, &[&via], &more));
        assert_eq!(good.code, Some(0), "{good:?}");
    }
}

#[test]
fn a_tracker_blocker_changes_heads_and_sees_no_page() {
    let place = Place::new();
    let server = place.server(&[]);
    let tracker = place.middlebox("tracker.example", "tracker", "hosts = [\"page.example\"]");
    let via = format!("tracker.example@{}=tracker", tracker.address);
    let cookie = ["-H", "Cookie: id=1", "--json"];
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &cookie));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = ran.report();
    assert!(report.contexts[0].changed.contains(&1), "{report:?}");
    assert!(report.contexts[3].saw.is_empty(), "{report:?}");
    let plain = Ran::of(&mut place.get("/", &server.address, &[&via], &["--json"]));
    assert!(plain.report().contexts[0].changed.is_empty());
}

#[test]
fn a_page_is_compressed_on_the_way_and_comes_out_the_same() {
    let place = Place::new();
    let server = place.server(&[]);
    let zip = place.middlebox("zip.example", "compress", "");
    let via = format!("zip.example@{}=compress", zip.address);
    for contexts in ["4", "1"] {
        let out = place.text("out");
        let more = ["-o", &out, "--json", "--contexts", contexts];
        let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &more));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(std::fs::read_to_string(&out).expect("a page"), page());
        let report = ran.report();
        let last = report.contexts.last().expect("contexts");
        assert!(last.bytes < report.body_bytes / 5, "{report:?}");
        assert!(last.changed.contains(&1), "{report:?}");
    }
}

#[test]
fn a_server_that_grants_less_is_told_of_and_sent_nothing() {
    let place = Place::new();
    let settings = "[[middlebox]]\nname = \"zip.example\"\nresponse-headers = \"read\"\n\
        response-body = \"read\"\n";
    place.write("serve.toml", settings);
    let config = place.text("serve.toml");
    let server = place.server(&["--config", &config]);
    let null = place.middlebox("zip.example", "null", "");
    let via = format!("zip.example@{}=compress", null.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &[]));
    ran.failed_with(1);
    assert!(ran.stdout.is_empty());
    let more = ["--accept-less", "--json"];
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &more));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rights: Vec<Word> = ran
        .report()
        .contexts
        .iter()
        .map(|row| row.rights[0])
        .collect();
    assert_eq!(rights, [Word::None, Word::None, Word::Read, Word::Read]);
    let other = place.middlebox("other.example", "null", "");
    let via = format!("other.example@{}", other.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &[]));
    assert!(ran.failed_with(1).contains("refuses"), "{ran:?}");
}

/// Middleboxes in this process, until it is dropped.
struct Inside {
    runtime: tokio::runtime::Runtime,
    addresses: Vec<SocketAddr>,
}

impl Inside {
    fn new() -> Self {
        Self {
            runtime: tokio::runtime::Runtime::new().expect("threads"),
            addresses: Vec::new(),
        }
    }

    fn add(&mut self, standing: impl Future<Output = Result<Standing, tandem_mc::McError>>) {
        let standing = self.runtime.block_on(standing).expect("a middlebox");
        self.addresses.push(standing.address().expect("it listens"));
        self.runtime.spawn(standing.serve());
    }
}

fn patient() -> Timeouts {
    Timeouts {
        handshake: Duration::from_secs(60),
        idle: Duration::from_secs(60),
    }
}

fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

#[test]
fn a_middlebox_that_oversteps_is_caught_and_named() {
    let place = Place::new();
    let server = place.server(&[]);
    let files = place.issue("spy.example", For::Middlebox);
    let own = identity(&files.cert, &files.key).expect("a certificate");
    let mut inside = Inside::new();
    let cheat = Arc::new(|| -> Box<dyn Service> { Box::new(Cheat::default()) });
    inside.add(Standing::with(
        any(),
        own,
        BoxSettings::default(),
        cheat,
        patient(),
    ));
    let null = place.middlebox("null.example", "null", "");
    let via = [
        format!("null.example@{}", null.address),
        format!("spy.example@{}=ids", inside.addresses[0]),
    ];
    let via: Vec<&str> = via.iter().map(String::as_str).collect();
    let out = place.text("out");
    let more = ["--json", "-o", &out];
    let ran = Ran::of(&mut place.get("/", &server.address, &via, &more));
    let words = "response-body was changed, and spy.example (middlebox 2), which may only read \
        it, is suspected";
    assert_eq!(ran.failed_with(1), words);
    let report = ran.report();
    assert_eq!(report.outcome, Outcome::Overstepped);
    assert_eq!((report.suspects, report.overstepped_in), (vec![2], Some(4)));
    assert!(!place.path("out").exists());
}

#[test]
fn sixteen_middleboxes_and_255_contexts_are_a_session() {
    let place = Place::new();
    let server = place.server(&[]);
    let mut inside = Inside::new();
    let mut via = Vec::new();
    for number in 1..=16 {
        let name = format!("box-{number}.example");
        let files = place.issue(&name, For::Middlebox);
        let own = identity(&files.cert, &files.key).expect("a certificate");
        inside.add(Standing::bind(
            any(),
            own,
            Kind::Null,
            BoxSettings::default(),
            patient(),
        ));
        let address = inside.addresses.last().expect("just added");
        via.push(format!("{name}@{address}=response-body:read,255:write"));
    }
    let via: Vec<&str> = via.iter().map(String::as_str).collect();
    let more = ["--contexts", "255", "--json"];
    let ran = Ran::of(&mut place.get("/", &server.address, &via, &more));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = ran.report();
    assert_eq!((report.contexts.len(), report.middleboxes.len()), (255, 16));
    assert_eq!(report.contexts[3].saw.len(), 16);
}
