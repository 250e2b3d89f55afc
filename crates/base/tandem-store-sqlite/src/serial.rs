//! How names of things are written for other programs: as the same text that people read.
//!
//! Not here: reading them back, which `FromStr` does.

use core::fmt::Display;

use serde::Serializer;

/// As text; for `serialize_with`.
pub(crate) fn text<T: Display, S: Serializer>(name: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

/// A list of texts; for `serialize_with`.
pub(crate) fn texts<T: Display, S: Serializer>(
    names: &[T],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(ToString::to_string))
}
