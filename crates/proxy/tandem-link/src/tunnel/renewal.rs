//! A question after the chain that follows one that is held, and its answer: a stream of their own.
//!
//! ```text
//! question:  open message, 0x20 added to its first byte   held(4)      end of stream
//! answer:    0 the site shows what is held
//!            1 that is not held here
//!            2 the site does not answer, or not in a way that can be read
//!            3 check(4) delta{1..=65536}                               end of stream
//!
//! held = the start of the chain's name; the delta rebuilds the contents of the new one's list, and
//! the number 0 means those of the old one's.
//! ```
//!
//! Is: the bytes. Is not: when a chain is asked after, or how it is found (`tandem-tunnel`).
//!
//! Invariants: each message has one encoding; a message is read whole, so its reader bounds it to
//! [`MAX_RENEWAL_QUERY`] or [`MAX_RENEWAL_ANSWER`] bytes.

use super::frame::{CHECK_LEN, MAX_LEN, Piece};
use super::open::{MAX_OPEN, Open, OpenDecoder};
use super::{Malformed, Target};

/// In the first byte of a question; with [`KINDS`], in no other first byte of a stream.
const RENEWAL: u8 = 0x20;
const KINDS: u8 = 0xe0;

/// Bytes of a hint.
const HINT: usize = 4;

/// Longest question.
pub const MAX_RENEWAL_QUERY: usize = MAX_OPEN + HINT;
/// Longest answer.
pub const MAX_RENEWAL_ANSWER: usize = 1 + CHECK_LEN + MAX_LEN;

const SAME: u8 = 0;
const NOT_HELD: u8 = 1;
const NOT_READ: u8 = 2;
const RENEWED: u8 = 3;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalQuery {
    /// The site, as a connection would go to it.
    pub target: Target,
    /// The start of the name of the chain that is held.
    pub held: [u8; HINT],
}

impl RenewalQuery {
    /// Whether a stream that begins with these bytes carries a question.
    pub fn begins(stream: &[u8]) -> bool {
        stream.first().is_some_and(|first| first & KINDS == RENEWAL)
    }

    /// Appends the question. `None`, and nothing written, for a target that may not cross.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        Open::to(self.target.clone()).write(out)?;
        if let Some(first) = out.get_mut(start) {
            *first |= RENEWAL;
        }
        out.extend_from_slice(&self.held);
        Some(())
    }

    /// The question that is the whole of `stream`.
    ///
    /// # Errors
    /// [`Malformed`] for what is none.
    pub fn parse(stream: &[u8]) -> Result<Self, Malformed> {
        let (&first, rest) = stream.split_first().ok_or(Malformed)?;
        if first & KINDS != RENEWAL {
            return Err(Malformed);
        }
        let opening = [&[first & !RENEWAL], rest].concat();
        let mut held = opening.as_slice();
        let open = OpenDecoder::default().next(&mut held)?.ok_or(Malformed)?;
        // Nobody's connection is opened.
        if open.client().is_some() {
            return Err(Malformed);
        }
        Ok(Self {
            target: open.target,
            held: held.try_into().map_err(|_| Malformed)?,
        })
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenewalAnswer {
    /// The site shows what is held.
    Same,
    /// What is held there is not held here, or was not shown by that site.
    NotHeld,
    /// The site does not answer, or not in a way that can be read.
    NotRead,
    /// The site shows another one.
    Renewed {
        /// Over what the delta rebuilds: [`super::check`].
        check: [u8; CHECK_LEN],
        /// In the encoding of `tandem-delta`.
        delta: Piece,
    },
}

impl RenewalAnswer {
    /// Appends the answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Same => out.push(SAME),
            Self::NotHeld => out.push(NOT_HELD),
            Self::NotRead => out.push(NOT_READ),
            Self::Renewed { check, delta } => {
                out.push(RENEWED);
                out.extend_from_slice(check);
                out.extend_from_slice(delta.bytes());
            }
        }
    }

    /// The answer that is the whole of `stream`.
    ///
    /// # Errors
    /// [`Malformed`] for what is none.
    pub fn parse(stream: &[u8]) -> Result<Self, Malformed> {
        match stream {
            [SAME] => Ok(Self::Same),
            [NOT_HELD] => Ok(Self::NotHeld),
            [NOT_READ] => Ok(Self::NotRead),
            [RENEWED, rest @ ..] => {
                let (check, delta) = rest.split_first_chunk().ok_or(Malformed)?;
                let delta = Piece::new(delta.to_vec()).ok_or(Malformed)?;
                Ok(Self::Renewed {
                    check: *check,
                    delta,
                })
            }
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::{DnsQuery, FlowOpen};

    fn queries() -> Vec<RenewalQuery> {
        ["192.0.2.1", "2001:db8::1", "www.example.org"]
            .into_iter()
            .flat_map(|host| [443, 8443].map(|port| Target::new(host, port).expect("a target")))
            .map(|target| RenewalQuery {
                target,
                held: [1, 2, 3, 4],
            })
            .collect()
    }

    #[test]
    fn a_question_is_read_back_and_taken_for_nothing_else() {
        for query in queries() {
            let mut bytes = Vec::new();
            query.write(&mut bytes).expect("it may cross");
            assert!(bytes.len() <= MAX_RENEWAL_QUERY);
            assert!(RenewalQuery::begins(&bytes));
            assert!(!DnsQuery::begins(&bytes) && !FlowOpen::begins(&bytes));
            assert_eq!(OpenDecoder::default().next(&mut &*bytes), Err(Malformed));
            assert_eq!(RenewalQuery::parse(&bytes), Ok(query));
            for cut in 0..bytes.len() {
                assert_eq!(RenewalQuery::parse(&bytes[..cut]), Err(Malformed));
            }
            bytes.push(0);
            assert_eq!(RenewalQuery::parse(&bytes), Err(Malformed));
        }
    }

    #[test]
    fn what_opens_a_connection_is_no_question_and_none_names_a_client() {
        let target = Target::new("www.example.org", 443).expect("a target");
        let open = Open::to(target).of_client("10.0.0.1:4000".parse().expect("an address"));
        let mut bytes = Vec::new();
        open.write(&mut bytes).expect("it may cross");
        bytes.extend([1, 2, 3, 4]);
        assert!(!RenewalQuery::begins(&bytes));
        assert_eq!(RenewalQuery::parse(&bytes), Err(Malformed));
        bytes[0] |= RENEWAL;
        assert_eq!(RenewalQuery::parse(&bytes), Err(Malformed));
    }

    #[test]
    fn each_answer_is_read_back_and_nothing_else_is_one() {
        let delta = Piece::new(vec![7; 300]).expect("a piece");
        let renewed = RenewalAnswer::Renewed {
            check: [9; CHECK_LEN],
            delta,
        };
        let all = [
            RenewalAnswer::Same,
            RenewalAnswer::NotHeld,
            RenewalAnswer::NotRead,
            renewed,
        ];
        for answer in all {
            let mut bytes = Vec::new();
            answer.write(&mut bytes);
            assert!(bytes.len() <= MAX_RENEWAL_ANSWER);
            assert_eq!(RenewalAnswer::parse(&bytes), Ok(answer));
        }
        for bad in [&[][..], &[4], &[0, 0], &[3], &[3, 1, 2, 3, 4]] {
            assert_eq!(RenewalAnswer::parse(bad), Err(Malformed), "{bad:?}");
        }
    }
}
