//! A middlebox of a kind over `mctls12`, as a daemon. Only kinds that change nothing: a record that
//! is changed here cannot become several.

use std::net::SocketAddr;
use std::sync::Arc;

use mctls::config::{Configuration, Context, Right, Terms};
use mctls::party::{Direction, Position};
use mctls::suite::Suite;
use mctls_io::{Identity as Files, Timeouts};
use mctls12::auth::Identity;
use mctls12::list::{Context as Listed, MiddleboxList};
use mctls12_io::middlebox::{Consent, Service, Settings, Verdict, serve};
use mctls12_io::{Error, identity, prototype};
use tandem_daemon::listener;
use tokio::net::TcpListener;
use tokio::net::TcpStream;

use super::{Format, terms};
use crate::boxes;
use crate::error::McError;
use crate::layout::Kind;
use crate::sessions::{MAX_OF_ONE_NETWORK, MAX_SESSIONS};
use crate::settings::BoxSettings;

/// A middlebox that listens, and serves nobody yet.
pub struct Standing {
    listener: TcpListener,
    settings: Arc<Either>,
}

/// The settings for one format.
enum Either {
    Own(Settings<Identity>),
    Prototype(Settings<prototype::Identity>),
}

impl Either {
    async fn serve(&self, stream: TcpStream) -> Result<(), Error> {
        match self {
            Self::Own(settings) => serve(stream, settings).await,
            Self::Prototype(settings) => prototype::serve(stream, settings).await,
        }
    }
}

impl Standing {
    /// One of a kind.
    ///
    /// # Errors
    /// The kind is not there over this protocol; the address, the key or the settings cannot be
    /// used.
    pub async fn bind(
        format: Format,
        listen: SocketAddr,
        files: &Files,
        kind: Kind,
        settings: BoxSettings,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        if !matches!(kind, Kind::Null | Kind::Filter | Kind::Ids) {
            let name = kind.name();
            return Err(McError::Argument(format!(
                "--kind {name}: over mctls12 there are null, filter and ids"
            )));
        }
        settings.check_reach(listen)?;
        let new = boxes::service(kind, &settings)?;
        let service = move || {
            Box::new(Adapted {
                service: new(),
                contexts: Vec::new(),
            }) as Box<dyn Service>
        };
        let service: Arc<dyn Fn() -> Box<dyn Service> + Send + Sync> = Arc::new(service);
        let permits = Arc::new(move |next: &str| settings.permits(next));
        let wrong = |error: Error| McError::Argument(error.to_string());
        let settings = match format {
            Format::Own => Either::Own(Settings {
                identity: identity(files).map_err(wrong)?,
                permits,
                service,
                timeouts,
            }),
            Format::Prototype => Either::Prototype(Settings {
                identity: prototype::identity(files).map_err(wrong)?,
                permits,
                service,
                timeouts,
            }),
        };
        Ok(Self {
            listener: listener::listen("--listen", listen).await?,
            settings: Arc::new(settings),
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
        let settings = self.settings;
        listener::serve_shared(
            self.listener,
            MAX_SESSIONS,
            MAX_OF_ONE_NETWORK,
            move |stream| {
                let settings = Arc::clone(&settings);
                async move {
                    match settings.serve(stream).await {
                        Ok(()) => tracing::debug!("a session has ended"),
                        Err(error) => tracing::info!("a session was ended: {error}"),
                    }
                }
            },
        )
        .await;
    }
}

/// A service of mctls13 that is shown the data of this protocol.
struct Adapted {
    service: Box<dyn mctls_io::Service>,
    contexts: Vec<Context>,
}

impl Service for Adapted {
    fn joined(&mut self, list: &MiddleboxList, position: Position, rights: &[Right]) -> Consent {
        let Some(mut contexts) = terms(list).map(|terms| terms.contexts().to_vec()) else {
            return Consent::Refused;
        };
        for (context, right) in contexts.iter_mut().zip(rights) {
            context.rights[position.index()] = *right;
        }
        self.contexts = contexts.clone();
        let Some(terms) = terms(list) else {
            return Consent::Refused;
        };
        let boxes = terms.middleboxes().to_vec();
        let Ok(terms) = Terms::new([0; 32], boxes, contexts) else {
            return Consent::Refused;
        };
        // Records are protected otherwise; no service looks at the suite.
        let suite = Suite::Aes128Gcm;
        let configuration = Configuration { suite, terms };
        match self.service.joined(position, &configuration) {
            mctls_io::Consent::Given => Consent::Given,
            mctls_io::Consent::Refused => Consent::Refused,
        }
    }

    fn inspect(&mut self, direction: Direction, context: &Listed, data: &[u8]) -> Verdict {
        let known = self.contexts.iter().find(|known| known.id == context.id);
        let Some(known) = known else {
            return Verdict::Block;
        };
        match self.service.inspect(direction, known, data) {
            mctls_io::Verdict::Forward => Verdict::Forward,
            mctls_io::Verdict::Replace(_) | mctls_io::Verdict::Block | mctls_io::Verdict::Wait => {
                Verdict::Block
            }
        }
    }
}
