//! What a server's processes have taken: processor time, memory and context switches, as proc(5)
//! tells them.

use std::fs;
use std::path::PathBuf;

use nix::unistd::Pid;
use tandem_testbed::accounts;

/// Of all processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Time on a processor, microseconds.
    pub(crate) micros: u64,
    /// In user mode, ticks.
    pub(crate) user_ticks: u64,
    /// In the kernel, ticks.
    pub(crate) system_ticks: u64,
    /// Context switches.
    pub(crate) switches: u64,
    /// Resident memory at its largest, KiB.
    pub(crate) peak_kib: u64,
    /// Memory, shared pages in part (PSS), KiB.
    pub(crate) memory_kib: u64,
    /// How many processes.
    pub(crate) processes: usize,
}

impl Usage {
    /// Of a process and all that descend from it.
    pub(crate) fn of(root: Pid) -> Self {
        let mut all = Self::default();
        for process in family(root) {
            let read =
                |file: &str| fs::read_to_string(path(process).join(file)).unwrap_or_default();
            let own = accounts::of(&path(process));
            all.micros += own.micros;
            all.user_ticks += own.user_ticks;
            all.system_ticks += own.system_ticks;
            all.switches += own.switches + involuntary(process);
            all.peak_kib += kib(&read("status"), "VmHWM:");
            all.memory_kib += kib(&read("smaps_rollup"), "Pss:");
            all.processes += 1;
        }
        all
    }

    /// User and kernel time since an earlier moment, microseconds: the exact time on a processor,
    /// shared out as the kernel saw it by looking.
    pub(crate) fn times_since(&self, before: &Self) -> [f64; 2] {
        let ticks = |after: u64, before: u64| after.saturating_sub(before) as f64;
        let user = ticks(self.user_ticks, before.user_ticks);
        let system = ticks(self.system_ticks, before.system_ticks);
        let micros = self.micros.saturating_sub(before.micros) as f64;
        let share = match user + system {
            sum if sum > 0.0 => user / sum,
            _ => 1.0,
        };
        [micros * share, micros * (1.0 - share)]
    }
}

/// Forgets the peak of resident memory (proc(5), `clear_refs`); only root may.
pub(crate) fn forget_peaks(root: Pid) {
    for process in family(root) {
        let _ = fs::write(path(process).join("clear_refs"), "5");
    }
}

/// A process and all that descend from it.
pub(crate) fn family(root: Pid) -> Vec<Pid> {
    let mut all = vec![root];
    let mut next = 0;
    while let Some(process) = all.get(next).copied() {
        next += 1;
        let tasks = fs::read_dir(path(process).join("task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_ascii_whitespace();
            all.extend(
                children
                    .filter_map(|word| word.parse().ok())
                    .map(Pid::from_raw),
            );
        }
    }
    all
}

fn path(process: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{process}"))
}

fn involuntary(process: Pid) -> u64 {
    let tasks = fs::read_dir(path(process).join("task"));
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .map(|task| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            kib(&status, "nonvoluntary_ctxt_switches:")
        })
        .sum()
}

/// The number behind a name.
fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_taken_something() {
        let usage = Usage::of(Pid::this());
        assert!(
            usage.micros > 0 && usage.peak_kib > 500 && usage.processes >= 1,
            "{usage:?}"
        );
        assert!(usage.memory_kib > 100, "{usage:?}");
    }

    #[test]
    fn exact_time_is_shared_out_as_it_was_seen() {
        let before = Usage {
            micros: 1_000,
            user_ticks: 5,
            ..Usage::default()
        };
        let after = Usage {
            micros: 9_000,
            user_ticks: 8,
            system_ticks: 1,
            ..Usage::default()
        };
        assert_eq!(after.times_since(&before), [6_000.0, 2_000.0]);
        assert_eq!(before.times_since(&before), [0.0, 0.0]);
    }
}
