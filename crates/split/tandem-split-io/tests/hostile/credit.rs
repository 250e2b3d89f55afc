//! A client that does not read what it has asked for costs the origin next to no work, and loses
//! nothing when it goes on.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::line::Line;
use crate::common::server::body;
use crate::common::{Site, eventually, ran};

/// What the origin may work ahead.
const AHEAD: u64 = 2_000_000;
/// Enough for a handshake and the beginning of an answer.
const BEGUN: u64 = 20_000;
/// No end.
const ALL: u64 = u64::MAX;

fn sealed(site: &Site) -> u64 {
    site.origin_counts("tandem_split_origin_body_bytes")
}

/// The origin has begun, and goes no further for as long as it would have taken to do it all.
fn stays_behind(site: &Site, least: u64, most: u64) {
    eventually("the origin has sealed something", || sealed(site) >= least);
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        let sealed = sealed(site);
        assert!(sealed <= most, "{sealed} of {most}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn collected(mut program: Command) -> (std::process::Child, std::thread::JoinHandle<Vec<u8>>) {
    program.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = program.spawn().expect("it runs");
    let mut out = child.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        out.read_to_end(&mut all).expect("it is read");
        all
    });
    (child, reader)
}

#[test]
fn a_client_that_reads_nothing_or_pauses_costs_two_megabytes_ahead_and_misses_nothing() {
    let site = Site::new();
    let len = 20_000_000;
    for path in ["bytes", "chunked"] {
        let before = sealed(&site);
        let line = Line::to(&site, BEGUN);
        let (mut curl, out) = collected(site.curl_at(line.address, &format!("/{path}/{len}/1")));
        stays_behind(&site, before + 1_000_000, before + AHEAD);
        let paused = 6_000_000;
        line.lets_pass(paused);
        stays_behind(&site, before + paused, before + paused + AHEAD + 200_000);
        line.lets_pass(ALL);
        assert!(curl.wait().expect("it ends").success(), "{path}");
        assert!(out.join().expect("it is read") == body(len, 1), "{path}");
        assert_eq!(sealed(&site) - before, len as u64);
    }
}

#[test]
fn a_client_that_stands_still_keeps_no_body_in_memory_and_gets_the_rest_from_the_server() {
    gets_the_rest("file");
}

#[test]
fn it_gets_the_rest_from_a_server_without_ranges_too() {
    gets_the_rest("rangeless");
}

fn gets_the_rest(kind: &str) {
    let len = 3_000_000;
    // Four bodies of this length.
    let site = Site::keeping(13 << 20);
    let path = |number: u64| format!("/{kind}/{len}/{number}");
    // Each way has another port, and what is kept is for one host.
    let host = ["--header", "Host: split.test"];
    let fetched = |number| {
        let out = ran(site.curl(&path(number)).args(host));
        assert!(out.stdout == body(len, number));
    };
    fetched(1);
    let before = sealed(&site);
    let line = Line::to(&site, BEGUN);
    let mut slow = site.curl_at(line.address, &path(1));
    slow.args(host);
    let (mut curl, out) = collected(slow);
    eventually("it is being answered", || sealed(&site) > before);
    assert_eq!(site.origin_counts("tandem_split_origin_kept_answers"), 1);
    for number in 2..=6 {
        fetched(number);
        fetched(number);
    }
    line.lets_pass(ALL);
    assert!(curl.wait().expect("it ends").success());
    assert!(out.join().expect("it is read") == body(len, 1));
    let seen = site.server.seen.lock().expect("nobody panics here");
    let rest = seen
        .iter()
        .filter(|head| head.contains("range: bytes=1048576-"));
    let tag = format!("if-range: \"{len}-1\"");
    let rest: Vec<bool> = rest.map(|head| head.contains(&tag)).collect();
    assert_eq!(rest, [true], "once, if it has not changed");
}

#[test]
fn a_client_that_breaks_off_is_not_worked_for() {
    let site = Site::new();
    let line = Line::to(&site, BEGUN);
    let (mut curl, out) = collected(site.curl_at(line.address, "/bytes/20000000/2"));
    stays_behind(&site, 1_000_000, AHEAD);
    curl.kill().expect("it waits");
    curl.wait().expect("it ends");
    drop(out);
    line.lets_pass(ALL);
    eventually("the volunteer has left it", || {
        site.volunteer_counts("tandem_split_volunteer_open_clients") == 0
    });
    eventually("the origin, too", || {
        site.origin_counts("tandem_split_origin_cut_answers") == 1
    });
    // One write may have got through before the volunteer sees that nobody is there.
    let most = AHEAD + 1_000_000;
    assert!(sealed(&site) < most, "{}", sealed(&site));
}

