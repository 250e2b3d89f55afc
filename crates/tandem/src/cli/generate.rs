//! `tandem man` and `tandem completions`: what is made out of these very definitions.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Write the manual pages, one for each command
///
/// They have the text of `--help`. Those of `keytap`, `keyserver`, `mc`, `measure` and `lab`, which
/// are programs of their own, are short; `tandem-mc --manual DIR`, for instance, writes the full
/// ones. The Debian package has the pages of what it installs; elsewhere, put them into a folder
/// `man1` in a directory of `manpath`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  Read a page without installing it
    tandem man /tmp/man1 && man /tmp/man1/tandem-client-side.1")]
pub(crate) struct ManArgs {
    /// Directory for the pages; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Write a shell's completions to standard output
///
/// The Debian package has those for bash, zsh and fish.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  For this bash only
    source <(tandem completions bash)
  For good
    tandem completions bash >~/.local/share/bash-completion/completions/tandem
    tandem completions fish >~/.config/fish/completions/tandem.fish
    tandem completions zsh >~/.zfunc/_tandem      # a folder of $fpath")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
