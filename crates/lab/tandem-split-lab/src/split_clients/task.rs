//! What a client program is asked, what it says came of it, and what it needs for that.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tandem_testbed::LabError;
use tandem_testbed::browser;

use super::job::Job;

/// The programs of the lab's own, as they are in this repository.
const SOURCES: [(&str, &str); 5] = [
    ("client.go", include_str!("../../programs/split/client.go")),
    (
        "Client.java",
        include_str!("../../programs/split/Client.java"),
    ),
    ("client.py", include_str!("../../programs/split/client.py")),
    ("client.js", include_str!("../../programs/split/client.js")),
    ("browser.py", browser::SCRIPT),
];

/// One request, or some alike.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) at: SocketAddr,
    /// The name that the client asks for.
    pub(super) host: &'static str,
    pub(super) job: Job,
    /// What it asks for there.
    pub(super) path: String,
    pub(super) limit: Duration,
    pub(super) then: Then,
}

/// What a program that knows no HTTP says with its last request. The others do as they are used to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// That the connection is to end, so that the program ends, too.
    Close,
    /// Nothing: it is to be served no whole answer.
    Stay,
}

/// An answer that a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// Whether the client takes it for whole.
    pub(super) is_whole: bool,
    pub(super) status: u16,
    pub(super) len: usize,
    pub(super) sha256: String,
}

/// What a client says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) answers: Vec<Answer>,
    /// What a browser says of the connection's security.
    pub(super) security: Option<String>,
    /// Its words about what went wrong.
    pub(super) words: String,
}

/// Where the programs are, and the authority that they trust.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    pub(super) folder: PathBuf,
    pub(super) authority: PathBuf,
}

impl Tools {
    /// Writes the programs into `folder`.
    pub(super) fn prepare(folder: &Path, authority: &Path, hosts: &str) -> Result<Self, LabError> {
        let write = |name: &str, text: &str| {
            fs::write(folder.join(name), text).map_err(LabError::io(format!("write {name}")))
        };
        SOURCES
            .iter()
            .try_for_each(|(name, text)| write(name, text))?;
        write("hosts", hosts)?;
        Ok(Self {
            folder: folder.to_owned(),
            authority: authority.to_owned(),
        })
    }
}

impl Answer {
    pub(super) fn of(status: u16, bytes: &[u8], is_whole: bool) -> Self {
        Self {
            is_whole,
            status,
            len: bytes.len(),
            sha256: super::files::digits(bytes),
        }
    }
}
