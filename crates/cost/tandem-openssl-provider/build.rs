//! A client's thread may run until the process ends, so the library stays in memory when OpenSSL
//! unloads its providers.

fn main() {
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
