//! Proxy options: what one proxy tells the other in a TCP option of an ordinary segment.
//!
//! Is: presence on the SYN, the answer on the SYN/ACK, hints beside the hello, and the miss. Is
//! not: the rewritten flight, which is a payload ([`super::frame`]).
//!
//! Each is an experimental option (RFC 6994), which endpoints ignore (RFC 9293, section 3.1),
//! so that a proxy without its partner does no harm:
//!
//! ```text
//!  0      1      2      3      4         5            len-7
//! +------+------+------+------+---------+------------+---------------+
//! | 253  | len  |   ExID      | ver|typ | body       | tag (7 bytes) |
//! +------+------+------+------+---------+------------+---------------+
//! ```
//!
//! The body is empty but for hints, four bytes for each thing that is held (from version 2 on a
//! hint may name nothing: flights can then be compressed for whoever holds nothing, too); for the
//! confirmation of a CII, four bytes of bits; and for the presence of a proxy that goes by what the
//! other publishes ([`super::publication`]): four bytes, the fingerprint of the holdings that it
//! knows. With an empty body the option is 12 bytes, with a hint of one 16, with one of four 28:
//! all multiples of four, and 28 is what timestamps leave of the 40 bytes that TCP has for options.
//!
//! The presence names the newest version that the client-side proxy speaks, the answer the one that
//! both go on with ([`super::version`]); every later option and frame of the connection is of that
//! one. Presence and answer keep this form in every version, so that any two can read them of each
//! other; a later version may put something into their body, which an earlier one does not look at.
//!
//! Invariants: an option is believed only in the connection that it was made for; the tag covers
//! the initial sequence numbers, the version and the type, and the body, so that nobody in between
//! can lower the version.

use tandem_wire::Seq;

use super::flow::FlowId;
use super::frame::Sender;
use super::key::{Key, Label};
use super::version::Version;

/// Option kind for experiments (RFC 4727; RFC 6994, section 3).
pub const OPTION_KIND: u8 = 253;

/// The experiment's identifier, "TD". RFC 6994 keeps a registry, in which this number is free but
/// not yet asked for.
pub const EXPERIMENT_ID: u16 = 0x5444;

/// Length of a tag in bytes: forging one takes 2^55 tries on average, each a segment on the wire.
const TAG_LEN: usize = 7;

/// Bytes of an option around its body.
const OVERHEAD: usize = 2 + 2 + 1 + TAG_LEN;

/// Something that is held, in a hint: the first 4 bytes of its name in the store. Two things of one
/// hint and one flight have the same by chance once in 2^32; a wrong guess costs a miss, never a
/// byte, for a reference in a flight is longer.
pub type HintId = [u8; 4];

/// Most things in one hint: as many as fit beside timestamps and the alignment of the option area.
pub const MAX_HINTS: usize = 4;

const PRESENCE: u8 = 1;
const ANSWER: u8 = 2;
const HINT: u8 = 3;
const MISS: u8 = 4;
const CLIENT_MISS: u8 = 5;
const HELD: u8 = 6;

/// A proxy option before its tag has been checked: the version, the type and what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyOption<'a> {
    kind: ProxyOptionKind,
    version: Version,
    body: &'a [u8],
    tag: &'a [u8],
}

/// What a proxy option says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyOptionKind {
    /// On the SYN: a client-side proxy is here.
    Presence,
    /// On the SYN/ACK: a server-side proxy is here and heard you.
    Answer,
    /// Beside the hello: these things are held.
    Hint,
    /// On an ACK: this end's flight could not be rebuilt, send the originals.
    Miss(Sender),
    /// On a segment of the server's: these certificates of those that the client's hello names are
    /// held.
    Held,
}

impl ProxyOptionKind {
    fn number(self) -> u8 {
        match self {
            Self::Presence => PRESENCE,
            Self::Answer => ANSWER,
            Self::Hint => HINT,
            Self::Miss(Sender::Server) => MISS,
            Self::Miss(Sender::Client) => CLIENT_MISS,
            Self::Held => HELD,
        }
    }

