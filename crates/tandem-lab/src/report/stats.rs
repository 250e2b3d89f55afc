//! The middle of some trials and how far they spread. No mean, no deviation: times over a link have outliers.

/// Median and quartiles of values that are all finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// How many values there are, 1 or more.
    pub(crate) count: usize,
    /// A quarter of the values lie below.
    pub(crate) lower: f64,
    /// Half of the values lie below.
    pub(crate) median: f64,
    /// A quarter of the values lie above.
    pub(crate) upper: f64,
}

impl Spread {
    /// `None` of no values. Those that are no finite numbers are left out.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            count: values.len(),
            lower: quantile(&values, 0.25)?,
            median: quantile(&values, 0.5)?,
            upper: quantile(&values, 0.75)?,
        })
    }
}

/// Linear interpolation between the two nearest ranks (Hyndman and Fan 1996, definition 7), of sorted values.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    // Ranks are far below 2^52.
    let rank = share * sorted.len().checked_sub(1)? as f64;
    let below = *sorted.get(rank.floor() as usize)?;
    let above = *sorted.get(rank.ceil() as usize)?;
    Some(below + (above - below) * rank.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated_between_the_nearest_values() {
        let of = |values: &[f64]| {
            Spread::of(values.iter().copied())
                .map(|spread| (spread.lower, spread.median, spread.upper))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some((1.75, 2.5, 3.25)));
        assert_eq!(of(&[5.0, 1.0, 3.0, 2.0, 4.0]), Some((2.0, 3.0, 4.0)));
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let spread = Spread::of([f64::NAN, 1.0, f64::INFINITY, 3.0]);
        assert_eq!(
            spread.map(|spread| (spread.count, spread.median)),
            Some((2, 2.0))
        );
    }
}
