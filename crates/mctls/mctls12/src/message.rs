//! The messages of the handshake: those of TLS 1.2 (RFC 5246, section 7.4; RFC 8422, section 5),
//! and two for middleboxes.
//!
//! ```text
//!   1  client hello        with one extension, 0xff06: the middlebox list
//!   2  server hello        with one extension, 0xff06: the mode of key distribution
//!  11  certificate         14  server hello done
//!  12  server key exchange 16  client key exchange      20  finished
//!  40  middlebox key material    from an endpoint to a middlebox, or to the other endpoint
//!  41  middlebox hello     to both endpoints: random value, certificates, two ephemeral keys
//! ```
//!
//! Is not: when a message may come ([`crate::client`], [`crate::server`], [`crate::middlebox`]).
//!
//! Invariant: a message that was read, written again and read again, is the same.

use mctls::party::{Endpoint, Position};

use crate::auth::Scheme;
use crate::error::{Error, Malformed};
use crate::exchange::{POINT_LEN, Point};
use crate::list::MiddleboxList;
use crate::read::{Reader, put_vec};
use crate::record::VERSION;

/// Length of what a finished message says, in bytes (RFC 5246, section 7.4.9).
pub(crate) const VERIFY_LEN: usize = 12;

/// Most certificates in a chain.
const MAX_CHAIN: usize = 8;

/// Most bytes of the certificates of a chain.
pub(crate) const MAX_CHAIN_LEN: usize = 16_000;

/// Most suites in an offer.
const MAX_SUITES: usize = 8;

/// The extension of hellos: the prototype's number.
const EXTENSION: u16 = 0xff06;

/// Named curve secp256r1 (RFC 8422, section 5.1.1).
const CURVE: [u8; 3] = [3, 0, 23];

pub(crate) mod kind {
    pub(crate) const CLIENT_HELLO: u8 = 1;
    pub(crate) const SERVER_HELLO: u8 = 2;
    pub(crate) const CERTIFICATE: u8 = 11;
    pub(crate) const SERVER_KEY_EXCHANGE: u8 = 12;
    pub(crate) const SERVER_HELLO_DONE: u8 = 14;
    pub(crate) const CLIENT_KEY_EXCHANGE: u8 = 16;
    pub(crate) const FINISHED: u8 = 20;
    pub(crate) const KEY_MATERIAL: u8 = 40;
    pub(crate) const MIDDLEBOX_HELLO: u8 = 41;
}

/// Who makes the contexts' keys (the paper, sections 3.3 and 3.6). The server chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each endpoint makes half of each key, so both have to agree to each right.
    Contributory,
    /// The client sends middleboxes whole keys. The server does no work for it, and does not learn
    /// what the client has granted.
    ClientDistributes,
}

impl Mode {
    const fn code(self) -> u8 {
        match self {
            Self::Contributory => 0,
            Self::ClientDistributes => 1,
        }
    }

    const fn from_code(code: u8) -> Result<Self, Malformed> {
        match code {
            0 => Ok(Self::Contributory),
            1 => Ok(Self::ClientDistributes),
            other => Err(Malformed::Mode(other)),
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    ClientHello(ClientHello),
    ServerHello(ServerHello),
    Certificate(Vec<Vec<u8>>),
    ServerKeyExchange(Signed<Point>),
    ServerHelloDone,
    ClientKeyExchange(Point),
    Finished([u8; VERIFY_LEN]),
    KeyMaterial(KeyMaterial),
    MiddleboxHello(MiddleboxHello),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    pub(crate) random: [u8; 32],
    pub(crate) suites: Vec<u16>,
    pub(crate) list: MiddleboxList,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerHello {
    pub(crate) random: [u8; 32],
    pub(crate) suite: u16,
    pub(crate) mode: Mode,
}

/// Keys and a signature over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed<K> {
    pub(crate) keys: K,
    pub(crate) scheme: Scheme,
    pub(crate) signature: Vec<u8>,
}

/// The ephemeral keys of a middlebox, one for each endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MiddleboxKeys {
    pub(crate) client: Point,
    pub(crate) server: Point,
}

impl MiddleboxKeys {
    pub(crate) const fn towards(&self, endpoint: Endpoint) -> &Point {
        match endpoint {
            Endpoint::Client => &self.client,
            Endpoint::Server => &self.server,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MiddleboxHello {
    pub(crate) position: Position,
    pub(crate) random: [u8; 32],
    pub(crate) chain: Vec<Vec<u8>>,
    pub(crate) signed: Signed<MiddleboxKeys>,
}

/// Whom key material is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    OtherEndpoint,
    Middlebox(Position),
}

impl Recipient {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::OtherEndpoint => 0,
            Self::Middlebox(position) => position.number(),
        }
    }

