//! What the broker knows at this time, and whoever asks for it or changes it: one after the other.
//!
//! Is: the roster of the core, with what is kept of each member, written down before it is given
//! out. Is not: the roster's rules.
//!
//! Invariants: a version of the list is in the database before anybody is told of it; a database
//! that takes nothing more costs what a restart would, and nothing now; whatever changed is
//! published once.

mod bars;
mod numbers;
mod pair;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_barnraising::health::{Health, Outcome};
use tandem_barnraising::list::Form;
use tandem_barnraising::roster::{Group, Joined, Ruling, Suspect};
use tandem_barnraising::talk::{Answer, Join, Question, Refusal, Report, Told, Welcome, Wish};
use tandem_barnraising::uri::Name;
use tandem_barnraising::{Family, Member, PublicKey, Roster};
use tandem_channel::ChannelKey;
use tandem_wire::UnixTime;
use tokio::sync::watch;

use crate::config::{Config, Pair};
use crate::database::{Clocks, Database, Kept, Row, Site, Standing};
use crate::moment::{Clock, wall};
use crate::pair_status::Status;

use bars::Bars;
pub(crate) use numbers::Numbers;
pub(crate) use pair::{Part, Who};

/// Where browsers are to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The site.
    pub site: Name,
    /// Members that are well.
    pub healthy: Vec<IpAddr>,
    /// The origin's own addresses.
    pub own: Vec<IpAddr>,
}

impl Published {
    /// Those of members that are well; where there is none, the origin's own.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        if self.healthy.is_empty() {
            &self.own
        } else {
            &self.healthy
        }
    }
}

/// How one look at a member ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// The status that the site answered; or what went wrong.
    pub(crate) result: Result<u16, String>,
    /// How long it took.
    pub(crate) took: Duration,
}

/// A volunteer, as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) key: PublicKey,
    /// One at least.
    pub(crate) places: Vec<Place>,
    /// When it joined, by the wall's clock.
    pub(crate) joined: UnixTime,
    /// Seconds since it has renewed.
    pub(crate) renewed: u64,
    /// All that it has said that it did.
    pub(crate) told: Told,
}

/// One of its addresses.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) address: IpAddr,
    pub(crate) standing: Standing,
    /// The last look, and how many seconds ago.
    pub(crate) look: Option<(Look, u64)>,
    /// Whether it is out because of what it changed.
    pub(crate) is_barred: bool,
}

impl Shown {
    /// Whether browsers are sent to it, at one of its addresses at least.
    pub(crate) fn is_healthy(&self) -> bool {
        let mut places = self.places.iter();
        places.any(|place| place.standing == Standing::Healthy)
    }
}

/// All that is shown.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) published: Published,
    pub(crate) version: u64,
    pub(crate) members: Vec<Shown>,
    /// What those have said who have left.
    pub(crate) gone: Told,
    /// How the two do, where this broker is one of two.
    pub(crate) pair: Option<Status>,
}

/// See above; a handle to it.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    site: Name,
    origin: String,
    origin_key: PublicKey,
    own: Vec<IpAddr>,
    renew: u32,
    list_life: u64,
    key: ChannelKey,
    clock: Clock,
    roster: Roster,
    notes: BTreeMap<PublicKey, Note>,
    gone: Told,
    database: Database,
    /// Members that the database does not know as they are now.
    unwritten: BTreeSet<PublicKey>,
    /// What the database has of whom looks have found to change records.
    bars_written: Bars,
    /// When it was written.
    written: UnixTime,
    takes_nothing: bool,
    /// In both forms, as they are asked for.
    signed: [Option<Signed>; 2],
    published: watch::Sender<Arc<Published>>,
    addresses: watch::Sender<Arc<BTreeSet<IpAddr>>>,
    /// When the site's name was last found safe.
    accepted: watch::Sender<UnixTime>,
    /// The same, as the database has it.
    accepted_written: UnixTime,
    part: watch::Sender<Part>,
    /// The version of the list that was kept from before the start.
    kept_version: u64,
    numbers: Numbers,
}

