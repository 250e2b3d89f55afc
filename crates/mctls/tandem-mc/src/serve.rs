//! A server of files over sessions with contexts.
//!
//! GET and HEAD, one request after the other. What arrived is answered only if every check of it
//! has passed; the header `Mc-Request` of the answer says who saw and who changed the request on
//! its way, which the client cannot know by itself. A body that a cache on the way holds is
//! referred to and not sent ([`crate::offers`]).
//!
//! Is not: a web server for more than that. Invariants: nothing outside its folder is served, by no
//! spelling and no symbolic link; nothing whose name begins with a dot is; a request's parts are
//! taken in the contexts that they belong to, and nowhere else.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mctls_io::{Identity, Session, SessionSender, Timeouts};
use rustls::RootCertStore;

use crate::error::McError;
use crate::http::{Event, Head, Messages, Reader, Side, Wrong, unescaped};
use crate::layout::{Layout, part_of};
use crate::offers::{self, CODING, Digest, Hasher, REPR_DIGEST, Statement};
use crate::report::Seen;
use crate::sessions::{Answers, Ended, Listening};
use crate::settings::{HeaderLine, ServerSettings};

/// The longest file that is referred to: it is read once more for its digest.
const MAX_REFERRED: u64 = 64 << 20;
/// How much of a file is read at once.
pub(crate) const PIECE: usize = 1 << 16;
/// The header that says what happened to a request.
pub const SEEN: &str = "Mc-Request";

/// A server that listens, and serves nobody yet.
pub struct Serving {
    listening: Listening,
    site: Arc<Site>,
}

/// What is served.
struct Site {
    root: PathBuf,
    headers: Vec<HeaderLine>,
}

