//! `openssl s_server` and `openssl s_client`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use tandem_split::Suite;
use tandem_split::suite::Format;
use tempfile::TempDir;

/// The `openssl` programs to try: the system's, 3.5, and those that `TANDEM_SPLIT_OPENSSL` names,
/// apart by colons.
pub(crate) fn openssls() -> Vec<String> {
    let current = tandem_testkit::openssl_3_5();
    let current = current.map(|folder| folder.join("bin/openssl").display().to_string());
    let others = std::env::var("TANDEM_SPLIT_OPENSSL").unwrap_or_default();
    let others = others.split(':').filter(|path| !path.is_empty());
    std::iter::once("openssl".to_owned())
        .chain(current)
        .chain(others.map(str::to_owned))
        .collect()
}

/// Whether this program knows the suite. TLS 1.3's integrity-only suites came with OpenSSL 3.4.
pub(crate) fn knows(openssl: &str, suite: Suite) -> bool {
    let mut command = Command::new(openssl);
    match suite.format() {
        Format::Cbc => command.args(["ciphers", "-s", "-tls1_2", name(suite)]),
        Format::Integrity => command.args(["ciphers", "-ciphersuites", name(suite), "ALL"]),
    };
    command
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

/// OpenSSL's name for it.
fn name(suite: Suite) -> &'static str {
    match suite {
        Suite::EcdheRsaAes128CbcSha => "ECDHE-RSA-AES128-SHA",
        Suite::EcdheRsaAes256CbcSha => "ECDHE-RSA-AES256-SHA",
        Suite::EcdheRsaAes128CbcSha256 => "ECDHE-RSA-AES128-SHA256",
        Suite::EcdheRsaAes256CbcSha384 => "ECDHE-RSA-AES256-SHA384",
        Suite::Sha256Sha256 => "TLS_SHA256_SHA256",
        Suite::Sha384Sha384 => "TLS_SHA384_SHA384",
    }
}

/// The options by which a program speaks this suite and no other.
fn options(suite: Suite) -> Vec<&'static str> {
    match suite.format() {
        Format::Cbc => vec!["-tls1_2", "-no_etm", "-cipher", name(suite)],
        Format::Integrity => vec![
            "-tls1_3",
            "-ciphersuites",
            name(suite),
            "-cipher",
            "ALL:@SECLEVEL=0",
        ],
    }
}

/// What the server's file holds.
pub(crate) fn body() -> Vec<u8> {
    (0..100_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// A server of one file, for one connection.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    /// A pipe.
    pub(crate) keylog: PathBuf,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start(openssl: &str, suite: Suite) -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("body.bin"), body()).expect("a file");
        let keylog = file("keylog");
        run(Command::new("mkfifo").arg(&keylog));
        // By the system's, which has a configuration.
        run(Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"])
            .args(["-subj", "/CN=www.example.org", "-keyout"])
            .arg(file("key.pem"))
            .arg("-out")
            .arg(file("cert.pem")));
        let mut child = Command::new(openssl)
            .current_dir(folder.path())
            .args(["s_server", "-accept", "127.0.0.1:0", "-WWW"])
            .args(["-key", "key.pem", "-cert", "cert.pem"])
            .args(["-naccept", "1", "-keylogfile", "keylog"])
            .args(options(suite))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is there");
        // The server waits for a reader of its key log before it listens.
        let reader = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&keylog)
            .expect("a pipe");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let address = line.strip_prefix("ACCEPT ")?;
            address.rsplit(':').next()?.parse().ok()
        });
        // What it writes later is read and dropped, so that it never waits for a reader; the pipe
        // stays open as long.
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(drop);
            drop(reader);
        });
        Self {
            child,
            port: port.expect("it says which port it has"),
            keylog,
            _folder: folder,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the client asks for.
pub(crate) const REQUEST: &[u8] = b"GET /body.bin HTTP/1.0\r\n\r\n";

/// A client that asks for the file: its connection, and what it says in the end.
pub(crate) fn client(openssl: &str, suite: Suite) -> (TcpStream, JoinHandle<Output>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one").to_string();
    let mut child = Command::new(openssl)
        .args(["s_client", "-quiet", "-connect", &address])
        .args(options(suite))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is there");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(REQUEST).expect("it reads");
    let (stream, _) = listener.accept().expect("it connects");
    // What it writes is read all the time: more than a pipe holds.
    let output = std::thread::spawn(move || child.wait_with_output().expect("it ends"));
    (stream, output)
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().expect("it is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
