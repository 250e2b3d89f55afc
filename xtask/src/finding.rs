//! One thing that a check found: where, and what to do about it.

use std::fmt;

/// A violation of a house rule. Sorts by place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the workspace's root.
    pub(crate) path: String,
    /// Line, counted from 1; 0 for the whole file.
    pub(crate) line: usize,
    /// What is wrong and what would be right.
    pub(crate) message: String,
}

impl Finding {
    /// A finding on one line, counted from 1.
    pub(crate) fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }

    /// A finding on a file as a whole.
    pub(crate) fn on(path: &str, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
