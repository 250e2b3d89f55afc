//! `tandem man` and `tandem completions`: manual pages and completions out of the definitions that
//! `--help` is made of.
//!
//! Invariant: every command has a page, named as its words with dashes between.

use std::fs;
use std::io::{self, Write as _};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::exit::Failure;
use crate::output;

/// The part of the manual that the pages stand in.
const MANUAL: &str = "Tandem";

pub(crate) fn completions(arguments: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tandem", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

pub(crate) fn man(arguments: &ManArgs) -> Result<(), Failure> {
    let directory = &arguments.directory;
    fs::create_dir_all(directory).map_err(|source| Failure::file(directory, source))?;
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut open = vec![(root, None)];
    while let Some((command, parent)) = open.pop() {
        let name = name_of(&command);
        let path = directory.join(format!("{name}.1"));
        page(&command, parent.as_deref())
            .and_then(|page| fs::write(&path, page))
            .map_err(|source| Failure::file(&path, source))?;
        let below = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set());
        open.extend(below.map(|below| (below.clone(), Some(name.clone()))));
    }
    Ok(())
}

/// `tandem-store-ls`.
fn name_of(command: &Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

/// A command's page: what clap renders, and the closing text of `--help` line by line.
fn page(command: &Command, parent: Option<&str>) -> io::Result<Vec<u8>> {
    // What `-h` leaves out stands in the page with its explanation all the same, which clap shows
    // for long texts only.
    let explained = command.clone().mut_args(|argument| {
        match (argument.get_long_help(), argument.get_help().cloned()) {
            (None, Some(help)) => argument.long_help(help),
            (Some(_), _) | (None, None) => argument,
        }
    });
    let man = Man::new(explained)
        .manual(MANUAL)
        .source(concat!("tandem ", env!("CARGO_PKG_VERSION")));
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        man.render_options_section(&mut out)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    if let Some(text) = command.get_after_long_help() {
        writeln!(out, ".SH NOTES\n.nf")?;
        for line in text.to_string().lines() {
            writeln!(out, "{}", literal(line))?;
        }
        writeln!(out, ".fi")?;
    }
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(name_of);
    let related: Vec<String> = parent
        .map(str::to_owned)
        .into_iter()
        .chain(below)
        .map(|name| format!("\\fB{}\\fR(1)", literal(&name)))
        .collect();
    if !related.is_empty() {
        writeln!(out, ".SH SEE ALSO\n{}", related.join(",\n"))?;
    }
    Ok(out)
}

/// A line as roff shows it unchanged.
fn literal(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-");
    match escaped.chars().next() {
        // A dot or a quote at the front would be a request.
        Some('.' | '\'') => format!("\\&{escaped}"),
        Some(_) | None => escaped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_would_be_a_request_is_text() {
        assert_eq!(literal(".SH x"), "\\&.SH x");
        assert_eq!(literal("a -b \\"), "a \\-b \\e");
        assert_eq!(literal(""), "");
    }
}
