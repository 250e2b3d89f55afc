//! What the tests with real programs share.
#![allow(dead_code, reason = "each test takes what it needs of it")]

pub(crate) mod pki;

use std::process::{Command, Output, Stdio};

/// Runs a program to its end; it must succeed.
pub(crate) fn ran(command: &mut Command) -> Output {
    let out = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        out.status.success(),
        "{command:?}: {}\n{}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    out
}
