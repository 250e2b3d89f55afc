//! The two halves of a stream, at one end.
//!
//! Is not: the order in which streams are served.
//!
//! Invariants: what waits to be sent, and what waits to be read, is bounded; a half that is over
//! keeps no bytes.

use std::collections::VecDeque;

use super::frame::{Malformed, Says};
use super::{Broken, Read};

/// What may be sent of each stream before the other side says more: both sides know it, and most
/// connections never need more.
pub(super) const INITIAL_WINDOW: u32 = 64 * 1024;

/// Bytes that wait to be sent, at most.
const ROOM: usize = 16 * 1024;

/// Bytes that are read at a time, at most, unless more came at once.
const PIECE: usize = 16 * 1024;

/// Whether somebody still has the half in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Held,
    LetGo,
}

/// Which streams go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Urgent,
    Bulk,
}

/// How far the half is that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendState {
    Open,
    /// What waits is the last.
    Finishing,
    /// To be said.
    Resetting(u32),
    /// The end or the reset has been said.
    Over,
}

/// The half that sends.
#[derive(Debug)]
pub(super) struct Sending {
    waits: VecDeque<u8>,
    credit: u32,
    state: SendState,
    /// The other side wants no more.
    stopped: Option<u32>,
    pub(super) class: Class,
    /// Somebody was told that there is no room.
    room_is_wanted: bool,
    hold: Hold,
}

impl Sending {
    pub(super) fn new() -> Self {
        Self {
            waits: VecDeque::new(),
            credit: INITIAL_WINDOW,
            state: SendState::Open,
            stopped: None,
            class: Class::Urgent,
            room_is_wanted: false,
            hold: Hold::Held,
        }
    }

    /// Takes as much as there is room for.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if let Some(code) = self.stopped {
            return Err(Broken::ByPeer(code));
        }
        if self.state != SendState::Open {
            return Err(Broken::Here);
        }
        let len = bytes.len().min(ROOM - self.waits.len());
        self.waits.extend(&bytes[..len]);
        self.room_is_wanted = len == 0;
        Ok(len)
    }

    /// Whether nothing waits. If something does, somebody is told when some of it has left.
    pub(super) fn is_drained(&mut self) -> bool {
        let is_drained = self.waits.is_empty();
        self.room_is_wanted |= !is_drained;
        is_drained
    }

    pub(super) fn finish(&mut self) {
        if self.state == SendState::Open {
            self.state = SendState::Finishing;
        }
    }

    pub(super) fn reset(&mut self, code: u32) {
        match self.state {
            SendState::Open | SendState::Finishing => {
                self.state = SendState::Resetting(code);
                self.waits = VecDeque::new();
            }
            SendState::Resetting(_) | SendState::Over => {}
        }
    }

    /// The other side wants no more. Whether that is news.
    pub(super) fn stop(&mut self, code: u32) -> bool {
        let is_open = matches!(self.state, SendState::Open | SendState::Finishing);
        if is_open {
            self.stopped = Some(code);
            // Said by itself, so that the other side can forget the stream.
            self.reset(code);
        }
        is_open
    }

    pub(super) fn stopped(&self) -> Option<u32> {
        self.stopped
    }

    pub(super) fn credit(&mut self, bytes: u32) -> Result<(), Malformed> {
        self.credit = self.credit.checked_add(bytes).ok_or(Malformed)?;
        Ok(())
    }

    /// Whether it has something to say.
    pub(super) fn is_ready(&self) -> bool {
        match self.state {
            SendState::Open => !self.waits.is_empty() && self.credit > 0,
            SendState::Finishing => self.waits.is_empty() || self.credit > 0,
            SendState::Resetting(_) => true,
            SendState::Over => false,
        }
    }

    /// How many bytes of content it would send, if it may send so many.
    pub(super) fn content(&self, max: usize) -> usize {
        let credit = usize::try_from(self.credit).unwrap_or(usize::MAX);
        self.waits.len().min(credit).min(max)
    }

    /// Moves so many bytes, [`Sending::content`] at most, to `out`. Whether somebody waits for the
    /// room that is left.
    pub(super) fn take(&mut self, len: usize, out: &mut Vec<u8>) -> bool {
        out.extend(self.waits.drain(..len));
        self.credit -= u32::try_from(len).unwrap_or(self.credit);
        if self.waits.is_empty() {
            // A stream that rests keeps no buffer.
            self.waits = VecDeque::new();
        }
        std::mem::take(&mut self.room_is_wanted)
    }

    /// The end or the reset, if it is due; it counts as said.
    pub(super) fn take_last(&mut self) -> Option<Says> {
        let says = match self.state {
            SendState::Finishing if self.waits.is_empty() => Says::End,
            SendState::Resetting(code) => Says::Reset(code),
            SendState::Open | SendState::Finishing | SendState::Over => return None,
        };
        self.state = SendState::Over;
        Some(says)
    }

    /// Nothing is to be said any more, not even a reset.
    pub(super) fn drop_unsaid(&mut self) {
        self.state = SendState::Over;
    }

    pub(super) fn is_resetting(&self) -> bool {
        matches!(self.state, SendState::Resetting(_))
    }

    pub(super) fn let_go(&mut self) {
        self.hold = Hold::LetGo;
        if self.state == SendState::Open {
            self.reset(0);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == SendState::Over && self.hold == Hold::LetGo
    }
}

