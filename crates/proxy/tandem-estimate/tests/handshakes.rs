//! Every kind of handshake, made by hand, and the figures that must come out of it.
//! `definitions.md` is the specification.

mod support;

use support::{
    Full, Talk, capture_of, certificate, client_hello, message, noise, record, server_hello,
    server_hello_with_random,
};
use tandem_estimate::{Damage, REWRITTEN_CHAIN_BYTES, Report};

const SIZES: [usize; 3] = [900, 800, 700];
const DER: u64 = 2400;
/// What the engine, the delta and the frame cost for a flight of which one part is a copy.
const COST: u64 = 37;
const SAVED: u64 = DER + 9 - COST;
/// The same where the leaf is another one, with which the literal before the copy is so long that
/// its head takes another byte.
const ISSUERS_SAVED: u64 = 800 + 700 + 6 - COST - 1;

fn clean(packets: &[Vec<u8>]) -> Report {
    let outcome = capture_of(packets);
    assert_eq!(outcome.damage, []);
    outcome.report
}

fn part(report: &Report, name: &str) -> (u64, u64) {
    let of =
        |map: &std::collections::BTreeMap<String, u64>| map.get(name).copied().unwrap_or_default();
    (
        of(&report.messages_by_type),
        of(&report.bytes_by_message_type),
    )
}

#[test]
fn a_full_handshake_counts_up_to_both_finished_and_no_further() {
    let full = Full::new(Some("www.example.com"), 1, &SIZES);
    let report = clean(&full.talk(Talk::open(1000)).packets);
    assert_eq!(report.handshakes, 1);
    assert_eq!(report.completed_handshakes, 1);
    assert_eq!(report.handshake_bytes, full.bytes());
    assert_eq!(report.certificate_bytes, DER);
    assert_eq!(
        (report.saved_cold_bytes, report.saved_warm_bytes),
        (0, SAVED)
    );
    assert_eq!(part(&report, "certificate"), (1, 4 + 3 + DER + 9));
    assert_eq!(part(&report, "server_key_exchange"), (1, 304));
    assert_eq!(part(&report, "encrypted_finished"), (2, 80));
    assert_eq!(part(&report, "change_cipher_spec"), (2, 2));
    assert_eq!(part(&report, "record_headers"), (10, 50));
    assert_eq!(report.sites[0].site, "www.example.com");
    assert_eq!(report.by_version[0].version, "TLS 1.2");
    assert_eq!(report.capture.connections, 1);
    assert_eq!(
        (report.server_chains, report.distinct_server_chains),
        (1, 1)
    );
}

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
fn a_site_without_a_name_is_its_address_and_port() {
    let full = Full::new(None, 1, &SIZES);
    let talk = Talk::between("[2001:db8::1]:9", "[2001:db8::2]:8443");
    let mut open = talk;
    open.shake_hands();
    let report = clean(&full.talk(open).packets);
    assert_eq!(report.sites[0].site, "[2001:db8::2]:8443");
    assert_eq!(report.handshake_bytes, full.bytes());
}

#[test]
fn a_chain_shorter_than_its_reference_saves_nothing() {
    let report = clean(&Full::new(None, 1, &[30]).talk(Talk::open(1)).packets);
    assert_eq!((report.certificate_bytes, report.saved_warm_bytes), (30, 0));
}

