//! What is handed over, and the words of the exchange: after the TLS handshake the inviting end
//! sends 34 bytes, the guest answers with one once it has stored them, and the inviting end with
//! one.
//!
//! ```text
//! inviting end  ->  key (32), port of the tunnel (2, big endian)
//! guest         ->  0x01: stored
//! inviting end  ->  0x01: understood
//! ```
//!
//! Is not: who may say them; TLS has seen to that.
//!
//! Invariant: the key is in no output for people, not of `Debug` either.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use zeroize::Zeroizing;

const KEY: usize = 32;
const LEN: usize = KEY + 2;
const DONE: u8 = 1;

/// What the client side is given.
#[derive(Clone, PartialEq, Eq)]
pub struct Handover {
    /// The pair's key.
    pub key: Zeroizing<[u8; KEY]>,
    /// The port of the tunnel (UDP) at the address of the invitation. Not 0.
    pub port: u16,
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handover(port {})", self.port)
    }
}

impl Handover {
    pub(crate) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let bytes = Zeroizing::new([&self.key[..], &self.port.to_be_bytes()].concat());
        to.write_all(&bytes).await?;
        to.flush().await
    }

    pub(crate) async fn receive(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; LEN]);
        from.read_exact(&mut *bytes).await?;
        let (key, port) = bytes.split_at(KEY);
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let port = u16::from_be_bytes(port.try_into().map_err(|_| malformed())?);
        if port == 0 {
            return Err(malformed());
        }
        Ok(Self {
            key: Zeroizing::new(key.try_into().map_err(|_| malformed())?),
            port,
        })
    }
}

/// Says that it is done.
pub(crate) async fn say_done(to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    to.write_all(&[DONE]).await?;
    to.flush().await
}

/// Waits until the other end says so.
pub(crate) async fn done(from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    match from.read_u8().await? {
        DONE => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// `work`, which has to end in time.
pub(crate) async fn in_time<T>(
    patience: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    timeout(patience, work)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_handed_over_has_a_port_and_only_one_word_confirms_it() {
        let mut bytes = [7; LEN];
        let received = Handover::receive(&mut &bytes[..]).await.expect("whole");
        assert_eq!((*received.key, received.port), ([7; KEY], 0x0707));
        bytes[KEY..].fill(0);
        assert!(Handover::receive(&mut &bytes[..]).await.is_err());
        assert!(Handover::receive(&mut &bytes[..KEY]).await.is_err());
        assert!(done(&mut &[DONE][..]).await.is_ok());
        assert!(done(&mut &[0][..]).await.is_err());
        assert!(done(&mut &[][..]).await.is_err());
    }
}
