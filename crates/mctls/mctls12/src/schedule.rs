//! The key schedule (the paper, section 3.5): from pre-secrets and halves to keys.
//!
//! ```text
//! S_CS         = PRF(PS_CS, "master secret", C.random | S.random)                            48
//! S_XM         = PRF(PS_XM, "middlebox secret", X.random | M.random)                         48
//! K_endpoints  = PRF(S_CS, "key expansion", S.random | C.random):
//!                MAC key to the server 32, to the client 32, key to the server 16, to the client 16
//! K_XM         = PRF(S_XM, "key expansion", M.random | X.random): MAC key 32, key 16
//! half[X,k,p]  = PRF(S_X, "reader half" | "writer half", C.random | S.random | k)            32
//! whole[k,p]   = half[C,k,p] | half[S,k,p], or, where the client distributes keys,
//!                PRF(S_CS, "reader whole" | "writer whole", C.random | S.random | k)         64
//! K_readers[k] = PRF(whole[k,read], "reader keys", S.random | C.random | k): as K_endpoints
//! K_writers[k] = PRF(whole[k,write], "writer keys", S.random | C.random | k):
//!                MAC key to the server 32, to the client 32
//! verify_data  = PRF(S_CS, "client finished" | "server finished", H(messages))               12
//! ```
//!
//! Is not: who is sent which half ([`crate::material`]).

use mctls::party::{ContextId, Direction, Endpoint};

use crate::message::VERIFY_LEN;
use crate::secret::{Digest, Secret};

/// Length of half a key in bytes.
pub(crate) const HALF_LEN: usize = 32;

/// Length of what a context's keys are derived from.
pub(crate) const WHOLE_LEN: usize = 2 * HALF_LEN;

const MAC_LEN: usize = 32;
const KEY_LEN: usize = 16;

/// The random values of the endpoints' hellos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Randoms {
    pub(crate) client: [u8; 32],
    pub(crate) server: [u8; 32],
}

impl Randoms {
    pub(crate) const fn of(&self, endpoint: Endpoint) -> &[u8; 32] {
        match endpoint {
            Endpoint::Client => &self.client,
            Endpoint::Server => &self.server,
        }
    }
}

/// What a key of a context permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Read,
    Write,
}

impl Purpose {
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Write];

    const fn labels(self) -> [&'static str; 3] {
        match self {
            Self::Read => ["reader half", "reader whole", "reader keys"],
            Self::Write => ["writer half", "writer whole", "writer keys"],
        }
    }
}

/// A MAC key and a key for encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPair {
    pub(crate) mac: Secret,
    pub(crate) key: Secret,
}

/// S_CS.
pub(crate) fn session_secret(shared: &Secret, randoms: &Randoms) -> Secret {
    let seeds: [&[u8]; 2] = [&randoms.client, &randoms.server];
    shared.prf("master secret", &seeds, 48)
}

/// K_XM, which seals what endpoint X sends middlebox M.
pub(crate) fn leg_keys(shared: &Secret, endpoint: &[u8; 32], middlebox: &[u8; 32]) -> KeyPair {
    let secret = shared.prf("middlebox secret", &[endpoint, middlebox], 48);
    let block = secret.prf("key expansion", &[middlebox, endpoint], MAC_LEN + KEY_LEN);
    let (mac, key) = block.bytes().split_at(MAC_LEN);
    KeyPair {
        mac: Secret::new(mac),
        key: Secret::new(key),
    }
}

/// K_endpoints of one direction.
pub(crate) fn endpoint_keys(session: &Secret, randoms: &Randoms, direction: Direction) -> KeyPair {
    let seeds: [&[u8]; 2] = [&randoms.server, &randoms.client];
    let block = session.prf("key expansion", &seeds, 2 * (MAC_LEN + KEY_LEN));
    pair(&block, direction)
}

