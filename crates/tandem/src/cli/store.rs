//! `tandem store`: a proxy's store from the outside.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// List the certificate chains that a store holds, by server name
    Ls(StoreListArgs),
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreListArgs {
    /// Directory of the store
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
}
