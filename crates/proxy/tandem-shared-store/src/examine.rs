//! A look at the server before it is needed: whether it can be used, and if not, whose fault it is.
//!
//! Is not: what to do about it; that is said to the operator by `tandem doctor`.
//!
//! Invariants: nothing in the server is changed: what would be written is queued in a transaction
//! that is discarded (<https://valkey.io/topics/transactions/>), where the server checks rights and
//! memory all the same; it takes as long as two connections of a proxy's at most.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustls::AlertDescription;
use tandem_engine::PeerId;

use crate::access::Access;
use crate::resp::Reply;
use crate::sealed::Secret;
use crate::server::{Commands, LIFETIME_S, Server, Trouble};

/// How often the round trip is measured; the shortest counts.
const PINGS: u32 = 3;

/// Why the server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is there: the port is closed, the socket is not there, or its process is gone.
    NotThere(String),
    /// The name leads to no address.
    NameNotFound(String),
    /// This user may not use the UNIX socket.
    SocketNotPermitted,
    /// It takes longer to answer than a proxy waits.
    Silent,
    /// What answers is another program; or one of the two speaks TLS, and the other does not.
    NotThis(String),
    /// Nobody who is trusted vouches for its certificate, or not for this name, or not now.
    NotTrusted(String),
    /// It wants a certificate from whoever comes.
    WantsCertificate,
    /// It wants a password, or a user's.
    WantsPassword,
    /// It does not know this password, or user.
    WrongPassword,
    /// It has no password, and so takes none.
    TakesNoPassword,
    /// It is too old for users with names (before Redis 6).
    TooOldForUsers,
    /// It is too old for a command, or does not offer it under its name.
    UnknownCommand(String),
    /// It talks to its own machine only, as long as it has no password (protected mode).
    Protected,
    /// It has no database of this number.
    NoDatabase,
    /// This user may not do what is needed.
    NotPermitted(String),
    /// It is a replica, which takes no notes.
    Replica,
    /// It reads its file, or waits for the server that it copies.
    Starting,
    /// It has no memory left for notes.
    Full,
    /// It cannot write its file, and so takes no notes.
    DiskFails,
    /// It refuses for another reason.
    Refuses(String),
}

/// Whether notes can be read and written there by the server-side proxies of this key: the round
/// trip to the server.
///
/// # Errors
/// They cannot.
pub fn examine(access: &Access, key: &[u8; 32]) -> Result<Duration, Fault> {
    let mut server = Server::connect(access).map_err(fault)?;
    let mut round_trip = Duration::MAX;
    for _ in 0..PINGS {
        let since = Instant::now();
        server.ping().map_err(fault)?;
        round_trip = round_trip.min(since.elapsed());
    }
    // A peer that nobody has: keys are no zeros.
    let name = Secret::new(key).name(PeerId([0; 32]));
    // Alone, since without a transaction what follows would be done.
    let is_begun = say(&mut server, &[&[b"MULTI"]])?.is_none();
    let (trim, expire) = (
        [&b"LTRIM"[..], &name, b"0", b"0"],
        [&b"EXPIRE"[..], &name, LIFETIME_S.as_bytes()],
    );
    let refused = if is_begun {
        let push = [&b"LPUSH"[..], &name, b"note"];
        let range = [&b"LRANGE"[..], &name, b"0", b"0"];
        say(&mut server, &[&push, &trim, &expire, &range, &[b"DISCARD"]])?
    } else {
        // Of a list that is not there, these change nothing.
        say(&mut server, &[&trim, &expire])?
    };
    match refused {
        None => Ok(round_trip),
        Some(why) => Err(refusal(&why)),
    }
}

/// The first refusal, if there is one.
fn say(server: &mut Server, commands: &[&[&[u8]]]) -> Result<Option<String>, Fault> {
    let mut all = Commands::default();
    for command in commands {
        all.add(command);
    }
    let replies = server.replies(&all).map_err(fault)?;
    Ok(replies.into_iter().find_map(|reply| match reply {
        Reply::Refused(why) => Some(why),
        Reply::Done | Reply::List(_) => None,
    }))
}

fn fault(trouble: Trouble) -> Fault {
    match trouble {
        Trouble::Broken(error) => broken(&error),
        Trouble::Unfit(why) => refusal(&why),
    }
}

fn broken(error: &io::Error) -> Fault {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => return Fault::NotTrusted(error.to_string()),
        Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            return Fault::WantsCertificate;
        }
        Some(_) => return Fault::NotThis(error.to_string()),
        None => {}
    }
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Fault::Silent,
        ErrorKind::PermissionDenied => Fault::SocketNotPermitted,
        ErrorKind::InvalidData
        | ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::BrokenPipe => Fault::NotThis(error.to_string()),
        // The resolver's errors have no kind of their own.
        _ if error.raw_os_error().is_none() => Fault::NameNotFound(error.to_string()),
        _ => Fault::NotThere(error.to_string()),
    }
}

/// What a refusal means, by how it begins (<https://valkey.io/topics/protocol/>, "Simple errors").
fn refusal(why: &str) -> Fault {
    let is_about = |words: &[&str]| words.iter().any(|word| why.contains(word));
    match why.split(' ').next().unwrap_or_default() {
        "NOAUTH" => Fault::WantsPassword,
        "WRONGPASS" => Fault::WrongPassword,
        "NOPERM" => Fault::NotPermitted(why.to_owned()),
        "READONLY" => Fault::Replica,
        "LOADING" | "MASTERDOWN" => Fault::Starting,
        "OOM" => Fault::Full,
        "MISCONF" => Fault::DiskFails,
        "DENIED" => Fault::Protected,
        "ERR" if is_about(&["without any password", "no password is set"]) => {
            Fault::TakesNoPassword
        }
        "ERR" if is_about(&["arguments for 'auth'"]) => Fault::TooOldForUsers,
        "ERR" if is_about(&["invalid password"]) => Fault::WrongPassword,
        "ERR" if is_about(&["unknown command"]) => Fault::UnknownCommand(why.to_owned()),
        "ERR" if is_about(&["DB index"]) => Fault::NoDatabase,
        _ => Fault::Refuses(why.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the servers' own words (Redis 2.8, 5 and 7, Valkey 8).
    #[test]
    fn each_refusal_is_told_apart() {
        for (why, expected) in [
            ("NOAUTH Authentication required.", Fault::WantsPassword),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                Fault::WrongPassword,
            ),
            ("ERR invalid password", Fault::WrongPassword),
            (
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
                Fault::TakesNoPassword,
            ),
            (
                "ERR Client sent AUTH, but no password is set",
                Fault::TakesNoPassword,
            ),
            (
                "ERR wrong number of arguments for 'auth' command",
                Fault::TooOldForUsers,
            ),
            (
                "READONLY You can't write against a read only replica.",
                Fault::Replica,
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                Fault::Starting,
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Fault::Full,
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable",
                Fault::DiskFails,
            ),
            (
                "DENIED Redis is running in protected mode because protected mode is enabled",
                Fault::Protected,
            ),
            ("ERR DB index is out of range", Fault::NoDatabase),
            (
                "ERR max number of clients reached",
                Fault::Refuses("ERR max number of clients reached".to_owned()),
            ),
        ] {
            assert_eq!(refusal(why), expected, "{why}");
        }
        let why = "NOPERM this user has no permissions to run the 'lpush' command";
        assert_eq!(refusal(why), Fault::NotPermitted(why.to_owned()));
        let why = "ERR unknown command 'LPUSH', with args beginning with: ";
        assert_eq!(refusal(why), Fault::UnknownCommand(why.to_owned()));
    }
}
