//! Numbers as the page, the plots and the tables write them. Digits in groups of three by commas, a
//! no-break space before a unit.

/// U+00A0, so that a unit stays with its number.
pub(crate) const SPACE: char = '\u{a0}';

/// An en dash for what was not measured.
pub(crate) const ABSENT: &str = "–";

/// Seconds without unit: two decimals from 1 s on, three below, four below a tenth.
pub(crate) fn seconds(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// Counts and bytes: whole numbers in groups. A median of an even number of trials is rounded.
pub(crate) fn count(value: f64) -> String {
    // Saturates beyond u64, and below zero.
    let digits = (value.abs().round() as u64).to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value.round() < 0.0 {
        text.push('−');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio as whole per cent, with its sign.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.0}{SPACE}%", ratio * 100.0)
}

/// "1 trial", "2 trials".
pub(crate) fn plural(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{}{SPACE}{noun}{ending}", count(number as f64))
}

/// Bytes in a few signs, for labels: `300`, `3 kB`, `10 MB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes as f64 / 1e3),
        _ => format!("{} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_as_many_digits_as_mean_something() {
        assert_eq!(seconds(9.50572), "9.51");
        assert_eq!(seconds(0.623161), "0.623");
        assert_eq!(seconds(0.01062), "0.0106");
        assert_eq!(seconds(0.00523), "0.0052");
    }

    #[test]
    fn counts_are_grouped_and_keep_their_sign() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(999.5), "1,000");
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(-1200.0), "−1,200");
        assert_eq!(plural(1, "trial"), "1\u{a0}trial");
        assert_eq!(plural(20, "trial"), "20\u{a0}trials");
    }
}
