//! What goes wrong: wrong arguments, parts that are gone, cut off or silent. Each is an error that
//! says what it is, by an exit code that scripts can rely on.

mod common;

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use common::{Daemon, Place, Ran, program};
use tandem_mc::certificates::For;

#[test]
fn wrong_arguments_are_refused_in_a_line_that_says_what_is_right() {
    for (arguments, word) in [
        (
            &[
                "get",
                "https://a.example/",
                "--trust",
                "x",
                "--protocol",
                "tls",
            ][..],
            "mctls13",
        ),
        (&["get", "http://a.example/", "--trust", "x"], "https://"),
        (&["get", "https://a.example/"], "--trust"),
        (
            &[
                "get",
                "https://a.example/",
                "--trust",
                "x",
                "--via",
                "nowhere",
            ],
            "HOST:PORT",
        ),
        (
            &[
                "get",
                "https://a.example/",
                "--trust",
                "x",
                "--connect",
                "nowhere",
            ],
            "HOST:PORT",
        ),
        (
            &[
                "get",
                "https://a.example/",
                "--trust",
                "x",
                "--via",
                "h:1=filters",
            ],
            "filter",
        ),
        (
            &["get", "https://a.example/", "--trust", "x", "-H", "a b: c"],
            "NAME: VALUE",
        ),
        (
            &[
                "get",
                "https://a.example/",
                "--trust",
                "x",
                "--timeout",
                "0",
            ],
            "seconds",
        ),
        (
            &["get", "https://a.example/", "--trust", "/nonexistent"],
            "/nonexistent",
        ),
        (
            &["get", "https://a.example/", "--trust", "/dev/null"],
            "PEM",
        ),
        (&["explain", "--via", "h:1=9:read"], "request-headers"),
        (
            &["explain", "--via", "h:1", "--contexts", "3"],
            "--contexts",
        ),
        (
            &["explain", "--via", "h:1", "--contexts", "256"],
            "--contexts",
        ),
        (&["explain", "--discover"], "=DOMAIN"),
        (&["explain", "--discover=a b"], "no domain"),
        (&["explain", "--discover=192.0.2.1"], "no domain"),
        (&["explain", "--accept", "a.example"], "--discover"),
        (
            &["explain", "--discover=a.example", "--when-missing", "fail"],
            "--accept",
        ),
        (
            &["explain", "--discover=a.example", "--accept", "a=filters"],
            "filter",
        ),
        (
            &[
                "explain",
                "--discover=a.example",
                "--resolver",
                "dns.example",
            ],
            "192.0.2.53",
        ),
        (&["explain", "/nonexistent"], "/nonexistent"),
        (&["explain", "/dev/null"], "/dev/null"),
        (&["box", "--kind", "van"], "van"),
        (&["serve"], "--listen"),
        (&["nothing"], "nothing"),
    ] {
        let ran = Ran::of(program().args(arguments));
        assert!(ran.failed_with(2).contains(word), "{arguments:?}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
    let ran = Ran::of(&mut program());
    assert_eq!(ran.code, Some(2));
}

#[test]
fn settings_that_cannot_be_and_a_port_in_use_keep_a_daemon_from_starting() {
    let place = Place::new();
    let files = place.issue("box.example", For::Middlebox);
    let config = place.text("box.toml");
    let start = |kind: &str, settings: &str, listen: &str| {
        place.write("box.toml", settings);
        let mut command = program();
        command.args([
            "box", "--kind", kind, "--listen", listen, "--config", &config,
        ]);
        command
            .arg("--cert")
            .arg(&files.cert)
            .arg("--key")
            .arg(&files.key);
        Ran::of(&mut command)
    };
    for (kind, settings, word) in [
        ("filter", "", "block"),
        ("ids", "patterns = [\"\"]", "patterns"),
        ("tracker", "headers = [\"Host\"]", "Host"),
        ("null", "wrong = 1", "wrong"),
        ("cache", "memory = 10\nmax-body = 11", "max-body"),
        ("pacer", "", "rate"),
        ("pacer", "rate = 999", "rate"),
        ("balance", "", "backends"),
        ("balance", "backends = [\"nowhere\"]", "nowhere"),
        ("wan", "peer = \"far.example\"", "pair-key"),
        (
            "wan",
            &format!("peer = \"far.example\"\npair-key = {config:?}"),
            "64 hexadecimal",
        ),
        (
            "wan",
            "peer = \"far.example\"\npair-key = \"/nonexistent\"",
            "/nonexistent",
        ),
    ] {
        let ran = start(kind, settings, "127.0.0.1:0");
        assert!(ran.failed_with(2).contains(word), "{ran:?}");
    }
    // Strangers would reach what listens on this machine alone.
    for kind in ["null", "compress"] {
        for listen in ["0.0.0.0:0", "[::]:0"] {
            let ran = start(kind, "", listen);
            assert!(
                ran.failed_with(2).contains("allow = [\"*:443\"]"),
                "{ran:?}"
            );
        }
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let ran = start("null", "", &address);
    assert!(ran.failed_with(4).contains(&address), "{ran:?}");
}

#[test]
fn daemons_end_well_when_they_are_asked_to() {
    let place = Place::new();
    for mut daemon in [
        place.server(&[]),
        place.middlebox("box.example", "null", ""),
    ] {
        daemon.signal("TERM");
        assert_eq!(daemon.child.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn a_certificate_without_the_use_of_middleboxes_is_refused() {
    let place = Place::new();
    let server = place.server(&[]);
    // A server's certificate, at a middlebox.
    let files = place.issue("box.example", For::Server);
    let daemon = Daemon::start(&files, &["box", "--kind", "null"]);
    let via = format!("box.example@{}", daemon.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &[]));
    assert!(
        ran.failed_with(1).contains("box.example (middlebox 1)"),
        "{ran:?}"
    );
}

#[test]
fn a_middlebox_that_is_gone_is_an_error_with_its_address() {
    let place = Place::new();
    let server = place.server(&[]);
    let gone = place.middlebox("box.example", "null", "");
    let address = gone.address.clone();
    drop(gone);
    let via = format!("box.example@{address}");
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &[]));
    assert!(ran.failed_with(1).contains(&address), "{ran:?}");
    let near = place.middlebox("near.example", "null", "");
    let far = format!("near.example@{}", near.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&far, &via], &[]));
    let words = ran.failed_with(1);
    assert!(
        words.contains("near.example") || words.contains("path"),
        "{ran:?}"
    );
}

#[test]
fn a_middlebox_connects_only_where_its_settings_allow_and_it_is_said_where_to_look() {
    let place = Place::new();
    let server = place.server(&[]);
    let strict = place.middlebox("strict.example", "null", "allow = [\"*:443\"]");
    let via = format!("strict.example@{}", strict.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &[]));
    assert!(ran.failed_with(1).contains("`allow`"), "{ran:?}");
}

