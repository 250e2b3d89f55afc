//! The audit log: a line of JSON for each signature, and for refusals.
//!
//! Is not: the program's log, which names no client's use of a key.
//!
//! Invariants: a signature's line is written before the signature leaves. A line that could not be
//! written whole is taken back. Refusals, which a hostile client can cause at will, have one line a
//! second for each client and reason, with their number since the one before.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tandem_channel::KeyName;
use tandem_keyserver::{KeyId, Refusal, Request};

use crate::error::KeyServerError;
use crate::settings::PeerId;

/// Between two lines about the same client's refusals for the same reason.
const REFUSALS_EVERY: Duration = Duration::from_secs(1);

/// Who asked, and what for.
pub(crate) struct Asked<'a> {
    pub(crate) peer: &'a str,
    pub(crate) peer_id: PeerId,
    /// The settings' name of the key, if there is such a key.
    pub(crate) key: Option<&'a str>,
    pub(crate) request: &'a Request,
}

#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since 1970, in UTC.
    time: f64,
    outcome: &'a str,
    peer: &'a str,
    peer_key: String,
    key: Option<&'a str>,
    key_id: String,
    tls: &'a str,
    scheme: &'a str,
    /// SHA-256 of the signed message.
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusals: Option<u64>,
}

/// Refusals of one kind.
struct Repeats {
    told_at: Duration,
    untold: u64,
}

/// An audit log that is open.
pub(crate) struct Audit {
    path: PathBuf,
    file: File,
    repeats: BTreeMap<(PeerId, Refusal), Repeats>,
}

impl Audit {
    /// Appends to this file, which is made for its owner and group.
    pub(crate) fn open(path: &Path) -> Result<Self, KeyServerError> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o640).open(path);
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(KeyServerError::file(path))?,
            repeats: BTreeMap::new(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes a signature.
    pub(crate) fn signed(&mut self, asked: &Asked<'_>) -> io::Result<()> {
        self.write(asked, "signed", None)
    }

    /// Notes a refusal. `now` counts from the start of the program.
    pub(crate) fn refused(
        &mut self,
        asked: &Asked<'_>,
        refusal: Refusal,
        now: Duration,
    ) -> io::Result<()> {
        let number = match self.repeats.get_mut(&(asked.peer_id, refusal)) {
            Some(repeats) if now < repeats.told_at + REFUSALS_EVERY => {
                repeats.untold += 1;
                return Ok(());
            }
            Some(repeats) => {
                repeats.told_at = now;
                std::mem::take(&mut repeats.untold) + 1
            }
            None => {
                let repeats = Repeats {
                    told_at: now,
                    untold: 0,
                };
                self.repeats.insert((asked.peer_id, refusal), repeats);
                1
            }
        };
        self.write(asked, refusal.name(), Some(number))
    }

    fn write(&mut self, asked: &Asked<'_>, outcome: &str, refusals: Option<u64>) -> io::Result<()> {
        let Request {
            key,
            content,
            scheme,
            ..
        } = asked.request;
        let digest: [u8; 32] = Sha256::digest(content.message()).into();
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let line = Line {
            time: time.unwrap_or_default().as_millis() as f64 / 1_000.0,
            outcome,
            peer: asked.peer,
            peer_key: KeyName::from_bytes(asked.peer_id).to_string(),
            key: asked.key,
            key_id: key.to_string(),
            tls: content.version().name(),
            scheme: scheme.name(),
            message: KeyId::from_bytes(digest).to_string(),
            refusals,
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let length = self.file.metadata()?.len();
        self.file.write_all(&text).inspect_err(|_| {
            // The next line is to begin at the start of a line. A device has no length.
            let _ = self.file.set_len(length);
        })
    }
}

#[cfg(test)]
mod tests {
    use tandem_keyserver::{Content, RequestId, Scheme};

    use super::*;

    #[test]
    fn a_flood_of_refusals_is_a_line_a_second_with_their_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let mut audit = Audit::open(&path).expect("opened");
        let request = Request {
            id: RequestId(1),
            key: KeyId::from_bytes([1; 32]),
            scheme: Scheme::Ed25519,
            content: Content::Transcript32([2; 32]),
        };
        let asked = Asked {
            peer: "web",
            peer_id: [3; 32],
            key: None,
            request: &request,
        };
        for milli in 0..1_500 {
            let now = Duration::from_millis(milli);
            audit.refused(&asked, Refusal::Rate, now).expect("written");
        }
        audit.signed(&asked).expect("written");
        let text = std::fs::read_to_string(&path).expect("written");
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let told: Vec<_> = lines
            .iter()
            .map(|line| (line["outcome"].as_str(), line["refusals"].as_u64()))
            .collect();
        let rate = Some("rate");
        let expected = [(rate, Some(1)), (rate, Some(1_000)), (Some("signed"), None)];
        assert_eq!(told, expected);
    }
}
