//! What lies between HTTP and TCP: TLS, or nothing.
//!
//! Is not: a socket; bytes come in and go out by the caller.

use std::io::{self, Read, Write as _};

use rustls::client::ClientConnection;

/// How much is read at a time without TLS.
const PIECE: usize = 16_384;

/// One connection's.
#[derive(Debug)]
pub(crate) enum Security {
    /// TLS.
    Tls(Box<ClientConnection>),
    /// Nothing: bytes pass as they are.
    Nothing(Clear),
}

/// Bytes on their way, both ways.
#[derive(Debug, Default)]
pub(crate) struct Clear {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    has_ended: bool,
}

impl Security {
    /// The TLS connection, where there is one.
    pub(crate) fn tls(&self) -> Option<&ClientConnection> {
        match self {
            Self::Tls(tls) => Some(tls),
            Self::Nothing(_) => None,
        }
    }

    /// Whether the handshake is under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether there are bytes for TCP.
    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Tls(tls) => tls.wants_write(),
            Self::Nothing(clear) => !clear.outgoing.is_empty(),
        }
    }

    /// Moves bytes for TCP to the end of `pending`; how many.
    pub(crate) fn collect(&mut self, pending: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Tls(tls) => tls.write_tls(pending),
            Self::Nothing(clear) => {
                let length = clear.outgoing.len();
                pending.append(&mut clear.outgoing);
                Ok(length)
            }
        }
    }

    /// Takes bytes that HTTP sends.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tls(tls) => tls.writer().write_all(bytes),
            Self::Nothing(clear) => {
                clear.outgoing.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Reads what has come by TCP; 0: the other side has closed.
    pub(crate) fn read_from(&mut self, tcp: &mut impl Read) -> io::Result<usize> {
        match self {
            Self::Tls(tls) => tls.read_tls(tcp),
            Self::Nothing(clear) => {
                let length = clear.incoming.len();
                clear.incoming.resize(length + PIECE, 0);
                let read = tcp.read(&mut clear.incoming[length..]);
                let came = read.as_ref().map_or(0, |came| *came);
                clear.incoming.truncate(length + came);
                clear.has_ended |= matches!(read, Ok(0));
                read
            }
        }
    }

    /// Works off what was read.
    pub(crate) fn process(&mut self) -> Result<(), rustls::Error> {
        match self {
            Self::Tls(tls) => tls.process_new_packets().map(drop),
            Self::Nothing(_) => Ok(()),
        }
    }

    /// Hands out what HTTP receives; 0: the other side has ended.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tls(tls) => tls.reader().read(buffer),
            Self::Nothing(clear) if clear.incoming.is_empty() => match clear.has_ended {
                true => Ok(0),
                false => Err(io::ErrorKind::WouldBlock.into()),
            },
            Self::Nothing(clear) => {
                let length = clear.incoming.len().min(buffer.len());
                buffer[..length].copy_from_slice(&clear.incoming[..length]);
                clear.incoming.drain(..length);
                Ok(length)
            }
        }
    }

    /// Says that nothing more is sent, where TLS has a word for it.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Tls(tls) => tls.send_close_notify(),
            Self::Nothing(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_bytes_pass_as_they_are() {
        let mut security = Security::Nothing(Clear::default());
        assert!(!security.is_handshaking() && !security.wants_write());
        security.write(b"question").unwrap();
        let mut pending = b"a ".to_vec();
        assert_eq!(security.collect(&mut pending).unwrap(), 8);
        assert_eq!(
            (pending.as_slice(), security.wants_write()),
            (&b"a question"[..], false)
        );
        let mut buffer = [0; 4];
        let empty = security.read(&mut buffer).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(security.read_from(&mut &b"answer"[..]).unwrap(), 6);
        assert_eq!(security.read(&mut buffer).unwrap(), 4);
        assert_eq!(security.read_from(&mut &b""[..]).unwrap(), 0);
        assert_eq!(
            (security.read(&mut buffer).unwrap(), &buffer[..2]),
            (2, &b"er"[..])
        );
        assert_eq!(security.read(&mut buffer).unwrap(), 0);
    }
}
