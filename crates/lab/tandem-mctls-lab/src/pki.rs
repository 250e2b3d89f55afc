//! An authority, and certificates of the server and the middleboxes, made by `openssl`: ECDSA with
//! P-256, the leaf alone, in every arm.
//!
//! For split TLS each middlebox has, beside its own, a certificate for the server's name.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use mctls_io::{Identity, MIDDLEBOX_USAGE_OID};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tandem_testbed::LabError;

use crate::route::{SERVER, box_name};

/// The most middleboxes of a stage.
pub(crate) const MIDDLEBOXES: usize = 4;

/// Everybody's certificates.
#[derive(Debug)]
pub(crate) struct Pki {
    pub(crate) roots: Arc<RootCertStore>,
    server: Issued,
    middleboxes: Vec<Issued>,
    /// For the server's name, held by a middlebox.
    impostor: Issued,
}

#[derive(Debug)]
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

impl Pki {
    /// Makes all of them.
    ///
    /// # Errors
    /// `ProgramMissing` without `openssl`; `Command`, `Io`.
    pub(crate) fn make() -> Result<Arc<Self>, LabError> {
        let folder = tempfile::tempdir().map_err(LabError::io("make a folder"))?;
        let folder = folder.path();
        let authority = [
            "keyUsage=critical,keyCertSign",
            "basicConstraints=critical,CA:TRUE",
        ];
        openssl(folder, "ca", &authority, &[])?;
        let issue = |file: &str, name: &str, usage: &str| {
            let names = format!("subjectAltName=DNS:{name}");
            let usage = format!("extendedKeyUsage={usage}");
            let extensions = [names.as_str(), &usage, "basicConstraints=critical,CA:FALSE"];
            let by = ["-CA", "ca.pem", "-CAkey", "ca.key"];
            openssl(folder, file, &extensions, &by)?;
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{file}.key")));
            Ok::<_, LabError>(Issued {
                certificate: certificate(folder, file)?,
                key: key.map_err(|error| unreadable(&error))?,
            })
        };
        let mut roots = RootCertStore::empty();
        let root = roots.add(certificate(folder, "ca")?);
        root.map_err(|error| unreadable(&error))?;
        let middleboxes = (0..MIDDLEBOXES).map(|number| {
            let name = box_name(number);
            issue(&name, &name, MIDDLEBOX_USAGE_OID)
        });
        Ok(Arc::new(Self {
            middleboxes: middleboxes.collect::<Result<_, _>>()?,
            server: issue("server", SERVER, "serverAuth")?,
            impostor: issue("impostor", SERVER, "serverAuth")?,
            roots: Arc::new(roots),
        }))
    }

    /// The server's.
    pub(crate) fn server(&self) -> Identity {
        self.server.identity()
    }

    /// A middlebox's own, counted from 0.
    pub(crate) fn middlebox(&self, number: usize) -> Identity {
        self.middleboxes[number].identity()
    }

    /// What a middlebox of split TLS shows to the client.
    pub(crate) fn impostor(&self) -> Identity {
        self.impostor.identity()
    }
}

fn certificate(folder: &Path, name: &str) -> Result<CertificateDer<'static>, LabError> {
    let read = CertificateDer::from_pem_file(folder.join(format!("{name}.pem")));
    read.map_err(|error| unreadable(&error))
}

fn unreadable(error: &dyn std::fmt::Display) -> LabError {
    LabError::Command {
        command: "openssl req".to_owned(),
        why: format!("what it made cannot be used: {error}"),
    }
}

fn openssl(folder: &Path, name: &str, extensions: &[&str], by: &[&str]) -> Result<(), LabError> {
    let mut command = Command::new("openssl");
    command.current_dir(folder).stdin(Stdio::null());
    command.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"]);
    command.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj"]);
    command.arg(format!("/CN={name}"));
    for extension in extensions {
        command.args(["-addext", extension]);
    }
    command.args(by);
    command.args(["-keyout", &format!("{name}.key")]);
    command.args(["-out", &format!("{name}.pem")]);
    tandem_testbed::command::run(&mut command).map(drop)
}
