//! Certificates of exact sizes, by the `openssl` command line.
//!
//! A chain is a leaf, the issuers that the server sends with it, and a root that only the client
//! has. Where a size is asked for, a comment extension (Netscape's, which nobody interprets) is
//! made as long as it takes; that pads with what no compressor of TLS and no proxy can profit from
//! in this lab, since whole certificates are what is left out.
//!
//! Is not: fit for anything but the lab. Keys lie unencrypted in its directory, which is removed
//! with it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::command;
use crate::error::LabError;
use crate::openssl::Openssl;

/// The name that every leaf is for, unless it is told otherwise.
pub const SERVER_NAME: &str = "www.tandem.example";

/// Another name for a second leaf.
pub const SECOND_NAME: &str = "www2.tandem.example";

/// Days that a certificate is good for, as `openssl` counts them.
const DAYS: &str = "825";

/// The name of a client's leaf.
pub const CLIENT_NAME: &str = "client.tandem.example";

/// A day ago: OpenSSL takes a certificate to have expired that ends before it begins, too.
const DAYS_OF_EXPIRED: &str = "-1";

/// ECDSA signatures vary by some bytes from one to the next, so an exact size may take several
/// attempts.
const ATTEMPTS: usize = 60;

/// Attempts with the usual serial number.
const ATTEMPTS_BEFORE_LONGER_SERIAL: usize = 5;

/// Bytes of a serial number, the same in every certificate, so that sizes do not vary for no
/// reason.
const SERIAL_BYTES: usize = 8;

/// Of what kind all keys of a chain are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// RSA with 2,048 bits.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
    /// RSA with 3,072 bits.
    #[serde(rename = "rsa-3072")]
    Rsa3072,
    /// RSA with 4,096 bits.
    #[serde(rename = "rsa-4096")]
    Rsa4096,
    /// ECDSA on P-256.
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
    /// ECDSA on P-384.
    #[serde(rename = "ecdsa-p384")]
    EcdsaP384,
    /// Ed25519.
    #[serde(rename = "ed25519")]
    Ed25519,
    /// ML-DSA-44 (FIPS 204). It takes OpenSSL 3.5.
    #[serde(rename = "ml-dsa-44")]
    MlDsa44,
    /// ML-DSA-65; likewise.
    #[serde(rename = "ml-dsa-65")]
    MlDsa65,
}

impl KeyKind {
    /// As an experiment file says it.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Rsa2048 => "rsa-2048",
            KeyKind::Rsa3072 => "rsa-3072",
            KeyKind::Rsa4096 => "rsa-4096",
            KeyKind::EcdsaP256 => "ecdsa-p256",
            KeyKind::EcdsaP384 => "ecdsa-p384",
            KeyKind::Ed25519 => "ed25519",
            KeyKind::MlDsa44 => "ml-dsa-44",
            KeyKind::MlDsa65 => "ml-dsa-65",
        }
    }

    /// The OpenSSL that knows it.
    pub fn openssl(self) -> Openssl {
        match self {
            KeyKind::Rsa2048
            | KeyKind::Rsa3072
            | KeyKind::Rsa4096
            | KeyKind::EcdsaP256
            | KeyKind::EcdsaP384
            | KeyKind::Ed25519 => Openssl::System,
            KeyKind::MlDsa44 | KeyKind::MlDsa65 => Openssl::Current,
        }
    }

    /// Bytes of a signature. One by ECDSA has 70 to 72, as its numbers come.
    pub fn signature_len(self) -> usize {
        match self {
            KeyKind::Rsa2048 => 256,
            KeyKind::Rsa3072 => 384,
            KeyKind::Rsa4096 => 512,
            KeyKind::EcdsaP256 => 71,
            KeyKind::EcdsaP384 => 103,
            KeyKind::Ed25519 => 64,
            // FIPS 204, table 2.
            KeyKind::MlDsa44 => 2_420,
            KeyKind::MlDsa65 => 3_309,
        }
    }

    /// Bytes of a certificate of the lab, about, where no size is asked for.
    pub fn certificate_len(self) -> usize {
        match self {
            KeyKind::Rsa2048 => 870,
            KeyKind::Rsa3072 => 1_126,
            KeyKind::Rsa4096 => 1_382,
            KeyKind::EcdsaP256 => 480,
            KeyKind::EcdsaP384 => 541,
            KeyKind::Ed25519 => 428,
            // A key, a signature, and some 260 bytes around them.
            KeyKind::MlDsa44 => 1_312 + 2_420 + 260,
            KeyKind::MlDsa65 => 1_952 + 3_309 + 260,
        }
    }

    fn genpkey(self) -> &'static [&'static str] {
        match self {
            KeyKind::Rsa2048 => &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            KeyKind::Rsa3072 => &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"],
            KeyKind::Rsa4096 => &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:4096"],
            KeyKind::EcdsaP256 => &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            KeyKind::EcdsaP384 => &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            KeyKind::Ed25519 => &["-algorithm", "ED25519"],
            KeyKind::MlDsa44 => &["-algorithm", "ML-DSA-44"],
            KeyKind::MlDsa65 => &["-algorithm", "ML-DSA-65"],
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

/// Whether a certificate is good today.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Validity {
    /// Yes.
    Current,
    /// It has expired.
    Expired,
}

/// Whom a chain is for. The names of their authorities differ: a program that finds its own chain's
/// issuer among those it trusts sends it along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Server,
    Client,
}

