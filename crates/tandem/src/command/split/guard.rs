//! What keeps an origin or a broker from starting: a public name for which a volunteer could get a
//! certificate, or of which that is not known.
//!
//! Is: when the name is looked at, and what is said and shown of it. Is not: the look
//! (`tandem-broker-dns`), nor the judgement (`tandem-barnraising`).
//!
//! Invariant: where a look is required, who calls serves nobody before [`look`] has ended well. DNS
//! that cannot be asked is a refusal, too: whoever starts services tries again.

use serde_json::json;
use tandem_barnraising::certificate_policy::{Consent, Finding, Safeguard};
use tandem_broker_dns::check::{self, Options};
use tandem_daemon::admin::Page;
use tandem_daemon::metrics::Number;

use crate::cli::NameArgs;
use crate::exit::Failure;

/// What the operator says to volunteers that may obtain certificates.
pub(super) fn consent(arguments: &NameArgs) -> Consent {
    if arguments.accept {
        Consent::Given
    } else {
        Consent::Withheld
    }
}

/// How the name is to be looked at.
pub(super) fn options(arguments: &NameArgs) -> Options {
    Options {
        resolver: arguments.resolver,
        trust_anchor: arguments.trust_anchor.clone(),
        certificate: None,
        observant: arguments.observant.clone(),
    }
}

/// Whether the command line says how the name is to be looked at.
pub(super) fn has_options(arguments: &NameArgs) -> bool {
    arguments.resolver.is_some()
        || arguments.trust_anchor.is_some()
        || !arguments.observant.is_empty()
}

/// Warns of what the operator has waived.
pub(super) fn warn(site: &str, safeguard: Safeguard) {
    if let Some(warning) = safeguard.warning() {
        tracing::warn!(site, "{warning}");
    }
}

/// Looks at a name where that is required, for [`check::PATIENCE`] at most.
///
/// # Errors
/// The name is refused, or cannot be looked at.
pub(super) async fn look(
    site: &str,
    safeguard: Safeguard,
    options: &Options,
) -> Result<(), Failure> {
    match safeguard {
        Safeguard::Needless | Safeguard::Waived => return Ok(()),
        Safeguard::Required => {}
    }
    tracing::info!(
        site,
        seconds = check::PATIENCE.as_secs(),
        "asking DNS, for so many seconds at most, whether a volunteer could get a certificate for the name: nobody is served before"
    );
    let report = check::check(site, options).await?;
    if report.is_acceptable() {
        tracing::info!(site, "no volunteer can get a certificate for the name");
        return Ok(());
    }
    let found: Vec<String> = report.refusals().map(Finding::to_string).collect();
    Err(Failure::NotServed {
        name: site.to_owned(),
        found: found.join(", "),
    })
}

/// Whether an origin serves a name that volunteers may obtain certificates for.
pub(super) fn number(safeguard: Safeguard) -> Number {
    let number = Number::gauge(
        "tandem_split_origin_certificates_at_risk",
        "Whether volunteers may obtain certificates for the site's name, as the operator accepts",
    );
    number.set(u64::from(safeguard == Safeguard::Waived));
    number
}

/// The same for programs, as an origin's admin port shows it.
pub(super) fn status(site: &str, safeguard: Safeguard) -> Page {
    let status = json!({
        "site": site,
        "certificates_at_risk": safeguard == Safeguard::Waived,
        "warning": safeguard.warning(),
    });
    Page::new("application/json", format!("{status:#}\n"))
}
