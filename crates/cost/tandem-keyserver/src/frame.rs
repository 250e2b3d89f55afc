//! Requests and answers on the channel, each a length of two bytes and so many bytes.
//!
//! ```text
//! the key server begins: length 2 = 0, once: this client is admitted
//! request: length 2 | id 4 | key 32 | scheme 2 | version 1 | rest
//!          version 3: the transcript's hash, 32 or 48 bytes
//!          version 2: random values 64, ServerECDHParams 36 to 137
//! answer:  length 2 | id 4 | outcome 1 | rest
//!          outcome 0: a signature, 1 to 1,024 bytes; 1 to 4: refused, nothing follows
//! ```
//!
//! Is not: what the policy says of a request. Answers may come in any order.
//!
//! Invariants: what is read and written again is the same bytes; a length beyond the bound ends the
//! channel before anything is kept.

use crate::content::{Content, Params};
use crate::key::KeyId;
use crate::refusal::Refusal;
use crate::scheme::Scheme;

/// A request's bytes without its length, at most.
pub const MAX_REQUEST_LEN: usize = REQUEST_HEAD + 64 + Params::MAX_LEN;
/// An answer's bytes without its length, at most: the signature of an RSA key of 8,192 bits.
pub const MAX_ANSWER_LEN: usize = ANSWER_HEAD + MAX_SIGNATURE_LEN;

/// What a key server says first, to a client that it admits: TLS 1.3 has told the client nothing of
/// that yet when its own handshake is done.
pub const GREETING: [u8; 2] = [0, 0];

const REQUEST_HEAD: usize = 4 + KeyId::LEN + 2 + 1;
const ANSWER_HEAD: usize = 4 + 1;
const MAX_SIGNATURE_LEN: usize = 1_024;

/// By which a client knows what is answered; its own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// A signature that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back with the answer.
    pub id: RequestId,
    /// By which key.
    pub key: KeyId,
    /// How.
    pub scheme: Scheme,
    /// Of what.
    pub content: Content,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// That of the request.
    pub id: RequestId,
    /// The signature, or why there is none.
    pub outcome: Outcome,
}

/// A signature, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In the form that TLS has it.
    Signed(Vec<u8>),
    /// Why not.
    Refused(Refusal),
}

/// What the other end may not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Longer than any frame of its kind.
    TooLong,
    /// Of none of the forms.
    Malformed,
    /// A scheme of another number.
    Scheme,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a frame is too long",
            Self::Malformed => "a frame has none of the forms of this protocol",
            Self::Scheme => "a frame names an unknown signature scheme",
        })
    }
}

impl std::error::Error for FrameError {}

impl Request {
    /// Its frame.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(MAX_REQUEST_LEN);
        body.extend(self.id.0.to_be_bytes());
        body.extend(self.key.bytes());
        body.extend(self.scheme.code().to_be_bytes());
        match &self.content {
            Content::Transcript32(hash) => {
                body.push(3);
                body.extend(hash);
            }
            Content::Transcript48(hash) => {
                body.push(3);
                body.extend(hash);
            }
            Content::KeyExchange { randoms, params } => {
                body.push(2);
                body.extend(randoms);
                body.extend(params.as_bytes());
            }
        }
        framed(&body)
    }

    /// That of a frame, without its length.
    ///
    /// # Errors
    /// It is none.
    pub fn read(body: &[u8]) -> Result<Self, FrameError> {
        let (id, rest) = id(body)?;
        let (key, rest) = rest.split_first_chunk().ok_or(FrameError::Malformed)?;
        let (scheme, rest) = rest.split_first_chunk().ok_or(FrameError::Malformed)?;
        let scheme = Scheme::of_code(u16::from_be_bytes(*scheme)).ok_or(FrameError::Scheme)?;
        let content = match rest {
            [3, hash @ ..] if hash.len() == 32 => hash.try_into().ok().map(Content::Transcript32),
            [3, hash @ ..] => hash.try_into().ok().map(Content::Transcript48),
            [2, exchange @ ..] => key_exchange(exchange),
            _ => None,
        };
        Ok(Self {
            id,
            key: KeyId::from_bytes(*key),
            scheme,
            content: content.ok_or(FrameError::Malformed)?,
        })
    }
}

fn id(body: &[u8]) -> Result<(RequestId, &[u8]), FrameError> {
    let (id, rest) = body.split_first_chunk().ok_or(FrameError::Malformed)?;
    Ok((RequestId(u32::from_be_bytes(*id)), rest))
}

fn key_exchange(bytes: &[u8]) -> Option<Content> {
    let (randoms, params) = bytes.split_first_chunk()?;
    Some(Content::KeyExchange {
        randoms: *randoms,
        params: Params::read(params)?,
    })
}

