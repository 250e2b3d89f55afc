//! The handshake's messages: those of TLS 1.2 (RFC 5246, section 7.4) with version 0x0666, and one
//! of the prototype's own.
//!
//! ```text
//! handshake message   type 1 | length 3 | body
//! key material (40)   recipient 1 | sealed key<0..2^24-1> | IV 16 | ciphertext<0..2^24-1>
//!   to the client     recipient 1 | ciphertext<0..2^24-1> | IV<0..2^24-1>
//! its plaintext       for each slice: slice 1 | half to read<0..64> | half to write<0..64>
//!                     (both with a length of 2 bytes; empty where it is not granted)
//! ```
//!
//! Is not: when which is due ([`crate::endpoint`], [`crate::middlebox`]).
//!
//! Invariant: what is read was wholly read; extensions other than 0xff06 are passed over.

use zeroize::Zeroizing;

use crate::dh::Params;
use crate::error::{Error, Malformed};
use crate::list::{CLIENT, Proposal};
use crate::read::{Reader, put_vec};
use crate::record::VERSION;
use crate::schedule::{HALF_LEN, Part, Parts};

pub(crate) const CLIENT_HELLO: u8 = 1;
pub(crate) const SERVER_HELLO: u8 = 2;
pub(crate) const CERTIFICATE: u8 = 11;
pub(crate) const SERVER_KEY_EXCHANGE: u8 = 12;
pub(crate) const SERVER_HELLO_DONE: u8 = 14;
pub(crate) const CLIENT_KEY_EXCHANGE: u8 = 16;
pub(crate) const FINISHED: u8 = 20;
pub(crate) const KEY_MATERIAL: u8 = 40;

/// The suite `TLS_DHE_RSA_WITH_AES_128_CBC_SHA256` (RFC 5246, appendix A.5).
const SUITE: u16 = 0x0067;

/// The extension with the list.
const LIST: u16 = 0xff06;

/// Which signatures a client takes (RFC 5246, section 7.4.1.4.1): RSA with SHA-256.
const SIGNATURE_ALGORITHMS: u16 = 13;
const RSA_SHA256: [u8; 2] = [4, 1];

/// Most certificates of a chain.
const MAX_CHAIN: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    ClientHello(ClientHello),
    ServerHello([u8; 32]),
    Certificate(Vec<Vec<u8>>),
    ServerKeyExchange(KeyExchange),
    ServerHelloDone,
    ClientKeyExchange(Vec<u8>),
    KeyMaterial(Material),
    Finished(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    pub(crate) random: [u8; 32],
    /// Whether suite and compression method are among those that are offered.
    pub(crate) is_suitable: bool,
    pub(crate) proposal: Option<Proposal>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyExchange {
    pub(crate) params: Params,
    pub(crate) signature: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Material {
    pub(crate) recipient: u8,
    /// Sealed with RSA; `None` to the client, who has made the key itself.
    pub(crate) sealed: Option<Vec<u8>>,
    pub(crate) iv: [u8; 16],
    pub(crate) ciphertext: Vec<u8>,
}

impl Message {
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::ClientHello(_) => CLIENT_HELLO,
            Self::ServerHello(_) => SERVER_HELLO,
            Self::Certificate(_) => CERTIFICATE,
            Self::ServerKeyExchange(_) => SERVER_KEY_EXCHANGE,
            Self::ServerHelloDone => SERVER_HELLO_DONE,
            Self::ClientKeyExchange(_) => CLIENT_KEY_EXCHANGE,
            Self::KeyMaterial(_) => KEY_MATERIAL,
            Self::Finished(_) => FINISHED,
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::ClientHello(hello) => hello.write(&mut body),
            Self::ServerHello(random) => {
                body.extend_from_slice(&VERSION.to_be_bytes());
                body.extend_from_slice(random);
                put_vec(&mut body, 1, &[]);
                body.extend_from_slice(&SUITE.to_be_bytes());
                body.push(0);
            }
            Self::Certificate(chain) => {
                let mut all = Vec::new();
                chain.iter().for_each(|one| put_vec(&mut all, 3, one));
                put_vec(&mut body, 3, &all);
            }
            Self::ServerKeyExchange(exchange) => {
                exchange.params.write(&mut body);
                body.extend_from_slice(&RSA_SHA256);
                put_vec(&mut body, 2, &exchange.signature);
            }
            Self::ServerHelloDone => {}
            Self::ClientKeyExchange(value) => put_vec(&mut body, 2, value),
            Self::KeyMaterial(material) => material.write(&mut body),
            Self::Finished(bytes) => body.extend_from_slice(bytes),
        }
        let mut out = vec![self.code()];
        put_vec(&mut out, 3, &body);
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let mut body = Reader::new(reader.vec(3)?);
        reader.finish()?;
        let message = match kind {
            CLIENT_HELLO => Self::ClientHello(ClientHello::read(&mut body)?),
            SERVER_HELLO => Self::ServerHello(server_hello(&mut body)?),
            CERTIFICATE => Self::Certificate(chain(body.vec(3)?)?),
            SERVER_KEY_EXCHANGE => {
                let params = Params::read(&mut body)?;
                if body.array()? != RSA_SHA256 {
                    return Err(Malformed::Value);
                }
                let signature = body.vec(2)?.to_vec();
                Self::ServerKeyExchange(KeyExchange { params, signature })
            }
            SERVER_HELLO_DONE => Self::ServerHelloDone,
            CLIENT_KEY_EXCHANGE => Self::ClientKeyExchange(body.vec(2)?.to_vec()),
            KEY_MATERIAL => Self::KeyMaterial(Material::read(&mut body)?),
            FINISHED => Self::Finished(body.take(body.len())?.to_vec()),
            _ => return Err(Malformed::Value),
        };
        body.finish()?;
        Ok(message)
    }
}

