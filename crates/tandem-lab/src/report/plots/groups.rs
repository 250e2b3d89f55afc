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
}

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
        let scale = Scale::fitting(&figures, 5, (bottom, top));
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
        for (index, group) in self.groups.iter().enumerate() {
            let left = LEFT + index as f64 * width;
            self.draw_group(&mut svg, group, &scale, (left, left + width), bottom);
        }
        svg.line((LEFT, bottom), (self.width, bottom), INK, 1.0);
        svg.finish(&self.description)
    }

    fn draw_group(
        &self,
        svg: &mut Svg,
        group: &Group,
        scale: &Scale,
        span: (f64, f64),
        bottom: f64,
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
            svg.text((x + bar / 2.0, above - 5.0), Anchor::Middle, SMALL, label);
            x += bar + BETWEEN_BARS;
        }
    }
}
