//! Everything that can be wrong with the names that a store is asked by. The caller is at fault.
//!
//! Not here: a disk's troubles, which are the crate's that has the disk.

/// Text that names nothing.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// The text is no digest.
    #[error("not a SHA-256 digest (64 hexadecimal digits): {text:?}")]
    NotADigest {
        /// The beginning of the text.
        text: String,
    },
    /// The text is no kind of object.
    #[error("not a kind of object: {text:?}")]
    NotAKind {
        /// The beginning of the text.
        text: String,
    },
    /// The text is no host name.
    #[error("not a host name: {text:?}")]
    NotAHostName {
        /// The beginning of the text.
        text: String,
    },
}
