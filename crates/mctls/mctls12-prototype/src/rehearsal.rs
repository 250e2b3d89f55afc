//! Everybody of a session in one place, with a key that everybody knows: for the fuzz targets and
//! the tests.
//!
//! Is not: part of a real session.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_lc_rs::digest;
use mctls::config::Right;
use mctls::party::{ContextId, Direction, Endpoint};
use mctls12::list::{Context, MiddleboxList, Place};
use zeroize::Zeroizing;

use crate::auth::{Identity, Party, Private, Refusal, RsaKey, Verify};
use crate::endpoint::{self, Handshake};
use crate::entropy::Entropy;
use crate::error::{Error, Misuse};
use crate::list::host_of;
use crate::middlebox::{self, Hops, Middlebox, Own};
use crate::modular::power;
use crate::record::{ContentType, HEADER_LEN, Incoming, Record};

/// A key of 1024 bits that everybody knows, made for tests.
#[rustfmt::skip]
const MODULUS: [u8; 128] = [
    0xbc, 0x34, 0x95, 0x39, 0x6c, 0x32, 0xe2, 0xc4, 0x05, 0xb3, 0xc7, 0xab, 0x51, 0xbc, 0xa5, 0x45,
    0xc1, 0x3a, 0x77, 0x1d, 0x96, 0x11, 0x47, 0x5b, 0xd1, 0x7d, 0x2a, 0xfd, 0x3f, 0x80, 0xb5, 0x87,
    0x4e, 0x95, 0x2e, 0x61, 0xd0, 0x05, 0xfe, 0x17, 0xa6, 0x3e, 0xb5, 0xe5, 0xf1, 0x76, 0xd0, 0x4d,
    0x4b, 0x60, 0x76, 0x44, 0xb3, 0x42, 0xe8, 0x16, 0xc0, 0x70, 0x0f, 0xe6, 0x54, 0xea, 0xd2, 0x21,
    0x4a, 0xa8, 0x89, 0xa4, 0x1f, 0x2b, 0x15, 0xee, 0x9d, 0x28, 0x98, 0x5b, 0xf4, 0x7d, 0x4f, 0x2a,
    0x1a, 0x5c, 0x04, 0x71, 0x60, 0xca, 0x90, 0x88, 0x1b, 0xe8, 0x4d, 0x6a, 0xc4, 0x2f, 0x55, 0x69,
    0xae, 0xdb, 0x55, 0x05, 0x83, 0x89, 0x91, 0x95, 0x92, 0xb8, 0xbe, 0x81, 0x94, 0x17, 0x71, 0xbe,
    0x8d, 0x0b, 0xc1, 0x5a, 0xca, 0x11, 0x57, 0x5a, 0xd5, 0x15, 0x5a, 0x6d, 0xc0, 0x58, 0x62, 0x7d,
];
#[rustfmt::skip]
const PRIVATE_EXPONENT: [u8; 128] = [
    0x54, 0x30, 0xdd, 0x94, 0x3b, 0x6f, 0xa3, 0xfb, 0x76, 0x65, 0x8e, 0xeb, 0x77, 0x7c, 0x01, 0x1e,
    0xec, 0x2a, 0x80, 0x40, 0x8e, 0xf2, 0x19, 0xce, 0xdc, 0x2e, 0xb6, 0xfd, 0x64, 0xdb, 0xe9, 0xd8,
    0xa6, 0x71, 0x9b, 0xb7, 0x0b, 0xbc, 0xb2, 0x86, 0xd7, 0xca, 0x73, 0xca, 0x72, 0x32, 0xe9, 0x49,
    0xba, 0x6f, 0x63, 0x58, 0xa6, 0x2c, 0x46, 0xf0, 0x6e, 0x93, 0x72, 0xb9, 0x61, 0xc1, 0x4d, 0xcf,
    0xec, 0x1e, 0x20, 0x16, 0x4f, 0xcb, 0x79, 0x5c, 0x03, 0xcd, 0x78, 0xa9, 0xbe, 0x0c, 0xc4, 0x56,
    0x3a, 0xdc, 0x9d, 0x26, 0x0b, 0xfd, 0xef, 0xbc, 0xf5, 0xd5, 0xc0, 0x57, 0xff, 0x25, 0x45, 0x37,
    0xb8, 0xc9, 0x30, 0x59, 0x2e, 0x1c, 0x7c, 0xbb, 0x5d, 0x4a, 0x77, 0x9c, 0x90, 0x9b, 0x0f, 0x28,
    0xc6, 0xe6, 0xfb, 0xa1, 0x9a, 0xc1, 0x23, 0x0c, 0xb7, 0x7f, 0x98, 0x09, 0x82, 0x7c, 0x61, 0x4d,
];

