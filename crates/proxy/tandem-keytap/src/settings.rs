//! What the environment says, read once when the library is loaded.
//!
//! Is not: re-read later: another thread of the program may be changing the environment by then.
//!
//! Invariant: with somebody else's rights (`AT_SECURE`) nothing in the environment counts, and
//! nothing is announced, released or written.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, c_ulong};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::system;

/// The extension's number, in decimal or with `0x`; anything else, `off` say: nothing is announced.
/// Without it, the usual number, but nothing is announced where [`SOCKET`] is set.
const EXTENSION: &str = "TANDEM_KEYTAP_EXTENSION";

/// Where to write what is done, a line for each hello: `stderr`; anything else: nowhere.
const LOG: &str = "TANDEM_KEYTAP_LOG";

/// The proxy's UNIX socket for handshake keys, an absolute path. Without it no key leaves the
/// program.
const SOCKET: &str = "TANDEM_KEYTAP_SOCKET";

/// The thesis's private number (section 2.4.2 names none; the proxies' `0x0099` is the neighbour),
/// not assigned by IANA.
const DEFAULT_EXTENSION: u16 = 0x009a;

/// With whose rights the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privileges {
    /// Those of the user who started it.
    Own,
    /// More or others: set-uid, set-gid, file capabilities. The kernel's `AT_SECURE`.
    Elevated,
}

