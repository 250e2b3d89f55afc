//! A middlebox. It finds itself in a list by its address, and where that is a name, by its
//! certificate and its port.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use mctls::config::Right;
use mctls::party::{Direction, Endpoint};
use mctls12::list::{Context, MiddleboxList};
use mctls12_prototype::auth::Identity;
use mctls12_prototype::error::Breach;
use mctls12_prototype::list::host_of;
use mctls12_prototype::middlebox::{Established, Hops, Middlebox, Own, Progress};
use mctls12_prototype::record::{Input, alert};
use mctls12_prototype::relay::Relay;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::entropy;
use crate::auth::is_for;
use crate::endpoint::code;
use crate::error::Error;
use crate::line::{Heard, Lines, Writing, halves};
use crate::middlebox::{Consent, Settings, Verdict};

/// A connection on each side.
struct Sides {
    client: (Lines, Writing),
    server: (Lines, Writing),
}

/// Serves a client that has connected, until the session is over.
///
/// # Errors
/// Why it has ended, if not because both endpoints have closed it.
pub async fn serve(stream: TcpStream, settings: &Settings<Identity>) -> Result<(), Error> {
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
    let inspect = |direction, context: &Context, data: &[u8]| {
        // A service that has panicked has ended its session with it.
        let mut service = service.lock().unwrap_or_else(PoisonError::into_inner);
        service.inspect(direction, context, data)
    };
    let (mut client, mut server) = (sides.client, sides.server);
    let heard = Heard::new();
    client.0.share(&heard);
    server.0.share(&heard);
    let up = |context: &Context, data: &[u8]| inspect(Direction::ToServer, context, data);
    let down = |context: &Context, data: &[u8]| inspect(Direction::ToClient, context, data);
    tokio::try_join!(
        pass(client.0, server.1, established.to_server, up, &list),
        pass(server.0, client.1, established.to_client, down, &list),
    )?;
    Ok(())
}

/// Whether an address of a list is that of a middlebox with this chain, which listens here.
fn is_mine(address: &str, chain: &[Vec<u8>], here: SocketAddr) -> bool {
    if address == SocketAddr::new(here.ip().to_canonical(), here.port()).to_string() {
        return true;
    }
    let port = address.rsplit_once(':').map(|(_, port)| port);
    port == Some(here.port().to_string().as_str()) && is_for(chain, host_of(address))
}

/// Takes part in the handshake.
async fn join(
    stream: TcpStream,
    settings: &Settings<Identity>,
) -> Result<(Sides, Established), Error> {
    let idle = settings.timeouts.idle;
    let here = stream.local_addr()?;
    let (mut from_client, mut to_client): (Lines, _) = halves(stream, idle)?;
    let chain = settings.identity.chain.clone();
    let middlebox = Middlebox::start(Own {
        is_mine: Arc::new(move |address| is_mine(address, &chain, here)),
        identity: settings.identity.clone(),
        entropy: entropy()?,
    });
    let mut hops = Hops::default();
    let input = from_client.next().await?.ok_or(Breach::Truncated)?;
    let first = middlebox.handle(Endpoint::Client, input, &mut hops);
    let next = match &first {
        Ok(Progress::Handshake(middlebox)) => middlebox.next_hop(),
        Ok(Progress::Established(_)) | Err(_) => None,
    };
    let next = next.map(|place| place.address.clone());
    let mut middlebox = match first {
        Ok(Progress::Handshake(middlebox)) => *middlebox,
        Ok(Progress::Established(_)) => return Err(Breach::NotListed.into()),
        Err(error) => {
            let error = error.into();
            tell(&mut to_client, &error).await;
            return Err(error);
        }
    };
    let next = next.ok_or(Breach::NotListed)?;
    if !(settings.permits)(&next) {
        return Err(Error::NotPermitted(next));
    }
    let (mut from_server, mut to_server): (Lines, _) =
        halves(TcpStream::connect(&next).await?, idle)?;
    loop {
        to_client.all(&hops.to_client).await?;
        to_server.all(&hops.to_server).await?;
        hops = Hops::default();
        let (from, input) = tokio::select! {
            input = from_client.next() => (Endpoint::Client, input?),
            input = from_server.next() => (Endpoint::Server, input?),
        };
        let input = input.ok_or(Breach::Truncated)?;
        match middlebox.handle(from, input, &mut hops) {
            Ok(Progress::Handshake(next)) => middlebox = *next,
            Ok(Progress::Established(established)) => {
                to_client.all(&hops.to_client).await?;
                to_server.all(&hops.to_server).await?;
                let sides = Sides {
                    client: (from_client, to_client),
                    server: (from_server, to_server),
                };
                return Ok((sides, *established));
            }
            Err(error) => {
                // Somebody's alert goes on; nobody else is told why.
                let _ = to_client.all(&hops.to_client).await;
                let _ = to_server.all(&hops.to_server).await;
                return Err(error.into());
            }
        }
    }
}

async fn tell(to: &mut Writing, error: &Error) {
    if let Some(code) = code(error) {
        // Whoever has gone cannot be told.
        let _ = to.all(&alert(code)).await;
    }
}

/// Passes on the records of one direction, to its end.
async fn pass(
    mut from: Lines,
    mut to: Writing,
    mut relay: Relay,
    mut inspect: impl FnMut(&Context, &[u8]) -> Verdict,
    list: &MiddleboxList,
) -> Result<(), Error> {
    while let Some(input) = from.next().await? {
        let Input::Protected(record) = input else {
            return Err(Breach::Truncated.into());
        };
        let passing = relay.receive(record)?;
        let shown = passing
            .data()
            .and_then(|(id, data)| list.context(id).zip(Some(data)));
        let verdict = shown.map_or(Verdict::Forward, |(context, data)| inspect(context, data));
        let mut out = Vec::new();
        match verdict {
            Verdict::Forward => passing.forward(&mut out),
            Verdict::Replace(data) => passing.replace(&data, &mut out)?,
            Verdict::Block => return Err(Error::Blocked),
        }
        to.all(&out).await?;
    }
    to.end().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middlebox_finds_itself_by_its_address() {
        let here = "[::ffff:192.0.2.1]:4433".parse().expect("an address");
        let table = [
            ("192.0.2.1:4433", true),
            ("192.0.2.1:443", false),
            ("192.0.2.2:4433", false),
            ("192.0.2.1", false),
            ("box.example:4433", false),
        ];
        for (address, expected) in table {
            assert_eq!(is_mine(address, &[], here), expected, "{address}");
        }
    }
}
