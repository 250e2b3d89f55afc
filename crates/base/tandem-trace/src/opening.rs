//! Where TLS starts in one direction of a connection: at its first byte, or after a plain-text
//! dialogue.
//!
//! Not a parser of the dialogue: a hello has a shape that text never has, so the dialogue is passed
//! over until one is found, and looked at only to name the protocol. Invariants: the work is linear
//! in the bytes, memory is bounded by [`DIALOGUE_TAIL`], and a search ends after [`DIALOGUE_LIMIT`]
//! bytes.
//!
//! Shapes: RFC 5246, section 6.2.1 (record) and 7.4 (handshake header); its appendix E.2 (SSL 2.0's
//! hello).

use tandem_wire::tls::ContentType;
use tandem_wire::tls::record;

/// Bytes of dialogue after which no hello is expected any more. Mail and chat sessions start TLS
/// within the first few hundred.
const DIALOGUE_LIMIT: usize = 64 * 1024;
/// Bytes of dialogue kept to name its protocol: the command stands right before the hello.
const DIALOGUE_TAIL: usize = 512;
/// Bytes that the shape of a hello in the middle of a stream needs: record header, handshake
/// header, version.
const SHAPE_LEN: usize = 11;
const RECORD_HEADER_LEN: usize = 5;
/// Largest plaintext of a record (RFC 5246, section 6.2.1).
const MAX_PLAINTEXT: u16 = 1 << 14;
/// Shortest first record of a hello that is believed in the middle of a stream: header and version.
const MIN_FRAGMENT: u16 = 6;
/// Hellos are never longer than this; a ClientHello with post-quantum shares is about 2 kB.
const MAX_HELLO: u32 = 1 << 16;
/// Shortest bodies of the two hellos: version, random, empty session id; then suites and
/// compression methods of one each.
const MIN_CLIENT_HELLO: u32 = 41;
const MIN_SERVER_HELLO: u32 = 36;

/// First bytes of the PROXY protocol (its specification, sections 2.1 and 2.2).
const PROXY_STARTS: [&[u8]; 2] = [b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"];

/// Which side of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The one that says hello.
    Client,
    /// The one that answers.
    Server,
}

/// What the first bytes of a direction turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// TLS records of this side start at the first byte that is left.
    Records(Role),
    /// A fatal or warning alert at the very start: TLS, and the answer to a hello of the other
    /// direction.
    Alert,
    /// A ClientHello of so many bytes in SSL 2.0's format that offers SSL 3.0 or later; records
    /// follow it.
    OldHello {
        /// Its length, its own length field included.
        len: usize,
    },
    /// SSL 2.0: a hello that offers nothing later, or a server's hello.
    Ssl2,
    /// No TLS within [`DIALOGUE_LIMIT`] bytes.
    Nothing,
}

/// The search in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// The last bytes of dialogue passed over.
    tail: Vec<u8>,
    /// It began as the PROXY protocol does.
    is_proxied: bool,
    passed: usize,
}

impl Search {
    /// Bytes of dialogue before TLS.
    pub(crate) fn dialogue_bytes(&self) -> usize {
        self.passed
    }

    /// Looks at what is in sight. Says how many bytes are dialogue and may be dropped, and what
    /// follows them, once known.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> (usize, Option<Found>) {
        if self.passed == 0 {
            match at_start(bytes) {
                AtStart::NeedMore => return (0, None),
                AtStart::Found(found) => return (0, Some(found)),
                AtStart::Dialogue => {
                    self.is_proxied = PROXY_STARTS.iter().any(|start| bytes.starts_with(start));
                }
            }
        }
        let found = bytes
            .windows(SHAPE_LEN)
            .enumerate()
            .find_map(|(at, shape)| {
                let role = shaped_as_hello(shape)?;
                Some((at, role))
            });
        match found {
            Some((at, role)) => {
                self.pass(bytes.get(..at).unwrap_or_default());
                (at, Some(Found::Records(role)))
            }
            None => {
                // A shape may have begun in the last bytes. At the start one byte goes all the
                // same, so that what was judged a dialogue is not judged again.
                let at = bytes
                    .len()
                    .saturating_sub(SHAPE_LEN - 1)
                    .max(usize::from(self.passed == 0));
                self.pass(bytes.get(..at).unwrap_or_default());
                (at, (self.passed > DIALOGUE_LIMIT).then_some(Found::Nothing))
            }
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.passed += bytes.len();
        let recent = bytes
            .get(bytes.len().saturating_sub(DIALOGUE_TAIL)..)
            .unwrap_or_default();
        let excess = (self.tail.len() + recent.len()).saturating_sub(DIALOGUE_TAIL);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend_from_slice(recent);
    }

    /// The protocol of the client's dialogue, by the command that asks for TLS.
    pub(crate) fn protocol(&self) -> Dialogue {
        match Dialogue::of(&self.tail) {
            Dialogue::Other if self.is_proxied => Dialogue::ProxyProtocol,
            dialogue => dialogue,
        }
    }
}

