//! `tandem keytap`: what another program takes.

use std::ffi::OsString;

use clap::Args;

/// Bring handshake keys of TLS 1.3 to a proxy: from another machine, or out of a key log
///
/// `relay` and `receive` carry the keys of one machine's servers to the proxy on another; `keylog`
/// takes them out of the key log of a program in Go or Java, or with rustls or BoringSSL. It is a
/// program of its own, tandem-keytap, which this starts with the same arguments. It stands beside
/// this program or on the PATH.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct KeytapArgs {
    /// What tandem-keytap takes; `tandem keytap --help` lists it
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}
