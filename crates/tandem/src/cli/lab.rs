//! `tandem lab`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Run experiments on one machine: hosts in network namespaces, an emulated link
///
/// This command starts a separate program, tandem-lab, with the same arguments, from its own
/// directory or from the PATH. The Debian package leaves it out; `cargo build --release --package
/// tandem-lab` builds it from the sources.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// Arguments of tandem-lab; `tandem lab --help` lists them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