    fn label(self) -> Label {
        match self {
            Self::Presence => Label::Presence,
            Self::Answer => Label::Answer,
            Self::Hint => Label::Hint,
            Self::Miss(_) => Label::Miss,
            Self::Held => Label::Held,
        }
    }
}

impl<'a> ProxyOption<'a> {
    /// Reads the data of an experimental option whose identifier is [`EXPERIMENT_ID`]: what follows
    /// the identifier.
    ///
    /// `None` for a type that is not known here, or anything malformed: to this proxy that is no
    /// option.
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let (&head, rest) = data.split_first()?;
        let (body, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_LEN)?)?;
        let version = Version::new(head >> 4)?;
        let kind = match head & 0x0f {
            // Whatever a later version says here.
            PRESENCE => ProxyOptionKind::Presence,
            ANSWER => ProxyOptionKind::Answer,
            HINT if is_hint_list(body, version) => ProxyOptionKind::Hint,
            MISS if body.is_empty() => ProxyOptionKind::Miss(Sender::Server),
            CLIENT_MISS if body.is_empty() => ProxyOptionKind::Miss(Sender::Client),
            HELD if body.len() == size_of::<u32>() => ProxyOptionKind::Held,
            _ => return None,
        };
        Some(Self {
            kind,
            version,
            body,
            tag,
        })
    }

    /// What the option says, if its tag is right; not to be acted upon before a `verify_…`.
    pub fn kind(&self) -> ProxyOptionKind {
        self.kind
    }

    /// The newest version that the sender speaks, if this is a presence made for a connection with
    /// this initial sequence number.
    pub fn verify_presence(&self, key: &Key, client: Seq) -> Option<Version> {
        self.verify(key, ProxyOptionKind::Presence, &client.0.to_be_bytes())
            .then_some(self.version)
    }

    /// The fingerprint of the holdings that a proxy goes by, in its presence: to be asked once that
    /// was verified.
    pub fn known_fingerprint(&self) -> Option<u32> {
        match self.kind {
            ProxyOptionKind::Presence => self
                .body
                .first_chunk()
                .map(|known| u32::from_be_bytes(*known)),
            ProxyOptionKind::Answer
            | ProxyOptionKind::Hint
            | ProxyOptionKind::Miss(_)
            | ProxyOptionKind::Held => None,
        }
    }

    /// The version to go on with, if this is an answer made for this connection.
    pub fn verify_answer(&self, key: &Key, flow: FlowId) -> Option<Version> {
        self.verify(key, ProxyOptionKind::Answer, &flow.to_bytes())
            .then_some(self.version)
    }

    /// What a hint made for this connection, in the version that it agreed on, says is held; `None`
    /// if it is not one.
    pub fn verify_hint(&self, key: &Key, flow: FlowId, version: Version) -> Option<&'a [HintId]> {
        let valid =
            self.version == version && self.verify(key, ProxyOptionKind::Hint, &flow.to_bytes());
        valid.then_some(self.body.as_chunks().0)
    }

    /// Whether this is a miss of `sender`'s flight reported in this connection, in the version that
    /// it agreed on.
    pub fn verify_miss(&self, key: &Key, flow: FlowId, version: Version, sender: Sender) -> bool {
        self.version == version && self.verify(key, ProxyOptionKind::Miss(sender), &flow.to_bytes())
    }

    /// Which of the certificates that the client's hello names are held, a bit each, the first in
    /// the lowest; `None` if this says nothing of the kind for this connection, in the version
    /// that it agreed on.
    pub fn verify_held(&self, key: &Key, flow: FlowId, version: Version) -> Option<u32> {
        let valid =
            self.version == version && self.verify(key, ProxyOptionKind::Held, &flow.to_bytes());
        let bits = self.body.first_chunk().filter(|_| valid)?;
        Some(u32::from_be_bytes(*bits))
    }

    fn verify(&self, key: &Key, kind: ProxyOptionKind, connection: &[u8]) -> bool {
        self.kind == kind
            && key.verify(
                kind.label(),
                &[connection, &[head(self.version, kind)], self.body],
                self.tag,
            )
    }
}

