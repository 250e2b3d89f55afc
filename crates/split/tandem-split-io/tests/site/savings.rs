//! What crosses the origin's line, counted on its sockets; that what is wanted by many is fetched
//! once; and what the origin keeps, which stands for what the server would answer and no more.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::server::body;
use crate::common::{Site, all_print, eventually, ran};

#[test]
fn a_warm_megabyte_costs_the_origin_less_than_half_a_percent() {
    let site = Site::new();
    let path = "/bytes/1000003/1";
    assert!(ran(&mut site.curl(path)).stdout == body(1_000_003, 1));
    let cold = site.to_origin.bytes();
    assert!(
        cold < 1_020_003 + 8_000,
        "cold, with handshake and names: {cold}"
    );
    // The channel of misses stays open and is idle.
    assert!(ran(&mut site.curl(path)).stdout == body(1_000_003, 1));
    let warm = site.to_origin.bytes() - cold;
    assert!(warm * 200 < 1_000_003, "warm: {warm}");
    // The last of it may still be on its way to the relay when curl has all that it wanted.
    let start = std::time::Instant::now();
    let counted = || site.origin_counts("tandem_split_origin_sent_bytes");
    while counted() != site.to_origin.bytes() {
        let is_late = start.elapsed() > std::time::Duration::from_secs(30);
        assert!(!is_late, "what the origin counts is what crosses");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_client_gets_the_channel_of_the_one_before_it_and_a_warm_megabyte_costs_2_300_bytes() {
    let site = Site::new();
    let path = "/file/1000003/1";
    let idle = || site.volunteer_counts("tandem_split_volunteer_open_clients") == 0;
    let used = || site.origin_counts("tandem_split_origin_channels_used_again");
    let mut warm = Vec::new();
    for client in 0..8 {
        let before = site.to_origin.bytes();
        assert!(ran(&mut site.curl(path)).stdout == body(1_000_003, 1));
        eventually("it is done with", idle);
        let counted = || site.origin_counts("tandem_split_origin_sent_bytes");
        eventually("all has come back", || counted() == site.to_origin.bytes());
        if client > 1 {
            warm.push(site.to_origin.bytes() - before);
        }
    }
    // For misses, for the first client, and one that is ready, however many clients come.
    assert_eq!(site.to_origin.connections(), 3);
    assert!(used() >= 6, "{}", used());
    assert_eq!(site.origin_counts("tandem_split_origin_connections"), 8);
    assert_eq!(site.origin_counts("tandem_split_origin_failed_channels"), 0);
    assert!(warm.iter().all(|bytes| *bytes < 2_300), "{warm:?}");
}

#[test]
fn a_client_costs_its_volunteer_four_records_on_the_channel() {
    let site = Site::new();
    let idle = || site.volunteer_counts("tandem_split_volunteer_open_clients") == 0;
    let mut records = Vec::new();
    for _ in 0..8 {
        let before = site.to_origin.records();
        assert!(ran(&mut site.curl("/bytes/1000/1")).stdout == body(1_000, 1));
        eventually("it is done with", idle);
        records.push(site.to_origin.records() - before);
    }
    // The last word about the client before with greeting and hello; the rest of the handshake; the
    // request; the client's last word. On a busy machine some take longer than a word may wait.
    let fewest = records.iter().skip(2).min();
    assert_eq!(fewest, Some(&4), "{records:?}");
    assert_eq!(site.origin_counts("tandem_split_origin_failed_channels"), 0);
}

#[test]
fn many_who_want_the_same_at_once_ask_the_origin_once() {
    let site = Site::new();
    let chunks = 20_u64;
    let path = format!("/bytes/{}/2", chunks * 16384);
    all_print(
        (0..8).map(|_| site.curl(&path)),
        &body(chunks as usize * 16384, 2),
    );
    // Each chunk once, and for each client its handshake and its stubs.
    let bytes = site.to_origin.bytes();
    assert!(bytes < 2 * chunks * 16384, "{bytes}");
}

#[test]
fn a_large_file_arrives_whole_also_by_a_volunteer_that_has_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let site = Site::with_cache(Some(folder.path().to_owned()));
    let len = 6_000_000;
    let path = format!("/bytes/{len}/3");
    assert!(ran(&mut site.curl(&path)).stdout == body(len, 3));
    let key = site.origin_key;
    let address = site.origin;
    let (volunteer, counts) =
        site.another_volunteer(address, key, Some(folder.path().join("other")));
    assert!(
        ran(&mut site.curl_at(volunteer, &path)).stdout == body(len, 3),
        "another, which has nothing"
    );
    assert!(crate::common::value(&counts, "tandem_split_volunteer_misses") > 0);
}

#[test]
fn a_channel_is_ready_before_the_next_client_comes_and_a_dead_one_is_no_harm() {
    let site = Site::new();
    let channels = || site.origin_counts("tandem_split_origin_open_channels");
    assert!(ran(&mut site.curl("/bytes/1000/1")).stdout == body(1_000, 1));
    // Three were opened: for misses, for the client, and the one that is ready. The client's is
    // kept for another.
    let clients = || site.volunteer_counts("tandem_split_volunteer_open_clients");
    eventually("all are kept", || {
        site.to_origin.connections() == 3 && clients() == 0 && channels() == 3
    });
    site.to_origin.cut_all();
    eventually("the origin has seen it", || channels() == 0);
    assert!(ran(&mut site.curl("/bytes/1000/2")).stdout == body(1_000, 2));
    assert_eq!(
        site.volunteer_counts("tandem_split_volunteer_failed_clients"),
        0
    );
}

#[test]
fn a_new_file_of_up_to_eight_chunks_is_asked_for_at_once_with_its_list() {
    let site = Site::new();
    // What belongs to the connection is there from now on.
    assert!(ran(&mut site.curl("/bytes/10/1")).stdout == body(10, 1));
    let asked = || site.origin_counts("tandem_split_origin_misses");
    let before = asked();
    let len = 8 * 16384;
    assert!(ran(&mut site.curl(&format!("/bytes/{len}/2"))).stdout == body(len, 2));
    assert_eq!(asked() - before, 1);
    let before = asked();
    let len = 20 * 16384;
    assert!(ran(&mut site.curl(&format!("/bytes/{len}/3"))).stdout == body(len, 3));
    assert_eq!(asked() - before, 1 + 12, "the others by name, each once");
}

/// A server that answers every request with the same, and says what it was asked.
#[derive(Clone, Default)]
struct Scripted {
    answer: Arc<Mutex<String>>,
    /// The heads, in lower case, and the connections on which they came.
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

impl Scripted {
    fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let scripted = self.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                *scripted.connections.lock().expect("nobody panics there") += 1;
                let scripted = scripted.clone();
                thread::spawn(move || {
                    let (mut head, mut byte) = (Vec::new(), [0]);
                    while matches!(stream.read(&mut byte), Ok(1)) {
                        head.push(byte[0]);
                        if head.ends_with(b"\r\n\r\n") {
                            let text = String::from_utf8_lossy(&head).to_lowercase();
                            let mut heads = scripted.heads.lock().expect("nobody panics there");
                            heads.push(text);
                            let answer = scripted.answer.lock().expect("nobody panics there");
                            let _ = stream.write_all(answer.as_bytes());
                            head.clear();
                        }
                    }
                });
            }
        });
        address
    }

    fn says(&self, status: &str, fields: &[&str], body: &str) {
        let mut answer = format!("HTTP/1.1 {status}\r\n");
        for field in fields {
            answer += &format!("{field}\r\n");
        }
        if !status.starts_with("304") {
            answer += &format!("Content-Length: {}\r\n", body.len());
        }
        answer += &format!("\r\n{body}");
        *self.answer.lock().expect("nobody panics there") = answer;
    }

    /// What the last request said of a condition.
    fn condition(&self) -> Option<String> {
        let heads = self.heads.lock().expect("nobody panics there");
        let mut lines = heads.last().expect("there was one").lines();
        lines.find_map(|line| line.strip_prefix("if-none-match: ").map(str::to_owned))
    }

    fn requests(&self) -> usize {
        self.heads.lock().expect("nobody panics there").len()
    }
}

