//! A server of files over TLS and over plain HTTP, with rustls and hyper, for the lab's
//! measurements of what TLS costs. `GET /counts` on the plain port tells how many connections came
//! with new sessions and how many with resumed ones.
//!
//! ```text
//! hyper-server TLS-PORT PORT CHAIN.pem KEY.pem FOLDER
//! ```
//!
//! An example and not a part of Tandem. It has one thread.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ServerSessionMemoryCache;
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Sessions of TLS 1.2 that are kept by their identifiers.
const SESSIONS: usize = 10_000;

type Failure = Box<dyn Error + Send + Sync>;

static FRESH: AtomicU64 = AtomicU64::new(0);
static RESUMED: AtomicU64 = AtomicU64::new(0);

type Files = HashMap<String, Bytes>;

fn config(chain: &str, key: &str) -> Result<ServerConfig, Failure> {
    let chain = CertificateDer::pem_file_iter(chain)?.collect::<Result<Vec<_>, _>>()?;
    let provider = Arc::new(tandem_channel::crypto::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()?;
    Ok(config)
}

fn answer(files: &Files, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if path == "/counts" {
        let counts = [&FRESH, &RESUMED].map(|count| count.load(Ordering::Relaxed).to_string());
        return Response::new(Full::from(counts.join(" ")));
    }
    match files.get(path) {
        Some(body) => Response::new(Full::new(body.clone())),
        None => {
            let mut missing = Response::new(Full::default());
            *missing.status_mut() = StatusCode::NOT_FOUND;
            missing
        }
    }
}

/// A client that goes away early is none of this program's business.
async fn serve(files: &Files, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(files, &request)));
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn secure(files: &Files, acceptor: &TlsAcceptor, socket: TcpStream) {
    let Ok(stream) = acceptor.accept(socket).await else {
        return;
    };
    let count = match stream.get_ref().1.handshake_kind() {
        Some(HandshakeKind::Resumed) => &RESUMED,
        _ => &FRESH,
    };
    count.fetch_add(1, Ordering::Relaxed);
    serve(files, stream).await;
}

async fn run() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [secure_port, port, chain, key, folder] = &words[..] else {
        return Err("TLS-PORT PORT CHAIN.pem KEY.pem FOLDER".into());
    };
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("/{}", entry.file_name().to_string_lossy());
        files.insert(name, std::fs::read(entry.path())?.into());
    }
    let files = Rc::new(files);
    let acceptor = TlsAcceptor::from(Arc::new(config(chain, key)?));
    let with_tls = TcpListener::bind((Ipv4Addr::LOCALHOST, secure_port.parse()?)).await?;
    let without = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse()?)).await?;
    loop {
        let files = Rc::clone(&files);
        tokio::select! {
            accepted = with_tls.accept() => {
                let (socket, _) = accepted?;
                socket.set_nodelay(true)?;
                let acceptor = acceptor.clone();
                tokio::task::spawn_local(async move { secure(&files, &acceptor, socket).await });
            }
            accepted = without.accept() => {
                let (socket, _) = accepted?;
                socket.set_nodelay(true)?;
                tokio::task::spawn_local(async move { serve(&files, socket).await });
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, run())
}
