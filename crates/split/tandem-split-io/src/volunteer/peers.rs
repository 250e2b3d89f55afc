//! The other volunteers, as somebody to ask before the origin.
//!
//! Is not: trusted: what they say is checked, and who does not answer is passed over for a while.
//!
//! Invariants: those that say nothing cost one thing at most the patience that is given, all
//! together, and one that says that it is coming what [`patience`] says; who was at fault is not
//! asked again until his time is up, and each fault in a row doubles that; only members are asked.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_barnraising::{Peer, PublicKey};
use tandem_split::message::Miss;
use tokio::time::{Instant, timeout_at};

use super::ask::{Answer, Arrivals, Asker, Lack};
use super::cache::Thing;
use super::disk::Key;
use super::link::Link;
use super::patience::{self, Late};
use super::sharing::Members;
use tandem_channel::{ChannelKey, KeyName, Pin};
use tandem_daemon::metrics::Number;

/// How long who does not answer is passed over at first.
const FAULT: Duration = Duration::from_secs(10);
/// How long who answers wrongly is.
const WRONG: Duration = Duration::from_secs(600);
/// How long who says that something is coming, and does not give it, is: ten times what that has
/// cost, and five where it gave other things. Who falls silent after that word as well: it may be
/// an honest one whose line is dead, of which nothing is to be had meanwhile.
const PROMISED: Duration = Duration::from_secs(300);
/// Most doublings of [`FAULT`]: ten minutes.
const DOUBLINGS: u32 = 6;
/// So many things that somebody did not give in time, while he gave others, are a fault: half of
/// what a client's connection asks for ahead.
const LATE: u32 = 16;
/// So many answers in a row, and earlier faults are forgotten.
const GOOD: u32 = 256;

/// What is counted.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) asked: Number,
    pub(super) hits: Number,
    pub(super) failures: Number,
    pub(super) wrong: Number,
    pub(super) received: Number,
}

/// See above.
#[derive(Debug)]
pub(super) struct Peers {
    own: ChannelKey,
    members: Members,
    arrivals: Arrivals,
    known: Mutex<HashMap<PublicKey, Known>>,
    numbers: Numbers,
}

/// What came of asking one of them.
#[derive(Debug)]
enum Asked {
    Got(Thing),
    /// There may be others to ask.
    InVain,
    /// The time of all of them is up.
    TooLate,
}

/// What is known of one of them.
#[derive(Debug)]
struct Known {
    /// As it was in the list.
    peer: Peer,
    /// None after a fault: what waited on the old channel is given up with it.
    asker: Option<Arc<Asker>>,
    faults: u32,
    late: u32,
    good: u32,
    passed_over_until: Option<Instant>,
}

impl Peers {
    pub(super) fn new(
        own: ChannelKey,
        members: Members,
        arrivals: Arrivals,
        numbers: Numbers,
    ) -> Self {
        Self {
            own,
            members,
            arrivals,
            known: Mutex::default(),
            numbers,
        }
    }

    /// Whether there is nobody else.
    pub(super) fn are_none(&self) -> bool {
        let own = PublicKey(self.own.name().bytes());
        let members = self.members.borrow();
        let mut others = members.iter().filter(|member| member.key != own);
        !others.any(Peer::answers)
    }

    /// This volunteer has it.
    pub(super) fn tell_of(&self, key: Key) {
        self.arrivals.directory.holds(&key.digest);
    }

    /// Asks those who should have it, one after the other, until one gives it or the time is up,
    /// which is `silence` for those that say nothing. What comes with a list is waited for before
    /// anybody else is asked.
    pub(super) async fn get(&self, key: Key, miss: Miss, silence: Duration) -> Option<Thing> {
        if self.are_none() {
            return None;
        }
        let deadline = Instant::now() + silence;
        if let Some(member) = self.coming_from(key) {
            match self.ask(&member, key, miss, deadline).await {
                Asked::Got(thing) => return Some(thing),
                Asked::InVain => {}
                Asked::TooLate => return None,
            }
        }
        let holders = self.arrivals.directory.holders(&key.digest);
        for member in timeout_at(deadline, holders).await.ok()? {
            // What is one's own to have is got from the origin, or nobody would.
            if member.key.0 == self.own.name().bytes() {
                return None;
            }
            // Somebody before it was waited for longer.
            if Instant::now() >= deadline {
                return None;
            }
            match self.ask(&member, key, miss, deadline).await {
                Asked::Got(thing) => return Some(thing),
                Asked::InVain => {}
                Asked::TooLate => return None,
            }
        }
        None
    }

