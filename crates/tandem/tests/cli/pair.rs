//! `tandem pair`: both sides as processes on the loopback interface. What is written, when nothing
//! is, and what a user is told.
//!
//! Nothing here needs root.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::{common, split_site, tunnel_pair};
use common::{Ran, run, tandem};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use split_site::free_port;
use tandem_pair::{Handover, Inviter, Target};
use tandem_wire::clock::UnixTime;
use tunnel_pair::{KEYS, Site, local, start, write_private};

/// One side's files, in a folder of its own.
struct Side {
    folder: tempfile::TempDir,
}

impl Side {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `tandem pair WHAT` with this side's files.
    fn command(&self, what: &str) -> Command {
        let mut command = tandem(&["pair", what, "--key"]);
        command.arg(self.path("key"));
        command.arg("--config").arg(self.path("settings.toml"));
        command
    }

    /// `tandem pair accept`, told the invitation as an argument.
    fn accept(&self, invitation: &str) -> Command {
        let mut command = self.command("accept");
        command.arg(invitation);
        command
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it was written")
    }

    /// How many files there are, hidden ones too.
    fn files(&self) -> usize {
        fs::read_dir(self.folder.path()).expect("ours").count()
    }
}

/// `tandem pair invite`, which waits. It ends with this value.
struct Inviting {
    child: Child,
    results: BufReader<ChildStdout>,
    invitation: String,
}

impl Inviting {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was built");
        let results = child.stdout.take().expect("it is piped");
        let mut results = BufReader::new(results);
        let mut invitation = String::new();
        results.read_line(&mut invitation).expect("UTF-8");
        Self {
            child,
            results,
            invitation: invitation.trim_end().to_owned(),
        }
    }

    /// That of `side`, on this port.
    fn of(side: &Side, port: u16) -> Self {
        Self::start(side.command("invite").args([
            "--address",
            "127.0.0.1",
            "--listen",
            &local(port),
        ]))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("process numbers are small");
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }

    /// Waits for the end: the code, what else it printed, and what it said.
    fn end(mut self) -> Ran {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.results.read_to_string(&mut stdout).expect("UTF-8");
        let mut said = self.child.stderr.take().expect("it is piped");
        said.read_to_string(&mut stderr).expect("UTF-8");
        let code = self.child.wait().expect("it is ours").code();
        Ran {
            code,
            stdout,
            stderr,
        }
    }
}

impl Drop for Inviting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last line that a program said: why it failed.
#[track_caller]
fn why(ran: &Ran) -> &str {
    let last = ran.stderr.lines().last().expect("it says why");
    last.strip_prefix("tandem: ").expect("it names the program")
}

/// A run with something on standard input.
fn run_with_input(command: &mut Command, input: &str) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    let mut to = child.stdin.take().expect("it is piped");
    to.write_all(input.as_bytes()).expect("it reads");
    drop(to);
    let output = child.wait_with_output().expect("it is ours");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn mode(path: &Path) -> u32 {
    let file = fs::metadata(path).expect("it was written");
    file.permissions().mode() & 0o777
}

#[test]
fn two_commands_make_a_pair_whose_tunnel_works() {
    let (server, client) = (Side::new(), Side::new());
    let port = free_port();
    let inviting = Inviting::of(&server, port);
    assert_eq!(server.files(), 1 + 1, "two drafts, and nothing else");
    // As mail breaks it, through standard input.
    let (front, back) = inviting.invitation.split_at(40);
    let carried = format!("  {front}\n{back}\n\n");
    let accepted = run_with_input(&mut client.command("accept"), &carried);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let invited = inviting.end();
    assert_eq!(invited.code, Some(0), "{invited:?}");
    for (ran, role) in [(&accepted, "client-side"), (&invited, "server-side")] {
        assert_eq!(ran.stdout, "");
        let next = format!("tandem {role} --config ");
        assert!(ran.stderr.contains(&next), "{ran:?}");
    }

    let key = server.read("key");
    assert_eq!(client.read("key"), key);
    assert_eq!(key.trim_end().len(), 64);
    for side in [&server, &client] {
        assert_eq!(side.files(), 2);
        assert_eq!(mode(&side.path("key")), 0o600);
        assert_eq!(mode(&side.path("settings.toml")), 0o644);
    }

    let site = Site::new();
    site.publish("page", b"through the tunnel");
    let socks = free_port();
    let _server_side = start(
        tandem(&["server-side", "--admin", "none", "--config"])
            .arg(server.path("settings.toml"))
            .args(["--allow", &format!("127.0.0.0/8:{}", site.port)])
            .arg("--store")
            .arg(server.path("store")),
    );
    let _client_side = start(
        tandem(&["client-side", "--admin", "none", "--config"])
            .arg(client.path("settings.toml"))
            .args(["--socks", &local(socks)])
            .arg("--store")
            .arg(client.path("store")),
    );
    let mut pair = tunnel_pair::Pair::new();
    pair.socks = socks;
    pair.by_socks()
        .gets(site.port, "page", b"through the tunnel");
}

