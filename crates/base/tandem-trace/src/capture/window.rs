//! A sliding window on the capture's bytes: the framing code looks ahead in it, takes what it
//! understood and moves on.
//!
//! It is not `BufRead`: the caller says how far it must see. Invariants: memory is bounded by the
//! furthest look ahead (which callers bound) plus one chunk; [`Window::offset`] is the position in
//! the decompressed capture of the first byte in sight.

use std::io::{self, Read};

use super::source::Source;

/// Bytes asked of the reader at once. A pipe or file gives no more for larger ones.
const CHUNK: usize = 64 * 1024;

/// The window. Errors of the reader end the input and are kept for the damage report.
#[derive(Debug)]
pub(crate) struct Window<R: Read> {
    source: Source<R>,
    buffer: Vec<u8>,
    /// First byte of `buffer` that was not yet taken.
    start: usize,
    taken: u64,
    ended: bool,
    failure: Option<io::Error>,
}

impl<R: Read> Window<R> {
    /// A window at the start of `source`.
    pub(crate) fn new(source: Source<R>) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            taken: 0,
            ended: false,
            failure: None,
        }
    }

    /// Position in the capture of the first byte in sight.
    pub(crate) fn offset(&self) -> u64 {
        self.taken
    }

    /// Bytes of the input (compressed where it is) read so far.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.source.raw_bytes()
    }

    /// Whether the capture comes out of a compressed file.
    pub(crate) fn is_compressed(&self) -> bool {
        self.source.is_compressed()
    }

    /// Why reading ended early, if it did; once.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// The next bytes: `wanted` of them or more, fewer only where the capture ends before.
    pub(crate) fn look(&mut self, wanted: usize) -> &[u8] {
        while self.buffer.len() - self.start < wanted && !self.ended {
            self.read_chunk();
        }
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Moves on by `count` bytes, which must be in sight; moves to the end of what is in sight
    /// otherwise.
    pub(crate) fn take(&mut self, count: usize) {
        let count = count.min(self.buffer.len() - self.start);
        self.start += count;
        self.taken += count as u64;
    }

    fn read_chunk(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let filled = self.buffer.len();
        self.buffer.resize(filled + CHUNK, 0);
        let read = loop {
            match self
                .source
                .read(self.buffer.get_mut(filled..).unwrap_or_default())
            {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.unwrap_or_else(|error| {
            self.failure = Some(error);
            0
        });
        self.ended = read == 0;
        self.buffer.truncate(filled + read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte a call, then fails.
    struct Drip(u8);

    impl Read for Drip {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.0 == 20 {
                return Err(io::Error::other("gone"));
            }
            buf[0] = self.0;
            self.0 += 1;
            Ok(1)
        }
    }

    #[test]
    fn sees_as_far_as_asked_and_keeps_the_failure() {
        let mut window = Window::new(Source::open(Drip(0)).expect("the test's own input"));
        assert_eq!(window.look(4), [0, 1, 2, 3]);
        window.take(3);
        assert_eq!(window.offset(), 3);
        assert_eq!(window.look(2), [3, 4]);
        window.take(1);
        assert_eq!(window.look(100).len(), 16);
        assert_eq!(window.raw_bytes(), 20);
        window.take(100);
        assert_eq!(window.offset(), 20);
        assert_eq!(window.look(1), [0u8; 0]);
        assert_eq!(
            window.take_failure().map(|e| e.to_string()).as_deref(),
            Some("gone")
        );
        assert!(window.take_failure().is_none());
    }
}
