//! A real Valkey or Redis server for a test, on a UNIX socket of its own.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Nothing here takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Killed when it is dropped.
pub(crate) struct RealServer {
    folder: TempDir,
    arguments: Vec<String>,
    child: Child,
}

/// The program's name and its client's.
fn programs() -> Option<(&'static str, &'static str)> {
    let known = [
        ("valkey-server", "valkey-cli"),
        ("redis-server", "redis-cli"),
    ];
    known.into_iter().find(|(server, client)| {
        tandem_testkit::is_installed(server) && tandem_testkit::is_installed(client)
    })
}

impl RealServer {
    /// Starts one; `None`, with a note, where none is installed.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        if programs().is_none() {
            tandem_testkit::skipped("needs valkey-server or redis-server, and its client");
            return None;
        }
        let folder = tempfile::tempdir().expect("a directory");
        let arguments: Vec<String> = arguments.iter().map(|&it| it.to_owned()).collect();
        let child = spawn(folder.path(), &arguments);
        let server = Self {
            folder,
            arguments,
            child,
        };
        server.answers();
        Some(server)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Where it is, as a setting says it.
    pub(crate) fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
        let _ = std::fs::remove_file(self.socket());
    }

    /// Starts it again, empty.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(self.folder.path(), &self.arguments);
        self.answers();
    }

    /// Stops it, or lets it go on.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// What its own client prints for this command.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let (_, client) = programs().expect("it was there");
        let output = Command::new(client)
            .arg("-s")
            .arg(self.socket())
            .args(words)
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn answers(&self) {
        until("the server answers", || {
            let answer = self.ask(&["PING"]);
            answer == "PONG" || answer.contains("NOAUTH")
        });
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, arguments: &[String]) -> Child {
    let (server, _) = programs().expect("it was there");
    Command::new(server)
        .args(["--port", "0", "--save", "", "--appendonly", "no"])
        .arg("--unixsocket")
        .arg(folder.join("socket"))
        .arg("--dir")
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// Looks until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        sleep(Duration::from_millis(20));
    }
}
