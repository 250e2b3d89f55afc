//! `tandem split check`: what was found of a name, in words or as JSON.
//!
//! Is not: the looking, nor the judgement.

use serde::Serialize;
use tandem_barnraising::certificate_policy::{Finding, Subject, Weight};
use tandem_broker_dns::check::{self, Options, Report};
use tandem_daemon::runtime;
use tandem_split_io::tls::identity;

use crate::cli::SplitCheckArgs;
use crate::exit::Failure;
use crate::output;
use tandem_daemon::logging;

pub(crate) fn run(arguments: &SplitCheckArgs) -> Result<(), Failure> {
    logging::start(
        arguments.logging.log.as_deref(),
        arguments.logging.log_format.as_deref(),
    )?;
    let certificate = match &arguments.cert {
        Some(path) => Some(identity::names_in(path)?),
        None => None,
    };
    let options = Options {
        resolver: arguments.resolver,
        trust_anchor: arguments.trust_anchor.clone(),
        certificate,
        observant: arguments.observant.clone(),
    };
    runtime::run(async move {
        let (report, servers) = tokio::join!(
            check::check(&arguments.name, &options),
            check::servers(&arguments.name, &options),
        );
        let mut report = report?;
        report.findings.extend(servers?);
        if arguments.json {
            output::print_json(&Shown::of(&arguments.name, &report))?;
        } else {
            output::print(&text(&arguments.name, &report))?;
        }
        if report.is_acceptable() {
            return Ok(());
        }
        Err(Failure::Certificate {
            name: arguments.name.clone(),
        })
    })
}

/// What programs read.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    kind: &'static str,
    acceptable: bool,
    findings: Vec<ShownFinding>,
}

#[derive(Serialize)]
struct ShownFinding {
    code: &'static str,
    weight: &'static str,
    message: String,
    remedy: String,
}

impl<'a> Shown<'a> {
    fn of(name: &'a str, report: &Report) -> Self {
        let finding = |finding: &Finding| ShownFinding {
            code: finding.code(),
            weight: weight(finding),
            message: finding.to_string(),
            remedy: finding.remedy(),
        };
        Self {
            name,
            kind: match report.subject {
                Subject::Address(_) => "address",
                Subject::Private(_) => "private",
                Subject::Public(_) => "public",
            },
            acceptable: report.is_acceptable(),
            findings: report.findings.iter().map(finding).collect(),
        }
    }
}

fn weight(finding: &Finding) -> &'static str {
    match finding.weight() {
        Weight::Refusal => "refusal",
        Weight::Hint => "hint",
    }
}

fn text(name: &str, report: &Report) -> String {
    let mut text = match (&report.subject, report.is_acceptable()) {
        (Subject::Address(_), _) => {
            format!("{name}: an address; DNS sends nobody to volunteers by it\n")
        }
        (Subject::Private(_), _) => {
            format!(
                "{name}: a private name, for which no public authority issues certificates; nothing was asked\n"
            )
        }
        (Subject::Public(_), true) => {
            format!("{name}: no volunteer can get a certificate for it\n")
        }
        (Subject::Public(_), false) => format!("{name}: refused\n"),
    };
    for finding in &report.findings {
        let (weight, remedy) = (weight(finding), finding.remedy());
        text.push_str(&format!("  {weight}: {finding}\n    {remedy}\n"));
    }
    text
}
