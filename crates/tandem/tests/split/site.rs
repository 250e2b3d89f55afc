//! `tandem split`: an origin and a volunteer as processes, and an unmodified curl.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{common, split_site};
use split_site::{LEN, Running, Site, eventually, free_port, openssl, start};

#[test]
fn curl_is_served_and_a_restarted_volunteer_still_has_what_it_kept() {
    let site = Site::new();
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
    let cold = site.sent();
    assert!(cold > LEN as u64);
    drop(volunteer);
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
    let warm = site.sent() - cold;
    assert!(warm * 200 < LEN as u64, "{warm} bytes");
}

#[test]
fn a_volunteer_that_is_killed_cuts_the_transfer_and_another_serves() {
    let site = Site::new();
    let mut volunteer = site.volunteer("one", &["--rate", "200"]);
    let mut curl = site
        .curl(volunteer.port, "file")
        .spawn()
        .expect("curl runs");
    let mut out = curl.stdout.take().expect("piped");
    let mut bytes = vec![0; 100_000];
    out.read_exact(&mut bytes).expect("it has begun");
    volunteer.process.0.kill().expect("ours");
    out.read_to_end(&mut bytes).expect("curl ends");
    assert!(!curl.wait().expect("it ends").success(), "a cut is no end");
    let whole = site.published("file");
    assert!(bytes.len() < whole.len() && whole.starts_with(&bytes));
    let other = site.volunteer("other", &[]);
    site.serves(&other, "file");
}

#[test]
fn what_does_not_fit_is_said_at_the_start() {
    let folder = tempfile::tempdir().expect("a directory");
    let (cert, key) = openssl(
        folder.path(),
        "curve",
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    );
    let listen = format!("127.0.0.1:{}", free_port());
    let origin = |cert: &Path, upstream: &str| {
        let mut command = common::tandem(&[
            "split",
            "origin",
            "--listen",
            &listen,
            "--upstream",
            upstream,
        ]);
        command.arg("--cert").arg(cert).arg("--key").arg(&key);
        common::run(&mut command)
    };
    let ran = origin(&cert, "http://127.0.0.1:1");
    let said = ran.failed_with(2);
    assert!(said.contains("curve.pem") && said.contains("RSA"), "{said}");
    let ran = origin(&cert, "https://127.0.0.1:1");
    assert!(ran.failed_with(2).contains("--upstream"));
    let ran = origin(&folder.path().join("none.pem"), "http://127.0.0.1:1");
    assert!(ran.failed_with(2).contains("none.pem"));
    let ran = common::run(&mut common::tandem(&[
        "split",
        "volunteer",
        "--origin",
        "nowhere",
        "--listen",
        &listen,
    ]));
    assert!(ran.failed_with(2).contains("--origin"));
}

#[test]
fn the_trial_certificates_of_the_guide_and_of_the_package_are_taken() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(source.join("docs/splitting.md")).expect("it is there");
    let (_, section) = guide
        .split_once("### A certificate for a trial\n")
        .expect("the guide has the section");
    let lines = section
        .lines()
        .skip_while(|line| !line.starts_with("    openssl"))
        .take_while(|line| line.starts_with("    "));
    let commands: String = lines.map(|line| format!("{line}\n")).collect();
    let script = source.join("packaging/examples/trial-certificate");
    let script = script.canonicalize().expect("it is there");
    let script = script.to_str().expect("a plain path");
    for words in [&["-ec", &commands][..], &[script, "split.test", "."]] {
        let folder = tempfile::tempdir().expect("a directory");
        let run = |command: &mut Command| {
            let out = command
                .current_dir(folder.path())
                .output()
                .expect("it runs");
            assert!(out.status.success(), "{command:?}: {out:?}");
        };
        run(Command::new("sh").args(words).stdin(Stdio::null()));
        run(Command::new("openssl")
            .args(["verify", "-CAfile", "trial-ca.pem"])
            .args(["-verify_hostname", "split.test", "site.pem"]));
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .expect("ours")
            .map(|entry| {
                entry
                    .expect("ours")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        assert_eq!(names, ["site.key", "site.pem", "trial-ca.pem"]);
        let mut origin = common::tandem(&["split", "origin", "--listen", "127.0.0.1:0"]);
        origin
            .args(["--upstream", "http://127.0.0.1:1"])
            .args(["--cert", "site.pem", "--key", "site.key"])
            .current_dir(folder.path());
        start(&mut origin, "ready");
    }
}

#[test]
fn an_origin_gives_clients_tickets_unless_it_is_told_not_to() {
    for (more, gives) in [(&[][..], true), (&["--no-resumption"][..], false)] {
        let mut site = Site::without_origin();
        site.start_origin_with("", more);
        let volunteer = site.volunteer("one", &[]);
        let out = Command::new("openssl")
            .args([
                "s_client",
                "-tls1_2",
                "-servername",
                "split.test",
                "-connect",
            ])
            .arg(format!("127.0.0.1:{}", volunteer.port))
            .stdin(Stdio::null())
            .output()
            .expect("openssl runs");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains("\nNew, "), "{text}");
        assert_eq!(text.contains("TLS session ticket:"), gives, "{text}");
    }
}

