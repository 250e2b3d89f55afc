//! Figures and texts that are hard to fit on a page. What a usual report looks like is in
//! `tests/snapshots`.

use tandem_trace::CaptureFacts;

use super::*;
use crate::report::{LinkTimes, SiteRow, VersionRow};

fn huge() -> Report {
    let share = Share {
        handshakes: u64::MAX,
        resumed_handshakes: u64::MAX,
        opaque_handshakes: u64::MAX,
        handshake_bytes: u64::MAX,
        certificate_bytes: u64::MAX,
        saved_cold_bytes: u64::MAX,
        saved_warm_bytes: u64::MAX,
        options_cold_bytes: u64::MAX,
        options_warm_bytes: u64::MAX,
    };
    Report {
        handshakes: u64::MAX,
        opaque_handshakes: 1,
        handshake_bytes: u64::MAX,
        certificate_bytes: u64::MAX,
        by_version: vec![VersionRow {
            version: "TLS 1.2".to_owned(),
            share,
        }],
        sites: vec![
            SiteRow {
                site: format!("{}.example", "a-long-label.".repeat(18)),
                share: Share {
                    handshakes: u64::MAX / 64,
                    ..share
                },
                opt_in_saved_warm_bytes_estimated: u64::MAX,
            };
            40
        ],
        link: Some(LinkTimes {
            handshake_seconds: f64::MAX,
            ..LinkTimes::default()
        }),
        capture: CaptureFacts {
            frames: u64::MAX,
            first_unix_micros: Some(u64::MAX),
            last_unix_micros: Some(u64::MAX),
            seconds: f64::MAX,
            ..CaptureFacts::default()
        },
        ..Report::default()
    }
}

#[test]
fn no_line_is_wider_than_the_page_whatever_the_figures() {
    let damage = vec![
        Damage::ReadFailed {
            at: u64::MAX,
            reason: "x".repeat(300),
        };
        50
    ];
    let text = render(&Outcome {
        report: huge(),
        damage,
    });
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(WIDTH), "{widest:?}");
    assert!(text.contains("and 25 more sites") && text.contains("and 30 more entries"));
}

#[test]
fn a_long_name_keeps_its_end() {
    let name = format!("{}.example.com", "x".repeat(50));
    let short = shortened(&name);
    assert_eq!(short.chars().count(), MAX_NAME);
    assert!(short.starts_with("...x") && short.ends_with(".example.com"));
    assert_eq!(shortened("a.example"), "a.example");
}

#[test]
fn a_capture_without_handshakes_says_so() {
    let mut outcome = Outcome {
        report: Report::default(),
        damage: Vec::new(),
    };
    let expected = "Capture\n  0 frames, 0 bytes in IP packets\n  0 TCP connections\n\n\
                    TLS handshakes\n  none found: nothing to save here.\n";
    assert_eq!(render(&outcome), expected);
    outcome.damage = vec![Damage::Unread {
        inside: "IPsec (ESP)",
        packets: 3,
    }];
    let text = render(&outcome);
    assert!(!text.contains("nothing to save"), "{text}");
    assert!(text.contains("3 packets of IPsec (ESP)"), "{text}");
    outcome.report.capture.connections_already_open = 1;
    assert!(render(&outcome).contains("Start the capture before the connections"));
}
