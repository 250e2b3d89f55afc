//! The session configuration: which middleboxes, which contexts, and who may do what in each.
//!
//! ```text
//! terms    server certificate's digest   32    SHA-256 of the leaf that the client was shown
//!          middleboxes                    1    how many, 0 to 16; each: name<1..255>, digest 32
//!          contexts                       1    how many, 1 to 255; each: id 1, path 1,
//!                                              purpose<0..64>, a right (1) for each middlebox
//! cfg      version 1 | suite 2 | terms
//! ```
//!
//! Is not: how it is agreed on ([`crate::endpoint`]).
//!
//! Invariants: contexts stand in ascending order of their ids, each has a right for each
//! middlebox; one configuration has one encoding. [`Terms::reduces`] is the only way from an offer
//! to what holds: rights fall, a path becomes required, and nothing else changes. Where the offer
//! requires the path, a middlebox with a right keeps one.

use crate::error::{Breach, Error, Malformed, Policy};
use crate::party::{ContextId, MAX_MIDDLEBOXES, Position};
use crate::read::{Reader, is_plain, put_text};
use crate::secret::HASH_LEN;
use crate::suite::Suite;

/// The version of the protocol.
pub const VERSION: u8 = 1;

/// Longest name of a middlebox, in bytes of printable ASCII; names of the DNS have at most 253.
pub const MAX_NAME_LEN: usize = 255;

/// Longest purpose of a context, in bytes of printable ASCII.
pub const MAX_PURPOSE_LEN: usize = 64;

/// The number of contexts that a session may have at most, context 0 not counted.
pub const MAX_CONTEXTS: usize = 255;

/// What a middlebox may do with a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Neither read nor write: it forwards what it cannot open.
    None,
    /// Read.
    Read,
    /// Read, change, delete and add.
    Write,
}

impl Right {
    const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Read => 1,
            Self::Write => 2,
        }
    }

    fn parse(code: u8) -> Result<Self, Malformed> {
        match code {
            0 => Ok(Self::None),
            1 => Ok(Self::Read),
            2 => Ok(Self::Write),
            other => Err(Malformed::Right(other)),
        }
    }
}

/// Whether each middlebox with a right in a context has to prove that it saw each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathMode {
    /// No proof: a middlebox that is skipped is not noticed, and of several writers of a record
    /// the last is named.
    Off,
    /// Each stamps each record: a skipped one is noticed, and each change is named, in order.
    Required,
}

/// A middlebox of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Middlebox {
    /// The name that its certificate is for, which both endpoints check: one to [`MAX_NAME_LEN`]
    /// bytes of printable ASCII.
    pub name: String,
    /// SHA-256 of its leaf certificate in DER.
    pub certificate: [u8; 32],
}

/// A context: a part of the data for which one set of rights holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its number, from 1.
    pub id: ContextId,
    /// For applications and people: which part of the data it is. At most [`MAX_PURPOSE_LEN`]
    /// bytes of printable ASCII.
    pub purpose: String,
    /// Whether middleboxes prove that they saw each record.
    pub path: PathMode,
    /// What each middlebox may do, in their order.
    pub rights: Vec<Right>,
}

impl Context {
    /// What this middlebox may do here.
    #[must_use]
    pub fn right(&self, position: Position) -> Right {
        self.rights
            .get(position.index())
            .copied()
            .unwrap_or(Right::None)
    }

    /// Whether its records have a writer's tag: some middlebox may read and not write.
    #[must_use]
    pub fn has_writer_tag(&self) -> bool {
        self.rights.contains(&Right::Read)
    }

    /// Whether its records have an endpoint's tag: some middlebox may write.
    #[must_use]
    pub fn has_endpoint_tag(&self) -> bool {
        self.rights.contains(&Right::Write)
    }

    /// Whether evidence of its records is over their digest: where somebody may write or has to
    /// stamp. Elsewhere the writer's tag, if there is one, is an AEAD's, in a fraction of the time.
    pub(crate) fn has_digest(&self) -> bool {
        self.has_endpoint_tag() || self.path == PathMode::Required
    }

    /// Whether this middlebox stamps the records of this context.
    #[must_use]
    pub fn stamps(&self, position: Position) -> bool {
        self.path == PathMode::Required && self.right(position) != Right::None
    }
}

/// Everything about a session but its suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    server: [u8; 32],
    middleboxes: Vec<Middlebox>,
    contexts: Vec<Context>,
}

