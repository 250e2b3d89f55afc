//! Support of the tests with real programs: keys, an OpenSSL server behind a relay that records,
//! and what was said.
//!
//! Is not: a test. Invariants: everything is on the loopback address and ends with the value that
//! started it; nothing waits for a time to pass but for a condition.

#![allow(dead_code, reason = "each test binary uses a part of this")]
#![allow(unused_imports, reason = "each test binary uses a part of this")]

pub(crate) mod everybody;
pub(crate) mod forger;
pub(crate) mod keys;
mod pki;
mod relay;
mod said;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub(crate) use keys::Keys;
pub(crate) use pki::Pki;
pub(crate) use relay::Relay;
pub(crate) use said::{Conversation, differs_by, references};
use tandem_testkit::{is_installed, not_tried};

/// The number of the extension unless the environment says another.
pub(crate) const CII: u16 = 0x009a;

/// The shared object that was built for this test.
pub(crate) fn library() -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test knows where it is");
    folder.pop();
    let library = folder.join("libtandem_keytap.so");
    assert!(
        library.is_file(),
        "cargo builds {} for the tests",
        library.display()
    );
    library
}

/// Whether a program is loaded with the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preload {
    No,
    Yes,
}

/// A program without what the tests' own environment would add to it.
pub(crate) fn program(name: &str, preload: Preload) -> Command {
    let mut command = Command::new(name);
    for variable in [
        "LD_LIBRARY_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "TANDEM_KEYTAP_EXTENSION",
        "TANDEM_KEYTAP_LOG",
        "TANDEM_KEYTAP_SOCKET",
        "SSLKEYLOGFILE",
    ] {
        command.env_remove(variable);
    }
    for variable in [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ] {
        command.env_remove(variable);
    }
    command
        .env("OPENSSL_CONF", "/dev/null")
        .stdin(Stdio::null());
    match preload {
        Preload::No => command.env_remove("LD_PRELOAD"),
        Preload::Yes => command.env("LD_PRELOAD", library()),
    };
    command
}

/// Runs a program to its end, which has to be a good one.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The system's Python: another one may bring an OpenSSL that it was linked with.
pub(crate) fn python() -> &'static str {
    let system = "/usr/bin/python3";
    if Path::new(system).is_file() {
        system
    } else {
        "python3"
    }
}

/// The `openssl` programs to try: the system's, and those that `TANDEM_KEYTAP_OPENSSL` names, apart
/// by colons.
pub(crate) fn openssls() -> Vec<String> {
    let others = std::env::var("TANDEM_KEYTAP_OPENSSL").unwrap_or_default();
    let others = others.split(':').filter(|path| !path.is_empty());
    std::iter::once("openssl".to_owned())
        .chain(others.map(str::to_owned))
        .collect()
}

/// Builds a program in a folder out of `forged/`; whether that can be done here.
pub(crate) fn built(compiler: &str, folder: &Path, arguments: &[&str]) -> bool {
    if !is_installed(compiler) {
        not_tried(format_args!("needs {compiler}"));
        return false;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forged");
    run(program(compiler, Preload::No)
        .current_dir(source)
        // What comes with the compiler is all that is used; nothing is to be fetched.
        .envs([
            ("GOTOOLCHAIN", "local"),
            ("GOPROXY", "off"),
            ("CGO_ENABLED", "0"),
        ])
        .args(arguments)
        .env("TMPDIR", folder));
    true
}

/// `openssl s_server`, which answers HTTP requests with a page on the connection.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// One with these options besides its own certificate, on a port of the system's choice.
    #[track_caller]
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::of(program("openssl", Preload::No), options)
    }

    /// The same, of this `openssl`.
    #[track_caller]
    pub(crate) fn of(openssl: Command, options: &[&str]) -> Self {
        Self::with_errors(openssl, options, Stdio::null())
    }

    /// The same, which writes there what goes wrong.
    #[track_caller]
    pub(crate) fn with_errors(mut openssl: Command, options: &[&str], errors: Stdio) -> Self {
        let pki = Pki::shared();
        let mut child = openssl
            .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-cert"])
            .arg(pki.file("server.pem"))
            .arg("-key")
            .arg(pki.file("server.key"))
            .arg("-CAfile")
            .arg(pki.file("trusted.pem"))
            .args(options)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("openssl is there");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            line.strip_prefix("ACCEPT ")?
                .rsplit(':')
                .next()?
                .parse()
                .ok()
        });
        // What it writes later is read and dropped, so that it never waits for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self {
            child,
            port: port.expect("it says which port it has"),
        }
    }

    /// One of TLS 1.2 that accepts nobody without a certificate.
    #[track_caller]
    pub(crate) fn mutual() -> Self {
        Self::start(&["-tls1_2", "-Verify", "3", "-verify_return_error"])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