#[test]
fn a_body_that_the_server_stands_by_is_neither_fetched_nor_named_again() {
    let site = Site::new();
    let (len, path) = (2_000_000, "/file/2000000/3");
    for times in 0..3 {
        let out = ran(site.curl(path).arg("--include"));
        assert!(out.stdout.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(out.stdout.ends_with(&body(len, 3)));
        let count = |name: &str| site.origin_counts(&format!("tandem_split_origin_{name}"));
        assert_eq!(count("kept_answers"), times);
        assert_eq!(count("known_bytes"), times * len as u64);
        assert_eq!(count("body_bytes"), (times + 1) * len as u64);
        assert!(count("kept_bytes") >= len as u64);
        let seen = site.server.seen.lock().expect("nobody panics there");
        let is_conditional = seen
            .last()
            .expect("one")
            .contains("if-none-match: \"2000000-3\"");
        assert_eq!(is_conditional, times > 0, "{seen:?}");
    }
    // What a client asks for itself is the server's to answer.
    let before = site.origin_counts("tandem_split_origin_kept_answers");
    let asked = [
        "--header",
        "If-None-Match: \"2000000-3\"",
        "--write-out",
        "%{http_code}",
    ];
    assert_eq!(ran(site.curl(path).args(asked)).stdout, b"304");
    let range = ran(site.curl(path).args(["--range", "5-9"])).stdout;
    assert!(range == body(len, 3)[5..10]);
    assert_eq!(
        site.origin_counts("tandem_split_origin_kept_answers"),
        before
    );
}

#[test]
fn volunteers_that_meet_a_new_file_at_once_do_not_all_fetch_it() {
    let site = Site::new();
    let volunteers: Vec<SocketAddr> = (0..4)
        .map(|_| site.another_volunteer(site.origin, site.origin_key, None).0)
        .collect();
    let path = "/file/100003/1";
    thread::scope(|scope| {
        for volunteer in &volunteers {
            let mut curl = site.curl_at(*volunteer, path);
            // Elsewhere all have the same port.
            curl.args(["--header", "Host: split.test"]);
            scope.spawn(move || assert!(ran(&mut curl).stdout == body(100_003, 1)));
        }
    });
    let seen = site.server.seen.lock().expect("nobody panics here");
    let plain = seen.iter().filter(|head| !head.contains("if-none-match"));
    // On a busy machine some may have waited in vain.
    assert!(plain.count() < 4, "{seen:?}");
    assert_eq!(seen.len(), 4);
}

#[test]
fn a_kept_body_stands_for_what_the_server_has_confirmed_and_for_nothing_else() {
    let server = Scripted::default();
    let site = Site::in_front_of(server.start());
    let get = || {
        let out = ran(site.curl("/").args(["--write-out", " %{http_code}"]));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let tag = |tag: &str| format!("ETag: {tag}");
    let text = |letter: &str| letter.repeat(100);
    let whole = |letter: &str| format!("{} 200", text(letter));

    // What is private is not kept.
    server.says(
        "200 OK",
        &[&tag("\"a\""), "Cache-Control: private"],
        &text("a"),
    );
    assert!(get().ends_with(" 403"));
    server.says("200 OK", &[&tag("\"a\"")], &text("a"));
    assert_eq!(get(), whole("a"));
    assert_eq!(server.condition(), None);

    // The server's word counts, each time.
    server.says("304 Not Modified", &[&tag("\"a\"")], "");
    assert_eq!(get(), whole("a"));
    assert_eq!(server.condition().as_deref(), Some("\"a\""));
    server.says("304 Not Modified", &[&tag("\"a\""), "Set-Cookie: a=b"], "");
    assert!(get().ends_with(" 403"), "the cookie is somebody's");
    server.says(
        "304 Not Modified",
        &[&tag("\"a\""), "Cache-Control: no-store"],
        "",
    );
    assert!(get().ends_with(" 403"), "it is not public any more");
    server.says("200 OK", &[&tag("\"b\"")], &text("b"));
    assert_eq!(get(), whole("b"));
    server.says("404 Not Found", &[], "gone");
    assert_eq!(get(), "gone 404");

    // A 304 about something else, one by a tag that has become a weak one, and one that does not
    // say what it is about confirm nothing: the server is asked once more, without a condition.
    for other in [Some("\"c\""), Some("W/\"b\""), None] {
        server.says("200 OK", &[&tag("\"b\"")], &text("b"));
        assert_eq!(get(), whole("b"));
        let fields: Vec<String> = other.into_iter().map(tag).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        server.says("304 Not Modified", &fields, "");
        let before = server.requests();
        assert!(get().ends_with(" 304"), "nothing else is said");
        assert_eq!((server.requests() - before, server.condition()), (2, None));
    }

    // Without a strong tag the body is fetched each time, and named again only if it has changed.
    let known = || site.origin_counts("tandem_split_origin_known_bytes");
    for field in [
        tag("W/\"w\""),
        "Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT".to_owned(),
    ] {
        server.says("200 OK", &[&field], &text("w"));
        assert_eq!(get(), whole("w"));
        let before = known();
        assert_eq!(get(), whole("w"));
        assert_eq!((known() - before, server.condition()), (100, None));
        server.says("200 OK", &[&field], &text("x"));
        assert_eq!(get(), whole("x"), "the same validator, another body");
        assert_eq!((known() - before, server.condition()), (100, None));
    }
    // All of it over connections that were used again.
    let connections = *server.connections.lock().expect("nobody panics there");
    assert!(connections * 2 < server.requests(), "{connections}");
}

#[test]
fn what_a_server_left_of_a_body_is_no_request_of_the_next_client() {
    let server = Scripted::default();
    let site = Site::in_front_of(server.start());
    server.says("200 OK", &[], "answer");
    assert_eq!(ran(&mut site.curl("/one")).stdout, b"answer");
    for _ in 0..3 {
        // The server answers at the end of the head, and reads on as if the body were a request.
        let hidden = "GET /hidden HTTP/1.1\r\nHost: split.test\r\nX-Rest: ";
        for method in ["POST", "GET"] {
            let posted = ["--request", method, "--data-binary", hidden];
            assert_eq!(ran(site.curl("/posted").args(posted)).stdout, b"answer");
        }
        assert_eq!(ran(&mut site.curl("/two")).stdout, b"answer");
        let heads = server.heads.lock().expect("nobody panics there");
        let last = heads.last().expect("there were some");
        assert!(last.starts_with("get /two "), "{last}");
    }
}
