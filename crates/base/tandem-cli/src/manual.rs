//! Manual pages out of the definitions that `--help` is made of.
//!
//! Invariant: every command has a page, named as its words with dashes between.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

/// The part of the manual that the pages stand in.
const MANUAL: &str = "Tandem";

/// Writes a page for `root` and for each command below it into `directory`, which is created if
/// missing. `above` has the page of the program that starts this one.
///
/// # Errors
/// What cannot be written, and why.
pub fn write(
    root: Command,
    above: Option<&str>,
    directory: &Path,
) -> Result<(), (PathBuf, io::Error)> {
    fs::create_dir_all(directory).map_err(|source| (directory.to_owned(), source))?;
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut open = vec![(root, above.map(str::to_owned))];
    while let Some((command, parent)) = open.pop() {
        let name = name_of(&command);
        let path = directory.join(format!("{name}.1"));
        page(&command, parent.as_deref())
            .and_then(|page| fs::write(&path, page))
            .map_err(|source| (path, source))?;
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

    #[test]
    fn each_command_has_a_page_that_leads_to_those_above_and_below() {
        let folder = tempfile::tempdir().expect("a folder");
        let pages = folder.path().join("man1");
        let list = Command::new("list").about("List all");
        let hidden = Command::new("hidden").hide(true);
        let store = Command::new("store").subcommands([list, hidden]);
        let root = Command::new("tandem-x")
            .bin_name("tandem x")
            .subcommand(store);
        write(root, Some("tandem"), &pages).expect("a folder to write to");
        let read = |name: &str| fs::read_to_string(pages.join(name)).expect(name);
        assert_eq!(fs::read_dir(&pages).expect("written").count(), 3);
        let related = |name: &str| {
            let page = read(name);
            let (_, related) = page.split_once(".SH SEE ALSO\n").expect(name);
            related.to_owned()
        };
        assert_eq!(
            related("tandem-x.1"),
            "\\fBtandem\\fR(1),\n\\fBtandem\\-x\\-store\\fR(1)\n"
        );
        assert_eq!(
            related("tandem-x-store-list.1"),
            "\\fBtandem\\-x\\-store\\fR(1)\n"
        );
        assert!(read("tandem-x-store-list.1").contains("List all"));
        let file = pages.join("tandem-x.1");
        let (path, _) = write(Command::new("x"), None, &file).expect_err("no folder");
        assert_eq!(path, file);
    }
}
