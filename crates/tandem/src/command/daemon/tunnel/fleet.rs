//! Settings for many client sides at one server side, and for several server sides that share what
//! they know.

use std::collections::HashSet;
use std::sync::Arc;

use tandem_packet_io::config::Key;
#[cfg(feature = "shared-store")]
use tandem_shared_store::{Access, Address, Login, Trust, Valkey};
use tandem_tunnel::SharedStore;
use tandem_tunnel_io::config::{KeyName, read_clients};

use crate::exit::Failure;
use crate::settings::{Settings, SettingsError};

/// The name of the server side's key, where it has another one.
pub(in crate::command) fn server(said: &Settings) -> Result<Option<KeyName>, SettingsError> {
    let name = said.server_key.as_deref().map(str::parse).transpose();
    name.map_err(|problem: String| {
        let problem = format!("{problem}; `tandem keygen --names FILE` prints it over there");
        SettingsError::value("server-key", problem)
    })
}

/// The names of client sides' own keys.
pub(super) fn clients(said: &Settings) -> Result<HashSet<KeyName>, Failure> {
    match &said.clients {
        Some(path) => Ok(read_clients(path)?),
        None => Ok(HashSet::new()),
    }
}

/// What is shared with other server sides.
#[cfg(feature = "shared-store")]
pub(super) fn shared_store(
    said: &Settings,
    key: &Key,
) -> Result<Option<Arc<dyn SharedStore>>, Failure> {
    let read = shared_store_server(said)?;
    Ok(read.map(|access| {
        let store: Arc<dyn SharedStore> = Arc::new(Valkey::new(access, key.bytes()));
        store
    }))
}

/// Whatever the start would refuse of that.
#[cfg(feature = "shared-store")]
pub(super) fn check_shared_store(said: &Settings) -> Result<(), Failure> {
    shared_store_server(said).map(drop)
}

/// What it takes to come to it.
#[cfg(feature = "shared-store")]
pub(in crate::command) fn shared_store_server(said: &Settings) -> Result<Option<Access>, Failure> {
    let Some(address) = &said.shared_store else {
        return without_address(said).map(|()| None);
    };
    let value = |name, error: &dyn ToString| SettingsError::value(name, error.to_string());
    let address: Address = address
        .parse()
        .map_err(|error| value("shared-store", &error))?;
    match (address.is_tls(), &said.shared_store_trust) {
        (true, None) => {
            let problem = "TLS needs --shared-store-trust FILE, with the certificates of the \
                           authorities that may vouch for the server; the public ones are in \
                           /etc/ssl/certs/ca-certificates.crt on Debian";
            return Err(SettingsError::value("shared-store", problem).into());
        }
        (false, Some(_)) => {
            return Err(SettingsError::Misplaced {
                name: "shared-store-trust",
                why: "is for TLS: --shared-store rediss://...",
            }
            .into());
        }
        (true, Some(_)) | (false, None) => {}
    }
    let login = said.shared_store_password.as_deref().map(Login::read);
    let login = login
        .transpose()
        .map_err(|error| value("shared-store-password", &error))?;
    let trust = said.shared_store_trust.as_deref().map(Trust::read);
    let trust = trust
        .transpose()
        .map_err(|error| value("shared-store-trust", &error))?;
    Ok(Some(Access {
        address,
        login,
        trust,
    }))
}

/// The same in a program that has no such thing.
#[cfg(not(feature = "shared-store"))]
pub(super) fn shared_store(
    said: &Settings,
    _: &Key,
) -> Result<Option<Arc<dyn SharedStore>>, Failure> {
    check_shared_store(said).map(|()| None)
}

/// Whatever the start would refuse of that.
#[cfg(not(feature = "shared-store"))]
pub(super) fn check_shared_store(said: &Settings) -> Result<(), Failure> {
    match &said.shared_store {
        Some(_) => {
            let problem = "not in this program; build it with `--features shared-store`";
            Err(SettingsError::value("shared-store", problem).into())
        }
        None => without_address(said),
    }
}

fn without_address(said: &Settings) -> Result<(), Failure> {
    let name = match (&said.shared_store_password, &said.shared_store_trust) {
        (Some(_), _) => "shared-store-password",
        (None, Some(_)) => "shared-store-trust",
        (None, None) => return Ok(()),
    };
    let why = "needs --shared-store";
    Err(SettingsError::Misplaced { name, why }.into())
}
