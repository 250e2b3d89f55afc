//! The report for people: plain text of at most 100 columns.
//!
//! Not the JSON, and no figure is made here that the report does not hold. Invariants: no line is
//! longer than [`WIDTH`] characters; what is estimated says so; names out of the capture are host
//! names or addresses, hence printable ASCII.

mod number;
mod table;

use std::fmt::Write as _;

use tandem_trace::Damage;

use crate::report::{Outcome, Report, Share, Unreached};
use number::{date, duration, grouped, percent, plural, seconds, signed};
use table::{Cell, Table};

/// Widest line, in characters.
pub(crate) const WIDTH: usize = 100;
/// Sites shown; JSON has all of them.
const MAX_SITES: usize = 15;
/// Longest site name shown in full.
const MAX_NAME: usize = 40;
/// Damage shown; JSON has all of it.
const MAX_DAMAGE: usize = 20;

/// The report as text, line breaks at the ends of lines. Ends with one.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let report = &outcome.report;
    let mut page = Page::default();
    page.capture(report);
    if report.handshakes == 0 {
        page.nothing_found(outcome);
    } else {
        page.handshakes(report);
        page.savings(report);
        page.opt_in(report);
        page.out_of_reach(report);
        page.versions(report);
        page.sites(report);
        page.messages(report);
    }
    page.not_counted(report);
    page.damage(&outcome.damage);
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.paragraph(heading, 0);
    }

    /// Words wrapped at the width, each line indented.
    fn paragraph(&mut self, words: &str, indent: usize) {
        let mut line = " ".repeat(indent);
        for word in words.split_whitespace() {
            // Only texts of an operating system could have a word that long.
            let word: String = word.chars().take(WIDTH - indent).collect();
            let used = line.chars().count();
            if used > indent && used + 1 + word.chars().count() > WIDTH {
                self.line(&line);
                line = " ".repeat(indent);
            }
            if line.chars().count() > indent {
                line.push(' ');
            }
            line.push_str(&word);
        }
        self.line(&line);
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn table(&mut self, table: &Table) {
        for line in table.lines() {
            self.line(&line);
        }
    }

    fn capture(&mut self, report: &Report) {
        let capture = &report.capture;
        self.heading("Capture");
        let mut facts = format!(
            "{}, {} bytes in IP packets",
            plural(capture.frames, "frame"),
            grouped(capture.ip_bytes)
        );
        if let (Some(first), Some(_)) = (capture.first_unix_micros, capture.last_unix_micros) {
            let _ = write!(
                facts,
                ", {} from {} UTC",
                duration(capture.seconds),
                date(first)
            );
        }
        self.paragraph(&facts, 2);
        let mut connections = plural(capture.connections, "TCP connection");
        if capture.connections_already_open > 0 {
            let _ = write!(
                connections,
                ", {} of them open before the capture began (no handshake to see)",
                grouped(capture.connections_already_open)
            );
        }
        self.paragraph(&connections, 2);
    }

    fn nothing_found(&mut self, outcome: &Outcome) {
        let report = &outcome.report;
        self.heading("TLS handshakes");
        self.paragraph(
            if outcome.damage.is_empty() {
                "none found: nothing to save here."
            } else {
                "none found in what could be read; what could not is listed below."
            },
            2,
        );
        if report.capture.connections_already_open > 0 {
            self.paragraph(
                "Start the capture before the connections: a handshake is their first few packets.",
                2,
            );
        }
    }

    fn handshakes(&mut self, report: &Report) {
        self.heading("TLS handshakes");
        let unfinished = report.handshakes - report.completed_handshakes - report.failed_handshakes;
        self.paragraph(
            &format!(
                "{} found: {} completed, {} failed, {} not seen to the end",
                grouped(report.handshakes),
                grouped(report.completed_handshakes),
                grouped(report.failed_handshakes),
                grouped(unfinished)
            ),
            2,
        );
        let kinds: Vec<String> = [
            (report.resumed_handshakes, "resumed (no certificate sent)"),
            (
                report.client_certificate_handshakes,
                "with a client certificate in clear",
            ),
            (
                report.capture.one_sided_handshakes,
                "seen in one direction only",
            ),
        ]
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, kind)| format!("{} {kind}", grouped(count)))
        .collect();
        if !kinds.is_empty() {
            self.paragraph(&format!("of them {}", kinds.join(", ")), 2);
        }
        if report.tunnelled_handshakes > 0 {
            let tunnels: Vec<String> = report
                .tunnelled_handshakes_by_tunnel
                .iter()
                .map(|(tunnel, count)| format!("{tunnel}: {}", grouped(*count)))
                .collect();
            self.paragraph(
                &format!(
                    "{} inside tunnels ({}): proxies have to stand where these are unpacked",
                    grouped(report.tunnelled_handshakes),
                    tunnels.join(", ")
                ),
                2,
            );
        }
        self.paragraph(
            &format!(
                "{} bytes, {} of all TCP payload",
                grouped(report.handshake_bytes),
                percent(report.handshake_bytes, report.capture.tcp_payload_bytes)
            ),
            2,
        );
        if report.certificate_bytes > 0 {
            let mut certificates = format!(
                "{} of these bytes ({}) are certificates in clear: {}, {} different",
                grouped(report.certificate_bytes),
                percent(report.certificate_bytes, report.handshake_bytes),
                plural(report.server_chains, "server chain"),
                grouped(report.distinct_server_chains)
            );
            if report.client_certificate_bytes > 0 {
                let _ = write!(
                    certificates,
                    "; {} are clients'",
                    plural(report.client_certificate_bytes, "byte")
                );
            }
            self.paragraph(&certificates, 2);
        }
    }

    fn savings(&mut self, report: &Report) {
        self.heading("What packet mode would have saved, with no change on clients and servers");
        let mut table = Table::new(&["", "rewriting", "own options", "saved", "of all"]);
        let rows = [
            (
                "store empty at first, learning as it goes",
                report.saved_cold_bytes,
                report.options_cold_bytes,
                report.net_saved_cold_bytes,
            ),
            (
                "store warm: holds every chain from the start",
                report.saved_warm_bytes,
                report.options_warm_bytes,
                report.net_saved_warm_bytes,
            ),
        ];
        for (name, rewriting, options, saved) in rows {
            let share = percent(u64::try_from(saved).unwrap_or(0), report.handshake_bytes);
            table.row([
                Cell::text(name),
                Cell::number(grouped(rewriting)),
                Cell::number(grouped(options)),
                Cell::number(signed(saved)),
                Cell::number(share),
            ]);
        }
        self.table(&table);
        if let Some(link) = &report.link {
            self.paragraph(
                &format!(
                    "At {} bit/s the handshakes take {}; {} of that saved cold, {} warm (bytes alone, without headers, \
                     losses and round trips).",
                    grouped(link.bits_per_second),
                    seconds(link.handshake_seconds),
                    seconds(link.saved_cold_seconds),
                    seconds(link.saved_warm_seconds)
                ),
                2,
            );
        }
        self.paragraph(
            "By the proxies' own engine and formats, in bytes of TLS records less the proxies' own TCP options (24 \
             bytes on a connection and a hint beside the hello; none where nothing was gained of late). Servers' \
             flights only.",
            2,
        );
    }

    fn opt_in(&mut self, report: &Report) {
        let opt_in = &report.opt_in;
        if report.opaque_handshakes == 0 {
            return;
        }
        self.heading("What opting in would bring for TLS 1.3 (estimated, not measured)");
        if opt_in.handshakes == 0 {
            self.paragraph(
                "no server's encrypted flight is in the capture: nothing to estimate from.",
                2,
            );
            return;
        }
        self.paragraph(
            &format!(
                "{} with {} encrypted bytes from servers, about {} of them certificates",
                plural(opt_in.full_handshakes, "full handshake"),
                grouped(opt_in.encrypted_flight_bytes),
                grouped(opt_in.certificate_bytes_estimated)
            ),
            2,
        );
        self.paragraph(
            &format!(
                "about {} bytes saved with a learning store, about {} with a warm one",
                grouped(opt_in.saved_cold_bytes_estimated),
                grouped(opt_in.saved_warm_bytes_estimated)
            ),
            2,
        );
        if let Some(link) = &report.link {
            self.paragraph(
                &format!(
                    "warm: about {} on this link",
                    seconds(link.opt_in_saved_warm_seconds_estimated)
                ),
                2,
            );
        }
        self.paragraph(&format!("How: {}.", opt_in.method), 2);
    }

    fn out_of_reach(&mut self, report: &Report) {
        let out = &report.out_of_reach;
        let rows: Vec<(&str, &Unreached)> = [
            (
                "TLS 1.3: certificates encrypted, needs opting in",
                &out.encrypted_certificates,
            ),
            (
                "TLS starts after plain text (STARTTLS and the like)",
                &out.after_plaintext,
            ),
            ("client's hello in SSL 2.0's format", &out.old_hello),
            (
                "no TCP timestamps (clients on Windows, by default)",
                &out.no_timestamps,
            ),
            (
                "chain longer than the server's first window",
                &out.large_flight,
            ),
        ]
        .into_iter()
        .filter(|(_, share)| share.handshakes > 0)
        .collect();
        if rows.is_empty() && out.ssl2_connections == 0 {
            return;
        }
        self.heading("Out of packet mode's reach");
        let mut table = Table::new(&["", "handshakes", "bytes", "certificates in clear"]);
        for (reason, share) in rows {
            table.row([
                Cell::text(reason),
                Cell::number(grouped(share.handshakes)),
                Cell::number(grouped(share.handshake_bytes)),
                Cell::number(grouped(share.certificate_bytes)),
            ]);
        }
        if !table.is_empty() {
            self.table(&table);
        }
        if out.ssl2_connections > 0 {
            self.paragraph(
                &format!(
                    "{} of SSL 2.0, not counted above",
                    plural(out.ssl2_connections, "connection")
                ),
                2,
            );
        }
    }

    fn versions(&mut self, report: &Report) {
        self.heading("By version");
        let mut table = share_table("version", &[]);
        for row in &report.by_version {
            table.row(share_row(Cell::text(&row.version), &row.share));
        }
        self.table(&table);
    }

    fn sites(&mut self, report: &Report) {
        self.heading("Sites whose handshakes cost most");
        let mut table = if report.opaque_handshakes > 0 {
            share_table("site", &["opting in"])
        } else {
            share_table("site", &[])
        };
        for row in report.sites.iter().take(MAX_SITES) {
            let mut cells = share_row(Cell::text(&shortened(&row.site)), &row.share);
            if report.opaque_handshakes > 0 {
                // The sign says that it is estimated.
                cells.push(Cell::number(match row.opt_in_saved_warm_bytes_estimated {
                    0 => "-".to_owned(),
                    bytes => format!("~{}", grouped(bytes)),
                }));
            }
            table.row(cells);
        }
        self.table(&table);
        let rest = report.sites.len().saturating_sub(MAX_SITES);
        if rest > 0 {
            let handshakes = report
                .sites
                .iter()
                .skip(MAX_SITES)
                .map(|row| row.share.handshakes)
                .sum();
            self.paragraph(
                &format!(
                    "and {} with {}",
                    plural(rest as u64, "more site"),
                    plural(handshakes, "handshake")
                ),
                2,
            );
        }
    }

    fn messages(&mut self, report: &Report) {
        self.heading("Bytes by message type");
        let mut table = Table::new(&["", "count", "bytes", "share"]);
        let mut parts: Vec<(&String, u64)> = report
            .bytes_by_message_type
            .iter()
            .map(|(name, &bytes)| (name, bytes))
            .collect();
        parts.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        for (name, bytes) in parts {
            let count = report
                .messages_by_type
                .get(name)
                .copied()
                .unwrap_or_default();
            table.row([
                Cell::text(name),
                Cell::number(grouped(count)),
                Cell::number(grouped(bytes)),
                Cell::number(percent(bytes, report.handshake_bytes)),
            ]);
        }
        self.table(&table);
    }

    fn not_counted(&mut self, report: &Report) {
        let capture = &report.capture;
        let rows = [
            (capture.quic_initial_datagrams, "QUIC Initial datagram"),
            (
                capture.dtls_client_hello_datagrams,
                "DTLS ClientHello datagram",
            ),
        ];
        let rows: Vec<String> = rows
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| plural(*count, name))
            .collect();
        if !rows.is_empty() {
            self.heading("Not counted");
            self.paragraph(
                &format!("{}: Tandem leaves these alone", rows.join(", ")),
                2,
            );
        }
    }

    fn damage(&mut self, damage: &[Damage]) {
        if damage.is_empty() {
            return;
        }
        self.heading("What could not be read");
        for entry in damage.iter().take(MAX_DAMAGE) {
            self.paragraph(&format!("- {entry}"), 2);
        }
        if damage.len() > MAX_DAMAGE {
            self.paragraph(
                &format!(
                    "- and {} more entries (see the JSON)",
                    damage.len() - MAX_DAMAGE
                ),
                2,
            );
        }
    }
}

fn share_table(first: &str, further: &[&str]) -> Table {
    let columns = [
        first,
        "handshakes",
        "resumed",
        "bytes",
        "certificates",
        "saved cold",
        "saved warm",
    ];
    Table::new(&[&columns, further].concat())
}

fn share_row(first: Cell, share: &Share) -> Vec<Cell> {
    let number = |number| Cell::number(grouped(number));
    vec![
        first,
        number(share.handshakes),
        number(share.resumed_handshakes),
        number(share.handshake_bytes),
        number(share.certificate_bytes),
        Cell::number(signed(share.net_saved_cold())),
        Cell::number(signed(share.net_saved_warm())),
    ]
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    // The end of a host name says more than its beginning.
    let skipped = name.chars().count() - (MAX_NAME - 3);
    format!("...{}", name.chars().skip(skipped).collect::<String>())
}

#[cfg(test)]
mod tests;
