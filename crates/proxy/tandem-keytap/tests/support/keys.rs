//! The socket of a proxy that wants handshake keys, and records opened with what came by it.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;

use tandem_record_key::{Direction, RecordKey};
use tandem_seal::Opener;
use tandem_wire::tls::{ContentType, Records};

use super::{Preload, program};

/// See the module.
#[derive(Debug)]
pub(crate) struct Keys {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        let socket = UnixDatagram::bind(folder.path().join("keys")).expect("a socket");
        socket.set_nonblocking(true).expect("a socket can be");
        Self { socket, folder }
    }

    /// A file for the test's own use.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program with the library, which is told of the socket.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = program(name, Preload::Yes);
        command.env("TANDEM_KEYTAP_SOCKET", self.file("keys"));
        command
    }

    /// What has come since the last time. A program hands its keys over before it writes anything
    /// with them.
    pub(crate) fn datagrams(&self) -> Vec<Vec<u8>> {
        let mut buffer = [0; 1 << 10];
        std::iter::from_fn(|| {
            let length = self.socket.recv(&mut buffer).ok()?;
            Some(buffer[..length].to_vec())
        })
        .collect()
    }

    /// The same as keys.
    #[track_caller]
    pub(crate) fn come(&self) -> Vec<RecordKey> {
        let datagrams = self.datagrams();
        let keys = datagrams
            .iter()
            .map(|bytes| RecordKey::from_datagram(bytes));
        keys.map(|key| key.expect("a datagram of this version"))
            .collect()
    }

    /// The key of the connection with this client random, out of what has come.
    #[track_caller]
    pub(crate) fn of(&self, client_random: &[u8]) -> RecordKey {
        let mut come = self.come().into_iter();
        let key = come.find(|key| key.client_random() == client_random);
        key.expect("the server has handed it over")
    }
}

/// The types of the messages that a key opens in the stream of its direction, from the first
/// encrypted record on.
#[track_caller]
pub(crate) fn opens(key: &RecordKey, stream: &[u8]) -> Vec<u8> {
    let mut opener = Opener::new(key);
    let records = Records::new(stream).map_while(Result::ok);
    let encrypted =
        records.filter(|record| record.header.content_type == ContentType::ApplicationData);
    let mut plaintext = Vec::new();
    for record in encrypted {
        let fragment = record.fragment_range();
        match opener.open(&stream[fragment.start - 5..fragment.end]) {
            Some(opened) if opened.content_type == ContentType::Handshake => {
                plaintext.extend(opened.content);
            }
            // Application data has another key.
            Some(_) | None => break,
        }
    }
    let mut rest = &plaintext[..];
    let mut types = Vec::new();
    while let Some((&[kind, high, middle, low], body)) = rest.split_first_chunk() {
        types.push(kind);
        rest = &body[u32::from_be_bytes([0, high, middle, low]) as usize..];
    }
    types
}

/// The only key of this direction.
#[track_caller]
pub(crate) fn only(keys: &[RecordKey], direction: Direction) -> &RecordKey {
    let mut found = keys.iter().filter(|key| key.direction() == direction);
    let key = found.next().expect("one of this direction");
    assert!(found.next().is_none(), "and no other");
    key
}
