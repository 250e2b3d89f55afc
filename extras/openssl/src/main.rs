//! Prints the folder with the source of OpenSSL that the registry's crate `openssl-src` brings.

fn main() {
    println!("{}", openssl_src::source_dir().display());
}
