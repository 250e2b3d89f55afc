//! The key that both machines share, and what the channel between them is made of.
//!
//! Is not: what is said on the channel (`frame`). Invariant: the digits are never printed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tandem_channel::{ChannelError, ChannelKey, End, KeyExchange, KeyName, Protocol};
use tandem_link::inband::Key;
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// What the channel is for. Keys are recorded with it today, and must stay secret.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: b"tandem-keys/1",
    key_exchange: KeyExchange::Hybrid,
};

/// How long a handshake of the channel may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Without a word, how long until the other machine is asked whether it is there, and how often.
const ASK_AFTER: u32 = 30;
const ASK_EACH: u32 = 10;
const ASK_TIMES: u32 = 3;

/// How long bytes may be without an answer, in milliseconds.
const UNANSWERED: u32 = 10_000;

/// The keys of both ends.
pub(crate) struct Pair {
    key: Key,
}

impl Pair {
    /// Out of a file that `tandem keygen` has made.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map(Zeroizing::new);
        let text = text.map_err(|error| Failure::file(path, error))?;
        tandem_channel::warn_if_exposed(path);
        let key = Key::from_hex(&text)
            .map_err(|why| Failure::Usage(format!("--key: {}: {why}", path.display())))?;
        Ok(Self { key })
    }

    /// What this end proves itself by.
    pub(crate) fn own(&self, end: End) -> Result<ChannelKey, Failure> {
        let key = ChannelKey::of_pair(self.key.bytes(), end);
        let key = key.map_err(|error| ChannelError::System {
            what: "TLS for keys",
            source: io::Error::other(error.to_string()),
        });
        Ok(key?)
    }

    /// What the other end proves itself by.
    pub(crate) fn name(&self, end: End) -> Result<KeyName, Failure> {
        Ok(self.own(end)?.name())
    }
}

/// Has the system find out when the other machine has gone.
pub(crate) fn watch(stream: &TcpStream) -> io::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &ASK_AFTER)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &ASK_EACH)?;
    setsockopt(stream, sockopt::TcpKeepCount, &ASK_TIMES)?;
    setsockopt(stream, sockopt::TcpUserTimeout, &UNANSWERED)?;
    Ok(())
}
