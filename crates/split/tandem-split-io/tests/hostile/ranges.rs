//! Ranges of a file that a volunteer has: what they cost the origin, and that the client gets what
//! it has asked for, whatever the server behind says of it.

use tandem_split::cut::PIECE_LEN;
use tandem_split::object::CHUNK_LEN;

use crate::common::server::body;
use crate::common::{Site, ran};

/// Three pieces, and some of a fourth; the last chunk is a short one.
const LEN: usize = 3 * PIECE_LEN + 300_000;
/// What a connection costs, with its handshake and the head of an answer, and some more.
const CONNECTION: u64 = 8_000;
/// What vouches for a chunk: its name and its MAC, with what frames them.
const STUB: u64 = 80;

#[test]
fn a_range_of_a_warm_file_costs_its_stubs_and_a_chunk_at_each_end() {
    let site = Site::new();
    let whole = body(LEN, 5);
    let path = format!("/file/{LEN}/5");
    assert!(ran(&mut site.curl(&path)).stdout == whole);
    let asked = || site.origin_counts("tandem_split_origin_misses");
    let range_costs = |from: usize, to: Option<usize>, new_chunks: u64| {
        let (asked_before, sent_before) = (asked(), site.to_origin.bytes());
        let range = format!("{from}-{}", to.map(|to| to.to_string()).unwrap_or_default());
        let out = ran(site.curl(&path).args(["--range", &range, "--include"]));
        let to = to.unwrap_or(LEN - 1);
        assert!(out.stdout.starts_with(b"HTTP/1.1 206 "), "{range}");
        assert!(out.stdout.ends_with(&whole[from..=to]), "{range}");
        assert_eq!(asked() - asked_before, new_chunks, "{range}");
        let sent = site.to_origin.bytes() - sent_before;
        let chunks = ((to - from) / CHUNK_LEN + 2) as u64;
        let bar = CONNECTION + chunks * STUB + new_chunks * CHUNK_LEN as u64;
        assert!(sent <= bar, "{range}: {sent} bytes, {bar} at most");
        sent
    };
    range_costs(0, None, 0);
    range_costs(1, None, 1);
    range_costs(PIECE_LEN, None, 0);
    let piece = range_costs(PIECE_LEN, Some(2 * PIECE_LEN - 1), 0);
    let few = range_costs(
        PIECE_LEN + CHUNK_LEN,
        Some(PIECE_LEN + 4 * CHUNK_LEN - 1),
        0,
    );
    // A whole piece goes as a run: its chunks have no names of their own.
    let chunks = (PIECE_LEN / CHUNK_LEN) as u64;
    assert!(piece < few + chunks * STUB / 2, "{piece}, {few}");
    range_costs(0, Some(99_999), 1);
    range_costs(1_500_000, Some(1_500_099), 1);
    range_costs(2_000_001, Some(2_999_999), 2);
    // The same again, from a volunteer that has its ends, too.
    range_costs(2_000_001, Some(2_999_999), 0);
    // Shorter than a name.
    range_costs(3_000_000, Some(3_000_009), 0);
    range_costs(LEN - 5_000, None, 1);
}

#[test]
fn a_part_that_does_not_say_where_it_belongs_is_cut_as_a_whole_file_is() {
    let site = Site::new();
    let whole = body(LEN, 6);
    assert!(ran(&mut site.curl(&format!("/bytes/{LEN}/6"))).stdout == whole);
    let asked = || site.origin_counts("tandem_split_origin_misses");
    let before = asked();
    for place in ["", "?nonsense", "?bytes+7-3/9", "?bytes+1-2/3"] {
        let path = format!("/partial/{LEN}/6{place}");
        assert!(ran(&mut site.curl(&path)).stdout == whole, "{place}");
        assert_eq!(asked(), before, "{place}");
    }
    // One that lies costs the origin what is new by it, and the client nothing.
    let path = format!("/partial/{LEN}/6?bytes+5-{}/*", LEN + 4);
    assert!(ran(&mut site.curl(&path)).stdout == whole);
    assert!(asked() > before);
}
