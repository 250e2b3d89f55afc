//! Certificates of exact sizes, by the `openssl` command line.
//!
//! A chain is a leaf, the issuers that the server sends with it, and a root that only the client has. Where a size is asked for,
//! a comment extension (Netscape's, which nobody interprets) is made as long as it takes; that pads with what no compressor of
//! TLS and no proxy can profit from in this lab, since whole certificates are what is left out.
//!
//! Is not: fit for anything but the lab. Keys lie unencrypted in its directory, which is removed with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::command;
use crate::error::LabError;

/// The name that every leaf is for.
pub const SERVER_NAME: &str = "www.tandem.example";

/// ECDSA signatures vary by some bytes from one to the next, so an exact size may take several attempts.
const ATTEMPTS: usize = 60;

/// Attempts with the usual serial number.
const ATTEMPTS_BEFORE_LONGER_SERIAL: usize = 5;

/// Bytes of a serial number, the same in every certificate, so that sizes do not vary for no reason.
const SERIAL_BYTES: usize = 8;

/// Of what kind all keys of a chain are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// RSA with 2,048 bits.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
    /// ECDSA on P-256.
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
}

impl KeyKind {
    /// As an experiment file says it.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Rsa2048 => "rsa-2048",
            KeyKind::EcdsaP256 => "ecdsa-p256",
        }
    }

    fn genpkey(self) -> [&'static str; 4] {
        match self {
            KeyKind::Rsa2048 => ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            KeyKind::EcdsaP256 => ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        }
    }
}

/// What chain is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainSpec {
    /// Of all its keys.
    pub key: KeyKind,
    /// Certificates that the server sends: the leaf and its issuers, 1 to 3.
    pub length: u8,
    /// The leaf's DER, bytes. `None`: what it has without padding.
    pub leaf_bytes: Option<usize>,
    /// Each issuer's DER, bytes. `None`: what it has without padding.
    pub issuer_bytes: Option<usize>,
}

/// A chain on disk, all PEM.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The leaf, then the issuers, as a server sends them.
    pub full: PathBuf,
    /// The leaf alone.
    pub leaf: PathBuf,
    /// The issuers alone; an empty file where there are none.
    pub issuers: PathBuf,
    /// The leaf's key.
    pub key: PathBuf,
    /// What the client trusts.
    pub root: PathBuf,
    /// Bytes of DER of what is sent, leaf first.
    pub sizes: Vec<usize>,
}

/// Makes a chain in a directory of its own below `directory`.
///
/// # Errors
/// `Usage` where a certificate cannot be so small or the length is out of range; `ProgramMissing`, `Command`, `Io`.
pub fn issue(directory: &Path, name: &str, spec: &ChainSpec) -> Result<Chain, LabError> {
    if !(1..=3).contains(&spec.length) {
        return Err(LabError::usage(
            format!("chain of {}", spec.length),
            "a chain has 1 to 3 certificates",
        ));
    }
    let office = Office {
        directory: directory.join(name),
        key: spec.key,
    };
    fs::create_dir_all(&office.directory).map_err(LabError::io("make a directory for keys"))?;
    office.write("req.cnf", "[req]\ndistinguished_name=dn\n[dn]\n")?;
    office.root()?;
    let mut signer = "root".to_owned();
    let mut sent = Vec::new();
    for level in (1..spec.length).rev() {
        let issuer = format!("issuer{level}");
        let size = office.sized(&issuer, &signer, &issuer_extensions, spec.issuer_bytes)?;
        sent.push((issuer.clone(), size));
        signer = issuer;
    }
    let size = office.sized("leaf", &signer, &leaf_extensions, spec.leaf_bytes)?;
    sent.push(("leaf".to_owned(), size));
    sent.reverse();
    let mut full = String::new();
    let mut issuers = String::new();
    for (name, _) in &sent {
        let pem = office.read(&format!("{name}.pem"))?;
        if name != "leaf" {
            issuers.push_str(&pem);
        }
        full.push_str(&pem);
    }
    office.write("full.pem", &full)?;
    office.write("issuers.pem", &issuers)?;
    Ok(Chain {
        full: office.path("full.pem"),
        leaf: office.path("leaf.pem"),
        issuers: office.path("issuers.pem"),
        key: office.path("leaf.key"),
        root: office.path("root.pem"),
        sizes: sent.into_iter().map(|(_, size)| size).collect(),
    })
}

