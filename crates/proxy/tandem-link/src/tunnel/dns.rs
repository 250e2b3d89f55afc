//! A DNS query and its answer: a stream of their own, without what the other side can add itself.
//!
//! ```text
//! query:   wishes(1)  type(varint)  name{0..=254}                                   end of stream
//! answer:  state(1)  answers(varint) (authorities(varint) additionals(varint))?  records   end
//!
//! wishes = 0x80 | 1 recursion (RD) | 2 no checks (CD) | 4 signatures (DO)
//! state  = 0x80 AA | 0x40 RA | 0x20 AD | 0x10 answers alone, no other count follows | RCODE
//! ```
//!
//! A query has no identifier, class (it is IN), length or options, and its name no end; an answer
//! has neither an identifier nor the question. The records are those of the resolver's message,
//! byte for byte: their names may point into a header and a question before them, which the reader
//! puts there again. The first byte tells a query's stream from one that begins with an
//! [`Open`](super::Open).
//!
//! Is: the bytes. Is not: names and records (`tandem-tunnel`), or who is asked.
//!
//! Invariants: each message has one encoding; a message is read whole, so its reader bounds it to
//! [`MAX_QUERY`] or [`MAX_ANSWER`] bytes.

use tandem_delta::varint;

use super::Malformed;

/// In the first byte of a query, and in no `Open`'s.
const QUERY: u8 = 0x80;

/// Longest name in a message, its lengths included (RFC 1035, section 2.3.4), without its end.
const MAX_NAME: usize = 254;
/// Longest query: a type has at most three bytes.
pub const MAX_QUERY: usize = 1 + 3 + MAX_NAME;
/// Longest answer: the records of a message that TCP can carry (RFC 1035, section 4.2.2).
pub const MAX_ANSWER: usize = 1 + 3 * 3 + 65_535;

const RECURSION: u8 = 1;
const NO_CHECKS: u8 = 2;
const SIGNATURES: u8 = 4;

const AUTHORITATIVE: u8 = 0x80;
const RECURSION_AVAILABLE: u8 = 0x40;
const AUTHENTIC: u8 = 0x20;
const ALONE: u8 = 0x10;
const CODE: u8 = 0x0f;

/// What a client wants beside the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsWishes {
    /// RD: the resolver asks others.
    pub recursion: bool,
    /// CD: the resolver leaves checking signatures to the client.
    pub no_checks: bool,
    /// DO: signatures come along.
    pub signatures: bool,
}

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuery {
    /// What the client wants.
    pub wishes: DnsWishes,
    /// The type that is asked for.
    pub kind: u16,
    /// The name as in a message, uncompressed, in the case of the client, without the zero at its
    /// end: at most 254 bytes.
    pub name: Vec<u8>,
}

impl DnsQuery {
    /// Whether a stream that begins with these bytes carries a query.
    pub fn begins(stream: &[u8]) -> bool {
        stream.first().is_some_and(|first| first & QUERY != 0)
    }

    /// Appends the query.
    pub fn write(&self, out: &mut Vec<u8>) {
        let wishes = [
            (self.wishes.recursion, RECURSION),
            (self.wishes.no_checks, NO_CHECKS),
            (self.wishes.signatures, SIGNATURES),
        ];
        out.push(QUERY | bits(wishes));
        varint::write(out, self.kind.into());
        out.extend_from_slice(&self.name);
    }

    /// The query that is the whole of `stream`.
    ///
    /// # Errors
    /// [`Malformed`] for what is none.
    pub fn parse(stream: &[u8]) -> Result<Self, Malformed> {
        let (&wishes, mut name) = stream.split_first().ok_or(Malformed)?;
        if wishes & !(RECURSION | NO_CHECKS | SIGNATURES) != QUERY {
            return Err(Malformed);
        }
        let kind = number(&mut name)?;
        if name.len() > MAX_NAME {
            return Err(Malformed);
        }
        Ok(Self {
            wishes: DnsWishes {
                recursion: wishes & RECURSION != 0,
                no_checks: wishes & NO_CHECKS != 0,
                signatures: wishes & SIGNATURES != 0,
            },
            kind,
            name: name.to_vec(),
        })
    }
}

/// How a resolver answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DnsState {
    /// AA: the resolver is itself responsible for the name.
    pub authoritative: bool,
    /// RA: the resolver asks others.
    pub recursion_available: bool,
    /// AD: the resolver has checked the signatures.
    pub authentic: bool,
    /// RCODE, 0 to 15; what is above is not written.
    pub code: u8,
}

