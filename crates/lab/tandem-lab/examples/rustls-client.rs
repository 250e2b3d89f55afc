//! A TLS client on rustls, for `tandem lab interop` and `tandem lab soak`. Asks for /trial over
//! HTTP/1.0.
//!
//! ```text
//! rustls-client ADDRESS PORT VERSION ROOT.pem [brotli]                   prints the answer
//! rustls-client load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED   asks until standard input ends; a line for each answer
//! ```
//!
//! With `brotli` it offers to undo compressed certificates (RFC 8879).
//!
//! An example and not a part of Tandem: Tandem contains no TLS stack.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::compress::BROTLI_DECOMPRESSOR;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const NAME: &str = "www.tandem.example";
const LIMIT: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error + Send + Sync>;

/// A client's settings for one version; no session is resumed.
fn config(
    root: &str,
    version: &str,
    compression: Option<&str>,
) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(root)? {
        roots.add(certificate?)?;
    }
    let version = match version {
        "1.2" => &rustls::version::TLS12,
        "1.3" => &rustls::version::TLS13,
        other => return Err(format!("rustls does not speak TLS {other}").into()),
    };
    let provider = Arc::new(tandem_channel::crypto::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.cert_decompressors = match compression {
        None => Vec::new(),
        Some("brotli") => vec![BROTLI_DECOMPRESSOR],
        Some(other) => return Err(format!("{other} is not brotli").into()),
    };
    Ok(Arc::new(config))
}

fn ask(config: &Arc<ClientConfig>, address: IpAddr, port: u16) -> Result<Vec<u8>, Failure> {
    let socket = TcpStream::connect_timeout(&SocketAddr::new(address, port), LIMIT)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(LIMIT))?;
    socket.set_write_timeout(Some(LIMIT))?;
    let client = ClientConnection::new(Arc::clone(config), ServerName::try_from(NAME)?)?;
    let mut stream = StreamOwned::new(client, socket);
    stream.write_all(format!("GET /trial HTTP/1.0\r\nHost: {NAME}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Some servers end the connection without a close_notify; whether the answer is complete
        // its bytes tell.
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(error.into()),
        Ok(_) | Err(_) => Ok(answer),
    }
}

fn load(words: &[String]) -> Result<(), Failure> {
    let [address, ports, versions, root, parallel, expected] = words else {
        return Err("load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED".into());
    };
    let address: IpAddr = address.parse()?;
    let ports: Vec<u16> = ports.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let configs: Vec<(&str, Arc<ClientConfig>)> = versions
        .split(',')
        .map(|version| Ok((version, config(root, version, None)?)))
        .collect::<Result<_, Failure>>()?;
    let expected = std::fs::read(expected)?;
    let parallel: usize = parallel.parse()?;
    let (over, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let port = ports[number % ports.len()];
                    let (version, config) = &configs[number / ports.len() % configs.len()];
                    let begin = Instant::now();
                    let (verdict, why) = match ask(config, address, port) {
                        Ok(answer) if body(&answer) == expected => ("ok", String::new()),
                        Ok(answer) => ("differs", format!("{} bytes", answer.len())),
                        Err(error) => ("failed", error.to_string()),
                    };
                    let took = begin.elapsed().as_millis();
                    // Whoever reads has gone: then standard input ends, too.
                    let _ = writeln!(std::io::stdout(), "{verdict} {port} {version} {took} {why}");
                }
            });
        }
        let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        over.store(true, Ordering::Relaxed);
        ended
    })?;
    Ok(())
}

/// What follows the head of an answer.
fn body(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    end.and_then(|end| answer.get(end + 4..))
        .unwrap_or_default()
}

/// The version of rustls that this was built with: the lock file says.
fn version() -> &'static str {
    let lock = include_str!("../../../../Cargo.lock");
    lock.split("name = \"rustls\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("?")
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--version") => writeln!(std::io::stdout(), "rustls {}", version())?,
        Some("load") => load(&words[1..])?,
        _ => {
            let [address, port, version, root, compression @ ..] = &words[..] else {
                return Err("ADDRESS PORT VERSION ROOT.pem [brotli]".into());
            };
            let config = config(root, version, compression.first().map(String::as_str))?;
            let answer = ask(&config, address.parse()?, port.parse()?)?;
            std::io::stdout().write_all(&answer)?;
        }
    }
    Ok(())
}