impl Purpose {
    /// The organisation that signs.
    fn authority(self) -> &'static str {
        match self {
            Purpose::Server => "Tandem Lab",
            Purpose::Client => "Lab Client",
        }
    }

    /// As extendedKeyUsage says it.
    fn key_usage(self) -> &'static str {
        match self {
            Purpose::Server => "serverAuth",
            Purpose::Client => "clientAuth",
        }
    }
}

/// A chain on disk, all PEM.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Whom the leaf is for.
    pub name: &'static str,
    /// Whether the leaf is good today.
    pub validity: Validity,
    /// The leaf, then the issuers, as a server sends them.
    pub full: PathBuf,
    /// The leaf alone.
    pub leaf: PathBuf,
    /// The issuers alone; an empty file where there are none.
    pub issuers: PathBuf,
    /// The leaf's key.
    pub key: PathBuf,
    /// What the other end trusts.
    pub root: PathBuf,
    /// Bytes of DER of what is sent, leaf first.
    pub sizes: Vec<usize>,
}

/// Makes a chain in a directory of its own below `directory`.
///
/// # Errors
/// `Usage` where a certificate cannot be so small or the length is out of range; `ProgramMissing`,
/// `Command`, `Io`.
pub fn issue(directory: &Path, name: &str, spec: &ChainSpec) -> Result<Chain, LabError> {
    issue_for(directory, name, spec, SERVER_NAME, Validity::Current)
}

/// The same for another name, or with a leaf that has expired.
///
/// # Errors
/// As [`issue`].
pub fn issue_for(
    directory: &Path,
    name: &str,
    spec: &ChainSpec,
    subject: &'static str,
    validity: Validity,
) -> Result<Chain, LabError> {
    Office {
        directory: directory.join(name),
        key: spec.key,
        subject,
        validity,
        purpose: Purpose::Server,
    }
    .issue(spec)
}

/// A chain that a client shows of itself.
///
/// # Errors
/// As [`issue`].
pub fn issue_client(directory: &Path, name: &str, spec: &ChainSpec) -> Result<Chain, LabError> {
    Office {
        directory: directory.join(name),
        key: spec.key,
        subject: CLIENT_NAME,
        validity: Validity::Current,
        purpose: Purpose::Client,
    }
    .issue(spec)
}

/// Clients' certificates by one authority, that of `of`: so many, each with a key on P-256 of its
/// own.
///
/// # Errors
/// `ProgramMissing`, `Command`, `Io`.
pub fn issue_crowd(of: &Chain, count: usize) -> Result<Vec<Chain>, LabError> {
    let directory = of.root.parent().unwrap_or(&of.root).to_owned();
    let office = Office {
        directory,
        key: KeyKind::EcdsaP256,
        subject: CLIENT_NAME,
        validity: Validity::Current,
        purpose: Purpose::Client,
    };
    (1..=count)
        .map(|number| {
            let (key, leaf) = (format!("member{number}.key"), format!("member{number}.pem"));
            let subject = format!("/CN=client-{number:04}.tandem.example");
            let serial = format!("0x5a{number:014x}");
            // Key, request and certificate by one program: there are many to be made.
            let mut arguments: Vec<&str> =
                "req -x509 -config req.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -sha256 \
                 -CA root.pem -CAkey root.key -addext basicConstraints=critical,CA:FALSE \
                 -addext keyUsage=critical,digitalSignature -addext extendedKeyUsage=clientAuth"
                    .split_ascii_whitespace()
                    .collect();
            arguments.extend(["-days", DAYS, "-set_serial", &serial, "-subj", &subject]);
            arguments.extend(["-keyout", &key, "-out", &leaf]);
            office.openssl(&arguments)?;
            Ok(Chain {
                full: office.path(&leaf),
                leaf: office.path(&leaf),
                key: office.path(&key),
                sizes: vec![der_length(&office.read(&leaf)?)],
                ..of.clone()
            })
        })
        .collect()
}

/// A chain with a new leaf, of a new key, by the issuers of one that [`issue`] has made in the same
/// place.
///
/// # Errors
/// As [`issue`].
pub fn renew(directory: &Path, name: &str, spec: &ChainSpec) -> Result<Chain, LabError> {
    let office = Office {
        directory: directory.join(name),
        key: spec.key,
        subject: SERVER_NAME,
        validity: Validity::Current,
        purpose: Purpose::Server,
    };
    let issuers = (1..spec.length)
        .map(|level| {
            let issuer = format!("issuer{level}");
            let size = der_length(&office.read(&format!("{issuer}.pem"))?);
            Ok((issuer, size))
        })
        .collect::<Result<Vec<_>, LabError>>()?;
    let signer = issuers
        .first()
        .map_or("root", |(issuer, _)| issuer.as_str())
        .to_owned();
    office.with_leaf(RENEWED, &signer, &issuers, spec.leaf_bytes)
}

