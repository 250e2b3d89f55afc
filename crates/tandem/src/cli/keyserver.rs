//! `tandem keyserver`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Keep a web server's private keys on another machine, which signs its handshakes (no root)
///
/// It is a program of its own, tandem-keyserver, which this starts with the same arguments. It
/// stands beside this program or on the PATH, as in the Debian package; `cargo build --release
/// --package tandem-keyserver-io` makes it from the sources.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct KeyserverArgs {
    /// What tandem-keyserver takes; `tandem keyserver --help` lists it
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
