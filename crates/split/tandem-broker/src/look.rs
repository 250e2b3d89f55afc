//! Looks at volunteers: a real GET of the site through each, as a browser would, with the
//! certificate checked.
//!
//! Is not: what follows of a look ([`crate::keeper`]).
//!
//! What the answer's status is counts for nothing: a volunteer cannot make one up. An answer that
//! is whole and vouched for by the site's certificate is good; whether the server behind the origin
//! is well is for the origin to watch.
//!
//! A record that this client's own TLS refuses, in a connection whose certificate was the site's,
//! was changed on the way, and is told apart from all else that can go wrong.
//!
//! Invariants: those that browsers are sent to are looked at in their own turn, however many others
//! there are; so many in a turn, by network (`tandem_barnraising::roster`), and so many at a time;
//! none takes longer than its time.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tandem_barnraising::roster::Suspect;
use tandem_barnraising::shares::LOOKS_UNPROVEN;
use tandem_split_io::tls::client::{Client, Connection};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::config;
use crate::database::Standing;
use crate::keeper::{Keeper, Look};

/// Looks at a time, of one turn: all of those at members that are not well.
const AT_A_TIME: usize = LOOKS_UNPROVEN;
/// Bytes of a body that are looked at: enough for some records,
const ENOUGH: usize = 256 << 10;
/// and of one that was reported, where any record may have been changed.
const ENOUGH_REPORTED: usize = 2 << 20;
/// How often those are looked at that were reported.
const REPORTED_EVERY: Duration = Duration::from_secs(5);

/// See above.
#[derive(Debug, Clone)]
pub(crate) struct Looker {
    client: Client,
    site: Arc<str>,
    settings: Arc<config::Look>,
}

impl Looker {
    pub(crate) fn new(client: Client, site: &str, settings: config::Look) -> Self {
        Self {
            client,
            site: site.into(),
            settings: Arc::new(settings),
        }
    }

    /// Looks at members of this standing in turn, for ever.
    pub(crate) async fn watch(self, keeper: Keeper, standing: Standing) {
        let mut turns = interval(self.settings.every);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let room = Arc::new(Semaphore::new(AT_A_TIME));
        loop {
            turns.tick().await;
            let mut looks = JoinSet::new();
            for member in keeper.looks(standing).await {
                let (looker, keeper, room) = (self.clone(), keeper.clone(), Arc::clone(&room));
                looks.spawn(async move {
                    let Ok(_permit) = room.acquire_owned().await else {
                        return;
                    };
                    let errand = Errand {
                        path: looker.settings.path.clone(),
                        enough: ENOUGH,
                    };
                    match looker.look(member.address, &errand).await {
                        Seen::Unaltered(look) => keeper.note(member, look).await,
                        Seen::Altered(look) => {
                            keeper.note_altered(member, errand.path, look).await;
                        }
                    }
                });
            }
            while looks.join_next().await.is_some() {}
        }
    }

