//! What `tandem top` shows, as lines of text for a screen of some size.
//!
//! Is not: a terminal. Invariants: no line is longer than the screen is wide, and there are no more
//! than fit; a name brings no control character along.

use tandem_packet_io::status::Status;

use crate::output::is_control;

/// Of a screen, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// By what sites are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sorting {
    Saved,
    Visits,
    Name,
}

impl Sorting {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Saved => Self::Visits,
            Self::Visits => Self::Name,
            Self::Name => Self::Saved,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Saved => "bytes saved",
            Self::Visits => "visits",
            Self::Name => "name",
        }
    }
}

/// Connections that are shown where the sites leave room; and the least room for sites.
const MIN_FLOWS: usize = 5;

/// The whole screen. The last two lines are empty and say which keys there are.
pub(super) fn lines(status: &Status, size: Size, sorting: Sorting) -> Vec<String> {
    let activity = &status.activity;
    let mut head = vec![
        format!(
            "{} on {}, {} mode, up for {:.0} s",
            status.role, status.link, status.mode, status.uptime_seconds
        ),
        format!(
            "{} of handshakes did not cross the link: {} of {} did, in {} connections",
            bytes(
                activity
                    .original_bytes
                    .saturating_sub(activity.crossed_bytes)
            ),
            bytes(activity.crossed_bytes),
            bytes(activity.original_bytes),
            activity.connections
        ),
        state(status),
    ];
    let notes = status.notes.iter();
    head.extend(notes.map(|(name, text)| format!("{name}: {text}")));
    head.push(String::new());
    let room = size.rows.saturating_sub(head.len() + 5);
    let flows = activity
        .flows
        .len()
        .min(room.saturating_sub(activity.sites.len()).max(MIN_FLOWS));
    let rows = room.saturating_sub(flows);

    let wide = size.columns.saturating_sub(42);
    head.push(format!(
        "{:<wide$} {:>6} {:>10} {:>10} {:>10}",
        "SITE", "VISITS", "SENT", "CROSSED", "SAVED"
    ));
    let mut sites = activity.sites.clone();
    match sorting {
        Sorting::Saved => sites.sort_by_key(|row| std::cmp::Reverse(row.saved())),
        Sorting::Visits => sites.sort_by_key(|row| std::cmp::Reverse(row.connections)),
        Sorting::Name => sites.sort_by(|one, other| one.name.cmp(&other.name)),
    }
    head.extend(sites.iter().take(rows).map(|row| {
        format!(
            "{:<wide$} {:>6} {:>10} {:>10} {:>10}",
            fitted(&row.name, wide),
            row.connections,
            bytes(row.original_bytes),
            bytes(row.crossed_bytes),
            bytes(row.saved())
        )
    }));

    let wide = size.columns.saturating_sub(50);
    head.push(String::new());
    head.push(format!(
        "{:<wide$} {:>10} {:>10} {:<14} {:>10}",
        "LAST CONNECTIONS", "SENT", "CROSSED", "HANDSHAKE", "TOOK"
    ));
    head.extend(activity.flows.iter().take(flows).map(|flow| {
        let took = flow.marks.last().map_or(0, |mark| mark.at_ms);
        format!(
            "{:<wide$} {:>10} {:>10} {:<14} {:>7} ms",
            fitted(&flow.site, wide),
            bytes(flow.original_bytes),
            bytes(flow.crossed_bytes),
            fitted(&flow.outcome, 14),
            took
        )
    }));
    head.truncate(size.rows.saturating_sub(2));
    head.push(String::new());
    head.push(format!(
        "by {}   s: sort by something else   q: end",
        sorting.name()
    ));
    let lines = head.iter().map(|line| fitted(line, size.columns));
    lines.collect()
}

