//! Handshakes of rustls, in memory, with its key log: what crosses for a first and for a second
//! visit, and that each arrives to the byte.

#![expect(
    clippy::disallowed_types,
    reason = "a test calls OpenSSL's program for its certificates; the crate does not"
)]

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::support::sealed::server_key;
use crate::support::{Conversation, Outcome, Pair, Plan};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, KeyLog, RootCertStore, ServerConfig};
use rustls::{ServerConnection, version::TLS13};
use tandem_engine::Sender;
use tandem_record_key::{RecordKey, Suite};
use tandem_tunnel::Event;

/// Keeps what is needed of a key log.
#[derive(Debug, Default)]
struct ServerSecret(Mutex<Vec<(Vec<u8>, Vec<u8>)>>);

impl KeyLog for ServerSecret {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if label == "SERVER_HANDSHAKE_TRAFFIC_SECRET" {
            let mut held = self.0.lock().expect("nobody panics here");
            held.push((client_random.to_vec(), secret.to_vec()));
        }
    }
}

/// Runs OpenSSL's program in this folder.
fn openssl(folder: &Path, arguments: &[&str]) {
    let mut program = Command::new("openssl");
    let made = program.args(arguments).current_dir(folder).output();
    let made = made.expect("it runs");
    assert!(made.status.success(), "{made:?}");
}

/// A server's configuration with a chain of a leaf and its issuer, and a client's that trusts it.
struct Site {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    secrets: Arc<ServerSecret>,
}

impl Site {
    /// `None`, and a note, without OpenSSL's program.
    fn new() -> Option<Self> {
        if !tandem_testkit::has(&["openssl"]) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a directory");
        let at = folder.path();
        let new = [
            "req", "-x509", "-nodes", "-days", "30", "-newkey", "rsa:2048",
        ];
        let root = [
            "-subj", "/CN=Root", "-out", "root.pem", "-keyout", "root.key",
        ];
        openssl(at, &[&new[..], &root].concat());
        let issuer = [
            "-subj",
            "/O=Some Issuer/CN=Issuer",
            "-CA",
            "root.pem",
            "-CAkey",
            "root.key",
        ];
        let issuer_is = ["-addext", "basicConstraints=critical,CA:true"];
        let issuer_files = ["-out", "issuer.pem", "-keyout", "issuer.key"];
        openssl(at, &[&new[..], &issuer, &issuer_is, &issuer_files].concat());
        let leaf = [
            "-subj",
            "/CN=a.example",
            "-CA",
            "issuer.pem",
            "-CAkey",
            "issuer.key",
        ];
        let leaf_is = ["-addext", "subjectAltName=DNS:a.example"];
        let leaf_is_no = ["-addext", "basicConstraints=critical,CA:false"];
        let leaf_files = ["-out", "leaf.pem", "-keyout", "leaf.key"];
        openssl(
            at,
            &[&new[..], &leaf, &leaf_is, &leaf_is_no, &leaf_files].concat(),
        );
        let read = |name: &str| CertificateDer::from_pem_file(at.join(name)).expect("PEM");
        let key = PrivateKeyDer::from_pem_file(at.join("leaf.key")).expect("PEM");
        let secrets = Arc::new(ServerSecret::default());
        let mut server = ServerConfig::builder_with_protocol_versions(&[&TLS13])
            .with_no_client_auth()
            .with_single_cert(vec![read("leaf.pem"), read("issuer.pem")], key)
            .expect("a pair");
        // What these bring in depends on who else is built. Compressed chains pass as they are.
        server.cert_compressors = Vec::new();
        server.key_log = Arc::clone(&secrets) as Arc<dyn KeyLog>;
        let mut roots = RootCertStore::empty();
        roots.add(read("root.pem")).expect("a certificate");
        let mut client = ClientConfig::builder_with_protocol_versions(&[&TLS13])
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        client.cert_decompressors = Vec::new();
        Some(Self {
            server: Arc::new(server),
            client: Arc::new(client),
            secrets,
        })
    }

    /// One visit: what both said, and the key that the server releases.
    fn visit(&self) -> (Conversation, RecordKey) {
        let name = ServerName::try_from("a.example").expect("a name");
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).expect("a client");
        let mut server = ServerConnection::new(Arc::clone(&self.server)).expect("a server");
        let mut said = Conversation::default();
        while client.wants_write() || server.wants_write() {
            let (mut hello, mut answer) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut hello).expect("it is in memory");
            }
            server.read_tls(&mut &hello[..]).expect("it is in memory");
            server.process_new_packets().expect("a handshake");
            while server.wants_write() {
                server.write_tls(&mut answer).expect("it is in memory");
            }
            client.read_tls(&mut &answer[..]).expect("it is in memory");
            client.process_new_packets().expect("a handshake");
            said.turns.push((Sender::Client, hello));
            said.turns.push((Sender::Server, answer));
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        let suite = server.negotiated_cipher_suite().expect("a suite").suite();
        let suite = Suite::from_number(suite.into()).expect("one of ours");
        let mut secrets = self.secrets.0.lock().expect("nobody panics here");
        let (random, secret) = secrets.pop().expect("the server has logged it");
        (said, server_key(suite, &random, &secret))
    }
}

#[test]
fn a_site_s_flights_arrive_to_the_byte_and_cost_little_the_second_time() {
    let Some(site) = Site::new() else {
        return;
    };
    let mut pair = Pair::default();
    let mut crossed = Vec::new();
    for number in 1..=3 {
        let (said, key) = site.visit();
        let plain = Pair::default().run(&said, Plan::of(1));
        pair.engines[1].release_key(key, pair.clock.now);
        let outcome = pair.run(&said, Plan::of(1));
        let count = |side, event| Outcome::count(&outcome, side, event);
        assert_eq!(count(0, Event::FlightRebuilt), 1, "visit {number}");
        assert_eq!(count(0, Event::HandshakeFinished), 1, "visit {number}");
        assert_eq!(count(1, Event::HandshakeFinished), 1, "visit {number}");
        let server: usize = said.stream(Sender::Server).len();
        eprintln!(
            "visit {number}: the server's {server} bytes crossed in {}, without its key in {}",
            outcome.crossed[1].len(),
            plain.crossed[1].len()
        );
        crossed.push((outcome.crossed[1].len(), plain.crossed[1].len()));
    }
    let (first, plain) = crossed[0];
    assert!(first < plain, "the chain is compressed at least");
    for (again, plain) in &crossed[1..] {
        assert!(again + 1_500 < *plain, "the chain does not cross again");
    }
}