#[test]
fn keys_that_anybody_can_read_are_warned_of_at_the_start() {
    let folder = tempfile::tempdir().expect("a directory");
    let (cert, key) = openssl(folder.path(), "site", &["-newkey", "rsa:2048"]);
    let channel_key = folder.path().join("channel.key");
    let logged = || {
        let mut command = common::tandem(&["split", "origin", "--listen", "127.0.0.1:0"]);
        command
            .args(["--upstream", "http://127.0.0.1:1"])
            .arg("--cert")
            .arg(&cert)
            .arg("--key")
            .arg(&key)
            .arg("--channel-key")
            .arg(&channel_key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = Running(command.spawn().expect("it starts"));
        let out = running.0.stdout.take().expect("piped");
        let mut log = running.0.stderr.take().expect("piped");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("it writes");
        assert_eq!(line, "ready\n");
        drop(running);
        let mut text = String::new();
        log.read_to_string(&mut text).expect("it logs text");
        text
    };
    // As openssl and the origin itself have made them.
    let text = logged();
    assert!(!text.contains("chmod"), "{text}");
    for file in [&key, &channel_key] {
        fs::set_permissions(file, Permissions::from_mode(0o644)).expect("ours");
    }
    let text = logged();
    for file in [&key, &channel_key] {
        let name = file.display().to_string();
        let mut lines = text.lines();
        let warned = lines.any(|line| line.contains("chmod") && line.contains(&name));
        assert!(warned, "{name}: {text}");
    }
}

#[test]
fn a_demonstration_is_served_by_helpers_refused_from_a_liar_and_gone_in_the_end() {
    let mut child = common::tandem(&["split", "demo", "--port", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let out = child.stdout.take().expect("piped");
    let running = Running(child);
    let mut lines = Vec::new();
    for line in BufReader::new(out).lines() {
        let line = line.expect("text");
        let is_last = line == "ready";
        lines.push(line);
        if is_last {
            break;
        }
    }
    let after = |start: &str| {
        let found = lines.iter().find_map(|line| line.strip_prefix(start));
        found
            .unwrap_or_else(|| panic!("{start}: {lines:#?}"))
            .trim()
    };
    let helpers: Vec<&str> = after("The site, through helpers:").split(' ').collect();
    let authority = after("  curl --cacert").split(' ').next().expect("a path");
    let fetch = |url: &str| {
        Command::new("curl")
            .args(["--silent", "--noproxy", "*", "--cacert", authority, url])
            .output()
            .expect("curl runs")
    };
    let first = fetch(&format!("{}chart.svg", helpers[0]));
    assert!(first.status.success(), "{first:?}");
    assert!(first.stdout.starts_with(b"<svg"));
    for helper in [helpers[0], helpers[1]] {
        assert!(fetch(&format!("{helper}chart.svg")).stdout == first.stdout);
    }
    let lied = fetch(&format!("{}chart.svg", after("Through one that lies:")));
    assert!(!lied.status.success() && lied.stdout.is_empty(), "{lied:?}");

    let view = after("Who serves what, live:");
    let state = || -> serde_json::Value {
        let shown = fetch(&format!("{view}state.json")).stdout;
        serde_json::from_slice(&shown).expect("JSON")
    };
    eventually("the refusal is shown", || {
        state()["refused_by_clients"] == 1
    });
    let shown = state();
    assert_eq!(shown["served"][2]["helper"], "north", "{shown}");
    assert_eq!(shown["served"][2]["target"], "/chart.svg", "{shown}");
    let (line, body) = (&shown["line_bytes"], &shown["body_bytes"]);
    assert!(line.as_u64() < body.as_u64(), "{shown}");

    let pid = nix::unistd::Pid::from_raw(running.0.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
    let mut running = running;
    assert!(running.0.wait().expect("ours").success());
    assert!(!Path::new(authority).exists(), "nothing is left");
}
