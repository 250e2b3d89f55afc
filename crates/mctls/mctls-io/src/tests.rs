//! Real sockets on loopback, real rustls, real certificates.

mod attacks;
mod blocking;
mod cost;
mod ends;
mod legs;
mod paired;
mod pki;
mod resumed;
mod sessions;
mod waiting;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mctls::config::{Context, PathMode, Right, Terms};
use mctls::frame::{Frame, Frames};
use mctls::party::{ContextId, Direction};
use mctls::receiver::Delivery;
use mctls::relay::Passing;
use mctls::suite::Suite;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::{
    Client, ClientSettings, Connected, Error, Fallback, KeyExchange, Middlebox, MiddleboxSettings,
    Server, ServerSettings, Service, Session, Timeouts, Verdict, Via,
};
use pki::pki;

const HEADERS: ContextId = ContextId(1);
const BODY: ContextId = ContextId(2);

/// Long enough for a busy machine, short enough for tests in which nobody answers.
const PATIENCE: Timeouts = Timeouts {
    handshake: Duration::from_secs(20),
    idle: Duration::from_secs(20),
};

/// A task that ends with the test.
struct Task<T> {
    address: String,
    results: UnboundedReceiver<T>,
    handle: JoinHandle<()>,
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl<T> Task<T> {
    /// What became of the next connection.
    async fn next(&mut self) -> T {
        self.results.recv().await.expect("the task still runs")
    }
}

/// Listens, and hands each connection to `serve`.
async fn listen<T, F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Task<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (sender, results) = unbounded_channel();
    let handle = tokio::spawn(async move {
        let mut tasks = tokio::task::JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (sender, work) = (sender.clone(), serve(stream));
            tasks.spawn(async move {
                // A test that has seen enough has dropped the other end.
                let _ = sender.send(work.await);
            });
        }
    });
    Task {
        address,
        results,
        handle,
    }
}

type Accepted = Result<Connected, Error>;

fn server_settings() -> ServerSettings {
    ServerSettings {
        identity: pki().server(),
        middlebox_roots: pki().roots(),
        policy: Arc::new(|terms: &Terms| Some(terms.clone())),
        fallback: Fallback::Refuse,
        plain_protocols: vec![b"http/1.1".to_vec()],
        timeouts: PATIENCE,
    }
}

async fn server_with(settings: ServerSettings) -> Task<Accepted> {
    let server = Server::new(&settings).expect("settings that can be used");
    listen(move |stream| {
        let server = server.clone();
        async move { server.accept(stream).await }
    })
    .await
}

async fn server() -> Task<Accepted> {
    server_with(server_settings()).await
}

fn middlebox_settings(
    number: usize,
    service: impl Fn() -> Box<dyn Service> + Send + Sync + 'static,
) -> MiddleboxSettings {
    MiddleboxSettings {
        identity: pki().middlebox(number),
        next: crate::NextHop::Named,
        permits: Arc::new(|next: &str| next.starts_with("127.0.0.1:")),
        service: Arc::new(service),
        timeouts: PATIENCE,
    }
}

/// A middlebox with this number, from 1, whose certificate is for `box-N.test`.
async fn middlebox(
    number: usize,
    service: impl Fn() -> Box<dyn Service> + Send + Sync + 'static,
) -> Task<Result<(), Error>> {
    middlebox_with(middlebox_settings(number, service)).await
}

async fn middlebox_with(settings: MiddleboxSettings) -> Task<Result<(), Error>> {
    let middlebox = Middlebox::new(&settings).expect("settings that can be used");
    listen(move |stream| {
        let middlebox = middlebox.clone();
        async move { middlebox.serve(stream).await }
    })
    .await
}

fn client_settings(via: &[&str], rights: &[[Right; 2]], path: PathMode) -> ClientSettings {
    let context = |id: ContextId, purpose: &str| Context {
        id,
        purpose: purpose.into(),
        path,
        rights: rights
            .iter()
            .map(|rights| rights[usize::from(id.0) - 1])
            .collect(),
    };
    ClientSettings {
        roots: pki().roots(),
        middlebox_roots: pki().roots(),
        via: (1..)
            .zip(via)
            .map(|(number, address)| Via {
                address: (*address).to_owned(),
                name: format!("box-{number}.test"),
            })
            .collect(),
        contexts: vec![context(HEADERS, "headers"), context(BODY, "body")],
        least: Vec::new(),
        suites: Suite::ALL.to_vec(),
        key_exchange: KeyExchange::Hybrid,
        fallback: Fallback::Refuse,
        plain_protocols: vec![b"http/1.1".to_vec()],
        timeouts: PATIENCE,
    }
}

