//! Capture files as a stream of frames: pcap and pcapng, plain or in gzip, whole or damaged.
//!
//! Not libpcap: it reads, never writes, and knows no filter. Invariants: memory is bounded by one
//! block (16 MiB) whatever the file says; each byte of the file ends up in a frame, in a block that
//! holds no frame, or in the damage log.
//!
//! Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

mod damaged;
mod pcap;
mod pcapng;
mod source;
mod window;

use std::io::Read;

use crate::damage::{Damage, DamageLog};
use crate::error::TraceError;
use source::Source;
use window::Window;

/// The largest frame: libpcap's `MAXIMUM_SNAPLEN`. A length above it is garbage.
const MAX_FRAME: usize = 262_144;

/// Formats that people feed to programs like this one, by their first bytes; what to do about each.
const OTHER_FORMATS: [(&[u8], &str, &str); 7] = [
    (
        b"\x28\xb5\x2f\xfd",
        "a Zstandard file",
        "decompress it first (zstd -d)",
    ),
    (b"\xfd7zX", "an xz file", "decompress it first (unxz)"),
    (b"BZh", "a bzip2 file", "decompress it first (bunzip2)"),
    (
        b"\x04\x22\x4d\x18",
        "an LZ4 file",
        "decompress it first (lz4 -d)",
    ),
    (b"PK\x03\x04", "a zip archive", "unpack it first (unzip)"),
    (
        b"snoop\0\0\0",
        "a snoop capture",
        "convert it first (editcap -F pcapng IN OUT)",
    ),
    (
        b"GMBU",
        "a Network Monitor capture",
        "convert it first (editcap -F pcapng IN OUT)",
    ),
];

/// One captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Number of the link type in the registry (draft-ietf-opsawg-pcaplinktype).
    pub(crate) link_type: u16,
    /// Microseconds since 1970-01-01 00:00 UTC; none where the format has none or the clock ran
    /// before.
    pub(crate) micros: Option<u64>,
    /// Bytes that the frame had on the link, at least `data.len()`.
    pub(crate) original_len: usize,
    /// Bytes that were captured.
    pub(crate) data: &'a [u8],
}

/// Where frames go.
pub(crate) trait Sink {
    /// Takes one frame; `raw_bytes` of the input have been read by now.
    fn frame(&mut self, frame: Frame<'_>, raw_bytes: u64);
}

/// Reads all of `reader`, frame by frame.
///
/// # Errors
/// When not even the first header says that this is a capture.
pub(crate) fn read(
    reader: impl Read,
    sink: &mut impl Sink,
    damage: &mut DamageLog,
) -> Result<u64, TraceError> {
    let mut window = Window::new(Source::open(reader).map_err(TraceError::Read)?);
    let head = window.look(8).to_vec();
    if let Some(error) = window.take_failure() {
        if head.len() < 4 {
            return Err(TraceError::Read(error));
        }
        note_failure(&window, &error, damage);
    }
    if let Some(format) = pcap::Format::of_magic(&head) {
        pcap::read(&mut window, format, sink, damage);
    } else if pcapng::is_magic(&head) {
        pcapng::read(&mut window, sink, damage);
    } else {
        return Err(refusal(&head));
    }
    if let Some(error) = window.take_failure() {
        note_failure(&window, &error, damage);
    }
    Ok(window.raw_bytes())
}

fn note_failure<R: Read>(window: &Window<R>, error: &std::io::Error, damage: &mut DamageLog) {
    let (at, reason) = (window.offset(), error.to_string());
    damage.file(if window.is_compressed() {
        Damage::Compression { at, reason }
    } else {
        Damage::ReadFailed { at, reason }
    });
}

fn refusal(head: &[u8]) -> TraceError {
    if head.is_empty() {
        return TraceError::Empty;
    }
    let known = OTHER_FORMATS
        .iter()
        .find(|(magic, ..)| head.starts_with(magic));
    match known {
        Some(&(_, name, remedy)) => TraceError::OtherFormat { name, remedy },
        None => TraceError::NotACapture {
            found: head.iter().copied().take(4).collect(),
        },
    }
}

/// Reads a fixed number of bytes at an offset, in one byte order. None past the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let field = bytes.get(at..)?.first_chunk::<2>()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(*field),
            Self::Big => u16::from_be_bytes(*field),
        })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let field = bytes.get(at..)?.first_chunk::<4>()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(*field),
            Self::Big => u32::from_be_bytes(*field),
        })
    }

    fn i64(self, bytes: &[u8], at: usize) -> Option<i64> {
        let field = bytes.get(at..)?.first_chunk::<8>()?;
        Some(match self {
            Self::Little => i64::from_le_bytes(*field),
            Self::Big => i64::from_be_bytes(*field),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Link type, time, original length, captured bytes.
    pub(super) type KeptFrame = (u16, Option<u64>, usize, Vec<u8>);

    /// Frames as they came.
    #[derive(Default)]
    pub(super) struct Kept(pub(super) Vec<KeptFrame>);

    impl Sink for Kept {
        fn frame(&mut self, frame: Frame<'_>, _raw_bytes: u64) {
            self.0.push((
                frame.link_type,
                frame.micros,
                frame.original_len,
                frame.data.to_vec(),
            ));
        }
    }

    /// All frames and all damage of a capture.
    pub(super) fn read_all(bytes: &[u8]) -> (Vec<KeptFrame>, Vec<Damage>) {
        let (mut kept, mut log) = (Kept::default(), DamageLog::default());
        read(bytes, &mut kept, &mut log).expect("the test's own input");
        (kept.0, log.into_list())
    }

    fn refused(bytes: &[u8]) -> String {
        read(bytes, &mut Kept::default(), &mut DamageLog::default())
            .expect_err("no capture")
            .to_string()
    }

    #[test]
    fn what_is_no_capture_is_refused_by_name() {
        assert_eq!(refused(b""), "the file is empty");
        assert_eq!(
            refused(b"GET / HTTP/1.1\r\n"),
            "not a capture: it starts with 47 45 54 20, pcap and pcapng files do not"
        );
        assert_eq!(
            refused(b"\xd4"),
            "not a capture: it starts with d4, pcap and pcapng files do not"
        );
        assert_eq!(
            refused(b"BZh91AY"),
            "this is a bzip2 file, which is not read here; decompress it first (bunzip2)"
        );
        // The smallest gzip file: a member of nothing.
        let nothing = [
            0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(refused(&nothing), "the file is empty");
    }

    #[test]
    fn a_gzip_file_that_breaks_off_before_the_first_header_is_refused() {
        assert!(
            refused(&[0x1f, 0x8b, 8, 0]).starts_with("reading failed at the start of the file: ")
        );
    }
}