/// The presence option for a SYN: 12 bytes, kind and length included. `newest` is the newest
/// version spoken here.
pub fn presence(key: &Key, client: Seq, newest: Version) -> Vec<u8> {
    presence_with(key, client, newest, &[])
}

/// The same of a proxy that goes by what the other publishes, and knows of holdings with this
/// fingerprint: 16 bytes.
pub fn presence_knowing(key: &Key, client: Seq, newest: Version, known: u32) -> Vec<u8> {
    presence_with(key, client, newest, &known.to_be_bytes())
}

fn presence_with(key: &Key, client: Seq, newest: Version, body: &[u8]) -> Vec<u8> {
    let client = client.0.to_be_bytes();
    option(key, newest, ProxyOptionKind::Presence, &client, body)
}

/// The answer option for a SYN/ACK: 12 bytes. `agreed` is the version to go on with.
pub fn answer(key: &Key, flow: FlowId, agreed: Version) -> Vec<u8> {
    option(key, agreed, ProxyOptionKind::Answer, &flow.to_bytes(), &[])
}

/// The hint option: 12 bytes and 4 for each thing. Things past [`MAX_HINTS`] are left out.
pub fn hint(key: &Key, flow: FlowId, agreed: Version, held: &[HintId]) -> Vec<u8> {
    let body = held[..held.len().min(MAX_HINTS)].as_flattened();
    option(key, agreed, ProxyOptionKind::Hint, &flow.to_bytes(), body)
}

/// The miss option: 12 bytes. `sender` is whose flight was missed.
pub fn miss(key: &Key, flow: FlowId, agreed: Version, sender: Sender) -> Vec<u8> {
    option(
        key,
        agreed,
        ProxyOptionKind::Miss(sender),
        &flow.to_bytes(),
        &[],
    )
}

/// The option that says which certificates are held: 16 bytes.
pub fn held(key: &Key, flow: FlowId, agreed: Version, bits: u32) -> Vec<u8> {
    let body = bits.to_be_bytes();
    option(key, agreed, ProxyOptionKind::Held, &flow.to_bytes(), &body)
}

fn option(
    key: &Key,
    version: Version,
    kind: ProxyOptionKind,
    connection: &[u8],
    body: &[u8],
) -> Vec<u8> {
    let head = head(version, kind);
    let tag: [u8; TAG_LEN] = key.tag(kind.label(), &[connection, &[head], body]);
    let length = OVERHEAD + body.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.push(OPTION_KIND);
    bytes.push(u8::try_from(length).expect("at most MAX_HINTS things are in a body"));
    bytes.extend_from_slice(&EXPERIMENT_ID.to_be_bytes());
    bytes.push(head);
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(&tag);
    bytes
}

fn head(version: Version, kind: ProxyOptionKind) -> u8 {
    version.number() << 4 | kind.number()
}

