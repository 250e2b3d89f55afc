//! Rows of `tandem lab mctls` put together: what each figure of the paper's evaluation (Naylor et
//! al. 2015, section 5) shows, for drawings, tables and bars.
//!
//! Only rows count in which all went well and every byte arrived as it was sent.

mod bars;
mod tables;

pub(crate) use bars::check;
pub use tables::markdown;
pub(crate) use tables::tables;

use crate::mctls_row::{McArm, McPart, McRow, Strategy};
use crate::stats::Spread;

/// What the paper says of its own figures, in its text; and what its authors' prototype sends.
pub(crate) mod paper {
    /// Bytes of a handshake of the prototype on the client's link, by middleboxes (0, 1, 2), for
    /// [`CONTEXTS`] each; figure 8 shows them.
    pub(crate) const HANDSHAKE: [[f64; 4]; 3] = [
        [2_160.0, 2_990.0, 4_086.0, 6_318.0],
        [3_899.0, 5_535.0, 7_695.0, 12_087.0],
        [5_638.0, 8_080.0, 11_303.0, 17_856.0],
    ];

    /// Contexts of [`HANDSHAKE`].
    pub(crate) const CONTEXTS: [u32; 4] = [1, 4, 8, 16];

    /// Of the prototype's split TLS.
    pub(crate) const HANDSHAKE_SPLIT: f64 = 1_636.0;
}

/// Sound rows of a part.
pub(crate) fn of(rows: &[McRow], part: McPart) -> impl Iterator<Item = &McRow> {
    rows.iter().filter(move |row| row.part == part && row.ok)
}

/// Those of an arm with so many middleboxes and contexts.
pub(crate) fn case(
    rows: &[McRow],
    part: McPart,
    arm: McArm,
    middleboxes: u32,
    contexts: u32,
) -> impl Iterator<Item = &McRow> {
    of(rows, part).filter(move |row| {
        row.arm == arm && row.middleboxes == middleboxes && row.contexts == contexts
    })
}

/// The median over some rows.
pub(crate) fn median<'a>(
    rows: impl IntoIterator<Item = &'a McRow>,
    figure: impl Fn(&McRow) -> f64,
) -> Option<f64> {
    Spread::of(rows.into_iter().map(figure)).map(|spread| spread.median)
}

/// Median bytes of a handshake.
pub(crate) fn handshake(
    rows: &[McRow],
    arm: McArm,
    middleboxes: u32,
    contexts: u32,
) -> Option<f64> {
    let like = case(rows, McPart::Handshake, arm, middleboxes, contexts);
    median(like, |row| row.stream() as f64)
}

/// Median seconds until the first byte.
pub(crate) fn first_byte(
    rows: &[McRow],
    arm: McArm,
    middleboxes: u32,
    contexts: u32,
) -> Option<f64> {
    let like = case(rows, McPart::FirstByte, arm, middleboxes, contexts);
    median(like, |row| row.seconds)
}

/// A party whose processor time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    Server,
    Middlebox,
}

/// Connections that a processor of a party can take each second, worked out from its processor
/// time; the median of the batches.
pub(crate) fn capacity(rows: &[McRow], arm: McArm, contexts: u32, party: Party) -> Option<f64> {
    let micros = |row: &McRow| match party {
        Party::Server => row.server_us,
        Party::Middlebox => row.middlebox_us,
    };
    median(case(rows, McPart::Connections, arm, 1, contexts), |row| {
        1e6 * f64::from(row.connections) / (micros(row).max(1) as f64)
    })
}

/// What records add to the bytes of each page, as a share of them.
pub(crate) fn overheads(rows: &[McRow], arm: McArm, strategy: Option<Strategy>) -> Vec<f64> {
    of(rows, McPart::Overhead)
        .filter(|row| row.arm == arm && row.strategy == strategy)
        .map(|row| row.stream() as f64 / row.bytes.max(1) as f64 - 1.0)
        .collect()
}

/// Seconds of each page, growing.
pub(crate) fn page_loads(rows: &[McRow], arm: McArm, strategy: Option<Strategy>) -> Vec<f64> {
    let like = of(rows, McPart::Page).filter(|row| row.arm == arm && row.strategy == strategy);
    let mut seconds: Vec<f64> = like.map(|row| row.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// Median goodput of bulk, bytes each second.
pub(crate) fn bulk(rows: &[McRow], arm: McArm) -> Option<f64> {
    let like = of(rows, McPart::Bulk).filter(|row| row.arm == arm);
    median(like, |row| row.bytes as f64 / row.seconds)
}

/// Links and sizes of transfers, in the order of the rows.
pub(crate) fn transfers(rows: &[McRow]) -> Vec<(&str, u64)> {
    let mut all = Vec::new();
    for row in of(rows, McPart::Transfer) {
        let pair = (row.link.as_str(), row.bytes);
        if !all.contains(&pair) {
            all.push(pair);
        }
    }
    all
}

/// Median seconds of a transfer.
pub(crate) fn transfer(rows: &[McRow], arm: McArm, link: &str, bytes: u64) -> Option<f64> {
    let like = of(rows, McPart::Transfer)
        .filter(|row| row.arm == arm && row.link == link && row.bytes == bytes);
    median(like, |row| row.seconds)
}

/// The numbers of something in the rows of a part, growing, each once.
pub(crate) fn numbers(rows: &[McRow], part: McPart, number: impl Fn(&McRow) -> u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = of(rows, part).map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The strategies of an arm: none where it has no contexts.
pub(crate) fn strategies(arm: McArm) -> Vec<Option<Strategy>> {
    match arm.has_contexts() {
        true => Strategy::ALL.map(Some).to_vec(),
        false => vec![None],
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row in which all went well.
    pub(crate) fn row(part: McPart, arm: McArm) -> McRow {
        McRow {
            part,
            arm,
            link: "10 Mbit/s, 20 ms".to_owned(),
            middleboxes: 1,
            contexts: 1,
            strategy: None,
            trial: 0,
            connections: 1,
            bytes: 1_000,
            seconds: 1.0,
            stream_up: 400,
            stream_down: 600,
            link_bytes: 1_500,
            client_us: 1,
            middlebox_us: 1,
            server_us: 1,
            lines: None,
            ok: true,
            error: None,
        }
    }

    #[test]
    fn what_has_failed_does_not_count() {
        let bad = McRow {
            ok: false,
            stream_up: 0,
            ..row(McPart::Handshake, McArm::Mctls13)
        };
        let rows = [bad, row(McPart::Handshake, McArm::Mctls13)];
        assert_eq!(handshake(&rows, McArm::Mctls13, 1, 1), Some(1_000.0));
        assert_eq!(handshake(&rows, McArm::Mctls13, 2, 1), None);
    }

    #[test]
    fn overhead_is_what_is_more_than_the_data() {
        let rows = [McRow {
            strategy: Some(Strategy::Four),
            stream_down: 650,
            ..row(McPart::Overhead, McArm::Mctls13)
        }];
        let overheads = overheads(&rows, McArm::Mctls13, Some(Strategy::Four));
        assert!((overheads[0] - 0.05).abs() < 1e-9, "{overheads:?}");
    }
}
