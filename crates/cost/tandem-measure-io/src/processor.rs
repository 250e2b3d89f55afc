//! What each thread has had of the processors: proc(5), `/proc/PID/task/TID/schedstat`.

use std::time::Duration;

use nix::unistd::Pid;
use tandem_daemon::process;
use tandem_measure::Effort;

/// What these threads have had so far; equal parts of what the process has had, where the kernel
/// does not say it of each.
pub(crate) fn efforts(threads: &[Pid]) -> Vec<Effort> {
    let of_each: Option<Vec<Effort>> = threads
        .iter()
        .map(|thread| {
            let path = format!("/proc/self/task/{thread}/schedstat");
            read(&std::fs::read_to_string(path).ok()?)
        })
        .collect();
    of_each.unwrap_or_else(|| {
        let each = process::cpu_seconds() / threads.len() as f64;
        let effort = Effort {
            busy: Duration::try_from_secs_f64(each).unwrap_or_default(),
            waited: Duration::ZERO,
        };
        vec![effort; threads.len()]
    })
}

/// What came in between, thread by thread.
pub(crate) fn between(before: &[Effort], after: &[Effort]) -> Vec<Effort> {
    let pairs = before.iter().zip(after);
    pairs
        .map(|(before, after)| Effort {
            busy: after.busy.saturating_sub(before.busy),
            waited: after.waited.saturating_sub(before.waited),
        })
        .collect()
}

/// Nanoseconds on a processor, nanoseconds in wait for one, and a number that is of no interest.
fn read(text: &str) -> Option<Effort> {
    let mut fields = text
        .split_whitespace()
        .map(|field| field.parse().map(Duration::from_nanos));
    Some(Effort {
        busy: fields.next()?.ok()?,
        waited: fields.next()?.ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_has_had_time() {
        let own = [nix::unistd::gettid()];
        let before = efforts(&own);
        let mut sum = 0_u64;
        while efforts(&own)[0].busy < before[0].busy + Duration::from_millis(5) {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_mul(31) ^ number);
        }
        let between = between(&before, &efforts(&own));
        assert!(between[0].busy >= Duration::from_millis(5), "{sum}");
    }

    #[test]
    fn what_the_kernel_does_not_say_is_shared_out() {
        assert_eq!(read(""), None);
        assert_eq!(read("1 x 2"), None);
        let whole = efforts(&[Pid::from_raw(i32::MAX)]);
        let half = efforts(&[Pid::from_raw(i32::MAX); 2]);
        assert_eq!((whole.len(), half.len()), (1, 2));
        assert!(whole[0].busy > Duration::ZERO && half[0].busy < whole[0].busy * 2);
    }
}