impl Terms {
    /// Terms with these parties and contexts.
    ///
    /// # Errors
    /// Where a bound of this module does not hold: too many middleboxes, contexts out of order or
    /// none, a list of rights with another length than the list of middleboxes, text that is too
    /// long or cannot be shown.
    pub fn new(
        server_certificate: [u8; 32],
        middleboxes: Vec<Middlebox>,
        contexts: Vec<Context>,
    ) -> Result<Self, Malformed> {
        if middleboxes.len() > MAX_MIDDLEBOXES {
            return Err(Malformed::Middleboxes(middleboxes.len()));
        }
        if contexts.is_empty() {
            return Err(Malformed::NoContexts);
        }
        let mut last = ContextId::END_TO_END;
        for context in &contexts {
            if context.id <= last {
                return Err(Malformed::ContextOrder(context.id));
            }
            if context.rights.len() != middleboxes.len() {
                return Err(Malformed::Truncated);
            }
            last = context.id;
        }
        let fits = |text: &str, max| text.len() <= max && is_plain(text);
        let named = |middlebox: &Middlebox| {
            !middlebox.name.is_empty() && fits(&middlebox.name, MAX_NAME_LEN)
        };
        let described = |context: &Context| fits(&context.purpose, MAX_PURPOSE_LEN);
        if !middleboxes.iter().all(named) || !contexts.iter().all(described) {
            return Err(Malformed::Text);
        }
        Ok(Self {
            server: server_certificate,
            middleboxes,
            contexts,
        })
    }

    /// SHA-256 of the server's leaf certificate.
    #[must_use]
    pub const fn server_certificate(&self) -> &[u8; 32] {
        &self.server
    }

    /// The middleboxes, from the client to the server.
    #[must_use]
    pub fn middleboxes(&self) -> &[Middlebox] {
        &self.middleboxes
    }

    /// The contexts, in ascending order of their numbers.
    #[must_use]
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// The context with this number.
    #[must_use]
    pub fn context(&self, id: ContextId) -> Option<&Context> {
        let found = self
            .contexts
            .binary_search_by_key(&id, |context| context.id);
        found.ok().map(|index| &self.contexts[index])
    }

    /// The positions of the middleboxes.
    pub fn positions(&self) -> impl DoubleEndedIterator<Item = Position> + use<> {
        Position::all(self.middleboxes.len())
    }

    /// The same terms with this right at most, for this middlebox in this context.
    #[must_use]
    pub fn reduced(mut self, position: Position, id: ContextId, most: Right) -> Self {
        for context in &mut self.contexts {
            if let Some(right) = context.rights.get_mut(position.index())
                && context.id == id
            {
                *right = most.min(*right);
            }
        }
        self
    }

    /// The same terms with the path required in this context.
    #[must_use]
    pub fn with_path(mut self, id: ContextId) -> Self {
        for context in &mut self.contexts {
            if context.id == id {
                context.path = PathMode::Required;
            }
        }
        self
    }

    /// Whether these terms only take away from what was offered.
    ///
    /// # Errors
    /// [`Breach::NotReduced`]: they add a right, drop a required path, or name other parties or
    /// contexts. [`Breach::Stripped`]: they take the last right of a middlebox whose stamps the
    /// offer requires, so that it could be led past.
    pub fn reduces(&self, offered: &Self) -> Result<(), Breach> {
        let same = self.server == offered.server
            && self.middleboxes == offered.middleboxes
            && self.contexts.len() == offered.contexts.len();
        let mut pairs = self.contexts.iter().zip(&offered.contexts);
        let reduced = pairs.all(|(now, before)| {
            now.id == before.id
                && now.purpose == before.purpose
                && now.path >= before.path
                && now.rights.iter().zip(&before.rights).all(|(a, b)| a <= b)
        });
        if !same || !reduced {
            return Err(Breach::NotReduced);
        }
        for (now, before) in self.contexts.iter().zip(&offered.contexts) {
            let stripped = |position: &Position| {
                before.stamps(*position) && now.right(*position) == Right::None
            };
            if let Some(position) = self.positions().find(stripped) {
                return Err(Breach::Stripped(position, now.id));
            }
        }
        Ok(())
    }

    /// Whether these terms leave each middlebox what a client makes do with: `least` has a list for
    /// each context, in order, with a right for each middlebox. What it does not name may be none.
    ///
    /// # Errors
    /// [`Policy::TooLittle`]: the first that has less.
    pub fn leave(&self, least: &[Vec<Right>]) -> Result<(), Policy> {
        for (context, least) in self.contexts.iter().zip(least) {
            let mut rights = self.positions().zip(least);
            let short = rights.find(|(position, least)| context.right(*position) < **least);
            if let Some((position, _)) = short {
                return Err(Policy::TooLittle(position, context.id));
            }
        }
        Ok(())
    }

