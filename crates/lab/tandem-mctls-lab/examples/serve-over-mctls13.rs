//! Serves one page over contexts, and grants middleboxes what the client asks for them.
//! `serve-over-tls.rs` does the same over plain TLS.
//!
//!     serve-over-mctls13 ADDR:PORT CERT-FILE KEY-FILE CA-FILE

use std::error::Error;
use std::sync::Arc;

use mctls::config::Terms;
use mctls::party::ContextId;
use mctls_io::{Connected, Fallback, Identity, Server, ServerSettings, Timeouts};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};

const RESPONSE: &[u8] = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, certificate, key, authority] = arguments.as_slice() else {
        return Err("give ADDR:PORT CERT-FILE KEY-FILE CA-FILE".into());
    };
    let certificate = CertificateDer::from_pem_file(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)?;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let settings = ServerSettings {
        identity: Identity {
            chain: vec![certificate],
            key,
        },
        middlebox_roots: Arc::new(roots),
        policy: Arc::new(|terms: &Terms| Some(terms.clone())),
        fallback: Fallback::Refuse,
        plain_protocols: Vec::new(),
        timeouts: Timeouts::default(),
    };
    let server = Server::new(&settings)?;
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        if let Err(error) = answer(&server, stream).await {
            eprintln!("{error}");
        }
    }
}

async fn answer(server: &Server, stream: TcpStream) -> Result<(), Box<dyn Error>> {
    let Connected::Session(mut session) = server.accept(stream).await? else {
        return Err("the client speaks plain TLS".into());
    };
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Some(data) = session.receiver.recv().await? else {
            return Err("the request has no end".into());
        };
        request.extend(data.payload);
    }
    session.sender.send(ContextId(2), RESPONSE).await?;
    session.sender.close().await?;
    Ok(())
}
