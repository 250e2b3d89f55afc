//! Keys and certificates: a root, an issuer below it, a client's leaf below that, and a server's
//! below the root.
//!
//! Made once by `openssl` and kept in the build's folder for temporary files; valid for ten years.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Preload, program, run};

/// Change it with what is made.
const EDITION: &str = "keytap-pki-1";

/// The folder with all of it.
#[derive(Debug)]
pub(crate) struct Pki(PathBuf);

impl Pki {
    /// The one of this build.
    pub(crate) fn shared() -> &'static Self {
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
            Self(place)
        })
    }

    /// `leaf.pem` and `leaf.key` (the client's), `issuer.pem`, `chain.pem` (leaf and issuer),
    /// `root.pem`, `trusted.pem` (issuer and root), `server.pem`, `server.key`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let file = self.0.join(name);
        assert!(file.is_file(), "{}", file.display());
        file
    }

    /// The same as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}

fn make(place: &Path) {
    let openssl = |line: &str| {
        run(program("openssl", Preload::No)
            .args(line.split(' '))
            .current_dir(place));
    };
    let write = |name: &str, text: &str| fs::write(place.join(name), text).expect("writable");
    write("ca.ext", "basicConstraints=critical,CA:TRUE\n");
    write("client.ext", "basicConstraints=critical,CA:FALSE\n");
    write(
        "server.ext",
        "basicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n",
    );
    let signed = |name: &str, extensions: &str, issuer: &str| {
        openssl(&format!(
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {name}.key"
        ));
        openssl(&format!(
            "req -new -key {name}.key -subj /O=Tandem_tests/CN={name} -out {name}.csr"
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
    signed("root", "ca.ext", "root");
    signed("issuer", "ca.ext", "root");
    signed("leaf", "client.ext", "issuer");
    signed("server", "server.ext", "root");
    let read = |name: &str| fs::read_to_string(place.join(name)).expect("just written");
    write("chain.pem", &(read("leaf.pem") + &read("issuer.pem")));
    write("trusted.pem", &(read("issuer.pem") + &read("root.pem")));
    write("complete", "");
}