    /// How many bytes they are when written.
    pub(crate) fn encoded_len(&self) -> usize {
        let boxes = self.middleboxes.iter();
        let boxes = boxes.map(|middlebox| 1 + middlebox.name.len() + HASH_LEN);
        let contexts = self.contexts.iter();
        let contexts = contexts.map(|context| 3 + context.purpose.len() + context.rights.len());
        HASH_LEN + 1 + boxes.sum::<usize>() + 1 + contexts.sum::<usize>()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.server);
        out.push(count(self.middleboxes.len()));
        for middlebox in &self.middleboxes {
            put_text(out, &middlebox.name);
            out.extend_from_slice(&middlebox.certificate);
        }
        out.push(count(self.contexts.len()));
        for context in &self.contexts {
            out.push(context.id.0);
            out.push(u8::from(context.path == PathMode::Required));
            put_text(out, &context.purpose);
            out.extend(context.rights.iter().map(|right| right.code()));
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let server = reader.array()?;
        let boxes = usize::from(reader.u8()?);
        if boxes > MAX_MIDDLEBOXES {
            return Err(Malformed::Middleboxes(boxes));
        }
        let mut middleboxes = Vec::with_capacity(boxes);
        for _ in 0..boxes {
            middleboxes.push(Middlebox {
                name: reader.text(MAX_NAME_LEN)?.to_owned(),
                certificate: reader.array()?,
            });
        }
        let mut contexts = Vec::new();
        for _ in 0..reader.u8()? {
            contexts.push(Context {
                id: reader.context()?,
                path: match reader.flag()? {
                    true => PathMode::Required,
                    false => PathMode::Off,
                },
                purpose: reader.text(MAX_PURPOSE_LEN)?.to_owned(),
                rights: reader
                    .take(boxes)?
                    .iter()
                    .map(|code| Right::parse(*code))
                    .collect::<Result<_, _>>()?,
            });
        }
        Self::new(server, middleboxes, contexts)
    }
}

/// Lengths of bounded lists.
fn count(length: usize) -> u8 {
    u8::try_from(length).expect("lists of terms are bounded where they come in")
}

/// What both endpoints and each middlebox hold to: `cfg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// How records are protected.
    pub suite: Suite,
    /// Everything else.
    pub terms: Terms,
}