    /// Asks one of them.
    async fn ask(&self, member: &Peer, key: Key, miss: Miss, deadline: Instant) -> Asked {
        let Some(asker) = self.asker(member) else {
            return Asked::InVain;
        };
        let (asked, answered) = (Instant::now(), asker.answered());
        match in_time(&asker, key, miss, asked, deadline).await {
            Ok(Ok(thing)) => {
                self.numbers.hits.add(1);
                self.has_answered(member);
                return Asked::Got(thing);
            }
            Ok(Err(Lack::Absent)) => {}
            Ok(Err(Lack::Unreachable)) => self.pass_over(member, None),
            Ok(Err(Lack::Wrong)) => {
                self.numbers.wrong.add(1);
                self.pass_over(member, Some(WRONG));
            }
            Err(Late::Promising) => {
                self.pass_over(member, Some(PROMISED));
                return Asked::TooLate;
            }
            // Only its word has made anybody wait for so long.
            Err(Late::Silent) if Instant::now() > deadline + FAULT => {
                self.pass_over(member, Some(PROMISED));
                return Asked::TooLate;
            }
            Err(Late::Silent) => {
                // Who answers others is slow, and not silent: he may be waiting for the origin
                // himself. Up to a point.
                if asker.answered() == answered || self.is_late_again(member) {
                    self.pass_over(member, None);
                }
                return Asked::TooLate;
            }
        }
        Asked::InVain
    }

    /// The member from whom it comes already: with a list, or because somebody else has asked.
    fn coming_from(&self, key: Key) -> Option<Peer> {
        let awaits = |peer: &Known| peer.asker.as_ref().is_some_and(|asker| asker.awaits(key));
        let known = self.lock();
        let mut coming = known.iter().filter(|(_, peer)| awaits(peer));
        let (from, _) = coming.next()?;
        let members = self.members.borrow();
        members.iter().find(|member| member.key == *from).copied()
    }

    /// Who asks this member, unless it is passed over.
    fn asker(&self, member: &Peer) -> Option<Arc<Asker>> {
        let mut known = self.lock();
        if !known.contains_key(&member.key) {
            // Who has left is forgotten when somebody comes.
            let members = self.members.borrow().clone();
            known.retain(|key, _| members.iter().any(|member| member.key == *key));
        }
        let peer = known.entry(member.key).or_insert_with(|| Known {
            peer: *member,
            asker: None,
            faults: 0,
            late: 0,
            good: 0,
            passed_over_until: None,
        });
        if peer.peer != *member {
            // Elsewhere, or at one more address, it may be better.
            (peer.peer, peer.asker) = (*member, None);
        } else if peer.is_passed_over() {
            return None;
        }
        if peer.asker.is_none() {
            let pin = Pin::to(KeyName::from_bytes(member.key.0));
            let link = Link::to_peer(member, &self.own, pin).ok()?;
            peer.asker = Some(Arc::new(Asker::start(
                link,
                self.arrivals.clone(),
                self.numbers.asked.clone(),
                self.numbers.received.clone(),
            )));
        }
        peer.asker.clone()
    }

    fn has_answered(&self, member: &Peer) {
        if let Some(peer) = self.lock().get_mut(&member.key) {
            peer.good += 1;
            if peer.good >= GOOD {
                (peer.faults, peer.late, peer.good) = (0, 0, 0);
            }
        }
    }

    /// Counts something that was not given in time, and says whether that has been too much.
    fn is_late_again(&self, member: &Peer) -> bool {
        self.lock().get_mut(&member.key).is_some_and(|peer| {
            peer.late += 1;
            peer.late >= LATE
        })
    }

    /// Asks this member nothing for a while. What many were waiting for at once is one fault.
    fn pass_over(&self, member: &Peer, time: Option<Duration>) {
        self.numbers.failures.add(1);
        let mut known = self.lock();
        let Some(peer) = known.get_mut(&member.key) else {
            return;
        };
        if peer.is_passed_over() {
            return;
        }
        let time = time.unwrap_or(FAULT * (1 << peer.faults.min(DOUBLINGS)));
        peer.faults += 1;
        (peer.late, peer.good) = (0, 0);
        if let Some(asker) = peer.asker.take() {
            asker.give_up();
        }
        peer.passed_over_until = Some(Instant::now() + time);
        tracing::info!(key = %member.key, seconds = time.as_secs(), "another volunteer is at fault and is passed over");
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PublicKey, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes of asking, as long as there is a reason to wait for it.
async fn in_time(
    asker: &Asker,
    key: Key,
    miss: Miss,
    asked: Instant,
    deadline: Instant,
) -> Result<Answer, Late> {
    let mut question = pin!(asker.get(key, miss));
    let (mut until, _) = patience::until(asked, deadline, asker.heard());
    loop {
        if let Ok(answer) = timeout_at(until, &mut question).await {
            return Ok(answer);
        }
        let (later, late) = patience::until(asked, deadline, asker.heard());
        if later <= until {
            return Err(late);
        }
        until = later;
    }
}

impl Known {
    fn is_passed_over(&self) -> bool {
        self.passed_over_until
            .is_some_and(|until| Instant::now() < until)
    }
}
