//! Handshakes of a web server without a private key: each kind of key, both versions of TLS, and
//! what is written about them.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;

use common::{Browser, Place, Served, Web, allow, message, patient, wait_until};
use nix::sys::signal::Signal;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use tandem_keyclient::SignError;
use tandem_keyserver::{KeyId, Refusal, Scheme};

const KINDS: [&str; 4] = ["rsa", "p256", "p384", "ed25519"];

fn id_of(place: &Place, certificate: &str) -> KeyId {
    let chain = place.chain(certificate);
    let parsed = rustls::server::ParsedCertificate::try_from(&chain[0]).expect("a certificate");
    KeyId::of_public_key(&parsed.subject_public_key_info())
}

#[test]
fn every_kind_of_key_serves_both_versions() {
    let place = Place::new(&KINDS);
    let rules: String = KINDS.iter().map(|kind| allow("web", kind)).collect();
    place.settings("a", &KINDS, &(place.peer("web", 1_000) + &rules));
    let served = Served::start(&place, "a");
    let client = patient(&place, "web", &[&served]);
    for kind in KINDS {
        let web = Web::start(&place, kind, &client);
        for version in [&TLS12, &TLS13] {
            let browser = Browser::new(&place, kind, version);
            let full = Some(HandshakeKind::Full);
            assert_eq!(browser.visit(&web), full, "{kind} {version:?}");
            let resumed = Some(HandshakeKind::Resumed);
            assert_eq!(browser.visit(&web), resumed, "{kind} {version:?}");
        }
    }
    let audit = place.text("a.audit");
    assert_eq!(audit.lines().count(), 2 * KINDS.len(), "{audit}");
    for line in audit.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["outcome"], "signed");
        assert_eq!(line["peer"], "web");
    }
}

#[test]
fn a_runtime_with_a_thread_for_each_task_goes_on_while_one_waits() {
    let place = Place::new(&["p256"]);
    place.settings(
        "a",
        &["p256"],
        &(place.peer("web", 1_000) + &allow("web", "p256")),
    );
    let served = Served::start(&place, "a");
    let client = patient(&place, "web", &[&served]);
    let id = id_of(&place, "p256");
    served.stop();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let waiting =
            tokio::spawn(async move { client.sign(id, Scheme::EcdsaP256Sha256, &message()) });
        // The only worker waits, or will: this task has to run all the same.
        tokio::spawn(async {}).await.expect("it runs");
        served.signal(Signal::SIGCONT);
        assert!(waiting.await.expect("it ends").is_ok());
    });
}

#[test]
fn what_no_rule_allows_is_refused() {
    let place = Place::new(&["p256", "p384"]);
    let only_1_3 = "[[allow]]\npeer = \"web\"\nkey = \"p256\"\ntls = [\"1.3\"]\n";
    let peers = place.peer("web", 1_000) + &place.peer("other", 1_000);
    place.settings("a", &["p256", "p384"], &(peers + only_1_3));
    let served = Served::start(&place, "a");
    let sign = |peer: &str, key: &str, scheme| {
        let id = id_of(&place, key);
        patient(&place, peer, &[&served]).sign(id, scheme, &message())
    };
    let refused = Err(SignError::Refused(Refusal::Policy));
    assert!(sign("web", "p256", Scheme::EcdsaP256Sha256).is_ok());
    assert_eq!(
        sign("web", "p256", Scheme::EcdsaP384Sha384),
        refused,
        "another scheme"
    );
    assert_eq!(
        sign("web", "p384", Scheme::EcdsaP384Sha384),
        refused,
        "another key"
    );
    assert_eq!(
        sign("other", "p256", Scheme::EcdsaP256Sha256),
        refused,
        "another peer"
    );
    // A browser of TLS 1.2 gets no signature, one of TLS 1.3 does.
    let web = Web::start(&place, "p256", &patient(&place, "web", &[&served]));
    assert_eq!(Browser::new(&place, "p256", &TLS12).visit(&web), None);
    let full = Some(HandshakeKind::Full);
    assert_eq!(Browser::new(&place, "p256", &TLS13).visit(&web), full);
    let audit = place.text("a.audit");
    assert!(audit.contains("\"outcome\":\"policy\""), "{audit}");
    // Whoever is in no table does not even connect.
    let stranger = sign("stranger", "p256", Scheme::EcdsaP256Sha256);
    assert_eq!(stranger, Err(SignError::NoServer));
}

