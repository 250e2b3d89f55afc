//! From figures to pixels, linear or logarithmic, with ticks that people can read.

/// Above this ratio of the largest to the smallest figure a linear scale hides the small ones.
const DECADES_FROM: f64 = 20.0;

/// Decades that each get a tick; of more, only some do.
const MAX_DECADES: i32 = 8;

/// Steps of linear ticks within a decade.
const STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];

/// A scale between two ends of an axis. The pixels may grow or fall.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
    pixels: (f64, f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    Logarithmic,
}

impl Scale {
    /// From 0 to at least `largest`, with a round end; `ticks` is about how many there are to be.
    pub fn linear(largest: f64, ticks: usize, pixels: (f64, f64)) -> Self {
        let step = step(largest, ticks);
        Self {
            kind: Kind::Linear,
            from: 0.0,
            to: (largest / step).ceil().max(1.0) * step,
            pixels,
        }
    }

    /// From 0 to exactly `largest`.
    pub fn exact(largest: f64, pixels: (f64, f64)) -> Self {
        Self {
            kind: Kind::Linear,
            from: 0.0,
            to: largest.max(f64::MIN_POSITIVE),
            pixels,
        }
    }

    /// Whole decades around figures that are above zero.
    pub fn logarithmic(smallest: f64, largest: f64, pixels: (f64, f64)) -> Self {
        let from = smallest.max(f64::MIN_POSITIVE).log10().floor();
        let to = largest
            .max(f64::MIN_POSITIVE)
            .log10()
            .ceil()
            .max(from + 1.0);
        Self {
            kind: Kind::Logarithmic,
            from: 10f64.powf(from),
            to: 10f64.powf(to),
            pixels,
        }
    }

    /// For bars: logarithmic with whole decades where figures span decades, else linear from 0.
    pub fn fitting(figures: &[f64], ticks: usize, pixels: (f64, f64)) -> Self {
        let above_zero = || figures.iter().copied().filter(|figure| *figure > 0.0);
        let largest = above_zero().fold(0.0, f64::max);
        let smallest = above_zero().fold(f64::INFINITY, f64::min);
        if largest > 0.0 && largest / smallest > DECADES_FROM {
            Self::logarithmic(smallest, largest, pixels)
        } else {
            Self::linear(largest, ticks, pixels)
        }
    }

    /// For points, which need no base to stand on: a logarithmic scale ends close to its figures.
    pub fn fitting_points(figures: &[f64], ticks: usize, pixels: (f64, f64)) -> Self {
        let mut scale = Self::fitting(figures, ticks, pixels);
        match scale.kind {
            Kind::Linear => {}
            Kind::Logarithmic => {
                let above_zero = || figures.iter().copied().filter(|figure| *figure > 0.0);
                let largest = above_zero().fold(0.0, f64::max);
                let smallest = above_zero().fold(f64::INFINITY, f64::min);
                while scale.from * 2.0 < smallest {
                    scale.from *= 2.0;
                }
                while scale.to / 2.0 > largest {
                    scale.to /= 2.0;
                }
            }
        }
        scale
    }

    /// Whether to say so beside the axis.
    pub fn is_logarithmic(&self) -> bool {
        match self.kind {
            Kind::Linear => false,
            Kind::Logarithmic => true,
        }
    }

    /// Where a figure lies. Those beyond the ends lie at the ends.
    pub fn at(&self, figure: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (figure - self.from) / (self.to - self.from),
            Kind::Logarithmic => {
                (figure.max(self.from).log10() - self.from.log10())
                    / (self.to.log10() - self.from.log10())
            }
        };
        self.pixels.0 + (self.pixels.1 - self.pixels.0) * share.clamp(0.0, 1.0)
    }

    /// Figures to label, growing. On a logarithmic scale the decades.
    pub fn ticks(&self, about: usize) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = step(self.to, about);
                // An axis has some ticks, not millions.
                let count = (self.to / step).round() as usize;
                (0..=count).map(|index| index as f64 * step).collect()
            }
            Kind::Logarithmic => {
                // A little less and more, for decades that are not exact in floating point.
                let first = (self.from.log10() - 1e-9).ceil() as i32;
                let last = (self.to.log10() + 1e-9).floor() as i32;
                let every = (last - first) / MAX_DECADES + 1;
                (first..=last)
                    .filter(|power| (power - first) % every == 0)
                    .map(|power| 10f64.powi(power))
                    .collect()
            }
        }
    }
}

/// A round step that makes about so many ticks up to `largest`.
fn step(largest: f64, ticks: usize) -> f64 {
    if !largest.is_finite() || largest <= 0.0 {
        return 1.0;
    }
    let rough = largest / ticks.max(1) as f64;
    let decade = 10f64.powf(rough.log10().floor());
    STEPS
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * decade)
}

/// A tick's label: no more decimals than it needs.
pub fn tick_label(figure: f64) -> String {
    if figure >= 1000.0 {
        return super::number::count(figure);
    }
    let text = format!("{figure:.5}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_begin_at_zero_and_end_at_a_round_figure() {
        let scale = Scale::linear(9.5, 5, (0.0, 100.0));
        assert_eq!(scale.ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(scale.at(5.0), 50.0);
        assert_eq!(scale.at(11.0), 100.0);
        let falling = Scale::linear(100.0, 5, (200.0, 0.0));
        assert_eq!(falling.at(25.0), 150.0);
    }

    #[test]
    fn figures_that_span_decades_get_decades() {
        let scale = Scale::fitting(&[0.0106, 0.623, 1.08], 5, (0.0, 300.0));
        assert!(scale.is_logarithmic());
        let labels: Vec<String> = scale.ticks(5).into_iter().map(tick_label).collect();
        assert_eq!(labels, ["0.01", "0.1", "1", "10"]);
        assert!((scale.at(0.1) - 100.0).abs() < 1e-9);
        assert_eq!(scale.at(0.0), 0.0);
        assert!(!Scale::fitting(&[1.0, 9.0, 0.0], 5, (0.0, 1.0)).is_logarithmic());
        let points = Scale::fitting_points(&[0.0306, 0.623, 16.6], 5, (0.0, 300.0));
        assert_eq!(points.ticks(5), [0.1, 1.0, 10.0]);
        let widest = Scale::fitting(&[1e-300, 1e300], 5, (0.0, 100.0));
        assert!(widest.ticks(5).len() < 10);
        assert!((widest.at(1.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_show_is_a_scale_all_the_same() {
        let scale = Scale::fitting(&[], 5, (0.0, 100.0));
        assert_eq!(scale.ticks(1), [0.0, 1.0]);
        assert_eq!(scale.at(0.0), 0.0);
        assert_eq!(Scale::linear(0.0, 5, (0.0, 1.0)).at(0.0), 0.0);
    }

    #[test]
    fn labels_have_no_needless_digits() {
        assert_eq!(tick_label(0.0), "0");
        assert_eq!(tick_label(2.5), "2.5");
        assert_eq!(tick_label(0.001), "0.001");
        assert_eq!(tick_label(4000.0), "4,000");
    }
}
