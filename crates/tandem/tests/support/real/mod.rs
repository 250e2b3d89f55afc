//! Support of the tests with real programs and the real kernel: hosts in network namespaces, the
//! built daemons, servers, clients, captures.
//!
//! Is not: a test; nor the lab, of which only the emulated link is used.
//!
//! Invariants: everything made here is taken down when it is dropped, on a panic too, and what a
//! killed run left is removed by the next one; nothing waits for a time to pass but for a
//! condition, within [`PATIENCE`]; no address outside a namespace of the test's own is used.

mod capture;
mod daemon;
mod instead;
mod net;
mod pki;
mod programs;

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub(crate) use capture::{Capture, assert_same_streams};
pub(crate) use daemon::{Daemon, Ended, Pair, PairSpec, Side, Spec};
pub(crate) use instead::{Hold, in_place_of};
pub(crate) use net::{Family, Host, Net, Shape, fast, link};
pub(crate) use pki::{KeyType, Pki, SITE};
pub(crate) use programs::{Fetch, Fetched, Server, Site, TlsVersion, bytes};
pub(crate) use tandem_testkit::{has, has_root_and, is_installed, skipped};

/// The library that is loaded into unmodified programs: cargo puts it beside the tests of the whole
/// workspace. Where it is not, the test says that it is skipped.
pub(crate) fn keytap() -> Option<std::path::PathBuf> {
    let mut folder = std::env::current_exe().expect("a test knows where it is");
    folder.pop();
    let library = folder.join("libtandem_keytap.so");
    if library.is_file() {
        return Some(library);
    }
    skipped("needs libtandem_keytap.so, which the tests of the whole workspace build");
    None
}

/// Longest wait for anything that takes milliseconds when all is well, and for a tunnel that is
/// tried again each minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Whether hosts can be made here and the programs are installed. `false`, and a note, if not.
pub(crate) fn can_run() -> bool {
    has_root_and(&[
        "ip",
        "iptables",
        "ip6tables",
        "nginx",
        "curl",
        "openssl",
        "timeout",
        "tcpdump",
    ])
}

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < PATIENCE,
            "waited {PATIENCE:?} in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(4));
    }
}

/// Runs all jobs, at most `width` at a time, and panics if one of them did.
pub(crate) fn all<J: FnOnce() + Send>(width: usize, jobs: impl IntoIterator<Item = J>) {
    let jobs: Vec<Mutex<Option<J>>> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..width.min(jobs.len()))
            .map(|_| {
                scope.spawn(|| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let job = job.lock().expect("taken once").take();
                        job.expect("taken once")();
                    }
                })
            })
            .collect();
        let mut failed = 0;
        for worker in workers {
            failed += usize::from(worker.join().is_err());
        }
        assert_eq!(failed, 0, "some of the jobs failed; see above");
    });
}

/// Runs a program of the machine's own to its end; its standard output. Panics with its errors if
/// it fails.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
