//! One key of the zone after another: when which of two is published, signs, and is announced to
//! the zone above.
//!
//! ```text
//!               steady        introduced          announced            switched          steady
//!   DNSKEY      A             A B                 A B                  A B               B
//!   signed by   A             A B                 A B                  A B               B
//!   records by  A             A                   A                    B                 B
//!   CDS         -             -                   B                    B                 -
//!   DS above    A             A                   A, at some time B    B                 B
//!   until       it is old     DNSKEY of before    DS of B is seen      DS and records    it is old
//!                             is forgotten        above                of before are
//!                                                                      forgotten
//! ```
//!
//! Is: the order and the waiting (RFC 6781, section 4.1.3, for one key that signs all; RFC 7583,
//! section 3.3.1 for the times). Is not: the looking, the files, or the signing.
//!
//! Invariants: whatever a resolver has kept from before, it finds a chain: a DS record that it has
//! leads to a key that signs the keys that it has, and among these is the one that signs the
//! records that it has; nothing goes on before the zone above has been seen to have the new DS
//! record; a clock that is set back makes everything later and nothing earlier.

/// How long resolvers keep what seldom changes, the keys among it, in seconds.
pub(crate) const LASTING: u32 = 3600;

/// Seconds for which something of before may be seen though it has been replaced: from a PowerDNS
/// that keeps it, or a resolver that serves what is stale (RFC 8767).
const MARGIN: u64 = 24 * 3600;

/// Seconds until nobody has the DS record of before: those of the zones above are kept for two days
/// at most, and their servers agree within days.
const DS_FORGOTTEN: u64 = 7 * 24 * 3600;

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is one key.
    Steady,
    /// The next one is published.
    Introduced,
    /// The zone above is asked to show it.
    Announced,
    /// The next one signs.
    Switched,
}

/// How far it has come, and since when, in seconds of Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rollover {
    pub(crate) phase: Phase,
    pub(crate) since: u64,
}

/// What is known of the zone above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Above {
    /// It shows the DS record of the next key, with good signatures.
    HasNext,
    /// It does not, or that is not known.
    Unknown,
}

impl Rollover {
    pub(crate) const fn steady_since(since: u64) -> Self {
        Self {
            phase: Phase::Steady,
            since,
        }
    }

    /// What comes next, if it is time. A key is changed after `lifetime` seconds, or never.
    pub(crate) fn next(self, now: u64, lifetime: Option<u64>, above: Above) -> Option<Self> {
        let age = now.saturating_sub(self.since);
        let (is_time, phase) = match self.phase {
            Phase::Steady => (
                lifetime.is_some_and(|lifetime| age >= lifetime),
                Phase::Introduced,
            ),
            Phase::Introduced => (age >= u64::from(LASTING) + MARGIN, Phase::Announced),
            Phase::Announced => (above == Above::HasNext, Phase::Switched),
            Phase::Switched => (
                age >= DS_FORGOTTEN.max(u64::from(LASTING)) + MARGIN,
                Phase::Steady,
            ),
        };
        is_time.then_some(Self { phase, since: now })
    }

    /// As a line of a file.
    pub(crate) fn to_text(self) -> String {
        let phase = match self.phase {
            Phase::Steady => "steady",
            Phase::Introduced => "introduced",
            Phase::Announced => "announced",
            Phase::Switched => "switched",
        };
        format!("{phase} {}\n", self.since)
    }