#[test]
fn programs_get_an_object_a_line() {
    let (server, client) = (Side::new(), Side::new());
    let port = free_port();
    let mut command = server.command("invite");
    command.args(["--address", "localhost:5000", "--json", "--listen"]);
    command.arg(local(port));
    let inviting = Inviting::start(command.args(["--tcp-port", &port.to_string()]));
    let told: serde_json::Value = serde_json::from_str(&inviting.invitation).expect("JSON");
    let told = &told["invitation"];
    assert_eq!(told["address"], format!("localhost:{port}"));
    assert!(told["expires"].as_u64() > Some(1_700_000_000), "{told}");
    let text = told["text"].as_str().expect("the invitation");
    let accepted = run(client.accept(text).arg("--json"));
    let told: serde_json::Value = serde_json::from_str(accepted.succeeded()).expect("JSON");
    let with = told["paired"]["with"].as_str().expect("an address");
    // The port that the tunnel has there, not the one of the exchange.
    assert!(with.ends_with(":5000"), "{told}");
    let settings = client.read("settings.toml");
    assert!(
        settings.contains(&format!("peer = \"{with}\"")),
        "{settings}"
    );
    let invited = inviting.end();
    assert_eq!(invited.code, Some(0), "{invited:?}");
    let told: serde_json::Value = serde_json::from_str(&invited.stdout).expect("JSON");
    let key = server.path("key");
    assert_eq!(told["paired"]["key"].as_str(), key.to_str());
}

#[test]
fn an_invitation_works_once_and_the_second_who_has_it_is_told_so() {
    let (server, client, other) = (Side::new(), Side::new(), Side::new());
    let inviting = Inviting::of(&server, free_port());
    let invitation = inviting.invitation.clone();
    assert_eq!(run(&mut client.accept(&invitation)).code, Some(0));
    assert_eq!(inviting.end().code, Some(0));
    let again = run(&mut other.accept(&invitation));
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(
        why(&again).contains("An invitation works once"),
        "{again:?}"
    );
    assert_eq!(other.files(), 0);
}

#[test]
fn a_mistake_in_the_invitation_is_found_before_anybody_is_asked() {
    let client = Side::new();
    let server = Side::new();
    let inviting = Inviting::of(&server, free_port());
    let good = &inviting.invitation;
    for (text, part) in [
        ("", "no invitation"),
        ("hello", "no invitation"),
        (&good[..good.len() - 1], "copy it again"),
        (&good.replace("tandem1", "tandem7"), "another version"),
    ] {
        let ran = run(&mut client.accept(text));
        assert!(ran.failed_with(2).contains(part), "{ran:?}");
    }
    assert_eq!(client.files(), 0);
    // It is still good.
    assert_eq!(run(&mut client.accept(good)).code, Some(0));
}

#[test]
fn a_side_that_is_paired_stays_so_unless_it_is_forced() {
    let (server, client) = (Side::new(), Side::new());
    let inviting = Inviting::of(&server, free_port());
    let invitation = inviting.invitation.clone();
    write_private(&client.path("key"), KEYS[0]);
    let refused = run(&mut client.accept(&invitation));
    assert!(refused.failed_with(2).contains("--force"), "{refused:?}");
    assert_eq!(client.read("key"), KEYS[0]);

    fs::remove_file(client.path("key")).expect("it is there");
    let settings = "# mine\npeer = \"192.0.2.1:4433\"\nlink-rtt = 600\n";
    fs::write(client.path("settings.toml"), settings).expect("ours");
    let refused = run(&mut client.accept(&invitation));
    assert!(
        refused.failed_with(2).contains("192.0.2.1:4433"),
        "{refused:?}"
    );
    assert_eq!(client.files(), 1);

    write_private(&client.path("key"), KEYS[0]);
    let forced = run(client.accept(&invitation).arg("--force"));
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert_eq!(inviting.end().code, Some(0));
    assert_eq!(client.read("key"), server.read("key"));
    let text = client.read("settings.toml");
    assert!(text.starts_with("# mine\npeer = \"127.0.0.1:"), "{text}");
    assert!(text.contains("\nlink-rtt = 600\n"), "{text}");
    assert_eq!(client.files(), 2);
}

#[test]
fn a_key_that_is_there_is_carried_and_needs_no_settings() {
    let (server, client) = (Side::new(), Side::new());
    write_private(&server.path("key"), KEYS[1]);
    let port = free_port();
    let mut command = tandem(&["pair", "invite", "--key-only", "--key"]);
    command.arg(server.path("key"));
    command.args(["--address", "127.0.0.1", "--listen", &local(port)]);
    let inviting = Inviting::start(&mut command);
    let mut command = tandem(&["pair", "accept", "--key-only", "--key"]);
    command.arg(client.path("key")).arg(&inviting.invitation);
    assert_eq!(run(&mut command).code, Some(0));
    assert_eq!(inviting.end().code, Some(0));
    assert_eq!(server.read("key"), KEYS[1]);
    assert_eq!(client.read("key").trim_end(), KEYS[1]);
    assert_eq!((server.files(), client.files()), (1, 1));
}

