//! A certificate or key that does not fit splitting is refused at the start, with the file and the
//! reason.

use std::path::Path;

use tandem_split_io::tls::identity::Identity;

use crate::common::pki::Pki;

fn refusal(certificate: &Path, key: &Path) -> String {
    Identity::load(certificate, key)
        .expect_err("it does not fit")
        .to_string()
}

#[test]
fn what_does_not_fit_is_refused_with_the_file_and_the_reason() {
    let pki = Pki::new();
    let (curve, curve_key) = pki.issue("curve", "ec", "DNS:split.test");
    let (wide, wide_key) = pki.issue("wide", "rsa:2048", "DNS:*.split.test");
    let (several, several_key) =
        pki.issue("several", "rsa:2048", "DNS:split.test,DNS:www.split.test");
    let missing = pki.path().join("missing.pem");
    let text = pki.path().join("text");
    std::fs::write(&text, "no certificate").expect("a directory of ours");

    for (certificate, key, parts) in [
        (&curve, &curve_key, ["curve.pem", "RSA"]),
        (&pki.certificate, &curve_key, ["curve.key", "RSA"]),
        (
            &pki.certificate,
            &wide_key,
            ["wide.key", "is not the key of the certificate"],
        ),
        (&wide, &wide_key, ["wide.pem", "*.split.test"]),
        (
            &several,
            &several_key,
            ["several.pem", "split.test, www.split.test"],
        ),
        (&missing, &pki.key, ["missing.pem", "No such file"]),
        (&text, &pki.key, ["text", "PEM"]),
        (&pki.certificate, &text, ["text", "PEM"]),
    ] {
        let message = refusal(certificate, key);
        for part in parts {
            assert!(message.contains(part), "{message:?} should say {part:?}");
        }
    }
}

#[test]
fn an_address_is_a_name_too() {
    let pki = Pki::new();
    let (certificate, key) = pki.issue("address", "rsa:2048", "IP:127.0.0.1");
    assert_eq!(
        Identity::load(&certificate, &key).expect("it fits").host(),
        "127.0.0.1"
    );
}
