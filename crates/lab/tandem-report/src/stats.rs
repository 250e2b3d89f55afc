//! Medians and their spread.

/// The middle and the quartiles of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// How many there were.
    pub(crate) count: usize,
    /// The 25th percentile.
    pub(crate) low: f64,
    /// The middle one, or the mean of the two middle ones.
    pub(crate) median: f64,
    /// The 75th percentile.
    pub(crate) high: f64,
}

impl Spread {
    /// Of at least one number; numbers that are none are left out.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers
            .into_iter()
            .filter(|number| number.is_finite())
            .collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            count: sorted.len(),
            low: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            high: quantile(&sorted, 0.75)?,
        })
    }
}

/// Between the two nearest ranks, in proportion (Hyndman and Fan's type 7, which R and NumPy use by
/// default).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = share * last as f64;
    let below = rank.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (rank - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_quartiles_are_found() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
        let median =
            |numbers: &[f64]| Spread::of(numbers.iter().copied()).map(|spread| spread.median);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        let spread = Spread::of([5.0, 1.0, 2.0, 4.0, 3.0]);
        assert_eq!(
            spread,
            Some(Spread {
                count: 5,
                low: 2.0,
                median: 3.0,
                high: 4.0
            })
        );
    }
}
