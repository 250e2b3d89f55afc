//! What the tests of this crate share: parties with keys, and sessions between them.

use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use mctls::config::Right;
use mctls::party::ContextId;

use crate::attacks::contexts;
use crate::auth::{Identity, Party, Refusal, Scheme, Sign, Verify};
use crate::endpoint::{self, Client, Decision, Server};
use crate::error::{Error, Misuse};
use crate::exchange::Entropy;
use crate::list::{MiddleboxList, Place};
use crate::message::Mode;
use crate::middlebox::{self, Middlebox, Own};
use crate::record::Record;
use crate::rehearsal::{Cast, Crossing, Failure, Outcome, records, run};

/// A key whose "certificate" is a name and the public key.
struct Key(EcdsaKeyPair);

impl Sign for Key {
    fn scheme(&self) -> Scheme {
        Scheme::Ecdsa
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misuse> {
        let signed = self.0.sign(&SystemRandom::new(), message);
        signed
            .map(|signature| signature.as_ref().to_vec())
            .map_err(|_| Misuse::Signing)
    }
}

pub(crate) fn identity(name: &str) -> Identity {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
    let certificate = [name.as_bytes(), b"\0", key.public_key().as_ref()].concat();
    Identity {
        chain: vec![certificate],
        key: Arc::new(Key(key)),
    }
}

/// Accepts such certificates for the names in them.
pub(crate) struct ByName;

impl Verify for ByName {
    fn verify(
        &self,
        party: Party<'_>,
        chain: &[Vec<u8>],
        _: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refusal> {
        let (Party::Server(wanted) | Party::Middlebox(_, wanted)) = party;
        let mut parts = chain[0].splitn(2, |byte| *byte == 0);
        let (name, key) = (parts.next(), parts.next());
        if name != Some(wanted.as_bytes()) {
            return Err(Refusal::Certificate);
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.unwrap_or_default());
        key.verify(message, signature)
            .map_err(|_| Refusal::Signature)
    }
}

pub(crate) fn entropy(seed: u8) -> Entropy {
    let mut bytes = [0; Entropy::LEN];
    for (index, byte) in bytes.iter_mut().enumerate() {
        // Below the order of the curve, and not 0.
        *byte = match index % 32 {
            0 => seed / 2 + 1,
            _ => seed ^ (index / 32) as u8,
        };
    }
    Entropy::new(&bytes)
}

/// A session that is to be.
#[derive(Clone)]
pub(crate) struct Setup {
    /// What each middlebox may do, for each context: as the client wants it.
    pub(crate) rights: Vec<Vec<Right>>,
    /// As the server wants it.
    pub(crate) server_rights: Vec<Vec<Right>>,
    pub(crate) mode: Mode,
    pub(crate) server_verifies: Arc<dyn Verify>,
    /// What makes one session's random values others than another's.
    pub(crate) seed: u8,
    /// Names in the middleboxes' certificates, and under which they look for themselves.
    pub(crate) names: Vec<String>,
}

impl Setup {
    pub(crate) fn new(rights: &[&[Right]]) -> Self {
        let rights: Vec<Vec<Right>> = rights.iter().map(|rights| rights.to_vec()).collect();
        Self {
            names: (1..=rights[0].len()).map(name).collect(),
            server_rights: rights.clone(),
            rights,
            mode: Mode::Contributory,
            server_verifies: Arc::new(ByName),
            seed: 1,
        }
    }

    pub(crate) fn list(&self) -> MiddleboxList {
        let place = |name: String| Place {
            address: format!("{name}.example:443"),
            name,
        };
        let boxes = (1..=self.rights[0].len()).map(|number| place(name(number)));
        let contexts = contexts(&self.rights);
        MiddleboxList::new(place("server".into()), boxes.collect(), contexts)
            .expect("as the test has it")
    }

    pub(crate) fn run(
        &self,
        tamper: impl FnMut(Crossing) -> Vec<Crossing>,
    ) -> Result<Outcome, Failure> {
        let mut opening = Vec::new();
        let seed = self.seed;
        let client = Client::start(self.list(), Arc::new(ByName), entropy(seed), &mut opening);
        let boxes = (1..).zip(&self.names).map(|(number, name)| {
            let own = name.clone();
            Middlebox::start(Own {
                is_named: Arc::new(move |name| name == own),
                identity: identity(name),
                entropy: entropy(seed + 2 + number),
            })
        });
        let verify = Arc::clone(&self.server_verifies);
        let server = Server::start(identity("server"), verify, entropy(seed + 1));
        let cast = Cast {
            client: client.expect("entropy that is good"),
            opening,
            boxes: boxes
                .map(|one| one.expect("entropy that is good"))
                .collect(),
            server: server.expect("entropy that is good"),
        };
        let decide = |_: &MiddleboxList| Decision {
            mode: self.mode,
            rights: self.server_rights.clone(),
        };
        run(cast, decide, tamper)
    }

    /// A session that nobody has disturbed.
    pub(crate) fn session(&self) -> Session {
        let outcome = self.run(|crossing| vec![crossing]);
        Session::of(outcome.expect("nobody disturbs it"))
    }
}

pub(crate) fn name(number: usize) -> String {
    format!("box-{number}")
}

/// Everybody of an established session.
pub(crate) struct Session {
    pub(crate) client: endpoint::Established,
    pub(crate) boxes: Vec<middlebox::Established>,
    pub(crate) server: endpoint::Established,
}

impl Session {
    pub(crate) fn of(outcome: Outcome) -> Self {
        let boxes = outcome.boxes.into_iter();
        Self {
            client: outcome.client.expect("the client is ready"),
            boxes: boxes.map(|one| one.expect("it is ready")).collect(),
            server: outcome.server.expect("the server is ready"),
        }
    }

    /// A record of the client.
    pub(crate) fn sent(&mut self, context: u8, data: &[u8]) -> Record {
        let mut out = Vec::new();
        let sent = self.client.sender.seal(ContextId(context), data, &mut out);
        sent.expect("as the test has it");
        one(&out)
    }

    /// A middlebox forwards a record.
    pub(crate) fn forwarded(&mut self, index: usize, record: Record) -> Result<Record, Error> {
        let mut out = Vec::new();
        self.boxes[index]
            .to_server
            .receive(record)?
            .forward(&mut out);
        Ok(one(&out))
    }

    /// A middlebox puts something in a record's place.
    pub(crate) fn replaced(&mut self, index: usize, record: Record, data: &[u8]) -> Record {
        let mut out = Vec::new();
        let passing = self.boxes[index].to_server.receive(record);
        let replaced = passing.expect("a good record").replace(data, &mut out);
        replaced.expect("a writer writes");
        one(&out)
    }
}

/// The one record in some bytes.
pub(crate) fn one(bytes: &[u8]) -> Record {
    let mut all = records(bytes);
    assert_eq!(all.len(), 1);
    all.remove(0)
}
