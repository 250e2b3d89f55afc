//! The public names of keys: what a server side is told of its client sides, and they of it.
//!
//! Is not: the keys.

use std::collections::HashSet;
use std::path::Path;

use tandem_channel::{Admission, ChannelError, ChannelKey, End, KeyName};
use tandem_link::inband::Key;

use crate::error::TunnelError;

/// The names of both ends that have this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Of a client side with it.
    pub client_side: KeyName,
    /// Of a server side with it.
    pub server_side: KeyName,
}

/// The names that follow from a key.
///
/// # Errors
/// The TLS library refuses it.
pub fn names(key: &Key) -> Result<Names, TunnelError> {
    let of = |end| {
        let key = ChannelKey::of_pair(key.bytes(), end);
        key.map(|key| key.name())
            .map_err(|error| ChannelError::System {
                what: "a key",
                source: std::io::Error::other(error.to_string()),
            })
    };
    Ok(Names {
        client_side: of(End::Client)?,
        server_side: of(End::Server)?,
    })
}

/// The names of client sides in a file, one a line; what follows a `#` is left out.
///
/// # Errors
/// The file cannot be read, or has a line that is no name.
pub fn read_clients(path: &Path) -> Result<HashSet<KeyName>, TunnelError> {
    match Admission::listed_in(path) {
        Ok(Admission::Listed(names)) => Ok(names),
        Ok(Admission::Any | Admission::If(_)) => Ok(HashSet::new()),
        Err(error) => Err(TunnelError::setting("clients", error.to_string())),
    }
}
