//! A TLS server on rustls, for experiments of the lab with compressed certificates (RFC 8879).
//! Answers anything with one body.
//!
//! ```text
//! rustls-server PORT VERSION CHAIN.pem KEY.pem BODY [brotli]
//! ```
//!
//! With `brotli` it compresses its certificates for clients that offer to undo it. It resumes no
//! session and issues no ticket.
//!
//! An example and not a part of Tandem: Tandem contains no TLS stack.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::compress::BROTLI_COMPRESSOR;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const LIMIT: Duration = Duration::from_secs(300);

/// More than any request of the lab's clients.
const REQUEST: usize = 4096;

type Failure = Box<dyn Error + Send + Sync>;

fn config(
    version: &str,
    chain: &str,
    key: &str,
    compression: Option<&str>,
) -> Result<Arc<ServerConfig>, Failure> {
    let version = match version {
        "1.2" => &rustls::version::TLS12,
        "1.3" => &rustls::version::TLS13,
        other => return Err(format!("rustls does not speak TLS {other}").into()),
    };
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<Vec<_>, _>>()?;
    let provider = Arc::new(tandem_channel::crypto::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.cert_compressors = match compression {
        None => Vec::new(),
        Some("brotli") => vec![BROTLI_COMPRESSOR],
        Some(other) => return Err(format!("{other} is not brotli").into()),
    };
    Ok(Arc::new(config))
}

fn answer(config: &Arc<ServerConfig>, socket: TcpStream, body: &[u8]) -> Result<(), Failure> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(LIMIT))?;
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(config))?, socket);
    let mut request = Vec::new();
    let mut buffer = [0; REQUEST];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        if count == 0 || request.len() > REQUEST {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..count]);
    }
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat())?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, version, chain, key, body, compression @ ..] = &words[..] else {
        return Err("PORT VERSION CHAIN.pem KEY.pem BODY [brotli]".into());
    };
    let config = config(version, chain, key, compression.first().map(String::as_str))?;
    let body: Arc<[u8]> = std::fs::read(body)?.into();
    // Of both families, where the system does not say otherwise.
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port.parse()?))?;
    for socket in listener.incoming() {
        let (config, body) = (Arc::clone(&config), Arc::clone(&body));
        let socket = socket?;
        std::thread::spawn(move || {
            if let Err(error) = answer(&config, socket, &body) {
                // Nobody reads it where the lab has ended.
                let _ = writeln!(std::io::stderr(), "{error}");
            }
        });
    }
    Ok(())
}