#[test]
fn however_the_segments_come_the_figures_are_the_same() {
    let full = Full::new(Some("www.example.com"), 1, &SIZES);
    let expected = clean(&full.talk(Talk::open(1)).packets);
    for size in [1, 2, 3, 5, 7, 100, 536] {
        let mut talk = Talk::open(1);
        talk.segment = size;
        let report = clean(&full.talk(talk).packets);
        assert_eq!(
            report.bytes_by_message_type, expected.bytes_by_message_type,
            "{size}"
        );
        assert_eq!(report.saved_warm_bytes, SAVED, "{size}");
        assert_eq!(report.completed_handshakes, 1, "{size}");
    }
    let packets = full.talk(Talk::open(1)).packets;
    // Neighbours swapped, and every packet three times.
    let swapped: Vec<Vec<u8>> = packets
        .chunks(2)
        .flat_map(|pair| pair.iter().rev().cloned().collect::<Vec<_>>())
        .collect();
    let repeated: Vec<Vec<u8>> = packets
        .iter()
        .flat_map(|packet| vec![packet.clone(); 3])
        .collect();
    for packets in [swapped, repeated] {
        let report = clean(&packets);
        assert_eq!(report.bytes_by_message_type, expected.bytes_by_message_type);
        assert_eq!((report.handshakes, report.capture.connections), (1, 1));
    }
}

#[test]
fn all_messages_in_one_record_or_each_in_many_are_the_same_messages() {
    let server = [
        server_hello(0x0303, &[]),
        certificate(1, &SIZES),
        message(14, &[]),
    ]
    .concat();
    let hello = client_hello(Some("a.example"), &[]);
    for size in [1, 17, 16_384] {
        let records = |bytes: &[u8]| {
            bytes
                .chunks(size)
                .flat_map(|part| record(22, part))
                .collect::<Vec<_>>()
        };
        let mut talk = Talk::open(1);
        talk.client(&records(&hello));
        talk.server(&records(&server));
        let report = clean(&talk.packets);
        let in_reach = size > 1;
        assert_eq!(report.certificate_bytes, DER, "{size}");
        assert_eq!(part(&report, "certificate"), (1, 4 + 3 + DER + 9), "{size}");
        // In one-byte records the chain ends beyond the first window.
        assert_eq!(report.saved_warm_bytes > 0, in_reach, "{size}");
        assert_eq!(report.sites[0].site, "a.example");
    }
}

#[test]
fn a_resumed_handshake_saves_nothing() {
    let ending = [record(20, &[1]), record(22, &[0x44; 40])].concat();
    let ticket = record(22, &message(4, &[9; 180]));
    for with_ticket in [Vec::new(), ticket] {
        let mut talk = Talk::open(1);
        talk.client(&record(
            22,
            &client_hello(Some("a.example"), &[(35, &[7; 100])]),
        ));
        talk.server(
            &[
                record(22, &server_hello(0x0303, &[])),
                with_ticket,
                ending.clone(),
            ]
            .concat(),
        );
        talk.client(&ending);
        let report = clean(&talk.packets);
        assert_eq!(
            (
                report.handshakes,
                report.completed_handshakes,
                report.resumed_handshakes
            ),
            (1, 1, 1)
        );
        assert_eq!(report.saved_warm_bytes, 0);
        assert_eq!(report.by_version[0].share.resumed_handshakes, 1);
    }
}

#[test]
fn client_certificates_are_listed_and_not_saved() {
    let full = Full::new(None, 1, &SIZES);
    let mut talk = Talk::open(1);
    talk.client(&full.hello);
    talk.server(&full.server);
    talk.client(&record(22, &certificate(9, &[1000, 500])));
    talk.client(&full.client);
    talk.server(&full.finished);
    let report = clean(&talk.packets);
    assert_eq!(report.client_certificate_handshakes, 1);
    assert_eq!(report.client_certificate_bytes, 1500);
    assert_eq!(report.certificate_bytes, DER + 1500);
    assert_eq!(report.saved_warm_bytes, SAVED);
    assert_eq!(part(&report, "client_certificate"), (1, 4 + 3 + 1506));

    let mut talk = Talk::open(1);
    talk.client(&full.hello);
    talk.server(&full.server);
    talk.client(&record(22, &certificate(9, &[])));
    assert_eq!(
        clean(&talk.packets).client_certificate_handshakes,
        0,
        "an empty list is no certificate"
    );
}

