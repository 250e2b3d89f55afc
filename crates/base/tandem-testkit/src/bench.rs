//! How a bench tells its figures: a line for people, and a JSON line for scripts.
//!
//! Is not: a measurement.

/// Tells a figure.
#[expect(clippy::print_stdout, reason = "a bench prints")]
pub fn report(name: &str, value: f64, unit: &str) {
    println!("{name:<40} {value:>12.1} {unit}");
    script_line(name, value, unit);
}

/// Tells scripts alone, where people have a table.
#[expect(clippy::print_stdout, reason = "a bench prints")]
pub fn script_line(name: &str, value: f64, unit: &str) {
    let line = serde_json::json!({ "bench": name, "value": value, "unit": unit });
    println!("{line}");
}

/// The median; the values are in order afterwards.
///
/// # Panics
/// Without values.
#[must_use]
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    f64::midpoint(values[(values.len() - 1) / 2], values[middle])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&mut [4.0, 1.0, 9.0, 2.0]), 3.0);
    }
}
