//! Made-up rows for tests. Not results: nothing here was measured.

use tandem_report::arm::Arm;
use tandem_report::row::Row;

/// A trial of this arm.
pub(crate) fn row(link: &str, endpoints: &str, arm: Arm, seconds: f64, tls: u64) -> Row {
    serde_json::from_value(serde_json::json!({
        "experiment": "test", "link": link, "endpoints": endpoints, "version": "1.2",
        "key": "rsa-2048", "certificates": [926], "arm": arm.name(), "store": "none",
        "trial": 1, "ok": true, "identical": true, "error": null,
        "seconds_handshake": seconds * 0.75, "seconds_first_byte": seconds,
        "link_bytes_up": 1000, "link_bytes_down": 1000 + tls,
        "link_packets_up": 9, "link_packets_down": 9,
        "handshake_bytes_up": 600, "handshake_bytes_down": 200 + tls,
        "tls_bytes_up": 300, "tls_bytes_down": tls - 300, "option_bytes": 0,
        "floor_bytes": 600, "proxy_cpu_us": 500, "proxy_memory_kib": 9000,
    }))
    .expect("these are a row's fields")
}
