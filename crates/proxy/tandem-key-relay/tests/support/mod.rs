//! The program as processes, the socket of a proxy, and a key to hand in.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_record_key::{Direction, IV_LEN, RecordKey, Suite};
#[allow(unused_imports, reason = "each test binary uses a part of this")]
pub(crate) use tandem_testkit::free_port;

/// Longest wait for what takes a moment on a machine that has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until this is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program, with these arguments.
pub(crate) fn keytap<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem-keytap"));
    command
        .args(arguments)
        .env_remove("NOTIFY_SOCKET")
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn output<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    keytap(arguments).output().expect("it was built")
}

/// A process that runs until this is dropped.
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it is there");
        let errors = child.stderr.take().expect("it is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let mut log = kept.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self {
            child,
            log,
            reader: Some(reader),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// Waits until it has logged this.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        wait_until(words, || self.log().contains(words));
    }

    /// Ends it by this signal; its exit code, and its whole log.
    pub(crate) fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        let pid = i32::try_from(self.child.id()).expect("process numbers are small");
        kill(Pid::from_raw(pid), signal).expect("it is ours");
        let code = self.child.wait().expect("it ends").code();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it reads");
        }
        (code, self.log())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with keys of channels, and a proxy's socket.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    proxy: UnixDatagram,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        let proxy = UnixDatagram::bind(folder.path().join("proxy")).expect("a socket");
        let place = Self { folder, proxy };
        for (name, digit) in [("one.key", "1"), ("other.key", "2")] {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).mode(0o600);
            let file = file.open(place.path(name));
            let written = file.and_then(|mut file| file.write_all(digit.repeat(64).as_bytes()));
            written.expect("a writable folder");
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lets every user in.
    pub(crate) fn open_to_all(&self) {
        for path in [self.path(""), self.path("proxy")] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).expect("ours");
        }
    }

    /// The next datagram at the proxy's socket.
    #[track_caller]
    pub(crate) fn next(&self) -> Vec<u8> {
        self.proxy
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket can");
        let mut buffer = [0; 1 << 10];
        let length = self.proxy.recv(&mut buffer).expect("a datagram comes");
        buffer[..length].to_vec()
    }

    /// Forgets what has come to the proxy's socket.
    pub(crate) fn forget(&self) {
        while self.has_one() {}
    }

    /// Whether there is one more at the proxy's socket; it is taken.
    pub(crate) fn has_one(&self) -> bool {
        self.proxy.set_nonblocking(true).expect("a socket can");
        let length = self.proxy.recv(&mut [0; 1 << 10]);
        self.proxy.set_nonblocking(false).expect("a socket can");
        match length {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A server's key; they differ by this number.
pub(crate) fn key(suite: Suite, number: u8) -> RecordKey {
    let bytes = vec![number; suite.key_len()];
    let key = RecordKey::new(
        Direction::FromServer,
        suite,
        [number; 32],
        &[7; IV_LEN],
        &bytes,
    );
    key.expect("the suite's length")
}

/// Whether this is there.
pub(crate) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