/// How far the half is that receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReceiveState {
    Open,
    /// No more is wanted here; the other side has yet to say its last.
    Stopped,
    Ended,
    /// It has ended, or never began, and there is no end in order to tell of.
    Unwanted,
    Reset(u32),
}

/// The half that receives.
#[derive(Debug)]
pub(super) struct Receiving {
    unread: VecDeque<Vec<u8>>,
    /// Bytes that nobody has read, those that were announced and have not come among them.
    unread_len: u32,
    /// Bytes that the other side may still send.
    allowed: u32,
    window: u32,
    state: ReceiveState,
    /// To be said.
    stop: Option<u32>,
    hold: Hold,
}

impl Receiving {
    pub(super) fn new() -> Self {
        Self {
            unread: VecDeque::new(),
            unread_len: 0,
            allowed: INITIAL_WINDOW,
            window: INITIAL_WINDOW,
            state: ReceiveState::Open,
            stop: None,
            hold: Hold::Held,
        }
    }

    /// So many bytes are to come.
    pub(super) fn expect(&mut self, len: u32) -> Result<(), Malformed> {
        match self.state {
            ReceiveState::Open | ReceiveState::Stopped => {
                self.allowed = self.allowed.checked_sub(len).ok_or(Malformed)?;
                self.unread_len += len;
                Ok(())
            }
            ReceiveState::Ended | ReceiveState::Unwanted | ReceiveState::Reset(_) => Err(Malformed),
        }
    }

    /// Some of those bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if self.state != ReceiveState::Open {
            return;
        }
        match self.unread.back_mut() {
            // Many short ones take no more memory than one long one.
            Some(last) if last.len() + bytes.len() <= PIECE => last.extend_from_slice(bytes),
            Some(_) | None => self.unread.push_back(bytes.to_vec()),
        }
    }

    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        // What came after the stop was dropped, so this is no end in order to whoever reads.
        let is_wanted = self.state != ReceiveState::Stopped;
        self.last(if is_wanted {
            ReceiveState::Ended
        } else {
            ReceiveState::Unwanted
        })
    }

    pub(super) fn reset(&mut self, code: u32) -> Result<(), Malformed> {
        self.last(ReceiveState::Reset(code))?;
        self.forget();
        Ok(())
    }

    fn last(&mut self, state: ReceiveState) -> Result<(), Malformed> {
        match self.state {
            ReceiveState::Open | ReceiveState::Stopped => {
                self.state = state;
                self.stop = None;
                Ok(())
            }
            ReceiveState::Ended | ReceiveState::Unwanted | ReceiveState::Reset(_) => Err(Malformed),
        }
    }

    pub(super) fn read(&mut self) -> Result<Read, Broken> {
        if let Some(piece) = self.unread.pop_front() {
            self.unread_len -= u32::try_from(piece.len()).unwrap_or(self.unread_len);
            return Ok(Read::Piece(piece));
        }
        match self.state {
            ReceiveState::Open => Ok(Read::Nothing),
            ReceiveState::Ended => Ok(Read::End),
            ReceiveState::Reset(code) => Err(Broken::ByPeer(code)),
            ReceiveState::Stopped | ReceiveState::Unwanted => Err(Broken::Here),
        }
    }

    pub(super) fn stop(&mut self, code: u32) {
        match self.state {
            ReceiveState::Open => {
                self.state = ReceiveState::Stopped;
                self.stop = Some(code);
            }
            ReceiveState::Ended => self.state = ReceiveState::Unwanted,
            ReceiveState::Stopped | ReceiveState::Unwanted | ReceiveState::Reset(_) => {}
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.unread = VecDeque::new();
        self.unread_len = 0;
    }

    /// How much more the other side may be told to send. The first time that half of the window is
    /// used up, the window becomes `window`.
    fn owed(&self, window: u32) -> u32 {
        let due = |window: u32| window.saturating_sub(self.allowed + self.unread_len);
        if self.state == ReceiveState::Open && due(self.window) >= self.window / 2 {
            due(self.window.max(window))
        } else {
            0
        }
    }

    /// Whether it has something to say.
    pub(super) fn is_ready(&self, window: u32) -> bool {
        self.stop.is_some() || self.owed(window) > 0
    }

    /// What it has to say; it counts as said.
    pub(super) fn take_says(&mut self, window: u32) -> Option<Says> {
        if let Some(code) = self.stop.take() {
            return Some(Says::Stop(code));
        }
        let owed = self.owed(window);
        if owed == 0 {
            return None;
        }
        self.allowed += owed;
        self.window = self.window.max(window);
        Some(Says::Credit(owed))
    }

    /// The other side never heard of the stream, and will not.
    pub(super) fn drop_unsaid(&mut self) {
        self.state = ReceiveState::Unwanted;
        self.stop = None;
    }

    pub(super) fn let_go(&mut self) {
        self.hold = Hold::LetGo;
        self.stop(0);
    }

    pub(super) fn is_over(&self) -> bool {
        match self.state {
            ReceiveState::Ended | ReceiveState::Unwanted | ReceiveState::Reset(_) => {
                self.hold == Hold::LetGo
            }
            ReceiveState::Open | ReceiveState::Stopped => false,
        }
    }
}
