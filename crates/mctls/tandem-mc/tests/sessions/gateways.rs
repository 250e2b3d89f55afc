//! A real curl and a real nginx, which know nothing of contexts, with the gateways between them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use tandem_mc::certificates::For;

use super::BLOCKS;
use super::common::{Daemon, PATIENCE, Place, Ran, page, program};

/// An nginx that serves the place's site, until it is dropped.
pub(super) struct Nginx {
    child: Child,
    pub(super) address: String,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    pub(super) fn start(place: &Place) -> Self {
        // The port is free again when it is tried; if somebody was faster, another is.
        (0..5)
            .find_map(|_| Self::try_at(place, free_port()))
            .expect("nginx starts")
    }

    fn try_at(place: &Place, port: u16) -> Option<Self> {
        let folder = place.text("");
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid {folder}/nginx.pid;\nevents {{}}\nhttp {{\n\
             access_log off;\n{temporary}gzip on; gzip_proxied any; gzip_types text/plain;\n\
             default_type text/plain;\nserver {{ listen 127.0.0.1:{port}; root {folder}/site;\n\
             underscores_in_headers on;
             location /up/ {{ dav_methods PUT; create_full_put_path on; client_max_body_size 9m; }}
             location /claims {{ return 200 \"$http_x_client_ip$http_x_original_url$http_x_api_key\"; }}
             location /echo {{ return 200 \"$http_x_forwarded_for|$http_x_forwarded_proto|$host\"; }}\n\
             location /moved {{ return 302 https://page.example/echo; }}\n}} }}\n"
        );
        place.write("nginx.conf", &config);
        let (config, log) = (place.text("nginx.conf"), place.text("nginx.log"));
        let mut child = Command::new("nginx")
            .args(["-p", &folder, "-c", &config, "-e", &log])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let address = format!("127.0.0.1:{port}");
        while TcpStream::connect(&address).is_err() {
            if child.try_wait().expect("a child").is_some() {
                return None;
            }
            std::thread::yield_now();
        }
        Some(Self { child, address })
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// Whether both programs are there; if not, that is noted.
pub(super) fn are_there() -> bool {
    let missing = ["curl", "nginx"].into_iter().find(|name| {
        let mut asked = Command::new(name);
        asked.arg(if *name == "curl" { "--version" } else { "-v" });
        asked.stdout(Stdio::null()).stderr(Stdio::null());
        !asked.status().is_ok_and(|status| status.success())
    });
    if let Some(name) = missing {
        tandem_testkit::skipped(format!("the gateways' test needs {name}"));
    }
    missing.is_none()
}

pub(super) fn server_gateway(place: &Place, to: &str) -> Daemon {
    let files = place.issue("page.example", For::Server);
    place.write("server.toml", "pass = [\"X-Api-Key\"]\n");
    let (trust, config) = (place.text("ca.pem"), place.text("server.toml"));
    Daemon::start(
        &files,
        &[
            "gateway", "server", "--to", to, "--trust", &trust, "--config", &config,
        ],
    )
}

pub(super) fn client_gateway(place: &Place, server: &str, via: &[&str]) -> Daemon {
    let settings =
        format!("[[site]]\nname = \"page.example\"\nconnect = {server:?}\nvia = {via:?}\n");
    place.write("client.toml", &settings);
    let (trust, config) = (place.text("ca.pem"), place.text("client.toml"));
    Daemon::ready(program().args([
        "gateway",
        "client",
        "--trust",
        &trust,
        "--config",
        &config,
        "--listen",
        "127.0.0.1:0",
        "--timeout",
        PATIENCE,
    ]))
}

pub(super) fn curl(gateway: &Daemon, arguments: &[&str]) -> Ran {
    let proxy = format!("http://{}", gateway.address);
    let mut command = Command::new("curl");
    command.args(["-q", "-sS", "--max-time", PATIENCE, "--noproxy", ""]);
    command.args(["--proxy", &proxy]).args(arguments);
    Ran::of(command.stdin(Stdio::null()))
}

pub(super) fn text(ran: &Ran) -> &str {
    std::str::from_utf8(&ran.stdout).expect("text")
}

#[test]
fn an_unmodified_client_and_server_meet_by_two_gateways_and_a_filter() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    place.write("site/long.txt", &page().repeat(10));
    let nginx = Nginx::start(&place);
    let server = server_gateway(&place, &nginx.address);
    let filter = place.middlebox("filter.example", "filter", BLOCKS);
    let via = format!("filter.example@{}=filter", filter.address);
    let gateway = client_gateway(&place, &server.address, &[&via]);
    let site = |path: &str| format!("http://page.example{path}");

    let ran = curl(&gateway, &[&site("/index.html"), &site("/long.txt")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        text(&ran),
        page() + &page().repeat(10),
        "two on one connection"
    );
    // Compressed by the server, in chunks.
    let ran = curl(&gateway, &["--compressed", "-i", &site("/long.txt")]);
    let head = text(&ran).split("\r\n\r\n").next().expect("a head");
    assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
    assert!(text(&ran).ends_with(&page().repeat(10)));
    let ran = curl(&gateway, &["-r", "3-6", &site("/index.html")]);
    assert_eq!(text(&ran), &page()[3..7]);
    let ran = curl(&gateway, &["-I", &site("/index.html"), &site("/none")]);
    let status = |one: &&str| one.starts_with("HTTP/1.1");
    let lines: Vec<&str> = text(&ran).lines().filter(status).collect();
    assert_eq!(
        lines,
        ["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found"],
        "{ran:?}"
    );
    // As the host itself, as with an entry in /etc/hosts.
    let direct = format!("http://{}/index.html", gateway.address);
    let ran = curl(
        &gateway,
        &["--noproxy", "*", "-H", "Host: page.example", &direct],
    );
    assert_eq!(text(&ran), page());

    // What anybody can write does not reach the server, and its links lead back.
    let lie = ["-H", "X-Forwarded-For: 192.0.2.1", &site("/echo")];
    assert_eq!(text(&curl(&gateway, &lie)), "|https|page.example");
    // nginx reads `_` and `-` as the same here, as many do.
    let lies = "X_Client_IP: 192.0.2.1\nX-Original-URL: /\nX-Api-Key: one";
    let lies = lies.lines().flat_map(|line| ["-H", line]);
    let claims = site("/claims");
    let lies: Vec<&str> = lies.chain([claims.as_str()]).collect();
    assert_eq!(text(&curl(&gateway, &lies)), "one");
    let ran = curl(&gateway, &["-L", &site("/moved")]);
    assert_eq!(text(&ran), "|https|page.example");
    // The server answers before it has read a body, which it does not want, or which is too long.
    for (times, answer) in [
        (10, "|https|page.example"),
        (30, "413 Request Entity Too Large"),
    ] {
        place.write("upload", &page().repeat(times));
        let body = format!("@{}", place.text("upload"));
        let upload = ["--data-binary", &body, "-H", "Expect:", &site("/echo")];
        let ran = curl(&gateway, &upload);
        assert!(text(&ran).contains(answer), "{ran:?}");
    }

    let ran = curl(&gateway, &["-i", &site("/%67ames.html")]);
    assert!(text(&ran).starts_with("HTTP/1.1 403"), "{ran:?}");
    let words = "filter.example (middlebox 1) blocked the exchange";
    assert!(text(&ran).contains(words), "{ran:?}");
    // The same server, by the program that knows contexts.
    let ran = Ran::of(&mut place.get("/index.html", &server.address, &[&via], &["--json"]));
    assert_eq!(
        (ran.code, ran.report().status),
        (Some(0), Some(200)),
        "{ran:?}"
    );
    assert!(ran.report().contexts[0].saw.contains(&1), "{ran:?}");
    drop(nginx);
    let ran = curl(&gateway, &["-i", &site("/index.html")]);
    assert!(text(&ran).starts_with("HTTP/1.1 502"), "{ran:?}");
}

#[test]
fn a_clients_gateway_is_no_open_proxy_and_intercepts_nothing() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    let server = place.server(&[]);
    let gateway = client_gateway(&place, &server.address, &[]);
    let ran = curl(&gateway, &["http://page.example/", "http://page.example/"]);
    assert_eq!(text(&ran), page().repeat(2));
    let ran = curl(&gateway, &["-i", "http://other.example/"]);
    assert!(text(&ran).starts_with("HTTP/1.1 403"), "{ran:?}");
    assert!(text(&ran).contains("it knows page.example"), "{ran:?}");
    let ran = curl(
        &gateway,
        &["-w", "%{http_connect}", "https://page.example/"],
    );
    assert_eq!((ran.code, text(&ran)), (Some(56), "501"), "{ran:?}");
    drop(server);
    let ran = curl(&gateway, &["-i", "http://page.example/"]);
    assert!(text(&ran).starts_with("HTTP/1.1 502"), "{ran:?}");
    // Two hosts, two lengths: what two could read otherwise is refused.
    for odd in [
        "Host: page.example\r\nHost: x",
        "Host: page.example\r\nContent-Length: +1",
    ] {
        let mut stream = TcpStream::connect(&gateway.address).expect("it listens");
        let request = format!("GET / HTTP/1.1\r\n{odd}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
    }
}

/// What a server says to these bytes, up to the end of its connection.
fn said(address: &str, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    // Longer than any of the gateways' own waits would be a failure.
    let patience = std::time::Duration::from_secs(20);
    stream.set_read_timeout(Some(patience)).expect("a socket");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    let shown = String::from_utf8_lossy(&answer);
    ended.unwrap_or_else(|error| panic!("{error} behind {shown:.300}"));
    answer
}

#[test]
fn a_client_that_wants_the_connection_to_end_sees_its_end() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    place.write("site/long.txt", &page().repeat(10));
    let nginx = Nginx::start(&place);
    let server = server_gateway(&place, &nginx.address);
    let gateway = client_gateway(&place, &server.address, &[]);
    // Compressed by nginx, in chunks: HTTP/1.0 has none.
    let asks = "Host: page.example\r\nAccept-Encoding: gzip\r\n";
    let answer = said(
        &gateway.address,
        &format!("GET /long.txt HTTP/1.0\r\n{asks}\r\n"),
    );
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.expect("a head") + 4);
    let head = String::from_utf8_lossy(head);
    assert!(!head.contains("Transfer-Encoding"), "{head}");
    assert!(head.contains("Connection: close"), "{head}");
    let mut text = String::new();
    let whole = flate2::read::GzDecoder::new(body).read_to_string(&mut text);
    assert!(
        whole.is_ok() && text == page().repeat(10),
        "{head} {whole:?}"
    );
    for connection in ["close, TE", "TE ,Close", "TE\r\nConnection: close"] {
        let asks = format!("Host: page.example\r\nConnection: {connection}\r\n");
        let answer = said(
            &gateway.address,
            &format!("GET /long.txt HTTP/1.1\r\n{asks}\r\n"),
        );
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.ends_with(&page()), "{connection}: {answer:.300}");
    }
}

/// The address of a web server that answers one request, which ends like this, with these bytes; it
/// gives back what it was asked.
fn behind(end: &'static [u8], answer: &'static [u8]) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the gateway");
        let patience = std::time::Duration::from_secs(20);
        stream.set_read_timeout(Some(patience)).expect("a socket");
        let mut asked = Vec::new();
        while !asked.ends_with(end) {
            let mut piece = [0; 1 << 12];
            let length = stream.read(&mut piece).expect("a request");
            assert!(length > 0, "{}", String::from_utf8_lossy(&asked));
            asked.extend_from_slice(&piece[..length]);
        }
        stream.write_all(answer).expect("sent");
        String::from_utf8(asked).expect("text")
    });
    (address, serving)
}

#[test]
fn trailers_and_extensions_of_chunks_do_not_reach_the_server() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    let (behind, serving) = behind(b"0\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n");
    let server = server_gateway(&place, &behind);
    let gateway = client_gateway(&place, &server.address, &[]);
    let head = "POST / HTTP/1.1\r\nHost: page.example\r\nConnection: close\r\n\
        Transfer-Encoding: chunked\r\n";
    let body = "5;x=y\r\nhello\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
    let answer = said(&gateway.address, &format!("{head}\r\n{body}"));
    assert!(answer.starts_with(b"HTTP/1.1 204"), "{answer:?}");
    let asked = serving.join().expect("it has answered");
    assert!(
        asked.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        "{asked}"
    );
}

#[test]
fn an_answer_that_is_cut_short_is_no_whole_one_in_http_1_0() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    let cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let (behind, serving) = behind(b"\r\n\r\n", cut);
    let server = server_gateway(&place, &behind);
    let gateway = client_gateway(&place, &server.address, &[]);
    let mut stream = TcpStream::connect(&gateway.address).expect("it listens");
    let request = b"GET / HTTP/1.0\r\nHost: page.example\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut answer = Vec::new();
    let ended = stream
        .read_to_end(&mut answer)
        .map_err(|error| error.kind());
    let reset = std::io::ErrorKind::ConnectionReset;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        ended == Err(reset) || !answer.contains(" 200 "),
        "{ended:?} {answer}"
    );
    serving.join().expect("it has answered");
}

#[test]
fn gateways_that_cannot_be_do_not_start() {
    let place = Place::new();
    let (trust, config) = (place.text("ca.pem"), place.text("client.toml"));
    for (settings, listen, word) in [
        ("", "127.0.0.1:0", "[[site]]"),
        ("[[site]]\nname = \"a.example\"", "0.0.0.0:0", "loopback"),
        ("[[site]]\nname = \"a.example:1\"", "127.0.0.1:0", "name"),
        (
            "[[site]]\nname = \"a.example\"\nvia = [\"x\"]",
            "127.0.0.1:0",
            "HOST:PORT",
        ),
        (
            "[[site]]\nname = \"a.example\"\nvia = [\"h:1=cache\"]",
            "127.0.0.1:0",
            "cache",
        ),
    ] {
        place.write("client.toml", settings);
        let mut command = program();
        command.args(["gateway", "client", "--trust", &trust, "--config", &config]);
        let ran = Ran::of(command.args(["--listen", listen]));
        assert!(ran.failed_with(2).contains(word), "{ran:?}");
    }
}
