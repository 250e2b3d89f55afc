//! Filters that speak ICAP decide: c-icap with three of its services, over real sessions. What
//! answers nonsense, or nothing, in place of an ICAP server is a fake, and says so.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tandem_mc::certificates::For;
use tandem_mc::report::{Outcome, Report};
use tandem_testkit::{free_port, has, skipped};

use super::common::{Counting, Daemon, PATIENCE, Place, Ran, page, program};
use super::gateways::{Nginx, are_there, client_gateway, curl, server_gateway, text};

/// Rights to read everything, and to change responses.
const WRITES: &str = "request-headers:read,response-headers:write,response-body:write";

/// c-icap with these lines in its settings, until it is dropped.
struct Cicap {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Cicap {
    /// `None`, and a note, where it is not installed.
    fn start(module: &str, lines: &str) -> Option<Self> {
        if !has(&["c-icap"]) {
            return None;
        }
        let modules = modules()?;
        if !modules.join(module).exists() {
            skipped(format_args!("needs c-icap's {module}"));
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let (at, modules) = (folder.path().display(), modules.display());
        let settings = format!(
            "PidFile {at}/pid\nCommandsSocket {at}/ctl\nPort 127.0.0.1:{port}\nTmpDir {at}\n\
             ServerLog {at}/server.log\nAccessLog {at}/access.log\nStartServers 1\nMaxServers 1\n\
             ThreadsPerChild 8\nMinSpareThreads 1\nMaxSpareThreads 8\nModulesDir {modules}\n\
             ServicesDir {modules}\nTemplateDir /usr/share/c_icap/templates/\n\
             TemplateDefaultLanguage en\nLoadMagicFile /etc/c-icap/c-icap.magic\n\
             Service service {module}\n{lines}\n"
        );
        let path = folder.path().join("c-icap.conf");
        std::fs::write(&path, settings).expect("own folder");
        let mut child = Command::new("c-icap")
            .args(["-N", "-f"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is installed");
        let address = format!("127.0.0.1:{port}");
        while TcpStream::connect(&address).is_err() {
            let ended = child.try_wait().expect("ours");
            assert!(ended.is_none(), "c-icap has not started: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self {
            child,
            address,
            _folder: folder,
        })
    }
}

impl Drop for Cicap {
    fn drop(&mut self) {
        // It ends its own processes then; it may have ended already.
        let process = self.child.id().to_string();
        let _ = Command::new("kill").arg(process).status();
        let _ = self.child.wait();
    }
}

/// Where Debian has its modules.
fn modules() -> Option<PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib").ok()?;
    let mut folders = libraries.filter_map(|entry| Some(entry.ok()?.path().join("c_icap")));
    folders.find(|folder| Path::new(folder).is_dir())
}

/// A middlebox with these settings, and how it is named on the path; it logs into `log`.
fn icap(place: &Place, settings: &str) -> (Daemon, String) {
    let files = place.issue("icap.example", For::Middlebox);
    place.write("box.toml", settings);
    let log = std::fs::File::create(place.path("log")).expect("own folder");
    let mut command = program();
    command.args(["box", "--kind", "icap", "--config", &place.text("box.toml")]);
    command.args(["--listen", "127.0.0.1:0", "--timeout", PATIENCE]);
    command.arg("--cert").arg(&files.cert);
    command.arg("--key").arg(&files.key);
    let daemon = Daemon::heard(command.stderr(log));
    let via = format!("icap.example@{}", daemon.address);
    (daemon, via)
}

/// A fetch through it, and what came out.
fn fetch(place: &Place, path: &str, server: &str, via: &str, contexts: &str) -> (Ran, String) {
    let out = place.text("out");
    let _ = std::fs::remove_file(&out);
    let more = ["--contexts", contexts, "--json", "-o", &out];
    let ran = Ran::of(&mut place.get(path, server, &[via], &more));
    (ran, std::fs::read_to_string(&out).unwrap_or_default())
}

#[track_caller]
fn came(fetched: (Ran, String), text: &str) -> Report {
    let (ran, out) = fetched;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(out == text, "{out:.200}");
    ran.report()
}

#[track_caller]
fn was_blocked(fetched: (Ran, String)) {
    let (ran, out) = fetched;
    let words = "icap.example (middlebox 1) blocked the exchange";
    assert_eq!(ran.failed_with(1), words);
    assert_eq!(ran.report().outcome, Outcome::Blocked);
    assert!(out.is_empty(), "{out:.200}");
}

/// What a middlebox is set to that asks this server about responses.
fn about_responses(address: &str) -> String {
    format!("respmod = \"icap://{address}/service\"")
}

/// c-icap's content filter with these rules, written without the prefix of their names.
fn content_filter(rules: &str) -> Option<Cicap> {
    let rules = rules.replace("content.", "srv_content_filtering.");
    Cicap::start("srv_content_filtering.so", &rules)
}

#[test]
fn a_content_filter_blocks_what_it_may_only_read() {
    let rules = "content.Match Games body /games/ score=10\n\
                 content.Profile default block score{Games>5}";
    let Some(server) = content_filter(rules) else {
        return;
    };
    let place = Place::new();
    let web = place.server(&[]);
    let (_box, via) = icap(&place, &about_responses(&server.address));
    let via = format!("{via}=icap");
    for contexts in ["4", "1"] {
        let got = came(fetch(&place, "/", &web.address, &via, contexts), &page());
        assert!(
            got.contexts.iter().all(|row| row.changed.is_empty()),
            "{got:?}"
        );
        was_blocked(fetch(&place, "/games.html", &web.address, &via, contexts));
    }
}

#[test]
fn a_content_filter_replaces_words_where_it_may_write() {
    let rules = "content.Match Same body /same/g score=1 info{Other}=SIMILAR\n\
                 content.Profile default replace score{Same>0} replaceInfo=Other";
    let Some(server) = content_filter(rules) else {
        return;
    };
    let place = Place::new();
    let web = place.server(&[]);
    let (_box, via) = icap(&place, &about_responses(&server.address));
    let expected = page().replace("same", "SIMILAR");
    assert!(expected.len() > page().len());
    for (contexts, grants) in [("4", WRITES), ("1", "all:write")] {
        let via = format!("{via}={grants}");
        let got = came(fetch(&place, "/", &web.address, &via, contexts), &expected);
        let last = got.contexts.last().expect("a context");
        assert!(last.changed.contains(&1), "{got:?}");
        came(
            fetch(&place, "/games.html", &web.address, &via, contexts),
            "games",
        );
    }
    // The same server, and no right to change anything.
    was_blocked(fetch(
        &place,
        "/",
        &web.address,
        &format!("{via}=icap"),
        "4",
    ));
}

#[test]
fn a_filter_of_addresses_sees_requests_alone_and_may_change_them() {
    let place = Place::new();
    place.write("bad.txt", "page.example/games.html\n");
    let rules = format!(
        "url_check.LookupTableDB bad url hash:{} \"bad\"\nurl_check.Profile default block bad\n\
         url_check.Profile default pass ALL\n\
         url_check.DefaultAction pass HttpHeaderReplace User-Agent nobody",
        place.text("bad.txt")
    );
    let Some(server) = Cicap::start("srv_url_check.so", &rules) else {
        return;
    };
    let web = place.server(&[]);
    let (_box, via) = icap(
        &place,
        &format!("reqmod = \"icap://{}/service\"", server.address),
    );
    let writes = format!("{via}=request-headers:write");
    let got = came(fetch(&place, "/", &web.address, &writes, "4"), &page());
    assert!(got.contexts[0].changed.contains(&1), "{got:?}");
    assert!(
        got.contexts[1..].iter().all(|row| row.saw.is_empty()),
        "{got:?}"
    );
    was_blocked(fetch(&place, "/games.html", &web.address, &writes, "4"));
    // It changes each request, which a reader may not.
    was_blocked(fetch(
        &place,
        "/",
        &web.address,
        &format!("{via}=request-headers:read"),
        "4",
    ));
}

#[test]
fn a_long_body_is_streamed_and_a_connection_serves_for_many_messages() {
    let Some(server) = Cicap::start("srv_echo.so", "") else {
        return;
    };
    let place = Place::new();
    // Its connection serves for the next message, too.
    let web = place.server(&[]);
    let counting = Counting::before(&server.address);
    let (daemon, via) = icap(&place, &about_responses(&counting.address));
    let via = format!("{via}={WRITES}");
    for _ in 0..3 {
        came(fetch(&place, "/", &web.address, &via, "4"), &page());
    }
    let pieces = counting.pieces();
    assert!(
        pieces.iter().all(|piece| piece.connection == 0),
        "{pieces:?}"
    );
    let before = peak(&daemon);
    let text = "Nothing here is to be blocked, and there is a lot of it.\n".repeat(400_000);
    place.write("site/long.txt", &text);
    came(fetch(&place, "/long.txt", &web.address, &via, "4"), &text);
    let more = peak(&daemon) - before;
    println!(
        "{} bytes of body, {more} KiB more memory at the middlebox",
        text.len()
    );
    assert!(more < 8 << 10, "{more} KiB");
}

#[test]
fn what_unmodified_programs_send_and_ask_for_passes_in_both_directions() {
    if !are_there() {
        return;
    }
    let Some(server) = Cicap::start("srv_echo.so", "") else {
        return;
    };
    let place = Place::new();
    place.write("site/long.txt", &page().repeat(10));
    place.write("upload", &page().repeat(20));
    let nginx = Nginx::start(&place);
    let web = server_gateway(&place, &nginx.address);
    let service = format!("icap://{}/service", server.address);
    let settings = format!("reqmod = \"{service}\"\nrespmod = \"{service}\"");
    let (_box, via) = icap(&place, &settings);
    let writes = format!("{WRITES},request-body:write").replacen("read", "write", 1);
    for grants in ["icap", &writes] {
        let gateway = client_gateway(&place, &web.address, &[&format!("{via}={grants}")]);
        let site = |path: &str| format!("http://page.example{path}");
        let name = format!("/up/{}", grants.len());
        let sent = curl(&gateway, &["-T", &place.text("upload"), &site(&name)]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
        let came = std::fs::read_to_string(place.path(&format!("site{name}")));
        assert!(came.is_ok_and(|came| came == page().repeat(20)), "{grants}");
        let ran = curl(&gateway, &[&site("/index.html"), &site("/long.txt")]);
        assert_eq!(
            text(&ran),
            page() + &page().repeat(10),
            "two on one connection"
        );
        // In chunks, without a body, and a part.
        let ran = curl(&gateway, &["--compressed", &site("/long.txt")]);
        assert_eq!(text(&ran), page().repeat(10));
        let ran = curl(&gateway, &["-I", &site("/index.html"), &site("/none")]);
        assert!(text(&ran).contains("404 Not Found"), "{ran:?}");
        let ran = curl(&gateway, &["-r", "3-6", &site("/index.html")]);
        assert_eq!(text(&ran), &page()[3..7]);
    }
}

#[test]
fn an_upload_is_blocked_or_replaced_as_the_rights_say() {
    if !are_there() {
        return;
    }
    let place = Place::new();
    place.write("upload", &page());
    let nginx = Nginx::start(&place);
    let web = server_gateway(&place, &nginx.address);
    let head = "PUT https://page.example/up/b HTTP/1.1\r\nHost: page.example\r\n\r\n";
    let says = message("req-hdr=0, req-body=N", head, "5\r\nother\r\n0\r\n\r\n");
    let (server, _) = fake("", "\r\n0\r\n\r\n", says);
    let (_box, via) = icap(&place, &format!("reqmod = \"icap://{server}/service\""));
    let upload = |grants: &str| {
        let gateway = client_gateway(&place, &web.address, &[&format!("{via}={grants}")]);
        let ran = curl(
            &gateway,
            &[
                "-i",
                "-T",
                &place.text("upload"),
                "http://page.example/up/a",
            ],
        );
        text(&ran).to_owned()
    };
    let answer = upload("icap");
    assert!(
        answer.contains("403 Forbidden") && answer.contains("icap.example"),
        "{answer}"
    );
    assert!(!place.path("site/up/a").exists() && !place.path("site/up/b").exists());
    let answer = upload("request-headers:write,request-body:write");
    assert!(answer.contains("201 Created"), "{answer}");
    let came = std::fs::read_to_string(place.path("site/up/b")).expect("a file");
    assert_eq!(came, "other");
}

/// How much memory a process has had at most, in KiB.
fn peak(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id()));
    let status = status.expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.expect("the kernel says").parse().expect("a number")
}

/// A fake: an ICAP server that offers a preview, and says this to each message once it has come as
/// far as `until`. How often it was asked.
fn fake(preview: &'static str, until: &'static str, says: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // It ends with the process of the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, says) = (stream.expect("a client"), says.clone());
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let mut heard = Vec::new();
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut piece) {
                    heard.extend_from_slice(&piece[..length]);
                    let text = String::from_utf8_lossy(&heard);
                    if text.starts_with("OPTIONS") && text.ends_with("\r\n\r\n") {
                        heard.clear();
                        let options = format!(
                            "ICAP/1.0 200 OK\r\nMethods: REQMOD, RESPMOD\r\n{preview}Allow: 204\r\n\
                             Encapsulated: null-body=0\r\n\r\n"
                        );
                        let _ = stream.write_all(options.as_bytes());
                    } else if !text.starts_with("OPTIONS") && text.contains(until) {
                        heard.clear();
                        count.fetch_add(1, Ordering::SeqCst);
                        // Whoever has gone need not be told.
                        let _ = stream.write_all(&says);
                    }
                }
            });
        }
    });
    (address, asked)
}

