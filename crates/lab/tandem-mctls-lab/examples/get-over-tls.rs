//! Fetches a page over plain TLS. `get-over-mctls13.rs` does the same over contexts; `tandem lab
//! mctls` counts by how many lines the two differ.
//!
//!     get-over-tls ADDR:PORT NAME CA-FILE

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, authority] = arguments.as_slice() else {
        return Err("give ADDR:PORT NAME CA-FILE".into());
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let request = format!("GET / HTTP/1.0\r\nHost: {name}\r\n\r\n");

    let settings = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(settings));
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.clone())?;
    let mut stream = connector.connect(name, stream).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;

    Ok(std::io::stdout().write_all(&response)?)
}