#[test]
fn requests_that_follow_each_other_at_once_run_ahead_together() {
    let site = Site::new();
    let line = Line::to(&site, BEGUN);
    let mut program = Command::new("openssl");
    program
        .args(["s_client", "-quiet", "-tls1_2", "-CAfile", site.pki.ca()])
        .args(["-servername", "split.test", "-connect"])
        .arg(line.address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut client = program.spawn().expect("openssl runs");
    let mut requests = String::new();
    for number in 1..=20 {
        let last = if number == 20 {
            "Connection: close\r\n"
        } else {
            ""
        };
        // Both those that fill the window by themselves, and those of which many do.
        let len = if number % 5 == 0 { 2_500_000 } else { 300_000 };
        requests +=
            &format!("GET /bytes/{len}/{number} HTTP/1.1\r\nHost: split.test\r\n{last}\r\n");
    }
    let mut to_client = client.stdin.take().expect("a pipe");
    to_client
        .write_all(requests.as_bytes())
        .expect("it takes them");
    let mut from_client = client.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        from_client.read_to_end(&mut all).expect("it is read");
        all
    });
    stays_behind(&site, 1_000_000, AHEAD);
    line.lets_pass(ALL);
    let all = reader.join().expect("it is read");
    drop(to_client);
    client.wait().expect("it ends");
    let mut rest = &all[..];
    for number in 1..=20 {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n");
        let len = if number % 5 == 0 { 2_500_000 } else { 300_000 };
        let (head, behind) = rest.split_at(end.expect("a head") + 4);
        assert!(head.starts_with(b"HTTP/1.1 200"), "{number}");
        assert!(behind.len() >= len, "{number}: {}", behind.len());
        assert!(behind[..len] == body(len, number), "{number}");
        rest = &behind[len..];
    }
    assert!(rest.is_empty());
}

#[test]
fn a_client_that_has_ended_and_reads_on_gets_all() {
    let site = Site::new();
    let line = Line::to(&site, BEGUN);
    let len = 8_000_000;
    let (mut curl, out) = collected(site.curl_at(line.address, &format!("/bytes/{len}/3")));
    eventually("it has begun", || sealed(&site) > 0);
    line.half_closed.send_replace(true);
    eventually("the origin knows", || {
        site.origin_counts("tandem_split_origin_vanished_clients") == 1
    });
    line.lets_pass(ALL);
    assert!(curl.wait().expect("it ends").success());
    assert!(out.join().expect("it is read") == body(len, 3));
}

#[test]
fn a_long_upload_goes_up_while_its_answer_comes_down() {
    let site = Site::new();
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("upload");
    let sent = body(5_000_000, 4);
    std::fs::write(&file, &sent).expect("written");
    let mut curl = site.curl("/echo");
    curl.args(["--header", "Expect:", "--data-binary"])
        .arg(format!("@{}", file.display()));
    assert!(ran(&mut curl).stdout == sent);
}

#[test]
fn an_upload_goes_up_though_its_early_answer_is_not_read() {
    let (answer_len, upload_len) = (8_000_000, 4_000_000);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let behind = listener.local_addr().expect("bound");
    let (heard, hears) = mpsc::channel();
    let (goes_on, go_on) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the origin comes");
        let mut answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {answer_len}\r\n\r\n").into_bytes();
        answer.extend(body(answer_len, 5));
        let mut back = stream.try_clone().expect("a descriptor");
        let mut request = vec![0; 1 << 16];
        let mut len = stream.read(&mut request).expect("a head");
        let writer = std::thread::spawn(move || back.write_all(&answer).is_ok());
        go_on.recv().expect("the test says when");
        while len < upload_len {
            len += stream.read(&mut request).expect("it goes on");
        }
        heard.send(len).expect("the test waits");
        assert!(writer.join().expect("nobody panics there"));
    });
    let site = Site::in_front_of(behind);
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("upload");
    std::fs::write(&file, body(upload_len, 6)).expect("written");
    let line = Line::to(&site, BEGUN);
    let mut curl = site.curl_at(line.address, "/early");
    curl.args(["--header", "Expect:", "--data-binary"])
        .arg(format!("@{}", file.display()));
    let (mut curl, out) = collected(curl);
    // The server reads on once the volunteer has more than the client takes.
    eventually("the answer has begun", || sealed(&site) >= 1_000_000);
    goes_on.send(()).expect("the server waits");
    let len = hears.recv_timeout(Duration::from_secs(50));
    assert!(len.expect("all of it goes up") >= upload_len);
    stays_behind(&site, 1_000_000, AHEAD);
    line.lets_pass(ALL);
    assert!(curl.wait().expect("it ends").success());
    assert!(out.join().expect("it is read") == body(answer_len, 5));
}