/// What files of a leaf are called.
const LEAF: &str = "leaf";

/// What files of a leaf are called that comes after.
const RENEWED: &str = "renewed";

/// Where certificates are made.
struct Office {
    directory: PathBuf,
    key: KeyKind,
    /// Of leaves.
    subject: &'static str,
    /// Of leaves.
    validity: Validity,
    purpose: Purpose,
}

impl Office {
    /// Root, issuers and leaf.
    fn issue(&self, spec: &ChainSpec) -> Result<Chain, LabError> {
        if !(1..=3).contains(&spec.length) {
            return Err(LabError::usage(
                format!("chain of {}", spec.length),
                "a chain has 1 to 3 certificates",
            ));
        }
        fs::create_dir_all(&self.directory).map_err(LabError::io("make a directory for keys"))?;
        self.write("req.cnf", "[req]\ndistinguished_name=dn\n[dn]\n")?;
        self.root()?;
        let mut signer = "root".to_owned();
        let mut issuers = Vec::new();
        for level in (1..spec.length).rev() {
            let issuer = format!("issuer{level}");
            let size = self.sized(&issuer, &signer, spec.issuer_bytes)?;
            issuers.insert(0, (issuer.clone(), size));
            signer = issuer;
        }
        self.with_leaf(LEAF, &signer, &issuers, spec.leaf_bytes)
    }

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
            self.key
                .openssl()
                .command()
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
        let authority = self.purpose.authority();
        let subject = format!("/C=XX/O={authority}/CN={authority} Root");
        self.openssl(
            &"req -x509 -new -config req.cnf -key root.key -sha256 -days 3650 -set_serial 1 \
              -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -out root.pem -subj"
                .split_ascii_whitespace()
                .chain([subject.as_str()])
                .collect::<Vec<_>>(),
        )
    }

    /// Makes a leaf, and the files of the chain that it stands in front of.
    fn with_leaf(
        &self,
        leaf: &str,
        signer: &str,
        issuers: &[(String, usize)],
        wanted: Option<usize>,
    ) -> Result<Chain, LabError> {
        let size = self.sized(leaf, signer, wanted)?;
        let mut of_issuers = String::new();
        for (issuer, _) in issuers {
            of_issuers.push_str(&self.read(&format!("{issuer}.pem"))?);
        }
        let full = self.read(&format!("{leaf}.pem"))? + &of_issuers;
        self.write(&format!("{leaf}-full.pem"), &full)?;
        self.write("issuers.pem", &of_issuers)?;
        Ok(Chain {
            name: self.subject,
            validity: self.validity,
            full: self.path(&format!("{leaf}-full.pem")),
            leaf: self.path(&format!("{leaf}.pem")),
            issuers: self.path("issuers.pem"),
            key: self.path(&format!("{leaf}.key")),
            root: self.path("root.pem"),
            sizes: std::iter::once(size)
                .chain(issuers.iter().map(|(_, size)| *size))
                .collect(),
        })
    }

    /// A certificate of this size, signed by `signer`; its size.
    fn sized(&self, name: &str, signer: &str, wanted: Option<usize>) -> Result<usize, LabError> {
        self.new_key(name)?;
        let is_leaf = [LEAF, RENEWED].contains(&name);
        let subject = if is_leaf {
            format!("/CN={}", self.subject)
        } else {
            let authority = self.purpose.authority();
            format!("/C=XX/O={authority}/CN={authority} {name}")
        };
        let extensions = |comment| {
            if is_leaf {
                leaf_extensions(self.subject, self.purpose, comment)
            } else {
                issuer_extensions(comment)
            }
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
            // Where the comment's own length fields grow, some sizes are skipped; a longer serial
            // number reaches them.
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
        let days = match self.validity {
            Validity::Expired if [LEAF, RENEWED].contains(&name) => DAYS_OF_EXPIRED,
            Validity::Expired | Validity::Current => DAYS,
        };
        self.openssl(&[
            "x509",
            "-req",
            "-sha256",
            "-days",
            days,
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

fn leaf_extensions(subject: &str, purpose: Purpose, comment: Option<usize>) -> String {
    format!(
        "basicConstraints=critical,CA:FALSE\n\
         keyUsage=critical,digitalSignature,keyEncipherment\n\
         extendedKeyUsage={usage}\n\
         subjectKeyIdentifier=hash\n\
         authorityKeyIdentifier=keyid\n\
         subjectAltName=DNS:{subject}\n{}",
        comment_line(comment),
        usage = purpose.key_usage(),
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
        // Not one letter repeated: what a compressor would make of it is not to be flattered
        // either.
        let text: String =
            "certificates of the tandem lab have the size that the experiment asks for. "
                .chars()
                .cycle()
                .take(length.saturating_sub(1))
                .chain(['.'])
                .collect();
        // The configuration file's reader cuts spaces at the ends and has a limit on its lines,
        // hence no other white space.
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
