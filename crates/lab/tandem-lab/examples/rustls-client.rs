//! A TLS client on rustls, for `tandem lab interop` and `tandem lab soak`. Asks for /trial over
//! HTTP/1.0.
//!
//! ```text
//! rustls-client ADDRESS PORT VERSION ROOT.pem [brotli]                     prints the answer
//! rustls-client load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED [CERT.pem KEY.pem]
//! ```
//!
//! With `brotli` it offers to undo compressed certificates (RFC 8879). `load` asks until standard
//! input ends, with a line for each answer: `VERDICT PORT VERSION MILLISECONDS full|resumed WORDS`.
//! Behind a port, `r` has it return with its session, `c` show its certificate.
//!
//! An example and not a part of Tandem: Tandem contains no TLS stack.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::compress::BROTLI_DECOMPRESSOR;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

const NAME: &str = "www.tandem.example";
const LIMIT: Duration = Duration::from_secs(60);
/// Connections that a session is used for.
const VISITS: u32 = 5;

type Failure = Box<dyn Error + Send + Sync>;

/// A client's settings for one version; no session is resumed.
fn config(
    root: &str,
    version: &str,
    compression: Option<&str>,
    shown: Option<[&str; 2]>,
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
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])?
        .with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some([certificates, key]) => {
            let certificates = CertificateDer::pem_file_iter(certificates)?;
            builder.with_client_auth_cert(
                certificates.collect::<Result<_, _>>()?,
                PrivateKeyDer::from_pem_file(key)?,
            )?
        }
    };
    config.resumption = Resumption::disabled();
    config.cert_decompressors = match compression {
        None => Vec::new(),
        Some("brotli") => vec![BROTLI_DECOMPRESSOR],
        Some(other) => return Err(format!("{other} is not brotli").into()),
    };
    Ok(Arc::new(config))
}

/// The answer, and whether a session was resumed.
fn ask(config: &Arc<ClientConfig>, address: IpAddr, port: u16) -> Result<(Vec<u8>, bool), Failure> {
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
        Ok(_) | Err(_) => {
            let is_resumed = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
            Ok((answer, is_resumed))
        }
    }
}

/// A port, and how it is visited.
#[derive(Debug, Clone, Copy)]
struct Port {
    number: u16,
    returns: bool,
    shows: bool,
}

impl Port {
    fn read(word: &str) -> Result<Self, Failure> {
        let number = word.trim_end_matches(['r', 'c']);
        let letters = &word[number.len()..];
        Ok(Self {
            number: number.parse()?,
            returns: letters.contains('r'),
            shows: letters.contains('c'),
        })
    }
}

/// What a worker returns with to a port, in one version.
struct Visitor {
    config: Arc<ClientConfig>,
    left: u32,
}

impl Visitor {
    fn new(config: &Arc<ClientConfig>) -> Self {
        let mut config = ClientConfig::clone(config);
        config.resumption = Resumption::in_memory_sessions(8);
        Self {
            config: Arc::new(config),
            left: VISITS,
        }
    }
}

fn load(words: &[String]) -> Result<(), Failure> {
    let [
        address,
        ports,
        versions,
        root,
        parallel,
        expected,
        shown @ ..,
    ] = words
    else {
        return Err("load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED".into());
    };
    let shown = match shown {
        [certificates, key] => Some([certificates.as_str(), key]),
        _ => None,
    };
    let address: IpAddr = address.parse()?;
    let ports: Vec<Port> = ports.split(',').map(Port::read).collect::<Result<_, _>>()?;
    // A version, and settings that show nothing and those that show a certificate.
    let configs: Vec<(&str, [Arc<ClientConfig>; 2])> = versions
        .split(',')
        .map(|version| {
            let plain = config(root, version, None, None)?;
            Ok((version, [plain, config(root, version, None, shown)?]))
        })
        .collect::<Result<_, Failure>>()?;
    let expected = std::fs::read(expected)?;
    let parallel: usize = parallel.parse()?;
    let (over, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                let mut visitors: HashMap<(u16, &str), Visitor> = HashMap::new();
                while !over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let port = ports[number % ports.len()];
                    let (version, configs) = &configs[number / ports.len() % configs.len()];
                    let fresh = &configs[usize::from(port.shows)];
                    let place = (port.number, *version);
                    let (config, offers) = if port.returns {
                        visitors.retain(|_, visitor| visitor.left > 0);
                        let visitor = visitors.entry(place).or_insert_with(|| Visitor::new(fresh));
                        visitor.left -= 1;
                        (Arc::clone(&visitor.config), visitor.left + 1 < VISITS)
                    } else {
                        (Arc::clone(fresh), false)
                    };
                    let begin = Instant::now();
                    let (verdict, is_resumed, why) = match ask(&config, address, port.number) {
                        Ok((answer, resumed)) if body(&answer) == expected => {
                            ("ok", resumed, String::new())
                        }
                        Ok((answer, resumed)) => {
                            ("differs", resumed, format!("{} bytes", answer.len()))
                        }
                        Err(error) => ("failed", offers, error.to_string()),
                    };
                    let took = begin.elapsed().as_millis();
                    let (how, port) = (if is_resumed { "resumed" } else { "full" }, port.number);
                    // Whoever reads has gone: then standard input ends, too.
                    let _ = writeln!(
                        std::io::stdout(),
                        "{verdict} {port} {version} {took} {how} {why}"
                    );
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
            let compression = compression.first().map(String::as_str);
            let config = config(root, version, compression, None)?;
            let (answer, _) = ask(&config, address.parse()?, port.parse()?)?;
            std::io::stdout().write_all(&answer)?;
        }
    }
    Ok(())
}