/// A protocol that speaks plain text before TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialogue {
    /// SMTP, IMAP, IRC, NNTP, ManageSieve: the command is the same.
    StartTls,
    /// POP3's STLS.
    Pop3,
    /// XMPP.
    Xmpp,
    /// FTP's AUTH TLS.
    Ftp,
    /// CONNECT through an HTTP proxy.
    HttpProxy,
    /// PostgreSQL's SSLRequest.
    Postgres,
    /// LDAP's StartTLS operation.
    Ldap,
    /// A line or header of HAProxy's PROXY protocol, and no dialogue behind it.
    ProxyProtocol,
    /// None of these.
    Other,
}

impl Dialogue {
    /// All of them, for tables.
    #[cfg(test)]
    const ALL: [Self; 9] = [
        Self::StartTls,
        Self::Pop3,
        Self::Xmpp,
        Self::Ftp,
        Self::HttpProxy,
        Self::Postgres,
        Self::Ldap,
        Self::ProxyProtocol,
        Self::Other,
    ];

    fn of(tail: &[u8]) -> Self {
        let lower = tail.to_ascii_lowercase();
        let has = |needle: &[u8]| lower.windows(needle.len()).any(|window| window == needle);
        if has(b"<starttls") {
            Self::Xmpp
        } else if has(b"starttls") {
            Self::StartTls
        } else if has(b"stls\r\n") {
            Self::Pop3
        } else if has(b"auth tls") || has(b"auth ssl") {
            Self::Ftp
        } else if lower.starts_with(b"connect ") {
            Self::HttpProxy
        } else if lower.ends_with(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]) {
            // SSLRequest: length 8, code 80877103 (PostgreSQL's protocol, message formats).
            Self::Postgres
        } else if has(b"1.3.6.1.4.1.1466.20037") {
            // The StartTLS operation's name (RFC 4511, section 4.14.1).
            Self::Ldap
        } else {
            Self::Other
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::StartTls => "starttls",
            Self::Pop3 => "pop3",
            Self::Xmpp => "xmpp",
            Self::Ftp => "ftp",
            Self::HttpProxy => "http_proxy",
            Self::Postgres => "postgresql",
            Self::Ldap => "ldap",
            Self::ProxyProtocol => "proxy_protocol",
            Self::Other => "other",
        }
    }
}

enum AtStart {
    NeedMore,
    Found(Found),
    Dialogue,
}

fn at_start(bytes: &[u8]) -> AtStart {
    let may_be_proxied =
        |start: &&[u8]| bytes.len() < start.len() && !bytes.is_empty() && start.starts_with(bytes);
    if PROXY_STARTS.iter().any(may_be_proxied) {
        return AtStart::NeedMore;
    }
    if let Some(hello) = ssl2_hello(bytes) {
        return hello;
    }
    match record::parse_header(bytes) {
        Ok(None) => AtStart::NeedMore,
        Ok(Some(header)) => match (header.content_type, bytes.get(RECORD_HEADER_LEN)) {
            (ContentType::Handshake, None) => AtStart::NeedMore,
            (ContentType::Handshake, Some(1)) => AtStart::Found(Found::Records(Role::Client)),
            // 6: HelloRetryRequest in drafts of TLS 1.3.
            (ContentType::Handshake, Some(2 | 6)) => AtStart::Found(Found::Records(Role::Server)),
            (ContentType::Alert, _) if header.length == 2 => AtStart::Found(Found::Alert),
            _ => AtStart::Dialogue,
        },
        Err(_) => AtStart::Dialogue,
    }
}

/// A ClientHello in SSL 2.0's record format.
///
/// ```text
/// | 1, length 15 bit | type 1 | version 2 | suites' length 2 | session id's 2 | challenge's 2 | ...
/// ```
fn ssl2_hello(bytes: &[u8]) -> Option<AtStart> {
    let (&first, &message_type) = (bytes.first()?, bytes.get(2).unwrap_or(&1));
    if first & 0x80 != 0 && is_ssl2_server_hello(bytes) {
        return Some(AtStart::Found(Found::Ssl2));
    }
    if first & 0x80 == 0 || message_type != 1 {
        return None;
    }
    let Some(header) = bytes.first_chunk::<11>() else {
        return Some(AtStart::NeedMore);
    };
    let field = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let len = field(0) & 0x7fff;
    let (suites, session_id, challenge) = (field(5), field(7), field(9));
    let adds_up = len == 9 + suites + session_id + challenge;
    let is_hello =
        adds_up && suites > 0 && suites.is_multiple_of(3) && (16..=32).contains(&challenge);
    match (is_hello, header[3], header[4]) {
        (true, 3, 0..=4) => Some(AtStart::Found(Found::OldHello { len: len + 2 })),
        (true, 0, 2) => Some(AtStart::Found(Found::Ssl2)),
        _ => None,
    }
}

/// | 1, length 15 bit | type 4 | session id hit 0 or 1 | certificate type 0 or 1 | version 0.2 |
fn is_ssl2_server_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, 4, 0 | 1, 0 | 1, 0, 2, ..])
}

