//! The body of the fuzz target, kept here so that the tests run it too.
//!
//! Not an API: hidden from the documentation. The invariants that it checks are those of the
//! report's head.

use crate::{Limits, Options, Outcome, estimate, render};

/// A function that checks invariants on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("estimate_capture", estimate_capture)];

/// Estimates `data` as a capture with small limits, so that they are reached, and checks what holds
/// for any input.
///
/// # Panics
/// Where the figures contradict each other.
pub fn estimate_capture(data: &[u8]) {
    let limits = Limits {
        trace: tandem_trace::Limits {
            connections: 4,
            direction_bytes: 8192,
            total_bytes: 16_384,
        },
        sites: 2,
        chains: 2,
    };
    for limits in [Limits::default(), limits] {
        let options = Options {
            link_rate: None,
            limits,
        };
        if let Ok(outcome) = estimate(data, &options, &mut |_| {}) {
            check(&outcome);
        }
    }
}

/// Checks what holds for any outcome.
///
/// # Panics
/// Where figures contradict each other.
pub fn check(outcome: &Outcome) {
    let report = &outcome.report;
    let parts: u64 = report.bytes_by_message_type.values().sum();
    assert_eq!(parts, report.handshake_bytes, "parts add up to the whole");
    for (name, rows) in [
        (
            "versions",
            report
                .by_version
                .iter()
                .map(|row| row.share)
                .collect::<Vec<_>>(),
        ),
        ("sites", report.sites.iter().map(|row| row.share).collect()),
    ] {
        let sum = |field: fn(&crate::Share) -> u64| rows.iter().map(field).sum::<u64>();
        assert_eq!(sum(|row| row.handshakes), report.handshakes, "{name}");
        assert_eq!(
            sum(|row| row.handshake_bytes),
            report.handshake_bytes,
            "{name}"
        );
        assert_eq!(
            sum(|row| row.certificate_bytes),
            report.certificate_bytes,
            "{name}"
        );
        assert_eq!(
            sum(|row| row.saved_cold_bytes),
            report.saved_cold_bytes,
            "{name}"
        );
        assert_eq!(
            sum(|row| row.saved_warm_bytes),
            report.saved_warm_bytes,
            "{name}"
        );
        assert_eq!(
            sum(|row| row.options_warm_bytes),
            report.options_warm_bytes,
            "{name}"
        );
        assert_eq!(
            sum(|row| row.opaque_handshakes),
            report.opaque_handshakes,
            "{name}"
        );
        assert_eq!(
            sum(|row| row.resumed_handshakes),
            report.resumed_handshakes,
            "{name}"
        );
    }
    assert!(report.saved_cold_bytes <= report.saved_warm_bytes);
    assert!(report.saved_warm_bytes <= report.handshake_bytes);
    assert!(report.certificate_bytes <= report.handshake_bytes);
    assert!(report.client_certificate_bytes <= report.certificate_bytes);
    assert!(report.completed_handshakes + report.failed_handshakes <= report.handshakes);
    assert!(report.capture.connections_already_open <= report.capture.connections);
    let text = render(outcome);
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}
