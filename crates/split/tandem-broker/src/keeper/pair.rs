//! What two brokers of a site tell each other of what they know.
//!
//! ```text
//!   Lead        alone, or the primary: does everything
//!   Following   a standby whose primary is there: knows what that knows, and does nothing
//!   Acting      a standby whose primary is gone: does everything but change the zone's key
//! ```
//!
//! Is not: how it crosses ([`crate::pair`]).
//!
//! Invariants: a broker that follows takes nobody in, looks at nobody and forgets nobody; a list
//! that was given out, by whichever of the two, never comes back older; times cross as the sender
//! counts them and are counted on here, so that no wall clock has a say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tandem_barnraising::health::Health;
use tandem_barnraising::roster::Bar;
use tandem_barnraising::uri::Name;
use tandem_barnraising::{Family, Member, PublicKey};
use tandem_wire::UnixTime;
use tokio::task::spawn_blocking;

use super::{Keeper, Note, State, first_version};
use crate::database::copy::{cells, rows};
use crate::database::{Row, Site, Standing};
use crate::moment::wall;
use crate::tables::{Cell, Tables};

const HEALTH: &str = "health";

/// What this broker does at this time. See above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Lead,
    Following,
    Acting,
}

/// Who is right where two brokers know different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The other one, of everything: it is the primary.
    Primary,
    /// The other one, which has acted while this one was gone. Members that it does not have may
    /// have left meanwhile: they stay, and have to be found well again.
    ActedMeanwhile,
    /// This one, which is the primary and was not gone: the link was. What the other one alone
    /// knows is taken over.
    OnlyLinkWasGone,
}

/// What another broker has to know, as it is at one moment.
pub(super) struct Known {
    name: Name,
    site: Site,
    rows: BTreeMap<IpAddr, Row>,
    healths: Vec<(IpAddr, Health)>,
    bars: Vec<Bar>,
    pub(super) steady: u64,
}

/// What was copied, read.
pub(super) struct Theirs {
    members: Vec<(Row, Health)>,
    bars: Vec<Bar>,
    version: u64,
    gone: tandem_barnraising::talk::Told,
    accepted: UnixTime,
}

impl Keeper {
    pub(crate) fn part(&self) -> tokio::sync::watch::Receiver<Part> {
        self.lock().part.subscribe()
    }

    /// Waits for as long as this broker hangs, as it does where its disk does.
    pub(crate) async fn answers(&self) {
        self.with(|_| ()).await;
    }

    /// Hangs until what is returned is dropped.
    #[cfg(test)]
    pub(crate) async fn hang(&self) -> std::sync::mpsc::Sender<()> {
        let (release, released) = std::sync::mpsc::channel();
        let (hangs, hung) = tokio::sync::oneshot::channel();
        let keeper = self.clone();
        tokio::task::spawn_blocking(move || {
            let _state = keeper.lock();
            let _ = hangs.send(());
            let _ = released.recv();
        });
        let _ = hung.await;
        release
    }

    /// From now on this broker does this.
    pub(crate) async fn set_part(&self, part: Part) {
        self.with(move |state| state.set_part(part)).await;
    }

    /// All that another broker has to know, and the time by which it counts. Nobody has to wait
    /// while it is written as cells, as the primary does each second.
    pub(crate) async fn tables(&self) -> Result<(Tables, u64), String> {
        let keeper = self.clone();
        let tables = spawn_blocking(move || {
            let known = keeper.lock().known();
            let tables = known.tables().map_err(|error| error.to_string())?;
            Ok((tables, known.steady))
        });
        tables
            .await
            .unwrap_or_else(|_| Err("the broker ends".to_owned()))
    }

    /// Takes in what another broker has told, which counts by this time. Nobody has to wait while
    /// the cells are read, either.
    pub(crate) async fn take(&self, tables: Tables, steady: u64, who: Who) -> Result<(), String> {
        let keeper = self.clone();
        let taken = spawn_blocking(move || {
            let (site, now) = keeper.lock().here();
            let theirs = Theirs::read(&site, &tables, (now, steady))?;
            keeper.lock().take(theirs, who);
            Ok(())
        });
        taken
            .await
            .unwrap_or_else(|_| Err("the broker ends".to_owned()))
    }
}

impl Known {
    pub(super) fn tables(&self) -> rusqlite::Result<Tables> {
        let mut tables = cells(&self.name, self.site, self.rows.values(), &self.bars)?;
        for (address, health) in &self.healths {
            let parts = health.parts().map(|part| Cell::Integer(part.into()));
            let row = std::iter::once(Cell::Text(address.to_string())).chain(parts);
            tables.insert(HEALTH, row.collect());
        }
        Ok(tables)
    }
}

impl Theirs {
    /// What a broker of this site tells another one, with the times by which the two count.
    pub(super) fn read(
        name: &Name,
        tables: &Tables,
        (mine, theirs): (u64, u64),
    ) -> Result<Self, String> {
        let kept = rows(name, tables).map_err(|error| error.to_string())?;
        let site = kept
            .site
            .ok_or_else(|| format!("it is a broker of another site than {name}"))?;
        let mut healths = BTreeMap::new();
        for row in tables.rows(HEALTH) {
            let (address, health) = health(row).ok_or("a malformed health")?;
            healths.insert(address, health);
        }
        let bars = kept.bars.into_iter();
        let bars = bars.map(|bar| bar.by_clock(UnixTime(theirs), UnixTime(mine)));
        let members = kept.members.into_iter().map(|row| {
            let health = healths.get(&row.member.address).copied();
            let health = health.unwrap_or_else(|| match row.standing {
                Standing::Healthy => Health::known_as_well(),
                Standing::Unproven => Health::default(),
            });
            (row, health)
        });
        Ok(Self {
            members: members.collect(),
            bars: bars.collect(),
            version: site.version,
            gone: site.gone,
            accepted: site.accepted,
        })
    }
}

