//! A test authority with a server and middleboxes, made by OpenSSL once for all tests of a run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Identity, MIDDLEBOX_USAGE_OID};

/// As many middleboxes as a test needs at most.
const MIDDLEBOXES: usize = 16;

pub(super) struct Pki {
    authority: CertificateDer<'static>,
    server: Issued,
    middleboxes: Vec<Issued>,
    /// For the name of the first middlebox, without the key usage of middleboxes.
    ordinary: Issued,
    /// For the first middlebox, with another key.
    renewed: Issued,
}

struct Issued {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Issued {
    fn identity(&self) -> Identity {
        Identity {
            chain: vec![self.certificate.clone()],
            key: self.key.clone_key(),
        }
    }
}

pub(super) fn pki() -> &'static Pki {
    static PKI: OnceLock<Pki> = OnceLock::new();
    PKI.get_or_init(Pki::new)
}

impl Pki {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let folder = folder.path();
        openssl(
            folder,
            "ca",
            &[
                "keyUsage=critical,keyCertSign",
                "basicConstraints=critical,CA:TRUE",
            ],
            &[],
        );
        let authority = CertificateDer::from_pem_file(folder.join("ca.pem")).expect("PEM");
        let issue = |name: &str, usage: &str| {
            let names = format!("subjectAltName=DNS:{name}.test");
            let usage = format!("extendedKeyUsage={usage}");
            let extensions = [names.as_str(), &usage, "basicConstraints=critical,CA:FALSE"];
            openssl(
                folder,
                name,
                &extensions,
                &["-CA", "ca.pem", "-CAkey", "ca.key"],
            );
            let at = |ending| folder.join(format!("{name}.{ending}"));
            Issued {
                certificate: CertificateDer::from_pem_file(at("pem")).expect("PEM"),
                key: PrivateKeyDer::from_pem_file(at("key")).expect("PEM"),
            }
        };
        let numbers = 1..=MIDDLEBOXES;
        let ordinary = issue("box-1", "serverAuth,clientAuth");
        let renewed = issue("box-1", MIDDLEBOX_USAGE_OID);
        Self {
            server: issue("server", "serverAuth"),
            middleboxes: numbers
                .map(|number| issue(&format!("box-{number}"), MIDDLEBOX_USAGE_OID))
                .collect(),
            ordinary,
            renewed,
            authority,
        }
    }

    pub(super) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).expect("an authority");
        Arc::new(roots)
    }

    pub(super) fn server(&self) -> Identity {
        self.server.identity()
    }

    pub(super) fn middlebox(&self, number: usize) -> Identity {
        self.middleboxes[number - 1].identity()
    }

    /// Another certificate of the first middlebox.
    pub(super) fn renewed(&self) -> Identity {
        self.renewed.identity()
    }

    pub(super) fn ordinary(&self) -> Identity {
        self.ordinary.identity()
    }
}

fn openssl(folder: &Path, name: &str, extensions: &[&str], authority: &[&str]) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).stdin(Stdio::null());
    command.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"]);
    command.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj"]);
    command.arg(format!("/CN={name}"));
    for extension in extensions {
        command.args(["-addext", extension]);
    }
    command.args(authority);
    command.args([
        "-keyout",
        &format!("{name}.key"),
        "-out",
        &format!("{name}.pem"),
    ]);
    let output = command.output().expect("openssl is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