impl Configuration {
    /// Its one encoding.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.suite.code().to_be_bytes());
        self.terms.write(&mut out);
        out
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let version = reader.u8()?;
        if version != VERSION {
            return Err(Breach::Version(version).into());
        }
        let suite = reader.u16()?;
        Ok(Self {
            suite: Suite::from_code(suite).ok_or(Breach::Suite(suite))?,
            terms: Terms::read(reader)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(rights: &[&[Right]]) -> Terms {
        let boxes = rights[0].len();
        let middlebox = |at: usize| Middlebox {
            name: format!("box {at}"),
            certificate: [u8::try_from(at).expect("as the test has it"); 32],
        };
        let context = |(at, rights): (usize, &&[Right])| Context {
            id: ContextId(u8::try_from(at).expect("as the test has it") + 1),
            purpose: format!("purpose {at}"),
            path: PathMode::Off,
            rights: rights.to_vec(),
        };
        let contexts = rights.iter().enumerate().map(context).collect();
        Terms::new([9; 32], (0..boxes).map(middlebox).collect(), contexts)
            .expect("as the test has it")
    }

    #[test]
    fn a_configuration_has_one_encoding() {
        let configuration = Configuration {
            suite: Suite::Aes128Gcm,
            terms: terms(&[&[Right::Read, Right::Write], &[Right::None, Right::Read]]),
        };
        let bytes = configuration.to_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(Configuration::read(&mut reader), Ok(configuration));
        reader.finish().expect("as the test has it");
    }

    #[test]
    fn an_answer_may_take_away_and_nothing_else() {
        let one = Position::new(1).expect("as the test has it");
        let offered = terms(&[&[Right::Read], &[Right::Write]]);
        let id = ContextId(2);
        assert_eq!(
            offered
                .clone()
                .reduced(one, id, Right::Read)
                .reduces(&offered),
            Ok(())
        );
        assert_eq!(offered.clone().with_path(id).reduces(&offered), Ok(()));
        assert_eq!(
            offered.reduces(&offered.clone().with_path(id)),
            Err(Breach::NotReduced)
        );
        let more = terms(&[&[Right::Write], &[Right::Write]]);
        assert_eq!(more.reduces(&offered), Err(Breach::NotReduced));
        let fewer = terms(&[&[Right::Read]]);
        assert_eq!(fewer.reduces(&offered), Err(Breach::NotReduced));
    }

    #[test]
    fn an_answer_leaves_a_middlebox_in_a_required_path() {
        let one = Position::new(1).expect("as the test has it");
        let id = ContextId(1);
        let offered = terms(&[&[Right::Write]]).with_path(id);
        let lowered = |most| offered.clone().reduced(one, id, most).reduces(&offered);
        assert_eq!(lowered(Right::Read), Ok(()));
        assert_eq!(lowered(Right::None), Err(Breach::Stripped(one, id)));
        // Where it is the server that requires the path, the client has not asked for a stamp.
        let own = terms(&[&[Right::Write]]);
        let stripped = own.clone().reduced(one, id, Right::None).with_path(id);
        assert_eq!(stripped.reduces(&own), Ok(()));
    }

    #[test]
    fn what_a_client_makes_do_with_is_compared_right_by_right() {
        let answered = terms(&[&[Right::Write, Right::Read], &[Right::None, Right::Read]]);
        let least = |rights: [[Right; 2]; 2]| answered.leave(&rights.map(|all| all.to_vec()));
        let [no, read, write] = [Right::None, Right::Read, Right::Write];
        assert_eq!(answered.leave(&[]), Ok(()));
        assert_eq!(least([[write, read], [no, read]]), Ok(()));
        assert_eq!(least([[read, no], [no, no]]), Ok(()));
        let [one, two] = [1, 2].map(|at| Position::new(at).expect("as the test has it"));
        let [first, second] = [ContextId(1), ContextId(2)];
        let short = |position, id| Err(Policy::TooLittle(position, id));
        assert_eq!(least([[read, write], [no, no]]), short(two, first));
        assert_eq!(least([[no, no], [read, write]]), short(one, second));
    }

    #[test]
    fn a_reduction_never_raises_a_right() {
        let one = Position::new(1).expect("as the test has it");
        let offered = terms(&[&[Right::Read]]);
        let same = offered.clone().reduced(one, ContextId(1), Right::Write);
        assert_eq!(same, offered);
    }

    #[test]
    fn terms_out_of_bounds_are_refused() {
        let context = |id: u8, rights: &[Right]| Context {
            id: ContextId(id),
            purpose: String::new(),
            path: PathMode::Off,
            rights: rights.to_vec(),
        };
        let new = |contexts| Terms::new([0; 32], Vec::new(), contexts).map(drop);
        assert_eq!(new(Vec::new()), Err(Malformed::NoContexts));
        let zero = Err(Malformed::ContextOrder(ContextId(0)));
        assert_eq!(new(vec![context(0, &[])]), zero);
        let twice = Err(Malformed::ContextOrder(ContextId(3)));
        assert_eq!(new(vec![context(3, &[]), context(3, &[])]), twice);
        assert_eq!(
            new(vec![context(1, &[Right::Read])]),
            Err(Malformed::Truncated)
        );
        let middlebox = Middlebox {
            name: "a\nb".into(),
            certificate: [0; 32],
        };
        let many = vec![middlebox.clone(); 17];
        let one = vec![context(1, &[Right::None])];
        assert_eq!(
            Terms::new([0; 32], many, one.clone()).map(drop),
            Err(Malformed::Middleboxes(17))
        );
        for (name, fits) in [
            ("a\nb".to_owned(), false),
            (String::new(), false),
            ("n".repeat(255), true),
            ("n".repeat(256), false),
        ] {
            let named = Middlebox {
                name,
                ..middlebox.clone()
            };
            let made = Terms::new([0; 32], vec![named], one.clone()).map(drop);
            assert_eq!(made, if fits { Ok(()) } else { Err(Malformed::Text) });
        }
    }

    #[test]
    fn tags_are_there_only_where_a_right_asks_for_them() {
        let tags = |rights: &[Right]| {
            let terms = terms(&[rights]);
            let context = &terms.contexts()[0];
            [context.has_writer_tag(), context.has_endpoint_tag()]
        };
        assert_eq!(tags(&[Right::None]), [false, false]);
        assert_eq!(tags(&[Right::Read]), [true, false]);
        assert_eq!(tags(&[Right::Write]), [false, true]);
        assert_eq!(tags(&[Right::Read, Right::Write]), [true, true]);
    }
}