#[test]
fn nothing_but_a_handshake_is_signed() {
    let place = Place::new(&["p256"]);
    place.settings(
        "a",
        &["p256"],
        &(place.peer("web", 1_000) + &allow("web", "p256")),
    );
    let served = Served::start(&place, "a");
    let client = patient(&place, "web", &[&served]);
    let request = std::fs::read(place.path("p256.pem")).expect("a certificate");
    let signed = client.sign(id_of(&place, "p256"), Scheme::EcdsaP256Sha256, &request);
    assert_eq!(signed, Err(SignError::NotAHandshake));
}

#[test]
fn new_settings_are_taken_and_wrong_ones_are_not() {
    let place = Place::new(&["p256"]);
    let peer = place.peer("web", 1_000);
    place.settings("a", &["p256"], &peer);
    let served = Served::start_at(&place, "a", "127.0.0.1:0", &["--log", "off"]);
    let client = Arc::new(patient(&place, "web", &[&served]));
    let id = id_of(&place, "p256");
    let sign = || client.sign(id, Scheme::EcdsaP256Sha256, &message());
    assert_eq!(sign(), Err(SignError::Refused(Refusal::Policy)));
    place.settings("a", &["p256"], &(peer.clone() + &allow("web", "p256")));
    served.signal(Signal::SIGHUP);
    wait_until("the new rule", || sign().is_ok());
    // A file that moved makes room for a new one with the next signal.
    std::fs::rename(place.path("a.audit"), place.path("old.audit")).expect("moved");
    place.settings("a", &["p256"], "nonsense");
    served.signal(Signal::SIGHUP);
    assert!(sign().is_ok());
    place.settings("a", &["p256"], &(peer + &allow("web", "p256")));
    served.signal(Signal::SIGHUP);
    wait_until("a new audit log", || {
        sign().is_ok() && place.path("a.audit").exists()
    });
}

#[test]
fn what_is_wrong_with_settings_is_told_in_one_line() {
    let place = Place::new(&["p256"]);
    let peer = place.peer("web", 1_000);
    let check = |keys: &[&str], rest: &str| {
        place.settings("a", keys, rest);
        let output = Command::new(env!("CARGO_BIN_EXE_tandem-keyserver"))
            .args(["--check", "--config"])
            .arg(place.path("a.toml"))
            .output()
            .expect("the program is built");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let right = peer.clone() + &allow("web", "p256");
    let (code, shown, _) = check(&["p256"], &right);
    assert_eq!(code, Some(0));
    assert!(
        shown.contains("allow web p256 tls 1.2,1.3 ecdsa_secp256r1_sha256"),
        "{shown}"
    );
    let twice = right.clone() + &allow("web", "p256");
    for (rest, says) in [
        (twice.as_str(), "is there twice"),
        (&right.replace("rate = 1000", "rate = 0"), "rate: give"),
        (&right.replace("1.2", "1.1"), "neither 1.2 nor 1.3"),
        (
            &(peer.clone() + &allow("webb", "p256")),
            "no [[peer]] of that name",
        ),
        (
            &(right.clone() + "schemes = [\"rsa_pkcs1_sha256\"]\n"),
            "none of ecdsa_",
        ),
        (&(right.clone() + "surprise = 1\n"), "unknown field"),
        (&right.replace("\"web\"", "\"w e b\""), "use 1 to 64"),
    ] {
        let (code, _, error) = check(&["p256"], rest);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(says), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
    // A certificate is no key; a key that everybody may read is one, with a warning.
    std::fs::copy(place.path("p256.pem"), place.path("no.key")).expect("copied");
    let (code, _, error) = check(&["no"], "");
    assert_eq!(code, Some(2));
    assert!(error.contains("holds no usable private key"), "{error}");
    let readable = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("p256.key"), readable).expect("ours");
    let (code, _, error) = check(&["p256"], &right);
    assert_eq!(code, Some(0));
    assert!(error.contains("every user of this machine"), "{error}");
}

#[test]
fn the_admin_port_counts_by_peer_and_reason() {
    let place = Place::new(&["p256"]);
    place.settings(
        "a",
        &["p256"],
        &(place.peer("web", 1_000) + &allow("web", "p256")),
    );
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = free.local_addr().expect("bound").to_string();
    drop(free);
    let served = Served::start_at(&place, "a", "127.0.0.1:0", &["--admin", &admin]);
    let client = patient(&place, "web", &[&served]);
    let id = id_of(&place, "p256");
    assert!(client.sign(id, Scheme::EcdsaP256Sha256, &message()).is_ok());
    assert!(
        client
            .sign(id, Scheme::EcdsaP384Sha384, &message())
            .is_err()
    );
    let mut stream = TcpStream::connect(&admin).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    for line in [
        "tandem_keyserver_signatures_total{peer=\"web\"} 1",
        "tandem_keyserver_refusals_total{reason=\"policy\"} 1",
    ] {
        assert!(page.contains(line), "{page}");
    }
}