/// Whether these bytes are the start of a record that starts with a hello; whose.
pub(crate) fn shaped_as_hello(bytes: &[u8]) -> Option<Role> {
    let shape = bytes.first_chunk::<SHAPE_LEN>()?;
    let &[
        22,
        3,
        0..=4,
        len_high,
        len_low,
        message_type,
        0,
        _,
        _,
        version,
        minor,
    ] = shape
    else {
        return None;
    };
    let record_len = u16::from_be_bytes([len_high, len_low]);
    let message_len = u32::from_be_bytes([0, shape[6], shape[7], shape[8]]);
    if !(MIN_FRAGMENT..=MAX_PLAINTEXT).contains(&record_len) || message_len > MAX_HELLO {
        return None;
    }
    match (message_type, version, minor) {
        (1, 3, 0..=4) if message_len >= MIN_CLIENT_HELLO => Some(Role::Client),
        // 0x7f and a number: drafts of TLS 1.3.
        (2, 3, 0..=4) | (2, 0x7f, _) if message_len >= MIN_SERVER_HELLO => Some(Role::Server),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: [u8; 11] = [22, 3, 1, 0, 100, 1, 0, 0, 96, 3, 3];

    #[test]
    fn tls_at_the_first_byte_is_seen_as_soon_as_it_can_be() {
        for len in 0..6 {
            assert_eq!(Search::default().look(&HELLO[..len]), (0, None), "{len}");
        }
        let found = Some(Found::Records(Role::Client));
        assert_eq!(Search::default().look(&HELLO[..6]), (0, found));
        assert_eq!(
            Search::default().look(&[22, 3, 3, 0, 1, 2]),
            (0, Some(Found::Records(Role::Server)))
        );
        assert_eq!(
            Search::default().look(&[21, 3, 1, 0, 2, 1, 112]),
            (0, Some(Found::Alert))
        );
    }

    #[test]
    fn a_hello_after_a_dialogue_is_found_wherever_segments_end() {
        let stream = [&b"EHLO me\r\nSTARTTLS\r\n"[..], &HELLO, &[0; 50]].concat();
        for step in 1..stream.len() {
            let mut search = Search::default();
            let (mut start, mut end) = (0, 0);
            let found = loop {
                end = (end + step).min(stream.len());
                let (passed, found) = search.look(&stream[start..end]);
                start += passed;
                if let Some(found) = found {
                    break found;
                }
                assert!(end < stream.len(), "step {step}");
            };
            assert_eq!(
                (found, start),
                (Found::Records(Role::Client), 19),
                "step {step}"
            );
            assert_eq!(search.dialogue_bytes(), 19);
            assert_eq!(search.protocol(), Dialogue::StartTls);
        }
    }

    #[test]
    fn the_search_ends() {
        let mut search = Search::default();
        let mut passed = 0;
        let text = b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n".repeat(100);
        while passed <= DIALOGUE_LIMIT {
            let (count, found) = search.look(&text);
            passed += count;
            assert_eq!(found.is_some(), passed > DIALOGUE_LIMIT);
        }
        assert!(search.tail.len() <= DIALOGUE_TAIL);
    }

    #[test]
    fn old_hellos_are_told_by_what_they_offer() {
        let hello = |major, minor| {
            let mut bytes = vec![0x80, 9 + 3 + 16, 1, major, minor, 0, 3, 0, 0, 0, 16];
            bytes.extend([7; 19]);
            bytes
        };
        assert_eq!(
            Search::default().look(&hello(3, 1)),
            (0, Some(Found::OldHello { len: 30 }))
        );
        assert_eq!(Search::default().look(&hello(0, 2)), (0, Some(Found::Ssl2)));
        assert_eq!(
            Search::default().look(&[0x83, 0xb4, 4, 0, 1, 0, 2]),
            (0, Some(Found::Ssl2))
        );
        let mut wrong = hello(3, 1);
        wrong[6] = 4;
        assert_eq!(Search::default().look(&wrong).1, None);
        assert_eq!(Search::default().look(&hello(3, 1)[..10]), (0, None));
    }

    #[test]
    fn dialogues_are_named_by_the_command_that_asks_for_tls() {
        let table: [(&[u8], Dialogue); 9] = [
            (b"a001 STARTTLS\r\n", Dialogue::StartTls),
            (b"STLS\r\n", Dialogue::Pop3),
            (
                b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
                Dialogue::Xmpp,
            ),
            (b"AUTH TLS\r\n", Dialogue::Ftp),
            (
                b"CONNECT example.com:443 HTTP/1.1\r\n\r\n",
                Dialogue::HttpProxy,
            ),
            (&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f], Dialogue::Postgres),
            (
                b"0\x1d\x02\x01\x01w\x18\x80\x161.3.6.1.4.1.1466.20037",
                Dialogue::Ldap,
            ),
            (b"", Dialogue::Other),
            (b"hello", Dialogue::Other),
        ];
        for (tail, dialogue) in table {
            assert_eq!(Dialogue::of(tail), dialogue);
        }
        let names: std::collections::BTreeSet<_> = Dialogue::ALL.map(Dialogue::name).into();
        assert_eq!(names.len(), Dialogue::ALL.len());
    }
}
