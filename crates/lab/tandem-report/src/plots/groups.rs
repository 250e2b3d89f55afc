//! Grouped bars with their figures on top: what the thesis's plots are.

use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, FAINT, GRID, INK, LABEL, SMALL, Svg, clipped};
use super::legend::{self, Entry, Swatch};

const LEFT: f64 = 52.0;
const HEIGHT: f64 = 230.0;
const WIDEST_BAR: f64 = 34.0;
const BETWEEN_BARS: f64 = 3.0;

/// A plot of bars in groups.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Of letters, digits and hyphens.
    pub(crate) name: &'static str,
    /// In words, for those who cannot see it.
    pub(crate) description: String,
    /// What the bars are, with the unit.
    pub(crate) axis: &'static str,
    /// Pixels.
    pub(crate) width: f64,
    /// What the swatches mean.
    pub(crate) legend: Vec<Entry>,
    /// From left to right.
    pub(crate) groups: Vec<Group>,
    /// A line across at this figure, with words.
    pub(crate) reference: Option<(f64, &'static str)>,
    /// Where bars begin.
    pub(crate) base: Base,
}

/// What bars stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// Zero, or a decade where figures span some.
    Fitting,
    /// Zero.
    Zero,
}

/// Labels that are drawn already: left and right end, and base line.
type Placed = Vec<(f64, f64, f64)>;

/// Height of a line of labels, and the mean advance of their digits in a wide font, pixels.
const LABEL_LINE: f64 = 11.0;
const DIGIT: f64 = 6.6;

/// Bars that are compared with each other.
#[derive(Debug)]
pub(crate) struct Group {
    /// Below the bars.
    pub(crate) label: String,
    /// From left to right; every group has the same ones.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    /// How high; `None` where it was not run.
    pub(crate) figure: Option<f64>,
    /// On top of it.
    pub(crate) label: String,
    /// How it looks.
    pub(crate) swatch: Swatch,
}

impl Groups {
    /// The drawing.
    pub(crate) fn draw(&self) -> String {
        let top = legend::height(&self.legend, self.width) + 26.0;
        let bottom = top + HEIGHT;
        let figures: Vec<f64> = self
            .groups
            .iter()
            .flat_map(|group| group.bars.iter().filter_map(|bar| bar.figure))
            .chain(self.reference.map(|(figure, _)| figure))
            .collect();
        let scale = match self.base {
            Base::Fitting => Scale::fitting(&figures, 5, (bottom, top)),
            Base::Zero => {
                let largest = figures.iter().copied().fold(0.0, f64::max);
                Scale::linear(largest, 5, (bottom, top))
            }
        };
        let mut svg = Svg::new(self.name, self.width, bottom + 28.0);
        legend::draw(&mut svg, &self.legend, (0.0, 0.0), self.width);
        for tick in scale.ticks(5) {
            let y = scale.at(tick);
            svg.line((LEFT, y), (self.width, y), GRID, 1.0);
            svg.text((LEFT - 6.0, y + 4.0), Anchor::End, SMALL, &tick_label(tick));
        }
        let axis = if scale.is_logarithmic() {
            format!("{} (log scale)", self.axis)
        } else {
            self.axis.to_owned()
        };
        svg.upright_text((11.0, (top + bottom) / 2.0), SMALL, &axis);
        if let Some((figure, words)) = self.reference {
            let y = scale.at(figure);
            svg.dashed((LEFT, y), (self.width, y), FAINT, 1.0);
            svg.text((self.width, y - 5.0), Anchor::End, SMALL, words);
        }
        let width = (self.width - LEFT) / self.groups.len().max(1) as f64;
        let mut placed = Placed::new();
        for (index, group) in self.groups.iter().enumerate() {
            let left = LEFT + index as f64 * width;
            let span = (left, left + width);
            draw_group(&mut svg, group, &scale, span, bottom, &mut placed);
        }
        svg.line((LEFT, bottom), (self.width, bottom), INK, 1.0);
        svg.finish(&self.description)
    }
}

fn draw_group(
    svg: &mut Svg,
    group: &Group,
    scale: &Scale,
    span: (f64, f64),
    bottom: f64,
    placed: &mut Placed,
) {
    let (from, to) = span;
    svg.text(
        ((from + to) / 2.0, bottom + 18.0),
        Anchor::Middle,
        LABEL,
        &clipped(&group.label, LABEL, to - from),
    );
    let count = group.bars.len().max(1) as f64;
    let bar = (((to - from) * 0.86) / count - BETWEEN_BARS).min(WIDEST_BAR);
    let used = count * bar + (count - 1.0) * BETWEEN_BARS;
    let mut x = (from + to - used) / 2.0;
    for Bar {
        figure,
        label,
        swatch,
    } in &group.bars
    {
        let above = figure.map_or(bottom, |figure| scale.at(figure));
        match swatch {
            _ if figure.is_none() => {}
            Swatch::Hatched(colour) => {
                svg.hatched((x, above), (bar, bottom - above), colour);
            }
            Swatch::Filled(colour) => {
                svg.rectangle((x, above), (bar, bottom - above), colour);
            }
            Swatch::Mark(look) => {
                svg.rectangle((x, above), (bar, bottom - above), look.colour);
            }
        }
        let middle = x + bar / 2.0;
        let line = free_line(placed, label, (middle, above - 5.0));
        svg.text((middle, line), Anchor::Middle, SMALL, label);
        x += bar + BETWEEN_BARS;
    }
}

/// A base line at or above a point where a label around it covers no other.
fn free_line(placed: &mut Placed, label: &str, (middle, lowest): (f64, f64)) -> f64 {
    let half = label.chars().count() as f64 * DIGIT / 2.0;
    let (left, right) = (middle - half, middle + half);
    let mut line = lowest;
    let covers = |line: f64| {
        placed
            .iter()
            .any(|other| left < other.1 && other.0 < right && (line - other.2).abs() < LABEL_LINE)
    };
    while covers(line) {
        line -= 1.0;
    }
    placed.push((left, right, line));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_gives_way_upwards() {
        let mut placed = Placed::new();
        assert_eq!(free_line(&mut placed, "10.5", (100.0, 50.0)), 50.0);
        assert_eq!(free_line(&mut placed, "10.6", (120.0, 48.0)), 39.0);
        assert_eq!(free_line(&mut placed, "10.7", (140.0, 50.0)), 50.0);
    }
}
