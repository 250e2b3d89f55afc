//! What is on disk lasts as long as it should: through a restart, a kill and a clock that jumps,
//! and only until it is purged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::certificate::Certificate;
use crate::support::filled::{
    PATIENCE, assert_works, database, fill, leaf, open_well, open_well_with,
};
use crate::support::stores::{NOW, days, learn, site};
use tandem_store::{Kind, Limits, Purge, Store};
use tandem_store_sqlite::admin;
use tempfile::TempDir;

#[test]
fn clock_moved_far_forward_and_back_keeps_what_is_in_use() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    fill(&path, 3);
    let mut store = open_well(&path);
    store.maintain(days(-20_000));
    assert_eq!(store.health().objects, 3);
    // In the year 2104 these have expired. What is seen there stays, for it was just seen.
    let www = site("www.example.com");
    learn(&mut store, &www, &[leaf(0)], days(29_000));
    store.maintain(days(29_000));
    assert_eq!(store.health().objects, 1);
    assert_eq!(store.expected(Kind::Chain, &www, days(29_000), 9), []);
    store.maintain(NOW);
    assert_eq!(store.expected(Kind::Chain, &www, NOW, 9).len(), 1);
    assert_works(&mut store);
}

#[test]
fn what_was_purged_leaves_no_trace_on_disk() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut store = open_well(&path);
    let secret = Certificate {
        dns_names: &["secret-name.example"],
        ..Certificate::default()
    }
    .der();
    learn(&mut store, &site("secret-site.example"), &[secret], NOW);
    for serial in 0..300 {
        learn(&mut store, &site("public.example"), &[leaf(serial)], NOW);
    }
    assert!(store.sync(PATIENCE));
    let traces = |word: &str| {
        let files = fs::read_dir(&path)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path());
        let has_word = |path: &PathBuf| {
            let bytes = fs::read(path).expect("readable");
            bytes
                .windows(word.len())
                .any(|window| window == word.as_bytes())
        };
        files.filter(has_word).count()
    };
    assert!(traces("secret-name") > 0 && traces("secret-site") > 0);
    let purged = store.purge(&Purge::Site(site("secret-site.example")));
    assert_eq!((purged.of(Kind::Chain), purged.total()), (1, 1));
    assert!(store.sync(PATIENCE));
    assert_eq!(
        (traces("secret-name"), traces("secret-site")),
        (0, 0),
        "while the store is open"
    );
    assert!(traces("public") > 0);
    let before = fs::metadata(database(&path)).expect("a file").len();
    store.purge(&Purge::All);
    assert!(store.sync(PATIENCE));
    assert!(
        fs::metadata(database(&path)).expect("a file").len() < before / 2,
        "free pages go back"
    );
    assert_eq!(traces("public"), 0);
}

#[test]
fn what_is_in_use_is_found_without_the_disk_also_after_a_restart() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let ids = fill(&path, 500);
    let mut store = open_well(&path);
    for id in &ids {
        let chain = store.object(Kind::Chain, id).expect("written");
        assert!(
            chain
                .parts
                .iter()
                .all(|digest| store.part(digest).is_some())
        );
    }
    assert_eq!(store.health().disk_reads, 0);
    drop(store);
    // With room for a tenth of them, those that were used last are there first.
    let limits = Limits {
        front_bytes: 50 * u64::try_from(leaf(0).len()).expect("small"),
        ..Limits::default()
    };
    let mut store = open_well_with(&path, &limits);
    for (count, id) in ids.iter().enumerate().rev() {
        let chain = store.object(Kind::Chain, id).expect("written");
        assert!(store.part(&chain.parts[0]).is_some());
        assert_eq!(store.health().disk_reads == 0, count >= 450, "{count}");
    }
}

#[test]
fn unwritten_bytes_are_written_when_the_store_is_dropped() {
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut store = open_well(&path);
    let id = learn(&mut store, &site("www.example.com"), &[leaf(1)], NOW);
    drop(store);
    assert!(open_well(&path).object(Kind::Chain, &id).is_some());
}

/// Set for the process that the test below kills: where its store is.
const VICTIM: &str = "TANDEM_STORE_VICTIM";

#[test]
fn killed_while_writing_loses_the_last_seconds_and_nothing_else() {
    if let Some(path) = std::env::var_os(VICTIM) {
        return write_until_killed(Path::new(&path));
    }
    let home = TempDir::new().expect("a directory");
    let path = home.path().join("store");
    let mut held = 0;
    for _ in 0..4 {
        let myself = std::env::current_exe().expect("a test program");
        let mut victim = Command::new(myself)
            .args([
                "--exact",
                "lasting::killed_while_writing_loses_the_last_seconds_and_nothing_else",
            ])
            .env(VICTIM, &path)
            .stdout(Stdio::null())
            .spawn()
            .expect("a second process");
        let before = held;
        while held < before + 50 {
            held = admin::list(&path).map_or(held, |listing| listing.chains.len());
        }
        victim.kill().expect("still running");
        victim.wait().expect("killed");
        let mut store = open_well(&path);
        assert!(store.health().objects >= u64::try_from(held).expect("few"));
        held = usize::try_from(store.health().objects).expect("few");
        for row in admin::list(&path).expect("a store").chains {
            let chain = store.object(Kind::Chain, &row.id).expect("listed");
            assert!(
                chain
                    .parts
                    .iter()
                    .all(|digest| store.part(digest).is_some())
            );
        }
    }
}

/// Ends by itself after a while, should nobody kill it.
fn write_until_killed(path: &Path) {
    let mut store = open_well(path);
    let first = u32::try_from(store.health().objects).expect("few");
    for serial in first..first + 100_000 {
        learn(
            &mut store,
            &site("www.example.com"),
            &[leaf(serial), vec![7; 3_000]],
            NOW,
        );
        store.maintain(NOW);
    }
}
