//! Middleboxes that hold, slow down and spread: each at work over real sockets, and what it must
//! not be able to do.

use std::sync::Arc;

use mctls::config::Context;
use mctls::party::Direction;
use mctls_io::{Service, Verdict};
use tandem_mc::certificates::For;
use tandem_mc::layout::{FOUR, OFFERS};
use tandem_mc::middlebox::Standing;
use tandem_mc::offers::Digest;
use tandem_mc::report::{Content, Outcome, Report, Word};
use tandem_mc::settings::{BoxSettings, identity};

use super::common::{Counting, Daemon, Place, Ran, page};
use super::{Inside, any, patient};

/// A body that no compression makes shorter, of so many bytes.
fn noise(length: usize) -> String {
    let mut state = 1_u32;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + u8::try_from(state >> 24).expect("a byte") % 26)
    });
    letters.take(length).collect()
}

/// A fetch through one middlebox with these grants, and what came out.
fn fetch(place: &Place, path: &str, server: &str, via: &str, more: &[&str]) -> (Report, String) {
    let out = place.text("out");
    let more = [more, &["--json", "-o", &out]].concat();
    let ran = Ran::of(&mut place.get(path, server, &[via], &more));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = std::fs::read_to_string(&out).expect("a page");
    (ran.report(), text)
}

fn cache(place: &Place, settings: &str) -> (Daemon, String) {
    let cache = place.middlebox("cache.example", "cache", settings);
    let via = format!("cache.example@{}=cache", cache.address);
    (cache, via)
}

#[test]
fn a_body_that_a_cache_holds_does_not_leave_the_server_again() {
    let place = Place::new();
    let text = noise(1_000_000);
    place.write("site/long.txt", &text);
    let server = place.server(&[]);
    let counting = Counting::before(&server.address);
    let (_cache, via) = cache(&place, "");
    for contexts in ["4", "1"] {
        let more = ["--contexts", contexts];
        let path = format!("/long.txt?{contexts}");
        let (first, came) = fetch(&place, &path, &counting.address, &via, &more);
        assert_eq!(came, text);
        assert!(first.filled_by.is_empty(), "{first:?}");
        assert_eq!(first.content, Some(Content::Same));
        assert_eq!(first.sent_bytes, Some(1_000_000));
        let cold = counting.taken();
        let (second, came) = fetch(&place, &path, &counting.address, &via, &more);
        assert_eq!(came, text);
        assert_eq!(second.filled_by.iter().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(second.content, Some(Content::Same));
        assert_eq!(second.sent_bytes, Some(9));
        let warm = counting.taken();
        println!("{contexts} contexts: {cold} bytes from the server, then {warm}");
        assert!(cold > 1_000_000, "{cold}");
        assert!(warm < 20_000, "{warm} of {cold}");
        let offers = second.contexts.iter().find(|row| row.name == OFFERS);
        assert!(
            offers.expect("a context").changed.contains(&1),
            "{second:?}"
        );
        // What it may, it has shown; of requests' bodies and of the digest it has no key.
        let none = |name: &str| {
            let row = second.contexts.iter().find(|row| row.name == name);
            row.is_none_or(|row| row.rights == [Word::None] && row.saw.is_empty())
        };
        assert!(none(FOUR[1]) && none("response-digest"), "{second:?}");
    }
}

#[test]
fn a_page_that_has_changed_or_is_private_comes_from_the_server() {
    let place = Place::new();
    place.write("site/private.txt", "for one alone");
    place.write(
        "serve.toml",
        "[[header]]\npath = \"/private\"\nname = \"Cache-Control\"\nvalue = \"private\"\n\
         [[header]]\npath = \"/index\"\nname = \"Vary\"\nvalue = \"Accept-Language\"\n",
    );
    let config = place.text("serve.toml");
    let server = place.server(&["--config", &config]);
    let (_cache, via) = cache(&place, "");
    let filled = |path: &str, more: &[&str]| {
        let (report, text) = fetch(&place, path, &server.address, &via, more);
        (report.filled_by.len(), text)
    };
    assert_eq!(filled("/index.html", &[]), (0, page()));
    assert_eq!(filled("/index.html", &[]), (1, page()));
    let german = ["-H", "Accept-Language: de"];
    assert_eq!(
        filled("/index.html", &german),
        (0, page()),
        "another variant"
    );
    place.write("site/index.html", "a new page");
    assert_eq!(filled("/index.html", &[]), (0, "a new page".into()));
    assert_eq!(filled("/index.html", &[]), (1, "a new page".into()));
    for _ in 0..2 {
        let private = "for one alone".to_owned();
        assert_eq!(filled("/private.txt", &[]), (0, private));
    }
}

/// Does something to what it is shown in one context.
struct Puts {
    context: &'static str,
    direction: Direction,
    data: fn(&[u8]) -> Vec<u8>,
}

impl Service for Puts {
    fn inspect(&mut self, direction: Direction, context: &Context, data: &[u8]) -> Verdict {
        // Where it has no right it is shown nothing.
        assert!(context.purpose != FOUR[1] && context.purpose != "response-digest");
        match direction == self.direction && context.purpose == self.context {
            true => Verdict::Replace(vec![(self.data)(data)]),
            false => Verdict::Forward,
        }
    }
}

fn putting(place: &Place, inside: &mut Inside, puts: fn() -> Puts) -> String {
    let files = place.issue("liar.example", For::Middlebox);
    let own = identity(&files.cert, &files.key).expect("a certificate");
    let service = Arc::new(move || -> Box<dyn Service> { Box::new(puts()) });
    let settings = BoxSettings::default();
    inside.add(Standing::with(any(), own, settings, service, patient()));
    format!("liar.example@{}", inside.addresses.last().expect("added"))
}

#[test]
fn a_cache_that_fills_in_something_else_is_caught_and_named() {
    let place = Place::new();
    let server = place.server(&[]);
    let mut inside = Inside::new();
    let at = putting(&place, &mut inside, || Puts {
        context: FOUR[3],
        direction: Direction::ToClient,
        data: |data| data.to_ascii_uppercase(),
    });
    let out = place.text("out");
    let via = format!("{at}=cache");
    let more = ["--json", "-o", &out];
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &more));
    let words = "the content is not what the server vouched for; liar.example (middlebox 1) \
        changed it";
    assert_eq!(ran.failed_with(1), words);
    let report = ran.report();
    assert_eq!(report.outcome, Outcome::Overstepped);
    assert_eq!((report.suspects, report.overstepped_in), (vec![1], Some(4)));
    assert!(!place.path("out").exists());
    // Whoever was granted the right without a kind may change content, and that is said.
    let via = format!("{at}=response-body:write,cache-offers:write");
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &more));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.report().content, Some(Content::Other));
}

