//! Which handshake keys of TLS 1.3 leave the program, and how: a line of OpenSSL's key log comes
//! in, one direction's record key and IV go to the proxy's socket.
//!
//! Is not: how the line is come by (`key_log`), nor the datagram (`tandem-record-key`).
//!
//! Invariants:
//! - A server releases the key that it writes with, and no other; a client releases both.
//! - A traffic secret, from which Finished follows, goes nowhere, and no line about another secret
//!   is looked into; copies are overwritten.
//! - The program does not wait: a socket that does not take a key at once does not get it.

#![forbid(unsafe_code)]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::{fmt, io};

use hkdf::Hkdf;
use sha2::{Sha256, Sha384};
use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, IV_LEN, MAX_KEY_LEN, RecordKey, Suite};
use zeroize::Zeroizing;

/// Length of the longest secret in bytes: SHA-384's.
const MAX_SECRET_LEN: usize = 48;

/// Which end of its connections the program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// What became of a key that could have left.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is in the socket's queue.
    Handed(Direction),
    /// The proxy is not there, or has enough waiting.
    NotTaken(io::Error),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handed(Direction::FromClient) => f.write_str("released the client's key"),
            Self::Handed(Direction::FromServer) => f.write_str("released the server's key"),
            Self::NotTaken(error) => write!(f, "a key was not taken: {error}"),
        }
    }
}

/// Hands the key over that follows from a line of the key log, if it is one that leaves.
pub(crate) fn release(socket: &Path, end: End, suite: Suite, line: &[u8]) -> Option<Outcome> {
    let key = key(end, suite, line)?;
    Some(match hand_over(socket, &key) {
        Ok(()) => Outcome::Handed(key.direction()),
        Err(error) => Outcome::NotTaken(error),
    })
}

fn hand_over(socket: &Path, key: &RecordKey) -> io::Result<()> {
    // One for each key: a program that forks, or closes what it did not open, has none of ours.
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to(&key.to_datagram(), socket).map(drop)
}

/// The record key that follows from a line (RFC 9850: label, client random, secret) and that this
/// end may release.
fn key(end: End, suite: Suite, line: &[u8]) -> Option<RecordKey> {
    let mut words = line.split(|byte| *byte == b' ');
    let direction = match (words.next()?, end) {
        (b"SERVER_HANDSHAKE_TRAFFIC_SECRET", End::Server | End::Client) => Direction::FromServer,
        (b"CLIENT_HANDSHAKE_TRAFFIC_SECRET", End::Client) => Direction::FromClient,
        _ => return None,
    };
    let mut client_random = [0; CLIENT_RANDOM_LEN];
    if decode(words.next()?, &mut client_random)? != CLIENT_RANDOM_LEN {
        return None;
    }
    let mut secret = Zeroizing::new([0; MAX_SECRET_LEN]);
    let length = decode(words.next()?, &mut *secret)?;
    if words.next().is_some() || length != hash_len(suite) {
        return None;
    }
    let secret = &secret[..length];
    let mut key = Zeroizing::new([0; MAX_KEY_LEN]);
    let key = &mut key[..suite.key_len()];
    let mut iv = Zeroizing::new([0; IV_LEN]);
    expand_label(suite, secret, b"key", key)?;
    expand_label(suite, secret, b"iv", &mut *iv)?;
    RecordKey::new(direction, suite, client_random, &iv, key).ok()
}

/// Bytes from hexadecimal digits, into the beginning of `out`; how many.
fn decode(digits: &[u8], out: &mut [u8]) -> Option<usize> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > out.len() {
        return None;
    }
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
    }
    Some(pairs.len())
}

