//! `tandem keygen`.

use std::path::PathBuf;

use clap::Args;

/// Create the key that both proxies share
///
/// 32 bytes from the operating system's random source, written as 64 hexadecimal digits. The file
/// gets mode 0600; an existing file is never overwritten. Copy it to the other proxy over a channel
/// that you trust. `tandem pair` creates and transfers a key, too.
#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// File to create [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Print the public names of the key in this file instead: one for a client side that has it,
    /// one for a server side
    ///
    /// For a server side with many client sides: the first goes into its `--clients`, the second
    /// is its client sides' `--server-key`. Neither is a secret.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) names: Option<PathBuf>,
}
