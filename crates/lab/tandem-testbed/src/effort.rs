//! How much of a measurement is to be made.

/// How much is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// What the file says.
    #[default]
    Full,
    /// About a minute's worth: few trials, and only links that are fast enough for it.
    Quick,
}
