//! What the client proposes in its hello (the paper's MiddleboxListExtension): the server, the
//! middleboxes in order from the client to the server, the contexts, and who may do what in each.
//!
//! ```text
//! server name<1..255> | server address<1..255>
//! how many middleboxes 1 (0 to 16); each: name<1..255> | address<1..255>
//! how many contexts 1 (1 to 255); each: id 1 | purpose<0..64> | a right (1) for each middlebox
//! ```
//!
//! Is not: what a middlebox gets in the end: that is what both endpoints send it keys for.
//!
//! Invariants: contexts stand in ascending order of their ids, each has a right for each
//! middlebox; one list has one encoding.

use mctls::config::Right;
use mctls::party::{ContextId, MAX_MIDDLEBOXES, Position};

use crate::error::Malformed;
use crate::read::{Reader, is_text, put_vec};

/// Longest name or address, in bytes of printable ASCII.
pub const MAX_NAME_LEN: usize = 255;

/// Longest purpose of a context, in bytes of printable ASCII.
pub const MAX_PURPOSE_LEN: usize = 64;

/// The number of contexts that a session may have at most, context 0 not counted.
pub const MAX_CONTEXTS: usize = 255;

/// A party with a name, which its certificate is for, and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the certificate: one to [`MAX_NAME_LEN`] bytes of printable ASCII.
    pub name: String,
    /// Where it listens, `host:port`: the same bounds.
    pub address: String,
}

/// A context: a part of the data for which one set of rights holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its number, from 1.
    pub id: ContextId,
    /// For applications: which part of the data it is. At most [`MAX_PURPOSE_LEN`] bytes of
    /// printable ASCII.
    pub purpose: String,
    /// What the client wants each middlebox to be able to do, in their order.
    pub rights: Vec<Right>,
}

/// The whole list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiddleboxList {
    server: Place,
    middleboxes: Vec<Place>,
    contexts: Vec<Context>,
}

