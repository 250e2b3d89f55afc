//! Links the program so that it stays small: with packed relative relocations, which a loader since
//! glibc 2.36 reads (half a megabyte less), and, to be released, with one copy of functions whose
//! code is the same (a quarter). The first is left out where this system's loader is older, and in
//! a build for another one; the second where the linker does not know it.

use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first version of glibc whose loader reads them.
const SINCE: (u32, u32) = (2, 36);

/// What LLVM's linker calls it, which is Rust's own on most of Linux.
const FOLDING: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_native = env::var("HOST") == env::var("TARGET");
    if is_native && glibc().is_some_and(|version| version >= SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_native && is_release && links_with(FOLDING) {
        println!("cargo::rustc-link-arg-bins={FOLDING}");
    }
}

/// Whether a program can be linked here with this argument.
fn links_with(argument: &str) -> bool {
    let (Ok(rustc), Ok(folder)) = (env::var("RUSTC"), env::var("OUT_DIR")) else {
        return false;
    };
    let child = Command::new(rustc)
        .args(["-", "--crate-name", "probe", "-C"])
        .arg(format!("link-arg={argument}"))
        .arg("-o")
        .arg(Path::new(&folder).join("probe"))
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let is_told = child
        .stdin
        .take()
        .is_some_and(|mut stdin| stdin.write_all(b"fn main() {}").is_ok());
    child.wait().is_ok_and(|status| status.success()) && is_told
}

/// The version of this system's C library; `None` where it is another than glibc.
fn glibc() -> Option<(u32, u32)> {
    let answer = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let answer = String::from_utf8(answer.ok()?.stdout).ok()?;
    let (major, minor) = answer.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