#[test]
fn a_middlebox_that_says_nothing_is_named_after_the_time_that_was_asked_for() {
    let place = Place::new();
    let server = place.server(&[]);
    let silent = place.middlebox("silent.example", "null", "");
    silent.signal("STOP");
    let via = format!("silent.example@{}", silent.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &["--timeout", "0.5"]));
    let words = "silent.example (middlebox 1) did not answer within 500ms";
    assert_eq!(ran.failed_with(1), words);
}

/// More than all buffers on the way hold.
const LENGTH: u64 = 1 << 30;

/// A fetch of a file without an end in sight, of which some has come; `None` where the session was
/// not there in time.
fn under_way(
    place: &Place,
    server: &Daemon,
    via: &str,
    timeout: &str,
) -> Option<std::process::Child> {
    let file = std::fs::File::create(place.path("site/long.bin")).expect("a file");
    file.set_len(LENGTH).expect("a sparse file");
    let more = ["--timeout", timeout];
    let mut child = place
        .get("/long.bin", &server.address, &[via], &more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for this test");
    let mut some = vec![0; 1 << 16];
    let stdout = child.stdout.as_mut().expect("it is piped");
    if stdout.read_exact(&mut some).is_ok() {
        return Some(child);
    }
    child.wait().expect("it has ended");
    None
}

/// What becomes of it.
fn ended(mut child: std::process::Child) -> (u64, String) {
    let mut stdout = child.stdout.take().expect("it is piped");
    let rest = std::io::copy(&mut stdout, &mut std::io::sink()).expect("it ends");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    (rest, String::from_utf8(output.stderr).expect("UTF-8"))
}

#[test]
fn a_page_that_is_cut_short_is_never_taken_for_whole() {
    let place = Place::new();
    for dies in ["server", "middlebox"] {
        let server = place.server(&[]);
        let null = place.middlebox("null.example", "null", "");
        let via = format!("null.example@{}=response-body:read", null.address);
        let child = under_way(&place, &server, &via, common::PATIENCE).expect("a session");
        match dies {
            "server" => drop(server),
            _ => drop(null),
        }
        let (rest, said) = ended(child);
        assert!(rest < LENGTH, "{dies}: everything came");
        let last = said.lines().last().unwrap_or_default();
        let expected = ["cut", "connection", "ended the session"];
        assert!(
            expected.iter().any(|word| last.contains(word)),
            "{dies}: {said}"
        );
    }
}

#[test]
fn a_middlebox_that_falls_silent_is_waited_for_as_long_as_was_asked_and_no_longer() {
    let place = Place::new();
    let server = place.server(&[]);
    let null = place.middlebox("null.example", "null", "");
    let via = format!("null.example@{}=response-body:read", null.address);
    // On a busy machine a session takes longer than that.
    let (child, seconds) = ["1", "4", "16", "60"]
        .into_iter()
        .find_map(|seconds| Some((under_way(&place, &server, &via, seconds)?, seconds)))
        .expect("a session");
    null.signal("STOP");
    let (rest, said) = ended(child);
    assert!(rest < LENGTH, "everything came");
    let words = format!("did not answer within {seconds}s");
    assert!(said.contains(&words), "{said}");
}

#[test]
fn a_fetch_that_is_interrupted_leaves_nothing_behind() {
    let place = Place::new();
    let server = place.server(&[]);
    let silent = place.middlebox("silent.example", "null", "");
    silent.signal("STOP");
    std::fs::create_dir(place.path("out")).expect("a folder");
    let (via, out) = (
        format!("silent.example@{}", silent.address),
        place.text("out/page"),
    );
    let mut child = place
        .get("/", &server.address, &[&via], &["-o", &out])
        .stderr(Stdio::null())
        .spawn()
        .expect("the program was built for this test");
    let left = || {
        std::fs::read_dir(place.path("out"))
            .expect("a folder")
            .count()
    };
    // It catches signals before it makes the file.
    while left() == 0 {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended");
        std::thread::yield_now();
    }
    common::signal(child.id(), "TERM");
    let ended = child.wait().expect("it ends");
    assert_ne!(ended.code(), Some(0));
    assert_eq!(left(), 0);
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let place = Place::new();
    let server = place.server(&[]);
    let pipe = place.text("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is installed").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).expect("text")
    });
    let ran = Ran::of(&mut place.get("/", &server.address, &[], &["-o", &pipe]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(reader.join().expect("it has read"), common::page());
}

#[test]
fn a_stranger_at_a_daemons_port_stops_nobody_else() {
    let place = Place::new();
    let server = place.server(&[]);
    let null = place.middlebox("null.example", "null", "");
    for address in [&server.address, &null.address] {
        let mut stranger = std::net::TcpStream::connect(address).expect("it listens");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        let mut said = Vec::new();
        // It is answered by an end, or by nothing that it could take for an answer.
        let _ = stranger.read_to_end(&mut said);
        assert!(!said.starts_with(b"HTTP"));
    }
    let via = format!("null.example@{}", null.address);
    let ran = Ran::of(&mut place.get("/", &server.address, &[&via], &[]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn the_demonstration_shows_what_it_says_and_leaves_nothing_behind() {
    let place = tempfile::tempdir().expect("a directory");
    let ran = Ran::of(program().arg("demo").env("TMPDIR", place.path()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = String::from_utf8(ran.stdout).expect("UTF-8");
    for words in [
        "all vouched for",
        "filter.example (middlebox 1) blocked the exchange",
        "spy.example (middlebox 1), which may only read it, is suspected",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let left = std::fs::read_dir(place.path())
        .expect("it is there")
        .count();
    assert_eq!(left, 0);
}
