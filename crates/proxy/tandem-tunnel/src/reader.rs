//! What arrives on the stream: frames, and at last the bytes as they are.
//!
//! Is: which frame may follow which, and what waits behind a delta that was missed. Is not: the
//! rebuilding, nor what becomes of answers (`joined`).
//!
//! Invariants: the endpoint's bytes come out in the order in which they were sent; behind a missed
//! delta at most [`MAX_BEHIND`] bytes wait; a frame where none of our own writers puts it is
//! malformed.

use tandem_engine::Said;
use tandem_link::tunnel::{CHECK_LEN, Decoder, Frame, Malformed, Miss, Offer, Piece};

use crate::writer::MAX_BEHIND;

/// What the peer may still send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// Frames, deltas among them.
    Deltas,
    /// Frames without deltas.
    Plain,
    /// Answers alone; its endpoint's end waits behind a missed delta.
    EndWaits,
    /// Answers alone; its endpoint's end is to be passed on.
    EndDue,
    /// Answers alone.
    Ended,
    /// Its endpoint's bytes as they are.
    Raw,
    /// Nothing.
    Closed,
}

/// Something that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// The far endpoint's next bytes.
    Bytes(Vec<u8>),
    /// What rebuilds them.
    Coded(Placed, Coded),
    /// What became of our last delta: whether, and why, it was missed.
    Answer(Option<Miss>),
    /// What the far side says that it holds.
    Said,
    /// A key of the client's is offered.
    Offer(Offer),
    /// It is waited for.
    Waits,
    /// It is this one, or there is none.
    Key(Option<Piece>),
    /// It sends no delta any more.
    Plain,
    /// From here on there are no frames.
    Rest,
    /// The far endpoint has ended.
    End,
}

/// What rebuilds bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Coded {
    /// A delta of them.
    Delta {
        check: [u8; CHECK_LEN],
        delta: Piece,
    },
    /// The message of a sealed flight.
    Sealed(Piece),
}

/// Where in its direction a delta stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Before any of the endpoint's bytes.
    First,
    /// Behind some. No delta comes after it, so a direction has two at most.
    Later,
}

/// The inward direction.
#[derive(Debug)]
pub(crate) struct Reader {
    decoder: Decoder,
    heard: Heard,
    /// Where a delta would stand.
    place: Placed,
    /// What waits behind a delta that was missed.
    hole: Option<Vec<u8>>,
    /// What the far side says that it holds of the site.
    said: Option<Vec<[u8; 4]>>,
}

impl Reader {
    /// Nothing has arrived yet.
    pub(crate) fn new() -> Self {
        Self {
            decoder: Decoder::default(),
            heard: Heard::Deltas,
            place: Placed::First,
            hole: None,
            said: None,
        }
    }

