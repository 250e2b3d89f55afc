//! A daemon's life as its operator sees it: ready, asked, in the way of a second one, ended; and
//! then no rule is left.
//!
//! In a network namespace of its own, which goes with the last process in it. Needs root; skipped,
//! with a message, without.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::common;
use common::{Ran, is_root, run};

/// A daemon in a network namespace of its own, with the loopback interface up. Killed if the test
/// ends before it does.
struct Daemon(Child);

impl Daemon {
    /// Starts `tandem` with these arguments, and waits until it says that it is ready.
    fn start(arguments: &[&str]) -> Self {
        let up = r#"ip link set lo up && exec "$0" "$@""#;
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", up, env!("CARGO_BIN_EXE_tandem")])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is installed");
        let output = child.stdout.take().expect("piped above");
        let daemon = Self(child);
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .expect("readable");
        assert_eq!(line, "ready\n");
        daemon
    }

    /// Runs a program in the daemon's namespace.
    fn beside(&self, program: &[&str]) -> Ran {
        let pid = self.0.id().to_string();
        run(Command::new("nsenter")
            .args(["--net", "--target", &pid, "--"])
            .args(program))
    }

    fn tandem(&self, arguments: &[&str]) -> Ran {
        self.beside(&[&[env!("CARGO_BIN_EXE_tandem")], arguments].concat())
    }

    /// Asks the daemon to end, and gives its exit code.
    fn end(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        run(Command::new("kill").args(["-TERM", &pid])).succeeded();
        self.0.wait().expect("a child of this process").code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Fails for one that has ended, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_daemon_is_ready_answers_stands_in_the_way_of_a_second_one_and_leaves_nothing() {
    if !is_root() {
        tandem_testkit::skipped("needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let common = ["--link", "lo", "--insecure-no-key", "--log", "warn"];
    let (first, second) = (store("first"), store("second"));

    let daemon = Daemon::start(&[&["client-side"], &common[..], &["--store", &first]].concat());
    // Keeps the namespace, to look at it when the daemon is gone.
    let sitter = Daemon(
        Command::new("nsenter")
            .args([
                "--net",
                "--target",
                &daemon.0.id().to_string(),
                "--",
                "sleep",
                "600",
            ])
            .spawn()
            .expect("util-linux is installed"),
    );

    let status = daemon.tandem(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(status.succeeded()).unwrap();
    assert_eq!(status["role"], "client-side");
    assert!(
        daemon
            .tandem(&["status"])
            .succeeded()
            .contains("client-side")
    );
    assert!(
        daemon
            .beside(&["iptables-save"])
            .succeeded()
            .contains("NFQUEUE")
    );

    let same = daemon.tandem(&[&["client-side"], &common[..], &["--store", &second]].concat());
    assert!(
        same.failed_with(4).contains("another tandem client-side"),
        "{same:?}"
    );
    let port = ["--store", &second, "--admin", "127.0.0.1:9470"];
    let port = daemon.tandem(&[&["server-side"], &common[..], &port[..]].concat());
    assert!(port.failed_with(4).contains("127.0.0.1:9470"), "{port:?}");
    let purge = daemon.tandem(&["store", "purge", "--all", "--store", &first]);
    assert!(purge.failed_with(4).contains("in use"), "{purge:?}");
    daemon
        .tandem(&["store", "ls", "--store", &first])
        .succeeded();

    assert_eq!(daemon.end(), Some(0));
    assert!(
        !sitter
            .beside(&["iptables-save"])
            .succeeded()
            .contains("tandem")
    );
    assert!(
        !sitter
            .beside(&["ip6tables-save"])
            .succeeded()
            .contains("tandem")
    );
}
