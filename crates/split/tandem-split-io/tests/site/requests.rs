//! What the origin owes its clients and the server behind it: uploads, ranges, one request after
//! the other.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use tandem_split::message::{Channel, Encodings, Greeting, Message, Miss, Progress, Side};
use tandem_split::{Decoder, Payload};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::server::body;
use crate::common::talk::{head, said_at_once, server};
use crate::common::{Site, eventually, ran, tried};

#[test]
fn uploads_arrive_whole_with_a_length_and_in_chunks() {
    let site = Site::new();
    let upload = body(6_000_000, 8);
    let file = site.pki.path().join("upload");
    std::fs::write(&file, &upload).expect("ours");
    let data = format!("@{}", file.display());
    for coding in ["X: length", "Transfer-Encoding: chunked"] {
        let out = ran(site
            .curl("/echo")
            .args(["--data-binary", &data, "--header", coding]));
        assert!(out.stdout == upload, "{coding}: {}", out.stdout.len());
    }
    let out =
        ran(site
            .curl("/echo")
            .args(["--data-binary", "", "--header", "Expect: 100-continue"]));
    assert!(out.stdout.is_empty());
}

#[test]
fn a_request_is_passed_on_while_it_comes_and_answered_when_the_server_likes() {
    let (arrived, arrives) = mpsc::channel();
    let address = server(move |mut stream| {
        let head = head(&mut stream);
        if head.starts_with("post /early") {
            // The answer comes before the body, and the body is never read.
            let _ =
                stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo much\n");
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            return;
        }
        let mut first = [0; 5];
        let _ = stream.read_exact(&mut first);
        let _ = arrived.send(first);
        // The rest is sent only when the first has arrived.
        let mut rest = [0; 20];
        let _ = stream.read(&mut rest);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes");
    });
    let site = Site::in_front_of(address);
    let mut curl = site.curl("/slow");
    curl.args([
        "--header",
        "Transfer-Encoding: chunked",
        "--upload-file",
        "-",
    ])
    .args(["--request", "POST"])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped());
    let mut curl = curl.spawn().expect("curl runs");
    let mut input = curl.stdin.take().expect("a pipe");
    input.write_all(b"first").expect("it reads");
    input.flush().expect("it reads");
    // In chunks: a length line stands before it.
    assert_eq!(&arrives.recv().expect("it arrives"), b"5\r\nfi");
    input.write_all(b"second").expect("it reads");
    drop(input);
    let out = curl.wait_with_output().expect("it ends");
    assert_eq!(out.stdout, b"yes", "{out:?}");

    let file = site.pki.path().join("upload");
    std::fs::write(&file, body(3_000_000, 9)).expect("ours");
    let out = tried(
        site.curl("/early")
            .args(["--data-binary", &format!("@{}", file.display())])
            .args(["--header", "Expect:", "--write-out", "%{http_code}"]),
    );
    assert_eq!(out.stdout, b"too much\n413", "{out:?}");
}

#[test]
fn a_request_that_is_cut_off_is_no_whole_one_for_the_server() {
    let (ended, ends) = mpsc::channel();
    let (began, begins) = mpsc::channel();
    let address = server(move |mut stream| {
        let is_chunked = head(&mut stream).contains("transfer-encoding: chunked");
        let _ = began.send(());
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = ended.send((is_chunked, all));
    });
    let site = Site::in_front_of(address);
    for coding in ["Transfer-Encoding: chunked", "Content-Length: 100"] {
        let chunk = if coding.contains("chunked") {
            "5\r\n"
        } else {
            ""
        };
        let text = format!("POST / HTTP/1.1\r\nHost: split.test\r\n{coding}\r\n\r\n{chunk}hello");
        let mut openssl = Command::new("openssl")
            .args(["s_client", "-quiet", "-no_ign_eof", "-tls1_2"])
            .args(["-servername", "split.test", "-CAfile", site.pki.ca()])
            .args(["-connect", &site.volunteer.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let mut input = openssl.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("it reads");
        input.flush().expect("it reads");
        begins.recv().expect("the head has arrived");
        drop(input);
        let (is_chunked, all) = ends.recv().expect("the server hears of it");
        assert_eq!(is_chunked, coding.contains("chunked"));
        assert!(all.len() < 100 && !all.ends_with(b"0\r\n\r\n"), "{all:?}");
        openssl.wait().expect("it ends");
    }
}

#[test]
fn requests_in_a_row_are_answered_in_their_order_bodies_and_all() {
    let site = Site::new();
    let text = "POST /echo HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n\
         GET /bytes/0/1 HTTP/1.1\r\nHost: split.test\r\n\r\n\
         POST /echo HTTP/1.1\r\nHost: split.test\r\nContent-Length: 3\r\n\r\ntwo\
         HEAD /bytes/7/1 HTTP/1.1\r\nHost: split.test\r\n\r\n\
         GET /nowhere HTTP/1.1\r\nHost: split.test\r\nConnection: close\r\n\r\n";
    let heard = said_at_once(&site, text.as_bytes());
    let ends: Vec<&str> = heard
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| {
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(!head.starts_with('4') || head.contains("404"), "{heard}");
            body
        })
        .collect();
    assert_eq!(ends, ["one", "", "two", "", "not here\n"], "{heard}");
    assert_eq!(site.origin_counts("tandem_split_origin_connections"), 1);
    assert_eq!(site.origin_counts("tandem_split_origin_requests"), 5);
}

#[test]
fn ranges_and_conditions_are_the_servers_and_come_through() {
    let site = Site::new();
    let whole = body(2_000_000, 3);
    let path = "/file/2000000/3";
    assert!(ran(&mut site.curl(path)).stdout == whole);
    let before = site.origin_counts("tandem_split_origin_misses");
    for _ in 0..2 {
        let out = ran(site.curl(path).args(["--range", "100000-1699999"]));
        assert!(out.stdout == whole[100_000..=1_699_999]);
    }
    // The first and the last chunk are others: asked for once.
    let asked = site.origin_counts("tandem_split_origin_misses") - before;
    assert_eq!(asked, 2);
    let out = ran(site.curl(path).args(["--range", "0-9,50-59", "--include"]));
    let text = out.stdout;
    assert!(text.starts_with(b"HTTP/1.1 206 "));
    let found = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    assert!(found(&whole[0..10]) && found(&whole[50..60]));
    assert!(found(b"multipart/byteranges; boundary=part"));
    let out = ran(site
        .curl(path)
        .args(["--header", "If-None-Match: \"2000000-3\""])
        .args(["--write-out", "%{http_code} %{size_download}"]));
    assert_eq!(out.stdout, b"304 0");
}

#[test]
fn a_slow_server_is_not_waited_for_to_the_end() {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    let address = server(move |mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        let _ = may_go.lock().map(|may_go| may_go.recv());
        let _ = stream.write_all(b"later");
    });
    let site = Site::in_front_of(address);
    let mut curl = site.curl("/");
    curl.arg("--no-buffer").stdout(Stdio::piped());
    let mut curl = curl.spawn().expect("curl runs");
    let mut out = curl.stdout.take().expect("a pipe");
    let mut first = [0; 5];
    out.read_exact(&mut first).expect("it comes");
    assert_eq!(&first, b"first");
    go.send(()).expect("the server waits");
    let mut later = Vec::new();
    out.read_to_end(&mut later).expect("it comes");
    assert_eq!(later, b"later");
    assert!(curl.wait().expect("it ends").success());
}

