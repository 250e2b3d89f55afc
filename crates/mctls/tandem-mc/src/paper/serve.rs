//! A server of files over `mctls12`. What it serves is what [`crate::serve`] serves.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mctls_io::{Identity as Files, Timeouts};
use mctls12::Mode;
use mctls12::auth::Identity;
use mctls12::endpoint::Decision;
use mctls12::list::MiddleboxList;
use mctls12_io::{Error, Roots, accept, identity, prototype};
use rustls::RootCertStore;
use tandem_daemon::listener;
use tokio::net::{TcpListener, TcpStream};

use super::{Format, Open, open, terms};
use crate::error::McError;
use crate::http::{Event, Head, Messages, Part, Reader, Side, Wrong, unescaped};
use crate::layout::{Layout, part_of};
use crate::serve::{Found, PIECE, find};
use crate::sessions::{MAX_OF_ONE_NETWORK, MAX_SESSIONS};
use crate::settings::ServerSettings;

/// A server that listens, and serves nobody yet.
pub struct Serving {
    listener: TcpListener,
    own: Arc<Own>,
}

/// A certificate and its key, for one format.
enum Who {
    Own(Identity),
    Prototype(prototype::Identity),
}

impl Who {
    const fn format(&self) -> Format {
        match self {
            Self::Own(_) => Format::Own,
            Self::Prototype(_) => Format::Prototype,
        }
    }
}

struct Own {
    who: Who,
    roots: Arc<Roots>,
    root: PathBuf,
    settings: ServerSettings,
    timeouts: Timeouts,
}