/// The tunnel's state or the other proxy's, and the store.
fn state(status: &Status) -> String {
    let gauge = |name: &str| status.gauges.get(name).copied().unwrap_or_default();
    let counter = |name: &str| status.counters.get(name).copied().unwrap_or_default();
    let other = match &status.tunnel {
        Some(tunnel) if tunnel.is_up => format!(
            "tunnel up for {} s, round trip {} ms, {} packets lost",
            tunnel.since_seconds,
            tunnel.round_trip_ms.unwrap_or_default(),
            counter("lost_packets")
        ),
        Some(tunnel) => format!(
            "NO TUNNEL for {} s: {}",
            tunnel.since_seconds,
            tunnel.last_end.as_deref().unwrap_or("none has come up yet")
        ),
        None => format!(
            "the other proxy answered in {} of {} connections, {} paths stopped",
            counter("packet_flows_with_peer"),
            counter("packet_flows_opened"),
            gauge("stopped_paths")
        ),
    };
    let store = format!(
        "store: {} objects, {}",
        gauge("store_objects"),
        bytes(gauge("store_bytes"))
    );
    format!("{other}; {store}")
}

/// At most so many characters of it, none of which a terminal would carry out.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let shown = text.chars().map(|c| if is_control(c) { '?' } else { c });
    if text.chars().count() <= columns {
        return shown.collect();
    }
    let start: String = shown.take(columns.saturating_sub(1)).collect();
    format!("{start}~").chars().take(columns).collect()
}

fn bytes(count: u64) -> String {
    // Tenths of a kilobyte or a megabyte.
    match count {
        0..10_000 => format!("{count} B"),
        10_000..1_000_000 => format!("{}.{} kB", count / 1_000, count / 100 % 10),
        _ => format!("{}.{} MB", count / 1_000_000, count / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let site = |name: &str, original: u64| {
            serde_json::json!({"name": name, "connections": 2, "original_bytes": original,
                "crossed_bytes": 100})
        };
        let flow = |site: &str| {
            serde_json::json!({"began_unix_ms": 0, "site": site, "original_bytes": 5_000,
                "crossed_bytes": 100, "outcome": "finished",
                "marks": [{"name": "over", "at_ms": 1_234}]})
        };
        let sites: Vec<_> = (0..20)
            .map(|number| site(&format!("site-{number}"), number))
            .collect();
        let hostile = format!("\x1b[2J\u{202e}{}", "x".repeat(200));
        let flows: Vec<_> = (0..50).map(|_| flow(&hostile)).collect();
        let value = serde_json::json!({
            "version": "0", "role": "client-side", "link": "192.0.2.1:4433", "mode": "tunnel",
            "pid": 1, "queue": 0, "uptime_seconds": 1.0, "cpu_seconds": 0.0, "resident_bytes": 0,
            "peak_resident_bytes": 0, "counters": {}, "gauges": {"store_objects": 12},
            "notes": {"spent": "0.50 EUR today"},
            "tunnel": {"is_up": true, "since_seconds": 7, "round_trip_ms": 600, "last_end": null},
            "activity": {"connections": 50, "original_bytes": 5_000_000, "crossed_bytes": 40_000,
                "sites": sites, "flows": flows},
        });
        serde_json::from_value(value).expect("a status")
    }

    #[test]
    fn whatever_the_size_nothing_is_wider_or_longer_than_the_screen() {
        for (columns, rows) in [(80, 24), (40, 10), (200, 60), (1, 1), (80, 3)] {
            let size = Size { columns, rows };
            let lines = lines(&status(), size, Sorting::Saved);
            assert!(lines.len() <= rows.max(2), "{rows}: {}", lines.len());
            for line in &lines {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
                assert!(!line.contains(is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn at_80_by_24_there_are_sites_connections_and_keys() {
        let size = Size {
            columns: 80,
            rows: 24,
        };
        let lines = lines(&status(), size, Sorting::Saved);
        let text = lines.join("\n");
        assert!(
            lines[1].starts_with("4.9 MB of handshakes did not cross"),
            "{text}"
        );
        assert!(
            text.contains("tunnel up for 7 s, round trip 600 ms"),
            "{text}"
        );
        assert!(
            text.contains("\nsite-0 ") && text.contains("LAST CONNECTIONS"),
            "{text}"
        );
        assert!(text.contains("\nspent: 0.50 EUR today\n"), "{text}");
        assert!(text.contains("1234 ms"), "{text}");
        assert!(lines[23].contains("q: end"), "{text}");
    }

    #[test]
    fn sorting_goes_round() {
        let mut sorting = Sorting::Saved;
        for name in ["visits", "name", "bytes saved"] {
            sorting = sorting.next();
            assert_eq!(sorting.name(), name);
        }
    }
}
