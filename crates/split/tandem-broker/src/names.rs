//! The site's name in DNS, and to whom it leads.
//!
//! Is: the name server of `tandem-broker-dns`, what it is told, and the look at a public name
//! without which it is told of no volunteer. Is not: who is well ([`crate::keeper`]), or what makes
//! a name safe (`tandem-barnraising`).
//!
//! Invariants: a public name leads to volunteers only after a look has found that none of them can
//! get a certificate for it (within the last day, if the broker has been started since); before
//! that, and after a look that found otherwise, it leads to the origin. A look that gets no answer
//! changes nothing; wrong signatures alone shut only when three looks in a row have found them. By
//! the operator's consent there is no look, and the name leads to volunteers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tandem_barnraising::certificate_policy::{Finding, Safeguard};
use tandem_broker_dns::check::{Options, Report, check};
use tandem_broker_dns::copied::{Lead, Other};
use tandem_broker_dns::{Answers, Dns, Whose};
use tandem_daemon::metrics::Number;
use tandem_wire::UnixTime;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::config::Config;
use crate::error::BrokerError;
use crate::keeper::Published;
use crate::moment::wall;

/// Between two looks at a name that leads to volunteers,
const AGAIN: Duration = Duration::from_secs(3600);
/// while one that does is in doubt,
const IN_DOUBT: Duration = Duration::from_secs(60);
/// and at one that does not, whose operator may be mending it.
const SOON: Duration = Duration::from_secs(10);
/// Looks in a row that find wrong signatures before that counts: a resolver that leaves out a part
/// of an answer for a while looks the same.
const DOUBTS: u32 = 3;

/// Seconds for which a look that found the name safe counts after a restart, until the first look:
/// no longer than what may have changed in DNS would be kept by resolvers.
const REMEMBERED: u64 = 24 * 3600;

/// To whom the name leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// To volunteers that are well.
    Open,
    /// To the origin alone.
    Shut,
}

/// The name server and the look at the name.
pub(crate) struct Names {
    dns: Dns,
    site: String,
    options: Options,
    safeguard: Safeguard,
    published: watch::Receiver<Arc<Published>>,
    answers: watch::Sender<Arc<Answers>>,
    gate: watch::Sender<Gate>,
    accepted: watch::Sender<UnixTime>,
    refused: Number,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Names({}, {:?})", self.site, self.dns.addresses())
    }
}

impl Names {
    /// Listens, if the configuration has a name server.
    pub(crate) async fn bind(
        config: &Config,
        published: watch::Receiver<Arc<Published>>,
        accepted: watch::Sender<UnixTime>,
    ) -> Result<Option<Self>, BrokerError> {
        let Some(settings) = &config.dns else {
            return Ok(None);
        };
        let gate = match config.safeguard {
            Safeguard::Needless | Safeguard::Waived => Gate::Open,
            Safeguard::Required => remembered(*accepted.borrow(), wall()),
        };
        if config.own_addresses.is_empty() {
            tracing::warn!(
                "origin.own-addresses is empty: the site's name leads nowhere while no volunteer is well"
            );
        }
        let first = answers(gate, &published.borrow());
        let (sender, receiver) = watch::channel(Arc::new(first));
        let dns = Dns::bind(&config.site, settings, receiver).await?;
        let refused = Number::gauge(
            "tandem_broker_name_refused",
            "Whether the name leads to the origin alone, as volunteers could get a certificate for it",
        );
        refused.set(u64::from(gate == Gate::Shut));
        Ok(Some(Self {
            dns,
            site: config.site.as_str().to_owned(),
            options: settings.look(),
            safeguard: config.safeguard,
            published,
            answers: sender,
            gate: watch::Sender::new(gate),
            accepted,
            refused,
        }))
    }

    /// The record that the zone above has to show.
    pub(crate) fn ds(&self) -> &str {
        self.dns.ds()
    }

    /// As one of two name servers of the zone.
    pub(crate) fn pair(&mut self, lead: Lead) -> Result<Other, BrokerError> {
        Ok(self.dns.pair(lead)?)
    }

    /// What is counted.
    pub(crate) fn numbers(&self) -> Vec<Number> {
        vec![self.refused.clone()]
    }

    /// Serves for ever.
    pub(crate) async fn serve(self) {
        // Another broker may have told meanwhile that the name was safe, and where volunteers are.
        if self.safeguard == Safeguard::Required {
            let gate = remembered(*self.accepted.borrow(), wall());
            self.gate.send_replace(gate);
            self.refused.set(u64::from(gate == Gate::Shut));
        }
        let now = answers(*self.gate.borrow(), &self.published.borrow());
        self.answers.send_replace(Arc::new(now));
        let gate = self.gate.subscribe();
        let telling = tell(self.published, gate, self.answers);
        let looking = async {
            match self.safeguard {
                Safeguard::Required => {
                    let outlet = (&self.gate, &self.accepted, &self.refused);
                    look(&self.site, &self.options, outlet).await
                }
                Safeguard::Needless | Safeguard::Waived => std::future::pending().await,
            }
        };
        tokio::join!(self.dns.serve(), telling, looking);
    }
}

