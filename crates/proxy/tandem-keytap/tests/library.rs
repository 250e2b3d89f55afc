//! The shared object as the linker sees it: what it exports and what it needs.

mod support;

use std::process::Command;

use support::{library, run};
use tandem_testkit::has;

#[test]
fn it_exports_what_it_interposes_and_nothing_else() {
    if !has(&["nm"]) {
        return;
    }
    let listed = run(Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(library()));
    let listed = String::from_utf8(listed.stdout).expect("symbols are ASCII");
    let mut exports: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    exports.sort_unstable();
    assert_eq!(
        exports,
        [
            "BIO_new_buffer_ssl_connect",
            "BIO_new_ssl",
            "BIO_new_ssl_connect",
            "SSL_CTX_get_keylog_callback",
            "SSL_CTX_set_keylog_callback",
            "SSL_new",
            "SSL_set_SSL_CTX",
        ]
    );
}

#[test]
fn it_needs_the_c_library_and_no_openssl() {
    if !has(&["readelf", "nm"]) {
        return;
    }
    let dynamic = run(Command::new("readelf")
        .args(["--dynamic", "--wide"])
        .arg(library()));
    let dynamic = String::from_utf8(dynamic.stdout).expect("names are ASCII");
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    assert!(needed.contains(&"libc.so.6"), "{needed:?}");
    for library in needed {
        let of_c = ["libc.so", "libgcc_s.so", "ld-linux"];
        assert!(
            of_c.iter().any(|name| library.starts_with(name)),
            "{library}"
        );
    }
    let undefined = run(Command::new("nm")
        .args(["--dynamic", "--undefined-only", "--format=posix"])
        .arg(library()));
    let undefined = String::from_utf8(undefined.stdout).expect("symbols are ASCII");
    for symbol in undefined.lines() {
        let of_openssl = ["SSL_", "BIO_", "X509_", "OPENSSL_", "ERR_", "CRYPTO_"];
        assert!(
            !of_openssl.iter().any(|start| symbol.starts_with(start)),
            "{symbol}"
        );
    }
}