/// Where certificates are made.
struct Office {
    directory: PathBuf,
    key: KeyKind,
}

impl Office {
    fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    fn read(&self, file: &str) -> Result<String, LabError> {
        fs::read_to_string(self.path(file)).map_err(LabError::io(format!("read {file}")))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), LabError> {
        fs::write(self.path(file), text).map_err(LabError::io(format!("write {file}")))
    }

    fn openssl(&self, arguments: &[&str]) -> Result<(), LabError> {
        command::run(
            Command::new("openssl")
                .args(arguments)
                .current_dir(&self.directory),
        )
        .map(|_| ())
    }

    fn new_key(&self, name: &str) -> Result<(), LabError> {
        let file = format!("{name}.key");
        let mut arguments = vec!["genpkey"];
        arguments.extend(self.key.genpkey());
        arguments.extend(["-out", &file]);
        self.openssl(&arguments)
    }

    fn root(&self) -> Result<(), LabError> {
        self.new_key("root")?;
        self.openssl(
            &"req -x509 -new -config req.cnf -key root.key -sha256 -days 3650 -set_serial 1 \
              -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out root.pem -subj"
                .split_ascii_whitespace()
                .chain(["/C=XX/O=Tandem Lab/CN=Tandem Lab Root"])
                .collect::<Vec<_>>(),
        )
    }

    /// A certificate of this size, signed by `signer`; its size.
    fn sized(
        &self,
        name: &str,
        signer: &str,
        extensions: &dyn Fn(Option<usize>) -> String,
        wanted: Option<usize>,
    ) -> Result<usize, LabError> {
        self.new_key(name)?;
        let subject = if name == "leaf" {
            format!("/CN={SERVER_NAME}")
        } else {
            format!("/C=XX/O=Tandem Lab/CN=Tandem Lab {name}")
        };
        let (key, request) = (format!("{name}.key"), format!("{name}.csr"));
        self.openssl(&[
            "req", "-new", "-config", "req.cnf", "-key", &key, "-subj", &subject, "-out", &request,
        ])?;
        let Some(wanted) = wanted else {
            return self.sign(name, signer, &extensions(None), SERIAL_BYTES);
        };
        let mut comment = 1;
        let smallest = self.sign(name, signer, &extensions(Some(comment)), SERIAL_BYTES)?;
        let mut size = smallest;
        for attempt in 0..ATTEMPTS {
            if size == wanted {
                return Ok(size);
            }
            let longer = (comment + wanted)
                .checked_sub(size)
                .filter(|length| *length > 0);
            comment = longer.ok_or_else(|| {
                LabError::usage(
                    format!("a {} {name} of {wanted} bytes", self.key.name()),
                    format!("cannot be smaller than {smallest} bytes"),
                )
            })?;
            // Where the comment's own length fields grow, some sizes are skipped; a longer serial number reaches them.
            let serial_bytes = SERIAL_BYTES + usize::from(attempt >= ATTEMPTS_BEFORE_LONGER_SERIAL);
            size = self.sign(name, signer, &extensions(Some(comment)), serial_bytes)?;
        }
        Err(LabError::usage(
            format!("a {} {name} of {wanted} bytes", self.key.name()),
            format!("the lengths of its fields skip this size (it comes to {size})"),
        ))
    }

