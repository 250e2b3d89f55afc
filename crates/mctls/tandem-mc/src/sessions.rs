//! What every server of sessions with contexts does around its exchanges: it listens, takes
//! sessions, and says why one has ended early.
//!
//! Is not: the exchanges. Invariants: at most [`MAX_SESSIONS`] at a time, and
//! [`MAX_OF_ONE_NETWORK`] of one network; an end that the other side does not know of is told it.

use std::net::SocketAddr;
use std::sync::Arc;

use mctls::error::Alert;
use mctls_io::{
    Connected, Error, Fallback, Identity, Server, ServerSettings as IoSettings, Session, Timeouts,
};
use rustls::RootCertStore;
use tandem_daemon::listener;
use tokio::net::{TcpListener, TcpStream};

use crate::error::McError;
use crate::http::Wrong;
use crate::settings::ServerSettings;

/// Most sessions at a time; others wait in the system's queue.
pub(crate) const MAX_SESSIONS: usize = 1024;
/// Of those, at most so many of one network, which leaves room for others. The sessions of a
/// middlebox all come from its own.
pub(crate) const MAX_OF_ONE_NETWORK: usize = MAX_SESSIONS / 2;

/// Why a session ends early.
pub(crate) enum Ended {
    Session(Error),
    Http(Wrong),
    /// What was to be sent has failed half-way; as it is logged.
    Source(String),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl From<Wrong> for Ended {
    fn from(wrong: Wrong) -> Self {
        Self::Http(wrong)
    }
}

/// Whoever answers the requests of a session.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Answers until the client has closed, and closes.
    fn exchanges(&self, session: &mut Session) -> impl Future<Output = Result<(), Ended>> + Send;
}

/// A server that listens, and serves nobody yet.
pub(crate) struct Listening {
    listener: TcpListener,
    server: Server,
}

impl Listening {
    /// At this address, with rights by these settings.
    pub(crate) async fn bind(
        listen: SocketAddr,
        identity: Identity,
        middlebox_roots: Arc<RootCertStore>,
        settings: ServerSettings,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        let server = Server::new(&IoSettings {
            identity,
            middlebox_roots,
            policy: Arc::new(move |terms: &_| settings.answer(terms)),
            fallback: Fallback::Refuse,
            plain_protocols: Vec::new(),
            timeouts,
        })?;
        Ok(Self {
            listener: listener::listen("--listen", listen).await?,
            server,
        })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr, McError> {
        self.listener.local_addr().map_err(McError::Output)
    }

    /// Serves, for ever.
    pub(crate) async fn serve(self, answers: Arc<impl Answers>) {
        let server = self.server;
        listener::serve_shared(
            self.listener,
            MAX_SESSIONS,
            MAX_OF_ONE_NETWORK,
            move |stream| {
                let (server, answers) = (server.clone(), Arc::clone(&answers));
                async move { connection(&server, &*answers, stream).await }
            },
        )
        .await;
    }
}

async fn connection(server: &Server, answers: &impl Answers, stream: TcpStream) {
    let mut session = match server.accept(stream).await {
        Ok(Connected::Session(session)) => *session,
        // The policy refuses it before.
        Ok(Connected::Plain(_)) => return,
        Err(error) => return log(&error),
    };
    let alert = match answers.exchanges(&mut session).await {
        Ok(()) => return,
        Err(Ended::Session(error)) => {
            log(&error);
            error.alert()
        }
        Err(Ended::Http(wrong)) => {
            tracing::info!("a session was ended: {wrong}");
            Some(Alert::DecodeError)
        }
        Err(Ended::Source(why)) => {
            tracing::warn!("{why}");
            Some(Alert::Internal)
        }
    };
    if let Some(alert) = alert {
        session.sender.abort(alert).await;
    }
}

/// Logs why a session ended. What the protocol says of it names no host and no content.
pub(crate) fn log(error: &Error) {
    match error {
        Error::Session(error) => tracing::info!("a session was ended: {error}"),
        Error::Tls { .. }
        | Error::Settings(_)
        | Error::Address(_)
        | Error::Configuration(_)
        // The service has said why.
        | Error::Blocked
        | Error::Refused
        | Error::Interrupted
        | Error::Io(_)
        | Error::TimedOut(..)
        | Error::PlainTls
        | Error::Name(..) => tracing::debug!("a session was ended: {error}"),
        Error::NotPermitted(next) => {
            tracing::info!("a session was refused: `allow` does not permit its next hop");
            tracing::debug!("the next hop would have been {next}");
        }
    }
}