#[test]
fn a_body_that_is_offered_and_not_filled_in_is_no_page() {
    let place = Place::new();
    let server = place.server(&[]);
    let mut inside = Inside::new();
    let at = putting(&place, &mut inside, || Puts {
        context: OFFERS,
        direction: Direction::ToServer,
        data: |_| Digest::of(page().as_bytes()).0.to_vec(),
    });
    let via = format!("{at}=cache-offers:write");
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &["--json"]));
    assert!(ran.failed_with(1).contains("not asked for"), "{ran:?}");
}

#[test]
fn a_cache_without_its_rights_takes_no_part() {
    let place = Place::new();
    let server = place.server(&[]);
    let (cache, _) = cache(&place, "");
    let via = format!("cache.example@{}=response-body:write", cache.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &[]));
    assert!(ran.failed_with(1).contains("cache.example"), "{ran:?}");
}

/// Two WAN optimisers, and what crosses between them towards the client.
struct Wan {
    near: Daemon,
    _far: Daemon,
    link: Counting,
}

const PAIR_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn wan_box(place: &Place, name: &str, peer: &str, key: &str) -> Daemon {
    let file = format!("{name}.pair");
    place.write(&file, key);
    let file = place.text(&file);
    place.middlebox(
        name,
        "wan",
        &format!("peer = {peer:?}\npair-key = {file:?}"),
    )
}

impl Wan {
    fn new(place: &Place, near_key: &str) -> Self {
        let far = wan_box(place, "far.example", "near.example", PAIR_KEY);
        Self {
            near: wan_box(place, "near.example", "far.example", near_key),
            link: Counting::before(&far.address),
            _far: far,
        }
    }