impl State {
    pub(super) fn is_following(&self) -> bool {
        *self.part.borrow() == Part::Following
    }

    fn set_part(&mut self, part: Part) {
        let is_new = self
            .part
            .send_if_modified(|last| std::mem::replace(last, part) != part);
        if is_new && part == Part::Acting {
            // While the primary was there, members renewed with it.
            self.roster.renew_all(self.clock.steady());
            // What it gave out last may not have been copied.
            let version = first_version(self.roster.version(), wall());
            self.roster.raise_version(version);
            self.changed();
        }
    }

    /// All members, as they are kept, by their addresses.
    fn rows(&self) -> BTreeMap<IpAddr, Row> {
        let row = |(member, standing): (&Member, Standing)| {
            let note = self.notes.get(&member.key)?;
            let row = Row {
                member: *member,
                standing,
                joined: note.joined,
                told: note.told,
                was: note.was,
            };
            Some((member.address, row))
        };
        self.members().filter_map(row).collect()
    }

    pub(super) fn known(&self) -> Known {
        let healths = self.roster.healths();
        Known {
            name: self.site.clone(),
            site: Site {
                version: self.roster.version(),
                gone: self.gone,
                accepted: *self.accepted.borrow(),
            },
            rows: self.rows(),
            healths: healths
                .map(|(member, health)| (member.address, health))
                .collect(),
            bars: self.roster.bars().collect(),
            steady: self.clock.steady().0,
        }
    }

    /// Which site this is, and the time by which it counts.
    pub(super) fn here(&self) -> (Name, u64) {
        (self.site.clone(), self.clock.steady().0)
    }

    pub(super) fn take(&mut self, theirs: Theirs, who: Who) {
        let who = match who {
            // It knows less than was known here at the end: it has not acted, and is behind.
            Who::ActedMeanwhile if theirs.version < self.kept_version => Who::OnlyLinkWasGone,
            Who::Primary | Who::ActedMeanwhile | Who::OnlyLinkWasGone => who,
        };
        let now = self.clock.steady();
        let before = self.rows();
        if who != Who::OnlyLinkWasGone {
            self.roster.clear_bars();
        }
        for bar in theirs.bars {
            self.roster.put_bar(bar);
        }
        let there: BTreeMap<IpAddr, Member> = theirs
            .members
            .iter()
            .map(|(row, _)| (row.member.address, row.member))
            .collect();
        // A volunteer may be there by one family, and gone by the other.
        let seat = |member: &Member| (member.key, Family::of(member.address));
        let seats: BTreeSet<(PublicKey, Family)> = there.values().map(seat).collect();
        // First who goes, since what it has may be another's then.
        for (address, row) in &before {
            let is_there = there
                .get(address)
                .is_some_and(|other| other.key == row.member.key);
            match (is_there, who) {
                (true, _) | (false, Who::OnlyLinkWasGone) => {}
                (false, Who::Primary) => self.roster.remove(&row.member),
                (false, Who::ActedMeanwhile)
                    if there.contains_key(address) || seats.contains(&seat(&row.member)) =>
                {
                    // The address is another's now, or it has moved.
                    self.roster.remove(&row.member);
                }
                (false, Who::ActedMeanwhile) => {
                    self.roster.put(row.member, Health::default(), now);
                }
            }
        }
        for (row, health) in theirs.members {
            let is_own = before
                .get(&row.member.address)
                .is_some_and(|own| own.member.key == row.member.key);
            if who == Who::OnlyLinkWasGone && is_own {
                continue;
            }
            if self.roster.put(row.member, health, now) {
                self.note_of(&row, now);
            }
        }
        self.roster.raise_version(theirs.version);
        match who {
            Who::Primary | Who::ActedMeanwhile => {
                // What those told who were taken out is in there.
                let there: BTreeSet<PublicKey> =
                    self.members().map(|(member, _)| member.key).collect();
                self.notes.retain(|key, _| there.contains(key));
                self.gone = theirs.gone;
                self.accepted.send_replace(theirs.accepted);
            }
            Who::OnlyLinkWasGone => {}
        }
        if who != Who::Primary {
            // Later than what either has given out.
            self.roster
                .raise_version(self.roster.version().saturating_add(1));
        }
        let after = self.rows();
        for (one, other) in [(&before, &after), (&after, &before)] {
            let changed = one
                .iter()
                .filter(|(address, row)| other.get(address) != Some(row));
            self.unwritten
                .extend(changed.map(|(_, row)| row.member.key));
        }
        self.changed();
    }

    /// What is kept of a member beside what the roster knows.
    fn note_of(&mut self, row: &Row, now: UnixTime) {
        let note = self.notes.entry(row.member.key).or_insert_with(|| Note {
            joined: row.joined,
            renewed: now,
            told: row.told,
            was: row.was,
            addresses: BTreeSet::new(),
            looks: BTreeMap::new(),
        });
        (note.joined, note.renewed) = (row.joined, now);
        (note.told, note.was) = (row.told, row.was);
    }
}

fn health(row: &[Cell]) -> Option<(IpAddr, Health)> {
    let [address, state, against, last] = row else {
        return None;
    };
    let part = |cell: &Cell| u32::try_from(cell.number()?).ok();
    let health = Health::from_parts([part(state)?, part(against)?, part(last)?])?;
    Some((address.text()?.parse().ok()?, health))
}
