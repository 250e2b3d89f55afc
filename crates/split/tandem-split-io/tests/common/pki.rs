//! A certificate authority of the test's own, and certificates of many kinds, made by OpenSSL.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ran;

/// A directory with an authority and one site, `split.test`.
pub(crate) struct Pki {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    authority: PathBuf,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        let authority = at("ca.pem");
        ran(Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=Test CA",
            ])
            .args(["-addext", "keyUsage=critical,keyCertSign,digitalSignature"])
            .arg("-keyout")
            .arg(at("ca.key"))
            .arg("-out")
            .arg(&authority));
        let mut pki = Self {
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            authority,
            folder,
        };
        (pki.certificate, pki.key) = pki.issue("site", "rsa:2048", "DNS:split.test");
        pki
    }

    /// The authority's certificate.
    pub(crate) fn ca(&self) -> &str {
        self.authority.to_str().expect("a plain path")
    }

    /// A certificate and key: `algorithm` as `openssl req -newkey` reads it.
    pub(crate) fn issue(&self, name: &str, algorithm: &str, names: &str) -> (PathBuf, PathBuf) {
        let at = |ending: &str| self.folder.path().join(format!("{name}.{ending}"));
        let mut request = Command::new("openssl");
        request.args([
            "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=site", "-newkey", algorithm,
        ]);
        if algorithm == "ec" {
            request.args(["-pkeyopt", "ec_paramgen_curve:P-256"]);
        }
        request
            .args(["-addext", &format!("subjectAltName={names}")])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-CA")
            .arg(&self.authority)
            .arg("-CAkey")
            .arg(self.folder.path().join("ca.key"))
            .arg("-keyout")
            .arg(at("key"))
            .arg("-out")
            .arg(at("pem"));
        ran(&mut request);
        (at("pem"), at("key"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}
