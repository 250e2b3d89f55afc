//! A file that a mix asks for, and a server has to have.

/// A file that a mix asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpec {
    /// Its name below the URL.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}
