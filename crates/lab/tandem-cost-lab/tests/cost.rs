//! A minute's worth at the servers that every machine with a lab has: what is written, and whether
//! generator and servers agree.

use std::fs;
use std::path::Path;

use tandem_cost_lab::{CostOptions, Part, cost};
use tandem_report::cost_row::{CostRow, KeyRow, LoadRow, PhasesRow};
use tandem_testbed::{Effort, installed, interrupt, programs};

fn rows(out: &Path) -> Vec<CostRow> {
    let lines = fs::read_to_string(out.join("cost.jsonl")).expect("rows were written");
    let rows = lines.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().expect("rows")
}

fn loads(rows: &[CostRow]) -> Vec<&LoadRow> {
    let loads = rows.iter().filter_map(|row| match row {
        CostRow::Load(row) => Some(row),
        CostRow::Key(_) | CostRow::Phases(_) | CostRow::Bar(_) | CostRow::Absent(_) => None,
    });
    loads.collect()
}

/// The phases lie within the library's time, and that within the server's.
fn assert_parts(row: &PhasesRow) {
    let us = |name: &str| {
        row.phases
            .iter()
            .find(|phase| phase.name == name)
            .map(|phase| phase.us)
    };
    assert!(us("private key") > Some(50.0), "{row:?}");
    assert!(us("records") > Some(0.0), "{row:?}");
    let phases: f64 = row.phases.iter().map(|phase| phase.us).sum();
    // The clock's own time is an estimate.
    assert!(phases <= 1.05 * row.library_us, "{row:?}");
    assert!(row.handshake_us <= row.library_us, "{row:?}");
    assert!(row.library_us <= 1.05 * row.server_us, "{row:?}");
}

#[test]
fn servers_and_generator_count_the_same_sessions() {
    let mut wanted = vec!["nginx".to_owned(), "rustls-hyper".to_owned()];
    if installed::find("apache2").is_some() {
        wanted.push("apache-event".to_owned());
    }
    if ["nginx", "openssl"]
        .iter()
        .any(|name| installed::find(name).is_none())
    {
        tandem_testkit::skipped("needs nginx and openssl");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let page = cost(&CostOptions {
        effort: Effort::Quick,
        servers: wanted.clone(),
        parts: Vec::new(),
        rounds: 1,
        out: folder.path().to_owned(),
    })
    .expect("it was measured");
    let rows = rows(folder.path());
    let timed: Vec<&PhasesRow> = rows
        .iter()
        .filter_map(|row| match row {
            CostRow::Phases(row) => Some(row),
            CostRow::Load(_) | CostRow::Key(_) | CostRow::Bar(_) | CostRow::Absent(_) => None,
        })
        .collect();
    // Cargo builds the library for the tests of its own package.
    let expected = match programs::cost_tap() {
        Ok(_) => wanted.len() - 1,
        Err(_) => 0,
    };
    assert_eq!(timed.len(), expected, "hyper has no OpenSSL");
    timed.into_iter().for_each(assert_parts);
    let rows = loads(&rows);
    for server in &wanted {
        let of_server: Vec<&&LoadRow> = rows
            .iter()
            .filter(|row| row.arm.server == *server)
            .collect();
        assert_eq!(of_server.len(), 3, "{server}");
        for row in of_server {
            assert!(row.connections > 0 && row.server_us() > 0.0, "{row:?}");
            assert_eq!(row.failures, 0, "{row:?}");
            if row.arm.reuse == 50 {
                // By the generator's rule each resumed session follows a new one.
                let fresh = row.connections - row.resumed;
                assert!(
                    row.resumed > 0 && fresh.abs_diff(row.resumed) <= 4 + row.refused,
                    "{row:?}"
                );
                let [resumed, all] = row.server_resumed.expect("both tell");
                // What a server writes down last may still be on its way.
                assert!(resumed.abs_diff(row.resumed) <= 8, "{row:?}");
                assert!(all.abs_diff(row.connections) <= 8, "{row:?}");
            }
        }
    }
    let page = fs::read_to_string(page).expect("the page was written");
    for words in [
        "The figures of 1999 beside ours",
        "as reuse grows, TLS 1.3",
        "nginx",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(folder.path().join("cost.run.json").is_file());
    // A server that ends, and with it its process group, ends nothing else.
    interrupt::check().expect("nobody has interrupted it");
}

#[test]
fn every_kind_of_key_is_served_and_compared() {
    if ["nginx", "openssl"]
        .iter()
        .any(|name| installed::find(name).is_none())
    {
        tandem_testkit::skipped("needs nginx and openssl");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let page = cost(&CostOptions {
        effort: Effort::Quick,
        servers: vec!["nginx".to_owned()],
        parts: vec![Part::Keys],
        rounds: 1,
        out: folder.path().to_owned(),
    })
    .expect("it was measured");
    let rows = rows(folder.path());
    let keys: Vec<&KeyRow> = rows
        .iter()
        .map(|row| match row {
            CostRow::Key(row) => row,
            CostRow::Load(_) | CostRow::Phases(_) | CostRow::Bar(_) | CostRow::Absent(_) => {
                panic!("no other part was asked for: {row:?}")
            }
        })
        .collect();
    let mut kinds: Vec<&str> = keys.iter().map(|row| row.load.arm.key.as_str()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "RSA-2048", "RSA-3072", "RSA-4096", "P-256", "P-384", "Ed25519"
        ]
    );
    assert_eq!(keys.len(), 12, "both versions of TLS");
    for row in &keys {
        let load = &row.load;
        assert!(load.connections > 0 && load.failures == 0, "{row:?}");
        // The server sends its chain, and a signature at least.
        assert!(
            row.handshake_bytes > row.chain_bytes as f64 + 64.0,
            "{row:?}"
        );
    }
    let bytes = |key: &str| {
        let found = keys.iter().find(|row| row.load.arm.key == key);
        found.map(|row| row.chain_bytes)
    };
    assert!(bytes("RSA-4096") > bytes("RSA-2048") && bytes("RSA-2048") > bytes("Ed25519"));
    let page = fs::read_to_string(page).expect("the page was written");
    assert!(
        page.contains("What the kind of the server's key costs"),
        "{page}"
    );
}

#[test]
fn a_server_of_no_such_name_is_said_to_be_none() {
    let wrong = cost(&CostOptions {
        effort: Effort::Quick,
        servers: vec!["iis".to_owned()],
        parts: Vec::new(),
        rounds: 1,
        out: "nowhere".into(),
    });
    let words = wrong.expect_err("no such server").to_string();
    assert!(
        words.contains("iis") && words.contains("apache-prefork"),
        "{words}"
    );
    assert!(!Path::new("nowhere").exists());
}
