//! What the parties say to each other until the session is ready.
//!
//! ```text
//!  0      1        3
//!  | type | length | body |
//!
//!  end to end: between client and server, inside their own TLS session
//!   1  offer      version 1 | suites<1..4> | terms | shares of the client
//!   2  answer     suite 2 | terms | shares of the server
//!   3  refusal    nothing
//!   4  bindings   of the server, for each middlebox: digest of its own leg key 32, of the client's,
//!                 as the middlebox reported it, 32
//!   5  ready      proof 32
//!  21  alert      number 1
//!
//!  on a leg: between an endpoint and a middlebox, inside their own TLS session
//!  16  start      endpoint 1 | position 1 | sid 32 | cfg; the client's with the terms that it offers
//!  17  bind       digest of the other leg's key 32
//!  18  keys       of the server: transcript | shares that were granted: context 1, purpose 1,
//!                 share 32 each
//!  22  own keys   of the client: shares for the rights that it offers, the same
//!  19  confirm    proof 32
//!  20  ready      of the client: th 32
//!  21  alert      number 1
//!
//!  shares         for each context, in order: read 32, write 32
//!  transcript     digest of the offer 32;
//!                 digests of leg keys: client's and server's, 32 each, for each middlebox;
//!                 digests of shares: client's read and write, server's read and write, 32 each,
//!                 for each context; digest of the client's certificate, or zeros, 32
//! ```
//!
//! Is not: when a message may come, and what follows from it ([`crate::endpoint`],
//! [`crate::middlebox`]).
//!
//! Invariants: a message that was read, written again, is the same bytes; none is longer than
//! [`MAX_MESSAGE_LEN`]; secrets are not shown by `Debug`.

mod decoder;
mod share;

pub use decoder::Decoder;
pub use share::{Granted, Purpose, Shares};

use zeroize::Zeroizing;

use crate::config::{Configuration, MAX_CONTEXTS, Terms, VERSION};
use crate::error::{Alert, Breach, Error, Malformed};
use crate::party::{Endpoint, MAX_MIDDLEBOXES, Position};
use crate::read::Reader;
use crate::secret::{Digest, HASH_LEN, hash};
use crate::suite::Suite;

/// Length of a message's header in bytes.
pub(crate) const HEADER_LEN: usize = 3;

/// Longest message in bytes, header included: what a length of two bytes can say. The longest that
/// can be, keys of 255 contexts for one of 16 middleboxes, has 51,071.
pub const MAX_MESSAGE_LEN: usize = HEADER_LEN + u16::MAX as usize;

const _: () = assert!(
    (MAX_MIDDLEBOXES * 2 + MAX_CONTEXTS * 4 + 2) * HASH_LEN
        + MAX_CONTEXTS * 2 * (2 + HASH_LEN)
        + HEADER_LEN
        == 51_071
);

/// Most suites in an offer.
const MAX_SUITES: usize = 4;

/// The types of messages.
pub(crate) mod kind {
    pub(crate) const OFFER: u8 = 1;
    pub(crate) const ANSWER: u8 = 2;
    pub(crate) const REFUSAL: u8 = 3;
    pub(crate) const BINDINGS: u8 = 4;
    pub(crate) const READY: u8 = 5;
    pub(crate) const START: u8 = 16;
    pub(crate) const BIND: u8 = 17;
    pub(crate) const KEYS: u8 = 18;
    pub(crate) const CONFIRM: u8 = 19;
    pub(crate) const LEG_READY: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const OWN_KEYS: u8 = 22;
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The client's wish.
    Offer(Offer),
    /// The server's decision.
    Answer(Answer),
    /// The server wants no such session.
    Refusal,
    /// Digests of leg keys, end to end, of the server.
    Bindings(Vec<Binding>),
    /// An endpoint has this transcript; the client has verified everything.
    Ready(Digest),
    /// What a middlebox is to take part in.
    Start(Start),
    /// The digest of the other leg's key.
    Bind(Digest),
    /// What a middlebox derives its keys from, as the server says it.
    Keys(Keys),
    /// The client's part of the same, before it knows what the server decides.
    OwnKeys(OwnKeys),
    /// A middlebox has its keys.
    Confirm(Digest),
    /// The client has verified everything, said to a middlebox.
    LegReady(Digest),
    /// The sender ends the session.
    Alert(Alert),
}

