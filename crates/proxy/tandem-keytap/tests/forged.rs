//! What somebody between client and server can do who has the server's released handshake key: cut
//! the server's flight into other records, and nothing more. Each client here trusts every
//! certificate and has offered what is forged, so that nothing but CertificateVerify and Finished
//! (RFC 8446, sections 4.4.3 and 4.4.4) stands against him.

mod support;

use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::thread::scope;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use support::everybody::Everybody;
use support::forger::{
    CERTIFICATE, CERTIFICATE_VERIFY, ENCRYPTED_EXTENSIONS, FINISHED, Forger, Forgery,
};
use support::{Keys, Preload, Server, built, program};
use tandem_testkit::has;

/// What no client accepts.
const FORGERIES: [Forgery; 6] = [
    Forgery::Bit(ENCRYPTED_EXTENSIONS),
    Forgery::Bit(CERTIFICATE),
    Forgery::Bit(CERTIFICATE_VERIFY),
    Forgery::Bit(FINISHED),
    Forgery::Without(CERTIFICATE_VERIFY),
    Forgery::Impostor,
];

/// A server that has released its keys, and a client's connections to it, each through a forger.
struct Place {
    keys: Keys,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let keys = Keys::new();
        let suite = "TLS_AES_128_GCM_SHA256";
        let options = ["-tls1_3", "-alpn", "h2", "-ciphersuites", suite];
        let server = Server::of(keys.program("openssl"), &options);
        Self { keys, server }
    }

    /// What the client says to a flight that was forged so: nothing, or why it refuses.
    fn connect(
        &self,
        forgery: Forgery,
        client: impl FnOnce(u16) -> Result<(), String>,
    ) -> Result<(), String> {
        let forger = Forger::new();
        scope(|scope| {
            let carry = || forger.carry(self.server.port, &self.keys, forgery);
            let carried = scope.spawn(carry);
            let said = client(forger.port);
            carried.join().expect("the flight was forged");
            said
        })
    }

    /// The client accepts other records, and refuses all else.
    #[track_caller]
    fn tries(&self, name: &str, client: impl Fn(u16) -> Result<(), String>) {
        assert_eq!(self.connect(Forgery::Recut, &client), Ok(()), "{name}");
        for forgery in FORGERIES {
            let said = self.connect(forgery, &client);
            assert!(said.is_err(), "{name}: {forgery:?}");
        }
    }
}

/// Runs a client; what it says where it does not end well.
fn ends_well(client: &mut Command) -> Result<(), String> {
    let output = client.output().expect("it is installed");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into()),
    }
}

fn s_client(port: u16) -> Result<(), String> {
    ends_well(program("openssl", Preload::No).args([
        "s_client",
        "-tls1_3",
        "-alpn",
        "h2,h3",
        "-connect",
        &format!("127.0.0.1:{port}"),
    ]))
}

#[test]
fn openssl_refuses_what_a_holder_of_the_key_forges() {
    if !has(&["openssl"]) {
        return;
    }
    let place = Place::new();
    place.tries("openssl", s_client);
    // What is found where: the signature is over all in front of it, Finished over the rest.
    for (forgery, reason) in [
        (Forgery::Bit(ENCRYPTED_EXTENSIONS), "bad signature"),
        (Forgery::Bit(CERTIFICATE), "bad signature"),
        (Forgery::Bit(CERTIFICATE_VERIFY), "bad signature"),
        (Forgery::Bit(FINISHED), "digest check failed"),
        // His own signature is good.
        (Forgery::Impostor, "digest check failed"),
    ] {
        let said = place.connect(forgery, s_client).expect_err("refused");
        assert!(said.contains(reason), "{forgery:?}: {said}");
    }
}

#[test]
fn gnutls_refuses_what_a_holder_of_the_key_forges() {
    if !has(&["openssl", "gnutls-cli"]) {
        return;
    }
    Place::new().tries("gnutls-cli", |port| {
        ends_well(program("gnutls-cli", Preload::No).args([
            "--insecure",
            "--no-ca-verification",
            "--alpn=h2",
            "--alpn=h3",
            &format!("--port={port}"),
            "127.0.0.1",
        ]))
    });
}

#[test]
fn rustls_refuses_what_a_holder_of_the_key_forges() {
    if !has(&["openssl"]) {
        return;
    }
    let builder = ClientConfig::builder();
    let everybody = Everybody(Arc::clone(builder.crypto_provider()));
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(everybody))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"h3".to_vec()];
    let config = Arc::new(config);
    Place::new().tries("rustls", |port| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls =
            ClientConnection::new(Arc::clone(&config), name).expect("it has what it needs");
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    });
}

#[test]
fn go_refuses_what_a_holder_of_the_key_forges() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = folder.path().join("client");
    let output = binary.display().to_string();
    if !has(&["openssl"]) || !built("go", folder.path(), &["build", "-o", &output, "client.go"]) {
        return;
    }
    Place::new().tries("go", |port| {
        ends_well(Command::new(&binary).arg(port.to_string()))
    });
}

#[test]
fn java_refuses_what_a_holder_of_the_key_forges() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().display().to_string();
    if !has(&["openssl"]) || !built("javac", folder.path(), &["-d", &output, "Client.java"]) {
        return;
    }
    Place::new().tries("java", |port| {
        let options = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", &output];
        ends_well(
            Command::new("java")
                .args(options)
                .args(["Client", &port.to_string()]),
        )
    });
}
