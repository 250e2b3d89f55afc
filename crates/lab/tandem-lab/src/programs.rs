//! Programs of the lab's own that stand at the ends: examples of this package, which cargo puts
//! beside the binary.
//!
//! Is not: a search for programs of the system, which the system does by its PATH.

use std::path::{Path, PathBuf};

use crate::error::LabError;

/// Where an example was built: `examples` beside the running program, or one folder up, where a
/// test's own program lies deeper.
///
/// # Errors
/// `Usage` with how to build it.
pub(crate) fn example(name: &str) -> Result<PathBuf, LabError> {
    let own = std::env::current_exe().map_err(LabError::io("find the running program"))?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("examples").join(name))
        .find(|path| Path::is_file(path))
        .ok_or_else(|| {
            LabError::usage(
                name,
                "is not built; `cargo build --release --package tandem-lab --examples` does",
            )
        })
}