/// To whom the name leads before the first look.
fn remembered(accepted: UnixTime, now: UnixTime) -> Gate {
    match now.0.checked_sub(accepted.0) {
        Some(age) if age < REMEMBERED => Gate::Open,
        Some(_) | None => Gate::Shut,
    }
}

fn answers(gate: Gate, published: &Published) -> Answers {
    let (addresses, whose) = match gate {
        Gate::Open if !published.healthy.is_empty() => (&published.healthy, Whose::Volunteers),
        Gate::Open | Gate::Shut => (&published.own, Whose::Origin),
    };
    Answers {
        addresses: addresses.clone(),
        whose,
    }
}

/// Tells the name server whatever changes, at once.
async fn tell(
    mut published: watch::Receiver<Arc<Published>>,
    mut gate: watch::Receiver<Gate>,
    told: watch::Sender<Arc<Answers>>,
) {
    loop {
        let now = answers(*gate.borrow_and_update(), &published.borrow_and_update());
        told.send_if_modified(|last| {
            let differs = **last != now;
            if differs {
                *last = Arc::new(now);
            }
            differs
        });
        let changed = tokio::select! {
            changed = published.changed() => changed,
            changed = gate.changed() => changed,
        };
        if changed.is_err() {
            // The broker is about to end.
            return;
        }
    }
}

/// Looks at a public name for as long as the broker lives.
async fn look(
    site: &str,
    options: &Options,
    (gate, accepted, refused): (&watch::Sender<Gate>, &watch::Sender<UnixTime>, &Number),
) {
    let mut said = None;
    let mut doubts = 0;
    loop {
        let before = *gate.borrow();
        let now = match check(site, options).await {
            Ok(report) => {
                let now = judged(before, &report, &mut doubts);
                say(site, now, &report, &mut said);
                match (now, report.is_acceptable()) {
                    (Gate::Open, true) => {
                        accepted.send_replace(wall());
                    }
                    (Gate::Open, false) => {}
                    (Gate::Shut, _) => {
                        accepted.send_replace(UnixTime(0));
                    }
                }
                now
            }
            Err(error) => {
                let this = (before, vec!["error"]);
                if said.as_ref() != Some(&this) {
                    tracing::error!(%error, "the site's name cannot be looked at");
                    said = Some(this);
                }
                before
            }
        };
        refused.set(u64::from(now == Gate::Shut));
        gate.send_if_modified(|last| std::mem::replace(last, now) != now);
        sleep(match now {
            Gate::Open if doubts > 0 => IN_DOUBT,
            Gate::Open => AGAIN,
            Gate::Shut => SOON,
        })
        .await;
    }
}

/// To whom the name leads after this look; `doubts` counts those in a row that may be the way's
/// fault.
fn judged(before: Gate, report: &Report, doubts: &mut u32) -> Gate {
    if report.is_acceptable() {
        *doubts = 0;
        return Gate::Open;
    }
    let all = |may_be: fn(&Finding) -> bool| report.refusals().all(may_be);
    if all(|finding| *finding == Finding::Unanswered) {
        return before;
    }
    *doubts += 1;
    if *doubts < DOUBTS && all(|finding| matches!(finding, Finding::Unanswered | Finding::Bogus)) {
        return before;
    }
    *doubts = 0;
    Gate::Shut
}

/// What was logged last: to whom the name leads, and what was refused.
type Said = Option<(Gate, Vec<&'static str>)>;

/// Logs what is refused, once for as long as it stays the same.
fn say(site: &str, now: Gate, report: &Report, said: &mut Said) {
    let this = (now, report.refusals().map(Finding::code).collect());
    if said.as_ref() == Some(&this) {
        return;
    }
    if report.is_acceptable() {
        tracing::info!(
            site,
            "no volunteer can get a certificate for the name: it leads to them"
        );
    }
    for finding in report.refusals() {
        let remedy = finding.remedy();
        match now {
            Gate::Open => tracing::warn!(
                site,
                remedy,
                "the name leads to volunteers still, and is looked at again: {finding}"
            ),
            Gate::Shut => {
                tracing::error!(
                    site,
                    remedy,
                    "the name leads to the origin alone: {finding}"
                );
            }
        }
    }
    *said = Some(this);
}

#[cfg(test)]
mod tests;
