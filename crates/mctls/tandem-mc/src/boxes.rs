//! The middleboxes that are ready to be started, a file for each.
//!
//! Is not: what they share ([`crate::service`]), nor the rights they need
//! ([`crate::layout::Kind`]).

pub(crate) mod cache;
mod compress;
mod filter;
mod held;
mod icap;
mod ids;
mod pacer;
mod tracker;
mod wan;

use std::sync::Arc;
use std::time::Duration;

use mctls_io::middlebox::NewService;
use mctls_io::{Backends, Choice, NextHop, PairSettings, Service, Verdict};

use crate::error::McError;
use crate::layout::Kind;
use crate::service::{HttpService, OverHttp};
use crate::settings::{BoxSettings, By};
use crate::via::host_of;

/// How long a backend may take to accept a connection before the next is tried.
pub const BACKEND_PATIENCE: Duration = Duration::from_secs(1);
/// How long one that did not is passed over.
pub const BACKEND_REST: Duration = Duration::from_secs(10);

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
        // A WAN optimiser's work is done below its service (`pair`).
        Kind::Null | Kind::Balance | Kind::Wan => Arc::new(|| Box::new(Null)),
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
        Kind::Cache => {
            let shared = Arc::new(cache::Shared::of(settings)?);
            over_http(kind, move || cache::Cache::new(Arc::clone(&shared)))
        }
        Kind::Icap => {
            let rules = icap::Rules::of(settings)?;
            Arc::new(move || Box::new(icap::Icap::new(&rules)))
        }
        Kind::Pacer => {
            let rules = pacer::Rules::of(settings)?;
            over_http(kind, move || pacer::Pacer::new(rules.clone()))
        }
    })
}

/// Where sessions go from a middlebox of this kind.
///
/// # Errors
/// [`McError::Config`]: a balancer's settings cannot be.
pub fn next_hop(kind: Kind, settings: &BoxSettings) -> Result<NextHop, McError> {
    if kind != Kind::Balance {
        return Ok(NextHop::Named);
    }
    let bad = settings.backends.iter().find(|one| host_of(one).is_none());
    if let Some(bad) = bad {
        return Err(McError::config(&format!(
            "backends: {bad:?} is no HOST:PORT"
        )));
    }
    if settings.backends.is_empty() {
        return Err(McError::config(
            "a balancer needs `backends = [\"192.0.2.1:443\", \"192.0.2.2:443\"]`",
        ));
    }
    Ok(NextHop::OneOf(Arc::new(Backends::new(
        settings.backends.clone(),
        match settings.balance {
            By::RoundRobin => Choice::RoundRobin,
            By::Client => Choice::ClientAddress,
        },
        BACKEND_PATIENCE,
        BACKEND_REST,
    ))))
}

/// The other one of a pair, where this kind has one.
///
/// # Errors
/// [`McError::Config`], [`McError::File`], [`McError::Content`]: its settings cannot be, or its key
/// cannot be read.
pub fn pair(kind: Kind, settings: &BoxSettings) -> Result<Option<PairSettings>, McError> {
    match kind {
        Kind::Wan => wan::pair(settings).map(Some),
        Kind::Null
        | Kind::Filter
        | Kind::Ids
        | Kind::Tracker
        | Kind::Compress
        | Kind::Cache
        | Kind::Pacer
        | Kind::Balance
        | Kind::Icap => Ok(None),
    }
}

fn over_http<S: HttpService + 'static>(
    kind: Kind,
    service: impl Fn() -> S + Send + Sync + 'static,
) -> NewService {
    Arc::new(move || Box::new(OverHttp::new(service(), kind.needs())))
}
