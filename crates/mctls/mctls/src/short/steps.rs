//! The steps that make a record's data again: bytes as they are, or chunks that are held.
//!
//! ```text
//!  add    0 | length 2 | bytes
//!  copy   1 | volume 1 | first 2 | count 2
//! ```
//!
//! Is not: what a volume's number stands for ([`super::Hop`]).
//!
//! Invariant: a step that was read, written again, is the same bytes.

use crate::error::Malformed;
use crate::read::Reader;

const ADD: u8 = 0;
const COPY: u8 = 1;

/// What an addition is longer than its bytes.
pub(super) const ADD_LEN: usize = 3;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// These bytes, one at least.
    Add(&'a [u8]),
    /// Chunks that are held.
    Copy(Copy),
}

/// A run of chunks of a volume, one at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) volume: u8,
    pub(super) first: u16,
    pub(super) count: u16,
}

impl Copy {
    /// The volume and the chunk that would go on with it.
    pub(super) const fn next(self) -> (u8, u16) {
        (self.volume, self.first.wrapping_add(self.count))
    }
}

impl Step<'_> {
    /// Appends the step.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Add(bytes) => {
                let length = u16::try_from(bytes.len()).expect("a record is shorter than 2^16");
                out.push(ADD);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Copy(copy) => {
                out.extend_from_slice(&[COPY, copy.volume]);
                out.extend_from_slice(&copy.first.to_be_bytes());
                out.extend_from_slice(&copy.count.to_be_bytes());
            }
        }
    }
}

/// Reads steps one after the other.
pub(super) struct Steps<'a>(Reader<'a>);

impl<'a> Steps<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(Reader::new(bytes))
    }

    fn read(&mut self) -> Result<Step<'a>, Malformed> {
        let kind = self.0.u8()?;
        match kind {
            ADD => {
                let length = self.0.u16()?;
                match self.0.take(length.into())? {
                    [] => Err(Malformed::Step(kind)),
                    bytes => Ok(Step::Add(bytes)),
                }
            }
            COPY => {
                let volume = self.0.u8()?;
                let first = self.0.u16()?;
                match self.0.u16()? {
                    0 => Err(Malformed::Step(kind)),
                    count => Ok(Step::Copy(Copy {
                        volume,
                        first,
                        count,
                    })),
                }
            }
            other => Err(Malformed::Step(other)),
        }
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_were_written_and_empty_ones_refused() {
        let steps = [
            Step::Add(b"new"),
            Step::Copy(Copy {
                volume: 64,
                first: 7,
                count: 3,
            }),
        ];
        let mut bytes = Vec::new();
        steps.iter().for_each(|step| step.write(&mut bytes));
        let read: Result<Vec<_>, _> = Steps::new(&bytes).collect();
        assert_eq!(read.as_deref(), Ok(&steps[..]));
        let refused = |bytes: &[u8]| Steps::new(bytes).find_map(Result::err);
        assert_eq!(refused(&[2]), Some(Malformed::Step(2)));
        assert_eq!(refused(&[0, 0, 0]), Some(Malformed::Step(0)));
        assert_eq!(refused(&[1, 0, 0, 0, 0, 0]), Some(Malformed::Step(1)));
        assert_eq!(refused(&[0, 0, 9, 1]), Some(Malformed::Truncated));
    }
}
