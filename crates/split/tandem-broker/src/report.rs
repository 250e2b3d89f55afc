//! The origin's reports: it tells its broker through which volunteers clients refuse what they get.
//!
//! Is not: what the broker does about it (`keeper.rs`).
//!
//! Invariant: a broker that is gone costs the origin nothing but the reports.

use tandem_barnraising::SiteUri;
use tandem_barnraising::talk::{Answer, Refusal, Report, Wish};
use tandem_channel::ChannelKey;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::error::BrokerError;
use crate::member::BrokerAccess;

/// Sends what is reported, for as long as anything may be.
///
/// # Errors
/// The TLS library refuses its own defaults.
pub async fn send_reports(
    uri: SiteUri,
    key: &ChannelKey,
    mut reports: Receiver<Report>,
) -> Result<(), BrokerError> {
    let access = BrokerAccess::new(uri, key, Vec::new())?;
    let broker = access.broker();
    loop {
        let report = match reports.recv().await {
            Ok(report) => report,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return Ok(()),
        };
        let volunteer = report.volunteer;
        match access.ask(Wish::Report(report)).await {
            Ok(Answer::Noted) => tracing::debug!(%volunteer, "the broker looks at this volunteer"),
            Ok(Answer::Refused(refusal)) => {
                let reason = explained(refusal);
                tracing::warn!(%broker, reason, "the broker takes no reports of this origin");
            }
            Ok(Answer::Welcome(_) | Answer::Farewell) => {
                tracing::warn!(%broker, "an answer to another question");
            }
            Err(trouble) => tracing::warn!(%broker, %trouble, "a report did not reach the broker"),
        }
    }
}

/// Why the broker takes no reports, and so what is to be changed.
fn explained(refusal: Refusal) -> String {
    match refusal {
        Refusal::Site => "it serves another site: see the URI of --broker".to_owned(),
        Refusal::Policy => "its configuration names another key for the origin".to_owned(),
        Refusal::TooOften | Refusal::Address | Refusal::AddressTaken | Refusal::Full => {
            refusal.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_whether_the_site_or_the_key_is_another_one() {
        assert!(explained(Refusal::Site).contains("another site"));
        assert!(explained(Refusal::Policy).contains("another key"));
        assert!(explained(Refusal::TooOften).contains("too many requests"));
    }
}