fn version(body: &mut Reader<'_>) -> Result<(), Malformed> {
    match body.u16()? {
        VERSION => Ok(()),
        other => Err(Malformed::Version(other)),
    }
}

fn server_hello(body: &mut Reader<'_>) -> Result<[u8; 32], Malformed> {
    version(body)?;
    let random = body.array()?;
    // A session that could be resumed later: not by this crate.
    body.vec(1)?;
    if body.u16()? != SUITE || body.u8()? != 0 {
        return Err(Malformed::Value);
    }
    if !body.is_empty() {
        body.vec(2)?;
    }
    Ok(random)
}

fn chain(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let (mut reader, mut chain) = (Reader::new(bytes), Vec::new());
    while !reader.is_empty() && chain.len() <= MAX_CHAIN {
        chain.push(reader.vec(3)?.to_vec());
    }
    match chain.len() {
        1..=MAX_CHAIN => Ok(chain),
        other => Err(Malformed::Chain(other)),
    }
}

impl ClientHello {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.random);
        put_vec(out, 1, &[]);
        put_vec(out, 2, &SUITE.to_be_bytes());
        put_vec(out, 1, &[0]);
        let mut extensions = Vec::new();
        if let Some(proposal) = &self.proposal {
            let mut list = Vec::new();
            proposal.write(&mut list);
            extensions.extend_from_slice(&LIST.to_be_bytes());
            put_vec(&mut extensions, 2, &list);
        }
        extensions.extend_from_slice(&SIGNATURE_ALGORITHMS.to_be_bytes());
        let mut algorithms = Vec::new();
        put_vec(&mut algorithms, 2, &RSA_SHA256);
        put_vec(&mut extensions, 2, &algorithms);
        put_vec(out, 2, &extensions);
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        version(body)?;
        let random = body.array()?;
        body.vec(1)?;
        let suites = body.vec(2)?;
        let has_suite = suites.chunks(2).any(|suite| suite == SUITE.to_be_bytes());
        let has_none = body.vec(1)?.contains(&0);
        let mut proposal = None;
        let mut extensions = Reader::new(match body.is_empty() {
            true => &[],
            false => body.vec(2)?,
        });
        while !extensions.is_empty() {
            let kind = extensions.u16()?;
            let data = extensions.vec(2)?;
            if kind == LIST && proposal.replace(Proposal::read(data)?).is_some() {
                return Err(Malformed::Value);
            }
        }
        Ok(Self {
            random,
            is_suitable: has_suite && has_none,
            proposal,
        })
    }
}

impl Material {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.recipient);
        match &self.sealed {
            Some(sealed) => {
                put_vec(out, 3, sealed);
                out.extend_from_slice(&self.iv);
                put_vec(out, 3, &self.ciphertext);
            }
            None => {
                put_vec(out, 3, &self.ciphertext);
                put_vec(out, 3, &self.iv);
            }
        }
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let recipient = body.u8()?;
        let first = body.vec(3)?.to_vec();
        Ok(match recipient {
            CLIENT => Self {
                recipient,
                sealed: None,
                iv: body.vec(3)?.try_into().map_err(|_| Malformed::Value)?,
                ciphertext: first,
            },
            _ => Self {
                recipient,
                sealed: Some(first),
                iv: body.array()?,
                ciphertext: body.vec(3)?.to_vec(),
            },
        })
    }
}

/// The plaintext of key material.
pub(crate) fn write_parts(parts: &Parts) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(parts.len() * (5 + 2 * HALF_LEN)));
    for (slice, part) in parts {
        out.push(*slice);
        for half in [&part.read, &part.write] {
            let half = half.as_ref().map(|half| half.as_slice());
            put_vec(&mut out, 2, half.unwrap_or_default());
        }
    }
    out
}

pub(crate) fn read_parts(bytes: &[u8]) -> Result<Parts, Error> {
    let mut reader = Reader::new(bytes);
    let mut parts = Parts::new();
    while !reader.is_empty() {
        let slice = reader.u8()?;
        let mut half = || match reader.vec(2)? {
            [] => Ok(None),
            bytes => {
                let half = bytes.try_into().map_err(|_| Malformed::Value)?;
                Ok::<_, Malformed>(Some(Zeroizing::new(half)))
            }
        };
        let (read, write) = (half()?, half()?);
        if parts.insert(slice, Part { read, write }).is_some() {
            return Err(Malformed::Value.into());
        }
    }
    Ok(parts)
}
