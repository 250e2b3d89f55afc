//! The repository's own programs: `tandem`, which the lab runs as proxies; `tandem-lab` itself, for
//! parts that need a process of their own; and endpoints, which are examples of this package.
//!
//! Is not: a search for programs of the system, which the system does by its PATH.

use std::path::{Path, PathBuf};

use crate::error::LabError;

/// The proxies' program: beside the running one, else the first on the PATH.
///
/// # Errors
/// `NotBuilt` with how to build it; `Io`.
pub fn tandem() -> Result<PathBuf, LabError> {
    find(
        "tandem",
        "`cargo build --release --package tandem` builds it",
    )
}

/// The lab's own program, which need not be the running one: tests use the library.
///
/// # Errors
/// As [`tandem`].
pub fn lab() -> Result<PathBuf, LabError> {
    find(
        "tandem-lab",
        "`cargo build --release --package tandem-lab` builds it",
    )
}

/// The load generator, `tandem measure`.
///
/// # Errors
/// As [`tandem`].
pub fn measure() -> Result<PathBuf, LabError> {
    find(
        "tandem-measure",
        "`cargo build --release --package tandem-measure-io` builds it",
    )
}

/// The library that times what TLS costs inside a server.
///
/// # Errors
/// As [`tandem`].
pub fn cost_tap() -> Result<PathBuf, LabError> {
    find(
        "libtandem_cost_tap.so",
        "`cargo build --release --package tandem-cost-tap` builds it",
    )
}

/// Where an example was built: `examples` beside the running program.
///
/// # Errors
/// As [`tandem`].
pub fn example(name: &'static str) -> Result<PathBuf, LabError> {
    beside(&Path::new("examples").join(name))?.ok_or(LabError::NotBuilt {
        program: name,
        remedy: "`cargo build --release --package tandem-lab --examples` builds it",
    })
}

fn find(program: &'static str, remedy: &'static str) -> Result<PathBuf, LabError> {
    if let Some(found) = beside(Path::new(program))? {
        return Ok(found);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .ok_or(LabError::NotBuilt { program, remedy })
}

/// This file in the running program's folder, or one folder up, where a test's own program lies
/// deeper.
fn beside(name: &Path) -> Result<Option<PathBuf>, LabError> {
    let own = std::env::current_exe().map_err(LabError::io("find the running program"))?;
    let folders = own.ancestors().skip(1).take(2);
    Ok(folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file()))
}
