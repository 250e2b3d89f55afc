//! What of heads passes the origin: no header of a request that is not known to be harmless, no
//! redirect into the clear, no answer that may be private.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;

use crate::common::{Site, ran};

/// A server that answers each target with the head, and the body, that it is told; and the heads of
/// its requests.
fn server(
    answer: impl Fn(&str) -> String + Send + 'static,
) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (heard, hears) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let target = head.split(' ').nth(1).unwrap_or_default();
            let _ = stream.write_all(answer(target).as_bytes());
            let _ = heard.send(head);
        }
    });
    (address, hears)
}

/// An answer with these header lines.
fn answer(status: &str, lines: &str, body: &str) -> String {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\n{lines}Content-Length: {len}\r\n\r\n{body}")
}

#[test]
fn a_redirect_of_the_server_into_the_clear_leads_to_the_site_itself() {
    // Somebody answers in the site's name, at the port that the server behind tells clients of.
    let (liar, lied) = server(|_| answer("200 OK", "", "forged"));
    let port = liar.port();
    let lines = format!(
        "Location: http://split.test:{port}/dir/\r\n\
         Content-Location: HTTP://SPLIT.test.:{port}/dir/\r\n\
         Refresh: 0; url=http://a@split.test:{port}/dir/\r\n\
         Link: <http://split.test:{port}/a.css>; rel=preload, <http://other.test/>; rel=next\r\n"
    );
    let (behind, _heard) = server(move |target| match target {
        "/dir" => answer("301 Moved Permanently", &lines, ""),
        _ => answer("200 OK", "", "right"),
    });
    let site = Site::in_front_of(behind);
    let out = ran(site
        .curl("/dir")
        .args(["--location", "--include", "--resolve"])
        .arg(format!("split.test:{port}:127.0.0.1")));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let https = format!("https://split.test:{}", site.volunteer.port());
    for line in [
        format!("\r\nlocation: {https}/dir/\r\n"),
        format!("\r\ncontent-location: {https}/dir/\r\n"),
        format!("\r\nrefresh: 0; url={https}/dir/\r\n"),
        format!("\r\nlink: <{https}/a.css>; rel=preload, <http://other.test/>; rel=next\r\n"),
    ] {
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.ends_with("right"), "{text}");
    assert!(lied.try_recv().is_err(), "nobody asked the liar");
    assert_eq!(
        site.origin_counts("tandem_split_origin_secured_locations"),
        4
    );
}

#[test]
fn no_header_reaches_the_server_that_is_not_known_to_be_harmless() {
    let (behind, heard) = server(|_| answer("200 OK", "", "x"));
    let site = Site::in_front_of(behind);
    let mut curl = site.curl("/");
    curl.args(["--header", "Accept-Language: de"]);
    for name in [
        "Client-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "Via",
        "X-Api-Key",
        "X-Remote-User",
        "X-Forwarded-For",
        "X-Unheard-Of",
        "Cookie",
        "Authorization",
    ] {
        curl.args(["--header", &format!("{name}: 127.0.0.1")]);
    }
    assert_eq!(ran(&mut curl).stdout, b"x");
    let head = heard.recv().expect("it was asked").to_lowercase();
    let names: Vec<&str> = head
        .lines()
        .skip(1)
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    for name in ["host", "user-agent", "accept-language", "x-forwarded-proto"] {
        assert!(names.contains(&name), "{name} in {head}");
    }
    assert!(!head.contains("127.0.0.1"), "{head}");
}

#[test]
fn an_answer_that_may_be_private_is_refused_however_that_is_written() {
    const PRIVATE: [&str; 6] = [
        "public private",
        "max-age=1;private",
        "public\tprivate",
        "public, \"private\"",
        "public\r\nCache-Control: private",
        "max-age=1; public",
    ];
    let (behind, _heard) = server(|target| {
        let index = target.trim_start_matches('/').parse::<usize>().ok();
        let value = index.and_then(|index| PRIVATE.get(index).copied());
        let value = value.unwrap_or("public, max-age=\"1\"");
        answer("200 OK", &format!("Cache-Control: {value}\r\n"), "x")
    });
    let site = Site::in_front_of(behind);
    let status = |path: &str| {
        let out =
            ran(site
                .curl(path)
                .args(["--output", "/dev/null", "--write-out", "%{http_code}"]));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    for (index, value) in PRIVATE.iter().enumerate() {
        assert_eq!(status(&format!("/{index}")), "403", "{value:?}");
    }
    assert_eq!(status("/public"), "200");
    assert_eq!(site.origin_counts("tandem_split_origin_not_public"), 6);
}
