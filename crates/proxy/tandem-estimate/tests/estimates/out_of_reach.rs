//! Handshakes that the proxies cannot spare anything of: they are counted, each with its reason,
//! and nothing is saved.

use crate::support::figures::{DER, SIZES, clean, part};
use crate::support::{Full, Talk};

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
