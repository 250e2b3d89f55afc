//! Marks: what one proxy tells the other in a TCP option of an ordinary segment.
//!
//! Is: presence on the SYN, the answer on the SYN/ACK, hints beside the hello, and the miss. Is not: the rewritten flight,
//! which is a payload ([`crate::frame`]).
//!
//! Each mark is an experimental option (RFC 6994), which endpoints ignore (RFC 9293, section 3.1), so that a proxy
//! without its partner does no harm:
//!
//! ```text
//!  0      1      2      3      4         5            len-7
//! +------+------+------+------+---------+------------+---------------+
//! | 253  | len  |   ExID      | ver|typ | body       | tag (7 bytes) |
//! +------+------+------+------+---------+------------+---------------+
//! ```
//!
//! The body is empty but for hints: eight bytes a chain. With an empty body the option is 12 bytes, with one chain 20,
//! with two 28: all multiples of four, and 28 is what timestamps leave of the 40 bytes that TCP has for options.
//!
//! Invariant: a mark is believed only in the connection that it was made for; the tag covers the initial sequence numbers.

use tandem_wire::Seq;

use crate::flow::FlowId;
use crate::key::{Key, Label};

/// Option kind for experiments (RFC 4727; RFC 6994, section 3).
pub const OPTION_KIND: u8 = 253;

/// The experiment's identifier, "TD". RFC 6994 keeps a registry, in which this number is free but not yet asked for.
pub const EXPERIMENT_ID: u16 = 0x5444;

/// The version of the messages that this crate speaks. Two proxies that do not share it do not see each other.
pub const VERSION: u8 = 1;

/// Length of a tag in bytes: forging one takes 2^55 tries on average, each a segment on the wire.
const TAG_LEN: usize = 7;

/// Bytes of an option around its body.
const OVERHEAD: usize = 2 + 2 + 1 + TAG_LEN;

/// A chain in a hint: the first 8 bytes of SHA-256 over the certificate list. A wrong guess costs a miss, never a byte.
pub type ChainHint = [u8; 8];

/// Most chains in one hint: as many as fit beside timestamps and the alignment of the option area.
pub const MAX_HINTS: usize = 2;

const PRESENCE: u8 = 1;
const ANSWER: u8 = 2;
const HINT: u8 = 3;
const MISS: u8 = 4;

/// A mark before its tag has been checked: the type and what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark<'a> {
    kind: MarkKind,
    body: &'a [u8],
    tag: &'a [u8],
}

/// What a mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// On the SYN: a client-side proxy is here.
    Presence,
    /// On the SYN/ACK: a server-side proxy is here and heard you.
    Answer,
    /// Beside the hello: these chains are held.
    Hint,
    /// On an ACK: the flight could not be rebuilt, send the originals.
    Miss,
}

impl<'a> Mark<'a> {
    /// Reads the data of an experimental option whose identifier is [`EXPERIMENT_ID`]: what follows the identifier.
    ///
    /// `None` for another version or anything malformed: to this proxy that is no mark.
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let (&head, rest) = data.split_first()?;
        let (body, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_LEN)?)?;
        let kind = match head {
            head if head == VERSION << 4 | PRESENCE && body.is_empty() => MarkKind::Presence,
            head if head == VERSION << 4 | ANSWER && body.is_empty() => MarkKind::Answer,
            head if head == VERSION << 4 | HINT && is_hint_list(body) => MarkKind::Hint,
            head if head == VERSION << 4 | MISS && body.is_empty() => MarkKind::Miss,
            _ => return None,
        };
        Some(Self { kind, body, tag })
    }

    /// What the mark says, if its tag is right; not to be acted upon before a `verify_…`.
    pub fn kind(&self) -> MarkKind {
        self.kind
    }

    /// Whether this is a presence made for a connection with this initial sequence number.
    pub fn verify_presence(&self, key: &Key, client: Seq) -> bool {
        self.kind == MarkKind::Presence
            && key.verify(Label::Presence, &[&client.0.to_be_bytes()], self.tag)
    }

    /// Whether this is an answer made for this connection.
    pub fn verify_answer(&self, key: &Key, flow: FlowId) -> bool {
        self.kind == MarkKind::Answer && key.verify(Label::Answer, &[&flow.to_bytes()], self.tag)
    }

    /// The chains of a hint made for this connection; `None` if it is not one.
    pub fn verify_hint(&self, key: &Key, flow: FlowId) -> Option<&'a [ChainHint]> {
        let valid = self.kind == MarkKind::Hint
            && key.verify(Label::Hint, &[&flow.to_bytes(), self.body], self.tag);
        valid.then_some(self.body.as_chunks().0)
    }

    /// Whether this is a miss reported in this connection.
    pub fn verify_miss(&self, key: &Key, flow: FlowId) -> bool {
        self.kind == MarkKind::Miss && key.verify(Label::Miss, &[&flow.to_bytes()], self.tag)
    }
}