pub(crate) fn toy_key() -> RsaKey {
    RsaKey::new(&MODULUS, &[1, 0, 1]).expect("1024 bits")
}

/// That key's holder.
pub(crate) struct Toy;

impl Private for Toy {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Misuse> {
        let hash = digest::digest(&digest::SHA256, message);
        let block = crate::rsa::signature_block(MODULUS.len(), hash.as_ref());
        let signature = power(&block, &PRIVATE_EXPONENT, &MODULUS);
        signature.map(|bytes| bytes.to_vec()).ok_or(Misuse::Signing)
    }

    fn open(&self, sealed: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
        let block = power(sealed, &PRIVATE_EXPONENT, &MODULUS)?;
        let (padding, key) = block.split_last_chunk()?;
        let is_padded = padding.starts_with(&[0, 2])
            && padding.ends_with(&[0])
            && !padding[2..padding.len() - 1].contains(&0);
        is_padded.then(|| Zeroizing::new(*key))
    }
}

/// Believes everybody whose certificate is one byte.
pub(crate) struct Anybody;

impl Verify for Anybody {
    fn verify(&self, _: Party<'_>, chain: &[Vec<u8>]) -> Result<RsaKey, Refusal> {
        match chain {
            [leaf] if leaf.len() == 1 => Ok(toy_key()),
            _ => Err(Refusal::Certificate),
        }
    }
}

/// Who takes part.
pub(crate) struct Cast {
    pub(crate) client: Handshake,
    pub(crate) opening: Vec<u8>,
    pub(crate) boxes: Vec<Middlebox>,
    pub(crate) server: Handshake,
}

/// How it ended for each: `None` where it did not.
pub(crate) struct Outcome {
    pub(crate) client: Option<endpoint::Established>,
    pub(crate) boxes: Vec<Option<middlebox::Established>>,
    pub(crate) server: Option<endpoint::Established>,
}

/// A record on a hop: hop 0 is the client's.
#[derive(Clone)]
pub(crate) struct Crossing {
    pub(crate) hop: usize,
    pub(crate) direction: Direction,
    pub(crate) record: Record,
}

/// Who has given up, and why.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "tests look at them"))]
pub(crate) struct Failure {
    pub(crate) at: usize,
    pub(crate) error: Error,
}

pub(crate) fn entropy(seed: u8) -> Entropy {
    Entropy::new(&[seed; Entropy::LEN])
}

/// The address of a middlebox.
pub(crate) fn address(number: usize) -> String {
    format!("192.0.2.{number}:4433")
}

/// A session with these rights, for each context, as client and server want them.
pub(crate) fn cast(rights: &[&[Right]], servers: &[&[Right]]) -> Cast {
    let place = |address: String| Place {
        name: host_of(&address).to_owned(),
        address,
    };
    let boxes = 1..=rights.first().map_or(0, |rights| rights.len());
    let contexts = (1..).zip(rights).map(|(id, rights)| Context {
        id: ContextId(id),
        purpose: format!("slices_{}", id + 1),
        rights: rights.to_vec(),
    });
    let places = boxes.clone().map(|number| place(address(number)));
    let server = place("192.0.2.99:4433".into());
    let list = MiddleboxList::new(server, places.collect(), contexts.collect());
    let list = list.expect("this list is in bounds");
    let identity = || Identity {
        chain: vec![vec![1]],
        key: Arc::new(Toy),
    };
    let verify = Arc::new(Anybody);
    let mut opening = Vec::new();
    let client = Handshake::client(list, verify.clone(), entropy(1), &mut opening);
    let boxes = boxes.map(|number| {
        let own = address(number);
        Middlebox::start(Own {
            is_mine: Arc::new(move |address| address == own),
            identity: identity(),
            entropy: entropy(u8::try_from(number).unwrap_or(0) + 2),
        })
    });
    let servers: Vec<Vec<Right>> = servers.iter().map(|rights| rights.to_vec()).collect();
    let decide = Arc::new(move |_: &MiddleboxList| Some(servers.clone()));
    Cast {
        client: client.expect("this list is in bounds"),
        opening,
        boxes: boxes.collect(),
        server: Handshake::server(identity(), verify, entropy(2), decide),
    }
}