    /// Fetches a page by both of them; how many bytes cross the link towards the client.
    fn get(&self, place: &Place, path: &str, server: &str, grants: &str) -> (Ran, u64) {
        let via = [
            format!("near.example@{}={grants}", self.near.address),
            format!("far.example@{}={grants}", self.link.address),
        ];
        let out = place.text("out");
        let more = ["--json", "-o", &out];
        let ran = Ran::of(&mut place.get(path, server, &[&via[0], &via[1]], &more));
        (ran, self.link.taken())
    }

    /// The same, and the page is this one.
    fn fetch(&self, place: &Place, path: &str, server: &str, page: &str) -> u64 {
        let (ran, crossed) = self.get(place, path, server, "wan");
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let came = std::fs::read_to_string(place.path("out")).expect("a page");
        assert!(came == page, "another page");
        // Both have read the body alone, and nobody has changed anything.
        let report = ran.report();
        assert!(report.contexts.iter().all(|row| row.changed.is_empty()));
        for row in &report.contexts {
            let right = match row.name.ends_with("-body") {
                true => Word::Read,
                false => Word::None,
            };
            assert_eq!(row.rights, [right, right], "{}", row.name);
        }
        let body = report.contexts.iter().find(|row| row.name == FOUR[3]);
        let saw = body.expect("a context").saw.iter().copied();
        assert_eq!(saw.collect::<Vec<_>>(), [1, 2]);
        crossed
    }
}

#[test]
fn a_page_that_has_crossed_between_two_wan_optimisers_crosses_as_references() {
    let place = Place::new();
    let text = noise(1_000_000);
    place.write("site/long.txt", &text);
    let server = place.server(&[]);
    let wan = Wan::new(&place, PAIR_KEY);
    let first = wan.fetch(&place, "/long.txt", &server.address, &text);
    let again = wan.fetch(&place, "/long.txt", &server.address, &text);
    // A page with the same content in another place, under another name.
    let mut other = text.clone();
    other.insert_str(300_000, &"something new ".repeat(50));
    place.write("site/other.txt", &other);
    let changed = wan.fetch(&place, "/other.txt", &server.address, &other);
    println!("{first} bytes between the two, then {again}; changed: {changed}");
    assert!(first > 1_000_000 && first < 1_030_000, "{first}");
    assert!(again < 20_000, "{again}");
    assert!(changed < 300_000, "{changed}");
}

#[test]
fn a_wan_optimiser_that_has_started_anew_costs_bytes_and_nothing_else() {
    let place = Place::new();
    let text = noise(300_000);
    place.write("site/long.txt", &text);
    let server = place.server(&[]);
    let mut wan = Wan::new(&place, PAIR_KEY);
    let first = wan.fetch(&place, "/long.txt", &server.address, &text);
    wan.near = wan_box(&place, "near.example", "far.example", PAIR_KEY);
    let anew = wan.fetch(&place, "/long.txt", &server.address, &text);
    let again = wan.fetch(&place, "/long.txt", &server.address, &text);
    assert!(first > 300_000 && anew > 300_000, "{first}, {anew}");
    assert!(again < 20_000, "{again}");
}

#[test]
fn wan_optimisers_with_different_keys_have_no_session() {
    let place = Place::new();
    let server = place.server(&[]);
    let wan = Wan::new(&place, &PAIR_KEY.replace('0', "f"));
    let (ran, _) = wan.get(&place, "/", &server.address, "wan");
    let words = ran.failed_with(1);
    assert!(words.contains("far.example (middlebox 2)"), "{words}");
}

#[test]
fn wan_optimisers_that_are_no_neighbours_or_may_not_read_pass_everything_on() {
    let place = Place::new();
    let text = noise(100_000);
    place.write("site/long.txt", &text);
    let server = place.server(&[]);
    let wan = Wan::new(&place, PAIR_KEY);
    for _ in 0..2 {
        let grants = "request-headers:read";
        let (ran, crossed) = wan.get(&place, "/long.txt", &server.address, grants);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(crossed > 100_000, "{crossed}");
    }
    let between = place.middlebox("null.example", "null", "");
    let via = [
        format!("near.example@{}=wan", wan.near.address),
        format!("null.example@{}", between.address),
        format!("far.example@{}=wan", wan.link.address),
    ];
    let via: Vec<&str> = via.iter().map(String::as_str).collect();
    for _ in 0..2 {
        let out = place.text("out");
        let more = ["--json", "-o", &out];
        let ran = Ran::of(&mut place.get("/long.txt", &server.address, &via, &more));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(wan.link.taken() > 100_000);
    }
}