impl Answer {
    /// Its frame. A signature that is longer than any key's is refused as failed.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        let mut body = self.id.0.to_be_bytes().to_vec();
        match &self.outcome {
            Outcome::Signed(signature) if (1..=MAX_SIGNATURE_LEN).contains(&signature.len()) => {
                body.push(0);
                body.extend(signature);
            }
            Outcome::Signed(_) => body.push(Refusal::Failed.code()),
            Outcome::Refused(refusal) => body.push(refusal.code()),
        }
        framed(&body)
    }

    /// That of a frame, without its length.
    ///
    /// # Errors
    /// It is none.
    pub fn read(body: &[u8]) -> Result<Self, FrameError> {
        let (id, rest) = id(body)?;
        let outcome = match rest {
            [0, signature @ ..] if (1..=MAX_SIGNATURE_LEN).contains(&signature.len()) => {
                Some(Outcome::Signed(signature.to_vec()))
            }
            [code] => Refusal::of_code(*code).map(Outcome::Refused),
            _ => None,
        };
        Ok(Self {
            id,
            outcome: outcome.ok_or(FrameError::Malformed)?,
        })
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    // A body is shorter than its bound, which two bytes hold.
    let len = u16::try_from(body.len()).unwrap_or(u16::MAX);
    [&len.to_be_bytes()[..], body].concat()
}

/// Bytes as they come, cut into frames; holds one frame at most beside what was just given.
#[derive(Debug)]
pub struct Frames {
    held: Vec<u8>,
    max: usize,
}

impl Frames {
    /// Of requests.
    #[must_use]
    pub fn of_requests() -> Self {
        Self::new(MAX_REQUEST_LEN)
    }

    /// Of answers.
    #[must_use]
    pub fn of_answers() -> Self {
        Self::new(MAX_ANSWER_LEN)
    }

    fn new(max: usize) -> Self {
        Self {
            held: Vec::new(),
            max,
        }
    }

    /// More bytes have come. Take all frames before the next ones.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next frame's body, if it is whole.
    ///
    /// # Errors
    /// It is too long.
    pub fn next_body(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some((len, rest)) = self.held.split_first_chunk() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes(*len));
        if len > self.max {
            return Err(FrameError::TooLong);
        }
        let Some(body) = rest.get(..len).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        self.held.drain(..2 + len);
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(content: Content) -> Request {
        Request {
            id: RequestId(7),
            key: KeyId::from_bytes([5; 32]),
            scheme: Scheme::EcdsaP256Sha256,
            content,
        }
    }

    #[test]
    fn requests_and_answers_come_back_whole_in_any_pieces() {
        let params = [&[3, 0, 29, 32][..], &[8; 32]].concat();
        let contents = [
            Content::Transcript32([1; 32]),
            Content::Transcript48([2; 48]),
            Content::KeyExchange {
                randoms: [3; 64],
                params: Params::read(&params).expect("X25519"),
            },
        ];
        let sent = contents.map(request);
        let bytes: Vec<u8> = sent.iter().flat_map(Request::to_frame).collect();
        for piece in [1, 2, 50, bytes.len()] {
            let mut frames = Frames::of_requests();
            let mut came = Vec::new();
            for bytes in bytes.chunks(piece) {
                frames.push(bytes);
                while let Some(body) = frames.next_body().expect("short enough") {
                    came.push(Request::read(&body).expect("a request"));
                }
            }
            assert_eq!(came, sent);
        }
        let outcomes = Refusal::ALL.map(Outcome::Refused).into_iter();
        for outcome in outcomes.chain([Outcome::Signed(vec![1; 512])]) {
            let id = RequestId(9);
            let answer = Answer { id, outcome };
            assert_eq!(Answer::read(&answer.to_frame()[2..]), Ok(answer));
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_length_alone() {
        let mut frames = Frames::of_requests();
        frames.push(&[0xff, 0xff]);
        assert_eq!(frames.next_body(), Err(FrameError::TooLong));
    }

    #[test]
    fn what_has_another_form_is_no_request() {
        let good = request(Content::Transcript32([1; 32])).to_frame();
        let good = &good[2..];
        assert!(Request::read(good).is_ok());
        for len in 0..good.len() {
            assert!(Request::read(&good[..len]).is_err(), "{len}");
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = good.to_vec();
            bytes[at] = to;
            Request::read(&bytes)
        };
        assert_eq!(changed(36, 0xff), Err(FrameError::Scheme));
        for version in [0, 1, 2, 4] {
            assert_eq!(changed(38, version), Err(FrameError::Malformed));
        }
    }
}
