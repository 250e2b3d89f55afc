//! What crossed the link in one trial of each arm, packet by packet: the format of
//! `waterfall-*.json`. How it is drawn is in `plots`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::error::ReportError;

/// How such a file's name begins; it ends in `.json`.
pub(crate) const PREFIX: &str = "waterfall-";

/// One handshake in several arms, to be drawn side by side on one scale of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waterfall {
    /// The experiment's name.
    pub experiment: String,
    /// The link's name.
    pub link: String,
    /// The endpoints' name.
    pub endpoints: String,
    /// One trial of each, in the order to draw them.
    pub arms: Vec<WaterfallArm>,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaterfallArm {
    /// What stood in between.
    pub arm: Arm,
    /// When the client had the first byte of application data, seconds after its first SYN came to
    /// the link.
    #[serde(default)]
    pub first_byte_seconds: Option<f64>,
    /// In the order in which they came to the link.
    pub packets: Vec<WaterfallPacket>,
}

/// An IP packet on the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaterfallPacket {
    /// When it came to the link, seconds after the client's first SYN did. It may wait there for
    /// others.
    pub at_seconds: f64,
    /// When it left the link at the far end; `None` if it was lost.
    pub arrived_seconds: Option<f64>,
    /// How long the link took to send it, seconds; `None` where that is not known.
    #[serde(default)]
    pub air_seconds: Option<f64>,
    /// Whose it is.
    pub direction: WaterfallDirection,
    /// Of IP.
    pub bytes: u64,
    /// What it carries, in a few words.
    pub label: String,
}

/// In which direction a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaterfallDirection {
    /// From the client.
    Up,
    /// From the server.
    Down,
}

impl Waterfall {
    /// Writes it into a directory, under a name that a report finds.
    ///
    /// # Errors
    /// `Io`.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        let path = directory.join(format!("{PREFIX}{}.json", self.name()));
        let write = || ReportError::io(format!("write {}", path.display()));
        let mut text = serde_json::to_string_pretty(self).map_err(|error| write()(error.into()))?;
        text.push('\n');
        fs::write(&path, text).map_err(write())?;
        Ok(path)
    }

    /// Of letters, digits and hyphens only: it becomes part of a file's name.
    pub(crate) fn name(&self) -> String {
        file_name([&self.experiment, &self.link, &self.endpoints])
    }
}

/// Names joined to one of letters, digits and hyphens only.
pub(crate) fn file_name(parts: [&str; 3]) -> String {
    parts
        .map(|part| {
            part.chars()
                .map(|character| {
                    if character.is_ascii_alphanumeric() {
                        character
                    } else {
                        '-'
                    }
                })
                .collect::<String>()
        })
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_out_of_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let waterfall = Waterfall {
            experiment: "../x".to_owned(),
            link: "a/b".to_owned(),
            endpoints: "ü".to_owned(),
            arms: Vec::new(),
        };
        let path = waterfall.write(directory.path()).unwrap();
        assert_eq!(path, directory.path().join("waterfall----x-a-b--.json"));
        let read: Waterfall = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(read, waterfall);
    }
}