/// A server of another site under the same name.
fn second_server(place: &Place) -> Daemon {
    std::fs::create_dir(place.path("site2")).expect("a folder");
    place.write("site2/index.html", "the second server");
    let files = place.issue("page.example", For::Server);
    let (root, trust) = (place.text("site2"), place.text("ca.pem"));
    Daemon::start(&files, &["serve", "--root", &root, "--trust", &trust])
}

/// An address at which nothing listens, and nothing will while this is there.
fn dead() -> (std::net::TcpListener, String) {
    // It listens elsewhere in 127.0.0.0/8, so the port is taken and this address refuses.
    let taken = std::net::TcpListener::bind("127.0.0.2:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    (taken, format!("127.0.0.1:{port}"))
}

#[test]
fn a_balancer_chooses_among_servers_and_passes_over_one_that_is_down() {
    let place = Place::new();
    let (first, second) = (place.server(&[]), second_server(&place));
    let (_taken, dead) = dead();
    let backends = format!(
        "backends = [{:?}, {:?}, {:?}]\n",
        dead, first.address, second.address
    );
    let is_second = |via: &str| {
        // Where the client says that the server is does not count.
        let (report, text) = fetch(&place, "/", "127.0.0.1:1", via, &[]);
        assert!(report.contexts.iter().all(|row| row.rights == [Word::None]));
        text == "the second server"
    };
    let balance = place.middlebox("all.example", "balance", &backends);
    let via = format!("all.example@{}=balance", balance.address);
    let mut turns: Vec<bool> = (0..4).map(|_| is_second(&via)).collect();
    turns.dedup();
    assert!(turns.len() > 1, "one server had every session");
    let sticky = format!("{backends}balance = \"client\"\n");
    let balance = place.middlebox("sticky.example", "balance", &sticky);
    let via = format!("sticky.example@{}=balance", balance.address);
    let chosen = is_second(&via);
    assert!((0..3).all(|_| is_second(&via) == chosen));
    // Its server goes; the session after that is the other's.
    drop(if chosen { second } else { first });
    assert_eq!(is_second(&via), !chosen);
}

#[test]
fn a_pacer_keeps_to_its_rate_and_changes_nothing() {
    let place = Place::new();
    let text = noise(200_000);
    place.write("site/long.txt", &text);
    let server = place.server(&[]);
    let settings = "rate = 100000\nburst = 20000\ntypes = [\"text/plain\"]";
    let pacer = place.middlebox("pacer.example", "pacer", settings);
    let via = format!("pacer.example@{}=pacer", pacer.address);
    let begin = std::time::Instant::now();
    let (report, came) = fetch(&place, "/long.txt", &server.address, &via, &[]);
    // A slow machine makes it longer, nothing makes it shorter.
    assert!(begin.elapsed().as_millis() >= 1_800);
    assert_eq!(came, text);
    assert!(report.contexts.iter().all(|row| row.changed.is_empty()));
    let rights: Vec<Word> = report.contexts.iter().map(|row| row.rights[0]).collect();
    assert_eq!(rights, [Word::None, Word::None, Word::Read, Word::None]);
}

#[test]
fn what_waits_at_a_pacer_is_bounded_and_the_server_is_kept_waiting() {
    let place = Place::new();
    let length = 64 << 20;
    let file = std::fs::File::create(place.path("site/long.bin")).expect("a file");
    file.set_len(length).expect("a sparse file");
    let server = place.server(&[]);
    let counting = Counting::before(&server.address);
    let pacer = place.middlebox("pacer.example", "pacer", "rate = 100000");
    let via = format!("pacer.example@{}=pacer", pacer.address);
    let mut child = place
        .get("/long.bin", &counting.address, &[&via], &[])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program was built for this test");
    let mut some = vec![0; 200_000];
    let stdout = child.stdout.as_mut().expect("it is piped");
    std::io::Read::read_exact(stdout, &mut some).expect("some of it comes");
    let crossed = counting.taken();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // 256 KiB wait in the pacer, some megabytes in the sockets on the way.
    assert!(crossed < length / 2, "{crossed}");
}
