//! The server of all arms: answers requests of eight bytes on any number of connections.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Asks for one byte. Any other number asks for so many.
pub const ECHO: u64 = 1;

/// Serves at `listen`, for ever.
pub async fn serve(listen: SocketAddr, ready: impl FnOnce()) {
    let listener = TcpListener::bind(listen).await.expect("a free port");
    let bytes: Arc<[u8]> = (0..1 << 18).map(|n: u32| n.to_le_bytes()[0]).collect();
    ready();
    loop {
        let (stream, _) = listener.accept().await.expect("descriptors are left");
        tokio::spawn(answer(stream, Arc::clone(&bytes)));
    }
}

/// The client says what is wrong with a connection that ends early.
async fn answer(mut stream: TcpStream, bytes: Arc<[u8]>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut left = stream.read_u64().await?;
        while left > 0 {
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            stream.write_all(&bytes[..len]).await?;
            left -= len as u64;
        }
    }
}
