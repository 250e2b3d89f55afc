//! Handshakes up to TLS 1.2 by hand, full, resumed and failed, and the figures that must come out
//! of them. `definitions.md` is the specification.

use crate::support::figures::{DER, SAVED, SIZES, clean, part};
use crate::support::{
    Full, Talk, capture_of, certificate, client_hello, message, record, server_hello,
};
use tandem_estimate::Damage;

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
fn a_server_that_answers_without_tls_is_offered_nothing_after_three_connections() {
    let options = |connections: u16| {
        let packets: Vec<_> = (1..=connections)
            .flat_map(|port| {
                let mut talk = Talk::open(port);
                talk.client(&Full::new(None, 1, &SIZES).hello);
                talk.server(b"220 mail.example.org");
                talk.close();
                talk.packets
            })
            .collect();
        let report = clean(&packets);
        (report.options_cold_bytes, report.options_warm_bytes)
    };
    assert_eq!(options(3), (3 * 36, 3 * 36));
    assert_eq!(options(9), options(3));
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
