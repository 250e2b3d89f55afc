//! The floor of a handshake: the bytes that are fresh by design, which no proxy can leave out, plus
//! a header for each flight.
//!
//! Fresh are: randoms, session identifiers (an echo of the client's is not), public key shares and
//! encrypted secrets, signatures, new tickets, and Finished as its whole encrypted fragment, since
//! at level 0 nobody but the endpoints can compute any of it. Not fresh are certificates, names,
//! lists of what is supported, and all framing. To that come 28 bytes, IPv4's and UDP's
//! headers, for each one-way flight.
//!
//! Only TLS 1.0 to 1.2 shows all of them. In TLS 1.3 signature and Finished are encrypted: of them
//! the length counts, which follows from the server's key and the suite. Without the server's
//! consent a proxy cannot tell them from the rest, so that there the floor is out of its reach.

use std::borrow::Cow;

use tandem_trace::Exchange;
use tandem_wire::tls::{
    ClientHello, ExtensionType, HandshakeType, ProtocolVersion, ServerHello, stream,
};

use crate::phases::{self, Phases};

/// IPv4's header of 20 bytes and UDP's of 8 (RFC 791, RFC 768).
const FLIGHT_HEADERS: usize = 28;

/// The curve type `named_curve` (RFC 8422, section 5.4).
const NAMED_CURVE: u8 = 3;

/// The floor of a handshake, bytes. `None` for TLS 1.3 and for messages that do not parse.
pub fn floor_bytes(exchange: &Exchange, phases: &Phases) -> Option<usize> {
    let fresh: usize = fresh(exchange, phases)?.iter().map(Vec::len).sum();
    Some(fresh + FLIGHT_HEADERS * phases.flights)
}

/// The floor of a handshake of TLS 1.3 whose signatures have so many bytes: the server's, and the
/// client's where it shows a certificate. `None` for older versions, where the server asked for
/// another hello, and for messages that do not parse.
pub fn floor_bytes_in_tls13(
    exchange: &Exchange,
    phases: &Phases,
    signatures: usize,
) -> Option<usize> {
    /// Around a message in a protected record: the message's header, the content's type, the tag
    /// (RFC 8446, sections 4 and 5.2).
    const AROUND_FINISHED: usize = 4 + 1 + 16;
    const AES_256_GCM_SHA384: u16 = 0x1302;
    if phases.version.0 < ProtocolVersion::TLS1_3.0 {
        return None;
    }
    let of = |stream, wanted| {
        let found = messages(stream).into_iter();
        found.filter(move |(msg_type, _)| *msg_type == wanted)
    };
    let (up, down) = (exchange.up.sent.bytes(), exchange.down.sent.bytes());
    let (_, client) = of(up, HandshakeType::CLIENT_HELLO).next()?;
    let (_, server) = of(down, HandshakeType::SERVER_HELLO).next()?;
    let (client, server) = (
        ClientHello::parse(&client).ok()?,
        ServerHello::parse(&server).ok()?,
    );
    if server.is_hello_retry_request() {
        return None;
    }
    let (mut offered, _) = vector16(client.extensions()?.find(ExtensionType::KEY_SHARE)?)?;
    let mut shares = 0;
    while !offered.is_empty() {
        let (share, rest) = vector16(offered.get(2..)?)?;
        shares += share.len();
        offered = rest;
    }
    let answer = server.extensions()?.find(ExtensionType::KEY_SHARE)?;
    let (answer, _) = vector16(answer.get(2..)?)?;
    let hash = match server.cipher_suite() {
        AES_256_GCM_SHA384 => 48,
        _ => 32,
    };
    let hellos = client.random().len() + client.session_id().len() + server.random().len();
    let fresh = hellos + shares + answer.len() + signatures + hash + hash + AROUND_FINISHED;
    Some(fresh + FLIGHT_HEADERS * phases.flights)
}

/// The fresh bytes of a handshake, piece by piece, those of the client first. `None` as for
/// [`floor_bytes`].
pub(crate) fn fresh(exchange: &Exchange, phases: &Phases) -> Option<Vec<Vec<u8>>> {
    if phases.version.0 >= ProtocolVersion::TLS1_3.0 {
        return None;
    }
    let (up, down) = (exchange.up.sent.bytes(), exchange.down.sent.bytes());
    let client_messages = messages(up);
    let server_messages = messages(down);
    let session = client_messages.iter().find_map(|(msg_type, body)| {
        (*msg_type == HandshakeType::CLIENT_HELLO)
            .then(|| {
                ClientHello::parse(body)
                    .ok()
                    .map(|hello| hello.session_id().to_vec())
            })
            .flatten()
    })?;
    let mut pieces = Vec::new();
    for (stream, messages) in [(up, client_messages), (down, server_messages)] {
        for (msg_type, body) in &messages {
            let fresh = fresh_in(*msg_type, body, &session, phases.version)?;
            pieces.extend(fresh.into_iter().map(<[u8]>::to_vec));
        }
        pieces.push(phases::finished_record(stream)?.fragment.to_vec());
    }
    Some(pieces)
}