    /// The same back.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (phase, since) = text.trim_end().split_once(' ')?;
        let phase = match phase {
            "steady" => Phase::Steady,
            "introduced" => Phase::Introduced,
            "announced" => Phase::Announced,
            "switched" => Phase::Switched,
            _ => return None,
        };
        let since = since.parse().ok()?;
        Some(Self { phase, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000;
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    const LIFETIME: Option<u64> = Some(365 * DAY);

    /// Which keys stand where.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Keys {
        a: bool,
        b: bool,
    }

    const A: Keys = Keys { a: true, b: false };
    const B: Keys = Keys { a: false, b: true };
    const BOTH: Keys = Keys { a: true, b: true };

    impl Keys {
        fn shares(self, other: Self) -> bool {
            (self.a && other.a) || (self.b && other.b)
        }

        fn has(self, other: Self) -> bool {
            (self.a || !other.a) && (self.b || !other.b)
        }
    }

    /// What a resolver is given at some time: DS from above, the keys (signed by all of them), and
    /// who has signed the records.
    #[derive(Debug, Clone, Copy)]
    struct Given {
        ds: Keys,
        keys: Keys,
        signer: Keys,
    }

    /// What is given in each hour from the start, where the zone above shows the new record so many
    /// hours after it was asked to, and until when the second key stands alone.
    fn hours(late: u64, with_both_above: bool) -> (Vec<Given>, u64) {
        let mut at = Rollover::steady_since(START);
        let (mut given, mut announced, mut done) = (Vec::new(), None, None);
        for hour in 0..600 * 24 {
            let now = START + hour * HOUR;
            let shown = announced.is_some_and(|since| hour >= since + late);
            let above = match shown {
                true => Above::HasNext,
                false => Above::Unknown,
            };
            // The second round is not of interest.
            let lifetime = LIFETIME.filter(|_| done.is_none());
            if let Some(next) = at.next(now, lifetime, above) {
                at = next;
                match at.phase {
                    Phase::Announced => announced = Some(hour),
                    Phase::Steady => done = Some(hour),
                    Phase::Introduced | Phase::Switched => {}
                }
            }
            let (keys, signer) = match (at.phase, done) {
                (Phase::Steady, None) => (A, A),
                (Phase::Steady, Some(_)) => (B, B),
                (Phase::Introduced | Phase::Announced, _) => (BOTH, A),
                (Phase::Switched, _) => (BOTH, B),
            };
            let ds = match (shown, with_both_above && done.is_none()) {
                (false, _) => A,
                (true, true) => BOTH,
                (true, false) => B,
            };
            given.push(Given { ds, keys, signer });
        }
        (given, done.expect("it comes to its end"))
    }

    /// RFC 4035, section 5: a DS record leads to a key that has signed the keys, and one of these
    /// has signed the records.
    fn validates(ds: Keys, keys: Keys, signer: Keys) -> bool {
        keys.shares(ds) && keys.has(signer)
    }

    #[test]
    fn a_resolver_finds_a_chain_whatever_it_has_kept_from_before() {
        // DS records are kept for two days, keys and records for an hour; a stale answer for a day.
        for late in [0, 1, 30, 60 * 24] {
            for with_both_above in [false, true] {
                let (given, done) = hours(late, with_both_above);
                assert!(given[done as usize].keys == B);
                for now in 72..given.len() {
                    for ds_age in [0, 1, 24, 48, 72] {
                        for keys_age in [0, 1, 2, 24] {
                            for records_age in [0, 1, 2, 24] {
                                let ds = given[now - ds_age].ds;
                                let keys = given[now - keys_age].keys;
                                let signer = given[now - records_age].signer;
                                assert!(
                                    validates(ds, keys, signer),
                                    "{ds:?} {keys:?} {signer:?} at hour {now}, {ds_age} {keys_age} {records_age}, late {late}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_goes_on_before_the_zone_above_shows_the_new_record() {
        let announced = Rollover {
            phase: Phase::Announced,
            since: START,
        };
        for years in 0..10 {
            let now = START + years * 365 * DAY;
            assert_eq!(announced.next(now, LIFETIME, Above::Unknown), None);
        }
        let switched = announced.next(START + 1, LIFETIME, Above::HasNext);
        assert_eq!(
            switched,
            Some(Rollover {
                phase: Phase::Switched,
                since: START + 1
            })
        );
    }

    #[test]
    fn a_key_is_changed_when_it_is_old_and_never_where_nothing_is_said() {
        let steady = Rollover::steady_since(START);
        let next = |now, lifetime| steady.next(now, lifetime, Above::Unknown);
        assert_eq!(next(START + 365 * DAY - 1, LIFETIME), None);
        let introduced = next(START + 365 * DAY, LIFETIME).expect("it is old");
        assert_eq!(introduced.phase, Phase::Introduced);
        assert_eq!(next(START + 9_999 * DAY, None), None);
        // A clock that was set back makes it later.
        assert_eq!(next(START - 400 * DAY, LIFETIME), None);
        // What has begun comes to its end though the setting was taken away.
        let now = START + 400 * DAY;
        let announced = introduced.next(now, None, Above::Unknown);
        assert_eq!(announced.map(|it| it.phase), Some(Phase::Announced));
    }

    #[test]
    fn how_far_it_has_come_is_kept_in_a_line() {
        for phase in [
            Phase::Steady,
            Phase::Introduced,
            Phase::Announced,
            Phase::Switched,
        ] {
            let rollover = Rollover {
                phase,
                since: START,
            };
            assert_eq!(Rollover::parse(&rollover.to_text()), Some(rollover));
        }
        for text in ["", "steady", "steady x", "later 1", "steady -1"] {
            assert_eq!(Rollover::parse(text), None, "{text}");
        }
    }
}
