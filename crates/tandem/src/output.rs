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

/// The text without what a terminal would carry out: where a proxy is asked, another program may
/// have its port. Lines stay lines.
pub(crate) fn harmless(text: &str) -> String {
    let harmless = |c: char| if c == '\n' || !is_control(c) { c } else { '?' };
    text.chars().map(harmless).collect()
}

/// Whether a terminal carries it out, or turns the direction of the text around it (Unicode
/// Standard Annex 9, section 2).
pub(crate) fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_carry_out_is_not_written() {
        let said = "up\n\u{1b}[2J\u{9b}2J\r\u{7f}\u{202e}txt.exe zł\n";
        assert_eq!(harmless(said), "up\n?[2J?2J???txt.exe zł\n");
    }
}
