//! Handshakes of rustls, in memory, with its key log: what crosses for a first and for a second
//! visit, and that each arrives to the byte.

#![expect(
    clippy::disallowed_types,
    reason = "a test calls OpenSSL's program for its certificates; the crate does not"
)]

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::support::sealed::server_key;
use crate::support::{Conversation, Outcome, Pair, Plan};
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rustls::CertificateCompressionAlgorithm;
use rustls::client::Resumption;
use rustls::compress::{
    CertCompressor, CertDecompressor, CompressionFailed, CompressionLevel, DecompressionFailed,
};
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
        // What these bring in depends on who else is built.
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

    /// The same site, whose server compresses its chain (RFC 8879).
    fn compressing(mut self) -> Self {
        let (server, client) = (
            Arc::make_mut(&mut self.server),
            Arc::make_mut(&mut self.client),
        );
        server.cert_compressors = vec![&Zlib];
        client.cert_decompressors = vec![&Zlib];
        self
    }

    /// The same site, whose server takes early data of clients that come back.
    fn with_early_data(mut self) -> Self {
        let (server, client) = (
            Arc::make_mut(&mut self.server),
            Arc::make_mut(&mut self.client),
        );
        server.max_early_data_size = 4_096;
        client.enable_early_data = true;
        client.resumption = Resumption::in_memory_sessions(8);
        self
    }

    /// The same site after its server was started anew: it does not know its clients' sessions.
    fn started_anew(mut self) -> Self {
        let server = Arc::make_mut(&mut self.server);
        server.session_storage = rustls::server::ServerSessionMemoryCache::new(8);
        self
    }

    /// One visit: what both said, and the key that the server releases.
    fn visit(&self) -> (Conversation, RecordKey) {
        let name = ServerName::try_from("a.example").expect("a name");
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).expect("a client");
        if let Some(mut early) = client.early_data() {
            early.write_all(&[b'.'; 300]).expect("it has room");
        }
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

/// Chains compressed by zlib (RFC 8879, section 7.3).
#[derive(Debug)]
struct Zlib;

impl CertCompressor for Zlib {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let mut out = ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        let written = out.write_all(&input).and_then(|()| out.finish());
        written.map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}

impl CertDecompressor for Zlib {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        let read = ZlibDecoder::new(input).read_exact(output);
        read.map_err(|_| DecompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}

#[test]
fn a_compressed_chain_crosses_once() {
    let Some(site) = Site::new() else {
        return;
    };
    let site = site.compressing();
    let mut pair = Pair::default();
    let mut crossed = Vec::new();
    for number in 1..=3 {
        let (said, key) = site.visit();
        let plain = Pair::default().run(&said, Plan::of(1));
        pair.engines[1].release_key(key, pair.clock.now);
        let outcome = pair.run(&said, Plan::of(1));
        assert_eq!(outcome.count(0, Event::FlightRebuilt), 1, "visit {number}");
        assert_eq!(outcome.count(0, Event::HandshakeFinished), 1);
        eprintln!(
            "visit {number}: the server's {} bytes crossed in {}, without its key in {}",
            said.stream(Sender::Server).len(),
            outcome.crossed[1].len(),
            plain.crossed[1].len()
        );
        crossed.push((outcome.crossed[1].len(), plain.crossed[1].len()));
    }
    let (first, plain) = crossed[0];
    assert!(first < plain + 80, "little is spent on it");
    for (again, plain) in &crossed[1..] {
        assert!(again + 1_000 < *plain, "the chain does not cross again");
    }
}

#[test]
fn with_early_data_a_handshake_passes_as_it_is() {
    let Some(site) = Site::new() else {
        return;
    };
    let site = site.with_early_data();
    let mut pair = Pair::default();
    let (first, key) = site.visit();
    pair.engines[1].release_key(key, pair.clock.now);
    let outcome = pair.run(&first, Plan::of(1));
    assert_eq!(outcome.count(0, Event::FlightRebuilt), 1);
    // The server takes it; then it does not, and shows its chain again.
    let (taken, taken_key) = site.visit();
    let (refused, refused_key) = site.started_anew().visit();
    let lengths = [&taken, &refused].map(|said| said.stream(Sender::Server).len());
    assert!(lengths[0] + 1_000 < lengths[1], "{lengths:?}");
    for (said, key) in [(taken, taken_key), (refused, refused_key)] {
        let plain = Pair::default().run(&said, Plan::of(1));
        pair.engines[1].release_key(key, pair.clock.now);
        let outcome = pair.run(&said, Plan::of(1));
        // But for the answer to a hello that crossed as a delta.
        assert!(outcome.crossed[1].len() <= plain.crossed[1].len() + 2);
        assert_eq!(outcome.count(1, Event::FlightWritten), 0);
        assert_eq!(outcome.count(1, Event::HoldTimedOut), 0);
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
