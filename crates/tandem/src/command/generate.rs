//! `tandem man` and `tandem completions`: what is made out of the definitions that `--help` is made
//! of.

use clap::CommandFactory as _;
use tandem_cli::manual;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::exit::Failure;
use crate::output;

pub(crate) fn completions(arguments: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tandem", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

pub(crate) fn man(arguments: &ManArgs) -> Result<(), Failure> {
    manual::write(Cli::command(), None, &arguments.directory)
        .map_err(|(path, source)| Failure::File { path, source })
}
