//! Chromium and Firefox without a window: what they need, and how they are told to visit a site.
//!
//! Is not: a judgement of what they say. Both verify the certificate and the name.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use crate::installed::Question;

/// The script that drives them. Its head says what it is told and what it prints.
pub const SCRIPT: &str = include_str!("../programs/browser.py");

/// What a line of [`SCRIPT`] opens with that gives the browser's own words about a connection's
/// security.
pub const SECURE: &str = "secure ";

/// A browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Browser {
    /// Of BoringSSL.
    Chromium,
    /// Of NSS.
    Firefox,
}

impl Browser {
    /// What tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chromium => "Chromium",
            Self::Firefox => "Firefox ESR",
        }
    }

    /// What must be installed; the first is the browser itself.
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Chromium => &["chromium", "certutil", "setpriv", "python3", "bash"],
            Self::Firefox => &["firefox-esr", "certutil", "setpriv", "python3"],
        }
    }

    /// How to find out which version is installed.
    pub fn question(self) -> Question {
        Question::new(self.needs()[0], &["--version"])
    }

    /// A call of the script, [`SCRIPT`] in a file: the browser takes each name for `address` and
    /// keeps its profile in `folder`. The arguments from PORT on are the caller's.
    pub fn command(self, script: &Path, folder: &Path, address: IpAddr) -> Command {
        let kind = match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
        };
        let mut command = Command::new("python3");
        command
            .arg(script)
            .args([kind, self.needs()[0]])
            .arg(folder)
            .arg(address.to_string());
        command
    }
}
