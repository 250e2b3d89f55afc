//! What leaves on the stream: frames, and at last the bytes as they are.
//!
//! Is: the order of frames, what is kept until the peer has answered, when a direction needs no
//! frames any more, and its end. Is not: what is held before it is written, or what a delta is made
//! of (`joined`).
//!
//! Why the answers have these rules: an answer can travel only as long as its direction has frames.
//! So a direction goes over to bytes as they are, or ends, only once the peer has promised to send
//! no delta any more, and each one that came was answered.
//!
//! Invariants: at most one delta has no answer; at most [`MAX_BEHIND`] bytes follow it before it
//! has; nothing follows the end.

use std::collections::VecDeque;

use tandem_link::tunnel::{Frame, MAX_LEN, Miss, Offer, Phrase, Piece, check};

use crate::event::Event;
use crate::output::Output;

/// Most bytes that follow a delta without an answer: what the far side keeps where it was missed.
pub(crate) const MAX_BEHIND: usize = MAX_LEN;

/// An answer waits for bytes to travel with, until so many have come behind the delta. Less than
/// [`MAX_BEHIND`], so that a writer that waits for an answer gets one.
const ANSWER_AFTER: usize = MAX_BEHIND / 4;

/// In which form handshakes cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshakes {
    /// What repeats in them crosses as deltas.
    Shortened,
    /// As they are, unread: what the tunnel brings without deltas, to be measured.
    Whole,
}

/// What a delta stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Hello,
    ClientFlight,
    ServerFlight,
}

/// Bytes as a delta that takes less than they would.
#[derive(Debug)]
pub(crate) struct Shorter {
    frame: Frame,
    original: Piece,
    saved: usize,
}

impl Shorter {
    /// `original` as this delta; `None` where that is not shorter.
    pub(crate) fn new(delta: Vec<u8>, original: &[u8]) -> Option<Self> {
        let frame = Frame::Delta {
            check: check(original),
            delta: Piece::new(delta)?,
        };
        Self::of(frame, original, 0)
    }

    /// `original`, a sealed flight, as this message; `None` where that is not shorter. So many
    /// bytes more are spent to have it held at both sides the next time.
    pub(crate) fn sealed(message: Vec<u8>, original: &[u8], spent: usize) -> Option<Self> {
        Self::of(Frame::Sealed(Piece::new(message)?), original, spent)
    }

    fn of(frame: Frame, original: &[u8], spent: usize) -> Option<Self> {
        let original = Piece::new(original.to_vec())?;
        let whole = Frame::Bytes(original.clone()).encoded_len();
        let is_worth = frame.encoded_len() < whole + spent;
        is_worth.then(|| Self {
            saved: whole.saturating_sub(frame.encoded_len()),
            frame,
            original,
        })
    }
}

/// A delta without an answer.
#[derive(Debug)]
struct Outstanding {
    what: What,
    original: Piece,
    /// Bytes that have followed it.
    behind: usize,
}

/// In which form bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In frames; a delta may follow.
    Deltas,
    /// In frames; no delta follows, and the peer is still to be told.
    Decided,
    /// In frames; no delta follows, and the peer knows.
    Plain,
    /// As they are.
    Raw,
}

/// Whether the peer may still send a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    MaySendDelta,
    SendsNone,
}

/// What the peer is owed for its last delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Nothing,
    /// That it was rebuilt; so many bytes have followed it.
    Rebuilt {
        behind: usize,
    },
}

/// The end of this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    ToCome,
    /// The endpoint has ended.
    Wanted,
    /// The peer was told, and answers may still follow.
    Told,
    /// The stream's direction ends with what is handed over next.
    Closing,
    /// It has ended.
    Closed,
}

/// The outward direction.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The first message, until it is written; the server side has none.
    opening: Vec<u8>,
    handshakes: Handshakes,
    form: Form,
    peer: Peer,
    owed: Owed,
    outstanding: Option<Outstanding>,
    /// Bytes that may not go yet.
    waiting: VecDeque<u8>,
    end: End,
    /// What goes out after this input.
    message: Vec<u8>,
    events: Vec<Event>,
}

