//! Which handshake keys of TLS 1.3 leave the program, and how: a line of OpenSSL's key log comes
//! in, one direction's record key and IV go to the proxy's socket.
//!
//! Is not: how the line is come by (`key_log`), what follows from it (`tandem-key-log`), nor the
//! datagram (`tandem-record-key`).
//!
//! Invariants:
//! - A server releases the key that it writes with, and no other; a client releases both.
//! - A client's keys name both randoms of their connection: its proxy hands one over before it has
//!   opened anything. A server's are proved by opening its flight, and name the client's random.
//! - A traffic secret, from which Finished follows, goes nowhere, and no line about another secret
//!   is looked into; copies are overwritten.
//! - The program does not wait: a socket that does not take a key at once does not get it.

#![forbid(unsafe_code)]

use std::path::Path;
use std::{fmt, io};

use tandem_key_log::HandshakeSecret;
use tandem_record_key::{Direction, RecordKey, SERVER_RANDOM_LEN, Suite};

use crate::system;

/// Which end of its connections the program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// What the program's library knows of a connection during its handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handshake {
    pub(crate) end: End,
    pub(crate) suite: Suite,
    pub(crate) server_random: [u8; SERVER_RANDOM_LEN],
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
pub(crate) fn release(socket: &Path, handshake: &Handshake, line: &[u8]) -> Option<Outcome> {
    let key = key(handshake, line)?;
    Some(match hand_over(socket, &key) {
        Ok(()) => Outcome::Handed(key.direction()),
        Err(error) => Outcome::NotTaken(error),
    })
}

fn hand_over(socket: &Path, key: &RecordKey) -> io::Result<()> {
    // One for each key: a program that forks, or closes what it did not open, has none of ours.
    let sender = system::datagram_socket()?;
    sender.send_to(&key.to_datagram(), socket).map(drop)
}

/// The record key that follows from a line and that this end may release.
fn key(handshake: &Handshake, line: &[u8]) -> Option<RecordKey> {
    let secret = HandshakeSecret::of_line(line)?;
    match (secret.direction(), handshake.end) {
        (Direction::FromServer, End::Server) => secret.record_key(handshake.suite),
        (Direction::FromServer | Direction::FromClient, End::Client) => {
            let key = secret.record_key(handshake.suite)?;
            Some(key.with_server_random(handshake.server_random))
        }
        (Direction::FromClient, End::Server) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// RFC 8448, section 3.
    const RANDOM: &str = "cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7";
    const SERVER: &str = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38";
    const CLIENT: &str = "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21";

    fn of(end: End) -> Handshake {
        Handshake {
            end,
            suite: Suite::Aes128Gcm,
            server_random: [7; SERVER_RANDOM_LEN],
        }
    }

    fn line(label: &str, secret: &str) -> Vec<u8> {
        format!("{label} {RANDOM} {secret}").into_bytes()
    }

    fn server_line() -> Vec<u8> {
        line("SERVER_HANDSHAKE_TRAFFIC_SECRET", SERVER)
    }

    fn client_line() -> Vec<u8> {
        line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", CLIENT)
    }

    #[test]
    fn a_server_releases_what_it_writes_with_and_a_client_both() {
        let leaves = |end, line: &[u8]| key(&of(end), line).is_some();
        assert!(leaves(End::Server, &server_line()));
        assert!(!leaves(End::Server, &client_line()));
        assert!(leaves(End::Client, &server_line()));
        assert!(leaves(End::Client, &client_line()));
    }

    #[test]
    fn a_client_s_keys_name_the_server_s_random_too() {
        let named = |end, line: &[u8]| {
            let key = key(&of(end), line).expect("it leaves");
            key.server_random().copied()
        };
        assert_eq!(named(End::Client, &server_line()), Some([7; 32]));
        assert_eq!(named(End::Client, &client_line()), Some([7; 32]));
        assert_eq!(named(End::Server, &server_line()), None);
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
                let found = key(&of(end), &line(label, SERVER));
                assert!(found.is_none(), "{label}");
            }
        }
    }

    #[test]
    fn a_socket_that_is_not_there_or_full_does_not_stop_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let try_it = || release(&path, &of(End::Server), &server_line());
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
