//! The server's first flight, written with references to what the far side holds.
//!
//! Is not: what it holds (`peer`). Invariant: a wrong possession costs a miss, never a byte.

use std::ops::Range;
use std::sync::Arc;

use tandem_delta::{Name, Planner, Reference};
use tandem_store::{ObjectId, Store};

use crate::objects::Flight;
use crate::peer::{Authorities, Possession};

/// Something of a flight that repeats from handshake to handshake, and may be held as a whole.
struct Part {
    /// Its name in a store.
    id: ObjectId,
    /// Where it lies in the stream, record headers left out.
    pieces: Vec<Range<usize>>,
    /// Where its first byte stands in the list that its name resolves to.
    offset: usize,
}

/// The plan of a server's first flight.
///
/// What was hinted and is in the flight as a whole (the chain, or its issuers alone; what came
/// beside it) is copied, whether it is held here or not. For the rest, whatever was hinted and is
/// held here, too, is searched for likeness: a renewed leaf has most of its bytes from the one
/// before. What of chain and extras is not held may be compressed. `bytes` is the stream up to the
/// end of the flight, or past it; all of it goes into the delta.
pub fn plan_flight<'t>(
    bytes: &'t [u8],
    flight: &Flight,
    possession: &Possession,
    store: &mut impl Store,
) -> Planner<'t> {
    let by_digest = |id: &ObjectId| Some(Reference(id.prefix16()).into());
    plan_named(bytes, flight, (possession, by_digest), store)
}

/// The same for a carrier where both sides number the hints of a connection: objects have the
/// numbers from 1 on, in the order of their hints.
pub(crate) fn plan_numbered<'t>(
    bytes: &'t [u8],
    flight: &Flight,
    possession: &Possession,
    store: &mut impl Store,
) -> Planner<'t> {
    let by_hint = |id: &ObjectId| number_of(&id.prefix4(), possession.hints()).map(Name::Number);
    plan_named(bytes, flight, (possession, by_hint), store)
}

/// The plan of a server's first flight where the far side holds an earlier one, the number 0.
pub(crate) fn plan_after<'t>(bytes: &'t [u8], flight: &Flight, before: Arc<[u8]>) -> Planner<'t> {
    let mut plan = Planner::new(bytes);
    plan.follow(Name::Number(EARLIER_FLIGHT), before);
    compress_rests(&mut plan, flight);
    plan
}

/// Bytes of the length in front of a certificate in its list.
const LENGTH_LEN: usize = 3;

/// The number of the flight before this one, where that is held.
pub(crate) const EARLIER_FLIGHT: u32 = 0;

/// The number of a flight's clear part, where that has crossed before the rest.
pub(crate) const CROSSED_CLEAR: u32 = 31;

/// From here on numbers are certificates of authorities. More hints than there are numbers before
/// these two are not referred to; a carrier has room for three.
pub(crate) const FIRST_AUTHORITY: u32 = CROSSED_CLEAR + 1;

/// The number of the object with this hint: hints count from behind [`EARLIER_FLIGHT`].
fn number_of(hint: &[u8; 4], hints: &[[u8; 4]]) -> Option<u32> {
    let mut numbered = (EARLIER_FLIGHT + 1..CROSSED_CLEAR).zip(hints);
    numbered
        .find(|(_, it)| *it == hint)
        .map(|(number, _)| number)
}

fn plan_named<'t>(
    bytes: &'t [u8],
    flight: &Flight,
    (possession, name): (&Possession, impl Fn(&ObjectId) -> Option<Name>),
    store: &mut impl Store,
) -> Planner<'t> {
    let mut plan = Planner::new(bytes);
    let is_whole = copy_held_parts(&mut plan, bytes, flight, (possession, &name));
    if !is_whole {
        plan.search(possession.hints().iter().filter_map(|hint| {
            let object = store.object_by_prefix(hint)?;
            Some((name(&object.id)?, store.contents(&object)?))
        }));
        if let Some(authorities) = possession.authorities() {
            copy_authorities(&mut plan, bytes, flight, authorities);
        }
        compress_rests(&mut plan, flight);
    }
    plan
}

/// Copies the certificates of authorities that both sides have been given; what else is in the
/// flight may be like them.
fn copy_authorities(
    plan: &mut Planner<'_>,
    bytes: &[u8],
    flight: &Flight,
    authorities: &Authorities,
) {
    let mut end = 0;
    for der in flight.certificates(bytes).iter().flatten() {
        let start = end + LENGTH_LEN;
        end = start + der.len();
        if let Some((index, held)) = authorities.find(der)
            && let Some(number) = FIRST_AUTHORITY.checked_add(index)
        {
            plan.copy(Name::Number(number), 0, flight.within_list(start..end));
            plan.search([(Name::Number(number), Arc::clone(held))]);
        }
    }
}

/// What of chain and extras is not copied may be compressed.
fn compress_rests(plan: &mut Planner<'_>, flight: &Flight) {
    for extent in flight.extents() {
        plan.compress(extent);
    }
}

/// Copies what was hinted and is in the flight; says whether that is all that repeats in it.
fn copy_held_parts(
    plan: &mut Planner<'_>,
    bytes: &[u8],
    flight: &Flight,
    (possession, name): (&Possession, &impl Fn(&ObjectId) -> Option<Name>),
) -> bool {
    let is_hinted = |part: &Part| possession.hints().contains(&part.id.prefix4());
    let list = flight.list(bytes);
    let from = |start: usize| Part {
        id: ObjectId::of_list_contents(&list[start..]),
        pieces: flight.within_list(start..list.len()),
        offset: 0,
    };
    let leaf = list.first_chunk().map_or(0, |&[high, middle, low]| {
        3 + u32::from_be_bytes([0, high, middle, low]) as usize
    });
    let chain = Some(from(0)).filter(is_hinted);
    let extras = flight.extras(bytes).map(|extras| Part {
        id: ObjectId::of(&[&extras]),
        pieces: flight.extras_pieces().to_vec(),
        // In its list its length stands before it.
        offset: 3,
    });
    let extras_repeat = extras.as_ref().is_none_or(is_hinted);
    let is_whole = chain.is_some() && extras_repeat;
    let issuers = || (leaf < list.len()).then(|| from(leaf)).filter(is_hinted);
    let parts = [chain.or_else(issuers), extras.filter(is_hinted)];
    for part in parts.into_iter().flatten() {
        if let Some(name) = name(&part.id) {
            plan.copy(name, part.offset, part.pieces);
        }
    }
    is_whole
}

#[cfg(test)]
mod tests;