impl Serving {
    /// For the files in a folder.
    ///
    /// # Errors
    /// The folder or the address cannot be used, or TLS cannot be set up.
    pub async fn bind(
        listen: SocketAddr,
        identity: Identity,
        middlebox_roots: Arc<RootCertStore>,
        root: &Path,
        settings: ServerSettings,
        timeouts: Timeouts,
    ) -> Result<Self, McError> {
        let folder = root.canonicalize().map_err(McError::file(root))?;
        if !folder.is_dir() {
            return Err(McError::file(root)(io::ErrorKind::NotADirectory.into()));
        }
        let headers = settings.headers.clone();
        let listening =
            Listening::bind(listen, identity, middlebox_roots, settings, timeouts).await?;
        Ok(Self {
            listening,
            site: Arc::new(Site {
                root: folder,
                headers,
            }),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, McError> {
        self.listening.address()
    }

    /// Serves, for ever.
    pub async fn serve(self) {
        self.listening.serve(self.site).await;
    }
}

impl Answers for Site {
    async fn exchanges(&self, session: &mut Session) -> Result<(), Ended> {
        exchanges(session, self).await
    }
}

fn unreadable(error: io::Error) -> Ended {
    Ended::Source(format!("a file could not be read to its end: {error}"))
}

/// A request that is coming.
#[derive(Default)]
struct Asked {
    head: Option<Head>,
    is_whole: bool,
    /// What caches hold of it, where the session has a context for that.
    offers: Option<Vec<Digest>>,
}

impl Asked {
    fn begin(&mut self, head: Head) -> Result<(), Wrong> {
        match self.head.replace(head) {
            None => Ok(()),
            // What is offered has to come right behind a head.
            Some(_) => Err(Wrong::Place),
        }
    }

    fn offer(&mut self, offered: &[u8]) -> Result<(), Wrong> {
        let offers = offers::read(offered).ok_or(Wrong::Place)?;
        match self.head.is_some() && self.offers.is_none() {
            true => self.offers = Some(offers),
            false => return Err(Wrong::Place),
        }
        Ok(())
    }

    /// The request and what is offered for it, once all of that has come.
    fn take(&mut self, layout: Layout) -> Option<(Head, Vec<Digest>)> {
        if !self.is_whole || (layout.offers.is_some() && self.offers.is_none()) {
            return None;
        }
        self.is_whole = false;
        let head = self.head.take()?;
        Some((head, self.offers.take().unwrap_or_default()))
    }
}

async fn exchanges(session: &mut Session, site: &Site) -> Result<(), Ended> {
    let terms = session.configuration.terms.clone();
    let layout = Layout::of(&terms).ok_or(Wrong::Place)?;
    let mut messages = Messages::new(Side::Requests, Reader::Endpoint);
    let mut seen = Seen::default();
    let mut asked = Asked::default();
    while let Some(delivery) = session.receiver.recv().await? {
        let purpose = terms
            .context(delivery.context)
            .map(|context| &context.purpose);
        let purpose = purpose.ok_or(Wrong::Place)?;
        seen.note(purpose, &delivery);
        let mut events = VecDeque::new();
        if Some(delivery.context) == layout.offers {
            asked.offer(&delivery.payload)?;
        } else {
            let part = part_of(purpose, Side::Requests).ok_or(Wrong::Place)?;
            events.extend(messages.push(part, &delivery.payload)?);
        }
        loop {
            if let Some((head, offers)) = asked.take(layout) {
                let closes = head.closes();
                answer(session, layout, site, &head, &offers, &seen).await?;
                seen = Seen::default();
                if closes {
                    return Ok(session.sender.close().await?);
                }
            }
            match events.pop_front() {
                Some(Event::Head { head, .. }) => asked.begin(head)?,
                Some(Event::Framing(_) | Event::Body(_)) => {}
                Some(Event::End) => asked.is_whole = asked.head.is_some(),
                None => break,
            }
        }
    }
    messages.finish()?;
    Ok(session.sender.close().await?)
}

async fn answer(
    session: &mut Session,
    layout: Layout,
    site: &Site,
    request: &Head,
    offers: &[Digest],
    seen: &Seen,
) -> Result<(), Ended> {
    let method = request.method().unwrap_or_default();
    let target = request.target().unwrap_or_default();
    let found = match method {
        "GET" | "HEAD" => find(&site.root, target),
        _ => Err(Head::response(405, "Method Not Allowed").with("Allow", "GET, HEAD")),
    };
    let mut referred = None;
    let (head, file) = match found {
        Ok(mut found) => {
            let mut head = Head::response(200, "OK").with("Content-Type", found.kind);
            let path = unescaped(target.split(['?', '#']).next().unwrap_or_default());
            let lines = site.headers.iter();
            for line in lines.filter(|line| path.starts_with(&line.path)) {
                head = head.with(&line.name, &line.value);
            }
            if method == "GET" && !offers.is_empty() && found.length <= MAX_REFERRED {
                let digest;
                (found, digest) = hashed(found).await.map_err(unreadable)?;
                referred = Some(digest).filter(|digest| offers.contains(digest));
            }
            let (length, head) = match referred {
                None => (found.length, head),
                Some(digest) => (
                    offers::reference_len(found.length),
                    head.with("Content-Encoding", CODING)
                        .with(REPR_DIGEST, digest.to_field()),
                ),
            };
            let head = head.with("Content-Length", length.to_string());
            (head, (method == "GET").then_some(found))
        }
        Err(head) => (head.with("Content-Length", "0"), None),
    };
    let mut head = head.with(SEEN, seen.to_header());
    if request.closes() {
        head = head.with("Connection", "close");
    }
    let sender = &mut session.sender;
    let bytes = head.to_bytes();
    sender.send(layout.response_headers, &bytes).await?;
    let Some(found) = file else {
        return Ok(());
    };
    let statement = match referred {
        None => whole(sender, layout, found).await?,
        Some(digest) => {
            let sent = offers::reference_len(found.length);
            // A record for each, since each makes room for eight.
            for _ in 0..sent {
                sender.send(layout.response_body, b"=").await?;
            }
            let digest = digest.to_field();
            Statement { digest, sent }
        }
    };
    if let Some(context) = layout.digest {
        let text = statement.to_text();
        sender.send(context, text.as_bytes()).await?;
    }
    Ok(())
}

/// Sends a file, and says what it was.
async fn whole(
    sender: &mut SessionSender,
    layout: Layout,
    found: Found,
) -> Result<Statement, Ended> {
    let Found { file, length, .. } = found;
    let mut file = file.take(length);
    let mut left = length;
    let mut hasher = layout.digest.map(|_| Hasher::default());
    while left > 0 {
        // A disk may be slow; others are served meanwhile.
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece);
            (file, read.map(|length| piece[..length].to_vec()))
        });
        let (again, piece) = read.await.map_err(|error| unreadable(error.into()))?;
        file = again;
        let piece = piece.map_err(unreadable)?;
        if piece.is_empty() {
            return Err(unreadable(io::ErrorKind::UnexpectedEof.into()));
        }
        left = left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if let Some(hasher) = &mut hasher {
            hasher.update(&piece);
        }
        sender.send(layout.response_body, &piece).await?;
    }
    Ok(Statement {
        digest: hasher.unwrap_or_default().finish().to_field(),
        sent: length,
    })
}

