//! What the tests in namespaces share: they need root, and say so where they are skipped.

// Each test file uses its own part.
#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};

use tandem_testbed::LabError;
use tandem_testkit::skipped;

/// Whether the lab can run here; else says why the test did nothing.
pub fn may_run(test: &str) -> bool {
    let can_run = tandem_testkit::is_root() && Path::new("/dev/net/tun").exists();
    if !can_run {
        skipped(format_args!(
            "{test} needs root, network namespaces and /dev/net/tun"
        ));
    }
    can_run
}

/// The `tandem` binary, where the lab can run: `$TANDEM_EXE`, else where cargo builds it. `None`,
/// and a line that says so, where it cannot run or there is no binary.
pub fn tandem(test: &str) -> Option<PathBuf> {
    if !may_run(test) {
        return None;
    }
    let built = || {
        let own = std::env::current_exe().ok()?;
        // target/PROFILE/deps/TEST
        Some(own.parent()?.parent()?.join("tandem"))
    };
    let found = std::env::var_os("TANDEM_EXE")
        .map(PathBuf::from)
        .or_else(built)
        .filter(|path| path.exists());
    if found.is_none() {
        skipped(format_args!(
            "{test} needs the tandem binary: cargo build -p tandem, or TANDEM_EXE"
        ));
    }
    found
}

/// The same where the library is beside it that makes programs release keys.
pub fn tandem_with_keytap(test: &str) -> Option<PathBuf> {
    let exe = tandem(test)?;
    let has_library = tandem_testbed::client::keytap(&exe).is_ok();
    if !has_library {
        skipped(format_args!(
            "{test} needs libtandem_keytap.so, which the tests of the whole workspace build"
        ));
    }
    has_library.then_some(exe)
}

/// What a test makes of a file that it cannot use.
pub fn io(source: std::io::Error) -> LabError {
    LabError::Io {
        what: "use a file of the test".to_owned(),
        source,
    }
}

/// Whether the library is there that makes clients announce their certificates; else a line that
/// says so.
pub fn has_keytap(test: &str, exe: &Path) -> bool {
    const FILE: &str = "libtandem_keytap.so";
    let found = exe.parent().is_some_and(|folder| {
        [folder.join(FILE), folder.join("deps").join(FILE)]
            .iter()
            .any(|path| path.is_file())
    });
    if !found {
        skipped(format_args!(
            "{test} needs {FILE}, which the tests of the whole workspace build"
        ));
    }
    found
}
