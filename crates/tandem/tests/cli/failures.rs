//! What a user sees when something is wrong: one line that says what to do, and the documented exit
//! code.
//!
//! None of these tests changes anything on the machine: each run ends before it would, or is a dry
//! one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::support::common;
use common::{Ran, run, tandem, unprivileged};
use tempfile::TempDir;

/// A folder with a good key, and the paths in it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a place for temporary files"));
        folder.write("key", &"0123456789abcdef".repeat(4));
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name)
            .to_str()
            .expect("temporary paths are UTF-8")
            .to_owned()
    }

    fn write(&self, name: &str, contents: &str) {
        fs::write(self.path(name), contents).expect("a writable temporary folder");
    }

    /// A client side with this key file, on an interface that every machine has.
    fn client_side(&self, key: &str, more: &[&str]) -> Ran {
        let key = self.text(key);
        let store = self.text("store");
        let own = [
            "client-side",
            "--link",
            "lo",
            "--key",
            &key,
            "--store",
            &store,
        ];
        run(&mut tandem(&[&own, more].concat()))
    }
}

#[test]
fn without_a_command_the_usage_is_shown() {
    let ran = run(&mut tandem::<&str>(&[]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Usage: tandem"), "{ran:?}");
}

#[test]
fn an_unknown_flag_is_named_with_the_nearest_one() {
    let ran = run(&mut tandem(&["client-side", "--lnk", "ppp0"]));
    assert_eq!(
        ran.failed_with(2),
        "unexpected argument '--lnk' found; a similar argument exists: '--link' (see `tandem client-side --help`)"
    );
}

#[test]
fn a_choice_that_there_is_not_is_answered_with_those_there_are() {
    let ran = run(&mut tandem(&["client-side", "--wire", "unsafe"]));
    let line = ran.failed_with(2);
    assert!(line.contains("[possible values: safe, mcveety]"), "{line}");
}

#[test]
fn a_daemon_without_a_link_asks_for_one() {
    let line = run(&mut tandem(&["client-side"])).failed_with(2).to_owned();
    assert!(line.contains("link"), "{line}");
}

#[test]
fn a_daemon_without_a_key_says_how_to_get_one() {
    let ran = run(&mut tandem(&["client-side", "--link", "lo"]));
    let line = ran.failed_with(2);
    assert!(
        line.contains("key") && line.contains("--insecure-no-key"),
        "{line}"
    );
}

#[test]
fn a_key_and_the_word_to_do_without_one_exclude_each_other() {
    let ran = Folder::new().client_side("key", &["--insecure-no-key"]);
    assert!(ran.failed_with(2).contains("insecure-no-key"), "{ran:?}");
}

#[test]
fn a_key_file_that_is_not_there_is_named() {
    let folder = Folder::new();
    let ran = folder.client_side("absent", &["--dry-run"]);
    assert!(
        ran.failed_with(2).contains(&folder.text("absent")),
        "{ran:?}"
    );
}

#[test]
fn a_key_that_is_none_is_refused_without_being_shown() {
    let folder = Folder::new();
    for bad in ["", "0123", &"0123456789abcdeg".repeat(4), &"0".repeat(65)] {
        folder.write("bad", bad);
        let ran = folder.client_side("bad", &["--dry-run"]);
        let line = ran.failed_with(2);
        assert!(line.contains("tandem keygen"), "{line}");
        assert!(bad.is_empty() || !line.contains(bad), "{line}");
    }
}

#[test]
fn an_interface_that_there_is_not_is_named() {
    let ran = run(&mut unprivileged(&[
        "server-side",
        "--link",
        "nosuchlink0",
        "--insecure-no-key",
    ]));
    // With privileges or without: what is wrong in the command line is said first.
    assert!(ran.failed_with(2).contains("nosuchlink0"), "{ran:?}");
}

#[test]
fn without_privileges_a_daemon_names_those_that_it_needs() {
    let ran = run(&mut unprivileged(&[
        "client-side",
        "--link",
        "lo",
        "--insecure-no-key",
    ]));
    assert!(ran.failed_with(3).contains("CAP_NET_ADMIN"), "{ran:?}");
}

#[test]
fn a_dry_run_needs_no_privileges_and_shows_the_rules() {
    let ran = run(&mut unprivileged(&[
        "client-side",
        "--link",
        "lo",
        "--insecure-no-key",
        "--dry-run",
    ]));
    let commands = ran.succeeded();
    assert!(
        commands.contains("iptables") && commands.contains("NFQUEUE"),
        "{commands}"
    );
    assert!(
        commands.contains("--ports 443") || commands.contains("443"),
        "{commands}"
    );
}

#[test]
fn a_settings_file_is_read_and_a_flag_beats_it() {
    let folder = Folder::new();
    let (key, config) = (folder.text("key"), folder.text("a.toml"));
    folder.write(
        "a.toml",
        &format!("link = \"nosuchlink0\"\nkey = \"{key}\"\nports = [8443]\n"),
    );
    let from_file = run(&mut tandem(&[
        "client-side",
        "--config",
        &config,
        "--dry-run",
    ]));
    assert!(
        from_file.failed_with(2).contains("nosuchlink0"),
        "{from_file:?}"
    );

    let from_flag = run(&mut tandem(&[
        "client-side",
        "--config",
        &config,
        "--link",
        "lo",
        "--dry-run",
    ]));
    let commands = from_flag.succeeded();
    assert!(
        commands.contains("-o lo ") && commands.contains("ports 8443 "),
        "{commands}"
    );
}

#[test]
fn an_unknown_key_in_the_settings_is_named_with_its_line_and_the_nearest_one() {
    let folder = Folder::new();
    folder.write("a.toml", "link = \"lo\"\nprots = [443]\n");
    let ran = run(&mut tandem(&[
        "client-side",
        "--config",
        &folder.text("a.toml"),
    ]));
    let line = ran.failed_with(2);
    for part in ["a.toml", "line 2", "prots", "ports"] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn settings_that_are_no_toml_or_not_there_are_named() {
    let folder = Folder::new();
    folder.write("a.toml", "link = \n");
    for name in ["a.toml", "absent.toml"] {
        let ran = run(&mut tandem(&[
            "client-side",
            "--config",
            &folder.text(name),
        ]));
        assert!(ran.failed_with(2).contains(name), "{ran:?}");
    }
}

#[test]
fn values_that_cannot_be_are_named_by_their_setting() {
    let folder = Folder::new();
    for (setting, value) in [
        ("admin", "\"localhost\""),
        ("ports", "[]"),
        ("mode", "\"tunel\""),
        ("wire", "\"unsafe\""),
        ("log", "\"debgu\""),
        ("log-format", "\"xml\""),
        ("max-flows", "0"),
    ] {
        folder.write(
            "a.toml",
            &format!("link = \"lo\"\ninsecure-no-key = true\n{setting} = {value}\n"),
        );
        let ran = run(&mut tandem(&[
            "client-side",
            "--config",
            &folder.text("a.toml"),
            "--dry-run",
        ]));
        assert_eq!(ran.code, Some(2), "{setting}: {ran:?}");
        assert!(ran.failed_with(2).contains(setting), "{setting}: {ran:?}");
    }
}

#[test]
fn status_without_a_proxy_says_where_it_asked() {
    // Port 1 of the loopback address: assigned to a service that nobody runs, so nobody answers.
    let ran = run(&mut tandem(&["status", "--admin", "127.0.0.1:1"]));
    assert!(ran.failed_with(1).contains("127.0.0.1:1"), "{ran:?}");
}

#[test]
fn a_store_that_there_is_not_is_named() {
    let folder = Folder::new();
    let store = folder.text("store");
    for command in ["ls", "export"] {
        let ran = run(&mut tandem(&["store", command, "--store", &store]));
        assert!(ran.failed_with(2).contains(&store), "{ran:?}");
    }
}

#[test]
fn purging_asks_what_to_forget() {
    let line = run(&mut tandem(&["store", "purge", "--store", "/nowhere"]))
        .failed_with(2)
        .to_owned();
    assert!(
        line.contains("--all") && line.contains("--expired"),
        "{line}"
    );
}

#[test]
fn a_capture_that_is_none_is_damaged_input_and_one_that_is_not_there_a_slip() {
    let folder = Folder::new();
    folder.write("no.pcap", "this is no capture\n");
    folder.write("empty.pcap", "");
    for name in ["no.pcap", "empty.pcap"] {
        let ran = run(&mut tandem(&["estimate", &folder.text(name)]));
        assert!(ran.failed_with(5).contains(name), "{ran:?}");
    }
    let ran = run(&mut tandem(&["estimate", &folder.text("absent.pcap")]));
    assert!(ran.failed_with(2).contains("absent.pcap"), "{ran:?}");
    let ran = run(&mut tandem(&["estimate", &folder.text("")]));
    ran.failed_with(2);
}

#[test]
fn a_link_without_a_rate_is_refused() {
    let ran = run(&mut tandem(&["estimate", "--link-rate", "0", "/dev/null"]));
    assert!(ran.failed_with(2).contains("--link-rate"), "{ran:?}");
}

#[test]
fn programs_that_stand_beside_this_one_get_the_same_arguments() {
    // A copy of the program with a folder of its own: beside the built one they may stand.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = place.path().join("tandem");
    fs::hard_link(env!("CARGO_BIN_EXE_tandem"), &program).unwrap();
    for (command, other, package) in [
        (
            "keyserver",
            "tandem-keyserver",
            "--package tandem-keyserver-io",
        ),
        ("keytap", "tandem-keytap", "--package tandem-key-relay"),
        ("lab", "tandem-lab", "--package tandem-lab"),
        ("mc", "tandem-mc", "--package tandem-mc"),
        ("measure", "tandem-measure", "--package tandem-measure-io"),
    ] {
        let start = |arguments: &[&str]| {
            let mut started = Command::new(&program);
            started
                .arg(command)
                .args(arguments)
                .env("PATH", place.path());
            run(&mut started)
        };
        let missing = start(&["run", "file.toml"]);
        let words = missing.failed_with(3);
        assert!(words.contains(other), "{words}");
        assert!(words.contains(package), "{words}");

        let script = place.path().join(other);
        fs::write(&script, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        for (arguments, seen) in [
            (&["--help"][..], "<--help>"),
            (
                &["shell", "client", "--", "a b"],
                "<shell><client><--><a b>",
            ),
            (&["run", "-h", "--out=x"], "<run><-h><--out=x>"),
        ] {
            let ran = start(arguments);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), seen));
        }
    }
}
