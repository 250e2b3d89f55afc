//! Whole trials on a fast link: programs, captures, counts.

use std::path::PathBuf;
use std::time::Duration;

use crate::common;
use tandem_lab::lane::{Lane, LaneSpec};
use tandem_report::arm::Arm;
use tandem_report::row::Row;
use tandem_testbed::endpoints::{
    ClientProgram, Endpoints, FamilyName, Offer, ServerProgram, Version,
};
use tandem_testbed::pki::{self, KeyKind};
use tandem_testbed::{LabError, LinkSpec};

const LIMIT: Duration = Duration::from_secs(30);

fn fast() -> Result<tandem_netsim::link::LinkConfig, LabError> {
    LinkSpec {
        name: "test".to_owned(),
        up: Some(10_000_000),
        down: Some(10_000_000),
        delay_ms: Some(2.0),
        ..LinkSpec::default()
    }
    .config()
}

fn one_trial(endpoints: &Endpoints) -> Result<Row, LabError> {
    let directory = tempfile::tempdir().map_err(|source| LabError::Io {
        what: "make a directory".to_owned(),
        source,
    })?;
    let chain = pki::issue(directory.path(), "chain", &endpoints.chain_spec())?;
    let spec = LaneSpec {
        experiment: "test",
        link_name: "test",
        link: fast()?,
        arm: Arm::Plain,
        endpoints,
        chain: &chain,
        client: None,
        exe: &PathBuf::from("tandem"),
        seed: 1,
        capture: None,
    };
    let mut lane = Lane::build(&spec, LIMIT)?;
    Ok(lane.trial()?.row)
}

/// What must hold of any plain trial on the test's link.
fn assert_sound(row: &Row, certificates: usize) {
    assert!(row.ok && row.identical, "{row:?}");
    let handshake = row.seconds_handshake.unwrap_or(0.0);
    // SYN, hello and key exchange make three round trips of 4 ms.
    assert!(handshake > 0.012, "{row:?}");
    let sent: usize = row.certificates.iter().sum();
    assert_eq!(row.certificates.len(), certificates);
    assert!(row.tls_bytes_down > Some(sent as u64), "{row:?}");
    assert!(Some(row.handshake_bytes()) > row.tls_bytes(), "{row:?}");
    assert!(row.link_bytes() > row.handshake_bytes(), "{row:?}");
    assert_eq!(row.option_bytes, Some(0));
}

#[test]
fn the_named_cases_work_and_are_measured() -> Result<(), LabError> {
    if !common::may_run("the_named_cases_work_and_are_measured") {
        return Ok(());
    }
    for (endpoints, certificates) in [
        (Endpoints::one(), 1),
        (Endpoints::three(), 3),
        (Endpoints::curl(), 3),
    ] {
        let row = one_trial(&endpoints)?;
        assert_sound(&row, certificates);
        assert_eq!(row.certificates[0], 926);
        let floor = row.floor_bytes.unwrap_or(0);
        // Two randoms, two session identifiers at most, two shares of X25519, an RSA signature, two
        // Finished, four headers.
        assert!((500..700).contains(&floor), "{row:?}");
        assert!(row.seconds_first_byte > row.seconds_handshake);
    }
    Ok(())
}

#[test]
fn every_program_serves_and_asks_also_in_old_versions_and_over_ipv6() -> Result<(), LabError> {
    if !common::may_run("every_program_serves_and_asks_also_in_old_versions_and_over_ipv6") {
        return Ok(());
    }
    let base = Endpoints {
        key: KeyKind::EcdsaP256,
        leaf_bytes: None,
        issuer_bytes: None,
        ..Endpoints::three()
    };
    for (client, server, version, family) in [
        (
            ClientProgram::SClient,
            ServerProgram::SServer,
            Version::Tls12,
            FamilyName::Ipv6,
        ),
        (
            ClientProgram::SClient,
            ServerProgram::Nginx,
            Version::Tls10,
            FamilyName::Ipv4,
        ),
        (
            ClientProgram::Curl,
            ServerProgram::SServer,
            Version::Tls11,
            FamilyName::Ipv4,
        ),
        (
            ClientProgram::Curl,
            ServerProgram::Nginx,
            Version::Tls10,
            FamilyName::Ipv6,
        ),
        (
            ClientProgram::GnutlsCli,
            ServerProgram::Nginx,
            Version::Tls12,
            FamilyName::Ipv6,
        ),
        (
            ClientProgram::GnutlsCli,
            ServerProgram::SServer,
            Version::Tls12,
            FamilyName::Ipv4,
        ),
    ] {
        let row = one_trial(&Endpoints {
            client,
            server,
            version,
            family,
            offer: Offer::Only,
            ..base.clone()
        })?;
        assert_sound(&row, 3);
    }
    Ok(())
}

#[test]
fn the_thesis_s_own_suite_and_tls_1_3_are_measured_as_far_as_they_show() -> Result<(), LabError> {
    if !common::may_run("the_thesis_s_own_suite_and_tls_1_3_are_measured_as_far_as_they_show") {
        return Ok(());
    }
    let thesis = one_trial(&Endpoints {
        version: Version::Tls10,
        suites: Some("AES256-SHA".to_owned()),
        ..Endpoints::one()
    })?;
    assert_sound(&thesis, 1);
    let modern = one_trial(&Endpoints {
        version: Version::Tls13,
        ..Endpoints::curl()
    })?;
    assert!(modern.ok && modern.identical, "{modern:?}");
    assert!(
        modern
            .seconds_handshake
            .is_some_and(|seconds| seconds > 0.008)
    );
    assert_eq!(modern.seconds_first_byte, None);
    // Three random values, two shares of X25519, an RSA signature, two Finished (one with its tag),
    // three headers.
    let floor = modern.floor_bytes.unwrap_or(0);
    assert!((550..650).contains(&floor), "{modern:?}");
    Ok(())
}

#[test]
fn a_client_that_fails_is_a_row_that_says_why() -> Result<(), LabError> {
    if !common::may_run("a_client_that_fails_is_a_row_that_says_why") {
        return Ok(());
    }
    // The server has an RSA certificate, and accepts suites for ECDSA only.
    let row = one_trial(&Endpoints {
        suites: Some("ECDHE-ECDSA-AES128-GCM-SHA256".to_owned()),
        ..Endpoints::one()
    })?;
    assert!(!row.ok);
    assert!(row.identical, "{row:?}");
    assert!(row.error.is_some());
    assert_eq!(row.seconds_handshake, None);
    Ok(())
}
