//! The site's name in DNS, and to whom it leads.
//!
//! Is: the name server of `tandem-broker-dns`, what it is told, and the look at a public name without which it is told of no volunteer. Is not:
//! who is well ([`crate::keeper`]), or what makes a name safe (`tandem-barnraising`).
//!
//! Invariants: a public name leads to volunteers only after a look has found that none of them can get a certificate for it; before that, and
//! after a look that found otherwise, it leads to the origin. A look that gets no answer changes nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tandem_barnraising::certificate_policy::{Finding, Subject, Weight};
use tandem_broker_dns::check::{Options, Report, check};
use tandem_broker_dns::{Answers, Dns};
use tandem_split_io::metrics::Number;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::config::Config;
use crate::error::BrokerError;
use crate::keeper::Published;

/// Between two looks at a name that leads to volunteers,
const AGAIN: Duration = Duration::from_secs(3600);
/// and at one that does not, whose operator may be mending it.
const SOON: Duration = Duration::from_secs(10);

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
    subject: Option<Subject>,
    published: watch::Receiver<Arc<Published>>,
    answers: watch::Sender<Arc<Answers>>,
    gate: watch::Sender<Gate>,
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
    ) -> Result<Option<Self>, BrokerError> {
        let Some(settings) = &config.dns else {
            return Ok(None);
        };
        let subject = Subject::parse(config.site.as_str());
        let gate = match subject {
            Some(Subject::Private(_) | Subject::Address(_)) => Gate::Open,
            Some(Subject::Public(_)) | None => Gate::Shut,
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
            subject,
            published,
            answers: sender,
            gate: watch::Sender::new(gate),
            refused,
        }))
    }

    /// The record that the zone above has to show.
    pub(crate) fn ds(&self) -> &str {
        self.dns.ds()
    }

    /// What is counted.
    pub(crate) fn numbers(&self) -> Vec<Number> {
        vec![self.refused.clone()]
    }

    /// Serves for ever.
    pub(crate) async fn serve(self) {
        let gate = self.gate.subscribe();
        let telling = tell(self.published, gate, self.answers);
        let looking = async {
            match self.subject {
                Some(Subject::Public(_)) => {
                    look(&self.site, &self.options, &self.gate, &self.refused).await
                }
                Some(Subject::Private(_) | Subject::Address(_)) | None => {
                    std::future::pending().await
                }
            }
        };
        tokio::join!(self.dns.serve(), telling, looking);
    }
}

fn answers(gate: Gate, published: &Published) -> Answers {
    let addresses = match gate {
        Gate::Open => published.addresses(),
        Gate::Shut => &published.own,
    };
    Answers {
        addresses: addresses.to_vec(),
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
async fn look(site: &str, options: &Options, gate: &watch::Sender<Gate>, refused: &Number) {
    let mut said = None;
    loop {
        let before = *gate.borrow();
        let now = match check(site, options).await {
            Ok(report) => {
                say(site, &report, &mut said);
                judged(before, &report)
            }
            Err(error) => {
                let codes = vec!["error"];
                if said.as_ref() != Some(&codes) {
                    tracing::error!(%error, "the site's name cannot be looked at");
                    said = Some(codes);
                }
                before
            }
        };
        refused.set(u64::from(now == Gate::Shut));
        gate.send_if_modified(|last| std::mem::replace(last, now) != now);
        sleep(match now {
            Gate::Open => AGAIN,
            Gate::Shut => SOON,
        })
        .await;
    }
}

fn judged(before: Gate, report: &Report) -> Gate {
    if report.is_acceptable() {
        return Gate::Open;
    }
    let mut refusals = refusals(report);
    if refusals.all(|finding| *finding == Finding::Unanswered) {
        before
    } else {
        Gate::Shut
    }
}

fn refusals(report: &Report) -> impl Iterator<Item = &Finding> {
    let refused = |finding: &&Finding| finding.weight() == Weight::Refusal;
    report.findings.iter().filter(refused)
}

/// Logs what is refused, once for as long as it stays the same.
fn say(site: &str, report: &Report, said: &mut Option<Vec<&'static str>>) {
    let codes: Vec<&'static str> = refusals(report).map(Finding::code).collect();
    if said.as_ref() == Some(&codes) {
        return;
    }
    if codes.is_empty() {
        tracing::info!(
            site,
            "no volunteer can get a certificate for the name: it leads to them"
        );
    }
    for finding in refusals(report) {
        tracing::error!(
            site,
            remedy = finding.remedy(),
            "the name leads to the origin alone: {finding}"
        );
    }
    *said = Some(codes);
}

#[cfg(test)]
mod tests;