impl MiddleboxList {
    /// A list with these parties and contexts.
    ///
    /// # Errors
    /// Where a bound of this module does not hold.
    pub fn new(
        server: Place,
        middleboxes: Vec<Place>,
        contexts: Vec<Context>,
    ) -> Result<Self, Malformed> {
        if middleboxes.len() > MAX_MIDDLEBOXES {
            return Err(Malformed::Middleboxes(middleboxes.len()));
        }
        let is_name = |text: &str| is_text(text, 1, MAX_NAME_LEN);
        let places = middleboxes.iter().chain([&server]);
        let purposes = contexts.iter().map(|context| &context.purpose);
        if !places
            .flat_map(|place| [&place.name, &place.address])
            .all(|text| is_name(text))
            || !purposes
                .into_iter()
                .all(|text| is_text(text, 0, MAX_PURPOSE_LEN))
        {
            return Err(Malformed::Text);
        }
        let ids = contexts.iter().map(|context| context.id);
        let first = contexts.first().ok_or(Malformed::Contexts)?.id;
        if first == ContextId::END_TO_END || !ids.is_sorted_by(|left, right| left < right) {
            return Err(Malformed::Contexts);
        }
        let count = middleboxes.len();
        if contexts.iter().any(|one| one.rights.len() != count) {
            return Err(Malformed::Truncated);
        }
        Ok(Self {
            server,
            middleboxes,
            contexts,
        })
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &Place {
        &self.server
    }

    /// The middleboxes, in order from the client to the server.
    #[must_use]
    pub fn middleboxes(&self) -> &[Place] {
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
        self.contexts.iter().find(|context| context.id == id)
    }

    /// All positions, in order.
    pub fn positions(&self) -> impl Iterator<Item = Position> + use<> {
        Position::all(self.middleboxes.len())
    }

    /// Where the middlebox stands that has this name: the first, if there are several.
    pub(crate) fn position(&self, is_named: impl Fn(&str) -> bool) -> Option<Position> {
        let mut all = self.positions();
        all.find(|position| is_named(&self.middleboxes[position.index()].name))
    }

    /// Whom this middlebox connects to.
    #[must_use]
    pub fn next_hop(&self, position: Position) -> &Place {
        let next = self.middleboxes.get(position.index() + 1);
        next.unwrap_or(&self.server)
    }

    /// The rights of all middleboxes in all contexts, as the client wants them.
    #[must_use]
    pub fn rights(&self) -> Vec<Vec<Right>> {
        let rights = self.contexts.iter().map(|context| context.rights.clone());
        rights.collect()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let byte = |count: usize| u8::try_from(count).expect("bounded by `new`");
        let text = |out: &mut Vec<u8>, text: &str| {
            put_vec(out, 1, |out| out.extend_from_slice(text.as_bytes()));
        };
        let place = |out: &mut Vec<u8>, place: &Place| {
            text(out, &place.name);
            text(out, &place.address);
        };
        place(out, &self.server);
        out.push(byte(self.middleboxes.len()));
        self.middleboxes.iter().for_each(|one| place(out, one));
        out.push(byte(self.contexts.len()));
        for context in &self.contexts {
            out.push(context.id.0);
            text(out, &context.purpose);
            out.extend(context.rights.iter().copied().map(right_code));
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        fn place(reader: &mut Reader<'_>) -> Result<Place, Malformed> {
            Ok(Place {
                name: reader.text(1, MAX_NAME_LEN)?,
                address: reader.text(1, MAX_NAME_LEN)?,
            })
        }
        let server = place(reader)?;
        let count = usize::from(reader.u8()?);
        if count > MAX_MIDDLEBOXES {
            return Err(Malformed::Middleboxes(count));
        }
        let middleboxes = (0..count).map(|_| place(reader));
        let middleboxes = middleboxes.collect::<Result<Vec<_>, _>>()?;
        let mut contexts = Vec::new();
        for _ in 0..reader.u8()? {
            contexts.push(Context {
                id: ContextId(reader.u8()?),
                purpose: reader.text(0, MAX_PURPOSE_LEN)?,
                rights: (0..count)
                    .map(|_| right(reader.u8()?))
                    .collect::<Result<_, _>>()?,
            });
        }
        Self::new(server, middleboxes, contexts)
    }
}

const fn right_code(right: Right) -> u8 {
    match right {
        Right::None => 0,
        Right::Read => 1,
        Right::Write => 2,
    }
}

const fn right(code: u8) -> Result<Right, Malformed> {
    match code {
        0 => Ok(Right::None),
        1 => Ok(Right::Read),
        2 => Ok(Right::Write),
        other => Err(Malformed::Right(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Place {
        Place {
            name: name.into(),
            address: "192.0.2.1:443".into(),
        }
    }

    fn context(id: u8, rights: &[Right]) -> Context {
        Context {
            id: ContextId(id),
            purpose: "p".into(),
            rights: rights.to_vec(),
        }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let rights = [Right::Read, Right::Write];
        let contexts = vec![context(1, &rights), context(255, &rights)];
        let list = MiddleboxList::new(place("s"), vec![place("a"), place("b")], contexts)
            .expect("as the test has it");
        let mut bytes = Vec::new();
        list.write(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(MiddleboxList::read(&mut reader), Ok(list.clone()));
        let [one, two] = [1, 2].map(|at| Position::new(at).expect("as the test has it"));
        assert_eq!(list.position(|name| name == "b"), Some(two));
        assert_eq!(list.next_hop(one).name, "b");
        assert_eq!(list.next_hop(two).name, "s");
        for length in 0..bytes.len() {
            let cut = MiddleboxList::read(&mut Reader::new(&bytes[..length]));
            assert!(cut.is_err(), "{length}");
        }
    }

    #[test]
    fn a_list_out_of_bounds_is_refused() {
        let new = |boxes: usize, contexts| {
            MiddleboxList::new(place("s"), vec![place("b"); boxes], contexts).map(drop)
        };
        assert_eq!(new(0, Vec::new()), Err(Malformed::Contexts));
        assert_eq!(new(0, vec![context(0, &[])]), Err(Malformed::Contexts));
        let twice = vec![context(2, &[]), context(2, &[])];
        assert_eq!(new(0, twice), Err(Malformed::Contexts));
        assert_eq!(new(1, vec![context(1, &[])]), Err(Malformed::Truncated));
        let many = vec![context(1, &[Right::None; 17])];
        assert_eq!(new(17, many), Err(Malformed::Middleboxes(17)));
        let unnamed = MiddleboxList::new(place(""), Vec::new(), vec![context(1, &[])]);
        assert_eq!(unnamed, Err(Malformed::Text));
    }
}
