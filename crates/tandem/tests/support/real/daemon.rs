//! The two daemons as processes of their own, started as an operator starts them.
//!
//! Invariants: a daemon that is dropped is killed; one that is dropped by a failing test says what
//! it counted and logged.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_packet_io::status::{Status, fetch};

use super::net::LINK;
use super::{Fetched, Host, Net, PATIENCE, wait_until};

/// A key for tests, and another one.
const KEYS: [&str; 2] = [
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
    "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
];

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// How a daemon is started.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) side: Side,
    pub(crate) wire: &'static str,
    pub(crate) store: PathBuf,
    /// Which of the keys; `None`: none.
    pub(crate) key: Option<usize>,
    /// More flags.
    pub(crate) more: Vec<String>,
    /// Words before the program: what it runs under.
    pub(crate) under: Vec<String>,
}

impl Spec {
    /// The default wire format, the first key, a store of its own in the net's folder.
    pub(crate) fn new(side: Side, net: &Net) -> Self {
        Self {
            side,
            wire: "safe",
            store: net.path(match side {
                Side::Client => "store-a",
                Side::Server => "store-b",
            }),
            key: Some(0),
            more: Vec::new(),
            under: Vec::new(),
        }
    }

    pub(crate) fn wire(self, wire: &'static str) -> Self {
        Self { wire, ..self }
    }

    pub(crate) fn store(self, store: PathBuf) -> Self {
        Self { store, ..self }
    }

    pub(crate) fn key(self, key: usize) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    pub(crate) fn more(mut self, words: &[&str]) -> Self {
        self.more
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    pub(crate) fn under(self, words: &[&str]) -> Self {
        Self {
            under: words.iter().map(|word| (*word).to_owned()).collect(),
            ..self
        }
    }

    fn command(&self, keys: &Path) -> Command {
        let exe = env!("CARGO_BIN_EXE_tandem");
        let mut command = match self.under.split_first() {
            None => Command::new(exe),
            Some((program, words)) => {
                let mut command = Command::new(program);
                command.args(words).arg(exe);
                command
            }
        };
        command
            .arg(match self.side {
                Side::Client => "client-side",
                Side::Server => "server-side",
            })
            .args(["--link", LINK, "--wire", self.wire, "--log", "info"])
            .arg("--store")
            .arg(&self.store);
        match self.key {
            Some(number) => {
                // A file for each side: both start at the same time, and one may read while the
                // other is written.
                let file = keys.join(format!("key-{number}-{:?}", self.side));
                write_private(&file, KEYS[number]);
                command.arg("--key").arg(file);
            }
            None => {
                command.arg("--insecure-no-key");
            }
        }
        command.args(&self.more);
        for name in ["COLUMNS", "RUST_LOG", "RUST_BACKTRACE", "NO_COLOR"] {
            command.env_remove(name);
        }
        command
    }
}

/// How a daemon ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it wrote to standard error.
    pub(crate) log: String,
}

/// A daemon that is ready.
#[derive(Debug)]
pub(crate) struct Daemon {
    side: Side,
    host: Host,
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Starts a daemon in `host` and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(host: &Host, spec: &Spec) -> Self {
        match Self::try_start(host, spec) {
            Ok(daemon) => daemon,
            Err(ended) => panic!("the daemon did not start: {ended:?}"),
        }
    }

