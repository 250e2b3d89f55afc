//! `tandem split`: an origin and a volunteer as processes, and an unmodified curl.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command and waits for a line that says that it serves.
fn start(command: &mut Command, says: &str) -> Running {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut running = Running(child);
    let out = running.0.stdout.take().expect("piped");
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).expect("it writes");
    assert!(line.contains(says), "{command:?}: {line:?}");
    running
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

fn openssl(folder: &Path, name: &str, algorithm: &[&str]) -> (PathBuf, PathBuf) {
    let (cert, key) = (
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}.key")),
    );
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=site",
            "-addext",
            "subjectAltName=DNS:split.test",
        ])
        .args(algorithm)
        .arg("-out")
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
    (cert, key)
}

struct Site {
    folder: tempfile::TempDir,
    cert: PathBuf,
    origin: u16,
    origin_admin: u16,
    _server: Running,
    _origin: Running,
}

const LEN: usize = 3_000_000;

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let (cert, key) = openssl(folder.path(), "site", &["-newkey", "rsa:2048"]);
        let public = folder.path().join("public");
        fs::create_dir(&public).expect("ours");
        let body: Vec<u8> = (0..LEN as u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        fs::write(public.join("file"), body).expect("ours");
        let (server, origin, origin_admin) = (free_port(), free_port(), free_port());
        let running = start(
            Command::new("python3")
                .args(["-u", "-m", "http.server", "--bind", "127.0.0.1"])
                .arg("--directory")
                .arg(&public)
                .arg(server.to_string()),
            "Serving",
        );
        let (listen, admin) = (
            format!("127.0.0.1:{origin}"),
            format!("127.0.0.1:{origin_admin}"),
        );
        let upstream = format!("http://127.0.0.1:{server}");
        let mut command = common::tandem(&[
            "split",
            "origin",
            "--listen",
            &listen,
            "--upstream",
            &upstream,
            "--admin",
            &admin,
        ]);
        command.arg("--cert").arg(&cert).arg("--key").arg(key);
        Self {
            _origin: start(&mut command, "ready"),
            _server: running,
            folder,
            cert,
            origin,
            origin_admin,
        }
    }

    fn volunteer(&self, cache: &str, more: &[&str]) -> (Running, u16) {
        let port = free_port();
        let (listen, origin) = (
            format!("127.0.0.1:{port}"),
            format!("127.0.0.1:{}", self.origin),
        );
        let mut command = common::tandem(&[
            "split",
            "volunteer",
            "--origin",
            &origin,
            "--listen",
            &listen,
        ]);
        command
            .arg("--cache")
            .arg(self.folder.path().join(cache))
            .args(more);
        (start(&mut command, "ready"), port)
    }

    fn curl(&self, port: u16) -> Command {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--noproxy",
            "*",
            "--max-time",
            "60",
            "--resolve",
            &format!("split.test:{port}:127.0.0.1"),
        ])
        .arg("--cacert")
        .arg(&self.cert)
        .arg(format!("https://split.test:{port}/file"))
        .stdout(Stdio::piped());
        curl
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        fs::read(self.folder.path().join("public/file")).expect("ours") == bytes
    }

    /// What the origin says that it has sent.
    fn sent(&self) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.origin_admin)).expect("it listens");
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("tandem_split_origin_sent_bytes_total "))
            .expect("it is among the metrics");
        value.parse().expect("a number")
    }
}

#[test]
fn curl_is_served_and_a_restarted_volunteer_still_has_what_it_kept() {
    let site = Site::new();
    let (volunteer, port) = site.volunteer("one", &[]);
    let out = site.curl(port).output().expect("curl runs");
    assert!(
        out.status.success() && site.is_whole(&out.stdout),
        "{:?}",
        out.status
    );
    let cold = site.sent();
    assert!(cold > LEN as u64);
    drop(volunteer);
    let (_volunteer, port) = site.volunteer("one", &[]);
    let out = site.curl(port).output().expect("curl runs");
    assert!(
        out.status.success() && site.is_whole(&out.stdout),
        "{:?}",
        out.status
    );
    let warm = site.sent() - cold;
    assert!(warm * 200 < LEN as u64, "{warm} bytes");
}

