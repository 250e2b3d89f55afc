//! The cases of the thesis's table 2.2 with the daemons: what crosses the link, and that the
//! endpoints get each other's bytes.
//!
//! Is not: how long it takes, which is the experiments' business.

use std::fs;

use crate::common::{self, io};
use tandem_lab::{Captures, RunOptions, run_experiment};
use tandem_report::arm::Arm;
use tandem_report::row::{Crossed, Row};
use tandem_report::situation::Situation;
use tandem_testbed::{Effort, LabError};

const EXPERIMENT: &str = r#"
name = "situations"
about = "The situations on a fast link, once each."
seed = 3
trials = 2
links = ["fast"]
endpoints = ["small-keys"]
arms = ["packet", "packet-mcveety"]
side-by-side = 4
situations = [SITUATIONS]

[[endpoint]]
name = "small-keys"
client = "s_client"
version = "1.2"
offer = "only"
key = "ecdsa-p256"
chain = 3
leaf-bytes = 926
issuer-bytes = 900
repeat-after-ms = 2000

[[link]]
name = "fast"
up = 1000000
down = 1000000
delay-ms = 10.0
"#;

/// The rows of these situations; `None` where this cannot be tried here.
fn rows_of(test: &str, situations: &[Situation]) -> Result<Option<Vec<Row>>, LabError> {
    let Some(exe) = common::tandem(test) else {
        return Ok(None);
    };
    let out = tempfile::tempdir().map_err(io)?;
    let file = out.path().join("situations.toml");
    let names: Vec<String> = situations
        .iter()
        .map(|situation| format!("{:?}", situation.name()))
        .collect();
    fs::write(&file, EXPERIMENT.replace("SITUATIONS", &names.join(", "))).map_err(io)?;
    let summary = run_experiment(&RunOptions {
        file,
        effort: Effort::Full,
        out: Some(out.path().to_owned()),
        exe,
        links: Vec::new(),
        endpoints: Vec::new(),
        arms: Vec::new(),
        situations: Vec::new(),
        trials: None,
        captures: Captures::Off,
    })?;
    let text = fs::read_to_string(&summary.rows).map_err(io)?;
    let rows: Vec<Row> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert_eq!(rows.len(), situations.len() * 2 * 2, "{text}");
    Ok(Some(rows))
}

/// In a situation an arm's certificates cross so. On a machine that is busy for longer than the
/// daemons' patience a flight crosses as it is, so one of the trials is enough.
#[track_caller]
fn assert_crossed(rows: &[Row], situation: Situation, arm: Arm, wanted: &[Crossed]) {
    let of_arm: Vec<&Row> = rows
        .iter()
        .filter(|row| row.situation == Some(situation) && row.arm == arm)
        .collect();
    assert!(
        of_arm.iter().all(|row| row.ok && row.identical),
        "{of_arm:#?}"
    );
    assert!(
        of_arm
            .iter()
            .any(|row| row.crossed.is_some_and(|crossed| wanted.contains(&crossed))),
        "{of_arm:#?}"
    );
}

#[test]
fn two_proxies_that_disagree_end_with_the_chain_and_the_right_bytes() -> Result<(), LabError> {
    let situations = [
        Situation::Case0,
        Situation::Case2,
        Situation::Case3,
        Situation::Case5,
    ];
    let Some(rows) = rows_of(
        "two_proxies_that_disagree_end_with_the_chain_and_the_right_bytes",
        &situations,
    )?
    else {
        return Ok(());
    };
    // What is not held crosses compressed in the safe format, and as it is in the thesis's.
    for (arm, not_held) in [
        (Arm::Packet, Crossed::Part),
        (Arm::PacketMcveety, Crossed::Chain),
    ] {
        for (situation, wanted) in situations.into_iter().zip([
            Crossed::Reference,
            not_held,
            Crossed::ReferenceThenChain,
            Crossed::Chain,
        ]) {
            assert_crossed(&rows, situation, arm, &[wanted]);
        }
    }
    Ok(())
}

#[test]
fn a_client_side_may_roam_between_server_sides_and_two_may_share_one() -> Result<(), LabError> {
    let situations = [
        Situation::Case4,
        Situation::Roamed,
        Situation::SecondClientSide,
        Situation::ReplyByOtherServerSide,
    ];
    let Some(rows) = rows_of(
        "a_client_side_may_roam_between_server_sides_and_two_may_share_one",
        &situations,
    )?
    else {
        return Ok(());
    };
    for situation in [Situation::Roamed, Situation::SecondClientSide] {
        for arm in [Arm::Packet, Arm::PacketMcveety] {
            assert_crossed(&rows, situation, arm, &[Crossed::Reference]);
        }
    }
    let case_4 = Situation::Case4;
    let again = [Crossed::ReferenceThenChain];
    assert_crossed(&rows, case_4, Arm::Packet, &again);
    let other = Situation::ReplyByOtherServerSide;
    for arm in [Arm::Packet, Arm::PacketMcveety] {
        assert_crossed(&rows, other, arm, &[Crossed::Chain]);
    }
    // Of packets that come to a server side in the middle of a connection all at once, none is
    // lost: the ends repeat nothing, since they wait longer than a busy machine keeps a packet.
    for arm in [Arm::Packet, Arm::PacketMcveety] {
        let of_arm = rows
            .iter()
            .filter(|row| row.situation == Some(other) && row.arm == arm);
        let repeats: Vec<Option<u64>> = of_arm.map(|row| row.endpoint_repeats).collect();
        assert!(repeats.contains(&Some(0)), "{arm:?}: {repeats:?}");
    }
    Ok(())
}

#[test]
fn what_the_server_shows_decides_what_is_expected() -> Result<(), LabError> {
    let situations = [
        Situation::ChangedCertificate,
        Situation::TwoCertificates,
        Situation::NoServerName,
        Situation::VirtualHosts,
        Situation::Expired,
    ];
    let Some(rows) = rows_of(
        "what_the_server_shows_decides_what_is_expected",
        &situations,
    )?
    else {
        return Ok(());
    };
    // The safe format also reuses what a leaf has of another by the same issuers, which in this
    // laboratory is nearly all of it.
    let reused: &[Crossed] = &[Crossed::Reference, Crossed::Part];
    for (arm, renewed, expired) in [
        (Arm::Packet, reused, reused),
        (
            Arm::PacketMcveety,
            &[Crossed::Part][..],
            &[Crossed::Chain][..],
        ),
    ] {
        assert_crossed(&rows, Situation::ChangedCertificate, arm, renewed);
        assert_crossed(&rows, Situation::Expired, arm, expired);
        for situation in [
            Situation::TwoCertificates,
            Situation::NoServerName,
            Situation::VirtualHosts,
        ] {
            assert_crossed(&rows, situation, arm, &[Crossed::Reference]);
        }
    }
    Ok(())
}
