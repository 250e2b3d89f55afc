//! What the broker knows at this time, and whoever asks for it or changes it: one after the other.
//!
//! Is: the roster of the core, with what is kept of each member, written down before it is given
//! out. Is not: the roster's rules.
//!
//! Invariants: a version of the list is in the database before anybody is told of it; a database
//! that takes nothing more costs what a restart would, and nothing now; whatever changed is
//! published once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_barnraising::health::{Health, Outcome};
use tandem_barnraising::roster::{Group, Joined, Ruling, Suspect};
use tandem_barnraising::talk::{Answer, Join, Question, Refusal, Report, Told, Welcome, Wish};
use tandem_barnraising::uri::Name;
use tandem_barnraising::{Member, PublicKey, Roster};
use tandem_channel::ChannelKey;
use tandem_daemon::metrics::Number;
use tandem_wire::UnixTime;
use tokio::sync::watch;

use crate::config::Config;
use crate::database::{Database, Kept, Row, Site, Standing};
use crate::moment::{Clock, wall};

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

/// What is counted.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    volunteers: Number,
    healthy: Number,
    version: Number,
    joined: Number,
    renewed: Number,
    left: Number,
    forgotten: Number,
    evicted: Number,
    refused: Number,
    looks: Number,
    bad_looks: Number,
    reports: Number,
    reported_looks: Number,
    altered: Number,
    barred: Number,
    not_written: Number,
    pub(crate) strangers: Number,
}

impl Numbers {
    fn new() -> Self {
        let (counter, gauge) = (Number::counter, Number::gauge);
        Self {
            volunteers: gauge("tandem_broker_volunteers", "Members"),
            healthy: gauge("tandem_broker_healthy_volunteers", "Members that are well"),
            version: gauge("tandem_broker_list_version", "Version of the list"),
            joined: counter(
                "tandem_broker_joins",
                "Volunteers that have joined or moved",
            ),
            renewed: counter("tandem_broker_renewals", "Renewals of members"),
            left: counter("tandem_broker_leaves", "Members that have left"),
            forgotten: counter(
                "tandem_broker_forgotten",
                "Members that did not renew in time",
            ),
            evicted: counter(
                "tandem_broker_evictions",
                "Members, none of them well, that made room for others",
            ),
            refused: counter("tandem_broker_refusals", "Volunteers that were not taken"),
            looks: counter(
                "tandem_broker_looks",
                "Looks at members in turn, and those after reports that found a changed record",
            ),
            bad_looks: counter(
                "tandem_broker_bad_looks",
                "Looks at members that found no good answer",
            ),
            reports: counter(
                "tandem_broker_reports",
                "Reports of the origin that clients refuse what comes through a member",
            ),
            reported_looks: counter(
                "tandem_broker_reported_looks",
                "Looks at members because of reports",
            ),
            altered: counter(
                "tandem_broker_altered_records",
                "Looks whose own TLS refused a record that came through a member",
            ),
            barred: counter(
                "tandem_broker_barred",
                "Times that a member was put out because of what it changed",
            ),
            not_written: counter(
                "tandem_broker_not_written",
                "Times that the database took nothing",
            ),
            strangers: counter(
                "tandem_broker_failed_channels",
                "Connections that were no volunteer's, or came too often",
            ),
        }
    }

    pub(crate) fn all(&self) -> Vec<Number> {
        [
            &self.volunteers,
            &self.healthy,
            &self.version,
            &self.joined,
            &self.renewed,
            &self.left,
            &self.forgotten,
            &self.evicted,
            &self.refused,
            &self.looks,
            &self.bad_looks,
            &self.reports,
            &self.reported_looks,
            &self.altered,
            &self.barred,
            &self.not_written,
            &self.strangers,
        ]
        .map(Clone::clone)
        .to_vec()
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

/// A member, as it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) member: Member,
    pub(crate) standing: Standing,
    /// When it joined, by the wall's clock.
    pub(crate) joined: UnixTime,
    /// Seconds since it has renewed.
    pub(crate) renewed: u64,
    /// The last look, and how many seconds ago.
    pub(crate) look: Option<(Look, u64)>,
    /// All that it has said that it did.
    pub(crate) told: Told,
    /// Whether it is out because of what it changed.
    pub(crate) is_barred: bool,
}

/// All that is shown.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) published: Published,
    pub(crate) version: u64,
    pub(crate) members: Vec<Shown>,
    /// What those have said who have left.
    pub(crate) gone: Told,
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
    takes_nothing: bool,
    signed: Option<Signed>,
    published: watch::Sender<Arc<Published>>,
    addresses: watch::Sender<Arc<BTreeSet<IpAddr>>>,
    /// When the site's name was last found safe.
    accepted: watch::Sender<UnixTime>,
    /// The same, as the database has it.
    accepted_written: UnixTime,
    numbers: Numbers,
}

