//! What crosses the origin's line, counted on its sockets; and that what is wanted by many is
//! fetched once.

mod common;

use std::process::Stdio;

use common::server::body;
use common::{Site, eventually, ran};

#[test]
fn a_warm_megabyte_costs_the_origin_less_than_half_a_percent() {
    let site = Site::new();
    let path = "/bytes/1000003/1";
    assert!(ran(&mut site.curl(path)).stdout == body(1_000_003, 1));
    let cold = site.to_origin.bytes();
    assert!(
        cold < 1_020_003 + 8_000,
        "cold, with handshake and names: {cold}"
    );
    // The channel of misses stays open and is idle.
    assert!(ran(&mut site.curl(path)).stdout == body(1_000_003, 1));
    let warm = site.to_origin.bytes() - cold;
    assert!(warm * 200 < 1_000_003, "warm: {warm}");
    // The last of it may still be on its way to the relay when curl has all that it wanted.
    let start = std::time::Instant::now();
    let counted = || site.origin_counts("tandem_split_origin_sent_bytes");
    while counted() != site.to_origin.bytes() {
        let is_late = start.elapsed() > std::time::Duration::from_secs(30);
        assert!(!is_late, "what the origin counts is what crosses");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn many_who_want_the_same_at_once_ask_the_origin_once() {
    let site = Site::new();
    let chunks = 20_u64;
    let path = format!("/bytes/{}/2", chunks * 16384);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut curl = site.curl(&path);
            curl.stdin(Stdio::null()).stdout(Stdio::piped());
            curl.spawn().expect("curl runs")
        })
        .collect();
    for client in clients {
        let out = client.wait_with_output().expect("it ends");
        assert!(out.status.success(), "{out:?}");
        assert!(out.stdout == body(chunks as usize * 16384, 2));
    }
    // Each chunk once, and for each client its handshake and its stubs.
    let bytes = site.to_origin.bytes();
    assert!(bytes < 2 * chunks * 16384, "{bytes}");
}

#[test]
fn a_large_file_arrives_whole_also_by_a_volunteer_that_has_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let site = Site::with_cache(Some(folder.path().to_owned()));
    let len = 6_000_000;
    let path = format!("/bytes/{len}/3");
    assert!(ran(&mut site.curl(&path)).stdout == body(len, 3));
    let key = site.origin_key;
    let address = site.origin;
    let (volunteer, counts) =
        site.another_volunteer(address, key, Some(folder.path().join("other")));
    assert!(
        ran(&mut site.curl_at(volunteer, &path)).stdout == body(len, 3),
        "another, which has nothing"
    );
    assert!(common::value(&counts, "tandem_split_volunteer_misses") > 0);
}

#[test]
fn a_channel_is_ready_before_the_next_client_comes_and_a_dead_one_is_no_harm() {
    let site = Site::new();
    let channels = || site.origin_counts("tandem_split_origin_open_channels");
    assert!(ran(&mut site.curl("/bytes/1000/1")).stdout == body(1_000, 1));
    // Three were opened: for misses, for the client, and the one that is ready. The client's has
    // ended on both sides, so that the cut is no harm to it.
    let clients = || site.volunteer_counts("tandem_split_volunteer_open_clients");
    eventually("one is kept", || {
        site.to_origin.connections() == 3 && clients() == 0 && channels() == 2
    });
    site.to_origin.cut_all();
    eventually("the origin has seen it", || channels() == 0);
    assert!(ran(&mut site.curl("/bytes/1000/2")).stdout == body(1_000, 2));
    assert_eq!(
        site.volunteer_counts("tandem_split_volunteer_failed_clients"),
        0
    );
}

#[test]
fn a_new_file_of_up_to_eight_chunks_is_asked_for_at_once_with_its_list() {
    let site = Site::new();
    // What belongs to the connection is there from now on.
    assert!(ran(&mut site.curl("/bytes/10/1")).stdout == body(10, 1));
    let asked = || site.origin_counts("tandem_split_origin_misses");
    let before = asked();
    let len = 8 * 16384;
    assert!(ran(&mut site.curl(&format!("/bytes/{len}/2"))).stdout == body(len, 2));
    assert_eq!(asked() - before, 1);
    let before = asked();
    let len = 20 * 16384;
    assert!(ran(&mut site.curl(&format!("/bytes/{len}/3"))).stdout == body(len, 3));
    assert_eq!(asked() - before, 1 + 12, "the others by name, each once");
}
