//! Which units of experiments run at a time, so that a run of many takes no longer than the
//! processors need.
//!
//! On a slow link a trial leaves the processors idle, so units on such links run side by side: the
//! longest first, since the whole takes at least as long as the longest; and no more at a time than
//! use a quarter of the processors, so that none waits for another. Units whose times are short
//! enough to be disturbed run alone, after all others.
//!
//! Is not: the running of them (`runner`), nor the arithmetic of how long they take (`experiment`).
//!
//! Invariants: every unit is handed out once; whatever is handed out is given back; while one that
//! wants nobody beside it is out, no other is.

/// Processor time of a trial, all programs and the emulator together, seconds: some 40 ms of it a
/// client's start, as measured on two cores of a current server, and as much again for slower ones.
const TRIAL_CPU: f64 = 0.1;

/// Share of the processors that units may use side by side.
const SHARE: f64 = 0.25;

/// Whether a unit may run beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// Others may run at the same time.
    Others,
    /// Nothing else may.
    Nobody,
}

/// What a unit takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Need {
    /// From its beginning to its end.
    pub(crate) seconds: f64,
    /// All arms'.
    pub(crate) trials: f64,
    /// Whether it may run beside others.
    pub(crate) company: Company,
}

impl Need {
    /// Processors that it uses on average.
    fn load(self) -> f64 {
        if self.seconds > 0.0 {
            self.trials * TRIAL_CPU / self.seconds
        } else {
            0.0
        }
    }
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(crate) enum Turn<T> {
    /// Run this, and say so when it is done.
    Run(T, Need),
    /// Nothing fits beside what runs.
    Wait,
    /// Nothing is left to begin.
    Over,
}

/// Units that wait, and how much runs.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    /// The one to be preferred last.
    waiting: Vec<(T, Need)>,
    most: usize,
    capacity: f64,
    running: Vec<Need>,
}

impl<T> Schedule<T> {
    /// For a machine with so many processors, with at most `most` units at a time.
    pub(crate) fn new(units: Vec<(T, Need)>, most: usize, processors: usize) -> Self {
        let mut waiting = units;
        waiting.reverse();
        // Stable: units that take as long as each other keep their order.
        waiting.sort_by(|(_, a), (_, b)| a.seconds.total_cmp(&b.seconds));
        Self {
            waiting,
            most: most.max(1),
            // A count of processors is small.
            capacity: processors.max(1) as f64 * SHARE,
            running: Vec::new(),
        }
    }

    /// What to begin now.
    pub(crate) fn next(&mut self) -> Turn<T> {
        let others_wait = self
            .waiting
            .iter()
            .any(|(_, need)| need.company == Company::Others);
        let load: f64 = self.running.iter().map(|need| need.load()).sum();
        let is_idle = self.running.is_empty();
        let is_alone = self
            .running
            .iter()
            .any(|need| need.company == Company::Nobody);
        let has_room = !is_alone && self.running.len() < self.most;
        let fits = |need: &Need| match need.company {
            Company::Others => is_idle || (has_room && load + need.load() <= self.capacity),
            Company::Nobody => is_idle && !others_wait,
        };
        match self.waiting.iter().rposition(|(_, need)| fits(need)) {
            Some(index) => {
                let (unit, need) = self.waiting.remove(index);
                self.running.push(need);
                Turn::Run(unit, need)
            }
            None if self.waiting.is_empty() => Turn::Over,
            None => Turn::Wait,
        }
    }

    /// One of those that run is done.
    pub(crate) fn done(&mut self, need: Need) {
        if let Some(index) = self.running.iter().position(|known| *known == need) {
            self.running.swap_remove(index);
        }
    }

    /// Begins nothing more.
    pub(crate) fn stop(&mut self) {
        self.waiting.clear();
    }
}

/// Seconds until all is done.
pub(crate) fn seconds(needs: Vec<Need>, most: usize, processors: usize) -> f64 {
    let units = needs.into_iter().map(|need| ((), need)).collect();
    let mut schedule = Schedule::new(units, most, processors);
    let (mut now, mut ends) = (0.0, Vec::<(f64, Need)>::new());
    loop {
        match schedule.next() {
            Turn::Run((), need) => ends.push((now + need.seconds, need)),
            Turn::Over if ends.is_empty() => return now,
            Turn::Wait | Turn::Over => {
                let first = (0..ends.len()).min_by(|a, b| ends[*a].0.total_cmp(&ends[*b].0));
                // Whoever waits, waits for one that runs.
                let Some(first) = first else {
                    return now;
                };
                let (end, need) = ends.swap_remove(first);
                now = end;
                schedule.done(need);
            }
        }
    }
}

/// Processors that this machine offers to the lab.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(seconds: f64, company: Company) -> Need {
        Need {
            seconds,
            // A tenth of a processor, where it takes ten seconds.
            trials: 10.0,
            company,
        }
    }

    #[test]
    fn the_longest_begin_and_the_sensitive_come_last_and_alone() {
        let units = vec![
            ("fast", need(5.0, Company::Nobody)),
            ("short", need(10.0, Company::Others)),
            ("long", need(100.0, Company::Others)),
            ("other", need(5.0, Company::Nobody)),
        ];
        let mut schedule = Schedule::new(units, 8, 2);
        let mut running = Vec::new();
        let mut order = Vec::new();
        loop {
            match schedule.next() {
                Turn::Run(name, need) => {
                    order.push(name);
                    running.push(need);
                }
                Turn::Wait => {
                    order.push("waits");
                    schedule.done(running.remove(0));
                }
                Turn::Over => break,
            }
        }
        assert_eq!(
            order,
            ["long", "short", "waits", "waits", "fast", "waits", "other"]
        );
    }

    #[test]
    fn no_more_run_at_a_time_than_leave_the_processors_idle() {
        let units = |count: usize| vec![need(10.0, Company::Others); count];
        // A quarter of two processors are five such units; of many processors as many as are
        // allowed.
        assert_eq!(seconds(units(5), 16, 2), 10.0);
        assert_eq!(seconds(units(6), 16, 2), 20.0);
        assert_eq!(seconds(units(6), 3, 64), 20.0);
        assert_eq!(seconds(units(6), 16, 64), 10.0);
        // One that alone takes more is not kept waiting for ever.
        assert_eq!(seconds(vec![need(0.5, Company::Others); 2], 16, 1), 1.0);
        assert_eq!(seconds(vec![need(7.0, Company::Nobody); 3], 16, 64), 21.0);
        assert_eq!(seconds(Vec::new(), 16, 2), 0.0);
    }

    #[test]
    fn nothing_begins_once_it_is_stopped() {
        let units = vec![
            ("a", need(1.0, Company::Others)),
            ("b", need(1.0, Company::Others)),
        ];
        let mut schedule = Schedule::new(units, 1, 1);
        assert!(matches!(schedule.next(), Turn::Run("a", _)));
        schedule.stop();
        assert_eq!(schedule.next(), Turn::Over);
    }
}
