//! Which keys follow from a shared secret (RFC 5246, sections 6.3, 7.4.9 and 8.1), and which from
//! that of a three-way handshake's first flight.
//!
//! ```text
//!  secret -- "master secret", both randoms ----------------> master -- "key expansion" --> keys
//!  secret -- "three-way first flight", random, share id ---> early  -- "key expansion" --> keys
//! ```
//!
//! The first flight is protected before the server has chosen its random value, so its keys cannot
//! depend on it: this is why the flight can be replayed.

use crate::protect::Keys;
use crate::secret::{Digest, Secret};
use crate::three_way::ShareId;

/// Length of a Finished message's content.
pub(crate) const VERIFY_LEN: usize = 12;

const MASTER_LEN: usize = 48;
const KEY_LEN: usize = 16;
const IV_LEN: usize = 4;

/// Both hellos' random values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Randoms {
    pub(crate) client: [u8; 32],
    pub(crate) server: [u8; 32],
}

/// What Finished messages and keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Master(Secret);

impl Master {
    /// That of a connection.
    pub(crate) fn new(shared: &Secret, randoms: &Randoms) -> Self {
        let seeds: [&[u8]; 2] = [&randoms.client, &randoms.server];
        Self(shared.prf("master secret", seeds, MASTER_LEN))
    }

    /// That of a first flight.
    pub(crate) fn early(shared: &Secret, client_random: &[u8; 32], id: &ShareId) -> Self {
        let seeds: [&[u8]; 2] = [client_random, &id.0];
        Self(shared.prf("three-way first flight", seeds, MASTER_LEN))
    }

    /// The client's keys and the server's.
    pub(crate) fn keys(&self, randoms: &Randoms) -> [Keys; 2] {
        let seeds: [&[u8]; 2] = [&randoms.server, &randoms.client];
        let block = self.0.prf("key expansion", seeds, 2 * (KEY_LEN + IV_LEN));
        let (keys, ivs) = block.bytes().split_at(2 * KEY_LEN);
        let (client, server) = keys.split_at(KEY_LEN);
        let (client_iv, server_iv) = ivs.split_at(IV_LEN);
        [Keys::new(client, client_iv), Keys::new(server, server_iv)]
    }

    /// The client's keys for a first flight.
    pub(crate) fn early_keys(&self) -> Keys {
        let block = self.0.prf("key expansion", [&[], &[]], KEY_LEN + IV_LEN);
        let (key, iv) = block.bytes().split_at(KEY_LEN);
        Keys::new(key, iv)
    }

    /// What a Finished message says.
    pub(crate) fn verify_data(&self, end: End, messages: &Digest) -> [u8; VERIFY_LEN] {
        let label = match end {
            End::Client => "client finished",
            End::Server => "server finished",
        };
        let mut out = [0; VERIFY_LEN];
        let data = self.0.prf(label, [messages, &[]], VERIFY_LEN);
        out.copy_from_slice(data.bytes());
        out
    }
}

/// Whose Finished.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Client,
    Server,
}
