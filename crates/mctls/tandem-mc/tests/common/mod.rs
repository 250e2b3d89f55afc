//! Real processes over loopback, with certificates of their own, that end with the test.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tandem_mc::certificates::{Authority, Files, For};
use tandem_mc::report::Report;

/// Long enough for a busy machine.
pub(crate) const PATIENCE: &str = "60";

/// A folder with an authority, a site and whatever a test writes.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let authority = Authority::make(folder.path()).expect("openssl is installed");
        std::fs::create_dir(folder.path().join("site")).expect("a folder");
        let place = Self { folder, authority };
        place.write("site/index.html", &page());
        place.write("site/games.html", "games");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    pub(crate) fn issue(&self, name: &str, what: For) -> Files {
        self.authority.issue(name, what).expect("a certificate")
    }

    /// A server of the site, with these more arguments.
    pub(crate) fn server(&self, more: &[&str]) -> Daemon {
        let files = self.issue("page.example", For::Server);
        let (root, trust) = (self.text("site"), self.text("ca.pem"));
        let arguments = ["serve", "--root", &root, "--trust", &trust];
        Daemon::start(&files, &[&arguments, more].concat())
    }

    /// A middlebox of a kind, with these settings.
    pub(crate) fn middlebox(&self, name: &str, kind: &str, settings: &str) -> Daemon {
        let files = self.issue(name, For::Middlebox);
        self.write("box.toml", settings);
        let config = self.text("box.toml");
        Daemon::start(&files, &["box", "--kind", kind, "--config", &config])
    }

    /// A fetch from a server, by these middleboxes.
    pub(crate) fn get(&self, path: &str, server: &str, via: &[&str], more: &[&str]) -> Command {
        let mut command = program();
        command.args(["get", &format!("https://page.example{path}")]);
        command.args(["--connect", server, "--trust", &self.text("ca.pem")]);
        if !more.contains(&"--timeout") {
            command.args(["--timeout", PATIENCE]);
        }
        for via in via {
            command.args(["--via", via]);
        }
        command.args(more);
        command
    }
}

/// What the site's first page is.
pub(crate) fn page() -> String {
    "<p>A line that is the same as all the others.\n".repeat(1000)
}

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem-mc"));
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// A daemon that is ready, until it is dropped.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Held, so that what it still writes has a reader.
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Daemon {
    /// One with this certificate.
    pub(crate) fn start(files: &Files, arguments: &[&str]) -> Self {
        let (cert, key) = (Path::new("--cert"), Path::new("--key"));
        Self::ready(
            program()
                .args(arguments)
                .args(["--listen", "127.0.0.1:0", "--timeout", PATIENCE])
                .args([cert, &files.cert, key, &files.key]),
        )
    }

    /// One with all of its arguments.
    pub(crate) fn ready(command: &mut Command) -> Self {
        Self::heard(command.stderr(Stdio::null()))
    }

    /// The same, with its log where the command has it.
    pub(crate) fn heard(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was built for this test");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = || {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("UTF-8");
            line
        };
        let (first, second) = (line(), line());
        assert_eq!(second, "ready\n", "{first}");
        let address = first
            .trim()
            .strip_prefix("listening on ")
            .expect("an address");
        Self {
            address: address.to_owned(),
            child,
            _stdout: stdout,
        }
    }

    /// Sends it a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

/// What one side of a connection has sent at a time.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Which connection, in the order of their beginnings.
    pub(crate) connection: usize,
    pub(crate) is_to_client: bool,
    pub(crate) bytes: Vec<u8>,
}

/// A hop of TCP that records what crosses it, until it is dropped.
pub(crate) struct Counting {
    pub(crate) address: String,
    pieces: Arc<Mutex<Vec<Piece>>>,
    is_over: Arc<AtomicBool>,
}

impl Counting {
    /// In front of a server.
    pub(crate) fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let (pieces, is_over) = <(Arc<Mutex<Vec<Piece>>>, Arc<AtomicBool>)>::default();
        let (server, log, over) = (server.to_owned(), Arc::clone(&pieces), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for (connection, client) in listener.incoming().enumerate() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let client = client.expect("a client");
                let server = TcpStream::connect(&server).expect("the server listens");
                let (from, to) = (server.try_clone(), client.try_clone());
                let (from, to) = (from.expect("open"), to.expect("open"));
                for (from, to, is_to_client) in [(client, server, false), (from, to, true)] {
                    let log = Arc::clone(&log);
                    std::thread::spawn(move || {
                        pass(from, to, |bytes| {
                            let bytes = bytes.to_vec();
                            log.lock().expect("no writer panics").push(Piece {
                                connection,
                                is_to_client,
                                bytes,
                            });
                        });
                    });
                }
            }
        });
        Self {
            address,
            pieces,
            is_over,
        }
    }

    /// How many bytes have gone towards the client since it was asked last.
    pub(crate) fn taken(&self) -> u64 {
        let pieces = self.pieces();
        let to_client = pieces.iter().filter(|piece| piece.is_to_client);
        let length: usize = to_client.map(|piece| piece.bytes.len()).sum();
        u64::try_from(length).expect("short")
    }

    /// What has crossed since it was asked last, in order.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces.lock().expect("no writer panics"))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // It may have ended already.
        let _ = TcpStream::connect(&self.address);
    }
}

/// Copies what comes, and its end. A piece is heard before it is passed on.
fn pass(mut from: TcpStream, mut to: TcpStream, heard: impl Fn(&[u8])) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        heard(&piece[..length]);
        if to.write_all(&piece[..length]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Sends a process a signal by its name.
pub(crate) fn signal(process: u32, name: &str) {
    let process = process.to_string();
    let sent = Command::new("kill").args(["-s", name, &process]).status();
    assert!(sent.expect("kill is installed").success());
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command
            .output()
            .expect("the program was built for this test");
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// What was printed as JSON.
    pub(crate) fn report(&self) -> Report {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The line that says what went wrong.
    #[track_caller]
    pub(crate) fn failed_with(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        let last = self.stderr.lines().last().unwrap_or_default();
        last.strip_prefix("tandem mc: ")
            .expect("the line names the program")
    }
}