impl Privileges {
    /// From the value of `AT_SECURE` in the auxiliary vector.
    pub(crate) const fn from_at_secure(value: c_ulong) -> Self {
        match value {
            0 => Self::Own,
            _ => Self::Elevated,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    Silent,
    Stderr,
}

/// Whether client certificates are announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Announcement {
    /// By an extension of this number.
    Extension(u16),
    /// No: the environment has no number for it, and a socket for keys. Who releases keys wants
    /// TLS 1.3, which hides certificates; announcements are in clear, and no proxy with a
    /// socket reads them.
    NotBesideKeys,
    /// No: what the environment has is no number.
    Off,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    announcement: Announcement,
    socket: Option<PathBuf>,
    log: Log,
}

impl Settings {
    fn new(
        privileges: Privileges,
        extension: Option<&OsStr>,
        socket: Option<&OsStr>,
        log: Option<&OsStr>,
    ) -> Self {
        let socket = socket.filter(|path| !path.is_empty());
        match privileges {
            Privileges::Elevated => Self {
                announcement: Announcement::Off,
                socket: None,
                log: Log::Silent,
            },
            Privileges::Own => Self {
                announcement: match (extension.map(parse), socket) {
                    (None, None) => Announcement::Extension(DEFAULT_EXTENSION),
                    (None, Some(_)) => Announcement::NotBesideKeys,
                    (Some(Some(number)), _) => Announcement::Extension(number),
                    (Some(None), _) => Announcement::Off,
                },
                // A program may go to another folder, where somebody else has such a socket.
                socket: socket.map(PathBuf::from).filter(|path| path.is_absolute()),
                log: match log {
                    Some(place) if place == "stderr" => Log::Stderr,
                    Some(_) | None => Log::Silent,
                },
            },
        }
    }
}

fn parse(number: &OsStr) -> Option<u16> {
    let number = number.to_str()?;
    match number.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Reads the environment. Until then nothing is announced.
pub(crate) fn start(privileges: Privileges) {
    let [extension, socket, log] = [EXTENSION, SOCKET, LOG].map(env::var_os);
    let settings = Settings::new(
        privileges,
        extension.as_deref(),
        socket.as_deref(),
        log.as_deref(),
    );
    let announcement = settings.announcement;
    let is_refused = settings.socket.is_none() && socket.is_some_and(|path| !path.is_empty());
    let _ = SETTINGS.set(settings);
    match announcement {
        Announcement::Extension(number) => {
            say(format_args!("loaded; the extension is {number:#06x}"));
        }
        Announcement::NotBesideKeys => say(format_args!(
            "loaded; {SOCKET} is set and {EXTENSION} is not: nothing is announced"
        )),
        Announcement::Off => say(format_args!(
            "loaded; {EXTENSION} is not a number: nothing is announced"
        )),
    }
    if is_refused {
        say(format_args!(
            "{SOCKET} is not an absolute path: no key is released"
        ));
    }
}

/// The number of the extension to announce by, if anything is to be announced.
pub(crate) fn extension() -> Option<u16> {
    match SETTINGS.get()?.announcement {
        Announcement::Extension(number) => Some(number),
        Announcement::NotBesideKeys | Announcement::Off => None,
    }
}

/// The socket that handshake keys go to, if any leaves the program.
pub(crate) fn socket() -> Option<&'static Path> {
    SETTINGS.get()?.socket.as_deref()
}

/// Writes a line where one is wanted. Never a name, never a certificate.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    match SETTINGS.get().map_or(Log::Silent, |settings| settings.log) {
        Log::Silent => {}
        Log::Stderr => system::write_to_stderr(&format!("tandem-keytap: {line}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: Option<&str> = Some("/run/keys");

    fn announcement(extension: Option<&str>, socket: Option<&str>) -> Announcement {
        let [extension, socket] = [extension, socket].map(|text| text.map(OsStr::new));
        Settings::new(Privileges::Own, extension, socket, None).announcement
    }

    #[test]
    fn no_key_leaves_unless_the_environment_names_a_socket() {
        let socket = |path: Option<&str>| {
            Settings::new(Privileges::Own, None, path.map(OsStr::new), None).socket
        };
        assert_eq!(socket(None), None);
        assert_eq!(socket(Some("")), None);
        assert_eq!(socket(Some("/run/keys")), Some(PathBuf::from("/run/keys")));
        for relative in ["keys", "./keys", "../run/keys", "@keys"] {
            assert_eq!(socket(Some(relative)), None, "{relative}");
        }
    }

    #[test]
    fn the_extension_is_the_usual_one_unless_the_environment_says_another() {
        for (text, expected) in [
            (None, Announcement::Extension(0x009a)),
            (Some("0xff9a"), Announcement::Extension(0xff9a)),
            (Some("154"), Announcement::Extension(154)),
            (Some("off"), Announcement::Off),
            (Some(""), Announcement::Off),
            (Some("0x"), Announcement::Off),
            (Some("65536"), Announcement::Off),
        ] {
            assert_eq!(announcement(text, None), expected, "{text:?}");
        }
    }

    #[test]
    fn a_program_that_releases_keys_announces_only_by_a_number_of_its_own() {
        assert_eq!(announcement(None, KEYS), Announcement::NotBesideKeys);
        let told = announcement(Some("0x009a"), KEYS);
        assert_eq!(told, Announcement::Extension(0x009a));
        assert_eq!(announcement(Some("off"), KEYS), Announcement::Off);
        // No socket.
        let usual = Announcement::Extension(DEFAULT_EXTENSION);
        assert_eq!(announcement(None, Some("")), usual);
    }

    #[test]
    fn a_log_has_to_be_asked_for() {
        let log = |place: Option<&str>| {
            Settings::new(Privileges::Own, None, None, place.map(OsStr::new)).log
        };
        assert_eq!(log(None), Log::Silent);
        assert_eq!(log(Some("stderr")), Log::Stderr);
        assert_eq!(log(Some("1")), Log::Silent);
    }

    #[test]
    fn with_elevated_rights_nothing_is_done_whatever_the_environment_says() {
        assert_eq!(Privileges::from_at_secure(0), Privileges::Own);
        assert_eq!(Privileges::from_at_secure(1), Privileges::Elevated);
        let [extension, socket, log] = ["0x9a", "/run/keys", "stderr"].map(OsStr::new).map(Some);
        let settings = Settings::new(Privileges::Elevated, extension, socket, log);
        assert_eq!(settings.announcement, Announcement::Off);
        assert_eq!((settings.socket, settings.log), (None, Log::Silent));
    }
}