/// What the roster does not know of a volunteer.
#[derive(Debug, Clone)]
struct Note {
    joined: UnixTime,
    renewed: UnixTime,
    told: Told,
    was: Told,
    /// All that it has, as of the last change.
    addresses: BTreeSet<IpAddr>,
    /// The last at each of them.
    looks: BTreeMap<IpAddr, (Look, UnixTime)>,
}

#[derive(Debug, Clone)]
struct Signed {
    version: u64,
    issued: UnixTime,
    list: Vec<u8>,
}

impl Keeper {
    /// With what was kept from before.
    pub(crate) fn new(config: &Config, key: ChannelKey, database: Database, kept: Kept) -> Self {
        let clock = Clock::start();
        let site = kept.site.unwrap_or_default();
        let part = match config.pair {
            None | Some(Pair::Primary { .. }) => Part::Lead,
            Some(Pair::Standby { .. }) => Part::Following,
        };
        let version = match part {
            Part::Lead | Part::Acting => first_version(site.version, wall()),
            // It gives no list out.
            Part::Following => site.version,
        };
        let mut roster = Roster::new(
            config.site.clone(),
            config.own_addresses.clone(),
            config.roster.clone(),
            version,
        );
        let mut gone = site.gone;
        let mut notes = BTreeMap::new();
        let mut unwritten = BTreeSet::new();
        let mut dropped = BTreeMap::new();
        for row in kept.members {
            let health = match row.standing {
                Standing::Healthy => Health::known_as_well(),
                Standing::Unproven => Health::default(),
            };
            if roster.restore(row.member, health, clock.steady()) {
                let note = notes.entry(row.member.key).or_insert_with(|| Note {
                    joined: row.joined,
                    renewed: clock.steady(),
                    told: row.told,
                    was: row.was,
                    addresses: BTreeSet::new(),
                    looks: BTreeMap::new(),
                });
                note.addresses.insert(row.member.address);
            } else {
                dropped.insert(row.member.key, sum(row.was, row.told));
                unwritten.insert(row.member.key);
            }
        }
        for (key, told) in dropped {
            // One that is still there at another address has it in its own row.
            if !notes.contains_key(&key) {
                gone = sum(gone, told);
            }
        }
        let published = Published {
            site: config.site.clone(),
            healthy: Vec::new(),
            own: config.own_addresses.clone(),
        };
        let mut state = State {
            site: config.site.clone(),
            origin: config.origin.clone(),
            origin_key: config.origin_key,
            own: config.own_addresses.clone(),
            renew: config.renew,
            list_life: config.roster.list_life,
            key,
            clock,
            roster,
            notes,
            gone,
            database,
            unwritten,
            bars_written: Bars::default(),
            written: clock.steady(),
            takes_nothing: false,
            signed: [None, None],
            published: watch::Sender::new(Arc::new(published)),
            addresses: watch::Sender::default(),
            accepted: watch::Sender::new(site.accepted),
            accepted_written: site.accepted,
            part: watch::Sender::new(part),
            kept_version: site.version,
            numbers: Numbers::new(),
        };
        state.restore_bars(kept.bars, kept.clocks);
        state.save();
        state.publish();
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn numbers(&self) -> Numbers {
        self.lock().numbers.clone()
    }

    pub(crate) fn published(&self) -> watch::Receiver<Arc<Published>> {
        self.lock().published.subscribe()
    }

    /// When a look at the site's name last found it safe, as kept; what is sent there is written
    /// down soon.
    pub(crate) fn accepted(&self) -> watch::Sender<UnixTime> {
        self.lock().accepted.clone()
    }

    /// Where members are that are well, or were, or are listed.
    pub(crate) fn addresses(&self) -> watch::Receiver<Arc<BTreeSet<IpAddr>>> {
        self.lock().addresses.subscribe()
    }

    /// What to say to the volunteer with this key that has come from there.
    pub(crate) async fn answer(
        &self,
        key: PublicKey,
        from: IpAddr,
        question: Question,
    ) -> Option<Answer> {
        let answer = self.with(move |state| {
            // Who comes while a standby hands over to its primary asks that.
            (!state.is_following()).then(|| state.answer(key, from, &question))
        });
        answer.await.flatten()
    }

    /// Takes in a look at a member.
    pub(crate) async fn note(&self, member: Member, look: Look) {
        self.with(move |state| state.note(&member, look)).await;
    }

    /// Takes in a look that fetched this path, and whose own TLS refused a record.
    pub(crate) async fn note_altered(&self, member: Member, path: String, look: Look) {
        self.with(move |state| {
            let now = state.clock.steady();
            state.note_altered(&member, &path, look, now);
        })
        .await;
    }

    /// Members to look at in this turn because the origin has reported them.
    pub(crate) async fn suspects(&self) -> Vec<Suspect> {
        let suspects = self.with(|state| {
            if state.is_following() {
                return Vec::new();
            }
            let suspects = state.roster.suspects();
            state.numbers.reported_looks.add(suspects.len() as u64);
            suspects
        });
        suspects.await.unwrap_or_default()
    }

    /// Forgets who has not renewed, and writes down what has not been.
    pub(crate) async fn tick(&self) {
        self.with(State::tick).await;
    }

    /// Members to look at in this turn, by what they count as.
    pub(crate) async fn looks(&self, standing: Standing) -> Vec<Member> {
        let group = match standing {
            Standing::Healthy => Group::Well,
            Standing::Unproven => Group::Unproven,
        };
        let members = self.with(move |state| match state.is_following() {
            true => Vec::new(),
            false => state.roster.looks(group),
        });
        members.await.unwrap_or_default()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.lock().snapshot()
    }

    /// Where writing, or waiting for who writes, may take a while and keeps nobody else waiting.
    async fn with<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State) -> R + Send + 'static,
    ) -> Option<R> {
        let keeper = self.clone();
        tokio::task::spawn_blocking(move || work(&mut keeper.lock()))
            .await
            .ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn members(&self) -> impl Iterator<Item = (&Member, Standing)> {
        self.roster
            .members()
            .map(|(member, is_healthy)| match is_healthy {
                true => (member, Standing::Healthy),
                false => (member, Standing::Unproven),
            })
    }

    fn answer(&mut self, key: PublicKey, from: IpAddr, question: &Question) -> Answer {
        let from = from.to_canonical();
        if question.site != self.site {
            self.numbers.refused.add(1);
            return Answer::Refused(Refusal::Site);
        }
        match &question.wish {
            Wish::Join(join) => self.join(key, from, join),
            Wish::Leave => {
                if self.roster.leave(&key) {
                    tracing::info!(volunteer = %key, "a volunteer has left");
                    self.numbers.left.add(1);
                    self.changed();
                }
                Answer::Farewell
            }
            Wish::Report(report) => self.report(key, report),
        }
    }

    /// Only the origin sees what clients refuse.
    fn report(&mut self, key: PublicKey, report: &Report) -> Answer {
        if key != self.origin_key {
            self.numbers.refused.add(1);
            return Answer::Refused(Refusal::Policy);
        }
        self.numbers.reports.add(1);
        let looks = self.roster.report(&report.volunteer, report.path());
        tracing::info!(volunteer = %report.volunteer, looks, "the origin's clients refuse what comes through this volunteer");
        Answer::Noted
    }

    fn join(&mut self, key: PublicKey, from: IpAddr, join: &Join) -> Answer {
        let member = Member {
            key,
            address: from,
            peers: SocketAddr::new(from, join.peers),
        };
        let (now, steady) = (self.clock.now(), self.clock.steady());
        let before = self.roster.member(&key, Family::of(from)).copied();
        let joined = match self.roster.join(member, from, now, steady) {
            Ok(joined) => joined,
            Err(refused) => {
                tracing::info!(volunteer = %key, reason = %refused, "a volunteer was not taken");
                self.numbers.refused.add(1);
                return Answer::Refused(refused.into());
            }
        };
        let note = self.notes.entry(key).or_insert_with(|| Note {
            joined: wall(),
            renewed: steady,
            told: Told::default(),
            was: Told::default(),
            addresses: BTreeSet::new(),
            looks: BTreeMap::new(),
        });
        note.renewed = steady;
        // What counts up has begun anew with the volunteer.
        if join.told.clients < note.told.clients
            || join.told.sent < note.told.sent
            || join.told.from_origin < note.told.from_origin
        {
            note.was = sum(note.was, note.told);
        }
        if note.told != join.told {
            note.told = join.told;
            self.unwritten.insert(key);
        }
        match joined {
            Joined::New | Joined::Moved | Joined::Further => {
                let further = joined == Joined::Further;
                tracing::info!(volunteer = %key, further, "a volunteer has joined");
                note.looks.remove(&from);
                self.numbers.joined.add(1);
            }
            Joined::Renewed => self.numbers.renewed.add(1),
        }
        match joined {
            Joined::New | Joined::Moved | Joined::Further => {
                self.unwritten.insert(key);
                self.changed();
            }
            Joined::Renewed if before != Some(member) => {
                self.unwritten.insert(key);
                self.changed();
            }
            Joined::Renewed => {}
        }
        self.welcome(join)
    }

    fn welcome(&mut self, join: &Join) -> Answer {
        let list = match self.signed(join.form) {
            Some(signed) if (signed.version, signed.issued) == (join.held, join.issued) => {
                Vec::new()
            }
            Some(signed) => signed.list.clone(),
            None => Vec::new(),
        };
        Answer::Welcome(Welcome {
            renew: self.renew,
            origin: self.origin.clone(),
            origin_key: self.origin_key,
            list,
        })
    }

    /// The list as it is now, signed anew long before the last one ends.
    ///
    /// What is one version, issued at one time, says the same in both forms.
    fn signed(&mut self, form: Form) -> Option<&Signed> {
        let (version, now) = (self.roster.version(), wall());
        let is_current = |signed: &Signed| {
            let age = now.0.checked_sub(signed.issued.0);
            signed.version == version && age.is_some_and(|age| age < self.list_life / 4)
        };
        let at = match form {
            Form::One => 0,
            Form::All => 1,
        };
        if !self.signed[at].as_ref().is_some_and(is_current) {
            let other = self.signed[1 - at].as_ref();
            let other = other.filter(|signed| is_current(signed));
            let issued = other.map_or(now, |signed| signed.issued);
            let mut failed = None;
            let list = self.roster.list(issued).signed(form, |message| {
                self.key.sign(message).unwrap_or_else(|error| {
                    failed = Some(error);
                    [0; 64]
                })
            });
            self.signed[at] = match (list, failed) {
                (Ok(list), None) => Some(Signed {
                    version,
                    issued,
                    list,
                }),
                (list, failed) => {
                    tracing::error!(?failed, refused = ?list.err(), "the list cannot be signed");
                    None
                }
            };
        }
        self.signed[at].as_ref()
    }

    fn note(&mut self, member: &Member, look: Look) {
        if self.is_following() {
            return;
        }
        let (key, address) = (&member.key, member.address);
        self.numbers.looks.add(1);
        let outcome = match &look.result {
            Ok(_) => Outcome::Good,
            Err(reason) => {
                tracing::debug!(volunteer = %key, %reason, "a look found no good answer");
                self.numbers.bad_looks.add(1);
                Outcome::Bad
            }
        };
        let steady = self.clock.steady();
        let Some(note) = self.notes.get_mut(key) else {
            return;
        };
        let reason = look.result.clone().err();
        if note.addresses.contains(&address) {
            note.looks.insert(address, (look, steady));
        }
        if outcome == Outcome::Good && *self.part.borrow() == Part::Acting {
            // It may be the link to the primary that is gone: then members renew there.
            self.roster.renew(member, steady);
        }
        if self.roster.note(member, outcome) {
            let family = Family::of(address);
            match reason {
                None => {
                    tracing::info!(volunteer = %key, ?family, "browsers are sent to this volunteer now");
                }
                Some(reason) => {
                    tracing::warn!(volunteer = %key, ?family, %reason, "browsers are not sent to this volunteer any more");
                }
            }
            self.unwritten.insert(*key);
            self.changed();
        }
    }

    fn note_altered(&mut self, member: &Member, path: &str, look: Look, now: UnixTime) {
        if self.is_following() {
            return;
        }
        let key = &member.key;
        self.numbers.looks.add(1);
        self.numbers.bad_looks.add(1);
        self.numbers.altered.add(1);
        let Some(note) = self.notes.get_mut(key) else {
            return;
        };
        if note.addresses.contains(&member.address) {
            note.looks.insert(member.address, (look, now));
        }
        tracing::debug!(volunteer = %key, path, "a look found a changed record");
        match self.roster.note_altered(member, path, now) {
            None => return,
            Some(Ruling::Noted) => {
                tracing::warn!(volunteer = %key, "a record that came through this volunteer was changed: it is looked at again soon");
                self.unwritten.insert(*key);
            }
            Some(Ruling::Barred(seconds)) => {
                tracing::warn!(volunteer = %key, seconds, "records that came through this volunteer were changed: browsers are not sent to its addresses for so long");
                self.numbers.barred.add(1);
                // All members of its addresses are out with it.
                let members = self.roster.members().map(|(member, _)| member);
                let out = members.filter(|member| self.roster.is_barred(member));
                self.unwritten.extend(out.map(|member| member.key));
            }
        }
        self.changed();
    }

    fn tick(&mut self) {
        // Who follows is told who is gone.
        let gone = match self.is_following() {
            true => 0,
            false => self.roster.forget_silent(self.clock.steady()),
        };
        if gone > 0 {
            tracing::info!(
                gone,
                "addresses of volunteers that were not renewed are forgotten"
            );
            self.numbers.forgotten.add(gone as u64);
            self.changed();
        } else if self.takes_nothing
            || !self.unwritten.is_empty()
            || *self.accepted.borrow() != self.accepted_written
            || self.is_time_for_bars()
        {
            self.save();
        }
    }

    /// The roster is another one: that is written down, then given out.
    fn changed(&mut self) {
        let mut there: BTreeMap<PublicKey, BTreeSet<IpAddr>> = BTreeMap::new();
        for (member, _) in self.roster.members() {
            there.entry(member.key).or_default().insert(member.address);
        }
        let (gone, unwritten) = (&mut self.gone, &mut self.unwritten);
        self.notes.retain(|key, note| {
            let addresses = there.remove(key).unwrap_or_default();
            if note.addresses != addresses {
                unwritten.insert(*key);
                note.looks.retain(|address, _| addresses.contains(address));
                note.addresses = addresses;
            }
            let stays = !note.addresses.is_empty();
            if !stays {
                *gone = sum(*gone, sum(note.was, note.told));
            }
            stays
        });
        self.save();
        self.publish();
    }

    fn save(&mut self) {
        let unwritten = self.unwritten.clone();
        let mut rows: BTreeMap<&PublicKey, Vec<Row>> =
            unwritten.iter().map(|key| (key, Vec::new())).collect();
        for (member, standing) in self.members() {
            let note = self.notes.get(&member.key);
            if let (Some(note), Some(rows)) = (note, rows.get_mut(&member.key)) {
                rows.push(Row {
                    member: *member,
                    standing,
                    joined: note.joined,
                    told: note.told,
                    was: note.was,
                });
            }
        }
        let site = Site {
            version: self.roster.version(),
            gone: self.gone,
            accepted: *self.accepted.borrow(),
        };
        let clocks = Clocks {
            steady: self.clock.steady(),
            wall: wall(),
        };
        let bars = self.bars();
        let new = bars::since(&bars, &self.bars_written);
        match self.database.write(site, clocks, rows, new) {
            Ok(()) => {
                (self.bars_written, self.written) = (bars, clocks.steady);
                if std::mem::take(&mut self.takes_nothing) {
                    tracing::info!("the database is written again");
                }
                self.unwritten.clear();
                self.accepted_written = site.accepted;
            }
            Err(error) => {
                self.numbers.not_written.add(1);
                if !std::mem::replace(&mut self.takes_nothing, true) {
                    tracing::error!(%error, "the database takes nothing: a restart would cost what has changed since; it is tried again");
                }
            }
        }
    }

    fn publish(&mut self) {
        let well = self
            .members()
            .filter(|(_, standing)| *standing == Standing::Healthy);
        let (keys, healthy): (BTreeSet<PublicKey>, Vec<IpAddr>) =
            well.map(|(member, _)| (member.key, member.address)).unzip();
        let of_v4 = healthy.iter().filter(|address| address.is_ipv4()).count();
        self.numbers.healthy.set(keys.len() as u64);
        self.numbers.healthy_v4.set(of_v4 as u64);
        self.numbers.healthy_v6.set((healthy.len() - of_v4) as u64);
        self.numbers.volunteers.set(self.notes.len() as u64);
        self.numbers.version.set(self.roster.version());
        self.numbers.evicted.set(self.roster.evicted());
        let addresses = self.roster.proven().collect();
        self.addresses.send_replace(Arc::new(addresses));
        self.published.send_if_modified(|published| {
            let is_other = published.healthy != healthy;
            if is_other {
                *published = Arc::new(Published {
                    site: self.site.clone(),
                    healthy,
                    own: self.own.clone(),
                });
            }
            is_other
        });
    }

    fn snapshot(&self) -> Snapshot {
        let now = self.clock.steady();
        let ago = |then: UnixTime| now.0.saturating_sub(then.0);
        let mut members: Vec<Shown> = Vec::new();
        for (member, standing) in self.members() {
            let Some(note) = self.notes.get(&member.key) else {
                continue;
            };
            let look = note.looks.get(&member.address);
            let place = Place {
                address: member.address,
                standing,
                look: look.map(|(look, at)| (look.clone(), ago(*at))),
                is_barred: self.roster.is_barred(member),
            };
            match members.last_mut() {
                Some(shown) if shown.key == member.key => shown.places.push(place),
                _ => members.push(Shown {
                    key: member.key,
                    places: vec![place],
                    joined: note.joined,
                    renewed: ago(note.renewed),
                    told: sum(note.was, note.told),
                }),
            }
        }
        Snapshot {
            published: Published::clone(&self.published.borrow()),
            version: self.roster.version(),
            members,
            gone: self.gone,
            pair: None,
        }
    }
}

/// The first version of the list after a start: later than any before, also where the database was
/// lost and nobody knows them.
///
/// Versions begin with the seconds of the wall clock, and a change takes longer than a second on
/// the mean.
fn first_version(kept: u64, now: UnixTime) -> u64 {
    kept.saturating_add(1).max(now.0)
}

/// Of numbers that strangers say: they do not overflow.
pub(crate) fn sum(one: Told, other: Told) -> Told {
    Told {
        clients: one.clients.saturating_add(other.clients),
        sent: one.sent.saturating_add(other.sent),
        from_origin: one.from_origin.saturating_add(other.from_origin),
    }
}

#[cfg(test)]
mod tests;
