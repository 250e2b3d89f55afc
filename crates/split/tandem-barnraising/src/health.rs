//! Whether a volunteer is well: two thresholds, up slowly and down quickly.
//!
//! Is not: how it is looked at. The broker fetches something through the volunteer, as a browser
//! would, and says here how that went.
//!
//! Why two: who has just joined, or come back, must show itself steady before browsers are sent
//! there; who fails costs each of them a failed transfer. One failure alone may be the way between,
//! so the default takes two.

/// How one look at a volunteer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It served the site, vouched for by the site's certificate.
    Good,
    /// It did not answer, or what came was refused.
    Bad,
}

/// How often a volunteer must be seen well or ill in a row before it counts as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Good looks in a row that make it healthy; 0 counts as 1.
    pub up: u32,
    /// Bad looks in a row that end its health; 0 counts as 1.
    pub down: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { up: 3, down: 2 }
    }
}

/// What is known of one volunteer. It begins as not healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    state: State,
    /// Looks in a row that spoke against what it counts as.
    against: u32,
    /// How the last look ended.
    last: Option<Outcome>,
}

/// What it counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Not healthy, and it never was.
    #[default]
    Unproven,
    Healthy,
    /// Not healthy any more.
    Ill,
}

impl Health {
    /// As it was known before a restart of the broker: well, until looks say otherwise.
    #[must_use]
    pub fn known_as_well() -> Self {
        Self {
            state: State::Healthy,
            against: 0,
            last: None,
        }
    }

    /// As three numbers, for another broker of the site.
    #[must_use]
    pub fn parts(&self) -> [u32; 3] {
        let state = match self.state {
            State::Unproven => 0,
            State::Healthy => 1,
            State::Ill => 2,
        };
        let last = match self.last {
            None => 0,
            Some(Outcome::Good) => 1,
            Some(Outcome::Bad) => 2,
        };
        [state, self.against, last]
    }

    /// The same back; `None` for numbers that [`Self::parts`] does not give.
    #[must_use]
    pub fn from_parts([state, against, last]: [u32; 3]) -> Option<Self> {
        let state = match state {
            0 => State::Unproven,
            1 => State::Healthy,
            2 => State::Ill,
            _ => return None,
        };
        let last = match last {
            0 => None,
            1 => Some(Outcome::Good),
            2 => Some(Outcome::Bad),
            _ => return None,
        };
        Some(Self {
            state,
            against,
            last,
        })
    }

    /// Whether browsers may be sent there.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        match self.state {
            State::Healthy => true,
            State::Unproven | State::Ill => false,
        }
    }

    /// Whether it is healthy, or was.
    #[must_use]
    pub fn has_been_healthy(&self) -> bool {
        match self.state {
            State::Healthy | State::Ill => true,
            State::Unproven => false,
        }
    }

    /// Whether the last look found it ill.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.last == Some(Outcome::Bad)
    }

    /// It counts as ill, whatever looks said before; whether it was healthy.
    pub fn fail(&mut self) -> bool {
        let was_healthy = self.is_healthy();
        self.against = 0;
        self.last = Some(Outcome::Bad);
        self.state = match self.state {
            State::Healthy | State::Ill => State::Ill,
            State::Unproven => State::Unproven,
        };
        was_healthy
    }

    /// Takes in one look; whether that changed what it counts as.
    pub fn note(&mut self, outcome: Outcome, thresholds: Thresholds) -> bool {
        let healthy = self.is_healthy();
        let (against, threshold) = match outcome {
            Outcome::Good => (!healthy, thresholds.up),
            Outcome::Bad => (healthy, thresholds.down),
        };
        self.last = Some(outcome);
        if !against {
            self.against = 0;
            return false;
        }
        self.against = self.against.saturating_add(1);
        if self.against < threshold {
            return false;
        }
        self.against = 0;
        self.state = match self.state {
            State::Healthy => State::Ill,
            State::Unproven | State::Ill => State::Healthy,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(outcomes: &[Outcome], thresholds: Thresholds) -> Health {
        let mut health = Health::default();
        for outcome in outcomes {
            health.note(*outcome, thresholds);
        }
        health
    }

    #[test]
    fn up_takes_three_in_a_row_and_down_two() {
        use Outcome::{Bad, Good};
        let default = Thresholds::default();
        assert!(!after(&[Good, Good, Bad, Good, Good], default).is_healthy());
        assert!(after(&[Good, Good, Good], default).is_healthy());
        assert!(after(&[Good, Good, Good, Bad, Good, Bad], default).is_healthy());
        assert!(!after(&[Good, Good, Good, Bad, Bad], default).is_healthy());
    }

    #[test]
    fn who_was_healthy_once_stays_apart_from_who_never_was() {
        use Outcome::{Bad, Good};
        let default = Thresholds::default();
        let health = after(&[Good, Good, Bad], default);
        assert!(!health.has_been_healthy() && health.has_failed());
        let health = after(&[Good, Good, Good], default);
        assert!(health.has_been_healthy() && !health.has_failed());
        let health = after(&[Good, Good, Good, Bad, Bad], default);
        assert!(!health.is_healthy() && health.has_been_healthy() && health.has_failed());
        let health = after(&[Good, Good, Good, Bad, Bad, Good], default);
        assert!(health.has_been_healthy() && !health.has_failed());
        let known = Health::known_as_well();
        assert!(known.has_been_healthy() && !known.has_failed());
        assert!(!Health::default().has_failed());
    }

    proptest! {
        #[test]
        fn it_changes_only_after_as_many_in_a_row_as_the_threshold_says(
            looks in proptest::collection::vec(any::<bool>(), 0..200), up in 0_u32..6, down in 0_u32..6,
        ) {
            let thresholds = Thresholds { up, down };
            let mut health = Health::default();
            let mut row = 0;
            let mut last = None;
            for good in looks {
                row = if last == Some(good) { row + 1 } else { 1 };
                last = Some(good);
                let threshold = if good { up } else { down }.max(1);
                let changed = health.note(if good { Outcome::Good } else { Outcome::Bad }, thresholds);
                if changed {
                    prop_assert_eq!(health.is_healthy(), good);
                    prop_assert!(row >= threshold);
                    row = 0;
                } else {
                    // As many in a row as it takes leave no doubt.
                    prop_assert!(row < threshold || health.is_healthy() == good);
                }
            }
        }
    }
}