    /// Takes the next thing off the front of `input`; `None` where more has to come.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Arrived>, Malformed> {
        loop {
            if self.heard == Heard::EndDue {
                self.heard = Heard::Ended;
                return Ok(Some(Arrived::End));
            }
            if input.is_empty() {
                return Ok(None);
            }
            match self.heard {
                Heard::Raw => return Ok(Some(Arrived::Bytes(std::mem::take(input).to_vec()))),
                Heard::Closed => return Err(Malformed),
                Heard::Deltas | Heard::Plain | Heard::EndWaits | Heard::EndDue | Heard::Ended => {}
            }
            let Some(frame) = self.decoder.next(input)? else {
                return Ok(None);
            };
            if let Some(arrived) = self.frame(frame)? {
                return Ok(Some(arrived));
            }
        }
    }

    /// One frame; `None` for one that waits, or that another call passes on.
    fn frame(&mut self, frame: Frame) -> Result<Option<Arrived>, Malformed> {
        let may_send = match self.heard {
            Heard::Deltas | Heard::Plain => true,
            Heard::EndWaits | Heard::EndDue | Heard::Ended | Heard::Raw | Heard::Closed => false,
        };
        let is_whole = self.hole.is_none();
        match frame {
            Frame::Bytes(piece) if may_send => self.bytes(piece.into_bytes()),
            Frame::Phrase(phrase) if may_send => self.bytes(phrase.bytes().to_vec()),
            Frame::Delta { check, delta } if self.heard == Heard::Deltas && is_whole => {
                Ok(Some(self.coded(Coded::Delta { check, delta })))
            }
            Frame::Sealed(message) if self.heard == Heard::Deltas && is_whole => {
                Ok(Some(self.coded(Coded::Sealed(message))))
            }
            Frame::Hints(hints) if self.heard == Heard::Deltas && self.said.is_none() => {
                self.said = Some(hints);
                Ok(Some(Arrived::Said))
            }
            Frame::Unknown if self.heard == Heard::Deltas && self.said.is_none() => {
                self.said = Some(Vec::new());
                Ok(Some(Arrived::Said))
            }
            Frame::Offer(offer) if self.heard == Heard::Deltas => Ok(Some(Arrived::Offer(offer))),
            Frame::Waits if self.heard == Heard::Deltas && is_whole => Ok(Some(Arrived::Waits)),
            Frame::Key(key) => Ok(Some(Arrived::Key(Some(key)))),
            Frame::NoKey => Ok(Some(Arrived::Key(None))),
            Frame::Plain if self.heard == Heard::Deltas => {
                self.heard = Heard::Plain;
                Ok(Some(Arrived::Plain))
            }
            Frame::Rest if may_send && is_whole => {
                self.heard = Heard::Raw;
                Ok(Some(Arrived::Rest))
            }
            Frame::End if may_send => {
                self.heard = if is_whole {
                    Heard::EndDue
                } else {
                    Heard::EndWaits
                };
                Ok(None)
            }
            Frame::Rebuilt => Ok(Some(Arrived::Answer(None))),
            Frame::Missed(miss) => Ok(Some(Arrived::Answer(Some(miss)))),
            Frame::Again(piece) => {
                let behind = self.hole.take().ok_or(Malformed)?;
                if self.heard == Heard::EndWaits {
                    self.heard = Heard::EndDue;
                }
                let mut bytes = piece.into_bytes();
                bytes.extend_from_slice(&behind);
                Ok(Some(Arrived::Bytes(bytes)))
            }
            Frame::Bytes(_)
            | Frame::Delta { .. }
            | Frame::Sealed(_)
            | Frame::Hints(_)
            | Frame::Unknown
            | Frame::Offer(_)
            | Frame::Waits
            | Frame::Phrase(_)
            | Frame::Plain
            | Frame::Rest
            | Frame::End => Err(Malformed),
        }
    }

    fn coded(&mut self, coded: Coded) -> Arrived {
        let place = std::mem::replace(&mut self.place, Placed::Later);
        Arrived::Coded(place, coded)
    }

    /// Bytes of the far endpoint.
    fn bytes(&mut self, bytes: Vec<u8>) -> Result<Option<Arrived>, Malformed> {
        self.place = Placed::Later;
        match &mut self.hole {
            None => Ok(Some(Arrived::Bytes(bytes))),
            Some(kept) if kept.len() + bytes.len() <= MAX_BEHIND => {
                kept.extend_from_slice(&bytes);
                Ok(None)
            }
            Some(_) => Err(Malformed),
        }
    }

    /// The last delta of this direction has come.
    pub(crate) fn plain(&mut self) {
        if self.heard == Heard::Deltas {
            self.heard = Heard::Plain;
        }
    }

    /// The last delta was not rebuilt: what follows waits for its original.
    pub(crate) fn miss(&mut self) {
        self.hole = Some(Vec::new());
    }

    /// The peer has ended the stream's direction. Whether its endpoint's end is news.
    pub(crate) fn close(&mut self) -> Result<Option<Arrived>, Malformed> {
        if self.hole.is_some() || self.decoder.is_inside_frame() {
            return Err(Malformed);
        }
        match std::mem::replace(&mut self.heard, Heard::Closed) {
            Heard::Deltas | Heard::Plain | Heard::EndDue | Heard::Raw => Ok(Some(Arrived::End)),
            Heard::Ended => Ok(None),
            Heard::EndWaits | Heard::Closed => Err(Malformed),
        }
    }

    /// What the far side holds of the site, as it says.
    pub(crate) fn said(&self) -> Said {
        self.said.clone().map_or(Said::Flight, Said::Hints)
    }

    /// Whether nothing but bytes can come.
    pub(crate) fn is_raw(&self) -> bool {
        self.heard == Heard::Raw
    }

    /// Whether nothing can come.
    pub(crate) fn is_closed(&self) -> bool {
        self.heard == Heard::Closed
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        self.decoder.kept() + self.hole.as_ref().map_or(0, Vec::capacity)
    }
}
