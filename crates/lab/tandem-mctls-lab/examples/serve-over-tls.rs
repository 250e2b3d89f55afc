//! Serves one page over plain TLS. `serve-over-mctls13.rs` does the same over contexts; `tandem lab
//! mctls` counts by how many lines the two differ.
//!
//!     serve-over-tls ADDR:PORT CERT-FILE KEY-FILE CA-FILE

use std::error::Error;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const RESPONSE: &[u8] = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, certificate, key, _authority] = arguments.as_slice() else {
        return Err("give ADDR:PORT CERT-FILE KEY-FILE CA-FILE".into());
    };
    let certificate = CertificateDer::from_pem_file(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)?;

    let settings = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let server = TlsAcceptor::from(Arc::new(settings));
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        if let Err(error) = answer(&server, stream).await {
            eprintln!("{error}");
        }
    }
}

async fn answer(server: &TlsAcceptor, stream: TcpStream) -> Result<(), Box<dyn Error>> {
    let mut stream = server.accept(stream).await?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Err("the request has no end".into());
        }
        request.extend_from_slice(&buffer[..length]);
    }
    stream.write_all(RESPONSE).await?;
    stream.shutdown().await?;
    Ok(())
}
