//! The middleboxes that are ready to be started, a file for each.
//!
//! Is not: what they share ([`crate::service`]), nor the rights they need
//! ([`crate::layout::Kind`]).

mod compress;
mod filter;
mod ids;
mod tracker;

use std::sync::Arc;

use mctls_io::middlebox::NewService;
use mctls_io::{Service, Verdict};

use crate::error::McError;
use crate::layout::Kind;
use crate::service::{HttpService, OverHttp};
use crate::settings::BoxSettings;

/// Passes everything on.
struct Null;

impl Service for Null {
    fn inspect(
        &mut self,
        _: mctls::party::Direction,
        _: &mctls::config::Context,
        _: &[u8],
    ) -> Verdict {
        Verdict::Forward
    }
}

/// What a middlebox of this kind does in each session.
///
/// # Errors
/// [`McError::Config`]: its settings cannot be.
pub fn service(kind: Kind, settings: &BoxSettings) -> Result<NewService, McError> {
    Ok(match kind {
        Kind::Null => Arc::new(|| Box::new(Null)),
        Kind::Filter => {
            let rules = Arc::new(filter::Rules::of(&settings.block)?);
            over_http(kind, move || filter::Filter::new(Arc::clone(&rules)))
        }
        Kind::Ids => {
            let patterns = Arc::new(ids::Patterns::of(&settings.patterns)?);
            over_http(kind, move || ids::Ids::new(Arc::clone(&patterns)))
        }
        Kind::Tracker => {
            let rules = Arc::new(tracker::Rules::of(settings)?);
            over_http(kind, move || tracker::Tracker::new(Arc::clone(&rules)))
        }
        Kind::Compress => over_http(kind, compress::Compress::default),
    })
}

fn over_http<S: HttpService + 'static>(
    kind: Kind,
    service: impl Fn() -> S + Send + Sync + 'static,
) -> NewService {
    Arc::new(move || Box::new(OverHttp::new(service(), kind.needs())))
}
