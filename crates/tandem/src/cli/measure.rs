//! `tandem measure`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Measure what TLS costs at a server: load, latency, where the time goes (no root)
///
/// The load generator is a program of its own, tandem-measure, which this starts with the same
/// arguments. It stands beside this program or on the PATH; the Debian package leaves it out, and
/// `cargo build --release --package tandem-measure-io` makes it from the sources.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct MeasureArgs {
    /// What tandem-measure takes; `tandem measure --help` lists it
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
