//! The command that tells what whole visits cost, on a link that is fast.

use std::fs;
use std::path::Path;

use crate::common::{self, io};
use tandem_lab::{VisitsOptions, visits};
use tandem_report::arm::Arm;
use tandem_report::visits::VisitCell;
use tandem_testbed::LabError;
use tandem_testkit::skipped;

/// The cells of these visits, and the page; `None` where this cannot be tried here.
fn visited(test: &str, names: &[&str]) -> Result<Option<(Vec<VisitCell>, String)>, LabError> {
    let Some(exe) = common::tandem(test) else {
        return Ok(None);
    };
    let out = tempfile::tempdir().map_err(io)?;
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    // Without the minute between two polls.
    let text = fs::read_to_string(experiments.join("visits.toml")).map_err(io)?;
    let file = out.path().join("visits.toml");
    fs::write(
        &file,
        text.replace("apart-seconds = 60\n", "apart-seconds = 1\n"),
    )
    .map_err(io)?;
    let page = visits(&VisitsOptions {
        file: Some(file),
        tariffs: vec![experiments.join("tariffs/by-byte.toml")],
        links: vec!["tcdl-10".to_owned()],
        visits: names.iter().map(|&name| name.to_owned()).collect(),
        trials: Some(1),
        out: out.path().to_owned(),
        exe,
    })?;
    let page = fs::read_to_string(page).map_err(io)?;
    let drawing = out.path().join("plots/visits-tcdl-10.svg");
    assert!(drawing.is_file() || page.contains("is left out"), "{page}");
    let lines = fs::read_to_string(out.path().join("visits.jsonl")).map_err(io)?;
    let cells = lines.lines().map(serde_json::from_str);
    let cells: Vec<VisitCell> = cells
        .collect::<Result<_, _>>()
        .map_err(|error| io(error.into()))?;
    Ok(Some((cells, page)))
}

/// All visits of this name brought what they should, and cost something.
#[track_caller]
fn assert_good(cells: &[VisitCell], name: &str) {
    let own: Vec<&VisitCell> = cells.iter().filter(|cell| cell.visit == name).collect();
    assert_eq!(own.len(), 5, "plain, and two arms with a first visit each");
    for cell in &own {
        let is_good = |trial: &tandem_report::visits::VisitTrial| trial.ok && trial.identical;
        assert!(cell.trials.iter().all(is_good), "{cell:#?}");
        assert!(cell.costs[0].visit_micros > 0, "{cell:#?}");
    }
}

fn bytes(cells: &[VisitCell], name: &str, arm: Arm) -> u64 {
    let own = cells.iter().filter(|cell| cell.visit == name);
    let of_arm = own.filter(|cell| cell.arm == arm);
    let trials = of_arm.flat_map(|cell| &cell.trials);
    trials
        .map(|trial| trial.link_bytes_up + trial.link_bytes_down)
        .sum()
}

#[test]
fn a_page_and_a_poll_come_whole_and_proxies_that_know_the_servers_carry_less()
-> Result<(), LabError> {
    const NAME: &str = "a_page_and_a_poll_come_whole_and_proxies_that_know_the_servers_carry_less";
    let Some((cells, page)) = visited(NAME, &["page", "poll"])? else {
        return Ok(());
    };
    for name in ["page", "poll"] {
        assert_good(&cells, name);
        let of = |arm| bytes(&cells, name, arm);
        // Certificates have 2.6 kB: six of the page's hosts, and the one of the API.
        assert!(of(Arm::Packet) < of(Arm::PacketCold), "{page}");
        assert!(of(Arm::Packet) + 1_500 < of(Arm::Plain), "{page}");
        assert!(of(Arm::Tunnel) < of(Arm::TunnelCold), "{page}");
        assert!(of(Arm::Tunnel) + 1_500 < of(Arm::Plain), "{page}");
    }
    assert!(
        bytes(&cells, "page", Arm::Plain) > 15_000 + 6 * 2_600,
        "{page}"
    );
    assert!(page.contains("by-byte: USD a visit"), "{page}");
    let between: u64 = cells
        .iter()
        .flat_map(|cell| &cell.trials)
        .map(|trial| trial.bytes_before)
        .sum();
    // What a busy machine is late with may cross, not what a visit needs again.
    assert!(between < 1_500, "{page}");
    Ok(())
}

/// A visit whose programs are all there comes whole, and proxies that know the server carry less.
/// The others are said to be skipped.
fn assert_come_whole(test: &str, names: &[&str]) -> Result<(), LabError> {
    let Some((cells, page)) = visited(test, names)? else {
        return Ok(());
    };
    for name in names {
        if page.contains(&format!("\n{name} is left out: ")) {
            skipped(format_args!(
                "{test}: {name} needs programs that are not installed (scripts/ensure-tools.sh visits)"
            ));
            continue;
        }
        assert_good(&cells, name);
        let of = |arm| bytes(&cells, name, arm);
        assert!(of(Arm::Packet) + 1_500 < of(Arm::Plain), "{page}");
        assert!(of(Arm::Tunnel) + 1_500 < of(Arm::Plain), "{page}");
    }
    Ok(())
}

#[test]
fn a_commit_and_lists_of_packages_come_whole() -> Result<(), LabError> {
    assert_come_whole("a_commit_and_lists_of_packages_come_whole", &["git", "apt"])
}

#[test]
fn a_report_by_mqtt_and_new_mail_come_whole() -> Result<(), LabError> {
    assert_come_whole(
        "a_report_by_mqtt_and_new_mail_come_whole",
        &["mqtt", "imap"],
    )
}