/// The client's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Numbers of suites, the best first; a later release may offer some that are not known.
    pub suites: Vec<u16>,
    /// Parties, contexts and rights.
    pub terms: Terms,
    /// The client's shares.
    pub shares: Shares,
}

/// The server's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Suite and reduced terms.
    pub configuration: Configuration,
    /// The server's shares.
    pub shares: Shares,
}

/// Digests of the keys of one middlebox's two legs, as one endpoint knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Of the sender's own leg.
    pub own: Digest,
    /// Of the other endpoint's leg, as the middlebox reported it.
    pub reported: Digest,
}

/// What a middlebox is to take part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Who sends this.
    pub endpoint: Endpoint,
    /// The middlebox's place.
    pub position: Position,
    /// The session's identifier.
    pub sid: Digest,
    /// The configuration. The client, who does not know yet what the server decides, says what it
    /// offers, with the suite that it likes best.
    pub configuration: Configuration,
}

/// Digests of the keys of one middlebox's legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegDigests {
    /// Of the client's leg.
    pub client: Digest,
    /// Of the server's leg.
    pub server: Digest,
}

/// Digests of one context's shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareDigests {
    /// The client's, for reading and for writing.
    pub client: [Digest; 2],
    /// The server's, for reading and for writing.
    pub server: [Digest; 2],
}

/// The preimage of `th`, but for what a start has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    /// Of the offer, as the endpoint knows it: what was on offer cannot be cut down on the way.
    pub offer: Digest,
    /// For each middlebox, in order.
    pub legs: Vec<LegDigests>,
    /// For each context, in order.
    pub shares: Vec<ShareDigests>,
    /// SHA-256 of the client's leaf certificate; zeros where it has shown none.
    pub client_certificate: Digest,
}

/// What a middlebox derives its keys from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// What the endpoints have agreed on.
    pub transcript: Transcript,
    /// The sender's shares that were granted.
    pub granted: Vec<Granted>,
}

/// The client's part of what a middlebox derives its keys from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnKeys {
    /// The client's shares for what it offers. Without the server's they are no keys.
    pub granted: Vec<Granted>,
}

