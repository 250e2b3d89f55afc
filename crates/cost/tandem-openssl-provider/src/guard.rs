//! No panic crosses into C: a function answers as for a failure instead.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `act`; `failed` where it panics.
pub(crate) fn guard<T>(failed: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure() {
        assert_eq!(guard(0, || 1), 1);
        assert_eq!(guard(0, || panic!("a test's")), 0);
    }
}
