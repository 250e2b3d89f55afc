//! What must hold for any text that is given as an invitation, called by the fuzz target in `fuzz/`
//! and by the replay of its corpus.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::invitation::Invitation;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("pair_invitation", pair_invitation)];

/// What is read as an invitation is written in one form, which is read as the same; one character
/// of it changed, and it is none.
///
/// # Panics
/// That does not hold.
pub fn pair_invitation(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(invitation) = text.parse::<Invitation>() else {
        return;
    };
    let written = invitation.to_string();
    assert!(written.parse() == Ok(invitation), "it is read as another");
    let (front, back) = written.split_at(written.len() / 2);
    let other = if back.starts_with('a') { 'b' } else { 'a' };
    let changed = format!("{front}{other}{}", &back[1..]);
    assert!(changed.parse::<Invitation>().is_err(), "no mistake is seen");
}