    /// The same; how it ended if it did.
    pub(crate) fn try_start(host: &Host, spec: &Spec) -> Result<Self, Ended> {
        let keys = spec.store.parent().expect("a store lies in a folder");
        let mut child = host.spawn(
            spec.command(keys)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let output = child.stdout.take().expect("it is piped");
        let errors = child.stderr.take().expect("it is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let reader = std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.push_str(&line);
                    log.push('\n');
                }
            }
        });
        let mut daemon = Self {
            side: spec.side,
            host: host.handle(),
            child,
            log,
            reader: Some(reader),
        };
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            let _ = tell.send(lines.next());
            // Read on, so that the pipe stays open for as long as the daemon has it.
            lines.for_each(drop);
        });
        match told.recv_timeout(PATIENCE) {
            Ok(Some(line)) if line == "ready" => Ok(daemon),
            Ok(_) => Err(daemon.wait()),
            Err(_) => panic!("the daemon is neither ready nor ended after {PATIENCE:?}"),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process numbers are small"))
    }

    /// A path as the daemon sees it, whatever is mounted for it alone.
    pub(crate) fn path_inside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.child.id()));
        root.join(path.strip_prefix("/").expect("an absolute path"))
    }

    /// What the kernel says of the process (`/proc/PID/status`).
    pub(crate) fn process_status(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs")
    }

    /// What it says of itself.
    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        self.try_status(PATIENCE)
            .unwrap_or_else(|why| panic!("the daemon does not answer: {why}"))
    }

    fn try_status(&self, patience: Duration) -> Result<Status, String> {
        let address = SocketAddr::from((
            [127, 0, 0, 1],
            match self.side {
                Side::Client => 9470,
                Side::Server => 9471,
            },
        ));
        self.host
            .inside(|| fetch(address, patience))
            .map_err(|error| error.to_string())
    }

    /// A counter; 0 for one that has not been needed yet.
    #[track_caller]
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.status().counters.get(name).copied().unwrap_or(0)
    }

    /// A gauge.
    #[track_caller]
    pub(crate) fn gauge(&self, name: &str) -> u64 {
        self.status().gauges.get(name).copied().unwrap_or(0)
    }

    /// Waits until a counter is at least this.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str, least: u64) {
        wait_until(&format!("{:?} side's {name} >= {least}", self.side), || {
            self.counter(name) >= least
        });
    }

    /// What it has written to standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until it has logged a line with these words.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, words: &str) {
        wait_until(&format!("`{words}` in the log"), || {
            self.log().contains(words)
        });
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it runs");
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(mut self, signal: Signal) -> Ended {
        self.signal(signal);
        self.wait()
    }

    /// Waits for the end that somebody else has asked for.
    pub(crate) fn end_by_itself(mut self) -> Ended {
        self.wait()
    }

    fn wait(&mut self) -> Ended {
        let mut code = None;
        wait_until("the daemon ends", || match self.child.try_wait() {
            Ok(Some(status)) => {
                code = status.code();
                true
            }
            Ok(None) => false,
            Err(error) => panic!("{error}"),
        });
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        Ended {
            code,
            log: self.log(),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() && self.is_alive() {
            eprintln!("--- {:?} side in {:?}:", self.side, self.host);
            match self.try_status(Duration::from_secs(2)) {
                Ok(status) => eprintln!("{}", status.table()),
                Err(why) => eprintln!("{why}"),
            }
            eprintln!("{}", self.log());
        }
        // A daemon that is stopped is killed all the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both daemons.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) a: Daemon,
    pub(crate) b: Daemon,
}

/// How both are started.
#[derive(Debug, Clone)]
pub(crate) struct PairSpec {
    pub(crate) a: Spec,
    pub(crate) b: Spec,
}

impl PairSpec {
    pub(crate) fn new(net: &Net) -> Self {
        Self {
            a: Spec::new(Side::Client, net),
            b: Spec::new(Side::Server, net),
        }
    }

    pub(crate) fn wire(self, wire: &'static str) -> Self {
        Self {
            a: self.a.wire(wire),
            b: self.b.wire(wire),
        }
    }

    pub(crate) fn more(self, words: &[&str]) -> Self {
        Self {
            a: self.a.more(words),
            b: self.b.more(words),
        }
    }
}

impl Pair {
    /// Starts both in their gateways.
    #[track_caller]
    pub(crate) fn start(net: &Net, spec: &PairSpec) -> Self {
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| Daemon::start(&net.a, &spec.a));
            let b = scope.spawn(|| Daemon::start(&net.b, &spec.b));
            (a.join(), b.join())
        });
        Self {
            a: a.expect("the client side starts"),
            b: b.expect("the server side starts"),
        }
    }

    /// How many flights crossed as deltas, and how many had to be sent again as they were.
    #[track_caller]
    pub(crate) fn rewritten(&self) -> Rewritten {
        let b = self.b.status();
        let of = |status: &Status, name: &str| status.counters.get(name).copied().unwrap_or(0);
        Rewritten {
            written: of(&b, "packet_flights_written"),
            originals: of(&b, "packet_originals_sent_bytes"),
            rebuilt: self.a.counter("packet_flights_rebuilt_bytes"),
        }
    }

    /// Makes a connection, up to three times, until the server's flight crosses as a delta, and
    /// only so; each must end well. On a machine that is busy for longer than the daemons' and
    /// the servers' patience (200 ms), a flight crosses as it is, or again; a further try shows
    /// that it was that. Gives how many connections were made.
    #[track_caller]
    pub(crate) fn rewrites(&self, expected: &[u8], connect: impl Fn() -> Fetched) -> usize {
        Self::rewrites_by(|| self.rewritten(), expected, connect)
    }

    /// The same for the client's flight.
    #[track_caller]
    pub(crate) fn rewrites_answer(&self, expected: &[u8], connect: impl Fn() -> Fetched) -> usize {
        Self::rewrites_by(|| self.rewritten_answers(), expected, connect)
    }

    #[track_caller]
    fn rewrites_by(
        count: impl Fn() -> Rewritten,
        expected: &[u8],
        connect: impl Fn() -> Fetched,
    ) -> usize {
        const TRIES: usize = 3;
        let mut before = count();
        for tried in 1..=TRIES {
            connect().is(expected);
            let now = count();
            if now.written > before.written && now.originals == before.originals {
                assert!(
                    now.rebuilt > before.rebuilt,
                    "a flight was written and not rebuilt"
                );
                return tried;
            }
            before = now;
        }
        panic!("{TRIES} warm handshakes, and none was rewritten");
    }

    /// The same for clients' flights after the servers'.
    #[track_caller]
    pub(crate) fn rewritten_answers(&self) -> Rewritten {
        let a = self.a.status();
        let of = |name: &str| a.counters.get(name).copied().unwrap_or(0);
        Rewritten {
            written: of("packet_flights_written"),
            originals: of("packet_originals_sent_bytes"),
            rebuilt: self.b.counter("packet_flights_rebuilt_bytes"),
        }
    }

    /// Waits until both sides have learned this many chains.
    #[track_caller]
    pub(crate) fn wait_learned(&self, chains: u64) {
        self.a.wait_for("packet_chains_learned", chains);
        self.b.wait_for("packet_chains_learned", chains);
    }

    /// Asks both to end; each must do so with 0, and leave no rule.
    #[track_caller]
    pub(crate) fn end(self, net: &Net) {
        for (daemon, host) in [(self.a, &net.a), (self.b, &net.b)] {
            let ended = daemon.end(Signal::SIGTERM);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(host.rules_of_tandem(), Vec::<String>::new());
        }
    }
}

/// See [`Pair::rewritten`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rewritten {
    pub(crate) written: u64,
    pub(crate) originals: u64,
    pub(crate) rebuilt: u64,
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("a writable folder");
}
