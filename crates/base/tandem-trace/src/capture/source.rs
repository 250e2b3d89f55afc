//! Where the capture's bytes come from: the input as it is, or out of gzip, told apart by the first
//! bytes.
//!
//! Not a file: anything that reads. Invariant: [`Source::raw_bytes`] counts bytes of the *input*
//! (compressed where it is), so that progress compares with the file's size.
//!
//! Formats: gzip is RFC 1952 (members may follow each other).

use std::io::{self, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// First bytes of a gzip member (RFC 1952, section 2.3.1), deflate being the only method.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 0x08];

/// The capture's bytes, decompressed.
#[derive(Debug)]
pub(crate) enum Source<R: Read> {
    /// The input as it is.
    Plain(Counted<R>),
    /// The input is gzip.
    Gzip(Box<MultiGzDecoder<Counted<R>>>),
}

impl<R: Read> Source<R> {
    /// Looks at the first bytes of `reader` and chooses.
    pub(crate) fn open(mut reader: R) -> io::Result<Self> {
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        read_up_to(&mut reader, GZIP_MAGIC.len(), &mut head)?;
        let is_gzip = head == GZIP_MAGIC;
        let counted = Counted {
            inner: Cursor::new(head).chain(reader),
            bytes: 0,
        };
        Ok(if is_gzip {
            Self::Gzip(Box::new(MultiGzDecoder::new(counted)))
        } else {
            Self::Plain(counted)
        })
    }

    /// Bytes of the input read so far.
    pub(crate) fn raw_bytes(&self) -> u64 {
        match self {
            Self::Plain(counted) => counted.bytes,
            Self::Gzip(decoder) => decoder.get_ref().bytes,
        }
    }

    /// Whether the bytes come out of gzip.
    pub(crate) fn is_compressed(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Gzip(_) => true,
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(counted) => counted.read(buf),
            Self::Gzip(decoder) => decoder.read(buf),
        }
    }
}

/// A reader that counts what it gives.
#[derive(Debug)]
pub(crate) struct Counted<R: Read> {
    inner: Chain<Cursor<Vec<u8>>, R>,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Appends to `out` until it holds `wanted` bytes or the input ends.
fn read_up_to(reader: &mut impl Read, wanted: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let missing = wanted.saturating_sub(out.len()) as u64;
    reader.take(missing).read_to_end(out)?;
    Ok(())
}
