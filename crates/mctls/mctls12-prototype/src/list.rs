//! What the client proposes: extension 0xff06 of its hello.
//!
//! ```text
//! slices 1; each: id 1 (from 2) | purpose<0..255>
//! proxies 1; each: id 1 (from 3) | address<0..255> | ids it reads<0..255> | ids it writes<0..255>
//! server's address<0..255>
//! ```
//!
//! Context k of `mctls12`'s list is slice k + 1. Names are not sent: on reading, a party's name is
//! the host of its address.
//!
//! Invariants: a right to write without the right to read is none; each id stands for one party.

use std::collections::BTreeSet;

use mctls::config::Right;
use mctls::party::{ContextId, MAX_MIDDLEBOXES, Position};
use mctls12::list::{Context, MiddleboxList, Place};

use crate::error::{Error, Malformed, Misuse};
use crate::read::{Reader, put_vec};

/// Most contexts: key material for all of them fits into the prototype's longest message.
pub const MAX_CONTEXTS: usize = 120;

/// What is between the number of a context and that of its slice.
const FIRST: u8 = 1;

/// The client's id.
pub(crate) const CLIENT: u8 = 1;

/// The server's id.
pub(crate) const SERVER: u8 = 2;

/// The id of the first middlebox, where this crate chooses it.
const FIRST_PROXY: u8 = 3;

/// A list, and the middleboxes' ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) list: MiddleboxList,
    ids: Vec<u8>,
}

/// A context's slice.
pub(crate) const fn slice_of(context: ContextId) -> u8 {
    context.0 + FIRST
}

/// A slice's context, if it can be one.
pub(crate) const fn context_of(slice: u8) -> Option<ContextId> {
    match slice.checked_sub(FIRST) {
        None | Some(0) => None,
        Some(id) => Some(ContextId(id)),
    }
}

impl Proposal {
    /// A client's.
    ///
    /// # Errors
    /// More contexts than there is room for.
    pub(crate) fn new(list: MiddleboxList) -> Result<Self, Error> {
        let count = list.contexts().len();
        let last = list.contexts().last().map_or(0, |context| context.id.0);
        if count > MAX_CONTEXTS || last > u8::MAX - FIRST {
            let count = count.max(last.into());
            let max = MAX_CONTEXTS;
            return Err(Misuse::Contexts { count, max }.into());
        }
        let ids = (FIRST_PROXY..).take(list.middleboxes().len()).collect();
        Ok(Self { list, ids })
    }

    /// A middlebox's id.
    pub(crate) fn id(&self, position: Position) -> u8 {
        self.ids[position.index()]
    }

    /// Every middlebox with its id, in order.
    pub(crate) fn middleboxes(&self) -> impl Iterator<Item = (Position, u8)> + '_ {
        self.list.positions().zip(self.ids.iter().copied())
    }

    /// All slices of contexts.
    pub(crate) fn slices(&self) -> impl Iterator<Item = u8> + '_ {
        let contexts = self.list.contexts().iter();
        contexts.map(|context| slice_of(context.id))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let byte = |count: usize| u8::try_from(count).expect("bounded by `new`");
        let contexts = self.list.contexts();
        out.push(byte(contexts.len()));
        for context in contexts {
            out.push(slice_of(context.id));
            put_vec(out, 1, context.purpose.as_bytes());
        }
        out.push(byte(self.ids.len()));
        for ((position, id), place) in self.middleboxes().zip(self.list.middleboxes()) {
            out.push(id);
            put_vec(out, 1, place.address.as_bytes());
            for least in [Right::Read, Right::Write] {
                let mine = contexts.iter();
                let mine = mine.filter(|context| context.rights[position.index()] >= least);
                let slices: Vec<u8> = mine.map(|context| slice_of(context.id)).collect();
                put_vec(out, 1, &slices);
            }
        }
        put_vec(out, 1, self.list.server().address.as_bytes());
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut contexts = Vec::new();
        for _ in 0..reader.u8()? {
            contexts.push(Context {
                id: context_of(reader.u8()?).ok_or(Malformed::Value)?,
                purpose: text(reader.vec(1)?)?,
                rights: Vec::new(),
            });
        }
        let (mut middleboxes, mut ids) = (Vec::new(), Vec::new());
        for _ in 0..reader.u8()? {
            let id = reader.u8()?;
            if id < FIRST_PROXY || ids.contains(&id) || ids.len() == MAX_MIDDLEBOXES {
                return Err(Malformed::Value);
            }
            ids.push(id);
            middleboxes.push(place(reader.vec(1)?)?);
            let [reads, writes] = [reader.vec(1)?, reader.vec(1)?]
                .map(|slices| slices.iter().copied().collect::<BTreeSet<u8>>());
            for context in &mut contexts {
                let slice = slice_of(context.id);
                let right = match (reads.contains(&slice), writes.contains(&slice)) {
                    (false, _) => Right::None,
                    (true, false) => Right::Read,
                    (true, true) => Right::Write,
                };
                context.rights.push(right);
            }
        }
        let server = place(reader.vec(1)?)?;
        reader.finish()?;
        if contexts.len() > MAX_CONTEXTS {
            return Err(Malformed::Value);
        }
        let list = MiddleboxList::new(server, middleboxes, contexts).map_err(Malformed::List)?;
        Ok(Self { list, ids })
    }
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Value)?;
    Ok(text.to_owned())
}

fn place(address: &[u8]) -> Result<Place, Malformed> {
    let address = text(address)?;
    let name = host_of(&address).to_owned();
    Ok(Place { name, address })
}

/// The host of an address `host:port`.
#[must_use]
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
