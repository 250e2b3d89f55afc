//! tandem-cli: how each program reads its command line. Help and the version are printed; arguments
//! that clap does not take are refused in one line. Also the manual pages, which have the same text
//! as the help.
//!
//! Is not: the arguments of any program, nor what they mean.
//!
//! Invariant: a refusal names the command whose help explains more.

#![forbid(unsafe_code)]

pub mod manual;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, Parser};
use tandem_daemon::exit::Exit;

/// The word before a folder for the manual pages of a program that `tandem` starts.
const MANUAL_FLAG: &str = "--manual";

/// The arguments of this process, a program that `tandem` starts. `--manual DIR`, which no help
/// shows, is for the packages.
///
/// # Errors
/// The process is to end, with this code: help or the version was asked for and is printed, or the
/// arguments were refused on standard error.
pub fn parse<T: Parser>() -> Result<T, ExitCode> {
    let words: Vec<_> = std::env::args_os().collect();
    match words.as_slice() {
        [_, word, directory] if word == MANUAL_FLAG => Err(write_manual(T::command(), directory)),
        words => parse_from(words),
    }
}

/// The arguments in `words`, the first of which is the program.
///
/// # Errors
/// As of [`parse`].
pub fn parse_from<T: Parser>(words: &[OsString]) -> Result<T, ExitCode> {
    T::try_parse_from(words).map_err(|error| end(&error, &T::command(), words))
}

fn write_manual(root: Command, directory: &OsStr) -> ExitCode {
    let program = name_of(&root).to_owned();
    match manual::write(root, Some("tandem"), directory.as_ref()) {
        Ok(()) => Exit::Done.into(),
        Err((path, source)) => {
            let why = format!("{}: {source}", path.display());
            Exit::of_file(&source).report(&program, &why)
        }
    }
}

/// Prints what clap has to say, and gives the code to end with.
fn end(error: &clap::Error, root: &Command, words: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => Exit::Done.into(),
            Err(error) => {
                let why = format!("standard output: {error}");
                Exit::of_output(&error).report(name_of(root), &why)
            }
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprint!("{error}");
            Exit::Usage.into()
        }
        _ => Exit::Usage.report(name_of(root), &refusal(error, root, words)),
    }
}

/// Clap's paragraphs as one line that ends with the help to read.
fn refusal(error: &clap::Error, root: &Command, words: &[OsString]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for paragraph in error.to_string().split("\n\n") {
        let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_hint = text.starts_with("Usage: ") || text.starts_with("For more information");
        if !text.is_empty() && !is_hint {
            let text = text
                .strip_prefix("error: ")
                .or(text.strip_prefix("tip: "))
                .unwrap_or(&text);
            parts.push(text.to_owned());
        }
    }
    let command = command_of(root, words);
    format!("{} (see `{command} --help`)", parts.join("; "))
}

/// The command that these words use, `tandem store ls` for instance: not every error of clap's
/// names it.
fn command_of(root: &Command, words: &[OsString]) -> String {
    let mut name = name_of(root).to_owned();
    let mut command = root;
    for word in words.iter().skip(1) {
        if let Some(below) = command.find_subcommand(word) {
            name = format!("{name} {}", below.get_name());
            command = below;
        }
    }
    name
}

/// The program as users call it: `tandem mc`, not `tandem-mc`.
fn name_of(root: &Command) -> &str {
    root.get_bin_name().unwrap_or_else(|| root.get_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    /// A program that others call `tandem x`.
    fn root() -> Command {
        let format = Arg::new("format")
            .long("format")
            .value_parser(["json", "text"]);
        let list = Command::new("list").arg(format);
        let read = Command::new("read").arg(Arg::new("FILE").required(true));
        let store = Command::new("store").subcommand(list).subcommand(read);
        Command::new("tandem-x")
            .bin_name("tandem x")
            .arg_required_else_help(true)
            .subcommand(store)
    }

    fn refused(words: &[&str]) -> String {
        let error = root().try_get_matches_from(words).expect_err("refused");
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        refusal(&error, &root(), &words)
    }

    #[test]
    fn a_refusal_is_one_line_that_names_what_was_meant_and_where_help_is() {
        assert_eq!(
            refused(&["tandem-x", "store", "list", "--fromat", "json"]),
            "unexpected argument '--fromat' found; a similar argument exists: '--format' (see `tandem x store list --help`)"
        );
        assert_eq!(
            refused(&["tandem-x", "store", "lst"]),
            "unrecognized subcommand 'lst'; a similar subcommand exists: 'list' (see `tandem x store --help`)"
        );
        assert_eq!(
            refused(&["tandem-x", "store", "read"]),
            "the following required arguments were not provided: <FILE> (see `tandem x store read --help`)"
        );
        assert_eq!(
            refused(&["tandem-x", "store", "list", "--format", "x"]),
            "invalid value 'x' for '--format <format>' [possible values: json, text] (see `tandem x store list --help`)"
        );
        assert_eq!(
            refused(&["tandem-x", "--sotre"]),
            "unexpected argument '--sotre' found (see `tandem x --help`)"
        );
    }
}
