//! `tandem keyserver`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Keep a web server's private keys on another machine, which signs its handshakes (no root)
///
/// This command starts a separate program, tandem-keyserver, with the same arguments, from its own
/// directory or from the PATH. The Debian package has it; `cargo build --release --package
/// tandem-keyserver-io` builds it from the sources.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct KeyserverArgs {
    /// Arguments of tandem-keyserver; `tandem keyserver --help` lists them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