/// One endpoint's half of a context's key, from a secret that only it knows.
pub(crate) fn half(
    own: &Secret,
    purpose: Purpose,
    context: ContextId,
    randoms: &Randoms,
) -> Secret {
    let [label, ..] = purpose.labels();
    let seeds: [&[u8]; 3] = [&randoms.client, &randoms.server, &[context.0]];
    own.prf(label, &seeds, HALF_LEN)
}

/// Both halves in one, where the client distributes keys.
pub(crate) fn whole(
    session: &Secret,
    purpose: Purpose,
    context: ContextId,
    randoms: &Randoms,
) -> Secret {
    let [_, label, _] = purpose.labels();
    let seeds: [&[u8]; 3] = [&randoms.client, &randoms.server, &[context.0]];
    session.prf(label, &seeds, WHOLE_LEN)
}

/// K_readers of one direction.
pub(crate) fn reader_keys(
    whole: &Secret,
    context: ContextId,
    randoms: &Randoms,
    direction: Direction,
) -> KeyPair {
    let length = 2 * (MAC_LEN + KEY_LEN);
    pair(
        &expand(whole, Purpose::Read, context, randoms, length),
        direction,
    )
}

/// K_writers of one direction.
pub(crate) fn writer_key(
    whole: &Secret,
    context: ContextId,
    randoms: &Randoms,
    direction: Direction,
) -> Secret {
    let block = expand(whole, Purpose::Write, context, randoms, 2 * MAC_LEN);
    Secret::new(&block.bytes()[index(direction) * MAC_LEN..][..MAC_LEN])
}

/// What a finished message says.
pub(crate) fn verify_data(
    session: &Secret,
    endpoint: Endpoint,
    messages: &Digest,
) -> [u8; VERIFY_LEN] {
    let label = match endpoint {
        Endpoint::Client => "client finished",
        Endpoint::Server => "server finished",
    };
    let mut out = [0; VERIFY_LEN];
    out.copy_from_slice(session.prf(label, &[messages], VERIFY_LEN).bytes());
    out
}

fn expand(
    whole: &Secret,
    purpose: Purpose,
    context: ContextId,
    randoms: &Randoms,
    length: usize,
) -> Secret {
    let [.., label] = purpose.labels();
    let seeds: [&[u8]; 3] = [&randoms.server, &randoms.client, &[context.0]];
    whole.prf(label, &seeds, length)
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::ToServer => 0,
        Direction::ToClient => 1,
    }
}

fn pair(block: &Secret, direction: Direction) -> KeyPair {
    let (macs, keys) = block.bytes().split_at(2 * MAC_LEN);
    let at = index(direction);
    KeyPair {
        mac: Secret::new(&macs[at * MAC_LEN..][..MAC_LEN]),
        key: Secret::new(&keys[at * KEY_LEN..][..KEY_LEN]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOMS: Randoms = Randoms {
        client: [1; 32],
        server: [2; 32],
    };

    #[test]
    fn each_context_purpose_and_direction_has_its_own_keys() {
        let whole = Secret::new(&[3; WHOLE_LEN]);
        let mut all = Vec::new();
        for context in [ContextId(1), ContextId(2)] {
            for direction in [Direction::ToServer, Direction::ToClient] {
                let keys = reader_keys(&whole, context, &RANDOMS, direction);
                all.extend([keys.mac, keys.key]);
                all.push(writer_key(&whole, context, &RANDOMS, direction));
            }
        }
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one));
        }
    }

    #[test]
    fn one_half_alone_is_no_key() {
        let context = ContextId(1);
        let halves = [[3; 32], [4; 32]]
            .map(|own| half(&Secret::new(&own), Purpose::Read, context, &RANDOMS));
        let [client, server] = &halves;
        let keys = |whole: &Secret| reader_keys(whole, context, &RANDOMS, Direction::ToServer);
        let real = keys(&Secret::join(client, server));
        for guess in [
            client.clone(),
            server.clone(),
            Secret::join(client, client),
            Secret::join(server, client),
        ] {
            assert_ne!(keys(&guess), real);
        }
    }
}
