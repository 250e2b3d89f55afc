//! `tandem store`: what goes in comes out, by name, as text and as JSON; and nothing is
//! overwritten.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::support::common;
use common::{run, tandem};

/// A self-signed certificate for `name`, in PEM; `None` where there is no `openssl` to make it.
fn certificate(name: &str) -> Option<String> {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args([
            "-keyout",
            "/dev/null",
            "-days",
            "30",
            "-subj",
            &format!("/CN={name}"),
        ])
        .args(["-addext", &format!("subjectAltName=DNS:{name}")])
        .stderr(Stdio::null())
        .output();
    let pem = made.ok().filter(|made| made.status.success())?.stdout;
    Some(String::from_utf8(pem).expect("PEM is ASCII"))
}

#[test]
fn what_is_taken_in_is_listed_shown_exported_and_forgotten() {
    let Some(pem) = certificate("store.example") else {
        tandem_testkit::skipped("needs openssl");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let store = path("store");
    fs::write(path("a.pem"), &pem).unwrap();
    let command = |arguments: &[&str]| {
        let mut all = vec!["store", arguments[0], "--store", &store];
        all.extend(&arguments[1..]);
        run(&mut tandem(&all))
    };

    let imported = command(&["import", "--site", "www.store.example", &path("a.pem")]);
    assert!(imported.succeeded().contains("1 chains"), "{imported:?}");

    let listed = command(&["ls"]);
    assert!(
        listed.succeeded().contains("www.store.example"),
        "{listed:?}"
    );
    let json: serde_json::Value =
        serde_json::from_str(command(&["ls", "--json"]).succeeded()).unwrap();
    let id = json["chains"][0]["id"].as_str().unwrap().to_owned();
    assert!(listed.succeeded().contains(&id[..12]), "{listed:?}");

    let shown = command(&["show", &id[..12]]);
    assert!(shown.succeeded().contains("CN=store.example"), "{shown:?}");
    assert_eq!(
        command(&["show", "--pem", &id[..12]])
            .succeeded()
            .replace('\n', ""),
        pem.replace('\n', "")
    );

    let export = path("export.jsonl");
    assert!(
        command(&["export", &export])
            .succeeded()
            .contains("export.jsonl")
    );
    assert_eq!(
        fs::metadata(&export).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        command(&["export", &export])
            .failed_with(2)
            .contains("export.jsonl")
    );
    assert_eq!(
        command(&["export"]).succeeded(),
        fs::read_to_string(&export).unwrap()
    );

    assert!(
        command(&["purge", "--expired"])
            .succeeded()
            .contains("0 chains")
    );
    assert!(
        command(&["purge", "--site", "www.store.example"])
            .succeeded()
            .contains("1 chains")
    );
    assert!(!command(&["ls"]).succeeded().contains("store.example"));

    assert!(
        command(&["import", &export])
            .succeeded()
            .contains("1 chains")
    );
    assert!(command(&["ls"]).succeeded().contains("www.store.example"));
    assert!(
        command(&["purge", "--all"])
            .succeeded()
            .contains("1 chains")
    );
}

#[test]
fn a_damaged_import_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.pem");
    let store = folder.path().join("store");
    fs::write(
        &file,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let arguments = [
        "store",
        "import",
        "--store",
        store.to_str().unwrap(),
        file.to_str().unwrap(),
    ];
    assert!(
        run(&mut tandem(&arguments))
            .failed_with(5)
            .contains("bad.pem")
    );
}

#[test]
fn what_is_damaged_in_a_store_is_counted_and_the_rest_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (lines, store) = (path("lines"), path("store"));
    let sound = "{\"site\":\"a.example\",\"chain\":[\"c291bmQgYnl0ZXM=\"]}\n";
    let damaged = "{\"site\":\"b.example\",\"chain\":[\"dGhlc2UgYXJlIGx1Y2tsZXNz\"]}\n";
    fs::write(&lines, format!("{sound}{damaged}")).unwrap();
    let command = |arguments: &[&str]| {
        let mut all = vec!["store", arguments[0], "--store", &store];
        all.extend(&arguments[1..]);
        run(&mut tandem(&all))
    };
    assert!(
        command(&["import", &lines])
            .succeeded()
            .contains("2 chains")
    );
    let database = format!("{store}/store.sqlite");
    let mut bytes = fs::read(&database).unwrap();
    let lost = b"these are luckless";
    let at = bytes
        .windows(lost.len())
        .position(|bytes| bytes == lost)
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&database, bytes).unwrap();

    let out = command(&["export"]);
    assert_eq!(out.stdout.lines().count(), 1, "{out:?}");
    assert!(out.stdout.contains("a.example"), "{out:?}");
    assert_eq!(out.code, Some(5), "{out:?}");
    assert!(out.stderr.contains("1 objects were left out"), "{out:?}");
    let out = command(&["export", &path("file")]);
    assert!(out.stdout.contains("1 chains"), "{out:?}");
    assert_eq!(out.code, Some(5), "{out:?}");
    assert!(out.stderr.contains("1 objects were left out"), "{out:?}");
    let json: serde_json::Value =
        serde_json::from_str(command(&["ls", "--json"]).succeeded()).unwrap();
    let chains = json["chains"].as_array().unwrap();
    let lost = chains
        .iter()
        .find(|chain| chain["sites"][0] == "b.example")
        .unwrap();
    let shown = command(&["show", "--json", lost["id"].as_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(json["damaged"], 1);
    assert_eq!(shown.code, Some(5), "{shown:?}");
    assert!(shown.stderr.contains("1 parts are not shown"), "{shown:?}");
}

#[test]
fn a_damaged_store_is_damaged_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (lines, store) = (path("lines"), path("store"));
    fs::write(&lines, "{\"site\":\"www.example\",\"chain\":[\"AAAA\"]}\n").unwrap();
    let command = |arguments: &[&str]| {
        let mut all = vec!["store", arguments[0], "--store", &store];
        all.extend(&arguments[1..]);
        run(&mut tandem(&all))
    };
    assert!(
        command(&["import", &lines])
            .succeeded()
            .contains("1 chains")
    );
    let database = format!("{store}/store.sqlite");
    let mut bytes = fs::read(&database).unwrap();
    bytes[100..].fill(0xff);
    fs::write(&database, bytes).unwrap();
    for arguments in [&["ls"][..], &["show", "00"], &["export"]] {
        assert!(command(arguments).failed_with(5).contains("damaged"));
    }
}
