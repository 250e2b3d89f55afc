//! Both ends in one process, with fixed keys and signatures that are hashes: for tests and for
//! fuzzing.

use std::sync::Arc;

use tandem_wire::UnixTime;

use crate::auth::{Identity, Refused, Scheme, Sign, Verify};
use crate::client::{CertificateOrder, Client, ClientConfig, Known, Remedy, Start};
use crate::error::{Error, Misuse};
use crate::exchange::Entropy;
use crate::record::Received;
use crate::secret::sha256;
use crate::server::{CachedInfo, Server, ServerConfig};
use crate::three_way::{Freshness, Secrecy, Share, ShareId, ThreeWay};

pub(crate) const NOW: UnixTime = UnixTime(1_000_000);
pub(crate) const LIFETIME: u32 = 600;
/// The private key of the share.
pub(crate) const SHARE_KEY: [u8; 32] = [0x53; 32];

/// Signs by a hash, and believes those hashes; certificates are good while they have this text.
pub(crate) struct Hashes(pub(crate) Vec<u8>);

impl Hashes {
    fn signature(message: &[u8]) -> Vec<u8> {
        sha256(message).to_vec()
    }
}

impl Sign for Hashes {
    fn scheme(&self) -> Scheme {
        Scheme::Ecdsa
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misuse> {
        Ok(Self::signature(message))
    }
}

impl Verify for Hashes {
    fn certificate(&self, _: &str, chain: &[&[u8]]) -> Result<(), Refused> {
        (chain.first() == Some(&self.0.as_slice()))
            .then_some(())
            .ok_or(Refused)
    }

    fn signature(
        &self,
        _: &[u8],
        _: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refused> {
        (signature == Self::signature(message))
            .then_some(())
            .ok_or(Refused)
    }
}

/// The leaf of the rehearsals.
pub(crate) fn leaf() -> Vec<u8> {
    vec![0x30; 900]
}

pub(crate) fn entropy(seed: u8) -> Entropy {
    Entropy::new(&[seed; Entropy::LEN])
}

pub(crate) fn client_config(remedy: Remedy) -> ClientConfig {
    ClientConfig {
        name: "www.tandem.example".to_owned(),
        verify: Arc::new(Hashes(leaf())),
        remedy,
        start: Start::AfterFinished,
        identity: None,
        order: CertificateOrder::WhenAsked,
    }
}

pub(crate) fn server_config(freshness: Arc<dyn Freshness>, secrecy: Secrecy) -> ServerConfig {
    let share = Share::new(ShareId([1; 8]), &SHARE_KEY, LIFETIME);
    ServerConfig {
        identity: Identity {
            chain: vec![leaf()],
            key: Arc::new(Hashes(leaf())),
        },
        cached_info: CachedInfo::Used,
        three_way: Some(ThreeWay {
            share: Arc::new(share.expect("any 32 bytes are a key of X25519")),
            freshness,
            secrecy,
        }),
    }
}

/// Client and server of one connection, and every byte between them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: Client,
    pub(crate) server: Server,
    /// What each sent, flight by flight: the client's first, then the server's, and so on.
    pub(crate) flights: Vec<Vec<u8>>,
}

impl Pair {
    pub(crate) fn new(
        client: ClientConfig,
        server: ServerConfig,
        known: Option<&Known>,
        early: &[u8],
        seed: u8,
    ) -> Result<Self, Error> {
        Ok(Self {
            client: Client::start(Arc::new(client), known, NOW, entropy(seed), early)?,
            server: Server::new(Arc::new(server), entropy(seed ^ 0x80)),
            flights: Vec::new(),
        })
    }

    /// Until neither has anything to say; `change` sees the bytes of each flight by its number.
    pub(crate) fn run(&mut self, mut change: impl FnMut(usize, &mut Vec<u8>)) -> Result<(), Error> {
        loop {
            let at = self.flights.len();
            let mut up = self.client.take_output();
            let is_over = up.is_empty();
            change(at, &mut up);
            let up_result = self.server.handle_input(&up);
            self.flights.push(up);
            let mut down = self.server.take_output();
            if is_over && down.is_empty() {
                return up_result;
            }
            change(at + 1, &mut down);
            let down_result = self.client.handle_input(&down);
            self.flights.push(down);
            up_result?;
            down_result?;
        }
    }
}

/// All that an end received.
pub(crate) fn received(mut next: impl FnMut() -> Option<Received>) -> Vec<Received> {
    std::iter::from_fn(&mut next).collect()
}