/// The records in some bytes that this crate has written.
pub(crate) fn records(mut bytes: &[u8]) -> Vec<Record> {
    let mut out = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() {
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let kind = ContentType::from_code(header[0]).expect("its own record");
        out.push(Record {
            kind,
            slice: header[5],
            fragment: rest[..len].to_vec(),
        });
        bytes = &rest[len..];
    }
    out
}

/// Who stands somewhere on the way.
enum Role {
    Endpoint(Option<Box<Handshake>>),
    Middlebox(Option<Box<Middlebox>>),
}

struct Node {
    party: Role,
    /// From the client's side and from the server's.
    incoming: [Incoming; 2],
}

/// Lets everybody talk until nobody has anything more to say. `tamper` says what becomes of each
/// record on each hop.
pub(crate) fn run(
    cast: Cast,
    mut tamper: impl FnMut(Crossing) -> Vec<Crossing>,
) -> Result<Outcome, Failure> {
    let boxes = cast
        .boxes
        .into_iter()
        .map(|one| Role::Middlebox(Some(Box::new(one))));
    let parties = std::iter::once(Role::Endpoint(Some(Box::new(cast.client))))
        .chain(boxes)
        .chain([Role::Endpoint(Some(Box::new(cast.server)))]);
    let mut nodes: Vec<Node> = parties
        .map(|party| Node {
            party,
            incoming: Default::default(),
        })
        .collect();
    let last = nodes.len() - 1;
    let mut outcome = Outcome {
        client: None,
        boxes: (1..last).map(|_| None).collect(),
        server: None,
    };
    let mut queue: VecDeque<Crossing> = VecDeque::new();
    let send = |queue: &mut VecDeque<Crossing>, hop, direction, bytes: &[u8]| {
        queue.extend(records(bytes).into_iter().map(|record| Crossing {
            hop,
            direction,
            record,
        }));
    };
    send(&mut queue, 0, Direction::ToServer, &cast.opening);
    while let Some(crossing) = queue.pop_front() {
        for crossing in tamper(crossing) {
            let (at, from, side) = match crossing.direction {
                Direction::ToServer => (crossing.hop + 1, Endpoint::Client, 0),
                Direction::ToClient => (crossing.hop, Endpoint::Server, 1),
            };
            let failed = |error| Failure { at, error };
            let node = &mut nodes[at];
            let mut bytes = Vec::new();
            crossing.record.write(&mut bytes);
            node.incoming[side].push(&bytes).map_err(failed)?;
            while let Some(input) = node.incoming[side].next().map_err(failed)? {
                let mut hops = Hops::default();
                match &mut node.party {
                    Role::Endpoint(handshake) => {
                        // What comes behind the handshake has no place in this rehearsal.
                        let Some(now) = handshake.take() else {
                            continue;
                        };
                        let out = match at {
                            0 => &mut hops.to_server,
                            _ => &mut hops.to_client,
                        };
                        match now.handle(input, out).map_err(failed)? {
                            endpoint::Progress::Handshake(next) => *handshake = Some(next),
                            endpoint::Progress::Established(done) if at == 0 => {
                                outcome.client = Some(*done);
                            }
                            endpoint::Progress::Established(done) => outcome.server = Some(*done),
                        }
                    }
                    Role::Middlebox(middlebox) => {
                        let Some(now) = middlebox.take() else {
                            continue;
                        };
                        match now.handle(from, input, &mut hops).map_err(failed)? {
                            middlebox::Progress::Handshake(next) => *middlebox = Some(next),
                            middlebox::Progress::Established(done) => {
                                outcome.boxes[at - 1] = Some(*done);
                            }
                        }
                    }
                }
                if at > 0 {
                    send(&mut queue, at - 1, Direction::ToClient, &hops.to_client);
                }
                if at < last {
                    send(&mut queue, at, Direction::ToServer, &hops.to_server);
                }
            }
        }
    }
    Ok(outcome)
}
