//! Which OpenSSL `s_client`, `s_server` and the makers of certificates are.
//!
//! Is not: the build of it, which is `scripts/build-openssl.sh`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::installed;

/// What the program of OpenSSL 3.5 is called in a search path.
pub const CURRENT: &str = "openssl-3.5";

/// An OpenSSL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub enum Openssl {
    /// The system's. The default.
    #[default]
    #[serde(rename = "system")]
    System,
    /// 3.5, which has ML-KEM and ML-DSA, and compresses certificates.
    #[serde(rename = "3.5")]
    Current,
}

impl Openssl {
    /// Its program.
    pub fn command(self) -> Command {
        match self {
            Openssl::System => Command::new("openssl"),
            Openssl::Current => {
                let mut command = Command::new(current().unwrap_or_else(|| CURRENT.into()));
                // It was built with a folder of its own for settings, in which there are none.
                command.env("OPENSSL_CONF", "/dev/null");
                command
            }
        }
    }

    /// Whether it is there.
    pub fn is_installed(self) -> bool {
        match self {
            Openssl::System => installed::find("openssl").is_some(),
            Openssl::Current => current().is_some(),
        }
    }
}

/// Where OpenSSL 3.5 is: in the search path, or where `scripts/ensure-tools.sh openssl` puts it.
fn current() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let in_home = || Some(Path::new(&set("HOME")?).join(".cache/tandem/tools"));
    let built = || {
        let tools = set("TANDEM_TOOLS").map(PathBuf::from).or_else(in_home)?;
        Some(tools.join("bin").join(CURRENT)).filter(|path| path.is_file())
    };
    installed::find(CURRENT).or_else(built)
}
