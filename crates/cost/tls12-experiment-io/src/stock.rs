//! The same client and server on rustls, to measure what exists already beside what is proposed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConfig, ServerConnection};
use tandem_channel::crypto::{Ticketer, default_provider};

use crate::{Failure, MAX_ANSWER, MAX_REQUEST, Visit, is_whole, listen, prepare, read_some, x509};

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stock {
    /// TLS 1.2 in full.
    Tls12,
    /// TLS 1.2, resumed with a ticket (RFC 5077).
    Ticket,
    /// TLS 1.3 in full.
    Tls13,
    /// TLS 1.3, resumed with the request in the first flight (0-RTT).
    ZeroRtt,
}

impl Stock {
    const fn resumes(self) -> bool {
        match self {
            Self::Ticket | Self::ZeroRtt => true,
            Self::Tls12 | Self::Tls13 => false,
        }
    }

    const fn version(self) -> &'static rustls::SupportedProtocolVersion {
        match self {
            Self::Tls12 | Self::Ticket => &rustls::version::TLS12,
            Self::Tls13 | Self::ZeroRtt => &rustls::version::TLS13,
        }
    }
}

/// A client's settings; sessions live as long as they do.
///
/// # Errors
/// [`Failure::Settings`], [`Failure::Stock`].
pub fn client(stock: Stock, roots: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[stock.version()])?
        .with_root_certificates(x509::roots(roots)?)
        .with_no_client_auth();
    if !stock.resumes() {
        config.resumption = Resumption::disabled();
    }
    config.enable_early_data = stock == Stock::ZeroRtt;
    Ok(Arc::new(config))
}

/// A server's settings.
///
/// # Errors
/// [`Failure::Settings`], [`Failure::Stock`].
pub fn server(stock: Stock, chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[stock.version()])?
        .with_no_client_auth()
        .with_single_cert(x509::certificates(chain)?, x509::private_key(key)?)?;
    match stock {
        Stock::Tls12 | Stock::Tls13 => {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Stock::Ticket => config.ticketer = Ticketer::new()?,
        Stock::ZeroRtt => {
            config.send_tls13_tickets = 1;
            config.max_early_data_size = 1 << 14;
            config.send_half_rtt_data = true;
        }
    }
    Ok(Arc::new(config))
}

/// One visit: a request and the whole answer.
///
/// # Errors
/// What ended it.
pub fn visit(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
    request: &[u8],
) -> Result<Visit, Failure> {
    let name = ServerName::try_from(name.to_owned());
    let name = name.map_err(|error| Failure::Settings(error.to_string()))?;
    let mut client = ClientConnection::new(Arc::clone(config), name)?;
    let mut is_early = false;
    if let Some(mut early) = client.early_data() {
        early
            .write_all(request)
            .map_err(Failure::socket("write early data"))?;
        is_early = true;
    }
    let begun = Instant::now();
    let mut socket = TcpStream::connect(address).map_err(Failure::socket("connect"))?;
    prepare(&socket)?;
    let mut is_sent = is_early;
    let mut answer = Vec::new();
    let mut first_byte: Option<Duration> = None;
    let mut buffer = [0; 1 << 14];
    loop {
        if !client.is_handshaking() && is_early && !client.is_early_data_accepted() {
            (is_early, is_sent) = (false, false);
        }
        if !client.is_handshaking() && !is_sent {
            let written = client.writer().write_all(request);
            written.map_err(Failure::socket("write"))?;
            is_sent = true;
        }
        while client.wants_write() {
            let written = client.write_tls(&mut socket);
            written.map_err(Failure::socket("write"))?;
        }
        let count = read_some(&mut socket, &mut buffer)?;
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            client
                .read_tls(&mut rest)
                .map_err(Failure::socket("read"))?;
            let state = client.process_new_packets()?;
            let mut data = vec![0; state.plaintext_bytes_to_read()];
            let read = client.reader().read_exact(&mut data);
            read.map_err(Failure::socket("read"))?;
            if !data.is_empty() {
                first_byte.get_or_insert_with(|| begun.elapsed());
                answer.extend_from_slice(&data);
            }
            if state.peer_has_closed() {
                return finished(&client, first_byte, answer);
            }
        }
        if answer.len() > MAX_ANSWER {
            return Err(Failure::TooMuch);
        }
        if count == 0 {
            return finished(&client, first_byte, answer);
        }
    }
}

fn finished(
    client: &ClientConnection,
    first_byte: Option<Duration>,
    answer: Vec<u8>,
) -> Result<Visit, Failure> {
    Ok(Visit {
        kind: match client.handshake_kind() {
            Some(HandshakeKind::Resumed) if client.is_early_data_accepted() => "0-rtt",
            Some(HandshakeKind::Resumed) => "resumed",
            Some(HandshakeKind::Full) => "full",
            Some(HandshakeKind::FullWithHelloRetryRequest) => "full with a retry",
            None => "unfinished",
        },
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
    let mut server = ServerConnection::new(Arc::clone(config))?;
    let mut request = Vec::new();
    let mut buffer = [0; 1 << 14];
    loop {
        let count = read_some(&mut socket, &mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            server
                .read_tls(&mut rest)
                .map_err(Failure::socket("read"))?;
            let state = server.process_new_packets()?;
            if let Some(mut early) = server.early_data() {
                let read = early.read_to_end(&mut request);
                read.map_err(Failure::socket("read early data"))?;
            }
            let at = request.len();
            request.resize(at + state.plaintext_bytes_to_read(), 0);
            let read = server.reader().read_exact(&mut request[at..]);
            read.map_err(Failure::socket("read"))?;
        }
        if request.len() > MAX_REQUEST {
            return Err(Failure::TooMuch);
        }
        let is_due = is_whole(&request);
        if is_due {
            let written = server.writer().write_all(answer);
            written.map_err(Failure::socket("write"))?;
            server.send_close_notify();
        }
        while server.wants_write() {
            let written = server.write_tls(&mut socket);
            written.map_err(Failure::socket("write"))?;
        }
        // A client's Finished may still be on its way, and so the answer's turn.
        if is_due && !server.is_handshaking() {
            return Ok(());
        }
        if is_due {
            request.clear();
        }
    }
}
