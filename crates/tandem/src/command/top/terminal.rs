//! The terminal while `tandem top` has it: keys one by one, a screen of its own, its size.
//!
//! Is not: what is shown.
//!
//! Invariant: dropping a [`Terminal`] gives everything back.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{
    LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr,
};
use tandem_daemon::signals::Signals;

use super::screen::Size;

/// Another screen than the shell's, without a cursor (xterm's control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the first column of the first line.
const HOME: &str = "\x1b[H";
/// Clears the rest of the line, and of the screen.
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// In place of a control character: there is none (`_POSIX_VDISABLE`).
const NO_KEY: u8 = 0;

/// What ended the waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    /// This key was pressed.
    Key(u8),
    /// SIGTERM, SIGINT or SIGHUP, or the terminal is gone.
    AskedToEnd,
    /// The time is over.
    TimeIsOver,
    /// Nothing that matters.
    Nothing,
}

/// See the module.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Takes it.
    ///
    /// # Errors
    /// It does not let itself be set.
    pub(super) fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut now = before.clone();
        // Keys at once and unseen. Ctrl-C stays a signal; Ctrl-Z would hand a screen over that is
        // not the shell's.
        now.local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        now.control_chars[SpecialCharacterIndices::VSUSP as usize] = NO_KEY;
        tcsetattr(io::stdin(), SetArg::TCSANOW, &now)?;
        // From here on it is given back.
        let taken = Self { before };
        write(ENTER)?;
        Ok(taken)
    }

    pub(super) fn size(&self) -> Size {
        let (columns, rows) = match terminal_size::terminal_size() {
            Some((columns, rows)) => (columns.0, rows.0),
            None => (80, 24),
        };
        Size {
            columns: columns.into(),
            rows: rows.into(),
        }
    }

    pub(super) fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let lines: Vec<String> = lines
            .iter()
            .map(|line| format!("{line}{REST_OF_LINE}"))
            .collect();
        write(&format!("{HOME}{}{REST_OF_SCREEN}", lines.join("\r\n")))
    }

    /// Waits for a key, a signal, or so long.
    pub(super) fn wait(&mut self, signals: &Signals, limit: Duration) -> io::Result<Happened> {
        let stdin = io::stdin();
        let mut sources = [
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        // Rounded up, so as not to wake just before it is time.
        let limit = u16::try_from(limit.as_millis() + 1).unwrap_or(u16::MAX);
        match poll(&mut sources, PollTimeout::from(limit)) {
            Ok(0) => return Ok(Happened::TimeIsOver),
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok(Happened::Nothing),
            Err(errno) => return Err(errno.into()),
        }
        let [keys, asked] = sources.map(|source| source.any().unwrap_or(true));
        if asked && signals.have_arrived() {
            return Ok(Happened::AskedToEnd);
        }
        if !keys {
            return Ok(Happened::Nothing);
        }
        let mut key = [0];
        // Not through std's buffer, which poll does not see.
        match nix::unistd::read(&stdin, &mut key)? {
            0 => Ok(Happened::AskedToEnd),
            _ => Ok(Happened::Key(key[0])),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
