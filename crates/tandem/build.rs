//! Links the program with packed relative relocations, which a loader since glibc 2.36 reads: half
//! a megabyte less. Left out where this system's loader is older, and in a build for another one.

use std::env;
use std::process::Command;

/// The first version of glibc whose loader reads them.
const SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_native = env::var("HOST") == env::var("TARGET");
    if is_native && glibc().is_some_and(|version| version >= SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this system's C library; `None` where it is another than glibc.
fn glibc() -> Option<(u32, u32)> {
    let answer = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let answer = String::from_utf8(answer.ok()?.stdout).ok()?;
    let (major, minor) = answer.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
