//! What programs may do with OpenSSL that the usual ones do not, by a Python program that calls its
//! C interface (`inside.py`), and by one in C where threads matter (`inside.c`): each probe runs
//! with the library loaded and asserts by itself.
//!
//! Is not: a connection over a network, but for QUIC, which needs one.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use support::{Keys, Pki, Preload, library, program, python, run};
use tandem_testkit::{has, has_root_and, not_tried, openssl_3_5, skipped};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inside.py");

/// The command that runs a probe in this Python.
fn probe(python: &Path, preload: Preload, name: &str) -> Command {
    let pki = Pki::shared();
    let mut command = program(&python.display().to_string(), preload);
    command
        .args(["-I", SCRIPT, name])
        .args(["leaf.pem", "leaf.key", "trusted.pem"].map(|name| pki.file(name)));
    command
}

/// The program in C, and its shared object.
fn in_c() -> &'static [PathBuf; 2] {
    static BUILT: OnceLock<[PathBuf; 2]> = OnceLock::new();
    BUILT.get_or_init(|| {
        let kinds: [(&str, &[&str]); 2] = [
            ("keytap-inside", &["-rdynamic"]),
            ("keytap-inside.so", &["-DOBJECT", "-shared", "-fPIC"]),
        ];
        kinds.map(|(name, options)| {
            let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            let draft = built.with_extension(format!("draft-{}", std::process::id()));
            run(Command::new("cc")
                .args(["-Wall", "-Wextra", "-Werror", "-fexceptions", "-pthread"])
                .args(options)
                .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inside.c"))
                .args(["-ldl", "-o"])
                .arg(&draft));
            std::fs::rename(&draft, &built).expect("our own");
            built
        })
    })
}

/// Runs a probe in C, which announces, releases keys and says so; what it says.
#[track_caller]
fn holds_in_c(name: &str) -> Option<String> {
    if !has(&["openssl", "cc"]) {
        return None;
    }
    let (keys, pki) = (Keys::new(), Pki::shared());
    let [built, object] = in_c();
    let mut command = keys.program(&built.display().to_string());
    command
        .arg(name)
        .args(["leaf.pem", "leaf.key"].map(|name| pki.file(name)))
        .arg(object)
        .env("TANDEM_KEYTAP_EXTENSION", "0x009a")
        .env("TANDEM_KEYTAP_LOG", "stderr");
    let output = run(&mut command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs a probe with the library loaded.
#[track_caller]
fn holds(name: &str) {
    if has(&["openssl", python()]) {
        let output = run(&mut probe(Path::new(python()), Preload::Yes, name));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn a_program_that_loads_openssl_late_announces() {
    holds("plain");
}

#[test]
fn an_extension_that_the_program_registers_under_that_number_is_its_own() {
    holds("registered_by_the_program");
}

#[test]
fn every_way_to_a_connection_announces() {
    holds("other_ways");
    holds("late_certificate");
}

#[test]
fn a_chain_that_was_looked_at_leaves_nothing_behind() {
    holds("nothing_is_left_behind");
}

#[test]
fn datagrams_announce_nothing() {
    holds("datagrams");
}

#[test]
fn connections_of_quic_announce_and_release_nothing_and_do_not_hang() {
    if !has(&["openssl", python()]) {
        return;
    }
    // Debian 12's has none.
    let Some(openssl) = openssl_3_5() else {
        return;
    };
    let keys = Keys::new();
    let mut quic = probe(Path::new(python()), Preload::Yes, "quic");
    quic.env("TANDEM_KEYTAP_LIBSSL", openssl.join("lib/libssl.so.3"))
        .env("TANDEM_KEYTAP_SOCKET", keys.file("keys"))
        .env("TANDEM_KEYTAP_EXTENSION", "0x009a")
        .env("TANDEM_KEYTAP_LOG", "stderr");
    let output = run(&mut quic);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    let log = String::from_utf8_lossy(&output.stderr);
    let mut said = log
        .lines()
        .filter(|line| !line.contains("tandem-keytap: loaded"));
    assert!(log.contains("announced nothing"), "{log}");
    assert!(
        said.all(|line| line.ends_with("the connection is QUIC's")),
        "{log}"
    );
    assert_eq!(keys.datagrams(), Vec::<Vec<u8>>::new());
}

#[test]
fn failures_are_openssls_own() {
    holds("failures");
}

#[test]
fn first_connections_of_many_threads_all_announce() {
    holds("threads");
}

#[test]
fn a_thread_that_is_cancelled_ends_as_without_the_library() {
    if let Some(said) = holds_in_c("cancelled") {
        // Both handshakes: the thread goes on within the library's work.
        assert_eq!(said.matches("announced 16 bytes").count(), 2, "{said}");
    }
    holds_in_c("cancelled_in_its_key_log");
    holds_in_c("cancelled_in_openssl");
}

#[test]
fn a_key_log_that_is_set_late_moves_nothing_that_handshakes_read() {
    holds_in_c("late_key_log");
}

#[test]
fn handshakes_do_not_wait_for_a_thread_that_loads_an_object() {
    holds_in_c("linker_is_locked");
}

#[test]
fn two_openssls_in_a_process_keep_apart() {
    if std::env::var_os("TANDEM_KEYTAP_OTHER_LIBSSL").is_none() {
        not_tried("another libssl, which TANDEM_KEYTAP_OTHER_LIBSSL names");
    } else {
        holds("two_libraries");
    }
}

/// The linker ignores most preloads there; so the library is loaded by hand, by a copy of Python
/// with another user's rights.
#[test]
fn with_elevated_rights_nothing_is_announced() {
    if !has_root_and(&["openssl", python()]) {
        return;
    }
    // Open to all on the way there, unlike the build's folder.
    let folder = tempfile::tempdir_in("/tmp").expect("a folder for temporary files");
    let open = |path: &Path, mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own");
    };
    open(folder.path(), 0o755);
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        std::fs::copy(from, &to).expect("copied");
        open(&to, 0o755);
        to
    };
    let interpreter = std::fs::canonicalize(python()).expect("the system's Python");
    let ordinary = copy(&interpreter, "python");
    let elevated = copy(&interpreter, "python-elevated");
    std::os::unix::fs::chown(&elevated, Some(65_534), Some(65_534)).expect("root may");
    open(&elevated, 0o6755);
    let pki = Pki::shared();
    let files = ["leaf.pem", "leaf.key", "trusted.pem"].map(|name| copy(&pki.file(name), name));
    let script = copy(Path::new(SCRIPT), "inside.py");
    let by_hand = copy(&library(), "libtandem_keytap.so");
    let ran = |python: &Path, name: &str| {
        let mut command = program(&python.display().to_string(), Preload::No);
        command.arg("-I").arg(&script).arg(name).args(&files);
        let output = run(command.arg(&by_hand).env("TANDEM_KEYTAP_LOG", "stderr"));
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let (stdout, stderr) = ran(&ordinary, "plain");
    assert_eq!(stdout, "done\n", "loaded by hand it works");
    assert!(stderr.contains("announced 16 bytes"), "{stderr}");
    match ran(&elevated, "elevated") {
        (stdout, _) if stdout == "no rights\n" => {
            skipped("needs a file system for temporary files that allows set-uid");
        }
        outcome => assert_eq!(outcome, ("done\n".to_owned(), String::new())),
    }
}
