//! Keys on a channel, one after the other.
//!
//! ```text
//! length 1 | datagram{length}        what a program writes to its proxy's socket
//! ```
//!
//! Is not: the datagram (`tandem-record-key`). Invariants: a buffer that had a key in it is
//! overwritten; what is no key ends the channel.

use std::io;

use tandem_record_key::{MAX_DATAGRAM_LEN, RecordKey};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use zeroize::Zeroizing;

/// Writes a key, and sees to it that it leaves.
pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), key: &RecordKey) -> io::Result<()> {
    let datagram = key.to_datagram();
    // All of it has room at once, so that no shorter copy is left behind.
    let mut frame = Zeroizing::new(Vec::with_capacity(1 + MAX_DATAGRAM_LEN));
    frame.push(u8::try_from(datagram.len()).map_err(io::Error::other)?);
    frame.extend_from_slice(&datagram);
    to.write_all(&frame).await?;
    to.flush().await
}

/// Reads a key; `None` where the channel has ended.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<RecordKey>> {
    let mut length = [0];
    if from.read(&mut length).await? == 0 {
        return Ok(None);
    }
    let mut buffer = Zeroizing::new([0; MAX_DATAGRAM_LEN]);
    let datagram = buffer.get_mut(..usize::from(length[0]));
    let datagram = datagram.ok_or(io::ErrorKind::InvalidData)?;
    from.read_exact(datagram).await?;
    let key = RecordKey::from_datagram(datagram);
    let key = key.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some(key))
}

#[cfg(test)]
mod tests {
    use tandem_record_key::{Direction, IV_LEN, Suite};

    use super::*;

    fn key(suite: Suite) -> RecordKey {
        let key = vec![3; suite.key_len()];
        RecordKey::new(Direction::FromServer, suite, [1; 32], &[2; IV_LEN], &key)
            .expect("the suite's length")
    }

    #[tokio::test]
    async fn keys_arrive_as_they_were_sent() {
        let mut bytes = Vec::new();
        for suite in Suite::ALL {
            write(&mut bytes, &key(suite)).await.expect("it is memory");
        }
        let mut rest = &bytes[..];
        for suite in Suite::ALL {
            let read = read(&mut rest).await.expect("a key").expect("one more");
            assert_eq!(*read.to_datagram(), *key(suite).to_datagram());
        }
        assert!(read(&mut rest).await.expect("the end").is_none());
    }

    #[tokio::test]
    async fn what_is_cut_too_long_or_no_key_is_refused() {
        let mut whole = Vec::new();
        let written = write(&mut whole, &key(Suite::Aes256Gcm)).await;
        written.expect("it is memory");
        for end in 1..whole.len() {
            assert!(read(&mut &whole[..end]).await.is_err(), "{end}");
        }
        for (at, value) in [(0, 255), (0, 64), (0, 0), (1, 9)] {
            let mut changed = whole.clone();
            changed[at] = value;
            assert!(read(&mut &changed[..]).await.is_err(), "{at}: {value}");
        }
    }
}
