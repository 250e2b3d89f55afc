//! Files of random bytes below the server's root, with their digests.
//!
//! Nothing in them repeats, so that what a volunteer saves it saves by what was asked for before.

use std::fs;
use std::path::{Path, PathBuf};

use rand::RngCore as _;
use rand_pcg::Pcg64Mcg;
use tandem_store::Digest;

use tandem_testbed::LabError;

/// A file that the server has.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// As a URL has it, with a slash in front.
    pub(crate) path: String,
    /// Bytes.
    pub(crate) size: u64,
    /// Of its content.
    pub(crate) digest: Digest,
}

/// Where the files are.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    chance: Pcg64Mcg,
    count: u64,
}

impl Tree {
    /// An empty one in this directory, which is made.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(root: &Path, seed: u64) -> Result<Self, LabError> {
        fs::create_dir_all(root).map_err(LabError::io("make the server's directory"))?;
        Ok(Self {
            root: root.to_owned(),
            chance: Pcg64Mcg::new(u128::from(seed)),
            count: 0,
        })
    }

    /// One more file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn grow(&mut self, size: u64) -> Result<Object, LabError> {
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        self.chance.fill_bytes(&mut bytes);
        let name = format!("{:05}", self.count);
        self.count += 1;
        fs::write(self.root.join(&name), &bytes).map_err(LabError::io("write a file to serve"))?;
        Ok(Object {
            path: format!("/{name}"),
            size,
            digest: Digest::of(&bytes),
        })
    }
}
