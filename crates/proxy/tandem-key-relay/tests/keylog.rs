//! `keylog` as a process, and what programs write into its FIFO.

mod support;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use support::{Place, Process, is_there, keytap};
use tandem_key_log::HandshakeSecret;
use tandem_testkit::{has, not_tried};

/// RFC 8448, section 3.
const RANDOM: &str = "cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7";
const SERVER: &str = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38";

fn line(label: &str, secret: &str) -> String {
    format!("{label} {RANDOM} {secret}\n")
}

fn server_line() -> String {
    line("SERVER_HANDSHAKE_TRAFFIC_SECRET", SERVER)
}

fn command(place: &Place) -> Command {
    let mut command = keytap(["keylog", "--dangerous-keylog"]);
    command.arg(place.path("fifo"));
    command.arg("--socket").arg(place.path("proxy"));
    command
}

/// `keylog`, and its FIFO as a program opens it.
fn start(place: &Place) -> (Process, File) {
    let process = Process::start(command(place));
    process.says("takes every secret");
    let fifo = OpenOptions::new().write(true).open(place.path("fifo"));
    (process, fifo.expect("it is there"))
}

/// What follows from a line, as a proxy gets it.
fn datagrams(line: &str) -> Vec<Vec<u8>> {
    let secret = HandshakeSecret::of_line(line.trim_end().as_bytes()).expect("a secret");
    let keys = secret.suites().filter_map(|suite| secret.record_key(suite));
    keys.map(|key| key.to_datagram().to_vec()).collect()
}

/// A good line gives its keys, and nothing has come in front of them.
#[track_caller]
fn works(place: &Place, fifo: &mut File) {
    fifo.write_all(server_line().as_bytes()).expect("it reads");
    for expected in datagrams(&server_line()) {
        assert_eq!(place.next(), expected);
    }
}

#[test]
fn what_servers_write_their_handshakes_with_leaves_and_nothing_else() {
    let place = Place::new();
    let (process, mut fifo) = start(&place);
    let metadata = std::fs::metadata(place.path("fifo")).expect("it was made");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o620);
    for label in [
        "CLIENT_RANDOM",
        "CLIENT_EARLY_TRAFFIC_SECRET",
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
        "EARLY_EXPORTER_SECRET",
        "EXPORTER_SECRET",
        "ECH_SECRET",
    ] {
        let line = line(label, SERVER);
        fifo.write_all(line.as_bytes()).expect("it reads");
    }
    works(&place, &mut fifo);
    let long = line(
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        &format!("{SERVER}{}", &SERVER[..32]),
    );
    fifo.write_all(long.as_bytes()).expect("it reads");
    assert_eq!([place.next()], *datagrams(&long));
    assert!(!place.has_one());
    let (code, log) = process.end(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("3 keys passed on, 0 dropped"), "{log}");
    assert!(!log.contains(&SERVER[..16]), "{log}");
}

#[test]
fn nonsense_harms_nobody() {
    let place = Place::new();
    let (_process, mut fifo) = start(&place);
    let long = vec![b'x'; 300_000];
    let noise: Vec<u8> = (0..100_000_u32)
        .map(|n| n.wrapping_mul(n).to_le_bytes()[1])
        .collect();
    let line = server_line();
    let cut = &line.as_bytes()[..100];
    for nonsense in [
        &b"\n\n \r\n# a comment\n"[..],
        &long,
        b"\n",
        &noise,
        b"\n",
        cut,
        b"\n",
    ] {
        fifo.write_all(nonsense).expect("it reads");
    }
    works(&place, &mut fifo);
}

#[test]
fn programs_come_and_go_and_a_line_may_come_in_pieces() {
    let place = Place::new();
    let (_process, mut fifo) = start(&place);
    works(&place, &mut fifo);
    drop(fifo);
    let open = || OpenOptions::new().write(true).open(place.path("fifo"));
    let [mut one, mut other] = [open(), open()].map(|fifo| fifo.expect("it is there"));
    works(&place, &mut one);
    works(&place, &mut other);
    let line = server_line();
    let (begun, rest) = line.as_bytes().split_at(90);
    one.write_all(begun).expect("it reads");
    drop(one);
    other.write_all(rest).expect("it reads");
    for expected in datagrams(&line) {
        assert_eq!(place.next(), expected);
    }
}

#[test]
fn without_a_proxy_the_fifo_is_read_all_the_same() {
    let place = Place::new();
    let mut command = keytap(["keylog", "--dangerous-keylog"]);
    command.arg(place.path("fifo"));
    command.arg("--socket").arg(place.path("absent"));
    let process = Process::start(command);
    process.says("takes every secret");
    let fifo = OpenOptions::new().write(true).open(place.path("fifo"));
    let mut fifo = fifo.expect("it is there");
    // Many times what a FIFO has room for.
    for _ in 0..5_000 {
        fifo.write_all(server_line().as_bytes()).expect("it reads");
    }
    let (code, log) = process.end(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("0 keys passed on"), "{log}");
}

#[test]
fn after_a_kill_a_program_s_fifo_is_read_again() {
    let place = Place::new();
    let (process, mut fifo) = start(&place);
    works(&place, &mut fifo);
    process.end(Signal::SIGKILL);
    assert!(is_there(&place.path("fifo")));
    // What a Go program makes a failed handshake of.
    let refused = fifo.write_all(server_line().as_bytes());
    let refused = refused.map_err(|error| error.kind());
    assert_eq!(refused, Err(io::ErrorKind::BrokenPipe));
    let (_process, _) = start(&place);
    works(&place, &mut fifo);
}

#[test]
fn what_would_keep_or_show_secrets_is_refused() {
    let place = Place::new();
    std::fs::write(place.path("fifo"), "").expect("a file");
    let run = || command(&place).output().expect("it was built");
    let ran = run();
    let said = String::from_utf8(ran.stderr).expect("text");
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("is no FIFO"), "{said}");

    std::fs::remove_file(place.path("fifo")).expect("ours");
    nix::unistd::mkfifo(&place.path("fifo"), Mode::S_IRUSR).expect("a FIFO");
    let open = |mode| {
        let permissions = Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("fifo"), permissions).expect("ours");
    };
    for mode in [0o640, 0o604, 0o666] {
        open(mode);
        let ran = run();
        let said = String::from_utf8(ran.stderr).expect("text");
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("`chmod 620` it"), "{said}");
    }
    open(0o620);
    if nix::unistd::geteuid().is_root() {
        let own = |user| {
            let owned = std::os::unix::fs::chown(place.path("fifo"), Some(user), None);
            owned.expect("root may");
        };
        own(65_534);
        let ran = run();
        let said = String::from_utf8(ran.stderr).expect("text");
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("is another user's"), "{said}");
        own(0);
    } else {
        not_tried("a FIFO of another user needs root");
    }
    let (_process, mut fifo) = start(&place);
    works(&place, &mut fifo);
}

#[test]
fn nobody_of_its_own_user_s_may_look_into_its_memory() {
    if !has(&["setpriv"]) {
        return;
    }
    let place = Place::new();
    place.open_to_all();
    let mut command = command(&place);
    if nix::unistd::geteuid().is_root() {
        // Root's own processes are root's in any case.
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        nobody.arg(command.get_program()).args(command.get_args());
        nobody.env_remove("NOTIFY_SOCKET");
        command = nobody;
    }
    let process = Process::start(command);
    process.says("takes every secret");
    let entry = std::fs::metadata(format!("/proc/{}/mem", process.pid()));
    assert_eq!(entry.expect("it runs").uid(), 0, "PR_SET_DUMPABLE");
}
