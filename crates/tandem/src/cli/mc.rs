//! `tandem mc`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Admit middleboxes to parts of a TLS session, by both ends' consent (multi-context TLS; no root)
///
/// It is a program of its own, tandem-mc, which this starts with the same arguments. It stands
/// beside this program or on the PATH, as in the Debian package; `cargo build --release --package
/// tandem-mc` makes it from the sources. `tandem mc demo` shows it.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct McArgs {
    /// What tandem-mc takes; `tandem mc --help` lists it
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