    /// Looks at members that the origin has reported, for ever. A client chose most of what is
    /// fetched: it may be slow, or end early, through any volunteer. So nothing counts but a
    /// changed record.
    pub(crate) async fn watch_reported(self, keeper: Keeper) {
        let mut turns = interval(REPORTED_EVERY);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let mut looks = JoinSet::new();
            // No more than 16 in a turn.
            for Suspect { member, path } in keeper.suspects().await {
                let (looker, keeper) = (self.clone(), keeper.clone());
                let errand = Errand {
                    path: path.unwrap_or_else(|| self.settings.path.clone()),
                    enough: ENOUGH_REPORTED,
                };
                looks.spawn(async move {
                    match looker.look(member.address, &errand).await {
                        Seen::Unaltered(_) => {}
                        Seen::Altered(look) => {
                            keeper.note_altered(member, errand.path, look).await;
                        }
                    }
                });
            }
            while looks.join_next().await.is_some() {}
        }
    }

    async fn look(&self, address: IpAddr, errand: &Errand) -> Seen {
        let start = Instant::now();
        let found = timeout(self.settings.timeout, self.fetch(address, errand)).await;
        let took = start.elapsed();
        let failed = |reason: String| Look {
            result: Err(reason),
            took,
        };
        match found {
            Ok(Ok(status)) => Seen::Unaltered(Look {
                result: Ok(status),
                took,
            }),
            Ok(Err(Fault::Altered)) => {
                Seen::Altered(failed("a record was changed on the way".to_owned()))
            }
            Ok(Err(Fault::Other(error))) => Seen::Unaltered(failed(chain(&*error))),
            Err(_) => {
                let seconds = self.settings.timeout.as_secs();
                Seen::Unaltered(failed(format!("no whole answer in {seconds} s")))
            }
        }
    }

    async fn fetch(&self, address: IpAddr, errand: &Errand) -> Result<u16, Fault> {
        let stream = TcpStream::connect(SocketAddr::new(address, self.settings.port)).await?;
        // Up to here nobody has shown the site's certificate: nothing that fails is evidence.
        let tls = self.client.open(stream).await?;
        self.get(tls, errand)
            .await
            .map_err(|error| match refuses_record(&*error) {
                true => Fault::Altered,
                false => Fault::Other(error),
            })
    }

    async fn get(
        &self,
        tls: Connection,
        errand: &Errand,
    ) -> Result<u16, Box<dyn Error + Send + Sync>> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        // It ends with this look, also where that runs out of time.
        let mut carrying = JoinSet::new();
        carrying.spawn(connection);
        let request = hyper::Request::get(errand.path.as_str())
            .header("Host", &*self.site)
            .header("User-Agent", "tandem-broker")
            .header("Connection", "close")
            .body(Empty::<Bytes>::new())?;
        let mut response = sender.send_request(request).await?;
        let mut length = 0;
        while let Some(frame) = response.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
            if length >= errand.enough {
                break;
            }
        }
        Ok(response.status().as_u16())
    }
}

/// What a look has found.
#[derive(Debug)]
enum Seen {
    /// An answer, or none, for whatever reason.
    Unaltered(Look),
    /// A record that was changed.
    Altered(Look),
}

/// What is fetched.
#[derive(Debug)]
struct Errand {
    path: String,
    /// Bytes of the body that are enough.
    enough: usize,
}

/// Why there was no good answer.
#[derive(Debug)]
enum Fault {
    /// The client's own TLS has refused a record, after the certificate was found good.
    Altered,
    Other(Box<dyn Error + Send + Sync>),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Whether a record was not as the server sealed it, among the causes of an error: its MAC is
/// wrong, or its header says what a good one cannot, such as another type or version. Whoever cuts
/// a connection off, or sends an alert, has changed no record.
fn refuses_record(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // What an I/O error holds is not among its causes.
        let held = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let held = held.and_then(|held| held.downcast_ref::<rustls::Error>());
        let tls = held.or_else(|| error.downcast_ref::<rustls::Error>());
        let is_changed = matches!(
            tls,
            Some(
                rustls::Error::DecryptError
                    | rustls::Error::InvalidMessage(_)
                    | rustls::Error::PeerSentOversizedRecord
                    | rustls::Error::InappropriateMessage { .. }
            )
        );
        if is_changed {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes, in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text += ": ";
            text += &said;
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(error: rustls::Error) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    #[test]
    fn only_a_record_that_tls_refuses_was_changed() {
        assert!(refuses_record(&rustls::Error::DecryptError));
        for changed in [
            rustls::Error::DecryptError,
            rustls::Error::InvalidMessage(rustls::InvalidMessage::UnknownProtocolVersion),
            rustls::Error::PeerSentOversizedRecord,
            rustls::Error::InappropriateMessage {
                expect_types: vec![rustls::ContentType::ApplicationData],
                got_type: rustls::ContentType::Handshake,
            },
        ] {
            let error = held(changed);
            assert!(refuses_record(&error), "{error}");
        }
        let alert = rustls::AlertDescription::BadRecordMac;
        for other in [
            held(rustls::Error::AlertReceived(alert)),
            held(rustls::Error::HandshakeNotComplete),
            io::ErrorKind::UnexpectedEof.into(),
            io::ErrorKind::ConnectionReset.into(),
        ] {
            assert!(!refuses_record(&other), "{other}");
        }
    }
}
