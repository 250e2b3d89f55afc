//! The key schedule: from what TLS exports to every key of a session.
//!
//! ```text
//!  e2e        = Exporter of the end-to-end session ("EXPORTER-mc13 session", "", 32)
//!  leg[X,i]   = Exporter of the leg between X and i ("EXPORTER-mc13 leg", "", 32)
//!  sid        = Expand-Label(e2e, "sid", "", 32)
//!  L[X,i]     = Expand-Label(leg[X,i], "leg", H(sid | X | i), 32)
//!  th         = H("mc13 th" | cfg | sid | transcript)
//!  K[k,p]     = HKDF-Extract(salt = th, a[C,k,p] | a[S,k,p])
//!  E          = Expand-Label(e2e, "end", th, 32)
//!  place      = k | direction | epoch (4) | th
//!  record     = Expand-Label(K[k,read] or, for context 0, E, "key" and "iv", place)
//!  writer     = Expand-Label(K[k,write], "writer", place, 32)
//!               or, for an AEAD's tag, Expand-Label(K[k,write], "writer key" and "writer iv", place)
//!  endpoint   = Expand-Label(E, "endpoint", place, 32)
//!  author     = Expand-Label(L[X,i], "author", direction | th, 32)
//!  confirm    = HMAC(Expand-Label(L[X,i], "confirm", th, 32),
//!                    Expand-Label(K, "kc", i | X, 32) of each K granted to i, in order)
//!  ready      = Expand-Label(E, "ready", X, 32)
//! ```
//!
//! Is not: TLS, whose exporters (RFC 8446, section 7.5) come in as bytes.
//!
//! Invariants: a leg's key belongs to one session, endpoint and position; every key of data and
//! every proof depends on `th`, so two parties with different views, also of the configuration,
//! have no key in common.

use aws_lc_rs::hmac;

use crate::config::{Configuration, Right, Terms};
use crate::message::{Purpose, Shares, Transcript};
use crate::party::{ContextId, Direction, Endpoint, Position};
use crate::secret::{Digest, HASH_LEN, Secret, hash};

/// The label for the exporter of the end-to-end session; its context is empty, its length 32.
pub const SESSION_LABEL: &str = "EXPORTER-mc13 session";

/// The label for the exporter of a leg; its context is empty, its length 32.
pub const LEG_LABEL: &str = "EXPORTER-mc13 leg";

/// What the end-to-end session exports under [`SESSION_LABEL`].
#[derive(Clone, Debug)]
pub struct SessionSecret(Secret);

impl SessionSecret {
    /// The exporter's bytes.
    #[must_use]
    pub fn new(exported: [u8; HASH_LEN]) -> Self {
        Self(Secret::new(exported))
    }

    /// The session's identifier: both endpoints have it, and tell it to their middleboxes.
    pub(crate) fn sid(&self) -> Digest {
        *self.0.derive("sid", b"").bytes()
    }

    pub(crate) fn end(&self, th: &Digest) -> EndKey {
        EndKey(self.0.derive("end", th))
    }
}

/// What a leg exports under [`LEG_LABEL`].
#[derive(Clone, Debug)]
pub struct LegSecret(Secret);

impl LegSecret {
    /// The exporter's bytes.
    #[must_use]
    pub fn new(exported: [u8; HASH_LEN]) -> Self {
        Self(Secret::new(exported))
    }

    /// The leg's key for this session, of this endpoint and for this place.
    pub(crate) fn bind(&self, sid: &Digest, endpoint: Endpoint, position: Position) -> LegKey {
        let place = [endpoint.code(), position.number()];
        let context = hash(&[sid, &place]);
        LegKey(self.0.derive("leg", &context))
    }
}

/// `L[X,i]`.
#[derive(Clone, Debug)]
pub(crate) struct LegKey(Secret);

impl LegKey {
    pub(crate) fn digest(&self) -> Digest {
        hash(&[self.0.bytes()])
    }

    /// The key by which the middlebox says what it did with records that go in this direction.
    pub(crate) fn author(&self, direction: Direction, th: &Digest) -> hmac::Key {
        let context = [&[direction.code()], &th[..]].concat();
        self.0.derive("author", &context).key()
    }

    /// The proof that this middlebox has the keys of its rights.
    pub(crate) fn confirm(
        &self,
        endpoint: Endpoint,
        position: Position,
        granted: &[(ContextId, ContextSecrets)],
        th: &Digest,
    ) -> Digest {
        let place = [position.number(), endpoint.code()];
        let mut proofs = Vec::new();
        for (_, secrets) in granted {
            for secret in std::iter::once(&secrets.read).chain(&secrets.write) {
                proofs.extend_from_slice(secret.derive("kc", &place).bytes());
            }
        }
        self.0.derive("confirm", th).mac(&[&proofs])
    }
}

/// `E`: what only the endpoints have.
#[derive(Clone, Debug)]
pub(crate) struct EndKey(Secret);

impl EndKey {
    pub(crate) fn ready(&self, endpoint: Endpoint) -> Digest {
        *self.0.derive("ready", &[endpoint.code()]).bytes()
    }

    pub(crate) const fn secret(&self) -> &Secret {
        &self.0
    }
}

/// `K[k,read]`, and `K[k,write]` for who may write.
#[derive(Clone, Debug)]
pub(crate) struct ContextSecrets {
    pub(crate) read: Secret,
    pub(crate) write: Option<Secret>,
}

/// The transcript hash.
pub(crate) fn th(configuration: &Configuration, sid: &Digest, transcript: &Transcript) -> Digest {
    let mut rest = Vec::new();
    transcript.write(&mut rest);
    hash(&[b"mc13 th", &configuration.to_bytes(), sid, &rest])
}

/// One key of a context, out of both endpoints' shares.
pub(crate) fn context_key(th: &Digest, client: &Secret, server: &Secret) -> Secret {
    Secret::extract(th, client, server)
}

/// All keys of all contexts, as the endpoints have them.
pub(crate) fn all_secrets(
    terms: &Terms,
    th: &Digest,
    client: &Shares,
    server: &Shares,
) -> Vec<(ContextId, ContextSecrets)> {
    let key = |index, purpose| {
        let (client, server) = (client.share(index, purpose), server.share(index, purpose));
        context_key(th, client, server)
    };
    let contexts = terms.contexts().iter().enumerate();
    contexts
        .map(|(index, context)| {
            let secrets = ContextSecrets {
                read: key(index, Purpose::Read),
                write: Some(key(index, Purpose::Write)),
            };
            (context.id, secrets)
        })
        .collect()
}

/// Of all keys those that this middlebox's rights give it.
pub(crate) fn granted_secrets(
    terms: &Terms,
    position: Position,
    all: &[(ContextId, ContextSecrets)],
) -> Vec<(ContextId, ContextSecrets)> {
    let mut granted = Vec::new();
    for (context, (id, secrets)) in terms.contexts().iter().zip(all) {
        let write = match context.right(position) {
            Right::None => continue,
            Right::Read => None,
            Right::Write => secrets.write.clone(),
        };
        let read = secrets.read.clone();
        granted.push((*id, ContextSecrets { read, write }));
    }
    granted
}
