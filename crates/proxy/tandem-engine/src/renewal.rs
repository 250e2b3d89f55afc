//! A site's next chain ahead of the next visit. The client side asks after it with the chain that
//! it holds; the server side, where a look costs nothing, begins a handshake with the site and
//! answers with a delta, if there is another chain.
//!
//! Is: who is asked after and when (`watch`), the hello and what is read of the answer to it, what
//! both sides take in. Is not: sockets, or the messages between the sides (`tandem-link`).
//!
//! Invariants: the server side looks only at sites that have shown the chain that is asked with;
//! no handshake is completed, so nobody vouches for what is taken in: a chain that no server shows
//! costs its bytes, and is never given to an endpoint.

mod hello;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tandem_delta::pieces::gather;
use tandem_delta::{Delta, Encoding, Name, Planner, Reference, Source};
use tandem_store::{Kind, ObjectId, Site, Store, Validity};
use tandem_wire::{Instant, UnixTime};

use crate::engine::Engine;
use crate::event::Event;
use crate::objects::Sender;
use crate::peer::Role;
use crate::transcript::{Handshake, Stage, learn_flight};

pub use watch::Wanted;
pub(crate) use watch::Watch;

/// The port of sites with names that are known from the store alone.
const HTTPS: u16 = 443;

/// The number of the list that is held, in a renewal's delta.
const HELD: u32 = 0;

/// Most bytes of a site's answer that are read for its chain.
const MAX_ANSWER: usize = 1 << 16;

/// Chains of a site that it may be asked after with. A store remembers as many.
const SHOWN: usize = 16;

/// A look at a site.
#[derive(Debug)]
pub struct Look {
    site: Site,
    /// The list of the chain that is held.
    held: Arc<[u8]>,
    hello: Vec<u8>,
    handshake: Handshake,
    answer: Vec<u8>,
}

/// What a look has found so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet: there is more to be read.
    Nothing,
    /// A chain: its list.
    Chain(Vec<u8>),
    /// There will be none.
    NoChain,
}

/// What the site shows, as the other side is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// What is held there, or an older one.
    Same,
    /// Another one.
    Renewed {
        /// Its list.
        list: Vec<u8>,
        /// What rebuilds that from the one that is held.
        delta: Vec<u8>,
    },
    /// No chain.
    Unreadable,
}

/// The certificates of a list; `None` where it is none.
fn certificates(mut list: &[u8]) -> Option<Vec<&[u8]>> {
    let mut certificates = Vec::new();
    while !list.is_empty() {
        let (&[high, middle, low], rest) = list.split_first_chunk()?;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let (der, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        certificates.push(der);
        list = rest;
    }
    (!certificates.is_empty()).then_some(certificates)
}

/// The validity of a list's first certificate.
fn validity(list: &[u8]) -> Option<Validity> {
    Validity::of(certificates(list)?.first()?)
}

/// The list that is held, as a delta's source.
struct HeldList<'a>(&'a Arc<[u8]>);

impl Source for HeldList<'_> {
    fn resolve(&mut self, _: &Reference) -> Option<Arc<[u8]>> {
        None
    }

    fn numbered(&mut self, number: u32) -> Option<Arc<[u8]>> {
        (number == HELD).then(|| Arc::clone(self.0))
    }
}

/// The client side.
impl<S: Store> Engine<S> {
    /// The same engine, which notes which sites' certificates to ask after ahead of their next
    /// visit; with those that the store knows.
    #[must_use]
    pub fn with_renewals(mut self) -> Self {
        let mut watch = Watch::default();
        let latest = self.store.latest(Kind::Chain, watch::MAX_SITES);
        // The newest last: looking one up counts as use.
        for shown in latest.iter().rev() {
            let list = self.list(&shown.object);
            if let Some(validity) = list.and_then(|list| validity(&list)) {
                let site = (&shown.site, HTTPS);
                watch.shown(site, (shown.object, validity), shown.last_seen);
            }
        }
        self.renewals = Some(watch);
        self
    }

    /// A site, of this port, has shown the chain with this list.
    pub(crate) fn visited(&mut self, site: &Site, port: u16, list: &[u8], now: UnixTime) {
        if let (Role::ClientSide, Some(watch)) = (self.role, &mut self.renewals)
            && let Some(validity) = validity(list)
        {
            let held = ObjectId::of_list_contents(list);
            watch.shown((site, port), (held, validity), now);
        }
    }

    /// Which sites to ask after now, where the line has carried nothing for so long. To be asked
    /// every few seconds; each site is answered once in a while.
    pub fn renewals_due(
        &mut self,
        quiet: Duration,
        (now, wall): (Instant, UnixTime),
    ) -> Vec<Wanted> {
        let watch = self.renewals.as_mut();
        watch.map_or_else(Vec::new, |watch| watch.due(quiet, (now, wall)))
    }

