//! Whether the far side is trusted to remember what it has seen. Where it forgets, or several far
//! sides take turns, hellos refer to its memory less and less often.
//!
//! Is not: what it is thought to remember (`tickets`, `hellos`).

/// Most hellos that refer to nothing after misses in a row.
const MAX_PAUSE: u32 = 64;

/// Trust in the far side's memory of one kind of object. It is full at first. The first miss says
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

    /// It did not remember. After the first miss in a row no hello is left out, then 2, 6, 14, and
    /// so on up to 63.
    pub(crate) fn missed(&mut self) {
        self.pause = (self.pause * 2 + 1).min(MAX_PAUSE);
        self.left = self.pause - 1;
    }
}