/// How many records each section has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct DnsCounts {
    /// Of the answer section.
    pub answers: u16,
    /// Of the authority section.
    pub authorities: u16,
    /// Of the additional section, without EDNS.
    pub additionals: u16,
}

impl DnsCounts {
    /// Whether there is nothing but answers.
    fn is_alone(self) -> bool {
        self.authorities == 0 && self.additionals == 0
    }
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsAnswer {
    /// How the resolver answered.
    pub state: DnsState,
    /// How many records there are.
    pub counts: DnsCounts,
    /// The records, as in the resolver's message.
    pub records: Vec<u8>,
}

impl DnsAnswer {
    /// Appends the answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        let state = [
            (self.state.authoritative, AUTHORITATIVE),
            (self.state.recursion_available, RECURSION_AVAILABLE),
            (self.state.authentic, AUTHENTIC),
        ];
        let alone = if self.counts.is_alone() { ALONE } else { 0 };
        out.push(bits(state) | alone | self.state.code & CODE);
        varint::write(out, self.counts.answers.into());
        if alone == 0 {
            varint::write(out, self.counts.authorities.into());
            varint::write(out, self.counts.additionals.into());
        }
        out.extend_from_slice(&self.records);
    }

    /// The answer that is the whole of `stream`.
    ///
    /// # Errors
    /// [`Malformed`] for what is none.
    pub fn parse(stream: &[u8]) -> Result<Self, Malformed> {
        let (&state, mut rest) = stream.split_first().ok_or(Malformed)?;
        let mut counts = DnsCounts {
            answers: number(&mut rest)?,
            ..DnsCounts::default()
        };
        if state & ALONE == 0 {
            counts.authorities = number(&mut rest)?;
            counts.additionals = number(&mut rest)?;
            if counts.is_alone() {
                return Err(Malformed);
            }
        }
        Ok(Self {
            state: DnsState {
                authoritative: state & AUTHORITATIVE != 0,
                recursion_available: state & RECURSION_AVAILABLE != 0,
                authentic: state & AUTHENTIC != 0,
                code: state & CODE,
            },
            counts,
            records: rest.to_vec(),
        })
    }
}

fn bits(flags: [(bool, u8); 3]) -> u8 {
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |byte, (_, bit)| byte | bit)
}

fn number(input: &mut &[u8]) -> Result<u16, Malformed> {
    let number = varint::read(input).ok_or(Malformed)?;
    u16::try_from(number).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_have_the_bytes_of_their_layout() {
        let query = DnsQuery {
            wishes: DnsWishes {
                recursion: true,
                no_checks: false,
                signatures: true,
            },
            kind: 257,
            name: b"\x01a".to_vec(),
        };
        let mut out = Vec::new();
        query.write(&mut out);
        assert_eq!(out, b"\x85\x81\x02\x01a");
        assert!(DnsQuery::begins(&out) && !DnsQuery::begins(b"\x06") && !DnsQuery::begins(b""));
        let answer = DnsAnswer {
            state: DnsState {
                authoritative: true,
                recursion_available: true,
                authentic: true,
                code: 3,
            },
            counts: DnsCounts {
                answers: 1,
                authorities: 300,
                additionals: 0,
            },
            records: b"rest".to_vec(),
        };
        let mut out = Vec::new();
        answer.write(&mut out);
        assert_eq!(out, b"\xe3\x01\xac\x02\0rest");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = [&[0x80, 1][..], &[1; 255]].concat();
        for bad in [
            &b""[..],
            b"\x81",
            // An unknown wish; a type of more than 16 bits; not the shortest form; no query.
            b"\x88\x01",
            b"\x81\x80\x80\x04",
            b"\x81\x81\x00",
            b"\x01\x01",
            &long,
        ] {
            assert_eq!(DnsQuery::parse(bad), Err(Malformed), "{bad:?}");
        }
        for bad in [
            &b""[..],
            b"\0",
            b"\0\0\0",
            b"\0\x01\0\0",
            b"\0\x80\x80\x04\0\0",
        ] {
            assert_eq!(DnsAnswer::parse(bad), Err(Malformed), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let query = [&[QUERY][..], &bytes].concat();
            if let Ok(read) = DnsQuery::parse(&query) {
                let mut out = Vec::new();
                read.write(&mut out);
                prop_assert_eq!(out, query);
            }
            if let Ok(read) = DnsAnswer::parse(&bytes) {
                let mut out = Vec::new();
                read.write(&mut out);
                prop_assert_eq!(out, bytes);
            }
        }
    }
}
