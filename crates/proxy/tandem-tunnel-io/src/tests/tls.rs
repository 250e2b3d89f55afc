//! A TLS 1.2 handshake through the tunnel, twice: the second time its server flight crosses as a
//! delta. Client and server are rustls, which knows nothing of the tunnel.

use std::process::Command;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS12;
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use tandem_channel::crypto;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

/// Takes any certificate: what is tested is which bytes arrive.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 only".to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        crypto::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A certificate for `a.example`, by OpenSSL's program; `None`, with a note, where there is none.
pub(super) fn identity(
    folder: &TempDir,
) -> Option<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    if !tandem_testkit::is_installed("openssl") {
        tandem_testkit::skipped("needs the program openssl");
        return None;
    }
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
        ])
        .args(["-subj", "/CN=a.example"])
        .args(["-addext", "subjectAltName=DNS:a.example"])
        .arg("-out")
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{made:?}");
    let certificate = CertificateDer::from_pem_file(certificate).expect("PEM");
    Some((certificate, PrivateKeyDer::from_pem_file(key).expect("PEM")))
}

/// A server that greets each client, by TLS 1.2 without resumption.
pub(super) async fn tls_server(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> SocketAddr {
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::default_provider()))
        .with_protocol_versions(&[&TLS12])
        .expect("TLS 1.2")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a pair");
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.expect("a handshake");
                stream.write_all(b"greetings").await.expect("it is up");
                stream.shutdown().await.expect("it is up");
            });
        }
    });
    address
}

/// A visit over this connection of a client, which offers no earlier session.
pub(super) async fn visit(client: TcpStream) {
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::default_provider()))
        .with_protocol_versions(&[&TLS12])
        .expect("TLS 1.2")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    let name = ServerName::try_from("a.example").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = soon(connector.connect(name, client))
        .await
        .expect("a handshake");
    let mut greeting = String::new();
    soon(stream.read_to_string(&mut greeting))
        .await
        .expect("all of it");
    assert_eq!(greeting, "greetings");
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_with_a_server_cross_as_deltas_and_the_second_takes_fewer_bytes() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some((certificate, key)) = identity(&folder) else {
        return;
    };
    let pair = Pair::start(Over::Udp).await;
    let address = tls_server(certificate, key).await;
    let mut elided = 0;
    for number in 1..=2 {
        visit(pair.client_of(address).await).await;
        let rebuilt = counter(&pair.client_side.board, "tunnel_flights_rebuilt");
        let written = counter(&pair.server_side.board, "tunnel_flights_written");
        assert_eq!((rebuilt, written), (number, number), "visit {number}");
        let before = elided;
        elided = counter(&pair.server_side.board, "tunnel_elided_bytes");
        // The first is compressed; the second needs no certificate.
        assert!(
            elided > 2 * before,
            "visit {number}: {before}, then {elided}"
        );
    }
}
