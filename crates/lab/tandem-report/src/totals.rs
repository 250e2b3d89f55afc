//! How many trials there were in all runs together, and how many of them went wrong.
//!
//! Is not: part of any figure; where a trial counts is each table's business.

use super::input::Input;
use super::number;
use crate::row::Row;

/// Counts over all runs: those that compare arms, those with situations, those with many clients,
/// and the evaluations of splitting and of multi-context TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) trials: usize,
    /// In which the client did not get its answer.
    pub(crate) failed: usize,
    /// In which an endpoint received other bytes than were sent, or nothing could be compared.
    pub(crate) differing: usize,
    /// Of those that failed or differ: trials of the thesis's format in situations in which it is
    /// known to let wrong bytes reach the client's TCP ([`crate::situation::Situation::may_fail`]).
    pub(crate) known: usize,
    /// The others of those that failed or differ.
    pub(crate) unexplained: usize,
}

impl Totals {
    pub(crate) fn of(input: &Input) -> Self {
        let mut totals = Self::default();
        let runs = [&input.runs, &input.staged, &input.crowds];
        for row in runs.into_iter().flatten().flat_map(|run| &run.rows) {
            totals.count(row.ok, row.identical, is_known(row));
        }
        for row in &input.splitting {
            totals.count(row.ok, row.identical, false);
        }
        for row in &input.mctls {
            // A byte that differs fails the trial.
            totals.count(row.ok, row.ok, false);
        }
        totals
    }

    fn count(&mut self, ok: bool, identical: bool, is_known: bool) {
        self.trials += 1;
        self.failed += usize::from(!ok);
        self.differing += usize::from(!identical);
        let is_sound = ok && identical;
        self.known += usize::from(!is_sound && is_known);
        self.unexplained += usize::from(!is_sound && !is_known);
    }

    /// Whether nothing went wrong but what is known.
    pub(crate) fn are_good(&self) -> bool {
        self.unexplained == 0
    }

    /// In words, the trials that are known to differ with their reason.
    pub(crate) fn in_words(&self) -> String {
        let trials = number::plural(self.trials, "trial");
        if self.known + self.unexplained == 0 {
            return format!("All {trials} succeeded, and every byte arrived as it was sent.");
        }
        let mut text = format!(
            "Of {trials}, {} failed and {} delivered other bytes than were sent or could not be compared.",
            self.failed, self.differing
        );
        if self.known > 0 {
            text.push_str(&format!(
                " {} of these are the thesis's format in cases 1 and 4, or with a client side that resets, where it is known to: \
                 a client side that meets a connection in its middle hands a reference on, and the client's TCP holds it until the \
                 server's repeat replaces it.",
                self.known
            ));
        }
        text
    }
}

fn is_known(row: &Row) -> bool {
    row.situation
        .is_some_and(|situation| situation.may_fail(row.arm))
}

#[cfg(test)]
mod tests {
    use super::super::input::Run;
    use super::super::synthetic;
    use super::*;
    use crate::arm::Arm;
    use crate::situation::Situation;

    fn run(rows: Vec<Row>) -> Vec<Run> {
        vec![Run {
            name: "a.jsonl".to_owned(),
            rows,
            info: None,
        }]
    }

    #[test]
    fn every_run_counts_and_what_is_known_is_told_apart() {
        let plain = synthetic::arm_rows("iridium", "one", Arm::Plain, &[1.0, 2.0]);
        let mut staged = synthetic::arm_rows("iridium", "one", Arm::PacketMcveety, &[1.0; 3]);
        for row in &mut staged {
            row.situation = Some(Situation::Case4);
        }
        staged[0].identical = false;
        let mut input = Input {
            runs: run(plain.clone()),
            staged: run(staged),
            crowds: run(plain),
            ..Input::default()
        };
        let totals = Totals::of(&input);
        let expected = Totals {
            trials: 7,
            failed: 0,
            differing: 1,
            known: 1,
            unexplained: 0,
        };
        assert_eq!(totals, expected);
        assert!(totals.are_good());
        let words = totals.in_words();
        assert!(
            words.contains(&number::plural(7, "trial")) && words.contains("1 of these"),
            "{words}"
        );

        // The same in another situation is a fault.
        input.staged[0].rows[0].situation = Some(Situation::Case0);
        assert!(!Totals::of(&input).are_good());
    }
}
