//! What a process says of itself, processor time and memory, and how many descriptors it may have.
//!
//! Is not: a measurement of anything else on the machine.

use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};

use crate::metrics::Text;

/// Processor time used so far, all threads, user and system.
#[must_use]
pub fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(|time| Duration::from(time).as_secs_f64())
        .unwrap_or_default()
}

/// Bytes of memory.
#[derive(Debug, Default, Clone, Copy)]
pub struct Memory {
    /// In use.
    pub resident: u64,
    /// The most that were in use at one time.
    pub peak: u64,
}

impl Memory {
    /// From `VmRSS` and `VmHWM` of proc(5); 0 where /proc is missing.
    #[must_use]
    pub fn now() -> Self {
        let text = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .and_then(|value| value.split_whitespace().next())
                .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
                .map_or(0, |kilobytes| kilobytes * 1024)
        };
        Self {
            resident: field("VmRSS:"),
            peak: field("VmHWM:"),
        }
    }
}

/// Permits this process as many descriptors as the system lets it ask for: a shell gives 1,024,
/// for the sake of programs that use select(2), and each connection needs one. Where that is
/// refused, nothing changes.
pub fn raise_descriptor_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Adds all of this to `text`, by the names that Prometheus knows for every process (client library
/// guidelines) where there are such.
pub fn show(text: &mut Text, uptime: Duration) {
    let memory = Memory::now();
    text.counter("process_cpu_seconds", "process cpu seconds", cpu_seconds());
    text.gauge(
        "process_resident_memory_bytes",
        "process resident memory bytes",
        memory.resident,
    );
    text.gauge(
        "tandem_peak_resident_bytes",
        "peak resident bytes",
        memory.peak,
    );
    text.gauge(
        "tandem_uptime_seconds",
        "uptime seconds",
        uptime.as_secs_f64(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_as_many_descriptors_as_it_can_ask_for() {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        setrlimit(Resource::RLIMIT_NOFILE, most - 1, most).expect("less is permitted");
        raise_descriptor_limit();
        let now = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        assert_eq!(now, (most, most));
    }
}
