//! A site for the tests of `tandem split`: a plain server, an origin and volunteers as processes,
//! and curl.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) use tandem_testkit::free_port;

/// A process that ends with its test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command and waits for a line that says that it serves.
pub(crate) fn start(command: &mut Command, says: &str) -> Running {
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

/// Waits for something that is on its way.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn openssl(folder: &Path, name: &str, algorithm: &[&str]) -> (PathBuf, PathBuf) {
    let (cert, key) = (
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}.key")),
    );
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=site"])
        .args(["-addext", "subjectAltName=DNS:split.test"])
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

/// `tandem split PART ...`, started by a shell that first runs `before`, in which `$DIR` is
/// `folder`.
fn split(part: &str, before: &str, folder: &Path) -> Command {
    let mut command = if before.is_empty() {
        Command::new(env!("CARGO_BIN_EXE_tandem"))
    } else {
        // What is mounted is seen by this process alone, and is gone with it.
        let is_root = super::common::is_root();
        let mut shell = Command::new(if is_root { "unshare" } else { "sh" });
        if is_root {
            shell.args(["--mount", "sh"]);
        }
        shell
            .env("DIR", folder)
            .args(["-c", &format!("{before}; exec \"$@\""), "sh"]);
        shell.arg(env!("CARGO_BIN_EXE_tandem"));
        shell
    };
    for name in ["COLUMNS", "RUST_LOG", "RUST_BACKTRACE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.args(["split", part]);
    command
}

/// What an admin port shows under a path.
pub(crate) fn get(admin: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", admin)).expect("it listens");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (_, body) = text.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

/// One number of an admin port.
pub(crate) fn metric(admin: u16, name: &str) -> u64 {
    let text = get(admin, "/metrics");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("{name} is not among the metrics"));
    value.parse().expect("a number")
}

/// A volunteer that runs.
pub(crate) struct Volunteer {
    pub(crate) port: u16,
    admin: u16,
    pub(crate) process: Running,
}

impl Volunteer {
    /// One of its numbers, without what all of their names begin with.
    pub(crate) fn counts(&self, name: &str) -> u64 {
        metric(self.admin, &format!("tandem_split_volunteer_{name}"))
    }
}

pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    cert: PathBuf,
    key: PathBuf,
    server: u16,
    pub(crate) origin_port: u16,
    origin_admin: u16,
    origin: Option<Running>,
    _server: Running,
}

pub(crate) const LEN: usize = 3_000_000;

impl Site {
    /// With an origin that runs.
    pub(crate) fn new() -> Self {
        let mut site = Self::without_origin();
        site.start_origin("");
        site
    }

    pub(crate) fn without_origin() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let (cert, key) = openssl(folder.path(), "site", &["-newkey", "rsa:2048"]);
        let public = folder.path().join("public");
        fs::create_dir(&public).expect("ours");
        let server = free_port();
        let running = start(
            Command::new("python3")
                .args(["-u", "-m", "http.server", "--bind", "127.0.0.1"])
                .arg("--directory")
                .arg(&public)
                .arg(server.to_string()),
            "Serving",
        );
        let site = Self {
            folder,
            cert,
            key,
            server,
            origin_port: free_port(),
            origin_admin: free_port(),
            origin: None,
            _server: running,
        };
        site.publish("file", LEN, 0);
        site
    }

    /// A file that no other is like.
    pub(crate) fn publish(&self, name: &str, len: usize, seed: u32) {
        let body: Vec<u8> = (0..len as u32)
            .map(|n| ((n ^ seed << 24).wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        fs::write(self.folder.path().join("public").join(name), body).expect("ours");
    }

    pub(crate) fn published(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join("public").join(name)).expect("ours")
    }

    pub(crate) fn start_origin(&mut self, before: &str) {
        self.start_origin_with(before, &[]);
    }

    /// One with these options, too.
    pub(crate) fn start_origin_with(&mut self, before: &str, more: &[&str]) {
        let local = |port: u16| format!("127.0.0.1:{port}");
        let mut command = split("origin", before, self.folder.path());
        command
            .args(["--listen", &local(self.origin_port)])
            .args(["--upstream", &format!("http://{}", local(self.server))])
            .args(["--admin", &local(self.origin_admin)])
            .arg("--cert")
            .arg(&self.cert)
            .arg("--key")
            .arg(&self.key)
            .args(more);
        self.origin = Some(start(&mut command, "ready"));
    }

    pub(crate) fn kill_origin(&mut self) {
        self.origin = None;
    }

    pub(crate) fn volunteer(&self, cache: &str, more: &[&str]) -> Volunteer {
        self.volunteer_after("", cache, more)
    }

    /// One whose shell has run `before`, in which `$DIR` is the cache.
    pub(crate) fn volunteer_after(&self, before: &str, cache: &str, more: &[&str]) -> Volunteer {
        let (port, admin) = (free_port(), free_port());
        let local = |port: u16| format!("127.0.0.1:{port}");
        let cache = self.folder.path().join(cache);
        let mut command = split("volunteer", before, &cache);
        command
            .args(["--origin", &local(self.origin_port)])
            .args(["--listen", &local(port), "--admin", &local(admin)])
            .arg("--cache")
            .arg(&cache)
            .args(more);
        Volunteer {
            port,
            admin,
            process: start(&mut command, "ready"),
        }
    }

    pub(crate) fn curl(&self, port: u16, name: &str) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--noproxy", "*", "--max-time", "60"])
            .args(["--resolve", &format!("split.test:{port}:127.0.0.1")])
            .arg("--cacert")
            .arg(&self.cert)
            .arg(format!("https://split.test:{port}/{name}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        curl
    }

    pub(crate) fn fetched(&self, volunteer: &Volunteer, name: &str) -> Output {
        self.curl(volunteer.port, name).output().expect("curl runs")
    }

    /// Asserts that a client gets a file whole.
    #[track_caller]
    pub(crate) fn serves(&self, volunteer: &Volunteer, name: &str) {
        let out = self.fetched(volunteer, name);
        assert!(out.status.success(), "{:?}", out.status);
        assert!(
            out.stdout == self.published(name),
            "{} bytes",
            out.stdout.len()
        );
    }

    /// What the origin says that it has sent.
    pub(crate) fn sent(&self) -> u64 {
        self.origin_counts("sent_bytes_total")
    }

    pub(crate) fn origin_counts(&self, name: &str) -> u64 {
        metric(self.origin_admin, &format!("tandem_split_origin_{name}"))
    }
}
