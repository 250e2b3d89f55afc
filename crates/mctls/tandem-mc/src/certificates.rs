//! An authority and certificates of servers and middleboxes, made by the `openssl` program: for the
//! demonstration and for tests.
//!
//! Is not: an authority for anything else. Invariant: nothing is written outside its folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::McError;
use crate::settings::USAGE;

/// Days for which they are good.
const DAYS: &str = "7";

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// A server.
    Server,
    /// A middlebox.
    Middlebox,
}

/// A certificate and its key, as files of PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// An authority in a folder.
#[derive(Clone, Debug)]
pub struct Authority {
    folder: PathBuf,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// `openssl` is not installed, or refuses.
    pub fn make(folder: &Path) -> Result<Self, McError> {
        let extensions = [
            "keyUsage=critical,keyCertSign",
            "basicConstraints=critical,CA:TRUE",
        ];
        openssl(folder, "ca", &extensions, &[])?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Its own certificate, which clients and servers trust.
    #[must_use]
    pub fn cert(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Issues a certificate for a name, and for this machine's address.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn issue(&self, name: &str, what: For) -> Result<Files, McError> {
        let names = format!("subjectAltName=DNS:{name},IP:127.0.0.1");
        let usage = match what {
            For::Server => "extendedKeyUsage=serverAuth".to_owned(),
            For::Middlebox => format!("extendedKeyUsage={USAGE}"),
        };
        let extensions = [names.as_str(), &usage, "basicConstraints=critical,CA:FALSE"];
        let by = ["-CA", "ca.pem", "-CAkey", "ca.key"];
        openssl(&self.folder, name, &extensions, &by)?;
        Ok(Files {
            cert: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        })
    }
}

fn openssl(folder: &Path, name: &str, extensions: &[&str], by: &[&str]) -> Result<(), McError> {
    let mut command = Command::new("openssl");
    command.current_dir(folder).stdin(Stdio::null());
    command.args(["req", "-x509", "-nodes", "-days", DAYS, "-newkey", "ec"]);
    command.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj"]);
    command.arg(format!("/CN={name}")).args(by);
    for extension in extensions {
        command.args(["-addext", extension]);
    }
    command.args([
        "-keyout",
        &format!("{name}.key"),
        "-out",
        &format!("{name}.pem"),
    ]);
    let output = command.output();
    let output = output.map_err(|error| McError::Openssl(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("it said nothing");
    Err(McError::Openssl(last.to_owned()))
}
