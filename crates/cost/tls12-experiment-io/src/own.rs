//! Client and server of the experiment over TCP.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tandem_wire::UnixTime;
use tls12_experiment::client::Known;
use tls12_experiment::server::Kind;
use tls12_experiment::three_way::{Answered, Freshness};
use tls12_experiment::{Client, ClientConfig, Entropy, Received, Server, ServerConfig};
use zeroize::Zeroizing;

use crate::{Failure, MAX_ANSWER, MAX_REQUEST, Visit, is_whole, listen, prepare, read_some};

/// When the request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// Once the handshake permits it.
    Never,
    /// In the first flight, where there is one: it may be replayed.
    Request,
}

/// Random bytes.
///
/// # Errors
/// [`Failure::Settings`]: the system has none.
pub fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut *bytes).map_err(|error| Failure::Settings(error.to_string()))?;
    Ok(bytes)
}

fn entropy() -> Result<Entropy, Failure> {
    Ok(Entropy::new(&*random::<{ Entropy::LEN }>()?))
}

fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime(since.unwrap_or_default().as_secs())
}

const fn name(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Full) => "full",
        Some(Kind::Cached) => "cached-info",
        Some(Kind::ThreeWay) => "three-way",
        None => "unfinished",
    }
}

/// First flights that were answered, for all connections of one server.
#[derive(Debug)]
pub struct Memory(Mutex<Answered>);

impl Memory {
    /// Room for so many.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self(Mutex::new(Answered::new(capacity)))
    }
}

impl Freshness for Memory {
    fn is_new(&self, client_random: &[u8; 32]) -> bool {
        // A memory that a panic may have spoilt knows nothing new.
        self.0
            .lock()
            .is_ok_and(|mut answered| answered.is_new(client_random))
    }
}

fn write(socket: &mut TcpStream, bytes: &[u8]) -> Result<(), Failure> {
    socket.write_all(bytes).map_err(Failure::socket("write"))
}

/// One visit: a request and the whole answer. What there is to keep of the server is kept.
///
/// # Errors
/// What ended it.
pub fn visit(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    known: &mut Option<Known>,
    request: &[u8],
    early: Early,
) -> Result<Visit, Failure> {
    let early = match early {
        Early::Never => &[],
        Early::Request => request,
    };
    let entropy = entropy()?;
    let mut client = Client::start(Arc::clone(config), known.as_ref(), now(), entropy, early)?;
    // What went early is sent again by the client itself, where it has to be.
    let mut is_sent = client.has_sent_early();
    let begun = Instant::now();
    let mut socket = TcpStream::connect(address).map_err(Failure::socket("connect"))?;
    prepare(&socket)?;
    let mut answer = Vec::new();
    let mut first_byte = None;
    let mut buffer = [0; 1 << 14];
    loop {
        write(&mut socket, &client.take_output())?;
        let count = read_some(&mut socket, &mut buffer)?;
        if count == 0 {
            break;
        }
        let handled = client.handle_input(&buffer[..count]);
        if let Err(error) = handled {
            write(&mut socket, &client.take_output())?;
            return Err(error.into());
        }
        if !is_sent && client.may_send() {
            client.send(request)?;
            is_sent = true;
        }
        let mut is_closed = false;
        while let Some(received) = client.take_received() {
            match received {
                Received::Data(data) | Received::Early(data) => {
                    first_byte.get_or_insert_with(|| begun.elapsed());
                    answer.extend_from_slice(&data);
                }
                Received::Closed => is_closed = true,
            }
        }
        if answer.len() > MAX_ANSWER {
            return Err(Failure::TooMuch);
        }
        if is_closed {
            break;
        }
    }
    if let Some(learned) = client.learned() {
        *known = Some(learned.clone());
    }
    Ok(Visit {
        kind: name(client.kind()),
        first_byte: first_byte.ok_or(Failure::Cut)?,
        answer,
    })
}

/// Gives one answer to all requests, until the listener fails.
///
/// # Errors
/// [`Failure::Socket`].
pub fn serve(
    listener: &TcpListener,
    config: &Arc<ServerConfig>,
    answer: &Arc<[u8]>,
) -> Result<(), Failure> {
    let (config, answer) = (Arc::clone(config), Arc::clone(answer));
    listen::serve(listener, move |socket| reply(socket, &config, &answer))
}

fn reply(mut socket: TcpStream, config: &Arc<ServerConfig>, answer: &[u8]) -> Result<(), Failure> {
    prepare(&socket)?;
    let mut server = Server::new(Arc::clone(config), entropy()?);
    let mut request = Vec::new();
    let mut buffer = [0; 1 << 14];
    loop {
        let count = read_some(&mut socket, &mut buffer)?;
        if count == 0 {
            return if request.is_empty() {
                Ok(())
            } else {
                Err(Failure::Cut)
            };
        }
        let handled = server.handle_input(&buffer[..count]);
        while let Some(received) = server.take_received() {
            match received {
                Received::Early(data) | Received::Data(data) => request.extend_from_slice(&data),
                Received::Closed => return Ok(()),
            }
        }
        if request.len() > MAX_REQUEST {
            return Err(Failure::TooMuch);
        }
        let is_due = handled.is_ok() && is_whole(&request);
        if is_due {
            server.send(answer)?;
            server.close();
        }
        write(&mut socket, &server.take_output())?;
        handled?;
        if is_due {
            return Ok(());
        }
    }
}
