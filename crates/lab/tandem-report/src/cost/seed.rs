//! What the paper of 1999 claims, beside what was measured.
//!
//! Vijayabharathi (Oriental Journal of Computer Science & Technology 5 (2), 2012) retells
//! Apostolopoulos, Peris and Saha (INFOCOM 1999). Its text gives few of the figures.

use super::{LARGE, PAGE, Rows, capacity, or_absent, ratio};
use crate::cost_row::PhasesRow;
use crate::number::{self, ABSENT};
use crate::table::Table;

/// A server of the paper: requests a second over TLS without reuse, and over plain HTTP; latency at
/// the highest rate without reuse, milliseconds.
struct Server {
    name: &'static str,
    full: f64,
    plain: f64,
    latency_ms: f64,
}

/// "Results and discussion": 15 and 5 requests a second without reuse at 300 and 600 ms; plain 250
/// and 300.
const SERVERS: [Server; 2] = [
    Server {
        name: "1999: Apache",
        full: 15.0,
        plain: 250.0,
        latency_ms: 300.0,
    },
    Server {
        name: "1999: Netscape",
        full: 5.0,
        plain: 300.0,
        latency_ms: 600.0,
    },
];

pub(super) fn table(rows: &Rows<'_>) -> Table {
    let ours = rows.servers().into_iter().filter_map(|server| {
        let of = |tls, share| rows.load(server, tls, share, PAGE);
        let full = of(Some("1.3"), 0)?;
        let plain = of(None, 0);
        Some(vec![
            server.to_owned(),
            number::count(capacity(full)),
            or_absent(of(Some("1.3"), 100).map(|row| number::count(capacity(row)))),
            or_absent(plain.map(|row| number::count(capacity(row)))),
            or_absent(plain.map(|row| ratio(capacity(row), capacity(full)))),
            format!("{:.1}", full.p50_us as f64 / 1e3),
        ])
    });
    let ours: Vec<Vec<String>> = ours.collect();
    let theirs = SERVERS.iter().map(|server| {
        vec![
            server.name.to_owned(),
            number::count(server.full),
            ABSENT.to_owned(),
            number::count(server.plain),
            ratio(server.plain, server.full),
            number::count(server.latency_ms),
        ]
    });
    Table {
        title: "The figures of 1999 beside ours",
        note: format!(
            "Requests a second, one on a connection. 1999: SPECweb96's mix, whose mean is 14.6 kB, RSA-1024, RC4 and MD5, session \
             identifiers, a whole server. Ours: files of {PAGE} bytes, RSA-2048, TLS 1.3, one processor. Latency: milliseconds, at the \
             highest rate in 1999, the median of a closed loop in ours."
        ),
        columns: super::words(
            "server | no reuse | all reused | plain HTTP | plain to no reuse | latency",
        ),
        words: 1,
        lines: match ours.is_empty() {
            true => Vec::new(),
            false => theirs.chain(ours).collect(),
        },
    }
}

/// The paper's claims, and what the rows say to each.
pub(super) fn answers(rows: &Rows<'_>) -> Vec<String> {
    [
        magnitudes(rows),
        dominance(rows, PAGE),
        dominance(rows, LARGE),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// "up to two orders of magnitude".
fn magnitudes(rows: &Rows<'_>) -> Option<String> {
    let mut ratios: Vec<(f64, &str)> = rows
        .servers()
        .into_iter()
        .filter_map(|server| {
            let full = rows.load(server, Some("1.3"), 0, PAGE)?;
            let plain = rows.load(server, None, 0, PAGE)?;
            Some((full.server_us() / plain.server_us().max(1e-9), server))
        })
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((low, lowest), (high, highest)) = (*ratios.first()?, *ratios.last()?);
    Some(format!(
        "**Two orders of magnitude without reuse?** In 1999 plain HTTP served {} (Apache) and {} times (Netscape) the requests. Here a \
         connection with a full handshake takes {low:.1} ({lowest}) to {high:.1} times ({highest}) the processor time of a plain one.",
        ratio(SERVERS[0].plain, SERVERS[0].full),
        ratio(SERVERS[1].plain, SERVERS[1].full),
    ))
}

/// "for a typical HTTP transaction (10-15 Kbytes), the bulk of the overhead comes from the TLS
/// Handshake Protocol"; "for very large HTTP transactions (1 Mbytes or more), the overhead due to
/// data encryption and authentication is significant".
fn dominance(rows: &Rows<'_>, bytes: u64) -> Option<String> {
    let share = |row: &PhasesRow| {
        let records: f64 = row
            .phases
            .iter()
            .filter(|phase| phase.name == "records")
            .map(|phase| phase.us)
            .sum();
        [row.handshake_us, records].map(|part| part * 100.0 / row.server_us.max(1e-9))
    };
    // Servers beside each other: the lowest and the highest of each kind of connection.
    let mut kinds: Vec<(String, Vec<[f64; 2]>)> = Vec::new();
    for row in rows.phases.iter().filter(|row| is_of(row, bytes)) {
        let kind = match row.arm.reuse {
            0 => format!("full, {}", row.arm.key),
            _ => "resumed".to_owned(),
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, shares)) => shares.push(share(row)),
            None => kinds.push((kind, vec![share(row)])),
        }
    }
    if kinds.is_empty() {
        return None;
    }
    let lines: Vec<String> = kinds
        .iter()
        .map(|(kind, shares)| {
            let [handshake, records] =
                [0, 1].map(|part| span(shares.iter().map(|share| share[part])));
            format!("{kind}: handshake {handshake}, records {records}")
        })
        .collect();
    let mut servers: Vec<&str> = Vec::new();
    for row in rows.phases.iter().filter(|row| is_of(row, bytes)) {
        if !servers.contains(&row.arm.server.as_str()) {
            servers.push(&row.arm.server);
        }
    }
    let claim = match bytes {
        LARGE => "Is it encryption from 1 MB?",
        _ => "Does the handshake dominate at 10 to 15 kB?",
    };
    Some(format!(
        "**{claim}** Shares of the server's processor time, TLS 1.3 ({}): {}.",
        servers.join(", "),
        lines.join("; ")
    ))
}

fn is_of(row: &PhasesRow, bytes: u64) -> bool {
    row.arm.bytes == bytes && row.arm.tls.as_deref() == Some("1.3")
}

/// The lowest and the highest of some shares, per cent.
fn span(shares: impl Iterator<Item = f64> + Clone) -> String {
    let low = shares.clone().fold(f64::INFINITY, f64::min);
    let high = shares.fold(0.0, f64::max);
    let (low, high) = (format!("{low:.0}"), format!("{high:.0}"));
    match low == high {
        true => format!("{low} %"),
        false => format!("{low} to {high} %"),
    }
}