/// What the roster does not know of a member.
#[derive(Debug, Clone)]
struct Note {
    joined: UnixTime,
    renewed: UnixTime,
    told: Told,
    was: Told,
    look: Option<(Look, UnixTime)>,
}

#[derive(Debug)]
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
        let version = first_version(site.version, wall());
        let mut roster = Roster::new(
            config.site.clone(),
            config.own_addresses.clone(),
            config.roster.clone(),
            version,
        );
        let mut gone = site.gone;
        let mut notes = BTreeMap::new();
        let mut unwritten = BTreeSet::new();
        for row in kept.members {
            let health = match row.standing {
                Standing::Healthy => Health::known_as_well(),
                Standing::Unproven => Health::default(),
            };
            if roster.restore(row.member, health, clock.steady()) {
                let note = Note {
                    joined: row.joined,
                    renewed: clock.steady(),
                    told: row.told,
                    was: row.was,
                    look: None,
                };
                notes.insert(row.member.key, note);
            } else {
                gone = sum(gone, sum(row.was, row.told));
                unwritten.insert(row.member.key);
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
            takes_nothing: false,
            signed: None,
            published: watch::Sender::new(Arc::new(published)),
            addresses: watch::Sender::default(),
            accepted: watch::Sender::new(site.accepted),
            accepted_written: site.accepted,
            numbers: Numbers::new(),
        };
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
        self.with(move |state| state.answer(key, from, &question))
            .await
    }

    /// Takes in a look at a member.
    pub(crate) async fn note(&self, key: PublicKey, look: Look) {
        self.with(move |state| state.note(&key, look)).await;
    }

    /// Takes in a look that fetched this path, and whose own TLS refused a record.
    pub(crate) async fn note_altered(&self, key: PublicKey, path: String, look: Look) {
        self.with(move |state| {
            let now = state.clock.steady();
            state.note_altered(&key, &path, look, now);
        })
        .await;
    }

    /// Members to look at in this turn because the origin has reported them.
    pub(crate) async fn suspects(&self) -> Vec<Suspect> {
        let suspects = self.with(|state| {
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
        let members = self.with(move |state| state.roster.looks(group));
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
        let before = self.roster.member(&key).copied();
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
            look: None,
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
            Joined::New | Joined::Moved => {
                tracing::info!(volunteer = %key, "a volunteer has joined");
                note.look = None;
                self.numbers.joined.add(1);
            }
            Joined::Renewed => self.numbers.renewed.add(1),
        }
        match joined {
            Joined::New | Joined::Moved => {
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
        let list = match self.signed() {
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
    fn signed(&mut self) -> Option<&Signed> {
        let (version, now) = (self.roster.version(), wall());
        let is_current = |signed: &Signed| {
            let age = now.0.checked_sub(signed.issued.0);
            signed.version == version && age.is_some_and(|age| age < self.list_life / 4)
        };
        if !self.signed.as_ref().is_some_and(is_current) {
            let mut failed = None;
            let list = self.roster.list(now).signed(|message| {
                self.key.sign(message).unwrap_or_else(|error| {
                    failed = Some(error);
                    [0; 64]
                })
            });
            match (list, failed) {
                (Ok(list), None) => {
                    self.signed = Some(Signed {
                        version,
                        issued: now,
                        list,
                    });
                }
                (list, failed) => {
                    tracing::error!(?failed, refused = ?list.err(), "the list cannot be signed");
                    self.signed = None;
                }
            }
        }
        self.signed.as_ref()
    }

    fn note(&mut self, key: &PublicKey, look: Look) {
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
        note.look = Some((look, steady));
        if self.roster.note(key, outcome) {
            match reason {
                None => tracing::info!(volunteer = %key, "browsers are sent to this volunteer now"),
                Some(reason) => {
                    tracing::warn!(volunteer = %key, %reason, "browsers are not sent to this volunteer any more");
                }
            }
            self.unwritten.insert(*key);
            self.changed();
        }
    }

    fn note_altered(&mut self, key: &PublicKey, path: &str, look: Look, now: UnixTime) {
        self.numbers.looks.add(1);
        self.numbers.bad_looks.add(1);
        self.numbers.altered.add(1);
        let Some(note) = self.notes.get_mut(key) else {
            return;
        };
        note.look = Some((look, now));
        tracing::debug!(volunteer = %key, path, "a look found a changed record");
        match self.roster.note_altered(key, path, now) {
            None => return,
            Some(Ruling::Noted) => {
                tracing::warn!(volunteer = %key, "a record that came through this volunteer was changed: it is looked at again soon");
                self.unwritten.insert(*key);
            }
            Some(Ruling::Barred(seconds)) => {
                tracing::warn!(volunteer = %key, seconds, "records that came through this volunteer were changed: browsers are not sent to its address for so long");
                self.numbers.barred.add(1);
                // All members of the address are out with it.
                let members = self.roster.members().map(|(member, _)| member);
                let out = members.filter(|member| self.roster.is_barred(member));
                self.unwritten.extend(out.map(|member| member.key));
            }
        }
        self.changed();
    }

    fn tick(&mut self) {
        let gone = self.roster.forget_silent(self.clock.steady());
        if gone > 0 {
            tracing::info!(gone, "volunteers that did not renew are forgotten");
            self.numbers.forgotten.add(gone as u64);
            self.changed();
        } else if self.takes_nothing
            || !self.unwritten.is_empty()
            || *self.accepted.borrow() != self.accepted_written
        {
            self.save();
        }
    }

    /// The roster is another one: that is written down, then given out.
    fn changed(&mut self) {
        let there: BTreeSet<PublicKey> = self
            .roster
            .members()
            .map(|(member, _)| member.key)
            .collect();
        let gone: Vec<PublicKey> = self
            .notes
            .keys()
            .filter(|key| !there.contains(key))
            .copied()
            .collect();
        for key in gone {
            if let Some(note) = self.notes.remove(&key) {
                self.gone = sum(self.gone, sum(note.was, note.told));
                self.unwritten.insert(key);
            }
        }
        self.save();
        self.publish();
    }

    fn save(&mut self) {
        let members: BTreeMap<PublicKey, Row> = self
            .members()
            .filter_map(|(member, standing)| {
                let note = self.notes.get(&member.key)?;
                let row = Row {
                    member: *member,
                    standing,
                    joined: note.joined,
                    told: note.told,
                    was: note.was,
                };
                Some((member.key, row))
            })
            .collect();
        let rows = self
            .unwritten
            .iter()
            .map(|key| (key, members.get(key).copied()));
        let site = Site {
            version: self.roster.version(),
            gone: self.gone,
            accepted: *self.accepted.borrow(),
        };
        match self.database.write(site, rows) {
            Ok(()) => {
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
        let healthy: Vec<IpAddr> = self
            .members()
            .filter(|(_, standing)| *standing == Standing::Healthy)
            .map(|(member, _)| member.address)
            .collect();
        self.numbers.healthy.set(healthy.len() as u64);
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
        let members = self.members().filter_map(|(member, standing)| {
            let note = self.notes.get(&member.key)?;
            Some(Shown {
                member: *member,
                standing,
                joined: note.joined,
                renewed: ago(note.renewed),
                look: note.look.clone().map(|(look, at)| (look, ago(at))),
                told: sum(note.was, note.told),
                is_barred: self.roster.is_barred(member),
            })
        });
        Snapshot {
            published: Published::clone(&self.published.borrow()),
            version: self.roster.version(),
            members: members.collect(),
            gone: self.gone,
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
