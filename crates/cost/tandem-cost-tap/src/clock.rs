//! Processor time of the calling thread.

/// Looks at the clock that calibrate it.
const LOOKS: u64 = 2_000;

/// Nanoseconds that the calling thread has had on a processor.
pub(crate) fn nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one structure of the right type. It cannot fail for this clock, which Linux
    // has since 2.6.12.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Nanoseconds that one look takes.
pub(crate) fn cost() -> u64 {
    let begun = nanos();
    for _ in 0..LOOKS {
        std::hint::black_box(nanos());
    }
    nanos().saturating_sub(begun) / LOOKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_while_something_is_done_and_costs_something() {
        let begun = nanos();
        assert!(cost() > 0);
        assert!(nanos() > begun);
    }
}
