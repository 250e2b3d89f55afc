//! Fetches a page over contexts, by a middlebox that may read requests and write responses.
//! `get-over-tls.rs` does the same over plain TLS.
//!
//!     get-over-mctls13 ADDR:PORT NAME CA-FILE MIDDLEBOX-ADDR:PORT MIDDLEBOX-NAME

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use mctls::config::{Context, PathMode, Right};
use mctls::party::ContextId;
use mctls::suite::Suite;
use mctls_io::{Client, ClientSettings, Connected, Fallback, KeyExchange, Timeouts, Via};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, authority, by, by_name] = arguments.as_slice() else {
        return Err("give ADDR:PORT NAME CA-FILE MIDDLEBOX-ADDR:PORT MIDDLEBOX-NAME".into());
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let request = format!("GET / HTTP/1.0\r\nHost: {name}\r\n\r\n");

    let roots = Arc::new(roots);
    let context = |id, purpose: &str, right| Context {
        id: ContextId(id),
        purpose: purpose.into(),
        path: PathMode::Required,
        rights: vec![right],
    };
    let settings = ClientSettings {
        roots: roots.clone(),
        middlebox_roots: roots,
        via: vec![Via {
            address: by.clone(),
            name: by_name.clone(),
        }],
        contexts: vec![
            context(1, "request", Right::Read),
            context(2, "response", Right::Write),
        ],
        least: Vec::new(),
        suites: Suite::ALL.to_vec(),
        key_exchange: KeyExchange::Hybrid,
        fallback: Fallback::Refuse,
        plain_protocols: Vec::new(),
        timeouts: Timeouts::default(),
    };
    let Connected::Session(mut session) = Client::new(settings)?.connect(address, name).await?
    else {
        return Err("the server speaks plain TLS".into());
    };
    session
        .sender
        .send(ContextId(1), request.as_bytes())
        .await?;
    let mut response = Vec::new();
    while let Some(data) = session.receiver.recv().await? {
        response.extend(data.payload);
    }

    Ok(std::io::stdout().write_all(&response)?)
}