impl Message {
    /// Its type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Offer(_) => kind::OFFER,
            Self::Answer(_) => kind::ANSWER,
            Self::Refusal => kind::REFUSAL,
            Self::Bindings(_) => kind::BINDINGS,
            Self::Ready(_) => kind::READY,
            Self::Start(_) => kind::START,
            Self::Bind(_) => kind::BIND,
            Self::Keys(_) => kind::KEYS,
            Self::OwnKeys(_) => kind::OWN_KEYS,
            Self::Confirm(_) => kind::CONFIRM,
            Self::LegReady(_) => kind::LEG_READY,
            Self::Alert(_) => kind::ALERT,
        }
    }

    /// The error of this message where another was due.
    pub(crate) fn unexpected(&self) -> Error {
        Breach::Unexpected(self.kind()).into()
    }

    /// Appends the message.
    ///
    /// # Panics
    /// Lists are longer than a session's can be.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[self.kind(), 0, 0]);
        match self {
            Self::Offer(offer) => offer.write(out),
            Self::Answer(answer) => {
                out.extend_from_slice(&answer.configuration.suite.code().to_be_bytes());
                answer.configuration.terms.write(out);
                answer.shares.write(out);
            }
            Self::Refusal => {}
            Self::Bindings(bindings) => {
                for binding in bindings {
                    out.extend_from_slice(&binding.own);
                    out.extend_from_slice(&binding.reported);
                }
            }
            Self::Start(start) => {
                out.extend_from_slice(&[start.endpoint.code(), start.position.number()]);
                out.extend_from_slice(&start.sid);
                out.extend_from_slice(&start.configuration.to_bytes());
            }
            Self::Keys(keys) => {
                keys.transcript.write(out);
                keys.granted.iter().for_each(|granted| granted.write(out));
            }
            Self::OwnKeys(keys) => {
                keys.granted.iter().for_each(|granted| granted.write(out));
            }
            Self::Ready(proof)
            | Self::Bind(proof)
            | Self::Confirm(proof)
            | Self::LegReady(proof) => {
                out.extend_from_slice(proof);
            }
            Self::Alert(alert) => out.push(alert.code()),
        }
        let length = out.len() - start - HEADER_LEN;
        let length = u16::try_from(length).expect("the longest message has 51,071 bytes");
        out[start + 1..start + HEADER_LEN].copy_from_slice(&length.to_be_bytes());
    }

    /// The message alone. Where it has secrets, the caller overwrites it.
    ///
    /// # Panics
    /// Lists are longer than a session's can be.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // It does not grow, so no copy of a secret stays behind; and it is no longer than it has to
        // be, as overwriting it takes its time.
        let length = HEADER_LEN + self.body_len();
        let mut out = Vec::with_capacity(length);
        self.write(&mut out);
        debug_assert_eq!(out.len(), length, "{:#x}", self.kind());
        out
    }

    fn body_len(&self) -> usize {
        let granted = |granted: &[Granted]| granted.len() * (2 + HASH_LEN);
        match self {
            Self::Offer(offer) => offer.encoded_len(),
            Self::Answer(answer) => {
                2 + answer.configuration.terms.encoded_len() + answer.shares.encoded_len()
            }
            Self::Refusal => 0,
            Self::Bindings(bindings) => bindings.len() * 2 * HASH_LEN,
            Self::Start(start) => 2 + HASH_LEN + 3 + start.configuration.terms.encoded_len(),
            Self::Keys(keys) => keys.transcript.encoded_len() + granted(&keys.granted),
            Self::OwnKeys(keys) => granted(&keys.granted),
            Self::Ready(_) | Self::Bind(_) | Self::Confirm(_) | Self::LegReady(_) => HASH_LEN,
            Self::Alert(_) => 1,
        }
    }

    /// Reads one body. How many entries keys have is said by the session, which the reader does
    /// not know: `counts` are those of the configuration, where one has been agreed on.
    fn parse(kind: u8, body: &[u8], counts: Option<Counts>) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        let message = match kind {
            kind::OFFER => Self::Offer(Offer::read(&mut reader)?),
            kind::ANSWER => Self::Answer(Answer::read(&mut reader)?),
            kind::REFUSAL => Self::Refusal,
            kind::BINDINGS => Self::Bindings(bindings(&mut reader)?),
            kind::READY => Self::Ready(reader.array()?),
            kind::START => Self::Start(Start {
                endpoint: reader.endpoint()?,
                position: reader.position()?,
                sid: reader.array()?,
                configuration: Configuration::read(&mut reader)?,
            }),
            kind::BIND => Self::Bind(reader.array()?),
            kind::KEYS => {
                let counts = counts.ok_or(Breach::Unexpected(kind))?;
                Self::Keys(Keys::read(&mut reader, counts)?)
            }
            kind::OWN_KEYS => Self::OwnKeys(OwnKeys {
                granted: granted(&mut reader, MAX_CONTEXTS)?,
            }),
            kind::CONFIRM => Self::Confirm(reader.array()?),
            kind::LEG_READY => Self::LegReady(reader.array()?),
            kind::ALERT => Self::Alert(Alert::from_code(reader.u8()?)),
            other => return Err(Malformed::Type(other).into()),
        };
        reader.finish()?;
        Ok(message)
    }
}

/// How many middleboxes and contexts a configuration has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) middleboxes: usize,
    pub(crate) contexts: usize,
}

