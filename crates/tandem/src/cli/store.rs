//! `tandem store`: a proxy's store from the outside.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tandem_store::Site;

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Ls(StoreLsArgs),
    Show(StoreShowArgs),
    Import(StoreImportArgs),
    Export(StoreExportArgs),
    Purge(StorePurgeArgs),
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct WhichStore {
    /// Directory of the store: a proxy's `--store`, by default /var/lib/tandem/ROLE-IFACE, in
    /// tunnel mode ROLE-tunnel
    #[arg(long = "store", value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// List the certificate chains that a store holds, the one seen last first
///
/// This works while a proxy runs, and does not disturb it.
#[derive(Debug, Args)]
pub(crate) struct StoreLsArgs {
    #[command(flatten)]
    pub(crate) store: WhichStore,

    /// One JSON object, with names and sites in full
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show one chain or certificate: subject, issuer, names, validity
#[derive(Debug, Args)]
pub(crate) struct StoreShowArgs {
    #[command(flatten)]
    pub(crate) store: WhichStore,

    /// The first digits of its name, as `tandem store ls` lists it
    #[arg(value_name = "DIGITS")]
    pub(crate) prefix: String,

    /// One JSON object instead of text
    #[arg(long, conflicts_with = "pem")]
    pub(crate) json: bool,

    /// The certificates themselves, in PEM
    #[arg(long)]
    pub(crate) pem: bool,
}

/// Import certificates, so that not even the first handshake has to carry them
///
/// Files in PEM, in DER, or as `tandem store export` writes them. Several certificates in a PEM or
/// DER file are a chain, leaf first. Either everything is imported, or nothing. The proxy must not
/// run meanwhile. Certificates need not be trusted: a wrong one costs bytes, not security.
#[derive(Debug, Args)]
pub(crate) struct StoreImportArgs {
    #[command(flatten)]
    pub(crate) store: WhichStore,

    /// Files to import
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Server that sends the chains of PEM and DER files: its name, or its ADDRESS:PORT [default:
    /// the names in the leaf]
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<Site>,

    /// The certificates of a file are separate, not a chain: for bundles of authorities
    #[arg(long, conflicts_with = "site")]
    pub(crate) single: bool,
}

/// Export all certificates of a store, for another store or another program
#[derive(Debug, Args)]
pub(crate) struct StoreExportArgs {
    #[command(flatten)]
    pub(crate) store: WhichStore,

    /// File to create; it is not overwritten [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// `json`: lines for `tandem store import`, with sites; `pem`: certificates only, for other
    /// programs
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ExportFormat::Json, hide_possible_values = true)]
    pub(crate) format: ExportFormat,
}

/// How a store's contents are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object a line.
    Json,
    /// PEM.
    Pem,
}

/// Remove certificates, and overwrite their bytes
///
/// The proxy must not run meanwhile. Certificates that a server sends again are stored again.
#[derive(Debug, Args)]
pub(crate) struct StorePurgeArgs {
    #[command(flatten)]
    pub(crate) store: WhichStore,

    #[command(flatten)]
    pub(crate) what: PurgeChoice,
}

/// What to forget.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PurgeChoice {
    /// Everything
    #[arg(long)]
    pub(crate) all: bool,

    /// Expired certificates
    #[arg(long)]
    pub(crate) expired: bool,

    /// Certificates not seen for this many days
    #[arg(long, value_name = "DAYS")]
    pub(crate) unseen: Option<u32>,

    /// Everything about this server: its name, or its ADDRESS:PORT
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<Site>,
}
