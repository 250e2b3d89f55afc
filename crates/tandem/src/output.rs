//! Writing results to standard output.
//!
//! Is not: logging. Invariant: a reader that goes away (`tandem store ls | head`) ends the command
//! quietly, not with a panic.

use std::io::{self, Write};

use crate::exit::Failure;

/// Writes a result, and a newline where it has none at its end.
///
/// # Errors
/// [`Failure::Output`] if standard output takes no more.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    write!(out, "{text}{newline}")
        .and_then(|()| out.flush())
        .map_err(Failure::Output)
}

/// Writes one of several results as JSON, in one line, for programs.
///
/// # Errors
/// [`Failure::Output`] if standard output takes no more.
pub(crate) fn print_json_line(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string(value).map_err(|error| Failure::Output(error.into()))?)
}

/// Writes a result as JSON, for programs.
///
/// # Errors
/// [`Failure::Output`] if standard output takes no more.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Failure::Output(error.into()))?;
    print(&text)
}
