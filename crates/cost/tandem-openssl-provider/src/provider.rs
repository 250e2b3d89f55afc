//! What there is once for each OpenSSL library context: the settings of key servers, and the client
//! that asks them.
//!
//! Invariant: settings are read when a key is loaded, which a server does before it forks and gives
//! up its rights. Nothing is connected, and no thread started, before the first signature.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tandem_keyclient::{Client, Options};

use crate::abi::Core;

/// Reasons of errors; `entry` has their texts.
pub(crate) mod reason {
    pub(crate) const SIGN_FAILED: u32 = 1;
    pub(crate) const KEY_FILE: u32 = 2;
    pub(crate) const SETTINGS: u32 = 3;
    pub(crate) const REFUSED: u32 = 4;
}

pub(crate) struct Provider {
    pub(crate) core: Core,
    last: Mutex<Option<Last>>,
}

/// The client of the settings that were read last: keys share it, and its connections.
struct Last {
    settings: String,
    client: Client,
}

impl Provider {
    pub(crate) fn new(core: Core) -> Self {
        Self {
            core,
            last: Mutex::new(None),
        }
    }

    /// The client of the settings as they are now.
    pub(crate) fn client(&self) -> Result<Client, String> {
        let path = self.core.setting(c"settings").ok_or_else(|| {
            "openssl.cnf: the provider's section has no `settings = FILE`".to_owned()
        })?;
        // A key that others may read is warned of there.
        say_what_happens();
        let mut options = Options::of_file(Path::new(&path)).map_err(|error| error.to_string())?;
        // For each process, of which a server may have hundreds, and each signs one at a time.
        options.connections = 1;
        // Two clients with the same settings would have connections of their own.
        let settings = format!("{} {options:?}", options.key.name());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref()
            && last.settings == settings
        {
            return Ok(last.client.clone());
        }
        let client = Client::new(options);
        *last = Some(Last {
            settings,
            client: client.clone(),
        });
        Ok(client)
    }
}

/// Writes what the client warns of (a key server that is down, and when it is back) to standard
/// error, which servers redirect to their error log.
fn say_what_happens() {
    // A second time there is nothing left to do.
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        // A failed write would be said to standard error, which panics where that fails, too.
        .log_internal_errors(false)
        .try_init();
}