#[test]
fn a_second_client_side_gets_the_same_key() {
    let (server, first, second) = (Side::new(), Side::new(), Side::new());
    let port = free_port();
    for client in [&first, &second] {
        let inviting = Inviting::of(&server, port);
        assert_eq!(run(&mut client.accept(&inviting.invitation)).code, Some(0));
        assert_eq!(inviting.end().code, Some(0));
    }
    assert_eq!(first.read("key"), second.read("key"));
}

#[test]
fn ctrl_c_ends_the_wait_and_nothing_is_written() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let server = Side::new();
        let inviting = Inviting::of(&server, free_port());
        inviting.signal(signal);
        let ran = inviting.end();
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(why(&ran).contains("nothing was written"), "{ran:?}");
        assert_eq!(server.files(), 0);
    }
}

#[test]
fn what_cannot_be_written_is_found_before_the_invitation_is_used() {
    let (server, client) = (Side::new(), Side::new());
    let inviting = Inviting::of(&server, free_port());
    let nowhere = client.path("nowhere/key");
    let mut command = tandem(&["pair", "accept", "--key"]);
    command.arg(&nowhere);
    command.arg("--config").arg(client.path("settings.toml"));
    let refused = run(command.arg(&inviting.invitation));
    let path = nowhere.to_str().expect("temporary paths are UTF-8");
    assert!(refused.failed_with(2).contains(path), "{refused:?}");
    fs::write(client.path("settings.toml"), "wire = \"safe\"\n").expect("ours");
    let refused = run(&mut client.accept(&inviting.invitation));
    assert!(refused.failed_with(2).contains("--wire"), "{refused:?}");
    fs::remove_file(client.path("settings.toml")).expect("it is there");
    assert_eq!(client.files(), 0);
    assert_eq!(run(&mut client.accept(&inviting.invitation)).code, Some(0));
}

/// Runs `accept` while an end of the library's, in place of `tandem pair invite`, does `with`.
fn accept_from<F>(client: &Side, expires: u64, with: impl FnOnce(Inviter, TcpListener) -> F) -> Ran
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("it may");
    let address = listener.local_addr().expect("bound");
    let inviter = inviter(address, expires);
    let invitation = inviter.invitation().to_string();
    let other = with(inviter, listener);
    runtime.spawn(other);
    run(&mut client.accept(&invitation))
}

fn inviter(address: SocketAddr, expires: u64) -> Inviter {
    Inviter::new(Target::Address(address), UnixTime(expires)).expect("TLS")
}

#[test]
fn somebody_in_between_gets_nothing_and_gives_nothing() {
    let client = Side::new();
    let ran = accept_from(&client, u64::MAX, |asked, listener| {
        let address = listener.local_addr().expect("bound");
        // At the invitation's address, with a key of its own.
        let impostor = inviter(address, u64::MAX);
        async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let guest = impostor.guest(listener, |_| ()).await;
            let handover = Handover {
                key: [1; 32].into(),
                port: 1,
            };
            let _ = guest.hand_over(&handover).await;
            drop(asked);
        }
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(why(&ran).contains("somebody is in between"), "{ran:?}");
    assert_eq!(client.files(), 0);
}

#[test]
fn an_exchange_that_breaks_off_leaves_nothing() {
    let client = Side::new();
    let ran = accept_from(&client, u64::MAX, |inviter, listener| async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        drop(inviter.guest(listener, |_| ()).await);
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(why(&ran).contains("broke off"), "{ran:?}");
    assert_eq!(client.files(), 0);
}

#[test]
fn an_expired_invitation_is_called_so_where_nobody_answers() {
    let client = Side::new();
    let ran = accept_from(&client, 1_000_000_000, |_, listener| {
        drop(listener);
        std::future::ready(())
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(why(&ran).contains("expired"), "{ran:?}");
    assert_eq!(client.files(), 0);
}

#[test]
fn the_server_side_says_what_does_not_go() {
    let server = Side::new();
    let invite = |more: &[&str]| {
        run(server
            .command("invite")
            .args(["--address", "127.0.0.1"])
            .args(more))
    };
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let ran = invite(&["--listen", &address]);
    assert!(ran.failed_with(4).contains(&address), "{ran:?}");
    let ran = invite(&["--listen", "127.0.0.1:0"]);
    assert!(ran.failed_with(2).starts_with("listen: "), "{ran:?}");
    let settings = "listen = \"127.0.0.1:7\"\n";
    fs::write(server.path("settings.toml"), settings).expect("ours");
    let ran = invite(&["--listen", "127.0.0.1:8"]);
    assert!(ran.failed_with(2).contains("127.0.0.1:7"), "{ran:?}");
    assert_eq!(server.read("settings.toml"), settings);
    write_private(&server.path("key"), "secret words");
    let ran = invite(&[]);
    assert!(!ran.failed_with(2).contains("secret"), "{ran:?}");
    assert_eq!(server.files(), 2);
}
