//! What several server-side proxies know together: notes of what each peer and they have seen.
//!
//! Is: what a server side asks of it. Is not: where the notes lie; an adapter knows
//! (`tandem-shared-store`).
//!
//! Invariants: nothing here makes a connection wait; what it gives may be anything, and is read as
//! bytes of a stranger; without it everything works, but a peer that comes from another server side
//! has to send again what that one held.

use std::fmt;
use std::time::Duration;

use tandem_engine::PeerId;

/// What is called with the notes of a peer, the oldest first.
pub type Recalled = Box<dyn FnOnce(Vec<Vec<u8>>) + Send>;

/// See the module.
pub trait SharedStore: fmt::Debug + Send + Sync {
    /// Begins its work; called once, when the process has given up its privileges.
    ///
    /// # Errors
    /// The system has no thread for it.
    fn start(&self) -> std::io::Result<()>;

    /// Takes in a note of this peer, at once; of too many, some are dropped.
    fn note(&self, peer: PeerId, note: Vec<u8>);

    /// Asks for the notes of this peer, at once. They come later, on another thread, or are never
    /// given: what is called is dropped then.
    fn recall(&self, peer: PeerId, then: Recalled);

    /// Waits until what was noted has been written, but no longer than this.
    fn flush(&self, within: Duration);

    /// Its numbers, for the metrics, each by its name.
    fn numbers(&self) -> Vec<(&'static str, u64)>;

    /// How it is, in a few words, for the status.
    fn state(&self) -> String;
}
