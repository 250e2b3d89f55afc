//! Everything that it takes to come to the server.

use crate::address::{Address, Login};
use crate::trust::Trust;

/// Where the server is, as whom one comes to it, and how it is known.
#[derive(Debug, Clone)]
pub struct Access {
    /// Where it is.
    pub address: Address,
    /// The password; `None`: it wants none.
    pub login: Option<Login>,
    /// Who vouches for it. Without that, no server whose address is of TLS can be used.
    pub trust: Option<Trust>,
}

/// Without a password, and in clear.
impl From<Address> for Access {
    fn from(address: Address) -> Self {
        Self {
            address,
            login: None,
            trust: None,
        }
    }
}
