//! Where rows go, and the books kept on the way there.
//!
//! Not figures: whoever takes the rows makes those.

use crate::damage::{Damage, DamageLog};
use crate::facts::CaptureFacts;
use crate::session::{Ending, Handshake, Stop};

/// Takes the rows of a trace, in the order in which handshakes end.
pub trait Rows {
    /// A handshake, whole or as far as it could be read.
    fn handshake(&mut self, handshake: &Handshake);

    /// A connection that is SSL 2.0 throughout.
    fn ssl2_connection(&mut self);
}

/// Connections whose handshake could not be read to its end, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) gaps: u64,
    pub(crate) conflicts: u64,
    pub(crate) given_up: u64,
    broken: u64,
    too_large: u64,
}

/// Counts what goes by on its way to the rows.
pub(crate) struct Books<'r> {
    rows: &'r mut dyn Rows,
    /// What the tracker could not read.
    pub(crate) losses: Losses,
    one_sided: u64,
}

impl<'r> Books<'r> {
    /// Empty books over these rows.
    pub(crate) fn new(rows: &'r mut dyn Rows) -> Self {
        Self {
            rows,
            losses: Losses::default(),
            one_sided: 0,
        }
    }

    /// A connection turned out to be SSL 2.0 throughout.
    pub(crate) fn ssl2_connection(&mut self) {
        self.rows.ssl2_connection();
    }

    /// Enters one handshake.
    pub(crate) fn enter(&mut self, handshake: &Handshake) {
        self.one_sided += u64::from(handshake.is_one_sided);
        match handshake.ending {
            Ending::Stopped(Stop::BrokenTls) => self.losses.broken += 1,
            Ending::Stopped(Stop::TooLarge) => self.losses.too_large += 1,
            Ending::Completed | Ending::Stopped(Stop::Alert | Stop::NoTls) | Ending::Unfinished => {
            }
        }
        self.rows.handshake(handshake);
    }

    /// Closes the books: what they say goes to the facts and to the damage.
    pub(crate) fn close(self, facts: &mut CaptureFacts, damage: &mut DamageLog) {
        facts.one_sided_handshakes = self.one_sided;
        let losses = self.losses;
        damage.counted(losses.gaps, |connections| Damage::Gaps { connections });
        damage.counted(losses.conflicts, |connections| Damage::Conflicts {
            connections,
        });
        damage.counted(losses.broken, |connections| Damage::NotTls { connections });
        damage.counted(losses.too_large, |connections| Damage::TooLarge {
            connections,
        });
        damage.counted(losses.given_up, |connections| Damage::GivenUp {
            connections,
        });
    }
}
