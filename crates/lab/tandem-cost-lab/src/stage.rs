//! What a run has so far, and how it comes by a server and a measurement of one.

use std::time::Duration;

use tandem_report::RunInfo;
use tandem_report::cost_row::{AbsentRow, CostRow};
use tandem_testbed::console::Console;
use tandem_testbed::{Effort, LabError};

use crate::arms::Arm;
use crate::load::Measurement;
use crate::servers::{Program, Running, Wanted};
use crate::site::Site;

/// How long an arm is measured after its warm-up.
const DURATION: [Duration; 2] = [Duration::from_millis(1_000), Duration::from_millis(300)];
/// What a run has so far.
pub(crate) struct Stage {
    pub(crate) site: Site,
    pub(crate) effort: Effort,
    pub(crate) info: RunInfo,
    pub(crate) rows: Vec<CostRow>,
    pub(crate) console: Console,
}

impl Stage {
    /// How long an arm is measured.
    pub(crate) fn duration(&self) -> Duration {
        match self.effort {
            Effort::Full => DURATION[0],
            Effort::Quick => DURATION[1],
        }
    }

    /// A server; where it is missing or does not come up, a row that says so.
    pub(crate) fn start(
        &mut self,
        program: Program,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Running>, LabError> {
        let why = match program.missing() {
            Some(why) => why,
            None => match program.start(&self.site, wanted) {
                Ok(server) => {
                    let known = self
                        .info
                        .programs
                        .iter()
                        .any(|one| one.name == program.name());
                    if let (Some(version), false) = (program.version(), known) {
                        self.info = self.info.clone().with_program(program.name(), version);
                    }
                    return Ok(Some(server));
                }
                Err(error @ LabError::Command { .. }) => error.to_string(),
                Err(error) => return Err(error),
            },
        };
        self.absent(program.name(), &why);
        Ok(None)
    }

    /// Notes what is not measured.
    pub(crate) fn absent(&mut self, what: &str, why: &str) {
        self.console.say(&format!("{what}: not measured, {why}"));
        self.rows.push(CostRow::Absent(AbsentRow {
            server: what.to_owned(),
            why: why.to_owned(),
        }));
    }

    pub(crate) fn measurement<'a>(
        &self,
        name: &'a str,
        server: &'a Running,
        wanted: &Wanted<'a>,
        arm: Arm,
    ) -> Measurement<'a> {
        let is_rsa = wanted.chain.key == self.site.rsa.key;
        Measurement {
            name,
            server,
            chain: wanted.chain,
            key: if is_rsa { "RSA-2048" } else { "P-256" },
            arm,
            duration: self.duration(),
        }
    }
}
