//! Many clients behind one client-side proxy, each with a certificate of its own: they come one
//! after the other, all for the first time, then some of them again, and some once more when the
//! client-side proxy has begun anew with nothing.
//!
//! Is not: the lane that they come through (`lane`), nor how their certificates are made (`pki`).
//!
//! Invariants: a client comes for the first time once; arms that remember nothing of clients
//! measure a sample of first visits, the others all of them. On a slow link only the last of the
//! first visits are measured, and those before pass at full speed.

use std::collections::VecDeque;
use std::time::Duration;

use tandem_netsim::link::LinkConfig;

use crate::lane::{Lane, LaneSpec, Trial};
use crate::setup::Setup;
use tandem_report::arm::Arm;
use tandem_report::coming::Coming;
use tandem_testbed::LabError;
use tandem_testbed::links;
use tandem_testbed::pki::Chain;

/// First visits that are measured where each takes seconds.
const SLOW_FIRST: usize = 5;

/// Idle time of a fast link that ends a visit: past the 40 ms that an acknowledgement may be
/// delayed on Linux. Shorter than in other lanes, since there are thousands of visits.
const QUIET: Duration = Duration::from_millis(60);

/// What is to be measured of so many clients, in order: which client, and which visit.
fn plan(arm: Arm, clients: usize, trials: usize, link: &LinkConfig) -> VecDeque<(usize, Coming)> {
    let first = if links::is_slow(link) {
        clients.min(SLOW_FIRST)
    } else if Setup::of(arm).remembers_clients() {
        clients
    } else {
        clients.min(trials)
    };
    let firsts = (clients - first..clients).map(|client| (client, Coming::First));
    // Spread over all of them, so that none is among the newest by rule.
    let some =
        |coming| (0..trials).map(move |trial| ((trial * clients / trials) % clients, coming));
    firsts
        .chain(some(Coming::Again))
        .chain(some(Coming::AfterReset))
        .collect()
}

/// How many trials that makes.
pub(crate) fn trials(arm: Arm, clients: usize, trials: usize, link: &LinkConfig) -> usize {
    plan(arm, clients.max(1), trials, link).len()
}

/// One arm's lane, and who comes.
#[derive(Debug)]
pub(crate) struct Crowd {
    lane: Lane,
    clients: Vec<Chain>,
    link: LinkConfig,
    plan: VecDeque<(usize, Coming)>,
    /// Of the visit before.
    before: Option<Coming>,
}

impl Crowd {
    /// Sets it up.
    pub(crate) fn build(
        spec: &LaneSpec<'_>,
        clients: &[Chain],
        sample: usize,
        limit: Duration,
    ) -> Result<Self, LabError> {
        let mut lane = Lane::build(spec, limit)?;
        if !links::is_slow(&spec.link) {
            lane.shorten_quiet(QUIET);
        }
        Ok(Self {
            plan: plan(spec.arm, clients.len(), sample, &spec.link),
            lane,
            clients: clients.to_vec(),
            link: spec.link.clone(),
            before: None,
        })
    }

    /// Which arm it is.
    pub(crate) fn arm(&self) -> Arm {
        self.lane.arm()
    }

    /// One visit of somebody else's, so that the server is known, and those first visits that are
    /// not measured.
    pub(crate) fn warm_up(&mut self) -> Result<(), LabError> {
        let unmeasured = if Setup::of(self.arm()).remembers_clients() {
            let measured = |(_, coming): &&(usize, Coming)| *coming == Coming::First;
            self.clients.len() - self.plan.iter().filter(measured).count()
        } else {
            0
        };
        let emulator = self.lane.emulator();
        // No rate and no delay.
        emulator.reconfigure(LinkConfig::new(None, None, Duration::ZERO));
        let done = self.lane.warm_up().and_then(|()| {
            self.clients
                .iter()
                .take(unmeasured)
                .try_for_each(|client| self.lane.unmeasured(client))
        });
        emulator.reconfigure(self.link.clone());
        done
    }

    /// The next visit; `None` after the last.
    pub(crate) fn trial(&mut self) -> Result<Option<Trial>, LabError> {
        let Some((client, coming)) = self.plan.pop_front() else {
            return Ok(None);
        };
        if coming == Coming::AfterReset && self.before != Some(coming) {
            self.lane.reset_client_side()?;
        }
        self.before = Some(coming);
        self.lane.show(&self.clients[client]);
        let mut trial = self.lane.trial()?;
        trial.row.coming = Some(coming);
        trial.row.clients = Some(self.clients.len() as u64);
        Ok(Some(trial))
    }

    /// Ends the daemons.
    pub(crate) fn finish(self) -> Result<(), LabError> {
        self.lane.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_testbed::links::LinkSpec;

    fn counts(arm: Arm, link: &str, clients: usize) -> Result<(usize, usize), LabError> {
        let plan = plan(arm, clients, 10, &LinkSpec::preset(link).config()?);
        let of = |wanted| plan.iter().filter(|(_, coming)| *coming == wanted).count();
        let mut firsts: Vec<usize> = plan
            .iter()
            .filter(|(_, coming)| *coming == Coming::First)
            .map(|(client, _)| *client)
            .collect();
        firsts.dedup();
        assert_eq!(firsts.len(), of(Coming::First), "once each");
        assert!(plan.iter().all(|(client, _)| *client < clients));
        Ok((of(Coming::First), of(Coming::Again)))
    }

    #[test]
    fn all_first_visits_are_measured_where_they_are_fast_and_remembered() -> Result<(), LabError> {
        assert_eq!(counts(Arm::Packet, "tcdl-10", 1000)?, (1000, 10));
        assert_eq!(counts(Arm::PacketNone, "tcdl-10", 1000)?, (10, 10));
        assert_eq!(counts(Arm::Packet, "iridium", 1000)?, (5, 10));
        assert_eq!(counts(Arm::Plain, "iridium", 1)?, (1, 10));
        Ok(())
    }
}
