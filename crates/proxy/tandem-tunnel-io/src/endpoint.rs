//! The TCP connection to an endpoint: the client's, or the one to the server.
//!
//! Is not: what is said on it.
//!
//! Invariant: it ends by a reset (RST) unless it has been ended in order in both directions; so no
//! endpoint takes a stream for complete that was cut off.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// An endpoint that says nothing for so long is asked whether it is still there, and then each
/// minute. This costs the line nothing: it is on this side.
const SILENCE: Duration = Duration::from_secs(300);
const ASK_EVERY: Duration = Duration::from_secs(60);

/// Bytes read at a time.
const READ: usize = 32 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Endpoint {
    stream: TcpStream,
    end: End,
}

/// How the connection ends when it is dropped.
#[derive(Debug)]
enum End {
    Reset,
    InOrder,
}

impl Endpoint {
    /// Over this connection.
    pub(crate) fn new(stream: TcpStream) -> Self {
        prepare(&stream);
        Self {
            stream,
            end: End::Reset,
        }
    }

    /// Is ready once [`Endpoint::read`] has something to say.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream.readable().await
    }

    /// Is ready once [`Endpoint::write`] has room.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// Is ready once the connection has failed, with the error. For whoever waits for neither of
    /// the others, as nothing is to be read or written.
    pub(crate) async fn failed(&self) -> io::Error {
        match self.stream.ready(Interest::ERROR).await {
            Ok(_) => {
                let error = self.stream.take_error().ok().flatten();
                error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
            }
            Err(error) => error,
        }
    }

    /// What has come, at most [`READ`] bytes, and empty at the end of the stream; `None` if nothing
    /// has come. A connection that waits has no buffer, and one that was sent little has little.
    ///
    /// # Errors
    /// The connection has failed.
    pub(crate) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = Vec::with_capacity(READ);
        match self.stream.try_read_buf(&mut buffer) {
            Ok(_) => {
                buffer.shrink_to_fit();
                Ok(Some(buffer))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes some of these bytes, perhaps none.
    ///
    /// # Errors
    /// The connection has failed.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    /// Ends the direction to the endpoint in order.
    ///
    /// # Errors
    /// The connection has failed.
    pub(crate) fn finish(&self) -> io::Result<()> {
        SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)
    }

    /// Both directions have ended in order.
    pub(crate) fn ended(&mut self) {
        self.end = End::InOrder;
    }
}

/// What every connection to an endpoint has. It works without, too.
pub(crate) fn prepare(stream: &TcpStream) {
    // Flights are written whole; waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(ASK_EVERY);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        match self.end {
            End::InOrder => {}
            // A close without lingering sends RST (socket(7), SO_LINGER).
            End::Reset => {
                let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, Endpoint) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let far = TcpStream::connect(address).await.expect("it listens");
        let (near, _) = listener.accept().await.expect("it came");
        (far, Endpoint::new(near))
    }

    /// What comes next: it may seem readable before.
    async fn next(near: &Endpoint) -> Vec<u8> {
        loop {
            near.readable().await.expect("it is up");
            if let Some(bytes) = near.read().expect("it is up") {
                return bytes;
            }
        }
    }

    #[tokio::test]
    async fn what_is_dropped_is_reset_and_what_has_ended_is_not() {
        let (mut far, near) = pair().await;
        drop(near);
        let error = far.read(&mut [0]).await.expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

        let (mut far, mut near) = pair().await;
        near.finish().expect("it is up");
        near.ended();
        drop(near);
        assert_eq!(far.read(&mut [0]).await.expect("the end"), 0);
    }

    #[tokio::test]
    async fn a_reset_after_the_end_is_noticed_though_nothing_is_to_be_read_or_written() {
        let (far, near) = pair().await;
        let shut = SockRef::from(&far).shutdown(std::net::Shutdown::Write);
        shut.expect("it is up");
        assert!(next(&near).await.is_empty());
        let linger = SockRef::from(&far).set_linger(Some(Duration::ZERO));
        linger.expect("a socket");
        drop(far);
        let failed = tokio::time::timeout(Duration::from_secs(60), near.failed()).await;
        // In this state Linux calls a reset so (tcp_reset).
        assert_eq!(failed.expect("soon").kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn nothing_to_read_is_nothing_and_the_end_is_empty() {
        let (mut far, near) = pair().await;
        assert_eq!(near.read().expect("it is up"), None);
        far.write_all(b"a").await.expect("it is up");
        let little = next(&near).await;
        assert_eq!(little, b"a");
        assert!(little.capacity() < READ / 8, "{}", little.capacity());
        drop(far);
        assert!(next(&near).await.is_empty());
    }
}
