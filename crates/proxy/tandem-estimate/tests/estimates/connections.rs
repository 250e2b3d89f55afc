//! However a handshake lies in its connection (segments, records, one direction, no SYN, ports used
//! again), it gives the same figures, or those of what the capture holds of it.

use crate::support::figures::{DER, SAVED, SIZES, clean, part};
use crate::support::{Full, Talk, certificate, client_hello, message, record, server_hello};

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