    fn from_code(code: u8) -> Result<Self, Malformed> {
        match Position::new(code) {
            Some(position) => Ok(Self::Middlebox(position)),
            None if code == 0 => Ok(Self::OtherEndpoint),
            None => Err(Malformed::Position(code)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyMaterial {
    pub(crate) sender: Endpoint,
    pub(crate) recipient: Recipient,
    pub(crate) sealed: Vec<u8>,
}

/// What a server signs: RFC 8422, section 5.4.
pub(crate) fn server_params(client: &[u8; 32], server: &[u8; 32], key: &Point) -> Vec<u8> {
    let mut out = [client.as_slice(), server].concat();
    put_point(&mut out, key);
    out
}

/// What a middlebox signs. As in TLS, the client's random value and its own are part of it; the
/// server's, the list and the other middleboxes are not.
pub(crate) fn middlebox_params(
    client: &[u8; 32],
    middlebox: &[u8; 32],
    position: Position,
    keys: &MiddleboxKeys,
) -> Vec<u8> {
    let mut out = [client.as_slice(), middlebox, &[position.number()]].concat();
    put_point(&mut out, &keys.client);
    put_point(&mut out, &keys.server);
    out
}

impl Message {
    pub(crate) const fn kind(&self) -> u8 {
        match self {
            Self::ClientHello(_) => kind::CLIENT_HELLO,
            Self::ServerHello(_) => kind::SERVER_HELLO,
            Self::Certificate(_) => kind::CERTIFICATE,
            Self::ServerKeyExchange(_) => kind::SERVER_KEY_EXCHANGE,
            Self::ServerHelloDone => kind::SERVER_HELLO_DONE,
            Self::ClientKeyExchange(_) => kind::CLIENT_KEY_EXCHANGE,
            Self::Finished(_) => kind::FINISHED,
            Self::KeyMaterial(_) => kind::KEY_MATERIAL,
            Self::MiddleboxHello(_) => kind::MIDDLEBOX_HELLO,
        }
    }

    /// The message, header and all.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.kind()];
        put_vec(&mut out, 3, |out| self.write_body(out));
        out
    }

    fn write_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::ClientHello(hello) => {
                put_hello(out, &hello.random);
                put_vec(out, 2, |out| {
                    out.extend(hello.suites.iter().flat_map(|suite| suite.to_be_bytes()));
                });
                // No compression (RFC 7525, section 3.3).
                out.extend_from_slice(&[1, 0]);
                put_extension(out, |out| hello.list.write(out));
            }
            Self::ServerHello(hello) => {
                put_hello(out, &hello.random);
                out.extend_from_slice(&hello.suite.to_be_bytes());
                out.push(0);
                put_extension(out, |out| out.push(hello.mode.code()));
            }
            Self::Certificate(chain) => put_chain(out, chain),
            Self::ServerKeyExchange(signed) => {
                put_point(out, &signed.keys);
                put_signature(out, signed.scheme, &signed.signature);
            }
            Self::ServerHelloDone => {}
            Self::ClientKeyExchange(point) => put_vec(out, 1, |out| out.extend_from_slice(point)),
            Self::Finished(verify) => out.extend_from_slice(verify),
            Self::KeyMaterial(material) => {
                let sender = match material.sender {
                    Endpoint::Client => 0,
                    Endpoint::Server => 1,
                };
                out.extend_from_slice(&[sender, material.recipient.code()]);
                put_vec(out, 2, |out| out.extend_from_slice(&material.sealed));
            }
            Self::MiddleboxHello(hello) => {
                out.push(hello.position.number());
                out.extend_from_slice(&hello.random);
                put_chain(out, &hello.chain);
                put_point(out, &hello.signed.keys.client);
                put_point(out, &hello.signed.keys.server);
                put_signature(out, hello.signed.scheme, &hello.signed.signature);
            }
        }
    }

    /// Reads a message, header and all.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let mut body = Reader::new(reader.vec24()?);
        reader.finish()?;
        let message = Self::parse_body(kind, &mut body)?;
        body.finish()?;
        Ok(message)
    }