    fn sign(
        &self,
        name: &str,
        signer: &str,
        extensions: &str,
        serial_bytes: usize,
    ) -> Result<usize, LabError> {
        self.write("ext.cnf", extensions)?;
        // The first byte keeps the number positive, so that its DER has as many bytes as it has.
        let serial = format!("0x{:02x}{}", name.len(), "5a".repeat(serial_bytes - 1));
        let files = [
            format!("{name}.csr"),
            format!("{signer}.pem"),
            format!("{signer}.key"),
            format!("{name}.pem"),
        ];
        self.openssl(&[
            "x509",
            "-req",
            "-sha256",
            "-days",
            "825",
            "-extfile",
            "ext.cnf",
            "-set_serial",
            &serial,
            "-in",
            &files[0],
            "-CA",
            &files[1],
            "-CAkey",
            &files[2],
            "-out",
            &files[3],
        ])?;
        Ok(der_length(&self.read(&files[3])?))
    }
}

fn leaf_extensions(comment: Option<usize>) -> String {
    format!(
        "basicConstraints=critical,CA:FALSE\n\
         keyUsage=critical,digitalSignature,keyEncipherment\n\
         extendedKeyUsage=serverAuth\n\
         subjectKeyIdentifier=hash\n\
         authorityKeyIdentifier=keyid\n\
         subjectAltName=DNS:{SERVER_NAME}\n{}",
        comment_line(comment)
    )
}

fn issuer_extensions(comment: Option<usize>) -> String {
    format!(
        "basicConstraints=critical,CA:TRUE\n\
         keyUsage=critical,keyCertSign,cRLSign\n\
         subjectKeyIdentifier=hash\n\
         authorityKeyIdentifier=keyid\n{}",
        comment_line(comment)
    )
}

fn comment_line(length: Option<usize>) -> String {
    length.map_or_else(String::new, |length| {
        // Not one letter repeated: what a compressor would make of it is not to be flattered either.
        let text: String =
            "certificates of the tandem lab have the size that the experiment asks for. "
                .chars()
                .cycle()
                .take(length.saturating_sub(1))
                .chain(['.'])
                .collect();
        // The configuration file's reader cuts spaces at the ends and has a limit on its lines, hence no other white space.
        format!("nsComment={}\n", text.replace(' ', "-"))
    })
}

/// Bytes of DER in the first certificate of a PEM text.
fn der_length(pem: &str) -> usize {
    let digits: String = pem
        .lines()
        .skip_while(|line| !line.starts_with("-----BEGIN"))
        .skip(1)
        .take_while(|line| !line.starts_with("-----END"))
        .collect();
    let padding = digits
        .chars()
        .rev()
        .take_while(|digit| *digit == '=')
        .count();
    (digits.trim_end().len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_der_is_told_from_pem() {
        assert_eq!(
            der_length("-----BEGIN X-----\nAQID\nBA==\n-----END X-----\n"),
            4
        );
        assert_eq!(
            der_length("text\n-----BEGIN X-----\nAQI=\n-----END X-----\n"),
            2
        );
        assert_eq!(der_length(""), 0);
    }

    #[test]
    fn certificates_have_the_sizes_asked_for() -> Result<(), LabError> {
        let directory = tempfile::tempdir().map_err(LabError::io("make a directory"))?;
        let spec = ChainSpec {
            key: KeyKind::Rsa2048,
            length: 3,
            leaf_bytes: Some(926),
            issuer_bytes: Some(900),
        };
        match issue(directory.path(), "three", &spec) {
            Err(LabError::ProgramMissing { .. }) => return Ok(()),
            chain => assert_eq!(chain?.sizes, [926, 900, 900]),
        }
        let small = ChainSpec {
            leaf_bytes: Some(100),
            length: 1,
            key: KeyKind::EcdsaP256,
            ..spec
        };
        assert!(matches!(
            issue(directory.path(), "small", &small),
            Err(LabError::Usage { .. })
        ));
        let natural = ChainSpec {
            leaf_bytes: None,
            ..small
        };
        let sizes = issue(directory.path(), "natural", &natural)?.sizes;
        assert!(
            sizes.len() == 1 && (350..600).contains(&sizes[0]),
            "{sizes:?}"
        );
        Ok(())
    }
}
