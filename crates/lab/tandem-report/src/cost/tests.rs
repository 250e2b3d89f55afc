//! Tables and answers out of rows that are made up.

use super::*;
use crate::cost_row::CostPhase;

fn arm(tls: Option<&str>, reuse: u8, bytes: u64) -> CostArm {
    CostArm {
        server: "nginx".to_owned(),
        tls: tls.map(str::to_owned),
        resumption: "any".to_owned(),
        reuse,
        key: "RSA-2048".to_owned(),
        bytes,
    }
}

fn load(arm: CostArm, user_us: f64) -> CostRow {
    CostRow::Load(load_row(arm, user_us))
}

fn load_row(arm: CostArm, user_us: f64) -> LoadRow {
    LoadRow {
        arm,
        connections_per_second: 900.0,
        requests_per_second: 900.0,
        connections: 1_000,
        resumed: 500,
        server_resumed: Some([500, 1_000]),
        refused: 0,
        nothing_to_offer: 0,
        failures: 0,
        p50_us: 9_000,
        p99_us: 20_000,
        user_us,
        kernel_us: 0.0,
        switches: 1.0,
        peak_kib: 8_000,
        memory_kib: 6_000,
        processes: 2,
        generator_us: 300.0,
        generator_limited: false,
        steady: true,
    }
}

fn rows() -> Vec<CostRow> {
    let mut rows = vec![
        load(arm(None, 0, PAGE), 100.0),
        load(arm(Some("1.3"), 0, PAGE), 1_000.0),
        load(arm(Some("1.3"), 50, PAGE), 700.0),
        load(arm(Some("1.3"), 100, PAGE), 400.0),
    ];
    for (key, user_us) in [("RSA-2048", 1_000.0), ("P-256", 250.0)] {
        let mut of_key = arm(Some("1.3"), 0, PAGE);
        of_key.key = key.to_owned();
        rows.push(CostRow::Key(KeyRow {
            load: load_row(of_key, user_us),
            chain_bytes: 1_000,
            handshake_bytes: 1_500.0,
        }));
    }
    rows.push(CostRow::Phases(PhasesRow {
        arm: arm(Some("1.3"), 0, PAGE),
        connections: 100,
        server_us: 1_000.0,
        handshake_us: 800.0,
        library_us: 900.0,
        clock_us: 0.2,
        phases: [("private key", 500.0), ("records", 50.0)]
            .map(|(name, us)| CostPhase {
                name: name.to_owned(),
                us,
                calls: 1.0,
                bytes: 0.0,
            })
            .to_vec(),
    }));
    rows
}

fn line(tables: &[Table], title: &str) -> Vec<String> {
    let table = tables.iter().find(|table| table.title.contains(title));
    table.expect("a table").lines[0].clone()
}

#[test]
fn rates_follow_from_processor_time() {
    let tables = tables(&rows());
    let line = line(&tables, "as reuse grows, TLS 1.3");
    let expected = [
        "nginx", "10,000", "1,000", ABSENT, "1,429", ABSENT, "2,500", "2.5", "10.0", "50.0 %",
    ];
    assert_eq!(line, expected);
}

#[test]
fn kinds_of_keys_are_compared_with_rsa_2048() {
    let tables = tables(&rows());
    let table = tables
        .iter()
        .find(|table| table.title.contains("server's key"));
    let table = table.expect("a table");
    assert_eq!(table.lines[1][2..6], ["P-256", "250", "4,000", "4.0"]);
    assert_eq!(table.lines[1].len(), table.columns.len());
}

#[test]
fn the_phases_and_what_is_left_are_the_whole() {
    let tables = tables(&rows());
    let line = line(&tables, "files of 12 kB");
    let figures: Vec<f64> = line[1..6]
        .iter()
        .map(|text| text.replace(',', "").parse().unwrap())
        .collect();
    assert_eq!(figures, [500.0, 50.0, 350.0, 100.0, 1_000.0]);
    assert!((figures[..4].iter().sum::<f64>() - figures[4]).abs() < 1.0);
    assert_eq!(line[6], number::percent(0.8));
}

#[test]
fn the_claims_of_1999_are_answered_with_figures() {
    let answers = answers(&rows()).join("\n");
    for words in [
        "16.7 (Apache)",
        "10.0 (nginx)",
        "(nginx): full, RSA-2048: handshake 80 %, records 5 %.",
    ] {
        assert!(answers.contains(words), "{words}: {answers}");
    }
    let page = markdown(&rows());
    assert!(page.contains("| 1999: Apache | 15 |"), "{page}");
    // Without rows there is nothing to compare, and no table.
    assert!(tables(&[]).is_empty());
}

#[test]
fn a_row_is_read_as_it_was_written() {
    for row in rows() {
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(
            serde_json::from_str::<CostRow>(&text).unwrap(),
            row,
            "{text}"
        );
    }
}