fn messages(stream: &[u8]) -> Vec<(HandshakeType, Cow<'_, [u8]>)> {
    stream::scan::messages(stream)
        .messages
        .iter()
        .map(|span| (span.msg_type, span.body(stream)))
        .collect()
}

fn fresh_in<'a>(
    msg_type: HandshakeType,
    body: &'a [u8],
    client_session: &[u8],
    version: ProtocolVersion,
) -> Option<Vec<&'a [u8]>> {
    match msg_type {
        HandshakeType::CLIENT_HELLO => {
            let hello = ClientHello::parse(body).ok()?;
            Some(vec![hello.random(), hello.session_id()])
        }
        HandshakeType::SERVER_HELLO => {
            let hello = ServerHello::parse(body).ok()?;
            let is_echo = hello.session_id() == client_session;
            let session = (!is_echo).then_some(hello.session_id());
            Some([&hello.random()[..]].into_iter().chain(session).collect())
        }
        HandshakeType::SERVER_KEY_EXCHANGE => server_key_exchange(body, version),
        HandshakeType::CLIENT_KEY_EXCHANGE => client_key_exchange(body).map(|share| vec![share]),
        HandshakeType::CERTIFICATE_VERIFY => {
            signature(body, version).map(|signature| vec![signature])
        }
        // Lifetime hint, then the ticket (RFC 5077, section 3.3).
        HandshakeType::NEW_SESSION_TICKET => {
            vector16(body.get(4..)?).map(|(ticket, _)| vec![ticket])
        }
        _ => Some(Vec::new()),
    }
}

/// The public share and the signature; for finite-field groups without the group.
fn server_key_exchange(body: &[u8], version: ProtocolVersion) -> Option<Vec<&[u8]>> {
    if let [NAMED_CURVE, _, _, length, rest @ ..] = body
        && let Some((share, rest)) = rest.split_at_checked(usize::from(*length))
        && let Some(signature) = signature(rest, version)
    {
        return Some(vec![share, signature]);
    }
    let (_prime, rest) = vector16(body)?;
    let (_generator, rest) = vector16(rest)?;
    let (share, rest) = vector16(rest)?;
    Some(vec![share, signature(rest, version)?])
}

/// A public share behind one byte of length, or an encrypted secret or finite-field share behind
/// two.
fn client_key_exchange(body: &[u8]) -> Option<&[u8]> {
    match body {
        [length, share @ ..] if usize::from(*length) == share.len() => Some(share),
        _ => vector16(body).map(|(secret, _)| secret),
    }
}

/// A signature that fills `body`, with its algorithm in front since TLS 1.2.
fn signature(body: &[u8], version: ProtocolVersion) -> Option<&[u8]> {
    let body = if version.0 >= ProtocolVersion::TLS1_2.0 {
        body.get(2..)?
    } else {
        body
    };
    let (signature, rest) = vector16(body)?;
    rest.is_empty().then_some(signature)
}

/// A vector with two bytes of length, and what follows it.
fn vector16(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [high, low, rest @ ..] = bytes else {
        return None;
    };
    rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))
}

#[cfg(test)]
pub(crate) mod tests {
    use tandem_trace::Seen;
    use tandem_trace::samples::conversation;

    use super::*;

    fn message(msg_type: u8, body: &[u8]) -> Vec<u8> {
        let length = body.len() as u16;
        let mut record = vec![22, 3, 3];
        record.extend((length + 4).to_be_bytes());
        record.extend([msg_type, 0]);
        record.extend(length.to_be_bytes());
        record.extend(body);
        record
    }

    fn finished() -> Vec<u8> {
        let mut bytes = vec![20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 40];
        bytes.extend([0xaa; 40]);
        bytes
    }

    /// Of [`handshake`]: 32 + 32 + 32 (session) + 65 + 256 + 65 + 40 + 40.
    pub(crate) const FRESH: usize = 32 + 32 + 32 + 65 + 256 + 65 + 40 + 40;

    /// An ECDHE handshake of TLS 1.2, and data; the server shows this certificate.
    pub(crate) fn handshake(certificate: &[u8]) -> Vec<Seen> {
        let mut client_hello = vec![3, 3];
        client_hello.extend([1; 32]);
        client_hello.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
        let mut server_hello = vec![3, 3];
        server_hello.extend([2; 32]);
        server_hello.push(32);
        server_hello.extend([3; 32]);
        server_hello.extend([0xc0, 0x2f, 0]);
        let mut exchange_body = vec![3, 0, 23, 65];
        exchange_body.extend([4; 65]);
        exchange_body.extend([8, 4, 1, 0]);
        exchange_body.extend([5; 256]);
        let vector = |bytes: &[u8]| {
            let length = bytes.len() as u16;
            [&[0][..], &length.to_be_bytes(), bytes].concat()
        };
        let server = [
            message(2, &server_hello),
            message(11, &vector(&vector(certificate))),
            message(12, &exchange_body),
            message(14, &[]),
        ]
        .concat();
        let mut share = vec![65];
        share.extend([6; 65]);
        let client = [message(16, &share), finished()].concat();
        let last = finished();
        let data = [23, 3, 3, 0, 3, 1, 2, 3];
        conversation(&[
            (true, &message(1, &client_hello)),
            (false, &server),
            (true, &client),
            (false, &last),
            (true, &data),
            (false, &data),
        ])
    }

