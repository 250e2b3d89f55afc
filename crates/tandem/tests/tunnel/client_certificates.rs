//! Clients' certificates in the stores of a tunnel's two sides: there by default, and with
//! `--client-certificates none` in no byte of any file. nginx asks curl for its certificate, in TLS
//! 1.2 and, with the client's consent, in TLS 1.3.
//!
//! Is not: what crosses, and what comes of two sides that differ (`tandem-tunnel`).

#[cfg(feature = "shared-store")]
#[path = "../../../proxy/tandem-shared-store/tests/support/mod.rs"]
mod valkey;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::sealed::{asking, can_run, certified, consenting};
use crate::support::{real, tunnel_pair};
use nix::sys::signal::Signal;
use real::{KeyType, Pki, TlsVersion, wait_until};
use tunnel_pair::{Pair, start};

const NONE: [&str; 2] = ["--client-certificates", "none"];

/// So many bytes in a row are a certificate's own, unless two are made to be alike.
const PART: usize = 32;

/// Whether any part of the client's own certificate is in a file of this folder. Its issuers are
/// the server's, too, and so are its names: what is also in the server's chain is left out.
fn has_certificate(folder: &Path) -> bool {
    let [client, server] =
        [KeyType::Ecdsa, KeyType::Rsa].map(|key| Pki::shared().certificates(key));
    let of_server: HashSet<&[u8]> = server.iter().flat_map(|der| der.windows(PART)).collect();
    let of_client: HashSet<&[u8]> = client[0].windows(PART).collect();
    let own: HashSet<_> = of_client.difference(&of_server).copied().collect();
    assert!(own.len() > 256, "a key and a signature");
    let files = fs::read_dir(folder).expect("the store was made");
    let mut contents =
        files.map(|file| fs::read(file.expect("readable").path()).expect("readable"));
    contents.any(|bytes| bytes.windows(PART).any(|part| own.contains(part)))
}

/// Whether the stores of the client side and of the server side have the client's certificate,
/// after two visits with it by this version and with these settings on both sides.
fn kept(version: TlsVersion, settings: &[&str]) -> [bool; 2] {
    let pair = Pair::new();
    let site = asking(&mut Command::new("nginx"));
    site.publish("page", b"page");
    let server_side = start(pair.server_side(site.port).args(settings));
    let mut client_side = pair.client_side();
    client_side.args(["--prefer", "bytes", "--handshake-keys"]);
    let client_side = start(client_side.arg(pair.path("keys")).args(settings));
    let mut curl = certified(&pair).version(version).command(site.port, "page");
    let mut visit = || {
        let output = consenting(&mut curl, &pair).output().expect("curl runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(output.stdout, b"page");
    };
    match version {
        TlsVersion::Tls10 | TlsVersion::Tls11 | TlsVersion::Tls12 => {
            (0..2).for_each(|_| visit());
        }
        // On a busy machine a key may come late: then neither flight crosses opened.
        TlsVersion::Tls13 => wait_until("the server's flight crosses opened twice", || {
            visit();
            let opened = pair.client_side_counts("tunnel_flights_sealed");
            let crossed = pair.client_side_counts("tunnel_opened_flights_written");
            opened >= 2 && (crossed >= 2 || settings == NONE)
        }),
    }
    let crossed = pair.client_side_counts("tunnel_opened_flights_written");
    assert!(crossed == 0 || settings != NONE);
    // At its end each has written what it learned.
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    ["store-a", "store-b"].map(|store| has_certificate(&pair.path(store)))
}

#[test]
fn with_none_no_byte_of_a_client_s_certificate_is_in_a_store_and_by_default_it_is_in_both() {
    if !can_run() {
        return;
    }
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        assert_eq!(kept(version, &[]), [true; 2], "{version:?}");
        assert_eq!(kept(version, &NONE), [false; 2], "{version:?}");
    }
}

/// Whether the stores of two server sides that share what they know have the client's certificate:
/// the first, where the client was, and the second, to which only its client side has moved.
#[cfg(feature = "shared-store")]
fn kept_by_both(valkey: &valkey::RealServer, settings: [&[&str]; 2]) -> [bool; 2] {
    let pair = Pair::new();
    let site = asking(&mut Command::new("nginx"));
    site.publish("page", b"page");
    let server_side = |settings: &[&str]| {
        let mut command = pair.server_side(site.port);
        command.args(["--shared-store", &valkey.address()]);
        start(command.args(settings))
    };
    let first = server_side(settings[0]);
    let _client_side = pair.start_client_side();
    let certified = certified(&pair).version(TlsVersion::Tls12);
    certified.gets(site.port, "page", b"page");
    // At its end it has written what it learned, and shared it.
    assert_eq!(first.end(Signal::SIGTERM), Some(0));
    fs::rename(pair.path("store-b"), pair.path("store-first")).expect("ours");
    let second = server_side(settings[1]);
    wait_until("the second takes in what the first has noted", || {
        // nginx refuses the request: this client shows no certificate.
        pair.by_socks().fetch(site.port, "page");
        pair.server_side_counts("shared_store_notes_used") > 0
    });
    assert_eq!(second.end(Signal::SIGTERM), Some(0));
    ["store-first", "store-b"].map(|store| has_certificate(&pair.path(store)))
}

#[cfg(feature = "shared-store")]
#[test]
fn with_none_a_server_side_shares_no_client_s_certificate_and_takes_none() {
    let Some(valkey) = valkey::RealServer::start(&[]) else {
        return;
    };
    if !real::has(&["nginx", "curl", "openssl"]) {
        return;
    }
    let cases: [([&[&str]; 2], [bool; 2]); 3] = [
        ([&[], &[]], [true, true]),
        ([&NONE, &[]], [false, false]),
        ([&[], &NONE], [true, false]),
    ];
    for (settings, expected) in cases {
        assert_eq!(kept_by_both(&valkey, settings), expected, "{settings:?}");
        valkey.ask(&["FLUSHALL"]);
    }
}