#[test]
fn a_volunteer_that_lets_its_channel_of_misses_go_is_no_failure() {
    let site = Site::new();
    let connector = site.connector();
    site.runtime().block_on(async {
        let mut channel = site.channel(&connector).await;
        let nowhere = Payload::new(&b"nowhere"[..]).expect("short").name();
        let mut asked = Vec::new();
        let greeting = Greeting::new(Channel::Misses, Encodings::DEFAULT);
        Message::Greeting(greeting).write(&mut asked);
        Message::Miss(Miss::Payload(nowhere)).write(&mut asked);
        channel.write_all(&asked).await.expect("it reads");
        channel.flush().await.expect("it reads");
        let mut answer = [0; 1];
        channel.read_exact(&mut answer).await.expect("it answers");
        assert_eq!(site.origin_counts("tandem_split_origin_open_channels"), 1);
        // The first answer may be that to the greeting.
        eventually("it has answered the miss", || {
            site.origin_counts("tandem_split_origin_absent") == 1
        });
        // Without a close of TLS, as when the program ends.
    });
    eventually("the channel has ended", || {
        site.origin_counts("tandem_split_origin_open_channels") == 0
    });
    assert_eq!(site.origin_counts("tandem_split_origin_failed_channels"), 0);
}

#[test]
fn a_channel_goes_on_with_another_client_where_the_volunteer_knows_how_and_is_known() {
    let site = Site::new();
    let connector = site.connector();
    // Clients that say nothing, one after the other, and how many the origin has heard of.
    let clients = |version: u8| {
        site.runtime().block_on(async {
            let mut channel = site.channel(&connector).await;
            let (mut decoder, mut count) = (Decoder::new(Side::Origin), 0);
            while count < 3 {
                let greeting = Greeting::new(Channel::Connection, Encodings::DEFAULT);
                let mut said = Vec::new();
                Message::Greeting(Greeting {
                    version,
                    ..greeting
                })
                .write(&mut said);
                Message::Progress(Progress::End).write(&mut said);
                channel.write_all(&said).await.expect("it reads");
                channel.flush().await.expect("it reads");
                count += 1;
                let mut is_over = false;
                while !is_over {
                    let mut buffer = [0; 4096];
                    let Ok(len @ 1..) = channel.read(&mut buffer).await else {
                        return count;
                    };
                    assert_eq!(decoder.push(&buffer[..len]), len);
                    while let Some(message) = decoder.next_message().expect("what may come") {
                        is_over |= matches!(message, Message::Progress(Progress::Over));
                    }
                }
                let mut last = Vec::new();
                Message::Progress(Progress::Over).write(&mut last);
                channel.write_all(&last).await.expect("it reads");
                channel.flush().await.expect("it reads");
            }
            count
        })
    };
    assert_eq!(clients(3), 1, "nobody has been served from there");
    assert!(ran(&mut site.curl("/bytes/9/1")).stdout == body(9, 1));
    let before = site.origin_counts("tandem_split_origin_channels_used_again");
    assert_eq!(clients(2), 1, "it knows no other way");
    assert_eq!(clients(3), 3);
    let again = site.origin_counts("tandem_split_origin_channels_used_again");
    assert_eq!(again - before, 2);
}

#[test]
fn a_new_certificate_is_taken_when_it_fits() {
    let site = Site::new();
    let shown = || {
        let out =
            ran(site
                .curl("/bytes/1/1")
                .args(["--output", "/dev/null", "--write-out", "%{certs}"]));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let old = shown();
    assert!(old.contains("BEGIN CERTIFICATE"), "{old}");
    let (certificate, key) = site.pki.issue("next", "rsa:2048", "DNS:split.test");
    // One after the other: in between they do not fit.
    std::fs::copy(key, &site.pki.key).expect("ours");
    assert_eq!(shown(), old);
    std::fs::copy(certificate, &site.pki.certificate).expect("ours");
    eventually("the new one is shown", || shown() != old);
}
