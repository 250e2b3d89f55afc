//! Where clients ask: a UDP socket and a TCP listener at one address.
//!
//! Is not: what they are answered (`forwarder.rs`).
//!
//! Invariants: who may not ask gets no byte; a reply leaves from the address that was asked, which
//! is one and not all of a machine's; what a client sends has a bounded length and waits for nobody
//! else's answer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tandem_daemon::DaemonError;
use tandem_daemon::listener;
use tandem_daemon::places::{Places, Share};
use tandem_tunnel::dns::{Clients, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use super::forwarder::{Forwarder, Step};
use crate::config::Dns;
use crate::error::TunnelError;
use crate::transport::Tunnel;

/// The setting that names the address, as on the command line.
const SETTING: &str = "--dns";

/// Longest message of a client that is read. Questions have some fifty bytes, padded ones 512.
const MAX_MESSAGE: usize = 4096;
/// Connections at a time, in all and of one client.
const MAX_CONNECTIONS: usize = 128;
const MAX_CONNECTIONS_EACH: usize = 32;
/// Questions of one connection that wait at a time (RFC 7766, section 6.2.1.1).
const MAX_PIPELINED: usize = 32;
/// How long a connection may say nothing, or take none of a reply (RFC 7766, section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);
/// After the socket has failed.
const BREATH: Duration = Duration::from_millis(100);

/// The sockets, bound. A step of its own, without a runtime: port 53 needs a capability that is
/// given up before there are threads.
#[derive(Debug)]
pub(crate) struct Ports {
    udp: std::net::UdpSocket,
    tcp: std::net::TcpListener,
    clients: Clients,
}

impl Ports {
    /// Listens. Messages wait.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(crate) fn bind(Dns { address, clients }: Dns) -> Result<Self, TunnelError> {
        let listening = |source| DaemonError::listening(SETTING, address, source);
        let bind = || {
            let tcp = std::net::TcpListener::bind(address)?;
            let udp = std::net::UdpSocket::bind(tcp.local_addr()?)?;
            tcp.set_nonblocking(true)?;
            udp.set_nonblocking(true)?;
            Ok(Self { udp, tcp, clients })
        };
        Ok(bind().map_err(listening)?)
    }

    /// Answers, for ever.
    ///
    /// # Errors
    /// The sockets are of no use to the runtime.
    pub(crate) async fn serve<T: Tunnel>(
        self,
        forwarder: Arc<Forwarder<T>>,
    ) -> Result<(), TunnelError> {
        let failed = TunnelError::system("listening for DNS");
        let udp = UdpSocket::from_std(self.udp).map_err(&failed)?;
        let tcp = TcpListener::from_std(self.tcp).map_err(&failed)?;
        let clients = &self.clients;
        let places = Places::new(MAX_CONNECTIONS, Share::AtMost(MAX_CONNECTIONS_EACH));
        let connections = listener::serve_admitted(tcp, |stream, client| {
            if !clients.permit(client) {
                forwarder.not_allowed();
                return None;
            }
            let (place, forwarder) = (places.take(client)?, Arc::clone(&forwarder));
            Some(async move {
                connection(stream, client, forwarder).await;
                drop(place);
            })
        });
        tokio::join!(datagrams(Arc::new(udp), clients, &forwarder), connections);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.udp.local_addr().expect("bound")
    }
}

async fn datagrams<T: Tunnel>(
    socket: Arc<UdpSocket>,
    clients: &Clients,
    forwarder: &Arc<Forwarder<T>>,
) {
    let mut message = vec![0; MAX_MESSAGE];
    loop {
        let (length, from) = match socket.recv_from(&mut message).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(%error, "no DNS message can be received");
                sleep(BREATH).await;
                continue;
            }
        };
        if !clients.permit(from.ip()) {
            forwarder.not_allowed();
            continue;
        }
        match forwarder.take(&message[..length], from.ip(), Transport::Udp) {
            Step::Done(Some(reply)) => send(&socket, &reply, from).await,
            Step::Done(None) => {}
            Step::Wait(waiting) => {
                let socket = Arc::clone(&socket);
                tokio::spawn(async move {
                    if let Some(reply) = waiting.reply().await {
                        send(&socket, &reply, from).await;
                    }
                });
            }
        }
    }
}

async fn send(socket: &UdpSocket, reply: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(reply, to).await {
        tracing::debug!(%error, "a DNS reply is lost");
    }
}

/// One connection: questions are taken as they come, replies leave as they are ready.
async fn connection<T: Tunnel>(stream: TcpStream, client: IpAddr, forwarder: Arc<Forwarder<T>>) {
    let (mut reader, mut writer) = stream.into_split();
    let (replies, mut ready) = mpsc::channel::<Vec<u8>>(MAX_PIPELINED);
    let taking = async move {
        let room = Arc::new(Semaphore::new(MAX_PIPELINED));
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            let Ok(Ok(message)) = timeout(IDLE, next(&mut reader)).await else {
                return;
            };
            match taken(&message, client, &forwarder) {
                Some(reply) => {
                    let replies = replies.clone();
                    tokio::spawn(async move {
                        if let Some(reply) = reply.await {
                            // It fails where the client has gone.
                            let _ = replies.send(reply).await;
                        }
                        drop(place);
                    });
                }
                None => return,
            }
        }
    };
    let giving = async move {
        while let Some(reply) = ready.recv().await {
            let length = u16::try_from(reply.len()).unwrap_or(0).to_be_bytes();
            let framed = [&length[..], &reply].concat();
            match timeout(IDLE, writer.write_all(&framed)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    };
    tokio::join!(taking, giving);
}

/// The reply to a message of a connection; `None` where the connection is over.
fn taken<T: Tunnel>(
    message: &[u8],
    client: IpAddr,
    forwarder: &Arc<Forwarder<T>>,
) -> Option<impl Future<Output = Option<Vec<u8>>> + Send + 'static> {
    let step = forwarder.take(message, client, Transport::Tcp);
    match step {
        Step::Done(None) => None,
        Step::Done(Some(_)) | Step::Wait(_) => Some(async move {
            match step {
                Step::Done(reply) => reply,
                Step::Wait(waiting) => waiting.reply().await,
            }
        }),
    }
}

/// The next message (RFC 1035, section 4.2.2).
async fn next(reader: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let length = usize::from(reader.read_u16().await?);
    if length > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    reader.read_exact(&mut message).await?;
    Ok(message)
}
