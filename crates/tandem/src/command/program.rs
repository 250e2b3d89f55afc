//! `tandem keytap`, `lab`, `mc`, `measure` and `split`: another program in place of this one.
//!
//! Is not: what these do. An operator's program carries none of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::Failure;

/// Becomes the program of this name; comes back only where that is not there or does not start.
/// `package` is the one of the sources that has it.
pub(crate) fn run(
    name: &'static str,
    package: &'static str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Failure {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(source) => return Failure::file("the running program".as_ref(), source),
    };
    let beside = own.parent().unwrap_or(&own).to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(name, &beside, &path) else {
        return Failure::NoProgram {
            name,
            package,
            beside,
        };
    };
    let source = Command::new(&program).args(arguments).exec();
    Failure::Start {
        path: program,
        source,
    }
}

/// The program of this name in this folder, else the first on the PATH.
fn find(name: &str, beside: &Path, path: &OsStr) -> Option<PathBuf> {
    std::iter::once(beside.to_owned())
        .chain(std::env::split_paths(path))
        .map(|folder| folder.join(name))
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
        assert_eq!(find("it", &own, &path), None);
        for place in [&second, &first, &own] {
            std::fs::write(place.join("it"), "").unwrap();
            assert_eq!(find("it", &own, &path), Some(place.join("it")));
        }
    }
}
