//! `tandem split check` as a process: a name server on loopback, good records and bad ones, exit
//! codes, JSON.
//!
//! Is not: each thing that can be wrong with CAA records (`certificate_policy` in
//! `tandem-barnraising`).

use std::net::UdpSocket;
use std::path::Path;

use crate::support::{common, split_zone};
use common::{Ran, run, tandem};
use split_zone::{SITE, Zone};

impl Zone {
    fn check(&self, name: &str, anchor: Option<&Path>, more: &[&str]) -> Ran {
        let mut command = tandem(&["split", "check", name, "--log", "off"]);
        command.args(["--resolver", &self.address.to_string()]);
        if let Some(anchor) = anchor {
            command.arg("--trust-anchor").arg(anchor);
        }
        run(command.args(more))
    }
}

#[test]
fn a_name_with_one_account_and_dnssec_passes_with_hints() {
    let zone = Zone::new(Some("letsencrypt.org"));
    let ran = zone.check(SITE, Some(&zone.anchor()), &[]);
    let text = ran.succeeded();
    assert!(
        text.starts_with(&format!(
            "{SITE}: no volunteer can get a certificate for it\n"
        )),
        "{text}"
    );
    assert!(
        text.contains("hint: cookies of tandem-site.org are shared by all names under it"),
        "{text}"
    );
    assert!(
        !text.contains("refusal") && !text.contains("HTTPS record"),
        "{text}"
    );
    let ran = zone.check(SITE, Some(&zone.anchor()), &["--json"]);
    let json: serde_json::Value = serde_json::from_str(ran.succeeded()).expect("JSON");
    assert_eq!(json["acceptable"], true);
    assert_eq!(json["kind"], "public");
    assert_eq!(json["findings"][0]["code"], "preload");
}

#[test]
fn a_name_whose_signatures_nobody_vouches_for_is_refused() {
    let zone = Zone::new(Some("letsencrypt.org"));
    let other = Zone::new(None);
    let ran = zone.check(SITE, Some(&other.anchor()), &["--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(json["acceptable"], false);
    // What the zones above have to say this server does not pass on.
    assert_eq!(json["findings"][0]["code"], "unanswered", "{json}");
    assert_eq!(json["findings"][0]["weight"], "refusal");
}

#[test]
fn an_authority_that_is_not_known_is_refused_until_the_operator_vouches_for_it() {
    let zone = Zone::new(Some("ca.tandem-site.org"));
    let anchor = zone.anchor();
    let ran = zone.check(SITE, Some(&anchor), &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("--observant ca.tandem-site.org"),
        "{ran:?}"
    );
    let vouched = ["--observant", "ca.tandem-site.org"];
    zone.check(SITE, Some(&anchor), &vouched).succeeded();
}

#[test]
fn a_certificate_that_names_others_too_is_refused() {
    let zone = Zone::new(Some("letsencrypt.org"));
    let cert = zone.folder.path().join("cert.pem");
    let made = std::process::Command::new("openssl")
        .args([
            "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=site",
            "-addext",
        ])
        .arg(format!(
            "subjectAltName=DNS:{SITE},DNS:mail.tandem-site.org"
        ))
        .arg("-keyout")
        .arg(zone.folder.path().join("cert.key"))
        .arg("-out")
        .arg(&cert)
        .output()
        .expect("openssl");
    assert!(made.status.success());
    let ran = zone.check(
        SITE,
        Some(&zone.anchor()),
        &["--cert", cert.to_str().expect("text")],
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout
            .contains("refusal: the certificate also vouches for other hosts"),
        "{ran:?}"
    );
    assert!(
        ran.stderr.contains("a volunteer could get a certificate"),
        "{ran:?}"
    );
}

#[test]
fn a_name_for_which_nobody_may_issue_is_safe_and_a_missing_one_is_not() {
    let zone = Zone::new(None);
    let anchor = zone.anchor();
    let ran = zone.check(SITE, Some(&anchor), &[]);
    assert!(
        ran.succeeded()
            .contains("hint: no authority may issue, not even for you"),
        "{ran:?}"
    );
    let ran = zone.check(&format!("no.{SITE}"), Some(&anchor), &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("refusal: there is no such name in DNS"),
        "{ran:?}"
    );
}

#[test]
fn private_names_and_addresses_pass_without_a_question() {
    // Nobody answers there: a question would fail.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let resolver = silent.local_addr().expect("bound").to_string();
    for (name, kind) in [
        ("site.test", "private"),
        ("localhost", "private"),
        ("wiki.internal", "private"),
        ("nas.home.arpa", "private"),
        ("192.0.2.1", "address"),
        ("2001:db8::1", "address"),
    ] {
        let ran = run(&mut tandem(&[
            "split",
            "check",
            name,
            "--resolver",
            &resolver,
            "--json",
        ]));
        let json: serde_json::Value = serde_json::from_str(ran.succeeded()).expect("JSON");
        assert_eq!(
            (json["kind"].as_str(), json["acceptable"].as_bool()),
            (Some(kind), Some(true)),
            "{name}"
        );
    }
}

#[test]
fn what_is_wrong_with_the_question_is_said() {
    let failed = run(&mut tandem(&["split", "check", "no name"]));
    assert!(
        failed.failed_with(2).contains("is no host name"),
        "{failed:?}"
    );
    let failed = run(&mut tandem(&[
        "split",
        "check",
        SITE,
        "--trust-anchor",
        "/nonexistent",
    ]));
    assert!(failed.failed_with(2).contains("/nonexistent"), "{failed:?}");
}