#[test]
fn handshakes_after_a_dialogue_are_found_and_out_of_reach() {
    let full = Full::new(None, 1, &SIZES);
    let dialogues: [(&[u8], &[u8], &str); 3] = [
        (
            b"220 mail.example\r\n",
            b"EHLO me\r\nSTARTTLS\r\n",
            "starttls",
        ),
        (b"", b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", "http_proxy"),
        (b"", &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f], "postgresql"),
    ];
    for (greeting, command, name) in dialogues {
        let mut talk = Talk::open(1);
        talk.server(greeting);
        talk.client(command);
        talk.server(b"S");
        let report = clean(&full.talk(talk).packets);
        assert_eq!(
            (report.handshakes, report.completed_handshakes),
            (1, 1),
            "{name}"
        );
        assert_eq!(report.handshake_bytes, full.bytes(), "{name}");
        assert_eq!(report.out_of_reach.after_plaintext.handshakes, 1, "{name}");
        assert_eq!(
            report.out_of_reach.after_plaintext.certificate_bytes, DER,
            "{name}"
        );
        assert_eq!(
            report.out_of_reach.after_plaintext_by_protocol.get(name),
            Some(&1),
            "{name}"
        );
        assert_eq!(
            (report.certificate_bytes, report.saved_warm_bytes),
            (DER, 0),
            "{name}"
        );
    }
}

#[test]
fn one_direction_gives_what_it_holds() {
    let full = Full::new(Some("a.example"), 1, &SIZES);
    let packets = full.talk(Talk::open(1)).packets;
    let is_client = |packet: &Vec<u8>| packet[12..16] == [192, 0, 2, 1];
    let (client, server): (Vec<_>, Vec<_>) = packets.into_iter().partition(is_client);

    let report = clean(&client);
    assert_eq!(report.handshakes, 1);
    assert_eq!(report.capture.one_sided_handshakes, 1);
    assert_eq!(report.by_version[0].version, "unknown");
    assert_eq!(
        report.handshake_bytes,
        (full.hello.len() + full.client.len()) as u64
    );
    assert_eq!(report.sites[0].site, "a.example");

    let report = clean(&server);
    assert_eq!(report.handshakes, 1);
    assert_eq!(
        report.handshake_bytes,
        (full.server.len() + full.finished.len()) as u64
    );
    assert_eq!(
        (report.certificate_bytes, report.saved_warm_bytes),
        (DER, SAVED)
    );
    assert_eq!(report.sites[0].site, "198.51.100.1:443");
}

#[test]
fn a_connection_whose_syn_is_not_in_the_capture_is_read_from_its_hello() {
    let full = Full::new(Some("a.example"), 1, &SIZES);
    let packets = full.talk(Talk::new(1)).packets;
    assert_eq!(clean(&packets).handshake_bytes, full.bytes());

    // Also where the client's hello is missing too.
    let report = clean(&packets[1..]);
    assert_eq!(
        report.handshake_bytes,
        full.bytes() - full.hello.len() as u64
    );
    assert_eq!(report.completed_handshakes, 1);

    // And not where it is in the middle of its data, in one direction or both.
    let mut talk = Talk::new(1);
    for _ in 0..40 {
        talk.client(&record(23, &[1; 100]));
        talk.server(&record(23, &[1; 100]));
    }
    let report = clean(&talk.packets);
    assert_eq!(
        (report.handshakes, report.capture.connections_already_open),
        (0, 1)
    );
    let mut talk = Talk::new(1);
    for _ in 0..40 {
        talk.client(&record(23, &[1; 100]));
    }
    talk.client(&full.hello);
    let report = clean(&talk.packets);
    assert_eq!(
        (report.handshakes, report.capture.connections_already_open),
        (0, 1)
    );
}

