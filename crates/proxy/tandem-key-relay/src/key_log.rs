//! `tandem keytap keylog`: handshake keys out of a program's key log.
//!
//! Is not: what is in a line (`tandem-key-log`). A key log has every secret of its connections;
//! here nothing but the servers' handshake secrets is looked into, and what leaves is what follows
//! from them as key and IV.
//!
//! Invariants:
//! - What was read is overwritten as soon as it was looked at.
//! - The FIFO is read as fast as it is written: the program waits for nobody else.
//! - A line does not say which suite its connection uses. A key leaves for each that has secrets of
//!   this length, two at most; the proxy takes the one that opens the flight.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use tandem_daemon::runtime;
use tandem_daemon::service_manager::ServiceManager;
use tandem_key_log::HandshakeSecret;
use tandem_key_socket::hand_in;
use tandem_record_key::Direction;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use zeroize::{Zeroize as _, Zeroizing};

use crate::cli::KeylogArgs;
use crate::counts::Counts;
use crate::failure::Failure;

/// The user who reads the FIFO may read it, the group write to it.
const MODE: u32 = 0o620;

/// What others must not: read.
const OTHERS_READ: u32 = 0o044;

/// As much as the system keeps in a FIFO.
const BUFFER: usize = 64 * 1024;

/// Reads until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: &KeylogArgs) -> Result<(), Failure> {
    let path = &arguments.dangerous_keylog;
    let file = open(path)?;
    let mut fifo = Receiver::from_file(file).map_err(|error| Failure::file(path, error))?;
    let is_over = runtime::asked_to_end()?;
    tracing::warn!(
        "{} takes every secret of the programs that write to it",
        path.display()
    );
    let manager = ServiceManager::of_environment();
    manager.ready("reading a key log");
    let counts = Counts::default();
    let reading = async {
        let mut lines = Lines::new();
        loop {
            let length = fifo.read(lines.room()).await?;
            lines.came(length, |line| pass_on(line, &arguments.socket, &counts));
        }
    };
    let ended: Result<(), io::Error> = tokio::select! {
        () = is_over => Ok(()),
        failed = reading => failed,
        () = counts.keep_telling() => Ok(()),
    };
    manager.stopping();
    counts.tell();
    ended.map_err(|error| Failure::file(path, error))
}

/// The FIFO, made where it is missing. It is held open for writing, too: a program that goes does
/// not end it.
fn open(path: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| Failure::file(path, error);
    match nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(MODE)).map_err(failed)?,
        Err(nix::errno::Errno::EEXIST) => {}
        Err(errno) => return Err(failed(errno.into())),
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = file.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.file_type().is_fifo() {
        return Err(Failure::Usage(format!(
            "--dangerous-keylog: {} is no FIFO: a file would keep every secret; name another path",
            path.display()
        )));
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(Failure::Usage(format!(
            "--dangerous-keylog: {} is another user's, who can read all that the programs send; \
             remove it, and it is made anew",
            path.display()
        )));
    }
    if metadata.mode() & OTHERS_READ != 0 {
        return Err(Failure::Usage(format!(
            "--dangerous-keylog: others may read {}, and with it all that the programs send; \
             `chmod 620` it",
            path.display()
        )));
    }
    Ok(file)
}

/// Hands in what a line gives.
fn pass_on(line: &[u8], socket: &Path, counts: &Counts) {
    let secret = HandshakeSecret::of_line(line);
    let Some(secret) = secret.filter(|it| it.direction() == Direction::FromServer) else {
        return;
    };
    for key in secret.suites().filter_map(|suite| secret.record_key(suite)) {
        match hand_in(socket, &key) {
            Ok(()) => counts.passed_on.add(1),
            Err(error) => {
                tracing::debug!("{}: {error}", socket.display());
                counts.dropped.add(1);
            }
        }
    }
}

/// What was read, cut into lines.
struct Lines {
    buffer: Zeroizing<Vec<u8>>,
    /// Bytes of a line that is not whole.
    length: usize,
    /// That line is too long to be one.
    is_skipped: bool,
}

impl Lines {
    fn new() -> Self {
        Self {
            buffer: Zeroizing::new(vec![0; BUFFER]),
            length: 0,
            is_skipped: false,
        }
    }

    /// Where what comes next is put.
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.length..]
    }

    /// So many bytes have come: calls `each` with every line that is whole.
    fn came(&mut self, length: usize, mut each: impl FnMut(&[u8])) {
        let end = self.length + length;
        let mut start = 0;
        let whole = &self.buffer[..end];
        while let Some(at) = whole[start..].iter().position(|byte| *byte == b'\n') {
            let line = &whole[start..start + at];
            if !std::mem::take(&mut self.is_skipped) {
                each(line.strip_suffix(b"\r").unwrap_or(line));
            }
            start += at + 1;
        }
        self.buffer.copy_within(start..end, 0);
        self.length = end - start;
        if self.length == BUFFER {
            self.length = 0;
            self.is_skipped = true;
        }
        self.buffer[self.length..end].zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Lines) {
        let (mut lines, mut found) = (Lines::new(), Vec::new());
        for piece in pieces {
            for piece in piece.chunks(BUFFER / 2) {
                lines.room()[..piece.len()].copy_from_slice(piece);
                lines.came(piece.len(), |line| found.push(line.to_vec()));
            }
        }
        (found, lines)
    }

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let text = b"one\ntwo\r\n\nthree\nrest";
        for at in 0..text.len() {
            let (found, rest) = lines(&[&text[..at], &text[at..]]);
            assert_eq!(found, [&b"one"[..], b"two", b"", b"three"], "{at}");
            assert_eq!(rest.length, 4);
        }
    }

    #[test]
    fn what_was_looked_at_is_overwritten() {
        let (_, rest) = lines(&[b"SECRET secret\nSECRET", b" more\n"]);
        assert!(rest.buffer.iter().all(|byte| *byte == 0));
        let (_, rest) = lines(&[b"a secret\nre", b"st"]);
        assert_eq!(rest.buffer[..4], *b"rest");
        assert!(rest.buffer[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        let long = [&vec![b'x'; 2 * BUFFER][..], b"\nnext\n"].concat();
        let (found, rest) = lines(&[b"first\n", &long]);
        assert_eq!(found, [&b"first"[..], b"next"]);
        assert!(rest.buffer.iter().all(|byte| *byte == 0));
    }
}
