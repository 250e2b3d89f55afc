//! Everything that can be wrong with what is asked of a store, by who is at fault.
//!
//! Not here: a bad disk. That is no error but a warning, since the daemon goes on without it.

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The caller's text is no digest.
    #[error("not a SHA-256 digest (64 hexadecimal digits): {text:?}")]
    NotADigest {
        /// The beginning of the text.
        text: String,
    },
    /// The caller's text is no host name.
    #[error("not a host name: {text:?}")]
    NotAHostName {
        /// The beginning of the text.
        text: String,
    },
}
