//! An ICAP server: where it is, what it can do, and connections that wait for the next message.
//!
//! Is not: a conversation with it ([`super::exchange`]). Invariants: it is asked what it can do at
//! most once at a time, and again after [`MAX_TTL`] at the latest; at most [`MAX_IDLE`] connections
//! wait; one that does not answer is left alone for [`REST`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::reply::{Asked, Options, Replies, Said, Wrong};
use crate::http::Side;
use crate::via::host_of;

/// Most connections that wait.
const MAX_IDLE: usize = 16;
/// How long what it can do is believed without a word of its own (RFC 3507 has no default), and at
/// most and least.
const TTL: Duration = Duration::from_secs(600);
const MAX_TTL: Duration = Duration::from_secs(3600);
const MIN_TTL: Duration = Duration::from_secs(10);
/// Most of a body that it is shown first, whatever it asks for.
const MAX_PREVIEW: usize = 1 << 16;
/// How long one that has not answered is not asked.
const REST: Duration = Duration::from_secs(5);
/// The port without one in the address (RFC 3507, section 4.2).
const PORT: u16 = 1344;

/// Why a server has not said what becomes of a message.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Dead {
    /// The connection.
    #[error("{0}")]
    Io(String),
    /// Nothing came, or it took nothing.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// It has failed a moment ago.
    #[error("it has failed within the last {0:?}")]
    Resting(Duration),
    /// What it says.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// It is for other messages.
    #[error("it does not offer {0}")]
    Method(&'static str),
}

impl From<std::io::Error> for Dead {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    /// How much of a body it wants to see first.
    pub(crate) preview: Option<usize>,
    pub(crate) age: Age,
}

/// Whether a connection has served before: a server may end one whenever it has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Fresh,
    Used,
}

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    /// As in the settings.
    pub(crate) url: String,
    /// Host and port.
    pub(crate) authority: String,
    pub(crate) patience: Duration,
    side: Side,
    idle: Mutex<Vec<TcpStream>>,
    known: tokio::sync::Mutex<Option<(Options, Instant)>>,
    rests_until: Mutex<Option<Instant>>,
}

impl Server {
    /// The one with this address, `icap://HOST[:PORT]/SERVICE`, for messages of this side.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of(url: &str, side: Side, patience: Duration) -> Result<Self, String> {
        let wrong = || format!("{url:?} is no icap://HOST[:PORT]/SERVICE");
        let rest = url.strip_prefix("icap://").ok_or_else(wrong)?;
        let (authority, service) = rest.split_once('/').ok_or_else(wrong)?;
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.ends_with(']'));
        let authority = match has_port {
            true => authority.to_owned(),
            false => format!("{authority}:{PORT}"),
        };
        let is_word = !service.is_empty() && service.bytes().all(|byte| byte.is_ascii_graphic());
        if host_of(&authority).is_none() || !is_word {
            return Err(wrong());
        }
        Ok(Self {
            url: url.to_owned(),
            authority,
            patience,
            side,
            idle: Mutex::default(),
            known: tokio::sync::Mutex::default(),
            rests_until: Mutex::default(),
        })
    }

    /// The method of its messages.
    pub(crate) const fn method(&self) -> &'static str {
        match self.side {
            Side::Requests => "REQMOD",
            Side::Responses => "RESPMOD",
        }
    }

    /// A connection.
    pub(crate) async fn connect(&self) -> Result<Link, Dead> {
        let rests = *lock(&self.rests_until);
        if rests.is_some_and(|until| Instant::now() < until) {
            return Err(Dead::Resting(REST));
        }
        let connecting = timeout(self.patience, async {
            let options = self.options().await?;
            let (stream, age) = match self.waiting() {
                Some(stream) => (stream, Age::Used),
                None => (self.open().await?, Age::Fresh),
            };
            Ok(Link {
                stream,
                preview: options.preview.map(|length| length.min(MAX_PREVIEW)),
                age,
            })
        });
        connecting.await.unwrap_or(Err(Dead::Late(self.patience)))
    }

    /// Another one in this one's place, which the server has ended before it has said anything.
    pub(crate) async fn again(&self, link: Link) -> Result<Link, Dead> {
        let opening = timeout(self.patience, self.open());
        Ok(Link {
            stream: opening.await.unwrap_or(Err(Dead::Late(self.patience)))?,
            age: Age::Fresh,
            ..link
        })
    }

    async fn open(&self) -> Result<TcpStream, Dead> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// What it can do.
    async fn options(&self) -> Result<Options, Dead> {
        let mut known = self.known.lock().await;
        if let Some((options, until)) = known.as_ref()
            && Instant::now() < *until
        {
            return Ok(options.clone());
        }
        *known = None;
        let mut stream = self.open().await?;
        let (url, authority) = (&self.url, &self.authority);
        let request = format!(
            "OPTIONS {url} ICAP/1.0\r\nHost: {authority}\r\nEncapsulated: null-body=0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut replies = Replies::new(Asked::Options);
        let mut piece = vec![0; 4096];
        let options = loop {
            let length = stream.read(&mut piece).await?;
            if length == 0 {
                return Err(Wrong::Cut.into());
            }
            let said = replies.push(&piece[..length])?;
            let options = said.into_iter().find_map(|one| match one {
                Said::Options(options) => Some(options),
                _ => None,
            });
            if let Some(options) = options {
                break options;
            }
        };
        let is_for_it = match self.side {
            Side::Requests => options.methods.requests,
            Side::Responses => options.methods.responses,
        };
        if !is_for_it {
            return Err(Dead::Method(self.method()));
        }
        let ttl = options.ttl.map_or(TTL, Duration::from_secs);
        *known = Some((
            options.clone(),
            Instant::now() + ttl.clamp(MIN_TTL, MAX_TTL),
        ));
        if replies.may_stay() {
            self.keep(stream);
        }
        Ok(options)
    }

    /// A connection that waits, and is still open.
    fn waiting(&self) -> Option<TcpStream> {
        loop {
            let stream = lock(&self.idle).pop()?;
            // Whoever says something now, or has gone, does not answer what comes.
            let mut byte = [0];
            let is_open = stream
                .try_read(&mut byte)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
            if is_open {
                return Some(stream);
            }
        }
    }

    /// Keeps a connection for the next message.
    pub(crate) fn keep(&self, stream: TcpStream) {
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_IDLE {
            idle.push(stream);
        }
    }

    /// Takes note of how an exchange went.
    pub(crate) fn note(&self, ended: Result<(), &Dead>) {
        match ended {
            Ok(()) => *lock(&self.rests_until) = None,
            // Its words were for one message; its silence is for all.
            Err(Dead::Wrong(_) | Dead::Resting(_)) => {}
            Err(Dead::Io(_) | Dead::Late(_) | Dead::Method(_)) => {
                *lock(&self.rests_until) = Some(Instant::now() + REST);
                lock(&self.idle).clear();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_host_and_a_service() {
        let of = |url: &str| Server::of(url, Side::Requests, TTL).map(|one| one.authority);
        assert_eq!(of("icap://127.0.0.1/echo"), Ok("127.0.0.1:1344".into()));
        assert_eq!(of("icap://[::1]/echo?a"), Ok("[::1]:1344".into()));
        assert_eq!(of("icap://a.example:99/x"), Ok("a.example:99".into()));
        for wrong in [
            "",
            "icap://",
            "icap://a",
            "icap://a/",
            "http://a/b",
            "icap://a/b c",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