    /// The list that a delta of the server side's stands for; `None` where it is none, or the chain
    /// that was asked with is not held any more.
    pub fn rebuild_renewal(&mut self, wanted: &Wanted, delta: &[u8]) -> Option<Vec<u8>> {
        let held = self.list(&wanted.held)?;
        let delta = Delta::parse(Encoding::Three, delta, MAX_ANSWER).ok()?;
        delta.apply(&mut HeldList(&held)).ok()
    }

    /// Takes in the chain with this list, which the server side has seen at the site; whether it is
    /// held now. Flights that the site has answered with are forgotten: the next one is to be
    /// written against this chain.
    pub fn renewed(&mut self, wanted: &Wanted, list: &[u8]) -> bool {
        let (Some(chain), Some(validity)) = (certificates(list), validity(list)) else {
            return false;
        };
        // It counts as seen when somebody last wanted to see it.
        let seen = wanted.visited;
        if !learn_flight(&chain, None, &mut self.store, &wanted.site, seen) {
            return false;
        }
        let held = ObjectId::of_list_contents(list);
        if let Some(watch) = &mut self.renewals {
            watch.shown((&wanted.site, wanted.port), (held, validity), seen);
        }
        match &wanted.site {
            Site::Name(name) => self.peer().hellos.forget_flights_of(name),
            // Flights without a name are not expected again.
            Site::Address(_) | Site::Any => {}
        }
        self.tell(Event::RenewalLearned);
        true
    }

    /// The contents of a chain's list.
    fn list(&mut self, chain: &ObjectId) -> Option<Arc<[u8]>> {
        let object = self.store.object(Kind::Chain, chain)?;
        self.store.contents(&object)
    }
}

/// The server side.
impl<S: Store> Engine<S> {
    /// A look at this site, whose next chain is asked after with the one whose name starts so, by a
    /// hello with this random value. `None` where the site has not shown that here.
    pub fn look_at(
        &mut self,
        site: Site,
        held: [u8; 4],
        (random, now): ([u8; 32], UnixTime),
    ) -> Option<Look> {
        let shown = self.store.expected(Kind::Chain, &site, now, SHOWN);
        let id = shown.into_iter().find(|id| id.prefix4() == held)?;
        let held = self.list(&id)?;
        let name = match &site {
            Site::Name(name) => Some(name),
            Site::Address(_) | Site::Any => None,
        };
        let hello = hello::write(name, certificates(&held)?.first()?, random)?;
        let mut handshake = Handshake::new();
        handshake.client_sent(&hello);
        Some(Look {
            site,
            held,
            hello,
            handshake,
            answer: Vec::new(),
        })
    }

    /// What a look has come to: `seen` is the list that the site shows, if it shows one. A chain
    /// that is newer than the one that is held is taken in.
    pub fn looked(&mut self, look: &Look, seen: Option<Vec<u8>>, now: UnixTime) -> Found {
        let Some(list) = seen else {
            return Found::Unreadable;
        };
        let (Some(chain), Some(new)) = (certificates(&list), validity(&list)) else {
            return Found::Unreadable;
        };
        // Of several servers behind one name, some may be behind.
        let is_newer = validity(&look.held).is_some_and(|old| old.since < new.since);
        if list == *look.held || !is_newer {
            return Found::Same;
        }
        let mut plan = Planner::new(&list);
        plan.follow(Name::Number(HELD), Arc::clone(&look.held));
        plan.compress(0..list.len());
        let delta = plan.finish(Encoding::Three);
        learn_flight(&chain, None, &mut self.store, &look.site, now);
        match delta {
            Some(delta) => Found::Renewed { list, delta },
            None => Found::Unreadable,
        }
    }
}

impl Look {
    /// What to send to the site.
    pub fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// The site has sent this.
    pub fn read(&mut self, bytes: &[u8]) -> Seen {
        self.answer.extend_from_slice(bytes);
        if self.answer.len() > MAX_ANSWER {
            return Seen::NoChain;
        }
        self.handshake.server_sent(&self.answer);
        let mut objects = self.handshake.objects(Sender::Server, &self.answer);
        if let Some(chain) = objects.find(|object| object.kind == Kind::Chain) {
            return Seen::Chain(gather(&chain.pieces, &self.answer).into_owned());
        }
        match self.handshake.stage() {
            Stage::Going => Seen::Nothing,
            Stage::Finished | Stage::Pass(_) => Seen::NoChain,
        }
    }
}