/// The presence option for a SYN: 12 bytes, kind and length included.
pub fn presence(key: &Key, client: Seq) -> Vec<u8> {
    option(
        PRESENCE,
        &[],
        key.tag(Label::Presence, &[&client.0.to_be_bytes()]),
    )
}

/// The answer option for a SYN/ACK: 12 bytes.
pub fn answer(key: &Key, flow: FlowId) -> Vec<u8> {
    option(ANSWER, &[], key.tag(Label::Answer, &[&flow.to_bytes()]))
}

/// The hint option: 12 bytes and 8 for each chain. Chains past [`MAX_HINTS`] are left out.
pub fn hint(key: &Key, flow: FlowId, chains: &[ChainHint]) -> Vec<u8> {
    let body = chains[..chains.len().min(MAX_HINTS)].as_flattened();
    option(HINT, body, key.tag(Label::Hint, &[&flow.to_bytes(), body]))
}

/// The miss option: 12 bytes.
pub fn miss(key: &Key, flow: FlowId) -> Vec<u8> {
    option(MISS, &[], key.tag(Label::Miss, &[&flow.to_bytes()]))
}

fn option(kind: u8, body: &[u8], tag: [u8; TAG_LEN]) -> Vec<u8> {
    let length = OVERHEAD + body.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.push(OPTION_KIND);
    bytes.push(u8::try_from(length).expect("at most MAX_HINTS chains are in a body"));
    bytes.extend_from_slice(&EXPERIMENT_ID.to_be_bytes());
    bytes.push(VERSION << 4 | kind);
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(&tag);
    bytes
}

fn is_hint_list(body: &[u8]) -> bool {
    let (chains, rest) = body.as_chunks::<8>();
    rest.is_empty() && (1..=MAX_HINTS).contains(&chains.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FLOW: FlowId = FlowId {
        client: Seq(0x0102_0304),
        server: Seq(0xa0b0_c0d0),
    };

    fn key() -> Key {
        Key::from_bytes([5; 32])
    }

    fn data(option: &[u8]) -> &[u8] {
        assert_eq!((option[0], option[1] as usize), (OPTION_KIND, option.len()));
        assert_eq!(option[2..4], EXPERIMENT_ID.to_be_bytes());
        &option[4..]
    }

    #[test]
    fn marks_have_the_sizes_that_the_option_area_was_planned_for() {
        assert_eq!(presence(&key(), FLOW.client).len(), 12);
        assert_eq!(answer(&key(), FLOW).len(), 12);
        assert_eq!(miss(&key(), FLOW).len(), 12);
        assert_eq!(hint(&key(), FLOW, &[[1; 8]]).len(), 20);
        assert_eq!(hint(&key(), FLOW, &[[1; 8], [2; 8], [3; 8]]).len(), 28);
    }

    #[test]
    fn a_mark_is_believed_in_its_own_connection_only() {
        let other = FlowId {
            client: Seq(1),
            server: Seq(2),
        };
        let option = presence(&key(), FLOW.client);
        let mark = Mark::parse(data(&option)).expect("well-formed");
        assert!(mark.verify_presence(&key(), FLOW.client));
        assert!(!mark.verify_presence(&key(), other.client));
        assert!(!mark.verify_presence(&Key::NONE, FLOW.client));
        assert!(!mark.verify_answer(&key(), FLOW));

        let option = answer(&key(), FLOW);
        let mark = Mark::parse(data(&option)).expect("well-formed");
        assert!(mark.verify_answer(&key(), FLOW));
        assert!(!mark.verify_answer(&key(), other));

        let option = hint(&key(), FLOW, &[[1; 8], [2; 8]]);
        let mark = Mark::parse(data(&option)).expect("well-formed");
        assert_eq!(mark.verify_hint(&key(), FLOW), Some(&[[1; 8], [2; 8]][..]));
        assert_eq!(mark.verify_hint(&key(), other), None);

        let option = miss(&key(), FLOW);
        let mark = Mark::parse(data(&option)).expect("well-formed");
        assert!(mark.verify_miss(&key(), FLOW));
        assert!(!mark.verify_miss(&key(), other));
    }

    #[test]
    fn another_version_is_no_mark() {
        let mut option = presence(&key(), FLOW.client);
        option[4] = (VERSION + 1) << 4 | PRESENCE;
        assert_eq!(Mark::parse(data(&option)), None);
    }

    proptest! {
        #[test]
        fn random_data_is_never_believed(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(mark) = Mark::parse(&bytes) {
                prop_assert!(!mark.verify_presence(&key(), FLOW.client));
                prop_assert!(!mark.verify_answer(&key(), FLOW));
                prop_assert!(!mark.verify_miss(&key(), FLOW));
                prop_assert_eq!(mark.verify_hint(&key(), FLOW), None);
            }
        }
    }
}
