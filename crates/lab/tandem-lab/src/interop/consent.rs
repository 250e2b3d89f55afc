//! Consent to have the certificates of TLS 1.3 cross the tunnel as references (docs/tls13.md):
//! whose programs release their handshake keys, and which of them can.
//!
//! Is not: key logs and relays, which `crates/tandem/tests/tunnel/key_log.rs` tries.

use serde::{Deserialize, Serialize};

use super::clients::Client;
use super::servers::Server;

/// Whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Consent {
    /// The server's.
    Server,
    /// The client's.
    Client,
    /// Both.
    Both,
}

/// Why a server's flight crosses as it is.
const SERVER_ALONE: &str = "the server has no OpenSSL that the library works in";
const CLIENT_ALONE: &str = "the client has no OpenSSL that the library works in";
const BOTH: &str = "neither has an OpenSSL that the library works in";

impl Consent {
    /// All, as tables have them.
    pub(crate) const ALL: [Self; 3] = [Self::Server, Self::Client, Self::Both];

    /// What tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "the server's consent",
            Self::Client => "the client's consent",
            Self::Both => "the consent of both",
        }
    }

    /// Whether servers are to release keys.
    pub(crate) fn is_of_server(self) -> bool {
        match self {
            Self::Server | Self::Both => true,
            Self::Client => false,
        }
    }

    /// Whether clients are.
    pub(crate) fn is_of_client(self) -> bool {
        match self {
            Self::Client | Self::Both => true,
            Self::Server => false,
        }
    }

    /// Why no key is released between these two; `None`: one is, and the server's flight has to
    /// cross opened.
    pub(crate) fn cannot(self, client: Client, server: Server) -> Option<&'static str> {
        let releases = self.is_of_server() && server.uses_openssl()
            || self.is_of_client() && client.uses_openssl();
        let why = match self {
            Self::Server => SERVER_ALONE,
            Self::Client => CLIENT_ALONE,
            Self::Both => BOTH,
        };
        (!releases).then_some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_consents_and_uses_openssl_releases_a_key() {
        let (openssl, other) = (Client::Curl, Client::Go);
        let cannot = |client, server| Consent::ALL.map(|it| it.cannot(client, server));
        assert_eq!(cannot(openssl, Server::Nginx), [None; 3]);
        assert_eq!(
            cannot(other, Server::Nginx),
            [None, Some(CLIENT_ALONE), None]
        );
        assert_eq!(
            cannot(openssl, Server::Java),
            [Some(SERVER_ALONE), None, None]
        );
        assert_eq!(
            cannot(other, Server::Java),
            [SERVER_ALONE, CLIENT_ALONE, BOTH].map(Some)
        );
    }
}