impl Counts {
    pub(crate) fn of(terms: &Terms) -> Self {
        Self {
            middleboxes: terms.middleboxes().len(),
            contexts: terms.contexts().len(),
        }
    }
}

fn bindings(reader: &mut Reader<'_>) -> Result<Vec<Binding>, Malformed> {
    let mut bindings = Vec::new();
    while !reader.is_empty() {
        if bindings.len() == MAX_MIDDLEBOXES {
            return Err(Malformed::TrailingBytes);
        }
        bindings.push(Binding {
            own: reader.array()?,
            reported: reader.array()?,
        });
    }
    Ok(bindings)
}

impl Offer {
    /// What the transcript says of it.
    pub(crate) fn digest(&self) -> Digest {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.encoded_len()));
        self.write(&mut bytes);
        hash(&[&bytes])
    }

    fn encoded_len(&self) -> usize {
        2 + 2 * self.suites.len() + self.terms.encoded_len() + self.shares.encoded_len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        let length = u8::try_from(self.suites.len()).expect("an offer has at most four suites");
        out.push(length);
        for suite in &self.suites {
            out.extend_from_slice(&suite.to_be_bytes());
        }
        self.terms.write(out);
        self.shares.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let version = reader.u8()?;
        if version != VERSION {
            return Err(Breach::Version(version).into());
        }
        let count = usize::from(reader.u8()?);
        if count == 0 || count > MAX_SUITES {
            return Err(Malformed::Suites(count).into());
        }
        let mut suites = Vec::new();
        for _ in 0..count {
            suites.push(reader.u16()?);
        }
        let terms = Terms::read(reader)?;
        let shares = Shares::read(reader, terms.contexts().len())?;
        Ok(Self {
            suites,
            terms,
            shares,
        })
    }
}

impl Answer {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let suite = reader.u16()?;
        let suite = Suite::from_code(suite).ok_or(Breach::Suite(suite))?;
        let terms = Terms::read(reader)?;
        let shares = Shares::read(reader, terms.contexts().len())?;
        Ok(Self {
            configuration: Configuration { suite, terms },
            shares,
        })
    }
}

impl Transcript {
    fn encoded_len(&self) -> usize {
        HASH_LEN * (2 + 2 * self.legs.len() + 4 * self.shares.len())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offer);
        for leg in &self.legs {
            out.extend_from_slice(&leg.client);
            out.extend_from_slice(&leg.server);
        }
        for shares in &self.shares {
            for digest in shares.client.iter().chain(&shares.server) {
                out.extend_from_slice(digest);
            }
        }
        out.extend_from_slice(&self.client_certificate);
    }

    fn read(reader: &mut Reader<'_>, counts: Counts) -> Result<Self, Malformed> {
        let offer = reader.array()?;
        let mut legs = Vec::new();
        for _ in 0..counts.middleboxes {
            legs.push(LegDigests {
                client: reader.array()?,
                server: reader.array()?,
            });
        }
        let mut shares = Vec::new();
        for _ in 0..counts.contexts {
            shares.push(ShareDigests {
                client: [reader.array()?, reader.array()?],
                server: [reader.array()?, reader.array()?],
            });
        }
        Ok(Self {
            offer,
            legs,
            shares,
            client_certificate: reader.array()?,
        })
    }
}

impl Keys {
    fn read(reader: &mut Reader<'_>, counts: Counts) -> Result<Self, Malformed> {
        Ok(Self {
            transcript: Transcript::read(reader, counts)?,
            granted: granted(reader, counts.contexts)?,
        })
    }
}

/// Shares to the end of a message: two for each context at most.
fn granted(reader: &mut Reader<'_>, contexts: usize) -> Result<Vec<Granted>, Malformed> {
    let mut granted = Vec::new();
    while !reader.is_empty() {
        if granted.len() == 2 * contexts {
            return Err(Malformed::TrailingBytes);
        }
        granted.push(Granted::read(reader)?);
    }
    Ok(granted)
}

#[cfg(test)]
mod tests;
