//! The client's flight after the server's, written with references to what the far side is
//! believed to hold of its chain.
//!
//! Invariant: a wrong belief costs a miss, never a byte.

use tandem_delta::{Planner, Reference};
use tandem_store::Digest;

use crate::objects::Flight;
use crate::peer::Believed;

/// The plan of a client's flight after the server's, which begins at offset `from` of its
/// stream; `None` where `flight` is not that stream's.
pub(crate) fn plan_client_flight<'t>(
    stream: &'t [u8],
    from: usize,
    flight: &Flight,
    believed: &Believed,
) -> Option<Planner<'t>> {
    let mut plan = Planner::starting_at(stream, from);
    if let Some(chain) = believed.chain() {
        plan.copy(chain, 0, flight.list_pieces().iter().cloned());
    } else {
        let mut start = 0;
        for der in flight.certificates(stream)? {
            // Behind its length (RFC 5246, section 7.4.2).
            let range = start + 3..start + 3 + der.len();
            start = range.end;
            let reference = Reference(Digest::of(&der).prefix16());
            if believed.has(&reference) {
                plan.copy(reference, 0, flight.within_list(range));
            }
        }
    }
    if flight.is_opened() {
        // A flight in clear passes as it is while nothing of it is held.
        for extent in flight.extents() {
            plan.compress(extent);
        }
    }
    Some(plan)
}

#[cfg(test)]
mod tests;
