//! What can go wrong at the start of a broker or of a membership, by who can mend it.
//!
//! Is not: what goes wrong later, which is logged and counted, and ends nothing.

use std::io;
use std::path::PathBuf;

use tandem_barnraising::talk::Refusal;
use tandem_broker_dns::DnsError;
use tandem_split_io::SplitIoError;

/// Why a broker or a membership does not start.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The configuration's file cannot be read.
    #[error("{}: {source}", path.display())]
    ConfigFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration is no TOML, or has a key or a type of value that is not known.
    #[error("{}, line {line}: {problem}", path.display())]
    ConfigSyntax {
        /// Which file.
        path: PathBuf,
        /// From 1 on.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A value in the configuration makes no sense.
    #[error("{key}: {problem}")]
    Setting {
        /// Its key in the file.
        key: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The database cannot be read or written.
    #[error("{}: {reason}", path.display())]
    Database {
        /// Which.
        path: PathBuf,
        /// What the system or SQLite says.
        reason: String,
    },
    /// The database is another broker's at this time.
    #[error("{}: another broker uses it", path.display())]
    DatabaseBusy {
        /// Which.
        path: PathBuf,
    },
    /// The database is not this site's broker's.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// Whose it is, and what to do.
        reason: String,
    },
    /// The name server.
    #[error(transparent)]
    Dns(#[from] DnsError),
    /// Keys, ports, files.
    #[error(transparent)]
    Split(#[from] SplitIoError),
    /// The broker does not take this volunteer.
    #[error("{broker}: {refusal}")]
    Refused {
        /// Who said so.
        broker: String,
        /// Why.
        refusal: Refusal,
    },
    /// Whoever answers is not the broker of the URI.
    #[error(
        "{broker}: shows another key than the one in the URI; ask who runs the site for the URI as it is now"
    )]
    WrongKey {
        /// Where it was met.
        broker: String,
    },
}

impl BrokerError {
    pub(crate) fn setting(key: &'static str, problem: impl Into<String>) -> Self {
        Self::Setting {
            key,
            problem: problem.into(),
        }
    }
}