#[test]
fn a_four_tuple_used_again_is_another_connection() {
    let full = Full::new(Some("a.example"), 1, &SIZES);
    let mut first = full.talk(Talk::open(1));
    first.close();
    let mut packets = first.packets;
    let mut again = Talk::new(1);
    again.client_next = tandem_wire::Seq(77);
    again.server_next = tandem_wire::Seq(88);
    again.shake_hands();
    packets.extend(full.talk(again).packets);
    // Half a handshake, then a third connection.
    let mut half = Talk::new(1);
    half.client_next = tandem_wire::Seq(777);
    half.shake_hands();
    half.client(&full.hello);
    packets.extend(half.packets);
    let mut third = Talk::new(1);
    third.client_next = tandem_wire::Seq(7777);
    third.shake_hands();
    packets.extend(full.talk(third).packets);
    let report = clean(&packets);
    assert_eq!(
        (
            report.handshakes,
            report.completed_handshakes,
            report.capture.connections
        ),
        (4, 3, 4)
    );
    assert_eq!(report.saved_cold_bytes, 2 * SAVED);
}

#[test]
fn alerts_end_a_handshake_and_warnings_do_not() {
    let full = Full::new(Some("a.example"), 1, &SIZES);
    let mut talk = Talk::open(1);
    talk.client(&full.hello);
    talk.server(&record(21, &[1, 112]));
    talk.server(&full.server);
    talk.client(&full.client);
    talk.server(&full.finished);
    let report = clean(&talk.packets);
    assert_eq!(
        (report.completed_handshakes, report.handshake_bytes),
        (1, full.bytes())
    );

    for alert in [&[2, 40][..], &[1, 0], &[0x99; 40]] {
        let mut talk = Talk::open(1);
        talk.client(&full.hello);
        talk.server(&full.server);
        talk.client(&record(21, alert));
        let report = clean(&talk.packets);
        assert_eq!(
            (report.completed_handshakes, report.failed_handshakes),
            (0, 1)
        );
        assert_eq!(
            report.saved_warm_bytes, SAVED,
            "the chain had crossed the link"
        );
    }
}

