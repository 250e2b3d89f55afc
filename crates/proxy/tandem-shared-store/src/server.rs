//! A connection to the server, and what it is asked.
//!
//! Is not: when (`worker.rs`). Invariants: a connection takes a second, and what is asked at once
//! [`WHOLE`] and a second, with TLS's handshake, however slowly it goes; only looking up a host's
//! name takes as long as the system's resolver does.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Type};
use tandem_engine::PeerId;
use zeroize::Zeroizing;

use crate::access::Access;
use crate::address::Place;
use crate::bounded::{Bounded, Socket};
use crate::resp::{self, MAX_LIST, Reply};
use crate::sealed::Secret;
use crate::trust::Tls;

/// How long a connection may take, and then each read and write.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the replies to what was sent at once may take.
const WHOLE: Duration = Duration::from_secs(3);

/// How long a peer's notes are kept after the last one: as long as state of a tunnel.
pub(crate) const LIFETIME_S: &str = "86400";

/// A connection.
#[derive(Debug)]
pub(crate) struct Server {
    reader: BufReader<Stream>,
}

/// What is wrong with it.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It cannot be used any more.
    Broken(io::Error),
    /// It refuses what it would refuse again: it is a replica now, say. Another connection may lead
    /// to another server.
    Unfit(String),
}

/// What such refusals begin with.
const UNFIT: [&str; 6] = [
    "READONLY",
    "MASTERDOWN",
    "LOADING",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
];

fn unfit(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Refused(why) if UNFIT.iter().any(|it| why.starts_with(it)) => Some(why.clone()),
        Reply::Refused(_) | Reply::Done | Reply::List(_) => None,
    }
}

