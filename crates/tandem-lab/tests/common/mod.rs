//! What the tests in namespaces share: they need root, and say so where they are skipped.

// Each test file uses its own part.
#![allow(dead_code, unreachable_pub)]

use std::io::Write;

/// Whether the lab can run here; else says why the test did nothing.
pub fn may_run(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    let tun = std::path::Path::new("/dev/net/tun").exists();
    if !(root && tun) {
        // Straight to the terminal: a skipped test is not to look like one that passed.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test} needs root, network namespaces and /dev/net/tun"
        );
    }
    root && tun
}