impl Serving {
    /// For the files in a folder.
    ///
    /// # Errors
    /// The folder, the address or the key cannot be used.
    pub async fn bind(
        format: Format,
        listen: SocketAddr,
        files: &Files,
        middlebox_roots: Arc<RootCertStore>,
        root: &Path,
        settings: ServerSettings,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        let folder = root.canonicalize().map_err(McError::file(root))?;
        if !folder.is_dir() {
            return Err(McError::file(root)(io::ErrorKind::NotADirectory.into()));
        }
        let who = match format {
            Format::Own => identity(files).map(Who::Own),
            Format::Prototype => prototype::identity(files).map(Who::Prototype),
        };
        let own = Own {
            who: who.map_err(|error| McError::Argument(error.to_string()))?,
            roots: Arc::new(Roots::new(Arc::clone(&middlebox_roots), middlebox_roots)),
            root: folder,
            settings,
            timeouts,
        };
        Ok(Self {
            listener: listener::listen("--listen", listen).await?,
            own: Arc::new(own),
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
        let own = self.own;
        listener::serve_shared(
            self.listener,
            MAX_SESSIONS,
            MAX_OF_ONE_NETWORK,
            move |stream| {
                let own = Arc::clone(&own);
                async move {
                    if let Err(ended) = connection(own, stream).await {
                        tracing::info!("a session was ended: {ended}");
                    }
                }
            },
        )
        .await;
    }
}

/// Why a session ends early.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Session(#[from] Error),
    #[error("{0}")]
    Http(#[from] Wrong),
    #[error("a file could not be read to its end: {0}")]
    File(io::Error),
}

async fn connection(own: Arc<Own>, stream: TcpStream) -> Result<(), Ended> {
    let mut session = accepted(&own, stream).await?;
    let result = exchanges(&mut session, &own).await;
    if let Err(ended) = &result {
        let told = match ended {
            Ended::Session(Error::Session(error)) => Error::Session(*error),
            Ended::Session(Error::Prototype(error)) => Error::Prototype(*error),
            Ended::Session(_) | Ended::Http(_) | Ended::File(_) => Error::Blocked,
        };
        session.sender.abort(&told).await;
    }
    result
}

async fn accepted(own: &Arc<Own>, stream: TcpStream) -> Result<Open, Error> {
    let roots = Arc::clone(&own.roots);
    let deciding = Arc::clone(own);
    let decide = move |list: &MiddleboxList| {
        let answered = deciding.settings.answer(&terms(list)?)?;
        let rights = answered.contexts().iter();
        Some(rights.map(|context| context.rights.clone()).collect())
    };
    match &own.who {
        Who::Own(identity) => {
            let decide = |list: &MiddleboxList| {
                let mode = Mode::Contributory;
                decide(list).map(|rights| Decision { mode, rights })
            };
            let session = accept(stream, identity.clone(), roots, decide, own.timeouts).await;
            session.map(open)
        }
        Who::Prototype(identity) => {
            let roots = Arc::new(prototype::Nameless(roots));
            let (identity, decide) = (identity.clone(), Arc::new(decide));
            prototype::accept(stream, identity, roots, decide, own.timeouts).await
        }
    }
}

/// Where everything goes if a prototype's client has divided its data in another way than HTTP.
fn undivided(list: &MiddleboxList) -> Option<Layout> {
    let first = list.contexts().first()?.id;
    Some(Layout {
        request_headers: first,
        request_body: first,
        response_headers: first,
        response_body: first,
        offers: None,
        digest: None,
    })
}

async fn exchanges(session: &mut Open, own: &Own) -> Result<(), Ended> {
    let terms = terms(&session.list).ok_or(Wrong::Place)?;
    let format = own.who.format();
    let layout = match (Layout::of(&terms), format) {
        (None, Format::Prototype) => undivided(&session.list),
        (layout, Format::Own | Format::Prototype) => layout,
    };
    let layout = layout.ok_or(Wrong::Place)?;
    let mut messages = Messages::new(Side::Requests, Reader::Endpoint);
    let mut request = None;
    while let Some(delivery) = session.receiver.recv().await? {
        let context = terms.context(delivery.context).ok_or(Wrong::Place)?;
        let part = match format {
            Format::Own => part_of(&context.purpose, Side::Requests).ok_or(Wrong::Place)?,
            Format::Prototype => Part::Whole,
        };
        for event in messages.push(part, &delivery.data)? {
            match (event, request.take()) {
                (Event::Head { head, .. }, _) => request = Some(head),
                (Event::Framing(_) | Event::Body(_), head) => request = head,
                (Event::End, None) => {}
                (Event::End, Some(head)) => {
                    answer(session, layout, own, &head).await?;
                    match format {
                        Format::Own if head.closes() => {
                            return Ok(session.sender.close().await?);
                        }
                        Format::Own => {}
                        Format::Prototype => return last(session).await,
                    }
                }
            }
        }
    }
    messages.finish()?;
    Ok(session.sender.close().await?)
}

/// The prototype's client asks in each context, and reads until the end. What still comes is read,
/// so that the system does not cut the connection before everything is delivered.
async fn last(session: &mut Open) -> Result<(), Ended> {
    session.sender.close().await?;
    while session.receiver.recv().await?.is_some() {}
    Ok(())
}

async fn answer(
    session: &mut Open,
    layout: Layout,
    own: &Own,
    request: &Head,
) -> Result<(), Ended> {
    let method = request.method().unwrap_or_default();
    let target = request.target().unwrap_or_default();
    let is_get = match own.who.format() {
        Format::Own => method == "GET",
        // The prototype's client writes `Get`.
        Format::Prototype => method.eq_ignore_ascii_case("GET"),
    };
    let found = match method {
        _ if is_get => find(&own.root, target),
        "HEAD" => find(&own.root, target),
        _ => Err(Head::response(405, "Method Not Allowed").with("Allow", "GET, HEAD")),
    };
    let (mut head, file) = match found {
        Ok(found) => {
            let mut head = Head::response(200, "OK")
                .with("Content-Type", found.kind)
                .with("Content-Length", found.length.to_string());
            let path = unescaped(target.split(['?', '#']).next().unwrap_or_default());
            let lines = own.settings.headers.iter();
            for line in lines.filter(|line| path.starts_with(&line.path)) {
                head = head.with(&line.name, &line.value);
            }
            (head, is_get.then_some(found))
        }
        Err(head) => (head.with("Content-Length", "0"), None),
    };
    if request.closes() {
        head = head.with("Connection", "close");
    }
    let sender = &mut session.sender;
    sender
        .send(layout.response_headers, &head.to_bytes())
        .await?;
    let Some(Found { file, length, .. }) = file else {
        return Ok(());
    };
    let mut file = file.take(length);
    let mut left = length;
    while left > 0 {
        // A disk may be slow; others are served meanwhile.
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece);
            (file, read.map(|length| piece[..length].to_vec()))
        });
        let (again, piece) = read.await.map_err(|error| Ended::File(error.into()))?;
        file = again;
        let piece = piece.map_err(Ended::File)?;
        if piece.is_empty() {
            return Err(Ended::File(io::ErrorKind::UnexpectedEof.into()));
        }
        left = left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        sender.send(layout.response_body, &piece).await?;
    }
    Ok(())
}
