//! A tunnel of QUIC and nothing else, of quinn's own settings: a TCP connection is a stream.
//!
//! Is not: a product; it knows one server, and looks into nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig};
use quinn::{TransportConfig, VarInt};
use tandem_channel::{
    Admission, ChannelKey, End, KeyExchange, Pin, Protocol, SERVER_NAME, client_config,
    server_config,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, copy_buf};
use tokio::net::{TcpListener, TcpStream};

const PROTOCOL: Protocol = Protocol {
    name: b"tandem-bench/1",
    key_exchange: KeyExchange::Hybrid,
};
const SECRET: [u8; 32] = [3; 32];
/// Bytes that are copied at a time, as in the tunnel.
const PIECE: usize = 32 * 1024;

fn key(end: End) -> ChannelKey {
    ChannelKey::of_pair(&SECRET, end).expect("a key")
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(20_000));
    // At rest for as long as the bench takes.
    transport.max_idle_timeout(None);
    Arc::new(transport)
}

/// Takes TCP connections at `listen` and carries them to `peer`, for ever.
pub async fn near(listen: SocketAddr, peer: SocketAddr, ready: impl FnOnce()) {
    let pin = Pin::to(key(End::Server).name());
    let tls = client_config(PROTOCOL, &key(End::Client), pin).expect("TLS");
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
    config.transport_config(transport());
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
    let connecting = endpoint
        .connect_with(config, peer, SERVER_NAME)
        .expect("it can");
    let connection = connecting.await.expect("the other side is up");
    let listener = TcpListener::bind(listen).await.expect("a free port");
    ready();
    while let Ok((stream, _)) = listener.accept().await {
        let connection = connection.clone();
        tokio::spawn(async move {
            let (sending, receiving) = connection.open_bi().await.expect("a stream");
            carry(stream, sending, receiving).await;
        });
    }
}

/// Takes streams at `listen` and carries them to `server`, for ever.
pub async fn far(listen: SocketAddr, server: SocketAddr, ready: impl FnOnce()) {
    let tls = server_config(PROTOCOL, &key(End::Server), Admission::Any).expect("TLS");
    let tls = QuicServerConfig::try_from(tls).expect("TLS 1.3");
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport());
    let endpoint = Endpoint::server(config, listen).expect("a free port");
    ready();
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await.expect("the near side");
        tokio::spawn(streams(connection, server));
    }
}

async fn streams(connection: Connection, server: SocketAddr) {
    while let Ok((sending, receiving)) = connection.accept_bi().await {
        tokio::spawn(async move {
            let stream = TcpStream::connect(server).await.expect("the server");
            carry(stream, sending, receiving).await;
        });
    }
}

async fn carry(stream: TcpStream, sending: SendStream, receiving: RecvStream) {
    stream.set_nodelay(true).expect("a socket");
    let (reading, writing) = stream.into_split();
    tokio::join!(copy(reading, sending), copy(receiving, writing));
}

async fn copy(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut from = BufReader::with_capacity(PIECE, from);
    let _ = copy_buf(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}
