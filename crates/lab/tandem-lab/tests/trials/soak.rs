//! A small soak: handshakes over a harmful link, with the proxies killed in between, none of which
//! may fail.

use std::fs;

use crate::common::{self, io};
use tandem_lab::{SoakOptions, Through, soak};
use tandem_testbed::{Effort, LabError};

#[test]
fn handshakes_survive_a_harmful_link_and_proxies_that_are_killed() -> Result<(), LabError> {
    const NAME: &str = "handshakes_survive_a_harmful_link_and_proxies_that_are_killed";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    // Where a page differs, a connection fails or a rule is left, it is an error.
    let summary = soak(&SoakOptions {
        effort: Effort::Quick,
        through: Through::Packet,
        handshakes: 200,
        seed: 1,
        out: out.path().to_owned(),
        exe,
    })?;
    assert!(summary.handshakes >= 200, "{summary:?}");
    assert!(summary.rewritten > 0, "{summary:?}");
    let page = fs::read_to_string(&summary.page).map_err(io)?;
    assert!(page.contains("| failed | 0 |"), "{page}");
    let line = fs::read_to_string(out.path().join("soak.jsonl")).map_err(io)?;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
    let of = |what: &str| line["faults"][what].as_u64().unwrap_or_default();
    assert!(
        of("client_side_killed") + of("server_side_killed") > 0,
        "{line}"
    );
    assert!(line["harm"]["lost"].as_u64() > Some(0), "{line}");
    // Each kind of handshake takes part, and its own part of the proxies.
    for kind in ["full", "identifier", "ticket", "mutual", "mutual-ticket"] {
        let well = line["tally"]["by_kind"][kind]["well"].as_u64();
        assert!(well > Some(0), "no {kind}: {line}");
    }
    for counted in ["client_flights_written", "tickets_referred"] {
        assert!(
            line["counted"][counted].as_u64() > Some(0),
            "{counted}: {line}"
        );
    }
    Ok(())
}

#[test]
fn the_tunnel_loses_no_connection_but_those_of_a_proxy_that_is_killed() -> Result<(), LabError> {
    const NAME: &str = "the_tunnel_loses_no_connection_but_those_of_a_proxy_that_is_killed";
    let Some(exe) = common::tandem(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    // Where a page differs, a connection fails or a rule is left, it is an error.
    let summary = soak(&SoakOptions {
        effort: Effort::Quick,
        through: Through::Tunnel,
        handshakes: 1_000,
        seed: 2,
        out: out.path().to_owned(),
        exe,
    })?;
    assert!(summary.handshakes >= 1_000, "{summary:?}");
    assert!(summary.rewritten > 0, "{summary:?}");
    let line = fs::read_to_string(out.path().join("soak-tunnel.jsonl")).map_err(io)?;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
    let of = |what: &str| line["faults"][what].as_u64().unwrap_or_default();
    let kills = of("client_side_killed") + of("server_side_killed");
    assert!(kills + of("link_cut") > 0, "{line}");
    let well = line["tally"]["well"].as_u64();
    assert!(well >= Some(800), "most live: {line}");
    Ok(())
}

#[test]
fn with_consent_no_handshake_is_lost_to_keys_that_are_late_lost_wrong_or_repeated()
-> Result<(), LabError> {
    const NAME: &str =
        "with_consent_no_handshake_is_lost_to_keys_that_are_late_lost_wrong_or_repeated";
    let Some(exe) = common::tandem_with_keytap(NAME) else {
        return Ok(());
    };
    let out = tempfile::tempdir().map_err(io)?;
    // Where a page differs, a connection fails or a rule is left, it is an error.
    let summary = soak(&SoakOptions {
        effort: Effort::Quick,
        through: Through::TunnelConsent,
        handshakes: 400,
        seed: 1,
        out: out.path().to_owned(),
        exe,
    })?;
    assert!(summary.handshakes >= 400, "{summary:?}");
    assert!(summary.sealed > 0, "{summary:?}");
    let line = fs::read_to_string(out.path().join("soak-consent.jsonl")).map_err(io)?;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
    for fate in ["untouched", "late", "lost", "wrong", "repeated", "foreign"] {
        let keys = line["keys"][fate].as_u64();
        assert!(keys > Some(0), "no key was {fate}: {line}");
    }
    let versions = line["tally"]["by_version"].as_object().map(|it| it.len());
    assert_eq!(versions, Some(1), "{line}");
    assert!(line["counted"]["keys_asked"].as_u64() > Some(0), "{line}");
    Ok(())
}
