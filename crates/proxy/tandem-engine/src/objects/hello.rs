//! A ClientHello as a template for the client's next one: which client sent it, and which of its
//! bytes repeat.
//!
//! ```text
//!   version | random | session id | suites | ... | extensions: server name | key share | ...
//!   repeats | fresh  | fresh      | repeats      | the site's              | fresh     | repeats
//! ```
//!
//! Is not: which hellos are remembered (`peer`), nor the delta (`rewrite`).
//!
//! Invariant: two hellos of one client have the same [`Profile`], although the client may choose
//! other GREASE values (RFC 8701) and another order of extensions each time.

use std::ops::Range;

use tandem_delta::pieces::cut;
use tandem_store::{Digest, HostName};
use tandem_wire::tls::{ClientHello, ExtensionType, MessageSpan};

/// Where the random bytes lie in a hello's body, and where the session id's length does.
const RANDOM: Range<usize> = 2..34;
const SESSION_ID: usize = RANDOM.end;

/// Bytes of an extension's type and length.
const EXTENSION_HEADER: usize = 4;

/// RFC 7685.
const PADDING: ExtensionType = ExtensionType(21);
/// RFC 8446, section 4.2.2.
const COOKIE: ExtensionType = ExtensionType(44);
/// RFC 9849. Clients without a configuration fill it with random bytes.
const ENCRYPTED_HELLO: ExtensionType = ExtensionType(0xfe0d);

/// Extensions that depend on the visit: two hellos of one client may differ in them.
const OF_THE_VISIT: [ExtensionType; 5] = [
    ExtensionType::SERVER_NAME,
    ExtensionType::PRE_SHARED_KEY,
    ExtensionType::EARLY_DATA,
    PADDING,
    COOKIE,
];

/// Extensions whose data is new in each hello.
const FRESH: [ExtensionType; 3] = [
    ExtensionType::KEY_SHARE,
    ExtensionType::PRE_SHARED_KEY,
    ENCRYPTED_HELLO,
];

/// A hello that was read.
#[derive(Debug, Clone)]
pub(crate) struct Hello<'s> {
    /// The stream from its first byte to the hello's last.
    pub(crate) bytes: &'s [u8],
    /// Whom the client asked for.
    pub(crate) site: Option<HostName>,
    /// What identifies its client.
    pub(crate) client: Profile,
    /// Where the bytes lie that may repeat: ranges of the stream, in order, without record headers.
    pub(crate) steady: Vec<Range<usize>>,
}

/// What all hellos of one client have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    /// The digest of the version and the cipher suites.
    pub(crate) suites: [u8; 16],
    /// The digest of the types of extensions, in order of their numbers.
    pub(crate) extensions: [u8; 16],
}

impl<'s> Hello<'s> {
    /// The hello whose message is `span`; `None` where it is not one.
    pub(crate) fn of(span: &MessageSpan, stream: &'s [u8]) -> Option<Self> {
        let body = span.body(stream);
        let hello = ClientHello::parse(&body).ok()?;
        let end = span.pieces.last()?.end;
        let name = hello.server_name();
        let pieces = || span.body_pieces();
        Some(Self {
            bytes: stream.get(..end)?,
            site: name.and_then(|name| HostName::new(name).ok()),
            client: Profile::of(&hello),
            steady: steady(&hello, body.len())
                .flat_map(|range| cut(pieces(), range))
                .collect(),
        })
    }
}

impl Profile {
    fn of(hello: &ClientHello<'_>) -> Self {
        let suites = hello.cipher_suites().filter(|suite| !is_reserved(*suite));
        let mut types: Vec<u16> = hello
            .extensions()
            .into_iter()
            .flatten()
            .map(|extension| extension.extension_type)
            .filter(|kind| !OF_THE_VISIT.contains(kind) && !is_reserved(kind.0))
            .map(|kind| kind.0)
            .collect();
        types.sort_unstable();
        Self {
            suites: digest([hello.legacy_version().0].into_iter().chain(suites)),
            extensions: digest(types),
        }
    }
}

/// The ranges of a body around its fresh fields.
fn steady(hello: &ClientHello<'_>, end: usize) -> impl Iterator<Item = Range<usize>> {
    let session_id = SESSION_ID..SESSION_ID + 1 + hello.session_id().len();
    let extensions = hello.extensions().into_iter().flatten();
    let fresh = extensions.filter(|extension| FRESH.contains(&extension.extension_type));
    let fresh = fresh.map(|extension| {
        let Range { start, end } = extension.range();
        start + EXTENSION_HEADER..end
    });
    let mut fresh: Vec<Range<usize>> = [RANDOM, session_id].into_iter().chain(fresh).collect();
    fresh.push(end..end);
    let mut at = 0;
    fresh.into_iter().map(move |fresh| {
        let before = at..fresh.start;
        at = fresh.end;
        before
    })
}

/// Whether a number is a GREASE value (RFC 8701, section 2).
fn is_reserved(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

fn digest(numbers: impl IntoIterator<Item = u16>) -> [u8; 16] {
    let bytes: Vec<u8> = numbers.into_iter().flat_map(u16::to_be_bytes).collect();
    Digest::of(&bytes).prefix16()
}

#[cfg(test)]
mod tests;
