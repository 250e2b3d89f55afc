//! The C library's calls for which std takes a lock.
//!
//! Is not: what is written.
//!
//! Invariant: nothing here takes a lock. A program may fork while another of its threads holds one,
//! and in the child it stays locked for ever.

/// Writes to standard error by one call: lines of several threads or processes do not mix.
pub(crate) fn write_to_stderr(text: &str) {
    // SAFETY: as many bytes are read as the text has. Nobody can be told that standard error is
    // closed.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
