//! Requests that are too long, that two programs would read differently, or that ask for what is
//! not served; and a channel that says much and asks nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::talk::{head, said, said_at_once, server};
use crate::common::{Site, eventually, ran};

#[test]
fn a_head_that_is_too_long_is_refused_in_clear_words_however_long_it_is() {
    let site = Site::new();
    let request = |len: usize| {
        let start = "GET /bytes/1/1 HTTP/1.1\r\nHost: split.test\r\nConnection: close\r\nX: ";
        let end = "\r\n\r\n";
        let value = "x".repeat(len - start.len() - end.len());
        format!("{start}{value}{end}")
    };
    // Records have 16,384 bytes: two are as much as a head may have.
    for (len, status) in [
        (32_768, "200"),
        (32_769, "431"),
        (33_000, "431"),
        (49_153, "431"),
        (300_000, "431"),
    ] {
        let heard = said_at_once(&site, request(len).as_bytes());
        let expected = format!("HTTP/1.1 {status} ");
        assert!(heard.starts_with(&expected), "{len}: {heard:?}");
    }
}

#[test]
fn a_body_that_is_not_in_chunks_ends_the_connection_in_good_order() {
    let head_of = "POST /echo HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    let site = Site::new();
    for body in ["5\r\nhello\r\nnonsense\r\n", "5;x\n\r\nhello\r\n0\r\n\r\n"] {
        let heard = said_at_once(&site, format!("{head_of}{body}").as_bytes());
        assert!(heard.starts_with("HTTP/1.1 400 "), "{body:?}: {heard:?}");
    }
    // Where the answer has come before, it stays whole.
    let early = server(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let site = Site::in_front_of(early);
    let begun = format!("{head_of}5\r\nhello\r\n");
    let heard = said(&site, &[begun.as_bytes(), b"nonsense\r\n"], "early");
    assert!(heard.starts_with("HTTP/1.1 200 "), "{heard:?}");
    assert!(heard.ends_with("\r\n\r\nearly"), "{heard:?}");
}

#[test]
fn what_cannot_be_served_is_refused_in_clear_words() {
    let site = Site::new();
    for (request, status, word) in [
        (
            "GET /bytes/1/1 HTTP/1.1\r\nHost: split.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            "501",
            "WebSocket",
        ),
        (
            "POST /echo HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "501",
            "chunks",
        ),
        (
            "POST /echo HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: chunked\r\n\r\nnonsense",
            "400",
            "not a request",
        ),
        (
            "POST /echo HTTP/1.1\r\nHost: split.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n",
            "400",
            "not a request",
        ),
        (
            "GET /bytes/1/1 HTTP/1.1\r\nHost: bank.test\r\n\r\n",
            "421",
            "another host",
        ),
    ] {
        let heard = said_at_once(&site, request.as_bytes());
        assert!(heard.starts_with(&format!("HTTP/1.1 {status} ")), "{heard}");
        assert!(
            heard.contains(word) && heard.contains("Connection: close"),
            "{heard}"
        );
    }
    let heard = said_at_once(&site, b"HEAD / HTTP/1.1\r\nHost: bank.test\r\n\r\n");
    assert!(heard.ends_with("\r\n\r\n"), "no text after {heard}");
    assert_eq!(site.origin_counts("tandem_split_origin_misdirected"), 2);

    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = free.local_addr().expect("bound");
    drop(free);
    let nonsense = server(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"220 mail.test ESMTP\r\n");
    });
    for (behind, status, word) in [
        (nobody, "503", "cannot be reached"),
        (nonsense, "502", "no answer that can be passed on"),
    ] {
        let site = Site::in_front_of(behind);
        let out = ran(site.curl("/").args(["--write-out", "%{http_code}"]));
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains(word) && text.ends_with(status), "{text}");
    }
}

#[test]
fn a_channel_that_never_greets_is_ended_once_it_has_said_too_much() {
    let site = Site::new();
    let connector = site.connector();
    site.runtime().block_on(async {
        let mut channel = site.channel(&connector).await;
        // The beginning of the longest record, and what comes behind it, not to its end.
        let mut said = vec![0x16, 3, 3, 0x48, 0];
        said.resize(40_000, 0);
        let _ = channel.write_all(&said).await;
        let _ = channel.flush().await;
        let mut answer = Vec::new();
        let _ = channel.read_to_end(&mut answer).await;
        assert_eq!(answer, b"", "it hangs up");
    });
    eventually("the channel has ended", || {
        site.origin_counts("tandem_split_origin_open_channels") == 0
    });
    assert!(ran(&mut site.curl("/bytes/10/1")).stdout == crate::common::server::body(10, 1));
}
