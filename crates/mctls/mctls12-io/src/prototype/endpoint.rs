//! Client and server: how they establish a session. In it they send and receive as ever.

use std::sync::Arc;

use mctls_io::Timeouts;
use mctls12::list::MiddleboxList;
use mctls12_prototype::auth::{Identity, Verify};
use mctls12_prototype::endpoint::{Decide, Handshake, Progress};
use mctls12_prototype::error::Breach;
use mctls12_prototype::record::alert;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::entropy;
use crate::endpoint::{Opens, Seals, SessionReceiver, SessionSender, code};
use crate::error::Error;
use crate::line::{Lines, Writing, halves};

/// A session with contexts.
#[derive(Debug)]
pub struct Session {
    /// What the client has proposed. At a server, a party's name is the host of its address.
    pub list: MiddleboxList,
    /// For data to the other endpoint.
    pub sender: SessionSender,
    /// For data from it.
    pub receiver: SessionReceiver,
}

/// Connects to the first middlebox of a list, or to its server, and establishes a session.
///
/// # Errors
/// The connection fails, somebody does not answer in time, or the handshake fails.
pub async fn connect(
    list: MiddleboxList,
    verify: Arc<dyn Verify>,
    timeouts: Timeouts,
) -> Result<Session, Error> {
    let first = list.middleboxes().first().unwrap_or(list.server());
    let address = first.address.clone();
    let joining = async {
        let stream = TcpStream::connect(address).await?;
        let lines = halves(stream, timeouts.idle)?;
        let mut out = Vec::new();
        let handshake = Handshake::client(list, verify, entropy()?, &mut out)?;
        establish(handshake, out, lines).await
    };
    let joined = timeout(timeouts.handshake, joining).await;
    joined.map_err(|_| Error::TimedOut(timeouts.handshake))?
}

/// Establishes a session with a client that has connected, as `decide` says.
///
/// # Errors
/// As [`connect`]; also that `decide` refuses.
pub async fn accept(
    stream: TcpStream,
    identity: Identity,
    verify: Arc<dyn Verify>,
    decide: Decide,
    timeouts: Timeouts,
) -> Result<Session, Error> {
    let joining = async {
        let lines = halves(stream, timeouts.idle)?;
        let handshake = Handshake::server(identity, verify, entropy()?, decide);
        establish(handshake, Vec::new(), lines).await
    };
    let joined = timeout(timeouts.handshake, joining).await;
    joined.map_err(|_| Error::TimedOut(timeouts.handshake))?
}

async fn establish(
    mut handshake: Handshake,
    opening: Vec<u8>,
    lines: (Lines, Writing),
) -> Result<Session, Error> {
    let (mut reading, mut writing) = lines;
    writing.all(&opening).await?;
    loop {
        // An alert in clear behind one's own change of the cipher says nothing to anybody.
        let may_tell = handshake.is_clear();
        let input = reading.next().await;
        let mut out = Vec::new();
        let next = input.and_then(|input| {
            let input = input.ok_or(Breach::Truncated)?;
            Ok(handshake.handle(input, &mut out)?)
        });
        match next {
            Ok(Progress::Handshake(next)) => {
                handshake = *next;
                writing.all(&out).await?;
            }
            Ok(Progress::Established(established)) => {
                writing.all(&out).await?;
                return Ok(Session {
                    list: established.list,
                    sender: SessionSender::new(Seals::Prototype(established.sender), writing),
                    receiver: SessionReceiver::new(Opens::Prototype(established.receiver, reading)),
                });
            }
            Err(error) => {
                if let (true, Some(code)) = (may_tell, code(&error)) {
                    // Whoever has gone cannot be told.
                    let _ = writing.all(&alert(code)).await;
                }
                writing.end().await;
                return Err(error);
            }
        }
    }
}
