//! What somebody between client and server can do who has both handshake keys that a client with a
//! certificate has released: cut the client's flight into other records, and nothing more. Each
//! server here asks for a certificate and accepts every one, so that nothing but CertificateVerify
//! and Finished (RFC 8446, sections 4.4.3 and 4.4.4) stands against him.
//!
//! Is not: forged flights of servers (`forged`).

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::scope;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use support::everybody::Everybody;
use support::forger::{CERTIFICATE, CERTIFICATE_VERIFY, FINISHED, Forger, Forgery};
use support::{Keys, Pki, Preload, Server, built, program};
use tandem_testkit::{free_port, has};

/// What no server accepts.
const FORGERIES: [Forgery; 6] = [
    Forgery::Bit(CERTIFICATE),
    Forgery::Bit(CERTIFICATE_VERIFY),
    Forgery::Bit(FINISHED),
    Forgery::Without(CERTIFICATE_VERIFY),
    Forgery::Impostor,
    Forgery::Nobody,
];

/// `s_client`, which shows a certificate, releases its keys, and asks for a page, through a forger
/// to this port. Nothing, or what it says where it does not get the page.
fn visit(port: u16, forgery: Forgery) -> Result<(), String> {
    let (keys, forger, pki) = (Keys::new(), Forger::new(), Pki::shared());
    let request = keys.file("request");
    fs::write(&request, "GET / HTTP/1.0\r\n\r\n").expect("ours");
    let mut client = keys.program("openssl");
    client
        .args(["s_client", "-tls1_3", "-quiet", "-ciphersuites"])
        .args(["TLS_AES_128_GCM_SHA256", "-connect"])
        .arg(format!("127.0.0.1:{}", forger.port))
        .args(["-cert", &pki.path("leaf.pem")])
        .args(["-key", &pki.path("leaf.key")])
        .stdin(File::open(&request).expect("just written"));
    let output = scope(|scope| {
        let carried = scope.spawn(|| forger.carry_client(port, &keys, forgery));
        let output = client.output().expect("it is installed");
        carried.join().expect("the flight was forged");
        output
    });
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    match said.contains("HTTP/1.0 200") {
        true => Ok(()),
        false => Err(said),
    }
}

/// The server accepts other records, and refuses all else.
#[track_caller]
fn tries(name: &str, port: u16) {
    assert_eq!(visit(port, Forgery::Recut), Ok(()), "{name}");
    for forgery in FORGERIES {
        let said = visit(port, forgery);
        assert!(said.is_err(), "{name}: {forgery:?}");
    }
    assert_eq!(visit(port, Forgery::Recut), Ok(()), "{name}: it still runs");
}

#[test]
fn openssl_refuses_what_a_holder_of_a_client_s_keys_forges() {
    if !has(&["openssl"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("errors");
    let errors = File::create(&file).expect("ours");
    let options = ["-tls1_3", "-verify", "3"];
    let server = Server::with_errors(program("openssl", Preload::No), &options, errors.into());
    tries("openssl", server.port);
    // What is found where: the signature is over all in front of it, Finished over the rest.
    for (forgery, reason) in [
        (Forgery::Bit(CERTIFICATE), "bad signature"),
        (Forgery::Bit(CERTIFICATE_VERIFY), "bad signature"),
        (Forgery::Without(CERTIFICATE_VERIFY), "unexpected message"),
        (Forgery::Bit(FINISHED), "digest check failed"),
        // His own signature is good.
        (Forgery::Impostor, "digest check failed"),
        (Forgery::Nobody, "digest check failed"),
    ] {
        let before = fs::read_to_string(&file).expect("text").len();
        visit(server.port, forgery).expect_err("refused");
        let said = fs::read_to_string(&file).expect("text");
        assert!(said[before..].contains(reason), "{forgery:?}: {said}");
    }
}

/// Ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that is started on a free port, once it listens.
fn started(server: impl FnOnce(u16) -> Command) -> (Running, u16) {
    let port = free_port();
    let mut server = server(port);
    server.stdout(Stdio::null()).stderr(Stdio::null());
    let server = Running(server.spawn().expect("it is there"));
    let start = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "it listens");
        std::thread::yield_now();
    }
    (server, port)
}

#[test]
fn gnutls_refuses_what_a_holder_of_a_client_s_keys_forges() {
    if !has(&["openssl", "gnutls-serv"]) {
        return;
    }
    let pki = Pki::shared();
    let (_server, port) = started(|port| {
        let mut server = program("gnutls-serv", Preload::No);
        server
            .args(["--http", "--quiet", "--require-client-cert"])
            .args(["--x509certfile", &pki.path("server.pem")])
            .args(["--x509keyfile", &pki.path("server.key")])
            .arg(format!("--port={port}"));
        server
    });
    tries("gnutls-serv", port);
}

#[test]
fn go_refuses_what_a_holder_of_a_client_s_keys_forges() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = folder.path().join("server");
    let output = binary.display().to_string();
    if !has(&["openssl"]) || !built("go", folder.path(), &["build", "-o", &output, "server.go"]) {
        return;
    }
    let pki = Pki::shared();
    let (_server, port) = started(|port| {
        let mut server = Command::new(&binary);
        server
            .arg(port.to_string())
            .args(["server.pem", "server.key"].map(|name| pki.file(name)));
        server
    });
    tries("go", port);
}

/// One connection: the page for a request, or nothing where the handshake is refused.
fn serve(config: &Arc<ServerConfig>, stream: TcpStream) -> std::io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config)).expect("it has what it needs");
    let mut tls = StreamOwned::new(connection, stream);
    let mut request = [0; 1 << 10];
    // The alert of a handshake that is refused leaves with this.
    if tls.read(&mut request)? > 0 {
        tls.write_all(b"HTTP/1.0 200 ok\r\n\r\n")?;
    }
    tls.conn.send_close_notify();
    tls.flush()
}

#[test]
fn rustls_refuses_what_a_holder_of_a_client_s_keys_forges() {
    if !has(&["openssl"]) {
        return;
    }
    let pki = Pki::shared();
    let chain = CertificateDer::pem_file_iter(pki.file("server.pem")).expect("ours");
    let chain = chain.collect::<Result<_, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(pki.file("server.key")).expect("a key");
    let builder = ServerConfig::builder();
    let everybody = Arc::new(Everybody(Arc::clone(builder.crypto_provider())));
    let config = builder
        .with_client_cert_verifier(everybody)
        .with_single_cert(chain, key);
    let config = Arc::new(config.expect("a certificate and its key"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    // Until the test's process ends.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = serve(&config, stream);
        }
    });
    tries("rustls", port);
}
