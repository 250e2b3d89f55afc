//! `tandem measure`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Measure what TLS costs at a server: load, latency, where the time goes (no root)
///
/// This command starts the load generator, tandem-measure, with the same arguments, from its own
/// directory or from the PATH. The Debian package leaves it out; `cargo build --release --package
/// tandem-measure-io` builds it from the sources.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct MeasureArgs {
    /// Arguments of tandem-measure; `tandem measure --help` lists them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
