//! A connection to the server, and what it is asked.
//!
//! Is not: when (`worker.rs`). Invariant: nothing here takes longer than its time-outs for each
//! packet that does not come, and a reply that drips longer than [`WHOLE`] is given up.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tandem_engine::PeerId;

use crate::address::{Address, Login, Place};
use crate::resp::{self, MAX_LIST, Reply};
use crate::sealed::Secret;

/// How long a connection may take, and then each read and write.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the replies to what was sent at once may take.
const WHOLE: Duration = Duration::from_secs(3);

/// How long a peer's notes are kept after the last one: as long as state of a tunnel.
pub(crate) const LIFETIME_S: &str = "86400";

/// A connection.
pub(crate) struct Server {
    reader: BufReader<Bounded>,
}

/// What is wrong with it.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It cannot be used any more.
    Broken(io::Error),
    /// It refuses something: it is full, say.
    Refused(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl Server {
    /// Connects, and logs in.
    pub(crate) fn connect(address: &Address, login: Option<&Login>) -> Result<Self, Trouble> {
        let socket = match &address.place {
            Place::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Socket::Unix(socket)
            }
            Place::Tcp(host, port) => Socket::Tcp(connect(host, *port)?),
        };
        let mut server = Self {
            reader: BufReader::with_capacity(
                16 << 10,
                Bounded {
                    socket,
                    until: Instant::now() + WHOLE,
                },
            ),
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
                return Err(Trouble::Refused(why));
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
            match replies.first() {
                Some(Reply::Refused(why)) => refused = Some(why.clone()),
                Some(Reply::Done | Reply::List(_)) | None => taken += 1,
            }
        }
        Ok((taken, refused))
    }

    /// This peer's notes, the oldest first, and how many strings are none of them.
    pub(crate) fn read(
        &mut self,
        secret: &Secret,
        peer: PeerId,
    ) -> Result<(Vec<Vec<u8>>, usize), Trouble> {
        let (name, newest) = (secret.name(peer), (MAX_LIST - 1).to_string());
        let mut commands = Commands::default();
        commands.add(&[b"LRANGE", &name, b"0", newest.as_bytes()]);
        match self.ask(&commands)?.pop() {
            Some(Reply::List(sealed)) => {
                let all = sealed.len();
                let opened = sealed.iter().rev().filter_map(|it| secret.open(peer, it));
                let notes: Vec<Vec<u8>> = opened.collect();
                let foreign = all - notes.len();
                Ok((notes, foreign))
            }
            Some(Reply::Refused(why)) => Err(Trouble::Refused(why)),
            Some(Reply::Done) | None => Ok((Vec::new(), 1)),
        }
    }

    fn ask(&mut self, commands: &Commands) -> io::Result<Vec<Reply>> {
        let bounded = self.reader.get_mut();
        bounded.until = Instant::now() + WHOLE;
        bounded.socket.write_all(&commands.bytes)?;
        (0..commands.count)
            .map(|_| resp::read(&mut self.reader))
            .collect()
    }
}

/// What is sent at once.
#[derive(Default)]
struct Commands {
    bytes: Vec<u8>,
    count: usize,
}

impl Commands {
    fn add(&mut self, words: &[&[u8]]) {
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

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.write_all(bytes),
            Self::Unix(socket) => socket.write_all(bytes),
        }
    }
}

/// A socket that is not read after a time.
struct Bounded {
    socket: Socket,
    until: Instant,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match &mut self.socket {
            Socket::Tcp(socket) => socket.read(into),
            Socket::Unix(socket) => socket.read(into),
        }
    }
}
