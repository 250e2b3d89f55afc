//! Where a capture is damaged: how garbage is passed over, and what is noted of an end that comes
//! too early. The same for each format.

use std::io::Read;

use super::window::Window;
use crate::damage::{Damage, DamageLog};

/// How far resynchronisation looks at once; garbage may be longer.
const STEP: usize = 64 * 1024;

/// Passes over bytes up to the next candidate where something starts, or to the end. Of each
/// candidate at least `ahead` bytes are in sight, fewer only where the capture ends before.
pub(super) fn resynchronise<R: Read>(
    window: &mut Window<R>,
    ahead: usize,
    starts: impl Fn(&[u8], usize) -> bool,
    damage: &mut DamageLog,
) {
    let at = window.offset();
    window.take(1);
    loop {
        let horizon = STEP + ahead;
        let bytes = window.look(horizon);
        let whole = bytes.len() < horizon;
        let step = if whole { bytes.len() } else { STEP };
        let found = (0..step).find(|&candidate| starts(bytes, candidate));
        window.take(found.unwrap_or(step));
        if found.is_some() || whole {
            break;
        }
    }
    let skipped = window.offset() - at;
    damage.file(Damage::Garbage { at, skipped });
}

/// Takes what is left where the capture ends before `wanted` bytes.
pub(super) fn cut<R: Read>(window: &mut Window<R>, wanted: usize, damage: &mut DamageLog) {
    let (at, present) = (window.offset(), window.look(wanted).len());
    window.take(present);
    damage.file(Damage::Cut {
        at,
        missing: wanted.saturating_sub(present) as u64,
    });
}
