//! Where the server is, and as whom one comes to it.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use zeroize::Zeroizing;

/// The port that Valkey and Redis listen on.
const DEFAULT_PORT: u16 = 6379;

/// The longest password, in bytes.
const MAX_PASSWORD: usize = 512;

/// Where the server is: `redis://[USER@]HOST[:PORT][/DATABASE]`, the same with `rediss://` for TLS,
/// or `unix:/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) place: Place,
    /// Whose password it is; `None`: the default user's.
    pub(crate) user: Option<String>,
    pub(crate) database: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host's name or address, and a port.
    Tcp(String, u16),
    /// The same, over TLS.
    Tls(String, u16),
    /// A UNIX socket.
    Unix(PathBuf),
}

/// Why a text or file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// Not an address of a server.
    #[error(
        "`{0}` is none of redis://[USER@]HOST[:PORT][/DATABASE], rediss://..., and unix:/PATH; a \
         password belongs into a file"
    )]
    NotAnAddress(String),
    /// The file of the password cannot be read.
    #[error("cannot read the password in {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no password.
    #[error("{}: a password is one line of 1 to {} bytes", path.display(), MAX_PASSWORD)]
    NotAPassword {
        /// The file.
        path: PathBuf,
    },
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse(text).ok_or_else(|| AddressError::NotAnAddress(shown(text)))
    }
}

/// The text, for an error: one that may have a password in it is in no log.
fn shown(text: &str) -> String {
    let may_have_one = text.contains(['@', '?']) || text.matches(':').count() > 1;
    match may_have_one {
        true => "what is given".to_owned(),
        false => text.to_owned(),
    }
}

fn parse(text: &str) -> Option<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = Path::new(path.strip_prefix("//").unwrap_or(path));
        return path.is_absolute().then(|| Address {
            place: Place::Unix(path.to_owned()),
            user: None,
            database: 0,
        });
    }
    type ByHost = fn(String, u16) -> Place;
    let schemes: [(&str, ByHost); 4] = [
        ("redis://", Place::Tcp),
        ("valkey://", Place::Tcp),
        ("rediss://", Place::Tls),
        ("valkeys://", Place::Tls),
    ];
    let (place, rest) = schemes
        .into_iter()
        .find_map(|(scheme, place)| Some((place, text.strip_prefix(scheme)?)))?;
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    let is_user = |user: &str| !user.is_empty() && !user.contains([':', '/', ' ']);
    if !user.is_none_or(is_user) {
        return None;
    }
    let (host, database) = match rest.split_once('/') {
        Some((host, "")) => (host, 0),
        Some((host, database)) => (host, database.parse().ok()?),
        None => (rest, 0),
    };
    let (host, port) = host_and_port(host)?;
    Some(Address {
        place: place(host.to_owned(), port),
        user: user.map(str::to_owned),
        database,
    })
}

/// Of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (
                host,
                port.strip_prefix(':').or((port.is_empty()).then_some("")),
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        },
    };
    let port = match port? {
        "" if !text.ends_with(':') => DEFAULT_PORT,
        port => port.parse().ok().filter(|port| *port != 0)?,
    };
    let is_host = !host.is_empty() && !host.contains(['/', ' ', '@', '?']);
    is_host.then_some((host, port))
}

impl Address {
    /// Whether the server has to show a certificate.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.place, Place::Tls(..))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(host, port) | Place::Tls(host, port) if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            Place::Tcp(host, port) | Place::Tls(host, port) => write!(f, "{host}:{port}"),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A password, out of a file.
#[derive(Clone)]
pub struct Login(Zeroizing<String>);

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

impl Login {
    /// The first line of this file.
    ///
    /// # Errors
    /// It cannot be read, or has no password or another line.
    pub fn read(path: &Path) -> Result<Self, AddressError> {
        let file = |source| AddressError::File {
            path: path.to_owned(),
            source,
        };
        let opened = File::open(path).map_err(file)?;
        if opened.metadata().map_err(file)?.mode() & 0o077 != 0 {
            tracing::warn!("{}: others may read this password", path.display());
        }
        let mut text = Zeroizing::new(String::with_capacity(2 * MAX_PASSWORD));
        let bounded = u64::try_from(2 * MAX_PASSWORD).unwrap_or(u64::MAX);
        let read = opened.take(bounded).read_to_string(&mut text);
        read.map_err(file)?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let is_password = (1..=MAX_PASSWORD).contains(&line.len()) && !line.contains(['\r', '\n']);
        match is_password {
            true => Ok(Self(Zeroizing::new(line.to_owned()))),
            false => Err(AddressError::NotAPassword {
                path: path.to_owned(),
            }),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(text: &str) -> (String, u16, Option<String>, u16) {
        let address: Address = text.parse().expect(text);
        match address.place {
            Place::Tcp(host, port) => (host, port, address.user, address.database),
            Place::Tls(..) | Place::Unix(_) => panic!("{text}"),
        }
    }

    #[test]
    fn an_address_is_of_tcp_or_a_socket() {
        let of = |host: &str, port, user: Option<&str>, database| {
            (host.to_owned(), port, user.map(str::to_owned), database)
        };
        assert_eq!(tcp("redis://10.0.0.1"), of("10.0.0.1", 6379, None, 0));
        assert_eq!(
            tcp("redis://db.example:7000/3"),
            of("db.example", 7000, None, 3)
        );
        assert_eq!(
            tcp("valkey://me@[::1]:7000/"),
            of("::1", 7000, Some("me"), 0)
        );
        assert_eq!(
            tcp("redis://[2001:db8::1]"),
            of("2001:db8::1", 6379, None, 0)
        );
        for text in ["rediss://db.example", "valkeys://me@db.example:6379/3"] {
            let tls: Address = text.parse().expect(text);
            assert_eq!(tls.place, Place::Tls("db.example".to_owned(), 6379));
            assert!(tls.is_tls());
        }
        let unix: Address = "unix:/run/valkey.sock".parse().expect("a path");
        assert_eq!(unix.to_string(), "unix:/run/valkey.sock");
        for text in [
            "",
            "10.0.0.1",
            "redis://",
            "redis://:6379",
            "redis://a:0",
            "redis://a:b",
            "redis://a:",
            "redis://a/b",
            "redis://@a",
            "unix:run",
            "rediss:/a",
            "https://a",
            "redis://[::1",
            "redis://[::1]x",
            "redis://[]",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_shown() {
        for text in [
            "redis://me:secret@host",
            "redis://me:secret",
            "rediss://me:secret@host",
            "redis://host?password=secret",
            "secret@",
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_password_is_one_line() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("password");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("ours");
            Login::read(&path).map(|login| login.text().to_owned()).ok()
        };
        assert_eq!(read("secret\n").as_deref(), Some("secret"));
        assert_eq!(read(" with space").as_deref(), Some(" with space"));
        for text in ["", "\n", "a\nb\n", "a\r\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert!(Login::read(&folder.path().join("none")).is_err());
    }
}
