//! What else can be done, beside plain, packet mode and the tunnel: by endpoints without proxies
//! (session resumption, compressed certificates), and by other proxies.
//!
//! Is not: a ranking. The peers ask for other things than packet mode does, and each line says
//! what.

use super::cases::{Case, Measure};
use super::markdown::plain_text;
use super::number::{self, ABSENT};
use crate::arm::Arm;

/// What a reader must know before the table.
pub(crate) const ABOUT: &str = "The same request with other methods, interleaved in one run. Their conditions differ: resumption \
     needs an earlier visit of the same client, and memory at both endpoints; RFC 8879 needs both endpoints to support it; packet mode \
     and the tunnel need a pair of proxies and one earlier handshake of any client with that server; other tunnels need a pair of \
     proxies, whose connection is up before the trial. Time runs until the client may send its request: \
     to the server's Finished, in TLS 1.3 to the client's own. Certificates have their usual sizes; those of the lab are plain, and real \
     ones, with more text in them, compress better.";

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// As everywhere in the report.
    pub(crate) arm: Arm,
    /// What it takes besides a client and a server.
    pub(crate) needs: &'static str,
    /// Until the client may send its request.
    pub(crate) seconds: String,
    /// Of plain.
    pub(crate) seconds_share: String,
    /// Of the handshake.
    pub(crate) tls: String,
    /// Of plain.
    pub(crate) tls_share: String,
    /// Of TLS 1.3 without it, where that is what it is to be compared with.
    pub(crate) tls_share_of_tls13: String,
    /// IP bytes, the whole connection.
    pub(crate) link: String,
    /// Of plain.
    pub(crate) link_share: String,
}

/// The lines of a case; none where it has no peers.
pub(crate) fn lines(case: &Case) -> Vec<Line> {
    if !case.has_peers() {
        return Vec::new();
    }
    let figure = |arm, measure, write: fn(f64) -> String| {
        case.spread(arm, measure)
            .map_or_else(|| ABSENT.to_owned(), |spread| write(spread.median))
    };
    let share = |arm, measure| {
        if arm == Arm::Plain {
            return String::new();
        }
        case.ratio(arm, measure)
            .map_or_else(|| ABSENT.to_owned(), number::percent)
    };
    let of_tls13 = || {
        let tls13 = case.spread(Arm::Tls13, Measure::TlsBytes)?.median;
        let own = case.spread(Arm::Rfc8879, Measure::TlsBytes)?.median;
        (tls13 > 0.0).then(|| number::percent(own / tls13))
    };
    case.arms
        .iter()
        .map(|figures| figures.arm)
        .map(|arm| Line {
            arm,
            needs: arm.needs(),
            seconds: figure(arm, Measure::Handshake, number::seconds),
            seconds_share: share(arm, Measure::Handshake),
            tls: figure(arm, Measure::TlsBytes, number::count),
            tls_share: share(arm, Measure::TlsBytes),
            tls_share_of_tls13: if arm == Arm::Rfc8879 {
                of_tls13().unwrap_or_else(|| ABSENT.to_owned())
            } else {
                String::new()
            },
            link: figure(arm, Measure::LinkBytes, number::count),
            link_share: share(arm, Measure::LinkBytes),
        })
        .collect()
}

/// The table in Markdown; nothing where there are no peers.
pub(crate) fn markdown(cases: &[Case]) -> String {
    let mut text = String::new();
    for case in cases {
        let lines = lines(case);
        if lines.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "\n### {}, {}\n\nTLS {} but where said otherwise, {}, chain of {} ({} bytes)\n\n| way | takes | handshake, s | of plain | TLS \
             bytes | of plain | of TLS 1.3 | link bytes | of plain |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n",
            plain_text(&case.link),
            plain_text(&case.endpoints),
            plain_text(&case.version),
            plain_text(&case.key),
            case.certificates.len(),
            number::count(case.certificate_bytes() as f64),
        ));
        for line in lines {
            let cells = [
                line.arm.look().label,
                line.needs,
                &line.seconds,
                &line.seconds_share,
                &line.tls,
                &line.tls_share,
                &line.tls_share_of_tls13,
                &line.link,
                &line.link_share,
            ];
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::cases::cases;
    use super::super::input::Run;
    use super::super::synthetic;
    use super::*;
    use crate::row::Row;

    /// A trial of each arm, of 2,000 TLS bytes but for RFC 8879, which has 1,500.
    pub(crate) fn rows() -> Vec<Row> {
        let mut rows: Vec<Row> = [Arm::Plain, Arm::Resumption, Arm::Tls13, Arm::Rfc8879]
            .into_iter()
            .flat_map(|arm| synthetic::arm_rows("tcdl-10", "rustls-three", arm, &[1.0]))
            .collect();
        for row in rows.iter_mut().filter(|row| row.arm == Arm::Rfc8879) {
            row.tls_bytes_down = row.tls_bytes_down.map(|bytes| bytes - 500);
            row.seconds_first_byte = None;
        }
        rows
    }

    fn of(rows: Vec<Row>) -> Vec<Case> {
        cases(&[Run {
            name: "peers.jsonl".to_owned(),
            rows,
            info: None,
        }])
    }

    #[test]
    fn compression_is_told_against_plain_and_against_its_own_version() {
        let cases = of(rows());
        let lines = lines(&cases[0]);
        let line = lines.iter().find(|line| line.arm == Arm::Rfc8879);
        let line = line.expect("its line");
        assert_eq!(line.tls, "1,500");
        assert_eq!(line.tls_share_of_tls13, number::percent(0.75));
        assert_eq!(line.seconds_share, number::percent(1.0));
        let columns: Vec<usize> = markdown(&cases)
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.matches('|').count())
            .collect();
        assert_eq!(columns, [10; 5]);
    }

    #[test]
    fn without_peers_there_is_no_table() {
        assert_eq!(markdown(&of(synthetic::rows())), "");
    }
}