impl Writer {
    /// Nothing was written yet; `opening` goes first.
    pub(crate) fn new(opening: Vec<u8>) -> Self {
        Self {
            opening,
            handshakes: Handshakes::Shortened,
            form: Form::Deltas,
            peer: Peer::MaySendDelta,
            owed: Owed::Nothing,
            outstanding: None,
            waiting: VecDeque::new(),
            end: End::ToCome,
            message: Vec::new(),
            events: Vec::new(),
        }
    }

    /// What goes in front of anything else: the first message, and what is owed.
    fn front(&mut self) {
        if !self.opening.is_empty() {
            self.message.append(&mut self.opening);
            self.events.push(Event::RelayOpened);
        }
        if let Owed::Rebuilt { .. } = std::mem::replace(&mut self.owed, Owed::Nothing) {
            Frame::Rebuilt.write(&mut self.message);
        }
    }

    /// Writes the first message, if that was not done yet.
    pub(crate) fn open(&mut self) {
        if !self.opening.is_empty() {
            self.front();
        }
    }

    /// Writes what is held for the site.
    pub(crate) fn hints(&mut self, hints: Vec<[u8; 4]>) {
        if !hints.is_empty() && self.form == Form::Deltas {
            self.front();
            Frame::Hints(hints).write(&mut self.message);
        }
    }

    /// Writes that nothing is held for the site, not even what answered the hello that the next
    /// delta names first.
    pub(crate) fn unknown(&mut self) {
        self.front();
        Frame::Unknown.write(&mut self.message);
    }

    /// Writes that the client may hand in the key of the server's flight.
    pub(crate) fn offer(&mut self, offer: Offer) {
        self.front();
        Frame::Offer(offer).write(&mut self.message);
    }

    /// Writes that the flight is held for that key.
    pub(crate) fn waits(&mut self) {
        self.front();
        Frame::Waits.write(&mut self.message);
    }

    /// Writes that key.
    pub(crate) fn key(&mut self, key: Piece) {
        self.front();
        Frame::Key(key).write(&mut self.message);
    }

    /// Writes that there is none.
    pub(crate) fn no_key(&mut self) {
        self.front();
        Frame::NoKey.write(&mut self.message);
    }

    /// Whether a delta may be written now.
    pub(crate) fn may_write_delta(&self) -> bool {
        self.form == Form::Deltas
            && self.outstanding.is_none()
            && self.waiting.is_empty()
            && self.end == End::ToCome
    }

    /// Writes a delta. It answers the peer's last one, too; one that is not a hello's is the last
    /// of its direction.
    pub(crate) fn delta(&mut self, what: What, shorter: Shorter) {
        self.owed = Owed::Nothing;
        self.front();
        shorter.frame.write(&mut self.message);
        self.events.push(match what {
            What::Hello => Event::HelloWritten,
            What::ClientFlight | What::ServerFlight => {
                self.form = Form::Plain;
                Event::FlightWritten
            }
        });
        self.events.push(Event::BytesElided(shorter.saved as u64));
        self.outstanding = Some(Outstanding {
            what,
            original: shorter.original,
            behind: 0,
        });
    }

    /// The peer goes on, which says that it has rebuilt what was without an answer.
    pub(crate) fn goes_on(&mut self) -> Option<What> {
        self.outstanding.as_ref()?;
        self.answered(None)
    }

    /// Whether the peer has yet to say what became of this.
    pub(crate) fn awaits_answer(&self, what: What) -> bool {
        self.outstanding.as_ref().is_some_and(|it| it.what == what)
    }

    /// No delta is written any more.
    pub(crate) fn writes_no_delta(&mut self) {
        if self.form == Form::Deltas {
            self.form = Form::Decided;
        }
    }

    /// Every byte goes as it is, whatever it is.
    pub(crate) fn writes_whole_handshakes(&mut self) {
        self.handshakes = Handshakes::Whole;
        self.writes_no_delta();
    }

