//! Whether the far side is trusted to remember what it has seen: where several take turns, or it
//! forgets, it is asked less and less.
//!
//! Is not: what it is thought to remember (`tickets`, `hellos`).

/// Most hellos that refer to nothing after misses in a row.
const MAX_PAUSE: u32 = 64;

/// The trust in the far side's memory of one kind of object. Full at first: the first miss says
/// only that what was learned before it is gone.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    pause: u32,
    left: u32,
}

impl Trust {
    /// Whether a hello may refer to what the far side is thought to remember. To be asked once for
    /// each hello that could.
    pub(crate) fn may_refer(&mut self) -> bool {
        let rests = self.left > 0;
        self.left = self.left.saturating_sub(1);
        !rests
    }

    /// It did remember.
    pub(crate) fn rebuilt(&mut self) {
        *self = Self::default();
    }

    /// It did not: after the first miss nothing is left out, then twice as many hellos and two more
    /// each time.
    pub(crate) fn missed(&mut self) {
        self.pause = (self.pause * 2 + 1).min(MAX_PAUSE);
        self.left = self.pause - 1;
    }
}
