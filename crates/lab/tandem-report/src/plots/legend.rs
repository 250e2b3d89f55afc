//! Which colour and which mark is whose, in a row above a plot that wraps where it is full.

use super::super::arm::Look;
use super::super::svg::{Anchor, LABEL, Svg, width_of};
use crate::arm::Arm;

/// Height of one row, pixels.
const ROW: f64 = 20.0;

/// What stands before a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swatch {
    /// A point's mark.
    Mark(Look),
    /// A bar's colour.
    Filled(&'static str),
    /// A hatched bar's colour.
    Hatched(&'static str),
}

/// A swatch and what it means.
pub type Entry = (Swatch, String);

/// Entries for arms that points stand for.
pub(crate) fn marks(arms: &[Arm]) -> Vec<Entry> {
    arms.iter()
        .map(|arm| (Swatch::Mark(arm.look()), arm.look().label.to_owned()))
        .collect()
}

/// Pixels that a legend takes in a width.
pub fn height(entries: &[Entry], width: f64) -> f64 {
    let rows = places(entries, width)
        .last()
        .map_or(0.0, |(_, row)| *row + 1.0);
    rows * ROW
}

/// Draws it from a corner on.
pub fn draw(svg: &mut Svg, entries: &[Entry], corner: (f64, f64), width: f64) {
    for ((swatch, label), (left, row)) in entries.iter().zip(places(entries, width)) {
        let (x, middle) = (corner.0 + left, corner.1 + row * ROW + ROW / 2.0);
        match swatch {
            Swatch::Mark(look) => svg.mark((x + 5.0, middle), look.shape, look.colour),
            Swatch::Filled(colour) => svg.rectangle((x, middle - 5.0), (10.0, 10.0), colour),
            Swatch::Hatched(colour) => svg.hatched((x, middle - 5.0), (10.0, 10.0), colour),
        }
        svg.text((x + 16.0, middle + 4.0), Anchor::Start, LABEL, label);
    }
}

/// Where each entry begins, and in which row.
fn places(entries: &[Entry], width: f64) -> Vec<(f64, f64)> {
    let (mut left, mut row) = (0.0, 0.0);
    let mut places = Vec::new();
    for (_, label) in entries {
        let needed = 16.0 + width_of(label, LABEL);
        if left > 0.0 && left + needed > width {
            (left, row) = (0.0, row + 1.0);
        }
        places.push((left, row));
        left += needed + 14.0;
    }
    places
}