fn is_hint_list(body: &[u8], version: Version) -> bool {
    let (held, rest) = body.as_chunks::<{ size_of::<HintId>() }>();
    let fewest = usize::from(!version.can_hint_nothing());
    rest.is_empty() && (fewest..=MAX_HINTS).contains(&held.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FLOW: FlowId = FlowId {
        client: Seq(0x0102_0304),
        server: Seq(0xa0b0_c0d0),
    };
    const ONE: Version = Version::ONE;

    fn key() -> Key {
        Key::from_bytes([5; 32])
    }

    fn two() -> Version {
        Version::new(2).expect("a version")
    }

    fn data(option: &[u8]) -> &[u8] {
        assert_eq!((option[0], option[1] as usize), (OPTION_KIND, option.len()));
        assert_eq!(option[2..4], EXPERIMENT_ID.to_be_bytes());
        &option[4..]
    }

    #[test]
    fn options_have_the_sizes_that_the_option_area_was_planned_for() {
        assert_eq!(presence(&key(), FLOW.client, ONE).len(), 12);
        assert_eq!(presence_knowing(&key(), FLOW.client, ONE, 7).len(), 16);
        assert_eq!(answer(&key(), FLOW, ONE).len(), 12);
        assert_eq!(miss(&key(), FLOW, ONE, Sender::Server).len(), 12);
        assert_eq!(held(&key(), FLOW, ONE, 7).len(), 16);
        assert_eq!(hint(&key(), FLOW, ONE, &[[1; 4]]).len(), 16);
        let five = [[1; 4], [2; 4], [3; 4], [4; 4], [5; 4]];
        assert_eq!(hint(&key(), FLOW, ONE, &five).len(), 28);
    }

    #[test]
    fn a_hint_of_nothing_is_one_from_version_two_on() {
        for (version, is_one) in [(ONE, false), (two(), true)] {
            let option = hint(&key(), FLOW, version, &[]);
            assert_eq!(option.len(), 12);
            let option = ProxyOption::parse(data(&option));
            let held = option.and_then(|option| option.verify_hint(&key(), FLOW, version));
            assert_eq!(held, is_one.then_some(&[][..]));
        }
    }

    #[test]
    fn a_hint_is_of_whole_names_and_four_at_most() {
        for len in 0..=24 {
            let mut data = vec![two().number() << 4 | HINT];
            data.resize(1 + len + TAG_LEN, 0);
            let is_hint = ProxyOption::parse(&data).is_some();
            assert_eq!(is_hint, [0, 4, 8, 12, 16].contains(&len), "{len}");
        }
    }

    #[test]
    fn an_option_with_a_body_of_another_length_is_none() {
        for (number, len) in [(MISS, 0), (CLIENT_MISS, 0), (HELD, size_of::<u32>())] {
            for body in 0..=8 {
                let mut data = vec![ONE.number() << 4 | number];
                data.resize(1 + body + TAG_LEN, 0);
                assert_eq!(
                    ProxyOption::parse(&data).is_some(),
                    body == len,
                    "{number} {body}"
                );
            }
        }
    }

    #[test]
    fn an_option_is_believed_in_its_own_connection_only() {
        let other = FlowId {
            client: Seq(1),
            server: Seq(2),
        };
        let option = presence(&key(), FLOW.client, ONE);
        let option = ProxyOption::parse(data(&option)).expect("well-formed");
        assert_eq!(option.verify_presence(&key(), FLOW.client), Some(ONE));
        assert_eq!(option.verify_presence(&key(), other.client), None);
        assert_eq!(option.verify_presence(&Key::NONE, FLOW.client), None);
        assert_eq!(option.verify_answer(&key(), FLOW), None);

        let option = answer(&key(), FLOW, ONE);
        let option = ProxyOption::parse(data(&option)).expect("well-formed");
        assert_eq!(option.verify_answer(&key(), FLOW), Some(ONE));
        assert_eq!(option.verify_answer(&key(), other), None);

        let held = [[1; 4], [2; 4]];
        let option = hint(&key(), FLOW, ONE, &held);
        let option = ProxyOption::parse(data(&option)).expect("well-formed");
        assert_eq!(option.verify_hint(&key(), FLOW, ONE), Some(&held[..]));
        assert_eq!(option.verify_hint(&key(), other, ONE), None);

        let option = super::held(&key(), FLOW, ONE, 0x8000_0005);
        let option = ProxyOption::parse(data(&option)).expect("well-formed");
        assert_eq!(option.verify_held(&key(), FLOW, ONE), Some(0x8000_0005));
        assert_eq!(option.verify_held(&key(), other, ONE), None);
        assert_eq!(option.verify_hint(&key(), FLOW, ONE), None);

        let option = miss(&key(), FLOW, ONE, Sender::Server);
        let option = ProxyOption::parse(data(&option)).expect("well-formed");
        assert!(option.verify_miss(&key(), FLOW, ONE, Sender::Server));
        assert!(!option.verify_miss(&key(), FLOW, ONE, Sender::Client));
        assert!(!option.verify_miss(&key(), other, ONE, Sender::Server));
    }

    #[test]
    fn a_presence_says_which_fingerprint_is_known_and_is_one_to_whoever_does_not_ask() {
        let option = presence_knowing(&key(), FLOW.client, ONE, 0x0102_0304);
        let option = ProxyOption::parse(data(&option)).expect("well-formed");
        assert_eq!(option.verify_presence(&key(), FLOW.client), Some(ONE));
        assert_eq!(option.known_fingerprint(), Some(0x0102_0304));
        let plain = presence(&key(), FLOW.client, ONE);
        let option = ProxyOption::parse(data(&plain)).expect("well-formed");
        assert_eq!(option.known_fingerprint(), None);
        let held = held(&key(), FLOW, ONE, 7);
        let option = ProxyOption::parse(data(&held)).expect("well-formed");
        assert_eq!(option.known_fingerprint(), None);
    }

    #[test]
    fn presence_and_answer_of_any_version_are_read_and_nobody_lowers_them() {
        for (option, is_presence) in [
            (presence(&key(), FLOW.client, two()), true),
            (answer(&key(), FLOW, two()), false),
        ] {
            let said = |option: &[u8]| {
                let option = ProxyOption::parse(data(option)).expect("well-formed");
                if is_presence {
                    option.verify_presence(&key(), FLOW.client)
                } else {
                    option.verify_answer(&key(), FLOW)
                }
            };
            assert_eq!(said(&option), Some(two()));
            let mut lowered = option.clone();
            lowered[4] = lowered[4] & 0x0f | 1 << 4;
            assert_eq!(said(&lowered), None);
            // Nor is there a version 0.
            lowered[4] &= 0x0f;
            assert_eq!(ProxyOption::parse(data(&lowered)), None);
        }
    }

    #[test]
    fn what_a_later_version_adds_to_a_presence_or_an_answer_is_covered_and_not_looked_at() {
        let id = FLOW.client.0.to_be_bytes();
        let longer = super::option(&key(), two(), ProxyOptionKind::Presence, &id, &[7; 4]);
        let option = ProxyOption::parse(data(&longer)).expect("well-formed");
        assert_eq!(option.verify_presence(&key(), FLOW.client), Some(two()));
        let longer = super::option(
            &key(),
            two(),
            ProxyOptionKind::Answer,
            &FLOW.to_bytes(),
            &[7; 8],
        );
        let option = ProxyOption::parse(data(&longer)).expect("well-formed");
        assert_eq!(option.verify_answer(&key(), FLOW), Some(two()));
        let mut changed = longer.clone();
        changed[6] ^= 1;
        let option = ProxyOption::parse(data(&changed)).expect("well-formed");
        assert_eq!(option.verify_answer(&key(), FLOW), None);
    }

    #[test]
    fn hints_and_misses_count_in_the_agreed_version_only() {
        let hinted = hint(&key(), FLOW, two(), &[[1; 4]]);
        let option = ProxyOption::parse(data(&hinted)).expect("well-formed");
        assert_eq!(option.verify_hint(&key(), FLOW, ONE), None);
        assert!(option.verify_hint(&key(), FLOW, two()).is_some());
        let missed = miss(&key(), FLOW, ONE, Sender::Server);
        let option = ProxyOption::parse(data(&missed)).expect("well-formed");
        assert!(!option.verify_miss(&key(), FLOW, two(), Sender::Server));
    }

    proptest! {
        #[test]
        fn random_data_is_never_believed(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(option) = ProxyOption::parse(&bytes) {
                prop_assert_eq!(option.verify_presence(&key(), FLOW.client), None);
                prop_assert_eq!(option.verify_answer(&key(), FLOW), None);
                for number in 1..=15 {
                    let version = Version::new(number).expect("a version");
                    for sender in [Sender::Server, Sender::Client] {
                        prop_assert!(!option.verify_miss(&key(), FLOW, version, sender));
                    }
                    prop_assert_eq!(option.verify_hint(&key(), FLOW, version), None);
                }
            }
        }
    }
}
