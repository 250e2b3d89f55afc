//! A volunteer that changes anything is refused by the client, and counted; what is not public does
//! not come through.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::common::relay::{Harm, harmful};
use crate::common::server::body;
use crate::common::{Site, eventually, ran, tried};

#[test]
fn every_harm_to_the_records_is_refused_by_the_client_and_counted() {
    let site = Site::new();
    let path = "/bytes/300000/1";
    let whole = body(300_000, 1);
    assert!(ran(&mut site.curl(path)).stdout == whole);
    let counted = || site.origin_counts("tandem_split_origin_refused_by_clients");
    for harm in Harm::ENDING {
        let before = counted();
        let out = tried(&mut site.curl_at(harmful(site.volunteer, harm), path));
        assert!(
            !out.status.success(),
            "{harm:?}: {} bytes",
            out.stdout.len()
        );
        assert!(
            whole.starts_with(&out.stdout),
            "{harm:?}: a correct prefix and nothing else"
        );
        // A client that was cut off says nothing of it.
        if harm != Harm::Truncate {
            eventually(&format!("{harm:?} is counted"), || counted() > before);
        }
    }
    assert_eq!(
        site.origin_counts("tandem_split_origin_volunteer_refused"),
        counted(),
        "each by the volunteer through which it came"
    );
    let text = tandem_daemon::metrics::text(&site.at_origin);
    let labels = text.matches("tandem_split_origin_volunteer_refused_total{");
    assert_eq!(labels.count(), 2, "one key, and all others: {text}");
    assert!(
        ran(&mut site.curl(path)).stdout == whole,
        "the others are served all the same"
    );
    // On a machine that stands still for seconds, the volunteer may find the origin gone before it
    // has heard its last.
    assert!(
        site.volunteer_counts("tandem_split_volunteer_origin_failures") <= 1,
        "what a client breaks off is not the origin's failure"
    );
}

#[test]
fn what_a_client_says_is_heard_though_it_takes_no_more() {
    let site = Site::new();
    // More than the sockets on the way hold.
    let path = "/bytes/12000000/1";
    assert!(ran(&mut site.curl(path)).stdout == body(12_000_000, 1));
    for refused in 1..=3 {
        let out = tried(&mut site.curl_at(harmful(site.volunteer, Harm::Clog), path));
        assert!(!out.status.success(), "{} bytes", out.stdout.len());
        eventually("it is counted", || {
            site.origin_counts("tandem_split_origin_refused_by_clients") == refused
        });
    }
}

#[test]
fn a_client_that_leaves_without_a_word_is_counted_whatever_the_reason() {
    let site = Site::new();
    let counted = || site.origin_counts("tandem_split_origin_vanished_clients");
    let mut curl = site.curl_at(harmful(site.volunteer, Harm::Stall), "/bytes/300000/2");
    curl.args(["--limit-rate", "1G"]).stdout(Stdio::piped());
    let mut curl = curl.spawn().expect("curl runs");
    let mut begun = [0; 1000];
    let mut out = curl.stdout.take().expect("a pipe");
    out.read_exact(&mut begun).expect("it begins");
    assert!(body(300_000, 2).starts_with(&begun));
    assert_eq!(counted(), 0);
    // A client that hangs is ended by whoever waits for it.
    curl.kill().expect("it still waits");
    curl.wait().expect("it ends");
    eventually("it is counted", || counted() == 1);
    assert_eq!(
        site.origin_counts("tandem_split_origin_refused_by_clients"),
        0
    );
}

#[test]
fn a_volunteer_that_answers_for_another_site_is_refused_by_the_certificate_and_counted() {
    let site = Site::new();
    let port = site.volunteer.port();
    for (number, program) in [(1, "curl"), (2, "openssl")] {
        let mut command = Command::new(program);
        match program {
            "curl" => command
                .args(["--silent", "--noproxy", "*", "--cacert", site.pki.ca()])
                .args(["--resolve", &format!("bank.test:{port}:127.0.0.1")])
                .arg(format!("https://bank.test:{port}/bytes/1/1")),
            _ => command
                .args(["s_client", "-tls1_2", "-CAfile", site.pki.ca()])
                .args(["-verify_return_error", "-verify_hostname", "bank.test"])
                .args(["-servername", "bank.test"])
                .args(["-connect", &site.volunteer.to_string()]),
        };
        let out = tried(&mut command);
        assert!(!out.status.success(), "{program}");
        eventually("it is counted", || {
            site.origin_counts("tandem_split_origin_misdirected") == number
        });
    }
    eventually("OpenSSL has said why", || {
        site.origin_counts("tandem_split_origin_distrusted") > 0
    });
    assert_eq!(site.origin_counts("tandem_split_origin_requests"), 0);
}

#[test]
fn what_is_not_public_does_not_come_through() {
    let site = Site::new();
    let status = |curl: &mut Command| {
        let out = ran(curl.args(["--output", "/dev/null", "--write-out", "%{http_code}"]));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    assert_eq!(status(&mut site.curl("/cookie")), "403");
    assert_eq!(status(&mut site.curl("/private")), "403");
    assert_eq!(
        status(site.curl("/bytes/1/1").args(["--request", "TRACE"])),
        "405"
    );
    assert_eq!(
        status(
            site.curl("/bytes/1/1")
                .args(["--header", "Host: other.test"])
        ),
        "421"
    );
    assert_eq!(site.origin_counts("tandem_split_origin_not_public"), 2);

    let port = site.volunteer.port();
    let other = format!("https://other.test:{port}/bytes/1/1");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--insecure", "--noproxy", "*", "--resolve"])
        .arg(format!("other.test:{port}:127.0.0.1"))
        .args(["--header", "Host: split.test"])
        .arg(other);
    assert_eq!(status(&mut curl), "421", "by the name in the hello");
    assert_eq!(
        site.origin_counts("tandem_split_origin_misdirected"),
        2,
        "each once"
    );

    ran(site.curl("/bytes/1/9").args([
        "--header",
        "Cookie: id=secret",
        "--header",
        "Authorization: Basic secret",
    ]));
    let seen = site.server.seen.lock().expect("nobody panics there");
    let heads = seen.join("");
    assert!(heads.contains("/bytes/1/9"), "{heads}");
    assert!(
        !heads.contains("secret") && !heads.contains("other.test"),
        "{heads}"
    );
}

#[test]
fn an_answer_that_is_cut_behind_the_origin_is_no_whole_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
            let _ = stream.write_all(&body(500_000, 1));
        }
    });
    let site = Site::in_front_of(address);
    let out = tried(&mut site.curl("/cut"));
    assert!(
        !out.status.success(),
        "{} bytes taken for all",
        out.stdout.len()
    );
    assert!(body(500_000, 1).starts_with(&out.stdout));
}

#[test]
fn a_volunteer_is_no_relay_for_anything_but_tls() {
    let site = Site::new();
    for noise in [
        &b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"[..],
        b"CONNECT example.com:443 HTTP/1.1\r\n\r\n",
        b"\x05\x01\x00",
        // A record of TLS, and no ClientHello.
        b"\x17\x03\x03\x00\x00",
        b"\x16\x03\x03\x00\x04\x02\x00\x00\x00",
    ] {
        let mut stream = TcpStream::connect(site.volunteer).expect("it listens");
        stream.write_all(noise).expect("it reads");
        let mut answer = Vec::new();
        // Closed, or reset, and nothing said.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    eventually("each is counted", || {
        site.volunteer_counts("tandem_split_volunteer_not_tls") == 5
    });
    assert_eq!(site.origin_counts("tandem_split_origin_connections"), 0);
}