#[test]
fn an_answer_that_is_not_tls_is_a_failed_handshake() {
    let full = Full::new(Some("a.example"), 1, &SIZES);
    let mut talk = Talk::open(1);
    talk.client(&full.hello);
    talk.server(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let report = clean(&talk.packets);
    assert_eq!((report.handshakes, report.failed_handshakes), (1, 1));
    assert_eq!(report.by_version[0].version, "unknown");
}

#[test]
fn what_is_not_tls_is_no_handshake() {
    let mut talk = Talk::open(1);
    talk.client(b"GET / HTTP/1.1\r\n\r\n");
    talk.server(&vec![b'x'; 100_000]);
    let report = clean(&talk.packets);
    assert_eq!(
        (
            report.handshakes,
            report.capture.connections,
            report.capture.connections_already_open
        ),
        (0, 1, 0)
    );
}

#[test]
fn hellos_in_the_oldest_format_are_counted_and_out_of_reach() {
    let mut hello = vec![0x80, 9 + 3 + 16, 1, 3, 1, 0, 3, 0, 0, 0, 16];
    hello.extend([7; 19]);
    let full = Full::new(None, 1, &SIZES);
    let mut talk = Talk::open(1);
    talk.client(&hello);
    talk.server(&full.server);
    talk.client(&full.client);
    talk.server(&full.finished);
    let report = clean(&talk.packets);
    assert_eq!((report.handshakes, report.completed_handshakes), (1, 1));
    assert_eq!(part(&report, "ssl2_client_hello"), (1, 30));
    assert_eq!(report.out_of_reach.old_hello.handshakes, 1);
    assert_eq!(
        report.handshake_bytes,
        full.bytes() - full.hello.len() as u64 + 30
    );
    assert_eq!(
        (report.certificate_bytes, report.saved_warm_bytes),
        (DER, 0)
    );

    let mut talk = Talk::open(1);
    talk.client(&hello);
    talk.server(&[0x83, 0xb4, 4, 0, 1, 0, 2, 9, 9, 9, 9, 9, 9]);
    let report = clean(&talk.packets);
    assert_eq!(
        (report.handshakes, report.out_of_reach.ssl2_connections),
        (0, 1)
    );
}

#[test]
fn a_chain_beyond_the_first_window_is_out_of_reach() {
    let full = Full::new(None, 1, &[10_000, 6_000]);
    let report = clean(&full.talk(Talk::open(1)).packets);
    assert_eq!(
        (report.certificate_bytes, report.saved_warm_bytes),
        (16_000, 0)
    );
    assert_eq!(report.out_of_reach.large_flight.certificate_bytes, 16_000);
}

#[test]
fn a_connection_without_timestamps_is_out_of_reach_whichever_end_leaves_them_off() {
    let full = Full::new(None, 1, &[1_000, 800]);
    let with = clean(&full.talk(Talk::open(1)).packets);
    assert!(with.saved_warm_bytes > 0 && with.options_warm_bytes > 0);
    assert_eq!(with.out_of_reach.no_timestamps.handshakes, 0);
    let mut without = Talk::new(1);
    without.timestamps = false;
    without.shake_hands();
    // The client offers them, and the server does not take them up.
    let mut refused = Talk::new(2);
    refused.shake_hands();
    refused.timestamps = false;
    for talk in [without, refused] {
        let report = clean(&full.talk(talk).packets);
        assert_eq!(report.out_of_reach.no_timestamps.handshakes, 1);
        assert_eq!(report.out_of_reach.no_timestamps.certificate_bytes, 1_800);
        assert_eq!((report.saved_cold_bytes, report.saved_warm_bytes), (0, 0));
        assert_eq!(
            (report.options_cold_bytes, report.options_warm_bytes),
            (0, 0)
        );
    }
}

#[test]
fn a_server_that_gains_nothing_is_offered_nothing_after_three_connections() {
    let visits = |count: u16| {
        let packets: Vec<_> = (1..=count)
            .flat_map(|port| {
                let mut talk = tls13_from(port, &[], &[SELECTED_13], &[2000, 69], &[69]);
                talk.close();
                talk.packets
            })
            .collect();
        let report = clean(&packets);
        assert_eq!(report.handshakes, u64::from(count));
        (report.options_cold_bytes, report.options_warm_bytes)
    };
    let three = visits(3);
    // SYN, SYN/ACK, and the hint of nothing.
    assert_eq!(three, (3 * 36, 3 * 36));
    assert_eq!(visits(9), three);
}

/// A TLS 1.3 handshake: the server's flight of these record sizes, the client's of those.
fn tls13(
    hello_extensions: &[(u16, &[u8])],
    server_extensions: &[(u16, &[u8])],
    server: &[usize],
    client: &[usize],
) -> Talk {
    tls13_from(1, hello_extensions, server_extensions, server, client)
}

/// The same from this port.
fn tls13_from(
    port: u16,
    hello_extensions: &[(u16, &[u8])],
    server_extensions: &[(u16, &[u8])],
    server: &[usize],
    client: &[usize],
) -> Talk {
    let mut talk = Talk::open(port);
    talk.client(&record(
        22,
        &client_hello(Some("a.example"), hello_extensions),
    ));
    let mut flight = record(22, &server_hello(0x0303, server_extensions));
    flight.extend(record(20, &[1]));
    flight.extend(
        server
            .iter()
            .flat_map(|&size| record(23, &vec![0x88; size])),
    );
    talk.server(&flight);
    talk.client(&record(20, &[1]));
    for &size in client {
        talk.client(&record(23, &vec![0x99; size]));
    }
    talk
}

const SELECTED_13: (u16, &[u8]) = (43, &[3, 4]);

#[test]
fn tls13_counts_both_encrypted_flights_and_nothing_after_them() {
    let mut talk = tls13(&[], &[SELECTED_13], &[40, 2000, 281, 69], &[69]);
    // Tickets, then data both ways.
    talk.server(&record(23, &[1; 250]));
    talk.client(&record(23, &[2; 500]));
    talk.server(&record(23, &[3; 5000]));
    let report = clean(&talk.packets);
    assert_eq!(
        (
            report.handshakes,
            report.completed_handshakes,
            report.opaque_handshakes
        ),
        (1, 1, 1)
    );
    assert_eq!(part(&report, "encrypted_server_flight"), (4, 2390));
    assert_eq!(part(&report, "encrypted_client_flight"), (1, 69));
    assert_eq!(part(&report, "change_cipher_spec"), (2, 2));
    assert_eq!((report.certificate_bytes, report.saved_warm_bytes), (0, 0));
    assert_eq!(report.out_of_reach.encrypted_certificates.handshakes, 1);
    assert_eq!(report.opt_in.encrypted_flight_bytes, 2390 + 4 * 5);
    assert_eq!(
        report.opt_in.certificate_bytes_estimated,
        2390 - 360 - 4 * 17
    );
    assert_eq!(
        report.opt_in.saved_warm_bytes_estimated,
        2390 - 360 - 4 * 17 - REWRITTEN_CHAIN_BYTES
    );
    assert_eq!(report.opt_in.saved_cold_bytes_estimated, 0);
    assert_eq!(report.by_version[0].version, "TLS 1.3");
}

#[test]
fn tls13_with_one_side_missing_still_ends_at_the_finished() {
    let mut talk = tls13(&[], &[SELECTED_13], &[2000, 69], &[69]);
    talk.server(&record(23, &[1; 250]));
    talk.client(&record(23, &[2; 500]));
    let is_client = |packet: &Vec<u8>| packet[12..16] == [192, 0, 2, 1];
    let (client, server): (Vec<_>, Vec<_>) = talk.packets.into_iter().partition(is_client);
    assert_eq!(part(&clean(&server), "encrypted_server_flight"), (2, 2069));
    assert_eq!(part(&clean(&client), "encrypted_client_flight"), (1, 69));
}

#[test]
fn tls13_with_a_client_certificate_ends_at_the_record_that_is_a_finished() {
    let mut talk = tls13(&[], &[SELECTED_13], &[2000, 69], &[1500, 281, 53]);
    talk.client(&record(23, &[2; 53]));
    assert_eq!(
        part(&clean(&talk.packets), "encrypted_client_flight"),
        (3, 1500 + 281 + 53)
    );
    // All in one record, then data: the first record is all that can be told.
    let mut talk = tls13(&[], &[SELECTED_13], &[2000, 69], &[1834]);
    for _ in 0..5 {
        talk.client(&record(23, &[2; 100]));
    }
    assert_eq!(
        part(&clean(&talk.packets), "encrypted_client_flight"),
        (1, 1834)
    );
}

#[test]
fn a_resumed_tls13_handshake_has_no_certificate_to_save() {
    let report = clean(&tls13(&[], &[SELECTED_13, (41, &[0, 0])], &[23, 53], &[53]).packets);
    assert_eq!(
        (report.resumed_handshakes, report.opaque_handshakes),
        (1, 1)
    );
    assert_eq!(
        (report.opt_in.handshakes, report.opt_in.full_handshakes),
        (1, 0)
    );
    assert_eq!(report.opt_in.saved_warm_bytes_estimated, 0);
}

#[test]
fn a_cold_store_knows_a_tls13_site_once_it_was_seen() {
    let mut packets = Vec::new();
    for isn in [10, 20_000, 30_000] {
        let mut talk = Talk::new(1);
        talk.client_next = tandem_wire::Seq(isn);
        talk.shake_hands();
        let flights = tls13(&[], &[SELECTED_13], &[2360 + 17], &[69]);
        // The same handshake under other numbers.
        talk.client(&record(22, &client_hello(Some("a.example"), &[])));
        talk.server(
            &[
                record(22, &server_hello(0x0303, &[SELECTED_13])),
                record(23, &[8; 2377]),
            ]
            .concat(),
        );
        talk.client(&record(23, &[9; 69]));
        drop(flights);
        packets.extend(talk.packets);
    }
    let report = clean(&packets);
    assert_eq!(report.opt_in.saved_warm_bytes_estimated, 3 * 1960);
    assert_eq!(report.opt_in.saved_cold_bytes_estimated, 2 * 1960);
    assert_eq!(report.sites[0].opt_in_saved_warm_bytes_estimated, 3 * 1960);
}

#[test]
fn early_data_is_not_handshake() {
    let early: (u16, &[u8]) = (42, &[]);
    let mut talk = Talk::open(1);
    talk.client(&record(22, &client_hello(Some("a.example"), &[early])));
    talk.client(&record(20, &[1]));
    talk.client(&record(23, &[5; 700]));
    let flight = [
        record(22, &server_hello(0x0303, &[SELECTED_13, (41, &[0, 0])])),
        record(23, &[8; 100]),
    ]
    .concat();
    talk.server(&flight);
    talk.client(&[record(23, &[6; 21]), record(23, &[6; 53])].concat());
    talk.server(&record(23, &[7; 250]));
    let report = clean(&talk.packets);
    assert_eq!(part(&report, "encrypted_server_flight"), (1, 100));
    assert_eq!(part(&report, "encrypted_client_flight"), (2, 74));
    assert_eq!(
        (report.completed_handshakes, report.resumed_handshakes),
        (1, 1)
    );
}

#[test]
fn a_hello_retry_request_is_a_part_of_the_handshake() {
    // SHA-256 of "HelloRetryRequest" (RFC 8446, section 4.1.3).
    let random = tandem_wire::tls::server_hello::HELLO_RETRY_REQUEST_RANDOM;
    let mut talk = Talk::open(1);
    let hello = client_hello(Some("a.example"), &[]);
    talk.client(&record(22, &hello));
    let retry = server_hello_with_random(random, 0x0303, &[SELECTED_13]);
    talk.server(&[record(22, &retry), record(20, &[1])].concat());
    talk.client(&[record(20, &[1]), record(22, &hello)].concat());
    talk.server(
        &[
            record(22, &server_hello(0x0303, &[SELECTED_13])),
            record(23, &[8; 900]),
        ]
        .concat(),
    );
    talk.client(&record(23, &[9; 69]));
    talk.server(&record(23, &[7; 250]));
    let report = clean(&talk.packets);
    assert_eq!(
        (
            report.handshakes,
            report.completed_handshakes,
            report.opaque_handshakes
        ),
        (1, 1, 1)
    );
    assert_eq!(part(&report, "client_hello"), (2, 2 * hello.len() as u64));
    assert_eq!(part(&report, "server_hello").0, 2);
    assert_eq!(part(&report, "encrypted_server_flight"), (1, 900));
}

#[test]
fn bytes_that_stop_being_tls_are_told() {
    let full = Full::new(Some("a.example"), 1, &SIZES);
    let mut talk = Talk::open(1);
    talk.client(&full.hello);
    talk.server(&full.server);
    talk.client(&full.client);
    talk.server(b"no record at all");
    let outcome = capture_of(&talk.packets);
    assert_eq!(outcome.damage, [Damage::NotTls { connections: 1 }]);
    assert_eq!(outcome.report.saved_warm_bytes, SAVED);
}

#[test]
fn a_certificate_in_clear_in_tls13_is_counted_and_not_saved() {
    let mut talk = Talk::open(1);
    talk.client(&record(22, &client_hello(None, &[])));
    talk.server(&record(22, &server_hello(0x0303, &[SELECTED_13])));
    talk.server(&record(22, &certificate(1, &SIZES)));
    let report = clean(&talk.packets);
    assert_eq!(
        (report.opaque_handshakes, report.certificate_bytes),
        (1, DER)
    );
    assert_eq!(report.saved_warm_bytes, 0);
}
