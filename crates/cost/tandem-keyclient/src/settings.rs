//! Which key servers there are, as whom to ask them, and how long to wait.
//!
//! Is not: which key is meant; a certificate says that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tandem_channel::{ChannelKey, KeyName};

use crate::error::ClientError;

/// A key server.
#[derive(Clone, Debug)]
pub struct KeyServer {
    /// `HOST:PORT`.
    pub address: String,
    /// Its channel key.
    pub key: KeyName,
}

/// How a client asks.
#[derive(Clone, Debug)]
pub struct Options {
    /// This end's channel key.
    pub key: ChannelKey,
    /// Those to ask, the preferred one first.
    pub servers: Vec<KeyServer>,
    /// After so long without an answer the next key server is asked, too. 100 ms by default: many
    /// times what a signature takes, and little to whoever waits.
    pub patience: Duration,
    /// After so long nobody waits any more. 2 s by default.
    pub deadline: Duration,
    /// Handshakes that may wait at a time; further ones fail. 128 by default, which is below the
    /// number of threads that a tokio runtime has for those who wait.
    pub max_waiting: usize,
    /// Connections to each key server. 2 by default: a lost segment on one does not hold up what
    /// goes over the other.
    pub connections: usize,
}

impl Options {
    /// With the defaults.
    #[must_use]
    pub fn new(key: ChannelKey, servers: Vec<KeyServer>) -> Self {
        Self {
            key,
            servers,
            patience: Duration::from_millis(100),
            deadline: Duration::from_secs(2),
            max_waiting: 128,
            connections: 2,
        }
    }

    /// Those of a settings file (`docs/keyserver.md`).
    ///
    /// # Errors
    /// It cannot be read, or does not hold what it must.
    pub fn of_file(path: &Path) -> Result<Self, ClientError> {
        let text = std::fs::read_to_string(path).map_err(|source| ClientError::File {
            path: path.to_owned(),
            source,
        })?;
        let wrong = |reason: String| ClientError::Content {
            path: path.to_owned(),
            reason,
        };
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let mut servers = Vec::new();
        for table in file.server {
            let ServerTable { address, key } = table;
            let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            });
            if !has_port {
                return Err(wrong(format!("address {address:?}: give HOST:PORT")));
            }
            let key = key.parse();
            let key = key.map_err(|reason: String| wrong(format!("{address}: {reason}")))?;
            servers.push(KeyServer { address, key });
        }
        if servers.is_empty() {
            return Err(wrong("names no [[server]]".to_owned()));
        }
        // No key server knows one that is made here.
        if matches!(file.channel_key.try_exists(), Ok(false)) {
            let reason = "there is no channel key; make it with tandem keyserver --channel-key";
            return Err(ClientError::Content {
                path: file.channel_key,
                reason: reason.to_owned(),
            });
        }
        let mut options = Self::new(ChannelKey::kept_in(&file.channel_key)?, servers);
        let bounded = |name: &str, millis: u64| match millis {
            1..=60_000 => Ok(Duration::from_millis(millis)),
            _ => Err(wrong(format!("{name}: give milliseconds, 1 to 60000"))),
        };
        if let Some(millis) = file.patience_ms {
            options.patience = bounded("patience-ms", millis)?;
        }
        if let Some(millis) = file.deadline_ms {
            options.deadline = bounded("deadline-ms", millis)?;
        }
        Ok(options)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    channel_key: PathBuf,
    patience_ms: Option<u64>,
    deadline_ms: Option<u64>,
    #[serde(default)]
    server: Vec<ServerTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ServerTable {
    address: String,
    key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settings_file_names_key_servers_and_says_what_is_wrong() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keyclient.toml");
        let channel_key = folder.path().join("web.key");
        ChannelKey::kept_in(&channel_key).expect("made");
        let head = format!("channel-key = {channel_key:?}\n");
        let read = |rest: &str| {
            std::fs::write(&path, format!("{head}{rest}")).expect("ours");
            Options::of_file(&path).map_err(|error| error.to_string())
        };
        let key = "ab".repeat(32);
        let server = format!("[[server]]\naddress = \"[::1]:7447\"\nkey = \"{key}\"\n");
        let options = read(&format!("deadline-ms = 500\n{server}{server}")).expect("right");
        assert_eq!(options.servers.len(), 2);
        assert_eq!(options.deadline, Duration::from_millis(500));
        for (rest, says) in [
            ("", "names no [[server]]"),
            ("deadline = 3\n", "unknown field"),
            (&server.replace(":7447", ""), "HOST:PORT"),
            (&server.replace("ab", "xy"), "64 hexadecimal digits"),
            (&format!("patience-ms = 0\n{server}"), "patience-ms"),
        ] {
            let error = read(rest).expect_err("wrong");
            assert!(error.contains(says), "{error}");
        }
        std::fs::remove_file(&channel_key).expect("ours");
        let error = read(&server).expect_err("no key");
        assert!(error.contains("there is no channel key"), "{error}");
        assert!(!channel_key.exists(), "none is made");
    }
}
