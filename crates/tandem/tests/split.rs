//! `tandem split`: an origin and a volunteer as processes, and an unmodified curl.

mod common;
mod split_site;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use split_site::{LEN, Running, Site, free_port, openssl};

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
    let start = Instant::now();
    site.serves(&other, "file");
    assert!(start.elapsed() < Duration::from_secs(60));
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

    let start = Instant::now();
    let view = after("Who serves what, live:");
    loop {
        let shown = fetch(&format!("{view}state.json")).stdout;
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        if shown["refused_by_clients"] == 1 {
            assert_eq!(shown["served"][2]["helper"], "north", "{shown}");
            assert_eq!(shown["served"][2]["target"], "/chart.svg", "{shown}");
            let (line, body) = (&shown["line_bytes"], &shown["body_bytes"]);
            assert!(line.as_u64() < body.as_u64(), "{shown}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{shown}");
        std::thread::sleep(Duration::from_millis(20));
    }

    let pid = nix::unistd::Pid::from_raw(running.0.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
    let mut running = running;
    assert!(running.0.wait().expect("ours").success());
    assert!(!Path::new(authority).exists(), "nothing is left");
}