/// An answer with this message in it.
fn message(parts: &str, head: &str, rest: &str) -> Vec<u8> {
    let parts = parts.replace('N', &head.len().to_string());
    format!("ICAP/1.0 200 OK\r\nEncapsulated: {parts}\r\n\r\n{head}{rest}").into_bytes()
}

#[test]
fn what_no_server_may_say_blocks_the_page_and_the_middlebox_stays() {
    const OK: &str = "HTTP/1.1 200 OK\r\n\r\n";
    let parts = "res-hdr=0, res-body=N";
    let chunks = format!("4000\r\n{}\r\n", "x".repeat(0x4000)).repeat(100);
    let place = Place::new();
    let web = place.server(&[]);
    for (what, says, why) in [
        (
            "no ICAP",
            b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            "an answer that is no ICAP/1.0",
        ),
        (
            "a failure",
            b"ICAP/1.0 500 Server error\r\n\r\n".to_vec(),
            "status 500",
        ),
        (
            "a second 100",
            b"ICAP/1.0 100 Continue\r\n\r\nICAP/1.0 100 Continue\r\n\r\n".to_vec(),
            "status 100",
        ),
        (
            "an endless head",
            [b"ICAP/1.0 200 OK\r\nX: ".to_vec(), vec![b'x'; 1 << 17]].concat(),
            "a head of more than 64 KiB",
        ),
        (
            "no parts",
            b"ICAP/1.0 200 OK\r\n\r\n".to_vec(),
            "an answer whose parts cannot be told",
        ),
        (
            "another side",
            message("req-hdr=0, null-body=N", "GET / HTTP/1.1\r\n\r\n", ""),
            "the ICAP server answers the request itself",
        ),
        (
            "no head",
            message("res-hdr=0, null-body=N", "nothing", ""),
            "an answer with a head that is no HTTP/1.1",
        ),
        (
            "an interim head",
            message("res-hdr=0, null-body=N", "HTTP/1.1 100 Go\r\n\r\n", ""),
            "the ICAP server's message is none that can be final",
        ),
        (
            "a body where none can be",
            message(parts, "HTTP/1.1 304 x\r\n\r\n", "0\r\n\r\n"),
            "the ICAP server's message has no place for its body",
        ),
        (
            "a body without chunks",
            message(parts, OK, "<p>plain\r\n"),
            "an answer with a chunk that is none",
        ),
        (
            "bytes behind",
            message(parts, OK, "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
            "bytes behind an answer",
        ),
        (
            "a body whose end does not come",
            message(parts, OK, "5\r\nother\r\n"),
            "no answer within 1s",
        ),
        (
            "a body that is too long for the page",
            message(parts, OK, &chunks),
            "the ICAP server's message is too long for what is left of this one",
        ),
    ] {
        for (contexts, grants) in [("4", WRITES), ("1", "all:write")] {
            println!("{what}, {contexts}");
            let (server, asked) = fake("Preview: 10\r\n", "0\r\n\r\n", says.clone());
            let settings = format!("icap-timeout = 1\n{}", about_responses(&server));
            let (mut daemon, via) = icap(&place, &settings);
            let via = format!("{via}={grants}");
            was_blocked(fetch(&place, "/", &web.address, &via, contexts));
            assert_eq!(asked.load(Ordering::SeqCst), 1, "it has spoken");
            let log = std::fs::read_to_string(place.path("log")).expect("it logs");
            assert!(log.contains(why), "{log}");
            let ended = daemon.child.try_wait().expect("ours");
            assert!(ended.is_none(), "it ends with the session: {ended:?}");
        }
    }
}

#[test]
fn lengths_in_a_servers_message_are_not_believed() {
    let place = Place::new();
    let web = place.server(&[]);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\nX: y\r\n\r\n";
    let says = message("res-hdr=0, res-body=N", head, "5\r\nother\r\n0\r\n\r\n");
    let (server, asked) = fake("Preview: 0\r\n", "0\r\n\r\n", says);
    let (_box, via) = icap(&place, &about_responses(&server));
    for (contexts, grants) in [("4", WRITES), ("1", "all:write")] {
        let via = format!("{via}={grants}");
        came(fetch(&place, "/", &web.address, &via, contexts), "other");
    }
    let none = message("res-hdr=0, null-body=N", head, "");
    let (server, of_none) = fake("Preview: 0\r\n", "0\r\n\r\n", none);
    let (_box, via) = icap(&place, &about_responses(&server));
    for (contexts, grants) in [("4", WRITES), ("1", "all:write")] {
        let via = format!("{via}={grants}");
        came(fetch(&place, "/", &web.address, &via, contexts), "");
    }
    for asked in [asked, of_none] {
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn a_server_that_is_down_or_silent_blocks_and_by_policy_does_not() {
    let place = Place::new();
    let web = place.server(&[]);
    let down = format!("127.0.0.1:{}", free_port());
    // It takes connections, and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let silent = silent
        .local_addr()
        .map(|at| (at.to_string(), silent))
        .expect("bound");
    // It says what it can do, and nothing more.
    let (mute, _) = fake("", "\u{0}never", Vec::new());
    let late = "no answer within 1s";
    for (server, why) in [(&down, "refused"), (&silent.0, late), (&mute, late)] {
        for policy in ["", "when-dead = \"fail-open\""] {
            let settings = format!("icap-timeout = 1\n{policy}\nrespmod = \"icap://{server}/s\"");
            let (_box, via) = icap(&place, &settings);
            let via = format!("{via}=icap");
            let began = Instant::now();
            let fetched = fetch(&place, "/", &web.address, &via, "4");
            let words = match policy {
                "" => {
                    was_blocked(fetched);
                    "fail-closed: blocked"
                }
                _ => {
                    came(fetched, &page());
                    "fail-open: passed on unchecked"
                }
            };
            let log = std::fs::read_to_string(place.path("log")).expect("it logs");
            assert!(log.contains(words) && log.contains(why), "{log}");
            println!("{server} {policy}: {:?}", began.elapsed());
        }
    }
}

#[test]
fn what_has_gone_on_is_not_replaced_and_the_end_of_a_bad_page_never_comes() {
    let place = Place::new();
    let web = place.server(&[]);
    let text = "long ".repeat(200_000);
    place.write("site/long.txt", &text);
    // It wants everything first, as a virus scanner does.
    let clean = b"ICAP/1.0 204 No Content\r\n\r\n".to_vec();
    let (server, _) = fake("", "\r\n0\r\n\r\n", clean);
    let (_box, via) = icap(&place, &about_responses(&server));
    came(
        fetch(
            &place,
            "/long.txt",
            &web.address,
            &format!("{via}={WRITES}"),
            "4",
        ),
        &text,
    );
    came(
        fetch(
            &place,
            "/long.txt",
            &web.address,
            &format!("{via}=icap"),
            "1",
        ),
        &text,
    );
    let head = "HTTP/1.1 403 Forbidden\r\n\r\n";
    let bad = message("res-hdr=0, res-body=N", head, "3\r\nNo!\r\n0\r\n\r\n");
    let (server, _) = fake("", "\r\n0\r\n\r\n", bad);
    let (_box, via) = icap(&place, &about_responses(&server));
    let writes = format!("{via}={WRITES}");
    was_blocked(fetch(&place, "/long.txt", &web.address, &writes, "4"));
    // What still waits can be replaced.
    let (ran, out) = fetch(&place, "/", &web.address, &writes, "4");
    assert_eq!(
        (ran.code, out.as_str(), ran.report().status),
        (Some(0), "No!", Some(403))
    );
}
