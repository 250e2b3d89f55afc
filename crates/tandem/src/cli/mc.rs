//! `tandem mc`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Admit middleboxes to parts of a TLS session, with both ends' consent (multi-context TLS; no
/// root)
///
/// This command starts a separate program, tandem-mc, with the same arguments, from its own
/// directory or from the PATH. The Debian package has it; `cargo build --release --package
/// tandem-mc` builds it from the sources. Try `tandem mc demo`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct McArgs {
    /// Arguments of tandem-mc; `tandem mc --help` lists them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
