//! How much of the random and exhaustive tests is run: what CI has time for, or as much as the
//! environment asks for.
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads the environment; the crate does not"
)]

/// The seeds to run: `usual` of them; `TANDEM_SEEDS` many; or the one that `TANDEM_SEED` names.
pub fn seeds(usual: u64) -> Vec<u64> {
    match (number("TANDEM_SEED"), number("TANDEM_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, count) => (0..count.unwrap_or(usual)).collect(),
    }
}

/// Whether more is asked for than CI has time for.
pub fn is_thorough() -> bool {
    number("TANDEM_SEEDS").is_some()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}
