//! What a proxy remembers of a peer, as bytes that another proxy at its end can take in: a peer
//! that moves to it then finds there what it refers to (docs/adr/0039-shared-store.md).
//!
//! Is: the form of one note. Is not: where notes lie meanwhile, or who may read them; that is the
//! adapter's.
//!
//! ```text
//! | version 1 | kind | fields, each behind its length in four bytes, up to the last byte |
//!    kind 1, a hello that was answered:       hello, server's first flight
//!    kind 2, a hello with an encrypted answer: hello
//!    kind 3, a session ticket:                site, ticket, Unix time of its end (8 bytes)
//!    kind 4, a client's chain:                certificates, the leaf first
//! ```
//!
//! Invariants: notes are read as bytes of a stranger: nothing is believed of them but their form,
//! and a wrong one costs a miss, never a byte, as the check of what is rebuilt finds out; a note
//! has [`Note::MAX_LEN`] bytes at most, and takes no more memory than that.

use tandem_store::Site;
use tandem_wire::UnixTime;

const VERSION: u8 = 1;

/// Bytes of a field's length.
const LENGTH_LEN: usize = 4;

/// Most certificates of a chain.
const MAX_CERTIFICATES: usize = 16;

/// Something that both this side and a peer have seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note<'n> {
    /// A client's hello, and the flight that answered it.
    Answered {
        /// The hello.
        hello: &'n [u8],
        /// The server's first flight.
        flight: &'n [u8],
    },
    /// A client's hello whose answer was encrypted.
    Sealed {
        /// The hello.
        hello: &'n [u8],
    },
    /// A session ticket.
    Ticket {
        /// Whose it is.
        site: Site,
        /// The ticket.
        ticket: &'n [u8],
        /// When its server stops taking it.
        until: UnixTime,
    },
    /// A client's chain.
    Chain(Vec<&'n [u8]>),
}

impl<'n> Note<'n> {
    /// The longest note: the longest hello and flight that are remembered, and their lengths.
    pub(crate) const MAX_LEN: usize = 33 << 10;

    /// As bytes; `None` where they would be too many.
    pub(crate) fn write(&self) -> Option<Vec<u8>> {
        let (kind, fields): (u8, Vec<Vec<u8>>) = match self {
            Self::Answered { hello, flight } => (1, vec![hello.to_vec(), flight.to_vec()]),
            Self::Sealed { hello } => (2, vec![hello.to_vec()]),
            Self::Ticket {
                site,
                ticket,
                until,
            } => {
                let until = until.0.to_be_bytes().to_vec();
                (
                    3,
                    vec![site.to_string().into_bytes(), ticket.to_vec(), until],
                )
            }
            Self::Chain(chain) => (4, chain.iter().map(|der| der.to_vec()).collect()),
        };
        let mut bytes = vec![VERSION, kind];
        for field in fields {
            bytes.extend(u32::try_from(field.len()).ok()?.to_be_bytes());
            bytes.extend(field);
        }
        (bytes.len() <= Self::MAX_LEN).then_some(bytes)
    }

    /// Out of bytes of whatever origin; `None` where they are none.
    pub(crate) fn read(bytes: &'n [u8]) -> Option<Self> {
        if bytes.len() > Self::MAX_LEN {
            return None;
        }
        let (&[VERSION, kind], rest) = bytes.split_first_chunk::<2>()? else {
            return None;
        };
        match (kind, fields(rest)?.as_slice()) {
            (1, &[hello, flight]) => Some(Self::Answered { hello, flight }),
            (2, &[hello]) => Some(Self::Sealed { hello }),
            (3, &[site, ticket, until]) => Some(Self::Ticket {
                site: std::str::from_utf8(site).ok()?.parse().ok()?,
                ticket,
                until: UnixTime(u64::from_be_bytes(until.try_into().ok()?)),
            }),
            (4, chain @ [_, ..]) => Some(Self::Chain(chain.to_vec())),
            _ => None,
        }
    }
}

/// The fields, which fill all bytes.
fn fields(mut rest: &[u8]) -> Option<Vec<&[u8]>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk::<LENGTH_LEN>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (field, behind) = behind.split_at_checked(length)?;
        if fields.len() == MAX_CERTIFICATES {
            return None;
        }
        fields.push(field);
        rest = behind;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Vec<Note<'static>> {
        vec![
            Note::Answered {
                hello: b"hello",
                flight: b"",
            },
            Note::Sealed { hello: b"hello" },
            Note::Ticket {
                site: "a.example".parse().expect("a site"),
                ticket: &[7; 200],
                until: UnixTime(1_790_000_000),
            },
            Note::Chain(vec![b"leaf", b"issuer"]),
        ]
    }

    #[test]
    fn what_was_written_is_read() {
        for note in notes() {
            let bytes = note.write().expect("it is short");
            assert_eq!(Note::read(&bytes), Some(note));
        }
    }

    #[test]
    fn anything_else_is_no_note() {
        for note in notes() {
            let bytes = note.write().expect("it is short");
            for end in 0..bytes.len() {
                // A chain may end with any certificate but the first.
                if !matches!(note, Note::Chain(_)) {
                    assert_eq!(Note::read(&bytes[..end]), None, "{note:?} cut at {end}");
                }
            }
            for (index, value) in [(0, 0), (0, 2), (1, 0), (1, 5), (2, 0xff)] {
                let mut changed = bytes.clone();
                changed[index] = value;
                assert_eq!(Note::read(&changed), None, "{note:?}");
            }
            assert_eq!(Note::read(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Note::Chain(vec![]).write(), Some(vec![1, 4]));
        assert_eq!(Note::read(&[1, 4]), None, "a chain has a leaf");
        let many = Note::Chain(vec![b"x"; MAX_CERTIFICATES + 1]).write();
        assert_eq!(Note::read(&many.expect("it is short")), None);
    }

    #[test]
    fn a_note_has_a_bound() {
        let hello = vec![1; Note::MAX_LEN];
        assert_eq!(Note::Sealed { hello: &hello }.write(), None);
        let mut bytes = vec![VERSION, 2];
        bytes.extend((Note::MAX_LEN as u32).to_be_bytes());
        bytes.extend(&hello);
        assert_eq!(Note::read(&bytes), None);
    }
}