    fn parse_body(kind: u8, body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            kind::CLIENT_HELLO => {
                let random = hello(body)?;
                let mut list = Reader::new(body.vec16()?);
                let mut suites = Vec::new();
                while !list.is_empty() && suites.len() < MAX_SUITES {
                    suites.push(list.u16()?);
                }
                list.finish()?;
                body.expect(&[1, 0])?;
                let mut extension = extension(body)?;
                let list = MiddleboxList::read(&mut extension)?;
                extension.finish()?;
                Self::ClientHello(ClientHello {
                    random,
                    suites,
                    list,
                })
            }
            kind::SERVER_HELLO => {
                let random = hello(body)?;
                let suite = body.u16()?;
                body.expect(&[0])?;
                let mut extension = extension(body)?;
                let mode = Mode::from_code(extension.u8()?)?;
                extension.finish()?;
                Self::ServerHello(ServerHello {
                    random,
                    suite,
                    mode,
                })
            }
            kind::CERTIFICATE => Self::Certificate(chain(body)?),
            kind::SERVER_KEY_EXCHANGE => Self::ServerKeyExchange(Signed {
                keys: point(body)?,
                scheme: Scheme::from_code(body.u16()?)?,
                signature: body.vec16()?.to_vec(),
            }),
            kind::SERVER_HELLO_DONE => Self::ServerHelloDone,
            kind::CLIENT_KEY_EXCHANGE => Self::ClientKeyExchange(bare_point(body)?),
            kind::FINISHED => Self::Finished(body.array()?),
            kind::KEY_MATERIAL => Self::KeyMaterial(KeyMaterial {
                sender: match body.u8()? {
                    0 => Endpoint::Client,
                    1 => Endpoint::Server,
                    other => return Err(Malformed::Endpoint(other)),
                },
                recipient: Recipient::from_code(body.u8()?)?,
                sealed: body.vec16()?.to_vec(),
            }),
            kind::MIDDLEBOX_HELLO => {
                let number = body.u8()?;
                Self::MiddleboxHello(MiddleboxHello {
                    position: Position::new(number).ok_or(Malformed::Position(number))?,
                    random: body.array()?,
                    chain: chain(body)?,
                    signed: Signed {
                        keys: MiddleboxKeys {
                            client: point(body)?,
                            server: point(body)?,
                        },
                        scheme: Scheme::from_code(body.u16()?)?,
                        signature: body.vec16()?.to_vec(),
                    },
                })
            }
            other => return Err(Malformed::MessageType(other)),
        })
    }
}

/// Version, random value, and an empty session id.
fn put_hello(out: &mut Vec<u8>, random: &[u8; 32]) {
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(random);
    out.push(0);
}

fn hello(body: &mut Reader<'_>) -> Result<[u8; 32], Malformed> {
    let version = body.u16()?;
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let random = body.array()?;
    body.expect(&[0])?;
    Ok(random)
}

fn put_extension(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_vec(out, 2, |out| {
        out.extend_from_slice(&EXTENSION.to_be_bytes());
        put_vec(out, 2, write);
    });
}

/// The one extension; others, of a later release, are passed over.
fn extension<'a>(body: &mut Reader<'a>) -> Result<Reader<'a>, Malformed> {
    let mut all = Reader::new(body.vec16()?);
    let mut found = None;
    while !all.is_empty() {
        let (number, data) = (all.u16()?, all.vec16()?);
        if number == EXTENSION && found.replace(data).is_some() {
            return Err(Malformed::Value);
        }
    }
    found.map(Reader::new).ok_or(Malformed::Truncated)
}

fn put_chain(out: &mut Vec<u8>, chain: &[Vec<u8>]) {
    put_vec(out, 3, |out| {
        for certificate in chain {
            put_vec(out, 3, |out| out.extend_from_slice(certificate));
        }
    });
}