/// Length of the hash of a suite in bytes, which is that of its secrets.
const fn hash_len(suite: Suite) -> usize {
    match suite {
        Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => 32,
        Suite::Aes256Gcm => MAX_SECRET_LEN,
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], out: &mut [u8]) -> Option<()> {
    let label = [b"tls13 ", label].concat();
    let mut info = u16::try_from(out.len()).ok()?.to_be_bytes().to_vec();
    info.push(u8::try_from(label.len()).ok()?);
    info.extend(label);
    info.push(0);
    match suite {
        Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => {
            let secret = Hkdf::<Sha256>::from_prk(secret).ok()?;
            secret.expand(&info, out).ok()
        }
        Suite::Aes256Gcm => {
            let secret = Hkdf::<Sha384>::from_prk(secret).ok()?;
            secret.expand(&info, out).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8448, section 3.
    const RANDOM: &str = "cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7";
    const SERVER: &str = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38";
    const CLIENT: &str = "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21";

    fn line(label: &str, secret: &str) -> Vec<u8> {
        format!("{label} {RANDOM} {secret}").into_bytes()
    }

    fn server_line() -> Vec<u8> {
        line("SERVER_HANDSHAKE_TRAFFIC_SECRET", SERVER)
    }

    fn client_line() -> Vec<u8> {
        line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", CLIENT)
    }

    fn shown(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn key_and_iv_are_those_of_the_rfc() {
        let server = key(End::Server, Suite::Aes128Gcm, &server_line()).expect("its own");
        assert_eq!(server.direction(), Direction::FromServer);
        assert_eq!(shown(server.client_random()), RANDOM);
        assert_eq!(shown(server.key()), "3fce516009c21727d0f2e4e86ee403bc");
        assert_eq!(shown(server.iv()), "5d313eb2671276ee13000b30");
        let client = key(End::Client, Suite::Aes128Gcm, &client_line()).expect("its own");
        assert_eq!(client.direction(), Direction::FromClient);
        assert_eq!(shown(client.key()), "dbfaa693d1762c5b666af5d950258d01");
        assert_eq!(shown(client.iv()), "5bd3c71b836e0b76bb73265f");
    }

    #[test]
    fn a_server_releases_what_it_writes_with_and_a_client_both() {
        let leaves = |end, line: &[u8]| key(end, Suite::Aes128Gcm, line).is_some();
        assert!(leaves(End::Server, &server_line()));
        assert!(!leaves(End::Server, &client_line()));
        assert!(leaves(End::Client, &server_line()));
        assert!(leaves(End::Client, &client_line()));
    }

    #[test]
    fn no_other_secret_leaves() {
        for label in [
            "CLIENT_RANDOM",
            "CLIENT_EARLY_TRAFFIC_SECRET",
            "EARLY_EXPORTER_SECRET",
            "CLIENT_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0",
            "EXPORTER_SECRET",
            "ECH_SECRET",
            "SERVER_HANDSHAKE_TRAFFIC_SECRETS",
            "",
        ] {
            for end in [End::Client, End::Server] {
                let found = key(end, Suite::Aes128Gcm, &line(label, SERVER));
                assert!(found.is_none(), "{label}");
            }
        }
    }

    #[test]
    fn a_line_that_is_not_whole_or_of_another_suite_gives_no_key() {
        let line = server_line();
        for length in 0..line.len() {
            let cut = key(End::Server, Suite::Aes128Gcm, &line[..length]);
            assert!(cut.is_none(), "{length}");
        }
        for end in [&b" "[..], b" 00", b"00", b"0", b"x"] {
            let longer = [&line[..], end].concat();
            assert!(key(End::Server, Suite::Aes128Gcm, &longer).is_none());
        }
        assert!(key(End::Server, Suite::Aes256Gcm, &line).is_none());
    }

    #[test]
    fn a_socket_that_is_not_there_or_full_does_not_stop_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let try_it = || release(&path, End::Server, Suite::Aes128Gcm, &server_line());
        assert!(matches!(try_it(), Some(Outcome::NotTaken(_))));
        let proxy = UnixDatagram::bind(&path).expect("a socket");
        assert!(matches!(
            try_it(),
            Some(Outcome::Handed(Direction::FromServer))
        ));
        // The kernel holds a bounded number for a reader that does not come.
        let refused = (0..100_000).find_map(|_| match try_it() {
            Some(Outcome::NotTaken(error)) => Some(error.kind()),
            Some(Outcome::Handed(_)) | None => None,
        });
        assert_eq!(refused, Some(io::ErrorKind::WouldBlock));
        drop(proxy);
    }
}
