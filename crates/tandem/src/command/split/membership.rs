//! A volunteer that a broker's URI has told of its site: it joins, serves, renews meanwhile, and
//! leaves.

use std::net::SocketAddr;

use tandem_barnraising::SiteUri;
use tandem_broker::member::{self, Membership};
use tandem_daemon::runtime;
use tandem_split_io::SplitIoError;
use tandem_split_io::volunteer::{self, Volunteer};

use super::{announce, sharing};
use crate::cli::Sharing;
use crate::exit::Failure;

pub(super) async fn serve(
    uri: SiteUri,
    settings: volunteer::Settings,
    sharing: Sharing,
    admin: Option<SocketAddr>,
) -> Result<(), Failure> {
    // Before it joins: who runs a site that takes listed volunteers asks for it.
    tracing::info!(key = %settings.key.name(), "broker and origin know this volunteer by its key");
    let joining = Membership::join(member::Settings {
        uri,
        key: settings.key.clone(),
        listen: settings.listen.clone(),
        peers: settings.peer_listen.clone(),
        cache: settings.cache.clone(),
    });
    // Heard from the beginning to the end: who is asked to end while it joins or begins to serve
    // does so.
    let mut ended = Box::pin(runtime::asked_to_end()?);
    let Some(joined) = runtime::unless(&mut ended, joining).await else {
        return Ok(());
    };
    let membership = joined?;
    let leave = membership.leave();
    let mut serving = Box::pin(serve_as(membership, settings, sharing, admin));
    match runtime::unless(ended, &mut serving).await {
        // It could not begin: the broker need not find that out.
        Some(failed) => {
            leave.await;
            failed
        }
        // Clients are served until the broker sends no more of them.
        None => runtime::unless(leave, serving).await.unwrap_or(Ok(())),
    }
}

async fn serve_as(
    membership: Membership,
    settings: volunteer::Settings,
    sharing: Sharing,
    admin: Option<SocketAddr>,
) -> Result<(), Failure> {
    let (origin, members) = (membership.origin(), membership.members());
    let settings = volunteer::Settings {
        origin: origin.address.clone(),
        origin_key: Some(origin.key),
        members,
        ..settings
    };
    let volunteer = Volunteer::bind(sharing::among(settings, sharing)?).await?;
    let (tally, guide) = (volunteer.tally(), volunteer.guide());
    announce(admin, volunteer.numbers(), |_| None)?;
    let staying = membership.stay(
        move || tally.told(),
        move |origin| {
            let led: Result<(), SplitIoError> = guide.lead_to(&origin.address, origin.key);
            if let Err(error) = led {
                tracing::warn!(%error, "the broker names an origin that cannot be");
            }
        },
    );
    runtime::first(volunteer.serve(), staying).await;
    Ok(())
}
