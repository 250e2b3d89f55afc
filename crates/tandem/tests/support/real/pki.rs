//! Keys and certificates of the servers: a root, two issuers below it, and leaves below those.
//!
//! Made once by `openssl` and kept in the build's folder for temporary files; valid for ten years.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::run;

/// The name that clients ask for.
pub(crate) const SITE: &str = "www.tandem.test";

/// Change it with what is made.
const EDITION: &str = "real-pki-1";

/// What kind of key a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyType {
    Rsa,
    Ecdsa,
}

impl KeyType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyType::Rsa => "rsa",
            KeyType::Ecdsa => "ecdsa",
        }
    }
}

/// The folder with all of it.
#[derive(Debug)]
pub(crate) struct Pki(PathBuf);

impl Pki {
    /// The one of this build.
    pub(crate) fn shared() -> &'static Pki {
        static PKI: OnceLock<Pki> = OnceLock::new();
        PKI.get_or_init(|| {
            let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(EDITION);
            if !place.join("complete").exists() {
                let draft = place.with_extension(format!("draft-{}", std::process::id()));
                fs::create_dir_all(&draft).expect("a writable build folder");
                make(&draft);
                // Another test binary may have been faster, and its files are as good.
                if fs::rename(&draft, &place).is_err() {
                    let _ = fs::remove_dir_all(&draft);
                }
            }
            Pki(place)
        })
    }

    /// What clients trust.
    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("root.pem")
    }

    /// Leaf and both issuers.
    pub(crate) fn chain(&self, key: KeyType) -> PathBuf {
        self.0.join(format!("{}-chain.pem", key.name()))
    }

    /// The same in DER.
    pub(crate) fn certificates(&self, key: KeyType) -> Vec<Vec<u8>> {
        let text = fs::read_to_string(self.chain(key)).expect("it was made");
        let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
        blocks
            .filter_map(|block| block.split("-----END").next())
            .map(|base64| {
                let base64: String = base64.split_whitespace().collect();
                let der = data_encoding::BASE64.decode(base64.as_bytes());
                der.expect("Base64")
            })
            .collect()
    }

    /// The leaf alone.
    pub(crate) fn leaf(&self, key: KeyType) -> PathBuf {
        self.0.join(format!("{}.pem", key.name()))
    }

    /// The issuers alone.
    pub(crate) fn issuers(&self) -> PathBuf {
        self.0.join("issuers.pem")
    }

    /// An OCSP response about the leaf, made anew in this folder: good for a day, signed by the
    /// issuer.
    pub(crate) fn staple(&self, key: KeyType, folder: &Path) -> PathBuf {
        let (request, response) = (folder.join("ocsp-request"), folder.join("ocsp-response"));
        let index = folder.join("ocsp-index");
        fs::write(&index, "").expect("a writable folder");
        let file = |name: &str| self.0.join(name);
        let ocsp = || {
            let mut command = Command::new("openssl");
            command.arg("ocsp").env("OPENSSL_CONF", "/dev/null");
            command
        };
        let issuer = file("issuer2.pem");
        run(ocsp()
            .arg("-no_nonce")
            .arg("-issuer")
            .arg(&issuer)
            .arg("-cert")
            .arg(self.leaf(key))
            .arg("-reqout")
            .arg(&request));
        run(ocsp()
            .args(["-ndays", "1", "-index"])
            .arg(&index)
            .arg("-CA")
            .arg(&issuer)
            .arg("-rsigner")
            .arg(&issuer)
            .arg("-rkey")
            .arg(file("issuer2.key"))
            .arg("-reqin")
            .arg(&request)
            .arg("-respout")
            .arg(&response));
        response
    }

    /// The leaf's private key.
    pub(crate) fn key(&self, key: KeyType) -> PathBuf {
        self.0.join(format!("{}.key", key.name()))
    }
}

fn make(place: &Path) {
    let openssl = |line: &str| {
        run(Command::new("openssl")
            .args(line.split(' '))
            .env("OPENSSL_CONF", "/dev/null")
            .current_dir(place));
    };
    let write = |name: &str, text: String| fs::write(place.join(name), text).expect("writable");
    write(
        "ca.ext",
        "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n".to_owned(),
    );
    write(
        "leaf.ext",
        format!(
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\n\
             extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=DNS:{SITE},DNS:tandem.test\n\
             subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n\
             authorityInfoAccess=OCSP;URI:http://ocsp.tandem.test/,caIssuers;URI:http://issuers.tandem.test/issuer.der\n"
        ),
    );
    let rsa = "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048";
    for name in ["root", "issuer1", "issuer2", "rsa"] {
        openssl(&format!("{rsa} -out {name}.key"));
    }
    openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ecdsa.key");
    let signed = |name: &str, subject: &str, extensions: &str, issuer: &str| {
        openssl(&format!(
            "req -new -key {name}.key -subj {subject} -out {name}.csr"
        ));
        let by = if issuer == name {
            format!("-signkey {name}.key")
        } else {
            format!("-CA {issuer}.pem -CAkey {issuer}.key -CAcreateserial")
        };
        openssl(&format!(
            "x509 -req -sha256 -days 3650 -in {name}.csr -extfile {extensions} {by} -out {name}.pem"
        ));
    };
    signed("root", "/O=Tandem_tests/CN=Root", "ca.ext", "root");
    signed(
        "issuer1",
        "/O=Tandem_tests/OU=First_issuing_authority/CN=Issuer_1",
        "ca.ext",
        "root",
    );
    signed(
        "issuer2",
        "/O=Tandem_tests/OU=Second_issuing_authority/CN=Issuer_2",
        "ca.ext",
        "issuer1",
    );
    let subject = format!("/C=ZZ/O=Tandem_tests/OU=Servers/CN={SITE}");
    signed("rsa", &subject, "leaf.ext", "issuer2");
    signed("ecdsa", &subject, "leaf.ext", "issuer2");
    let read = |name: &str| fs::read_to_string(place.join(name)).expect("just written");
    let issuers = read("issuer2.pem") + &read("issuer1.pem");
    for key in ["rsa", "ecdsa"] {
        write(
            &format!("{key}-chain.pem"),
            read(&format!("{key}.pem")) + &issuers,
        );
    }
    write("issuers.pem", issuers);
    write("complete", String::new());
}