    /// Where the first phrase is in what waits.
    fn phrase(&mut self) -> Option<(usize, Phrase)> {
        match self.handshakes {
            Handshakes::Shortened => Phrase::first_in(self.waiting.make_contiguous()),
            Handshakes::Whole => None,
        }
    }

    /// Tells the peer so, with what is written now.
    fn say_plain(&mut self) {
        if self.form == Form::Decided {
            self.form = Form::Plain;
            self.front();
            Frame::Plain.write(&mut self.message);
        }
    }

    /// Writes bytes as they are, or keeps them until they may go.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
        self.advance();
    }

    /// The endpoint has ended.
    pub(crate) fn end(&mut self) {
        if self.end == End::ToCome {
            self.end = End::Wanted;
            self.writes_no_delta();
            self.advance();
        }
    }

    /// Whether the endpoint has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.end != End::ToCome
    }

    /// Whether nothing has to be answered any more, in either direction.
    fn needs_no_frames(&self) -> bool {
        self.form != Form::Deltas && self.outstanding.is_none() && self.peer == Peer::SendsNone
    }

    /// Writes what may go.
    fn advance(&mut self) {
        while !self.waiting.is_empty() && self.form != Form::Raw && !self.needs_no_frames() {
            let behind = self.outstanding.as_ref().map(|delta| delta.behind);
            let room = behind.map_or(MAX_LEN, |behind| MAX_BEHIND - behind);
            let Some((frame, length)) = self.next_frame(room) else {
                return;
            };
            self.say_plain();
            self.front();
            frame.write(&mut self.message);
            if let Some(delta) = &mut self.outstanding {
                delta.behind += length;
            }
        }
        if !self.waiting.is_empty() {
            self.advance_raw();
        }
        // A buffer that was long is not kept.
        self.waiting = VecDeque::new();
        self.advance_end();
    }

    /// Writes what waits, and from here on bytes as they are.
    fn advance_raw(&mut self) {
        if self.form != Form::Raw {
            // That is said by going over, and that no delta comes any more.
            self.owed = Owed::Nothing;
            self.front();
            while self.phrase().is_some()
                && let Some((frame, _)) = self.next_frame(MAX_LEN)
            {
                frame.write(&mut self.message);
            }
            Frame::Rest.write(&mut self.message);
            self.form = Form::Raw;
        }
        self.message
            .extend_from_slice(self.waiting.make_contiguous());
        self.waiting.clear();
    }

    /// The next of what waits as a frame, and how many bytes it stands for, at most `room`. `None`
    /// where nothing has room.
    fn next_frame(&mut self, room: usize) -> Option<(Frame, usize)> {
        let phrase = self.phrase();
        let waiting = self.waiting.make_contiguous();
        let (frame, length, event) = match phrase {
            Some((0, phrase)) if phrase.bytes().len() > room => return None,
            Some((0, phrase)) => {
                let (frame, length) = (Frame::Phrase(phrase), phrase.bytes().len());
                let saved = length - frame.encoded_len();
                (frame, length, Event::BytesElided(saved as u64))
            }
            found @ (Some(_) | None) => {
                let until = found.map_or(waiting.len(), |(at, _)| at);
                let length = until.min(room);
                let piece = Piece::new(waiting.get(..length)?.to_vec())?;
                let literal = Event::LiteralBytes(length as u64);
                (Frame::Bytes(piece), length, literal)
            }
        };
        self.waiting.drain(..length);
        self.events.push(event);
        Some((frame, length))
    }

    fn advance_end(&mut self) {
        match self.end {
            End::Wanted | End::Told if self.needs_no_frames() => {
                self.front();
                // The end says as much as a frame.
                self.form = Form::Raw;
                self.end = End::Closing;
            }
            End::Wanted => {
                self.front();
                self.form = Form::Plain;
                Frame::End.write(&mut self.message);
                self.end = End::Told;
            }
            End::Told if self.owed != Owed::Nothing => self.front(),
            End::ToCome | End::Told | End::Closing | End::Closed => {}
        }
    }

    /// The peer sends no delta any more.
    pub(crate) fn peer_sends_no_delta(&mut self) {
        self.peer = Peer::SendsNone;
        self.advance_end_if_empty();
    }

    fn advance_end_if_empty(&mut self) {
        if self.waiting.is_empty() {
            self.advance_end();
        }
    }

    /// Whether the peer may send its bytes as they are, or end its stream: it knows that no delta
    /// comes, and has answered the last.
    pub(crate) fn peer_needs_no_frames(&self) -> bool {
        let is_known = match self.form {
            Form::Plain | Form::Raw => true,
            Form::Deltas | Form::Decided => false,
        };
        is_known && self.outstanding.is_none() && self.owed == Owed::Nothing
    }

    /// Whether the peer's last delta has no answer yet.
    pub(crate) fn owes_answer(&self) -> bool {
        self.owed != Owed::Nothing
    }

    /// The peer's delta was rebuilt.
    pub(crate) fn rebuilt(&mut self) {
        self.owed = Owed::Rebuilt { behind: 0 };
        self.advance_end_if_empty();
    }

    /// It was not.
    pub(crate) fn missed(&mut self, miss: Miss) {
        self.front();
        Frame::Missed(miss).write(&mut self.message);
    }

    /// So many bytes have come after what may still have to be answered.
    pub(crate) fn arrived(&mut self, length: usize) {
        if let Owed::Rebuilt { behind } = &mut self.owed {
            *behind += length;
            if *behind > ANSWER_AFTER {
                self.front();
            }
        }
    }

    /// What is owed is to be said now.
    pub(crate) fn answer(&mut self) {
        if self.owes_answer() {
            self.front();
        }
    }

    /// The peer says what became of the last delta: what it stood for. `None` where there is none
    /// without an answer.
    pub(crate) fn answered(&mut self, missed: Option<Miss>) -> Option<What> {
        let Outstanding { what, original, .. } = self.outstanding.take()?;
        if missed.is_some() {
            self.front();
            self.events
                .push(Event::OriginalBytes(original.bytes().len() as u64));
            Frame::Again(original).write(&mut self.message);
        }
        self.advance();
        Some(what)
    }

    /// Whether the endpoint's next bytes have room.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether this direction has nothing more to say but the endpoint's bytes.
    pub(crate) fn is_raw(&self) -> bool {
        self.form == Form::Raw && self.waiting.is_empty()
    }

    /// Whether the direction has ended.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.end, End::Closing | End::Closed)
    }

    /// Tells of what happened in front of what is written next.
    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Hands over what was written, once for each input.
    pub(crate) fn flush(&mut self, out: &mut VecDeque<Output>) {
        out.extend(self.events.drain(..).map(Output::Event));
        if !self.message.is_empty() {
            out.push_back(Output::ToTunnel(std::mem::take(&mut self.message)));
        }
        if self.end == End::Closing {
            self.end = End::Closed;
            out.push_back(Output::EndTunnel);
        }
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        let original = self.outstanding.as_ref();
        let original = original.map_or(0, |delta| delta.original.bytes().len());
        self.opening.capacity() + self.waiting.capacity() + original
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_counts_as_spared_and_what_stands_around_it_as_it_is() {
        let phrase = Phrase::new(0).expect("there is one");
        let mut writer = Writer::new(Vec::new());
        writer.bytes(&[&b"key"[..], phrase.bytes(), b"finished"].concat());
        let mut out = VecDeque::new();
        writer.flush(&mut out);
        let spared = phrase.bytes().len() as u64 - 1;
        let expected = [
            Event::LiteralBytes(3),
            Event::BytesElided(spared),
            Event::LiteralBytes(8),
        ];
        assert!(out.iter().take(3).eq(&expected.map(Output::Event)));
        let Some(Output::ToTunnel(message)) = out.get(3) else {
            panic!("{out:?}");
        };
        // Heads of two bytes, and the phrase.
        assert_eq!(message.len(), (2 + 3) + 1 + (2 + 8));
    }
}
