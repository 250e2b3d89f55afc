//! `tandem keytap`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Bring handshake keys of TLS 1.3 to a proxy, from another machine or from a key log
///
/// `relay` and `receive` carry the keys of one machine's servers to the proxy on another machine;
/// `keylog` reads them from the key log of a program in Go or Java, or with rustls or BoringSSL.
/// This command starts a separate program, tandem-keytap, with the same arguments, from its own
/// directory or from the PATH.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct KeytapArgs {
    /// Arguments of tandem-keytap; `tandem keytap --help` lists them
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
