//! `tandem lab`: the lab's own program in place of this one.
//!
//! Is not: the lab. An operator's program carries none of it.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::LabArgs;
use crate::exit::Failure;

/// The lab's program.
const PROGRAM: &str = "tandem-lab";

/// Becomes the lab; comes back only where that is not there or does not start.
pub(crate) fn run(arguments: &LabArgs) -> Failure {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(source) => return Failure::file("the running program".as_ref(), source),
    };
    let beside = own.parent().unwrap_or(&own).to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(&beside, &path) else {
        return Failure::NoLab { beside };
    };
    let source = Command::new(&program).args(&arguments.arguments).exec();
    Failure::Start {
        path: program,
        source,
    }
}

/// The lab's program in this folder, else the first on the PATH.
fn find(beside: &Path, path: &OsStr) -> Option<PathBuf> {
    std::iter::once(beside.to_owned())
        .chain(std::env::split_paths(path))
        .map(|folder| folder.join(PROGRAM))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_beside_this_one_comes_before_those_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let [own, first, second] = ["own", "first", "second"].map(|name| folder.path().join(name));
        for each in [&own, &first, &second] {
            std::fs::create_dir(each).unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(find(&own, &path), None);
        for place in [&second, &first, &own] {
            std::fs::write(place.join(PROGRAM), "").unwrap();
            assert_eq!(find(&own, &path), Some(place.join(PROGRAM)));
        }
    }
}