/// A file with the digest of what is in it.
async fn hashed(found: Found) -> io::Result<(Found, Digest)> {
    let hashing = tokio::task::spawn_blocking(move || {
        let mut hasher = Hasher::default();
        let mut piece = vec![0; PIECE];
        let mut file = &found.file;
        let mut limited = file.take(found.length);
        loop {
            match limited.read(&mut piece)? {
                0 => break,
                length => hasher.update(&piece[..length]),
            }
        }
        file.rewind()?;
        Ok((found, hasher.finish()))
    });
    hashing.await?
}

/// A file that is there.
pub(crate) struct Found {
    pub(crate) file: File,
    pub(crate) length: u64,
    pub(crate) kind: &'static str,
}

/// The file that a target names, or what is answered instead.
pub(crate) fn find(root: &Path, target: &str) -> Result<Found, Head> {
    let missing = || Head::response(404, "Not Found");
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = unescaped(path);
    let relative = path
        .strip_prefix('/')
        .ok_or_else(|| Head::response(400, "Bad Request"))?;
    let mut file = root.to_owned();
    for part in relative.split('/').filter(|part| !part.is_empty()) {
        if part.starts_with('.') || part.contains(['\0', '\\']) {
            return Err(missing());
        }
        file.push(part);
    }
    if file.is_dir() {
        file.push("index.html");
    }
    let file = file.canonicalize().map_err(|_| missing())?;
    if !file.starts_with(root) || !file.is_file() {
        return Err(missing());
    }
    let kind = kind_of(&file);
    let file = File::open(file).map_err(|_| Head::response(403, "Forbidden"))?;
    let length = file.metadata().map_err(|_| missing())?.len();
    Ok(Found { file, length, kind })
}

fn kind_of(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str());
    match ending.unwrap_or_default().to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" | "md" => "text/plain; charset=utf-8",
        "css" => "text/css",
        "js" => "text/javascript",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_folder_is_served_by_any_spelling() {
        let place = tempfile::tempdir().expect("a directory");
        let root = place.path().join("site");
        std::fs::create_dir_all(root.join("sub")).expect("a folder");
        for (name, text) in [
            ("site/a b.txt", "a"),
            ("site/sub/index.html", "i"),
            ("secret", "s"),
        ] {
            std::fs::write(place.path().join(name), text).expect("a file");
        }
        std::fs::write(root.join(".hidden"), "h").expect("a file");
        std::os::unix::fs::symlink(place.path().join("secret"), root.join("link")).expect("a link");
        let root = root.canonicalize().expect("it is there");
        let status = |target: &str| match find(&root, target) {
            Ok(found) => found.length as u16 * 200,
            Err(head) => head.status().expect("a response"),
        };
        for target in ["/a%20b.txt?x=/../", "/sub/", "/sub", "//sub//index.html"] {
            assert_eq!(status(target), 200, "{target}");
        }
        for target in [
            "/../secret",
            "/%2e%2e/secret",
            "/sub/../../secret",
            "/..%2fsecret",
            "/link",
            "/.hidden",
            "/nothing",
            "/",
            "/a%00",
        ] {
            assert_eq!(status(target), 404, "{target}");
        }
        assert_eq!(status("secret"), 400);
    }
}
