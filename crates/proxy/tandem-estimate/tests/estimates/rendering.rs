//! What people and scripts get to see, byte for byte as in `tests/snapshots`: it changes on purpose
//! or not at all.
#![allow(clippy::disallowed_methods, reason = "REGEN=1 rewrites the snapshots")]

use std::num::NonZeroU64;
use std::path::Path;

use crate::support::{Full, LINK_RAW, Talk, Trace, client_hello, read_with, record, server_hello};
use tandem_estimate::{BitRate, Options, Outcome, render};

/// A capture with one of everything.
fn sample() -> Outcome {
    let mut trace = Trace::new(LINK_RAW);
    let full = Full::new(Some("www.example.com"), 1, &[900, 1100]);
    for port in 1..=3 {
        trace.frames(&full.talk(Talk::open(port)).packets);
    }
    let named_by_address = Full::new(None, 2, &[1300]);
    let mut ipv6 = Talk::between("[2001:db8::1]:4000", "[2001:db8::2]:443");
    ipv6.shake_hands();
    trace.frames(&named_by_address.talk(ipv6).packets);

    let mut tls13 = Talk::open(10);
    tls13.client(&record(22, &client_hello(Some("modern.example"), &[])));
    tls13.server(&record(22, &server_hello(0x0303, &[(43, &[3, 4])])));
    tls13.server(&record(23, &[8; 3000]));
    tls13.client(&record(23, &[9; 69]));
    tls13.server(&record(23, &[8; 250]));
    trace.frames(&tls13.packets);

    let mut mail = Talk::open(11);
    mail.server(b"220 mail.example ESMTP\r\n");
    mail.client(b"EHLO me\r\nSTARTTLS\r\n");
    mail.server(b"220 go ahead\r\n");
    trace.frames(
        &Full::new(Some("mail.example"), 3, &[1500])
            .talk(mail)
            .packets,
    );

    let mut refused = Talk::open(12);
    refused.client(&full.hello);
    refused.server(&record(21, &[2, 40]));
    trace.frames(&refused.packets);

    let mut open_before = Talk::new(13);
    open_before.client(&record(23, &[1; 100]));
    trace.frames(&open_before.packets);

    trace.bytes.extend([0xff; 20]);
    let options = Options {
        link_rate: NonZeroU64::new(2_400).map(BitRate::from),
        ..Options::default()
    };
    read_with(&trace.bytes, &options)
}

fn compare(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(file);
    if std::env::var_os("REGEN").is_some() {
        std::fs::write(&path, text).expect("the snapshot folder is part of the source");
    }
    let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, snapshot, "{file} differs (REGEN=1 rewrites it)");
}

#[test]
fn the_report_for_people() {
    compare("report.txt", &render(&sample()));
}

#[test]
fn the_report_for_scripts() {
    let json = sample().to_json().expect("figures are numbers");
    compare("report.json", &(json + "\n"));
}

#[test]
fn scripts_find_the_figures_that_they_are_promised() {
    let json: serde_json::Value =
        serde_json::from_str(&sample().to_json().expect("figures are numbers")).expect("JSON");
    for field in [
        "handshakes",
        "handshake_bytes",
        "certificate_bytes",
        "saved_cold_bytes",
        "saved_warm_bytes",
        "opaque_handshakes",
    ] {
        assert!(json[field].is_u64(), "{field}");
    }
    assert!(json["damage"].is_array());
}