async fn connect_with(settings: ClientSettings, to: &str) -> Result<Connected, Error> {
    let client = Client::new(settings).expect("settings that can be used");
    client.connect(to, "server.test").await
}

/// A session, as the client and as the server have it.
struct Pair {
    client: Session,
    server: Session,
}

fn session(connected: Accepted) -> Session {
    match connected {
        Ok(Connected::Session(session)) => *session,
        Ok(Connected::Plain(_)) => panic!("plain TLS"),
        Err(error) => panic!("{error}"),
    }
}

async fn pair(
    server: &mut Task<Accepted>,
    via: &[&str],
    rights: &[[Right; 2]],
    path: PathMode,
) -> Pair {
    let settings = client_settings(via, rights, path);
    let client = connect_with(settings, &server.address.clone()).await;
    Pair {
        client: session(client),
        server: session(server.next().await),
    }
}

async fn received(session: &mut Session) -> Delivery {
    let received = session.receiver.recv().await;
    received.expect("nothing is wrong").expect("more comes")
}

/// What a service has seen, in order.
type Seen = Arc<Mutex<Vec<(ContextId, Vec<u8>)>>>;

/// A service that notes what it sees and says the same of everything.
struct Scripted {
    seen: Seen,
    verdict: Verdict,
}

impl Service for Scripted {
    fn inspect(&mut self, _: Direction, context: &Context, data: &[u8]) -> Verdict {
        let mut seen = self.seen.lock().expect("no test panics with it");
        seen.push((context.id, data.to_vec()));
        self.verdict.clone()
    }
}

fn forwards() -> Box<dyn Service> {
    says(Verdict::Forward)
}

fn says(verdict: Verdict) -> Box<dyn Service> {
    let seen = Arc::default();
    Box::new(Scripted { seen, verdict })
}

/// A service that oversteps: what it does with each group.
struct Hostile<F>(F);

impl<F> Service for Hostile<F>
where
    F: for<'a> FnMut(Passing<'a>, &mut Vec<u8>) -> Option<Passing<'a>> + Send,
{
    fn inspect(&mut self, _: Direction, _: &Context, _: &[u8]) -> Verdict {
        Verdict::Forward
    }

    fn overstep<'a>(&mut self, passing: Passing<'a>, out: &mut Vec<u8>) -> Option<Passing<'a>> {
        (self.0)(passing, out)
    }
}

/// What somebody on a hop does with each frame towards the server: frames in its place.
type Interference = Box<dyn FnMut(&Frame<'_>) -> Vec<Vec<u8>> + Send>;

/// Somebody on a hop towards `to`, without any key. What is sent to the returned sender goes to
/// the server's side.
async fn interferer(
    to: String,
    interference: impl Fn() -> Interference + Send + Sync + 'static,
) -> (Task<()>, UnboundedSender<Vec<u8>>) {
    let (injector, injected) = unbounded_channel::<Vec<u8>>();
    let injected = Arc::new(tokio::sync::Mutex::new(injected));
    let interference = Arc::new(interference);
    let task = listen(move |stream| {
        let (to, injected) = (to.clone(), Arc::clone(&injected));
        let interference = interference();
        async move {
            let server = TcpStream::connect(to).await.expect("the next hop");
            let mut injected = injected.lock_owned().await;
            interfere(stream, server, interference, &mut injected).await;
        }
    })
    .await;
    (task, injector)
}

async fn interfere(
    client: TcpStream,
    server: TcpStream,
    mut interference: Interference,
    injected: &mut UnboundedReceiver<Vec<u8>>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    let forth = async move {
        let mut frames = Frames::new();
        let mut buffer = vec![0; 1 << 14];
        loop {
            let mut out = Vec::new();
            tokio::select! {
                read = from_client.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(length) => frames.push(&buffer[..length]).expect("frames"),
                },
                Some(bytes) = injected.recv() => out.extend(bytes),
            }
            while let Some(frame) = frames.next().expect("frames") {
                out.extend(interference(&frame).concat());
            }
            if to_server.write_all(&out).await.is_err() {
                break;
            }
        }
        let _ = to_server.shutdown().await;
    };
    tokio::join!(back, forth);
}

fn bytes(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.write(&mut out);
    out
}
