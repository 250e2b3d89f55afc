//! Points and lines between two axes, either of them logarithmic.

use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, FAINT, GRID, INK, SMALL, Shape, Svg};
use super::HALF;
use super::legend::{self, Entry};

const LEFT: f64 = 62.0;
const RIGHT: f64 = 34.0;
const HEIGHT: f64 = 250.0;

/// How an axis runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From zero.
    Linear,
    /// By whole decades.
    Logarithmic,
}

/// One axis.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// How it runs.
    pub kind: Kind,
    /// What it says, with the unit.
    pub title: &'static str,
}

/// Points of one kind.
#[derive(Debug, Clone)]
pub struct Series {
    /// From left to right where a line joins them.
    pub points: Vec<(f64, f64)>,
    /// Of marks and line.
    pub colour: &'static str,
    /// How they show.
    pub drawn: Drawn,
}

/// How points show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// As marks.
    Marks(Shape),
    /// As a line through them.
    Line,
    /// As both.
    LineWithMarks(Shape),
}

/// A drawing of half the page's width.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Of letters, digits and hyphens.
    pub name: &'static str,
    /// In words, for those who cannot see it.
    pub description: String,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Above the plot.
    pub legend: Vec<Entry>,
    /// Later ones lie on top.
    pub series: Vec<Series>,
    /// A line across at this figure, with words at one of its ends.
    pub reference: Option<(f64, &'static str, Anchor)>,
}

impl Chart {
    /// The drawing.
    pub fn draw(&self) -> String {
        let top = legend::height(&self.legend, HALF) + 16.0;
        let bottom = top + HEIGHT;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let reference = self.reference.iter().map(|(figure, ..)| *figure);
        let x = scale(
            self.x.kind,
            points().map(|point| point.0),
            (LEFT, HALF - RIGHT),
        );
        let heights = points().map(|point| point.1).chain(reference);
        let y = scale(self.y.kind, heights, (bottom, top));
        let mut svg = Svg::new(self.name, HALF, bottom + 46.0);
        legend::draw(&mut svg, &self.legend, (0.0, 0.0), HALF);
        for tick in y.ticks(5) {
            svg.line((LEFT, y.at(tick)), (HALF - RIGHT, y.at(tick)), GRID, 1.0);
            svg.text(
                (LEFT - 6.0, y.at(tick) + 4.0),
                Anchor::End,
                SMALL,
                &tick_label(tick),
            );
        }
        for tick in x.ticks(5) {
            svg.line((x.at(tick), bottom), (x.at(tick), bottom + 4.0), INK, 1.0);
            let label = (x.at(tick), bottom + 17.0);
            svg.text(label, Anchor::Middle, SMALL, &tick_label(tick));
        }
        svg.line((LEFT, bottom), (HALF - RIGHT, bottom), INK, 1.0);
        svg.upright_text((11.0, (top + bottom) / 2.0), SMALL, self.y.title);
        let middle = (LEFT + HALF - RIGHT) / 2.0;
        svg.text((middle, bottom + 36.0), Anchor::Middle, SMALL, self.x.title);
        if let Some((figure, words, anchor)) = self.reference {
            let height = y.at(figure);
            svg.dashed((LEFT, height), (HALF - RIGHT, height), FAINT, 1.0);
            let end = match anchor {
                Anchor::Start => LEFT + 4.0,
                Anchor::Middle => middle,
                Anchor::End => HALF - RIGHT,
            };
            svg.text((end, height + 13.0), anchor, SMALL, words);
        }
        for series in &self.series {
            let places: Vec<(f64, f64)> = series
                .points
                .iter()
                .map(|point| (x.at(point.0), y.at(point.1)))
                .collect();
            match series.drawn {
                Drawn::Line | Drawn::LineWithMarks(_) => svg.path(&places, series.colour, 1.8),
                Drawn::Marks(_) => {}
            }
            match series.drawn {
                Drawn::Marks(shape) | Drawn::LineWithMarks(shape) => {
                    for place in places {
                        svg.mark(place, shape, series.colour);
                    }
                }
                Drawn::Line => {}
            }
        }
        svg.finish(&self.description)
    }
}

fn scale(kind: Kind, figures: impl Iterator<Item = f64>, pixels: (f64, f64)) -> Scale {
    let figures: Vec<f64> = figures.collect();
    let largest = figures.iter().copied().fold(0.0, f64::max);
    match kind {
        Kind::Linear => Scale::linear(largest, 5, pixels),
        Kind::Logarithmic => {
            let smallest = figures.iter().copied().filter(|figure| *figure > 0.0);
            Scale::logarithmic(smallest.fold(f64::INFINITY, f64::min), largest, pixels)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_their_figures_are() {
        let axis = |title| Axis {
            kind: Kind::Logarithmic,
            title,
        };
        let svg = Chart {
            name: "c",
            description: "d".to_owned(),
            x: axis("bytes"),
            y: axis("factor"),
            legend: Vec::new(),
            series: vec![Series {
                points: vec![(100.0, 1.0), (10_000.0, 100.0)],
                colour: "#000000",
                drawn: Drawn::LineWithMarks(Shape::Disc),
            }],
            reference: Some((1.0, "no gain", Anchor::End)),
        }
        .draw();
        // Two decades each way, from corner to corner.
        assert!(svg.contains(r#"points="62.0,266.0 436.0,16.0""#), "{svg}");
        assert!(
            svg.contains(">no gain<") && svg.contains(">1,000<"),
            "{svg}"
        );
    }
}
