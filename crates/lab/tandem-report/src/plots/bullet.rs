//! A bar of the figures to reach, in a line: what is allowed, what was measured, and marks where
//! bar and target lie.

use super::super::scale::Scale;
use super::super::svg::{FAINT, INK, Svg};
use super::super::verdict::{BarResult, Bound, Outcome};
use crate::arm::Arm;

const WIDTH: f64 = 170.0;
const HEIGHT: f64 = 18.0;
/// What is allowed.
const ALLOWED: &str = "#e8eef3";

/// The drawing; `None` where nothing was measured.
pub(crate) fn bullet(result: &BarResult) -> Option<String> {
    let (measured, bar) = (result.measured?, result.bar);
    let largest = measured.max(bar).max(result.target.unwrap_or(0.0)) * 1.15;
    let scale = Scale::exact(largest, (1.0, WIDTH - 1.0));
    let middle = HEIGHT / 2.0;
    let mut svg = Svg::new(&format!("bar-{}", result.id), WIDTH, HEIGHT);
    let (from, to) = match result.bound {
        Bound::AtMost => (1.0, scale.at(bar)),
        Bound::AtLeast => (scale.at(bar), WIDTH - 1.0),
    };
    svg.rectangle((from, 2.0), (to - from, HEIGHT - 4.0), ALLOWED);
    let colour = Arm::Packet.look().colour;
    let size = (scale.at(measured) - 1.0, 6.0);
    match result.outcome {
        Outcome::Reached | Outcome::NotMeasured => {
            svg.rectangle((1.0, middle - 3.0), size, colour);
        }
        // Hatched, so that it shows without colour, too.
        Outcome::Missed => svg.hatched((1.0, middle - 3.0), size, colour),
    }
    if let Some(target) = result.target {
        let x = scale.at(target);
        svg.dashed((x, 1.0), (x, HEIGHT - 1.0), FAINT, 1.0);
    }
    let x = scale.at(bar);
    svg.line((x, 1.0), (x, HEIGHT - 1.0), INK, 2.0);
    Some(svg.finish(&format!("{}: {}", result.what, result.verdict())))
}
