//! What a process took of the processor, and how many packets its namespace queued for user space,
//! by the kernel's accounts.

use std::fs;
use std::path::Path;

/// A process's accounts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Accounts {
    /// Time on a processor, all threads, microseconds.
    pub micros: u64,
    /// Of that in user mode, by looking, ticks.
    pub user_ticks: u64,
    /// In the kernel, likewise.
    pub system_ticks: u64,
    /// Voluntary context switches, all threads.
    pub switches: u64,
    /// Packets that the process's network namespace has queued, all queues.
    pub queued: u64,
}

/// A process's accounts (proc(5): `stat`, fields 14 and 15; `schedstat` and `status` of each
/// thread).
pub fn of(process: &Path) -> Accounts {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let [user_ticks, system_ticks] = ticks(&stat);
    let queues = fs::read_to_string(process.join("net/netfilter/nfnetlink_queue"));
    let mut accounts = Accounts {
        user_ticks,
        system_ticks,
        queued: queued(&queues.unwrap_or_default()),
        ..Accounts::default()
    };
    let threads = fs::read_dir(process.join("task"));
    for thread in threads.into_iter().flatten().flatten() {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let nanos = read("schedstat")
            .split_ascii_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        accounts.micros += nanos.unwrap_or(0) / 1000;
        let switches = read("status").lines().find_map(|line| {
            line.strip_prefix("voluntary_ctxt_switches:")?
                .trim()
                .parse()
                .ok()
        });
        accounts.switches += switches.unwrap_or(0_u64);
    }
    accounts
}

/// The fourteenth and the fifteenth field. The second is a name in brackets that may hold anything.
fn ticks(stat: &str) -> [u64; 2] {
    let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || {
        fields
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0)
    };
    [next(), next()]
}

/// The sum of the eighth column, the number of each queue's last packet (net/netfilter/
/// nfnetlink_queue.c, `seq_show`).
fn queued(text: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(7)?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 31 42 5 6 20 0 1 0 100";
        assert_eq!(ticks(stat), [31, 42]);
        assert_eq!(ticks(""), [0, 0]);
    }

    #[test]
    fn packets_of_all_queues_are_added_up() {
        let text = "26479  81421     0 2 65531     0     0     1234  1\n    7  81422     0 2 65531     0     0       10  1\n";
        assert_eq!(queued(text), 1_244);
        assert_eq!(queued(""), 0);
    }

    #[test]
    fn the_own_process_has_accounts() {
        let own = of(Path::new("/proc/self"));
        assert!(own.micros > 0, "{own:?}");
    }
}
