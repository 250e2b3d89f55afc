//! What stores save of handshakes, from the first on or once they have seen a site, and what the
//! proxies' own options cost. `definitions.md` is the specification.

use crate::support::figures::{ISSUERS_SAVED, SAVED, SIZES, clean};
use crate::support::{Full, Talk, certificate, client_hello, message, noise, record, server_hello};

#[test]
fn a_cold_store_learns_each_sites_chains() {
    let a = Full::new(Some("a.example"), 1, &SIZES);
    let renewed = Full::new(Some("a.example"), 2, &SIZES);
    let b = Full::new(Some("b.example"), 1, &SIZES);
    let mut packets = Vec::new();
    for (port, full) in [
        (1, &a),
        (2, &a),
        (3, &renewed),
        (4, &b),
        (5, &a),
        (6, &renewed),
    ] {
        packets.extend(full.talk(Talk::open(port)).packets);
    }
    let report = clean(&packets);
    assert_eq!(report.handshakes, 6);
    assert_eq!(
        (report.saved_cold_bytes, report.saved_warm_bytes),
        (3 * SAVED + ISSUERS_SAVED, 6 * SAVED)
    );
    assert_eq!(
        (report.server_chains, report.distinct_server_chains),
        (6, 3)
    );
    let rows: Vec<_> = report
        .sites
        .iter()
        .map(|row| {
            (
                row.site.as_str(),
                row.share.handshakes,
                row.share.saved_cold_bytes,
            )
        })
        .collect();
    // The other site is spared what it shares with the first.
    assert_eq!(
        rows,
        [("a.example", 5, 3 * SAVED), ("b.example", 1, ISSUERS_SAVED)]
    );
}

#[test]
fn issuers_of_other_sites_count_while_they_are_among_the_last() {
    let mut packets = Vec::new();
    for (port, name, fill) in [
        (1, "a.example", 1),
        (2, "b.example", 2),
        (3, "c.example", 3),
        (4, "d.example", 4),
        (5, "e.example", 1),
        (6, "f.example", 5),
        (7, "g.example", 2),
        (8, "b.example", 2),
    ] {
        let full = Full::new(Some(name), fill, &SIZES);
        packets.extend(full.talk(Talk::open(port)).packets);
    }
    let report = clean(&packets);
    // The fifth knows the first's issuers; the second's are the fifth back when the seventh comes.
    assert_eq!(report.saved_cold_bytes, ISSUERS_SAVED + SAVED);
}

#[test]
fn what_a_server_sends_again_beside_its_chain_is_saved_where_it_is_the_same() {
    let full = Full::new(Some("a.example"), 1, &SIZES);
    let talk = |port: u16, staple: &[u8], request: &[u8]| {
        let hello = record(22, &server_hello(0x0303, &[]));
        let messages = [
            certificate(1, &SIZES),
            message(22, staple),
            message(12, &noise([5, 0], 300)),
            message(13, request),
            message(14, &[]),
        ];
        let mut talk = Talk::open(port);
        talk.client(&full.hello);
        talk.server(&[hello, record(22, &messages.concat())].concat());
        talk.client(&full.client);
        talk.server(&full.finished);
        talk.packets
    };
    // Of bytes that no compression makes shorter.
    let [staple, other, request] =
        [(1, 500), (3, 500), (2, 700)].map(|(n, size)| noise([n, 0], size));
    let packets = [
        talk(1, &staple, &request),
        talk(2, &staple, &request),
        talk(3, &other, &request),
    ];
    let report = clean(&packets.concat());
    // Two headers, and two copies of one more reference.
    let beside = 500 + 700 + 8 - 26;
    assert_eq!(report.saved_warm_bytes, 3 * (SAVED + beside));
    // Of the third, the request is like what was beside the chain before.
    assert!(report.saved_cold_bytes > 2 * SAVED + beside + 650);
    assert!(report.saved_cold_bytes < 2 * SAVED + beside + 708);
}

#[test]
fn the_proxies_own_options_are_told_for_each_connection_that_carries_them() {
    let tls13 = |port| {
        let mut talk = Talk::open(port);
        talk.client(&record(22, &client_hello(Some("modern.example"), &[])));
        talk.server(&record(22, &server_hello(0x0303, &[(43, &[3, 4])])));
        talk.server(&record(23, &[8; 3000]));
        talk.client(&record(23, &[9; 69]));
        talk.packets
    };
    // 12 bytes on the SYN, 12 on the SYN/ACK, and a hint of nothing.
    let report = clean(&tls13(1));
    assert_eq!(
        (report.options_cold_bytes, report.options_warm_bytes),
        (36, 36)
    );
    assert_eq!(report.net_saved_warm_bytes, -36);

    let full = Full::new(Some("a.example"), 1, &SIZES);
    let mut mail = Talk::open(4);
    mail.client(b"EHLO me\r\nSTARTTLS\r\n");
    let packets = [
        full.talk(Talk::open(1)).packets,
        full.talk(Talk::open(2)).packets,
        tls13(3),
        // Another port, or TLS is not first: no proxy looks at it.
        full.talk(mail).packets,
    ];
    let report = clean(&packets.concat());
    // A hint of one name is 16 bytes; TLS 1.3 is hinted the issuers that the others have shown.
    assert_eq!(report.options_cold_bytes, (24 + 12) + 2 * (24 + 16));
    assert_eq!(report.options_warm_bytes, 3 * (24 + 16));
    assert_eq!(report.net_saved_cold_bytes, SAVED as i64 - 116);
    assert_eq!(report.net_saved_warm_bytes, 2 * SAVED as i64 - 120);
}

#[test]
fn a_chain_shorter_than_its_reference_saves_nothing() {
    let report = clean(&Full::new(None, 1, &[30]).talk(Talk::open(1)).packets);
    assert_eq!((report.certificate_bytes, report.saved_warm_bytes), (30, 0));
}
