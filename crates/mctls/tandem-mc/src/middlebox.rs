//! A middlebox of a kind, as a daemon: listens, and passes sessions on.
//!
//! Is not: what it does with what it sees ([`crate::boxes`]).

use std::net::SocketAddr;
use std::sync::Arc;

use mctls_io::middlebox::NewService;
use mctls_io::{Identity, Middlebox, MiddleboxSettings, NextHop, Timeouts};
use tandem_daemon::listener;
use tokio::net::TcpListener;

use crate::boxes;
use crate::error::McError;
use crate::layout::Kind;
use crate::sessions::{MAX_OF_ONE_NETWORK, MAX_SESSIONS, log};
use crate::settings::BoxSettings;

/// A middlebox that listens, and serves nobody yet.
pub struct Standing {
    listener: TcpListener,
    middlebox: Middlebox,
}

impl Standing {
    /// One of a kind.
    ///
    /// # Errors
    /// The address is taken, the settings cannot be, or TLS cannot be set up with them.
    pub async fn bind(
        listen: SocketAddr,
        identity: Identity,
        kind: Kind,
        settings: BoxSettings,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        let service = boxes::service(kind, &settings)?;
        let next = boxes::next_hop(kind, &settings)?;
        let pair = boxes::pair(kind, &settings)?;
        let standing = Self::new(listen, identity, settings, service, next, timeouts).await?;
        Ok(match pair {
            None => standing,
            Some(pair) => Self {
                middlebox: standing.middlebox.paired(pair),
                ..standing
            },
        })
    }

    /// One with a service of the caller's.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn with(
        listen: SocketAddr,
        identity: Identity,
        settings: BoxSettings,
        service: NewService,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        let next = NextHop::Named;
        Self::new(listen, identity, settings, service, next, timeouts).await
    }

    async fn new(
        listen: SocketAddr,
        identity: Identity,
        settings: BoxSettings,
        service: NewService,
        next: NextHop,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        if matches!(next, NextHop::Named) {
            settings.check_reach(listen)?;
        }
        let middlebox = Middlebox::new(&MiddleboxSettings {
            identity,
            next,
            permits: Arc::new(move |next: &str| settings.permits(next)),
            service,
            timeouts,
        })?;
        Ok(Self {
            listener: listener::listen("--listen", listen).await?,
            middlebox,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, McError> {
        self.listener.local_addr().map_err(McError::Output)
    }

    /// Serves, for ever.
    pub async fn serve(self) {
        let middlebox = self.middlebox;
        listener::serve_shared(
            self.listener,
            MAX_SESSIONS,
            MAX_OF_ONE_NETWORK,
            move |stream| {
                let middlebox = middlebox.clone();
                async move {
                    match middlebox.serve(stream).await {
                        Ok(()) => tracing::debug!("a session has ended"),
                        Err(error) => log(&error),
                    }
                }
            },
        )
        .await;
    }
}
