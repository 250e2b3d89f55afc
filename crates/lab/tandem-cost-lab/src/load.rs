//! One arm at one server: the generator's closed loop, and the server's accounts before and after.
//!
//! The whole run counts for the server's accounts, warm-up too: every connection has its part.

use std::time::Duration;

use tandem_measure::{Kind, Limit, Load, Mix, Outcome, Percent, Phase};
use tandem_measure_io::{Offers, Plan, Target, Trust, measure};
use tandem_report::cost_row::{CostArm, LoadRow};
use tandem_testbed::LabError;
use tandem_testbed::pki::Chain;

use crate::arms::Arm;
use crate::servers::Running;
use crate::usage::{self, Usage};

/// Connections at a time: enough that a server always has work, fewer than Apache has places.
const CONNECTIONS: usize = 8;
/// How long one may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Of everything random.
const SEED: u64 = 13;

/// What an arm is measured with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement<'a> {
    pub(crate) name: &'a str,
    pub(crate) server: &'a Running,
    pub(crate) chain: &'a Chain,
    pub(crate) key: &'a str,
    pub(crate) arm: Arm,
    pub(crate) duration: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) row: LoadRow,
    /// The server's processor time, microseconds, of all connections together.
    pub(crate) server_us: f64,
    /// Bytes of the server in a full handshake; 0 where there was none.
    pub(crate) handshake_bytes: f64,
}

impl Measurement<'_> {
    /// The plan for the generator.
    pub(crate) fn plan(&self, load: Load) -> Result<Plan, LabError> {
        Ok(Plan {
            target: Target::of(&self.server.url(self.arm.tls.is_some())).map_err(failed)?,
            load,
            duration: self.duration,
            timeout: TIMEOUT,
            tls: self.arm.tls,
            resumption: self.arm.resumption,
            offers: Offers::default(),
            mix: Mix::Fixed(self.arm.bytes),
            mix_name: format!("fixed:{}", self.arm.bytes),
            keep_alive: Some(1),
            seed: SEED,
            trust: Trust::File(self.chain.root.clone()),
        })
    }

    /// Measures it.
    ///
    /// # Errors
    /// `Command` where nothing could be begun.
    pub(crate) fn take(&self) -> Result<Measured, LabError> {
        let plan = self.plan(Load::Connections(CONNECTIONS))?;
        let reuse = Percent::new(self.arm.reuse).unwrap_or(Percent::ZERO);
        let process = self.server.pid();
        usage::forget_peaks(process);
        let counted = self.server.count();
        let before = Usage::of(process);
        let outcome = measure(&plan, reuse, |_| {}).map_err(failed)?;
        let after = Usage::of(process);
        let own = counted.zip(self.server.count()).map(|(before, after)| {
            let resumed = after.resumed.saturating_sub(before.resumed);
            [resumed, resumed + after.fresh.saturating_sub(before.fresh)]
        });
        let [user, kernel] = after.times_since(&before);
        Ok(Measured {
            row: self.row(&outcome, &before, &after, own),
            server_us: user + kernel,
            handshake_bytes: handshake_bytes(&outcome),
        })
    }

    fn row(
        &self,
        outcome: &Outcome,
        before: &Usage,
        after: &Usage,
        own: Option<[u64; 2]>,
    ) -> LoadRow {
        let whole = &outcome.whole_run;
        let each = |sum: f64| sum / whole.connections.max(1) as f64;
        let [user, kernel] = after.times_since(before);
        LoadRow {
            arm: CostArm {
                server: self.name.to_owned(),
                tls: self.arm.version().map(str::to_owned),
                resumption: self.arm.resumption.name().to_owned(),
                reuse: self.arm.reuse,
                key: self.key.to_owned(),
                bytes: self.arm.bytes,
            },
            connections_per_second: outcome.connection_rate(),
            requests_per_second: outcome.request_rate(),
            connections: whole.connections,
            resumed: whole.resumed,
            server_resumed: own.filter(|_| self.arm.tls.is_some()),
            refused: whole.refused,
            nothing_to_offer: whole.nothing_to_offer,
            failures: whole.failures(),
            p50_us: outcome.latency.p50,
            p99_us: outcome.latency.p99,
            user_us: each(user),
            kernel_us: each(kernel),
            switches: each(after.switches.saturating_sub(before.switches) as f64),
            peak_kib: after.peak_kib,
            memory_kib: after.memory_kib,
            processes: after.processes,
            generator_us: outcome.generator.cpu_each,
            generator_limited: !matches!(outcome.generator.limit, Limit::NotTheGenerator(_)),
            steady: outcome.steady,
        }
    }
}

fn handshake_bytes(outcome: &Outcome) -> f64 {
    let phases = [Phase::ServerFlight, Phase::KeyExchange];
    let full = outcome.kind(Kind::Full);
    let received = phases.iter().filter_map(|phase| full?.phase(*phase));
    received.map(|phase| phase.received).sum()
}

/// A measurement that could not be begun.
pub(crate) fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Command {
        command: "the load generator".to_owned(),
        why: error.to_string(),
    }
}
