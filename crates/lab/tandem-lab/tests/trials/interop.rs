//! The interoperability command with the programs that every lab has: what it says, and what it
//! writes.

use std::fs;

use crate::common::{self, io};
use tandem_lab::{InteropOptions, interop};
use tandem_testbed::{Effort, LabError};

#[test]
fn clients_and_servers_meet_through_the_proxies_and_the_table_says_so() -> Result<(), LabError> {
    const NAME: &str = "clients_and_servers_meet_through_the_proxies_and_the_table_says_so";
    let Some(exe) = common::tandem_with_keytap(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    // Where a pair fails through the proxies, a byte differs, or nothing is rewritten, it is an
    // error.
    let summary = interop(&InteropOptions {
        effort: Effort::Quick,
        out: out.path().to_owned(),
        exe,
    })?;
    assert_eq!(summary.rewritten, 6, "three clients, two servers, TLS 1.2");
    assert_eq!(summary.untouched, 6, "the same, TLS 1.3");
    // Servers' consent has all three cross opened; of the clients, GnuTLS's releases no key.
    assert_eq!(
        (summary.sealed, summary.closed),
        (8, 1),
        "nginx, each consent"
    );
    let page = fs::read_to_string(&summary.page).map_err(io)?;
    for line in [
        "## TLS 1.2",
        "## TLS 1.3",
        "| curl | untouched | untouched |",
        "## TLS 1.3 with the client's consent, through the tunnel",
        "| GnuTLS gnutls-cli | closed |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    assert!(!page.contains("cannot |"), "{page}");
    let lines = fs::read_to_string(&summary.lines).map_err(io)?;
    for line in lines.lines() {
        let cell: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let bytes = |arm: &str| cell[arm]["tls_bytes"].as_u64().unwrap_or_default();
        let version = cell["plain"]["version"].as_str().unwrap_or_default();
        assert_eq!(cell["version"], version, "{cell}");
        // Three certificates of some 800 bytes cross once more, or do not. What a busy machine
        // repeats comes on top.
        assert!(bytes("plain") > 2_400, "{cell}");
        let link = |arm: &str| cell[arm]["link_bytes"].as_u64().unwrap_or_default();
        match version {
            // A page of 4 kB comes on top, the tunnel's own bytes, and what a busy machine repeats.
            _ if cell["verdict"] == "untouched" && !cell["consent"].is_null() => {
                assert!(link("warm") > 6_000, "{cell}");
            }
            _ if !cell["consent"].is_null() => {
                assert!(
                    cell["warm"]["rebuilt_bytes"].as_u64() > Some(1_500),
                    "{cell}"
                );
            }
            "1.2" => assert!(bytes("warm") < bytes("plain"), "{cell}"),
            _ => assert!(bytes("warm") > 2_400, "{cell}"),
        }
    }
    assert_eq!(lines.lines().count(), 12 + 9);
    Ok(())
}