    #[test]
    fn fresh_bytes_of_a_full_handshake_are_counted() -> Result<(), String> {
        let seen = handshake(&[9, 9]);
        let exchange = Exchange::find(&seen, &seen, 443).ok_or("no connection found")?;
        let phases = Phases::of(&exchange).ok_or("no handshake found")?;
        assert_eq!(phases.flights, 4);
        assert_eq!(phases.finished.seconds_since(exchange.syn), 5.0);
        assert_eq!(
            phases.first_byte.map(|at| at.seconds_since(exchange.syn)),
            Some(7.0)
        );
        assert_eq!(
            exchange.down.sent.bytes().len() - phases.down_end,
            8,
            "data"
        );
        assert_eq!(floor_bytes(&exchange, &phases), Some(FRESH + 4 * 28));
        Ok(())
    }

    #[test]
    fn of_tls_1_3_shares_count_and_what_is_encrypted_by_its_length() -> Result<(), String> {
        let vector = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
        let share = |group: [u8; 2], length| [&group[..], &vector(&vec![7; length])].concat();
        let extension = |number: u8, data: &[u8]| [&[0, number][..], &vector(data)].concat();
        let hello = |random: u8, middle: &[u8], extensions: &[u8]| {
            let front = [&[3, 3][..], &[random; 32], &[32], &[9; 32]].concat();
            [&front[..], middle, &vector(extensions)].concat()
        };
        let offered = [share([0x11, 0xec], 1_216), share([0, 29], 32)].concat();
        let client = hello(1, &[0, 2, 0x13, 1, 1, 0], &extension(51, &vector(&offered)));
        let answer = [
            extension(43, &[3, 4]),
            extension(51, &share([0x11, 0xec], 1_120)),
        ];
        let server = hello(2, &[0x13, 1, 0], &answer.concat());
        let sealed = |length: u16| {
            let header = [&[23, 3, 3][..], &length.to_be_bytes()].concat();
            [&header[..], &vec![5; usize::from(length)]].concat()
        };
        let seen = conversation(&[
            (true, &message(1, &client)),
            (false, &[message(2, &server), sealed(6_000)].concat()),
            (true, &sealed(53)),
            (false, &sealed(90)),
        ]);
        let exchange = Exchange::find(&seen, &seen, 443).ok_or("no connection found")?;
        let phases = Phases::of(&exchange).ok_or("no handshake found")?;
        assert_eq!(floor_bytes(&exchange, &phases), None);
        let hellos = 32 + 32 + 32 + 1_216 + 32 + 1_120;
        assert_eq!(
            floor_bytes_in_tls13(&exchange, &phases, 2_420),
            Some(hellos + 2_420 + 32 + 53 + 3 * 28)
        );
        // A client that shows a certificate has finished behind it, where the server has it.
        let shown = [sealed(900), sealed(281), sealed(53)].concat();
        let seen = conversation(&[
            (true, &message(1, &client)),
            (false, &[message(2, &server), sealed(6_000)].concat()),
            (true, &shown),
            (false, &sealed(90)),
        ]);
        let exchange = Exchange::find(&seen, &seen, 443).ok_or("no connection found")?;
        let with_chain = Phases::of(&exchange).ok_or("no handshake found")?;
        let whole = exchange.up.sent.bytes().len();
        assert_eq!(
            (with_chain.up_end, phases.up_end),
            (whole, whole - 905 - 286)
        );
        let arrived = exchange.up.received.time_of(whole);
        assert_eq!(Some(with_chain.finished), arrived);
        Ok(())
    }

    #[test]
    fn key_exchanges_of_all_kinds_are_told_apart() {
        let rsa: Vec<u8> = [&[1, 0][..], &[7; 256]].concat();
        assert_eq!(client_key_exchange(&rsa), Some(&[7; 256][..]));
        let mut finite = vec![1, 0];
        finite.extend([1; 256]);
        finite.extend([0, 1, 2, 1, 0]);
        finite.extend([2; 256]);
        finite.extend([8, 4, 0, 64]);
        finite.extend([3; 64]);
        assert_eq!(
            server_key_exchange(&finite, ProtocolVersion::TLS1_2),
            Some(vec![&[2; 256][..], &[3; 64]])
        );
        assert_eq!(server_key_exchange(&[3, 0], ProtocolVersion::TLS1_2), None);
        let old: Vec<u8> = [&[0, 64][..], &[3; 64]].concat();
        assert_eq!(signature(&old, ProtocolVersion::TLS1_0), Some(&[3; 64][..]));
    }
}
