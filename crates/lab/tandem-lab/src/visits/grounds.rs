//! What all arms of a run share: certificates, a hosts file, and what servers offer.

use std::fs;
use std::path::{Path, PathBuf};

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use tandem_testbed::LabError;
use tandem_testbed::pki::{self, Chain, ChainSpec, KeyKind, Validity};
use tandem_testbed::topology::{Family, server_address};

/// A leaf and one issuer of RSA, of the sizes that public authorities' have.
const CHAIN: ChainSpec = ChainSpec {
    key: KeyKind::Rsa2048,
    length: 2,
    leaf_bytes: Some(1_300),
    issuer_bytes: Some(1_300),
};

/// See the module.
#[derive(Debug)]
pub(super) struct Grounds {
    folder: PathBuf,
    chains: Vec<Chain>,
}

impl Grounds {
    /// Makes a chain for each of these names of the server, below `folder`.
    ///
    /// # Errors
    /// `ProgramMissing`, `Command`, `Io`.
    pub(super) fn prepare(folder: &Path, names: &[&'static str]) -> Result<Self, LabError> {
        let mut grounds = Self {
            folder: folder.to_owned(),
            chains: Vec::new(),
        };
        let address = server_address(Family::V4);
        let mut hosts = "127.0.0.1 localhost\n".to_owned();
        for name in names {
            hosts.push_str(&format!("{address} {name}\n"));
            let chain = pki::issue_for(&grounds.folder, name, &CHAIN, name, Validity::Current)?;
            grounds.chains.push(chain);
        }
        put(&grounds.hosts(), hosts)?;
        Ok(grounds)
    }

    /// Where something lies that was made for all arms.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where clients find the servers' names.
    pub(super) fn hosts(&self) -> PathBuf {
        self.path("hosts")
    }

    /// The chain of a name of a visit.
    ///
    /// # Errors
    /// `Usage` for a name of none.
    pub(super) fn chain(&self, name: &str) -> Result<&Chain, LabError> {
        let found = self.chains.iter().find(|chain| chain.name == name);
        found.ok_or_else(|| LabError::usage(name, "has no certificate in this run"))
    }
}

/// Bytes that do not compress, the same for the same seed.
pub(super) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    (0..length).map(|_| random.random()).collect()
}

/// Makes a folder anew, empty.
///
/// # Errors
/// `Io`.
pub(super) fn empty(folder: &Path) -> Result<(), LabError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(LabError::io("empty a folder"))?;
    }
    fs::create_dir_all(folder).map_err(LabError::io("make a folder"))
}

/// Writes a file; its folder is made where it is missing.
///
/// # Errors
/// `Io`.
pub(super) fn put(path: &Path, text: impl AsRef<[u8]>) -> Result<(), LabError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(LabError::io(format!("write {}", path.display())))
}
