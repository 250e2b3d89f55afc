//! An authority that lives as long as the demonstration, and a certificate for its one name, made
//! by the `openssl` program.
//!
//! Is not: an authority for anything else. Invariant: its key is gone as soon as it has signed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use data_encoding::BASE64;
use sha2::{Digest as _, Sha256};

use crate::error::DemoError;

/// Days that a demonstration may last.
const DAYS: &str = "7";

/// See above.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) authority: PathBuf,
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// SHA-256 of the public key (SubjectPublicKeyInfo), in Base64.
    pub(crate) key_digest: String,
}

impl Certificate {
    pub(crate) fn make(folder: &Path, name: &str) -> Result<Self, DemoError> {
        let authority = folder.join("ca.pem");
        let authority_key = folder.join("ca.key");
        let (chain, key) = (folder.join("site.pem"), folder.join("site.key"));
        openssl(
            request("/CN=Tandem demonstration")
                .args(["-addext", "keyUsage=critical,keyCertSign,digitalSignature"])
                .arg("-keyout")
                .arg(&authority_key)
                .arg("-out")
                .arg(&authority),
        )?;
        openssl(
            request(&format!("/CN={name}"))
                .args(["-addext", &format!("subjectAltName=DNS:{name}")])
                .args(["-addext", "basicConstraints=critical,CA:FALSE"])
                .args(["-addext", "extendedKeyUsage=serverAuth"])
                .arg("-CA")
                .arg(&authority)
                .arg("-CAkey")
                .arg(&authority_key)
                .arg("-keyout")
                .arg(&key)
                .arg("-out")
                .arg(&chain),
        )?;
        fs::remove_file(&authority_key).map_err(DemoError::Folder)?;
        let public = openssl(
            Command::new("openssl")
                .args(["pkey", "-pubout", "-outform", "DER", "-in"])
                .arg(&key),
        )?;
        Ok(Self {
            authority,
            chain,
            key,
            key_digest: BASE64.encode(&Sha256::digest(&public)),
        })
    }
}

fn request(subject: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args([
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", DAYS, "-subj", subject,
    ]);
    command
}

fn openssl(command: &mut Command) -> Result<Vec<u8>, DemoError> {
    let out = command
        .stdin(Stdio::null())
        .output()
        .map_err(DemoError::Openssl)?;
    if out.status.success() {
        Ok(out.stdout)
    } else {
        let words = String::from_utf8_lossy(&out.stderr);
        let last = words.lines().last().unwrap_or("it said nothing");
        Err(DemoError::Certificate(last.to_owned()))
    }
}