impl Trouble {
    /// Whether the other end has closed the connection, as after a restart.
    pub(crate) fn is_dead(&self) -> bool {
        match self {
            Self::Broken(error) => matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::UnexpectedEof
            ),
            Self::Unfit(_) => false,
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl Server {
    /// Connects, and logs in.
    pub(crate) fn connect(access: &Access) -> Result<Self, Trouble> {
        let Access {
            address,
            login,
            trust,
        } = access;
        let bounded = |socket| Bounded {
            socket,
            until: Instant::now() + WHOLE,
        };
        let stream = match (&address.place, trust) {
            (Place::Unix(path), _) => {
                let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.connect(&SockAddr::unix(path)?)?;
                Stream::Clear(bounded(Socket::Unix(socket.into())))
            }
            (Place::Tcp(host, port), _) => {
                Stream::Clear(bounded(Socket::Tcp(connect(host, *port)?)))
            }
            (Place::Tls(host, port), Some(trust)) => {
                let socket = bounded(Socket::Tcp(connect(host, *port)?));
                Stream::Tls(Box::new(trust.over(socket, host)?))
            }
            (Place::Tls(..), None) => {
                return Err(io::Error::other("nobody is named who vouches for it").into());
            }
        };
        let mut server = Self {
            reader: BufReader::with_capacity(16 << 10, stream),
        };
        let mut commands = Commands::default();
        if let Some(login) = login {
            match &address.user {
                Some(user) => commands.add(&[b"AUTH", user.as_bytes(), login.text().as_bytes()]),
                None => commands.add(&[b"AUTH", login.text().as_bytes()]),
            }
        }
        let database = address.database.to_string();
        if address.database != 0 {
            commands.add(&[b"SELECT", database.as_bytes()]);
        }
        commands.add(&[b"PING"]);
        for reply in server.ask(&commands)? {
            if let Reply::Refused(why) = reply {
                return Err(Trouble::Unfit(why));
            }
        }
        Ok(server)
    }

    /// Finds out whether it still answers.
    pub(crate) fn ping(&mut self) -> Result<(), Trouble> {
        let mut commands = Commands::default();
        commands.add(&[b"PING"]);
        self.ask(&commands)?;
        Ok(())
    }

    /// Puts these notes in front of their peers' lists. Returns how many were taken, and why others
    /// were not.
    pub(crate) fn write(
        &mut self,
        secret: &Secret,
        notes: &[(PeerId, Vec<u8>)],
    ) -> Result<(usize, Option<String>), Trouble> {
        let newest = (MAX_LIST - 1).to_string();
        let mut commands = Commands::default();
        for (peer, note) in notes {
            let Some(sealed) = secret.seal(*peer, note) else {
                continue;
            };
            let name = secret.name(*peer);
            commands.add(&[b"LPUSH", &name, &sealed]);
            commands.add(&[b"LTRIM", &name, b"0", newest.as_bytes()]);
            commands.add(&[b"EXPIRE", &name, LIFETIME_S.as_bytes()]);
        }
        let replies = self.ask(&commands)?;
        let mut refused = None;
        let mut taken = 0;
        for replies in replies.chunks(3) {
            let why = replies.iter().find_map(|reply| match reply {
                Reply::Refused(why) => Some(why.clone()),
                Reply::Done | Reply::List(_) => None,
            });
            match why {
                Some(why) => refused = Some(why),
                None => taken += 1,
            }
        }
        Ok((taken, refused))
    }

    /// What is there of each of these peers.
    pub(crate) fn read(
        &mut self,
        secret: &Secret,
        peers: &[PeerId],
    ) -> Result<Vec<Found>, Trouble> {
        let newest = (MAX_LIST - 1).to_string();
        let mut commands = Commands::default();
        for peer in peers {
            commands.add(&[b"LRANGE", &secret.name(*peer), b"0", newest.as_bytes()]);
        }
        let replies = self.ask(&commands)?;
        let found = peers.iter().zip(replies).map(|(peer, reply)| match reply {
            Reply::List(sealed) => {
                let opened = sealed.iter().rev().filter_map(|it| secret.open(*peer, it));
                let notes: Vec<Vec<u8>> = opened.collect();
                Found {
                    foreign: sealed.len() - notes.len(),
                    notes: Some(notes),
                }
            }
            Reply::Refused(_) | Reply::Done => Found {
                notes: None,
                foreign: 1,
            },
        });
        Ok(found.collect())
    }

    fn ask(&mut self, commands: &Commands) -> Result<Vec<Reply>, Trouble> {
        let replies = self.replies(commands)?;
        match replies.iter().find_map(unfit) {
            Some(why) => Err(Trouble::Unfit(why)),
            None => Ok(replies),
        }
    }

    /// A reply to each, refusals among them.
    pub(crate) fn replies(&mut self, commands: &Commands) -> Result<Vec<Reply>, Trouble> {
        let stream = self.reader.get_mut();
        stream.bounded().until = Instant::now() + WHOLE;
        let sent = stream
            .write_all(&commands.bytes)
            .and_then(|()| stream.flush());
        if let Err(error) = sent {
            // It may have said why before it went.
            return Err(match resp::read(&mut self.reader) {
                Ok(Reply::Refused(why)) => Trouble::Unfit(why),
                Err(said) if said.kind() == io::ErrorKind::InvalidData => said.into(),
                Ok(Reply::Done | Reply::List(_)) | Err(_) => error.into(),
            });
        }
        let mut replies = Vec::with_capacity(commands.count);
        for _ in 0..commands.count {
            replies.push(resp::read(&mut self.reader)?);
        }
        Ok(replies)
    }
}

/// What is there of a peer.
pub(crate) struct Found {
    /// Its notes, the oldest first; `None`: there is something else in their place.
    pub(crate) notes: Option<Vec<Vec<u8>>>,
    /// How many strings are none.
    pub(crate) foreign: usize,
}

/// What is sent at once. A password may be in it, for which there is room from the start.
pub(crate) struct Commands {
    bytes: Zeroizing<Vec<u8>>,
    count: usize,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            bytes: Zeroizing::new(Vec::with_capacity(2_048)),
            count: 0,
        }
    }
}

impl Commands {
    pub(crate) fn add(&mut self, words: &[&[u8]]) {
        resp::write(&mut self.bytes, words);
        self.count += 1;
    }
}

/// Tries each address of the host.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()?.take(4) {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What is said to the server, and what it says.
#[derive(Debug)]
enum Stream {
    Clear(Bounded),
    Tls(Box<Tls>),
}

impl Stream {
    fn bounded(&mut self) -> &mut Bounded {
        match self {
            Self::Clear(socket) => socket,
            Self::Tls(tls) => &mut tls.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.read(into),
            Self::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(socket) => socket.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

#[cfg(test)]
mod tests;
