//! `tandem lab`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Try things out on one machine: hosts in network namespaces, an emulated link, experiments
///
/// The lab is a program of its own, tandem-lab, which this starts with the same arguments. It
/// stands beside this program or on the PATH; the Debian package leaves it out, and `cargo build
/// --release --package tandem-lab` makes it from the sources.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// What tandem-lab takes; `tandem lab --help` lists it
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