#[test]
fn a_volunteer_that_is_killed_cuts_the_transfer_and_another_serves() {
    let site = Site::new();
    let (mut volunteer, port) = site.volunteer("one", &["--rate", "200"]);
    let mut curl = site.curl(port).spawn().expect("curl runs");
    let mut out = curl.stdout.take().expect("piped");
    let mut bytes = vec![0; 100_000];
    out.read_exact(&mut bytes).expect("it has begun");
    volunteer.0.kill().expect("ours");
    out.read_to_end(&mut bytes).expect("curl ends");
    assert!(!curl.wait().expect("it ends").success(), "a cut is no end");
    let whole = fs::read(site.folder.path().join("public/file")).expect("ours");
    assert!(bytes.len() < whole.len() && whole.starts_with(&bytes));
    let (_other, port) = site.volunteer("other", &[]);
    let start = Instant::now();
    let out = site.curl(port).output().expect("curl runs");
    assert!(out.status.success() && site.is_whole(&out.stdout));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_does_not_fit_is_said_at_the_start() {
    let folder = tempfile::tempdir().expect("a directory");
    let (cert, key) = openssl(
        folder.path(),
        "curve",
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    );
    let listen = format!("127.0.0.1:{}", free_port());
    let origin = |cert: &Path, upstream: &str| {
        let mut command = common::tandem(&[
            "split",
            "origin",
            "--listen",
            &listen,
            "--upstream",
            upstream,
        ]);
        command.arg("--cert").arg(cert).arg("--key").arg(&key);
        common::run(&mut command)
    };
    let ran = origin(&cert, "http://127.0.0.1:1");
    let said = ran.failed_with(2);
    assert!(said.contains("curve.pem") && said.contains("RSA"), "{said}");
    let ran = origin(&cert, "https://127.0.0.1:1");
    assert!(ran.failed_with(2).contains("--upstream"));
    let ran = origin(&folder.path().join("none.pem"), "http://127.0.0.1:1");
    assert!(ran.failed_with(2).contains("none.pem"));
    let ran = common::run(&mut common::tandem(&[
        "split",
        "volunteer",
        "--origin",
        "nowhere",
        "--listen",
        &listen,
    ]));
    assert!(ran.failed_with(2).contains("--origin"));
}

#[test]
fn a_demonstration_is_served_by_helpers_refused_from_a_liar_and_gone_in_the_end() {
    let mut child = common::tandem(&["split", "demo", "--port", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let out = child.stdout.take().expect("piped");
    let running = Running(child);
    let mut lines = Vec::new();
    for line in BufReader::new(out).lines() {
        let line = line.expect("text");
        let is_last = line == "ready";
        lines.push(line);
        if is_last {
            break;
        }
    }
    let after = |start: &str| {
        let found = lines.iter().find_map(|line| line.strip_prefix(start));
        found
            .unwrap_or_else(|| panic!("{start}: {lines:#?}"))
            .trim()
    };
    let helpers: Vec<&str> = after("The site, through helpers:").split(' ').collect();
    let authority = after("  curl --cacert").split(' ').next().expect("a path");
    let fetch = |url: &str| {
        Command::new("curl")
            .args(["--silent", "--noproxy", "*", "--cacert", authority, url])
            .output()
            .expect("curl runs")
    };
    let first = fetch(&format!("{}chart.svg", helpers[0]));
    assert!(first.status.success(), "{first:?}");
    assert!(first.stdout.starts_with(b"<svg"));
    for helper in [helpers[0], helpers[1]] {
        assert!(fetch(&format!("{helper}chart.svg")).stdout == first.stdout);
    }
    let lied = fetch(&format!("{}chart.svg", after("Through one that lies:")));
    assert!(!lied.status.success() && lied.stdout.is_empty(), "{lied:?}");

    let start = Instant::now();
    let view = after("Who serves what, live:");
    loop {
        let shown = fetch(&format!("{view}state.json")).stdout;
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        if shown["refused_by_clients"] == 1 {
            assert_eq!(shown["served"][2]["helper"], "north", "{shown}");
            assert_eq!(shown["served"][2]["target"], "/chart.svg", "{shown}");
            let (line, body) = (&shown["line_bytes"], &shown["body_bytes"]);
            assert!(line.as_u64() < body.as_u64(), "{shown}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{shown}");
        std::thread::sleep(Duration::from_millis(20));
    }

    let pid = nix::unistd::Pid::from_raw(running.0.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
    let mut running = running;
    assert!(running.0.wait().expect("ours").success());
    assert!(!Path::new(authority).exists(), "nothing is left");
}
