//! Handshakes of TLS 1.3, which are read by the sizes of their records, and the figures that must
//! come out of them. `definitions.md` is the specification.

use crate::support::figures::{DER, SIZES, clean, part};
use crate::support::{
    Talk, certificate, client_hello, record, server_hello, server_hello_with_random,
};
use tandem_estimate::REWRITTEN_CHAIN_BYTES;

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
