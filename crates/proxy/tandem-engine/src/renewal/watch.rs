//! Which sites' certificates are worth asking after ahead of their next visit, and when.
//!
//! Is: the decision. Is not: the asking, or what is held; that is the store's. Nothing here is
//! kept over a restart: what each site showed last, and when, is in the store
//! ([`tandem_store::Store::latest`]).
//!
//! ```text
//!   since             half of its life, or as old as            until
//!     |               the one before it became                    |
//!     +--------------------------+----+----+----+----+----+- - - -+
//!     leaf                       |  looks: until it is another one
//! ```
//!
//! Invariants: what lives longer than [`MAX_LIFETIME`] is left to its visits; a site is asked after
//! only while its leaf lives and for [`KEPT_LIVES`] lives of it after its last visit; only while
//! the link is awake and nothing crosses it, a few at a time, a pause between; sites are bounded in
//! number, the one visited longest ago forgotten first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use tandem_store::{ObjectId, Site, Validity};
use tandem_wire::{Instant, UnixTime};

/// Seconds that a certificate lives at most to be asked after. Those of 90 days change between a
/// site's visits seldom, and those of six days between many (CA/Browser Forum's "short-lived": ten
/// days at most, seven from March 2026 on).
const MAX_LIFETIME: u64 = 10 * 24 * 3_600;

/// For how many lives of its leaf a site is asked after that nobody visits. More: less often a
/// visit finds another leaf; less: fewer bytes for sites to which nobody comes back.
const KEPT_LIVES: u64 = 3;

/// Looks in a leaf's life, if it were looked for all the time: one each 6.7 hours with 160 hours.
const LOOKS_A_LIFE: u64 = 24;

/// The line has carried something so long ago at most: otherwise it sleeps, and is not woken for
/// this. The shortest gap after which carriers bill another session.
const AWAKE: Duration = Duration::from_secs(60);

/// And at least so long ago: nobody waits for it.
const IDLE: Duration = Duration::from_secs(5);

/// Sites that are asked after at a time: their questions share a packet or two.
const AT_A_TIME: usize = 8;

/// Between two such times.
const PAUSE: Duration = Duration::from_secs(10);

/// Sites that are watched.
pub(crate) const MAX_SITES: usize = 4_096;

/// A site that is watched.
#[derive(Debug, Clone)]
struct Watched {
    port: u16,
    held: ObjectId,
    validity: Validity,
    /// How old the leaf before this one became, in seconds.
    became: Option<u64>,
    visited: UnixTime,
    /// When it is looked for.
    next: UnixTime,
}

/// A site that is to be asked after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The site.
    pub site: Site,
    /// Its port, where it has a name.
    pub port: u16,
    /// The chain that is held.
    pub held: ObjectId,
    /// When it was visited last.
    pub visited: UnixTime,
}

/// The sites that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    sites: BTreeMap<Site, Watched>,
    /// Nobody is due before.
    soonest: UnixTime,
    asked: Option<Instant>,
}

fn lifetime(validity: Validity) -> u64 {
    validity.until.0.saturating_sub(validity.since.0)
}

impl Watched {
    /// When a leaf like this is looked for at first.
    fn first_look(&self) -> UnixTime {
        let life = lifetime(self.validity);
        let became = self
            .became
            .filter(|became| (life / 4..=life).contains(became));
        UnixTime(self.validity.since.0 + became.unwrap_or(life / 2))
    }

    /// Whether it is asked after now or later, unless it is visited.
    fn may_be_due(&self, now: UnixTime) -> bool {
        let kept = lifetime(self.validity) * KEPT_LIVES;
        now.0.saturating_sub(self.visited.0) <= kept && now <= self.validity.until
    }
}

impl Watch {
    /// A site, of this port where it has a name, has this chain, and was visited last then: the
    /// client's handshake has shown it, the store has it from before, or the other side has sent
    /// it.
    pub(crate) fn shown(
        &mut self,
        (site, port): (&Site, u16),
        (held, validity): (ObjectId, Validity),
        visited: UnixTime,
    ) {
        let before = self.sites.remove(site);
        if lifetime(validity) > MAX_LIFETIME {
            return;
        }
        let mut watched = Watched {
            port,
            held,
            validity,
            became: None,
            visited,
            next: validity.until,
        };
        match before {
            Some(before) if before.held == held => {
                watched.visited = visited.max(before.visited);
                (watched.became, watched.next) = (before.became, before.next);
            }
            before => {
                // No sooner than the last question put it off to: a site that shows another leaf
                // each time, past half of its life already, is not asked after all the time.
                let put_off = before.as_ref().map_or(UnixTime(0), |before| before.next);
                watched.became = before.and_then(|before| {
                    let became = validity.since.0.checked_sub(before.validity.since.0)?;
                    // One that nobody had seen may have been between the two.
                    let is_next = became <= lifetime(before.validity);
                    is_next.then_some(became).or(before.became)
                });
                watched.next = watched.first_look().max(put_off.min(validity.until));
            }
        }
        self.soonest = self.soonest.min(watched.next);
        self.sites.insert(site.clone(), watched);
        if self.sites.len() > MAX_SITES {
            let oldest = self.sites.iter().min_by_key(|(_, it)| it.visited);
            if let Some(oldest) = oldest.map(|(site, _)| site.clone()) {
                self.sites.remove(&oldest);
            }
        }
    }

    /// Whom to ask after now, if anybody, where the line has carried nothing for so long; the one
    /// visited last first. Whatever comes of it, each is asked after again after a while.
    pub(crate) fn due(&mut self, quiet: Duration, (now, wall): (Instant, UnixTime)) -> Vec<Wanted> {
        let is_too_soon = |asked| now.saturating_since(asked) < PAUSE;
        let is_awake = (IDLE..AWAKE).contains(&quiet);
        if wall < self.soonest || !is_awake || self.asked.is_some_and(is_too_soon) {
            return Vec::new();
        }
        let due = self
            .sites
            .iter_mut()
            .filter(|(_, it)| it.may_be_due(wall) && it.next <= wall);
        let mut due: Vec<(&Site, &mut Watched)> = due.collect();
        due.sort_by_key(|(_, it)| Reverse(it.visited));
        due.truncate(AT_A_TIME);
        if !due.is_empty() {
            self.asked = Some(now);
        }
        let wanted: Vec<Wanted> = due
            .into_iter()
            .map(|(site, it)| {
                it.next = UnixTime(wall.0 + lifetime(it.validity) / LOOKS_A_LIFE);
                Wanted {
                    site: site.clone(),
                    port: it.port,
                    held: it.held,
                    visited: it.visited,
                }
            })
            .collect();
        let next = self.sites.values().filter(|it| it.may_be_due(wall));
        self.soonest = next.map(|it| it.next).min().unwrap_or(UnixTime(u64::MAX));
        wanted
    }
}

#[cfg(test)]
mod tests;
