//! A middlebox: passes a session on from one TCP connection to the next, and shows a [`Service`]
//! what it may read.
//!
//! Is not: a service. Invariants: each direction waits for its own neighbour only; a middlebox
//! connects only where its policy permits; what it cannot vouch for, it does not pass on.

use std::sync::{Arc, Mutex, PoisonError};

use mctls::config::Right;
use mctls::party::{Direction, Endpoint, Position};
use mctls_io::Timeouts;
use mctls12::auth::Identity;
use mctls12::error::Breach;
use mctls12::list::{Context, MiddleboxList};
use mctls12::middlebox::{Established, Hops, Middlebox as Handshake, Own};
use mctls12::record::Input;
use mctls12::relay::{Passing, Relay};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::auth::is_for;
use crate::error::Error;
use crate::line::{Heard, Reading, Writing, alert, entropy, halves};

/// What becomes of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is.
    Forward,
    /// This goes on in its place, in one record: at most 16,384 bytes; none of them deletes it.
    /// Needs the right to write.
    Replace(Vec<u8>),
    /// The connections are cut: this protocol has no word for it.
    Block,
}

/// Whether a service takes part in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// It does.
    Given,
    /// It does not: the connections are cut.
    Refused,
}

/// What a middlebox does with the data of one session.
pub trait Service: Send {
    /// Learns of the session, before any data. What the list says of it nobody has proved; the
    /// rights, for each of its contexts, are those for which both endpoints have sent keys.
    fn joined(&mut self, list: &MiddleboxList, position: Position, rights: &[Right]) -> Consent {
        let _ = (list, position, rights);
        Consent::Given
    }

    /// Looks at data that this middlebox may read.
    fn inspect(&mut self, direction: Direction, context: &Context, data: &[u8]) -> Verdict;

    /// Does what an honest middlebox does not, for attack tests. Gives back what it leaves alone.
    #[cfg(feature = "hostile")]
    #[doc(hidden)]
    fn overstep<'a>(&mut self, passing: Passing<'a>, _: &mut Vec<u8>) -> Option<Passing<'a>> {
        Some(passing)
    }
}

/// What a middlebox needs.
#[derive(Clone)]
pub struct Settings<I = Identity> {
    /// Its certificates and key. Clients list it by a name that its certificate is for.
    pub identity: I,
    /// Where clients may have it connect to: host and port.
    pub permits: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// What it does in each session.
    pub service: Arc<dyn Fn() -> Box<dyn Service> + Send + Sync>,
    /// How long to wait.
    pub timeouts: Timeouts,
}

impl<I> std::fmt::Debug for Settings<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// A connection on each side.
struct Sides {
    client: (Reading, Writing),
    server: (Reading, Writing),
}

/// Serves a client that has connected, until the session is over.
///
/// # Errors
/// Why it has ended, if not because both endpoints have closed it.
pub async fn serve(stream: TcpStream, settings: &Settings) -> Result<(), Error> {
    let patience = settings.timeouts.handshake;
    let joined = timeout(patience, join(stream, settings)).await;
    let (sides, established) = joined.map_err(|_| Error::TimedOut(patience))??;
    let list = established.list;
    let rights = list.contexts().iter();
    let rights: Vec<Right> = rights
        .map(|context| established.to_server.right(context.id))
        .collect();
    let mut service = (settings.service)();
    if service.joined(&list, established.position, &rights) == Consent::Refused {
        return Err(Error::NotJoined);
    }
    let service = Mutex::new(service);
    let (mut client, mut server) = (sides.client, sides.server);
    let heard = Heard::new();
    client.0.share(&heard);
    server.0.share(&heard);
    let (to_server, to_client) = (established.to_server, established.to_client);
    let decide = |direction, passing: Passing<'_>| {
        // A service that has panicked has ended its session with it.
        let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
        decided(service.as_mut(), &list, direction, passing)
    };
    tokio::try_join!(
        pass(client.0, server.1, to_server, |passing| {
            decide(Direction::ToServer, passing)
        }),
        pass(server.0, client.1, to_client, |passing| {
            decide(Direction::ToClient, passing)
        }),
    )?;
    Ok(())
}

/// Takes part in the handshake.
async fn join(stream: TcpStream, settings: &Settings) -> Result<(Sides, Established), Error> {
    let idle = settings.timeouts.idle;
    let (mut from_client, mut to_client) = halves(stream, idle)?;
    let chain = settings.identity.chain.clone();
    let handshake = Handshake::start(Own {
        is_named: Arc::new(move |name| is_for(&chain, name)),
        identity: settings.identity.clone(),
        entropy: entropy()?,
    })?;
    let mut hops = Hops::default();
    let input = from_client.next().await?.ok_or(Breach::Truncated)?;
    let mut handshake = match handshake.handle(Endpoint::Client, input, &mut hops) {
        Ok(handshake) => handshake,
        Err(error) => {
            if let Some(code) = error.alert() {
                let _ = to_client.all(&alert(code)).await;
            }
            return Err(error.into());
        }
    };
    let next = match &handshake {
        Handshake::Joined(joined) => joined.next_hop().address.clone(),
        _ => return Err(Breach::NotListed.into()),
    };
    if !(settings.permits)(&next) {
        return Err(Error::NotPermitted(next));
    }
    let (mut from_server, mut to_server) = halves(TcpStream::connect(&next).await?, idle)?;
    loop {
        to_client.all(&hops.to_client).await?;
        to_server.all(&hops.to_server).await?;
        hops = Hops::default();
        if let Handshake::Established(established) = handshake {
            let sides = Sides {
                client: (from_client, to_client),
                server: (from_server, to_server),
            };
            return Ok((sides, *established));
        }
        let (from, input) = tokio::select! {
            input = from_client.next() => (Endpoint::Client, input?),
            input = from_server.next() => (Endpoint::Server, input?),
        };
        let input = input.ok_or(Breach::Truncated)?;
        match handshake.handle(from, input, &mut hops) {
            Ok(next) => handshake = next,
            Err(error) => {
                // Somebody's alert goes on; nobody else is told why.
                let _ = to_client.all(&hops.to_client).await;
                let _ = to_server.all(&hops.to_server).await;
                return Err(error.into());
            }
        }
    }
}

/// Passes on the records of one direction, to its end.
async fn pass(
    mut from: Reading,
    mut to: Writing,
    mut relay: Relay,
    decide: impl Fn(Passing<'_>) -> Result<Vec<u8>, Error>,
) -> Result<(), Error> {
    while let Some(input) = from.next().await? {
        let Input::Protected(record) = input else {
            return Err(Breach::Truncated.into());
        };
        let out = decide(relay.receive(record)?)?;
        to.all(&out).await?;
    }
    to.end().await;
    Ok(())
}

/// What goes on for a record.
fn decided(
    service: &mut dyn Service,
    list: &MiddleboxList,
    direction: Direction,
    passing: Passing<'_>,
) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    #[cfg(feature = "hostile")]
    let Some(passing) = service.overstep(passing, &mut out) else {
        return Ok(out);
    };
    let shown = list.context(passing.context()).zip(passing.data());
    let verdict = shown.map_or(Verdict::Forward, |(context, data)| {
        service.inspect(direction, context, data)
    });
    match verdict {
        Verdict::Forward => passing.forward(&mut out),
        Verdict::Replace(data) => passing.replace(&data, &mut out)?,
        Verdict::Block => return Err(Error::Blocked),
    }
    Ok(out)
}