fn chain(body: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    let list = body.vec24()?;
    if list.len() > MAX_CHAIN_LEN + 3 * MAX_CHAIN {
        let (kind, length) = (kind::CERTIFICATE, list.len());
        return Err(Malformed::TooLong { kind, length });
    }
    let mut list = Reader::new(list);
    let mut chain = Vec::new();
    while !list.is_empty() && chain.len() <= MAX_CHAIN {
        chain.push(list.vec24()?.to_vec());
    }
    match chain.len() {
        1..=MAX_CHAIN => Ok(chain),
        count => Err(Malformed::Chain(count)),
    }
}

fn put_point(out: &mut Vec<u8>, point: &Point) {
    out.extend_from_slice(&CURVE);
    put_vec(out, 1, |out| out.extend_from_slice(point));
}

fn point(body: &mut Reader<'_>) -> Result<Point, Malformed> {
    body.expect(&CURVE)?;
    bare_point(body)
}

fn bare_point(body: &mut Reader<'_>) -> Result<Point, Malformed> {
    let bytes = body.vec8()?;
    <[u8; POINT_LEN]>::try_from(bytes).map_err(|_| Malformed::Point)
}

fn put_signature(out: &mut Vec<u8>, scheme: Scheme, signature: &[u8]) {
    out.extend_from_slice(&scheme.code().to_be_bytes());
    put_vec(out, 2, |out| out.extend_from_slice(signature));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{Context, Place};
    use mctls::config::Right;
    use mctls::party::ContextId;

    fn all() -> Vec<Message> {
        let place = |name: &str| Place {
            name: name.into(),
            address: "a:1".into(),
        };
        let context = Context {
            id: ContextId(1),
            purpose: "p".into(),
            rights: vec![Right::Read],
        };
        let list = MiddleboxList::new(place("s"), vec![place("m")], vec![context]);
        let keys = MiddleboxKeys {
            client: [4; POINT_LEN],
            server: [5; POINT_LEN],
        };
        let position = Position::new(1).expect("as the test has it");
        vec![
            Message::ClientHello(ClientHello {
                random: [1; 32],
                suites: vec![0xc023, 1],
                list: list.expect("as the test has it"),
            }),
            Message::ServerHello(ServerHello {
                random: [2; 32],
                suite: 0xc023,
                mode: Mode::ClientDistributes,
            }),
            Message::Certificate(vec![vec![1; 400], vec![2]]),
            Message::ServerKeyExchange(Signed {
                keys: [3; POINT_LEN],
                scheme: Scheme::Rsa,
                signature: vec![9; 70],
            }),
            Message::ServerHelloDone,
            Message::ClientKeyExchange([6; POINT_LEN]),
            Message::Finished([7; VERIFY_LEN]),
            Message::KeyMaterial(KeyMaterial {
                sender: Endpoint::Server,
                recipient: Recipient::Middlebox(position),
                sealed: vec![8; 64],
            }),
            Message::KeyMaterial(KeyMaterial {
                sender: Endpoint::Client,
                recipient: Recipient::OtherEndpoint,
                sealed: Vec::new(),
            }),
            Message::MiddleboxHello(MiddleboxHello {
                position,
                random: [1; 32],
                chain: vec![vec![1; 3]],
                signed: Signed {
                    keys,
                    scheme: Scheme::Ecdsa,
                    signature: vec![9; 70],
                },
            }),
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in all() {
            assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
        }
    }

    #[test]
    fn a_message_with_a_byte_more_or_fewer_is_refused() {
        for message in all() {
            let kind = message.kind();
            let bytes = message.to_bytes();
            let reframed = |body: &[u8]| {
                let mut out = vec![kind];
                put_vec(&mut out, 3, |out| out.extend_from_slice(body));
                Message::parse(&out)
            };
            let body = &bytes[4..];
            assert!(reframed(&[body, &[0]].concat()).is_err(), "{kind}");
            for length in 0..body.len() {
                assert!(reframed(&body[..length]).is_err(), "{kind} {length}");
            }
        }
    }

    #[test]
    fn a_chain_out_of_bounds_is_refused() {
        let refused = |chain: Vec<Vec<u8>>| {
            Message::parse(&Message::Certificate(chain).to_bytes()).expect_err("out of bounds")
        };
        assert_eq!(refused(Vec::new()), Malformed::Chain(0).into());
        assert_eq!(refused(vec![vec![1]; 9]), Malformed::Chain(9).into());
        let Error::Malformed(Malformed::TooLong { .. }) = refused(vec![vec![1; 17_000]]) else {
            panic!("a long chain");
        };
    }
}
