//! The ClientHellos that have passed: templates for the clients' next ones.
//!
//! Is: both sides' memory of whole hellos, by number; at the client side, the choice of those that
//! a hello is most like. Is not: the reading of hellos (`objects`), the delta (`rewrite`), nor the
//! store: a hello is useful for minutes, and says who asked for which site.
//!
//! A hello's number is the first 20 bits of its digest, so both sides use the same number without
//! having to agree on it. A memory holds one hello of a number at most: a later one replaces it.
//!
//! Invariants: the hellos of one client, all hellos, and their bytes are bounded; the least
//! recently used hello is forgotten first. A number that means nothing at the far side, or another
//! hello, costs a miss: the check over the rebuilt bytes finds out. A miss forgets all hellos.

use std::collections::BTreeMap;
use std::sync::Arc;

use tandem_store::{Digest, HostName};

use crate::objects::hello::{Hello, Profile};
use crate::peer::Role;
use crate::peer::trust::Trust;

/// The longest hello that is held, in bytes. Browsers send about 2,000.
const MAX_LEN: usize = 8 << 10;

/// Bytes of memory that a hello takes beside its own, about.
const ENTRY_COST: usize = 256;

/// Length of a hello's number: three bytes in a delta. A new hello replaces another one of 512 held
/// once in 2,000 times.
const NUMBER_BITS: u32 = 20;

/// How much is held at most.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    hellos: usize,
    of_one_client: usize,
    bytes: usize,
}

impl Bounds {
    /// The server side must not be the first to forget. It learns a hello when the answer sets out,
    /// the client side when it arrives: while a hundred answers to one client are under way, the
    /// server side holds them beside what the client side refers to. It may learn in another order,
    /// and learns hellos whose answers never arrive.
    fn of(role: Role) -> Self {
        match role {
            Role::ClientSide => Self {
                hellos: 32,
                of_one_client: 8,
                bytes: 64 << 10,
            },
            Role::ServerSide => Self {
                hellos: 512,
                of_one_client: 128,
                bytes: 1 << 20,
            },
        }
    }
}

/// The hellos that one proxy remembers.
#[derive(Debug)]
pub struct HelloTemplates {
    bounds: Bounds,
    held: BTreeMap<u32, Held>,
    bytes: usize,
    turn: u64,
    trust: Trust,
}

#[derive(Debug)]
struct Held {
    bytes: Arc<[u8]>,
    site: Option<HostName>,
    client: Profile,
    /// When it was last seen or referred to.
    turn: u64,
}

/// A hello that another may be written against.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// What it is called.
    pub(crate) number: u32,
    /// The hello.
    pub(crate) bytes: Arc<[u8]>,
}

impl HelloTemplates {
    /// What a proxy at this end may remember, and nothing yet.
    pub fn new(role: Role) -> Self {
        Self {
            bounds: Bounds::of(role),
            held: BTreeMap::new(),
            bytes: 0,
            turn: 0,
            trust: Trust::default(),
        }
    }

    /// Remembers a hello that both sides have seen. `true`: it is new here.
    pub(crate) fn learn(&mut self, hello: &Hello<'_>) -> bool {
        if hello.bytes.len() > MAX_LEN {
            return false;
        }
        let number = number_of(hello.bytes);
        let known = self.remove(number);
        self.turn += 1;
        self.bytes += hello.bytes.len() + ENTRY_COST;
        let held = Held {
            bytes: hello.bytes.into(),
            site: hello.site.clone(),
            client: hello.client,
            turn: self.turn,
        };
        let is_new = known.is_none_or(|known| known.bytes != held.bytes);
        self.held.insert(number, held);
        self.shrink(hello.client);
        is_new
    }

    /// The hellos that this one is most like, the best first: the latest of the same client, for
    /// the same site if there is one; beside it, if it is for another site, the best for the same
    /// site. None while the far side is not trusted to remember. To be asked once for each hello.
    pub(crate) fn similar_to(&mut self, hello: &Hello<'_>) -> Vec<Template> {
        let is_of_site = |held: &Held| held.site.is_some() && held.site == hello.site;
        let likeness = |(_, held): &(&u32, &Held)| {
            (
                held.client == hello.client,
                held.client.suites == hello.client.suites,
                is_of_site(held),
                held.turn,
            )
        };
        let best = self.held.iter().max_by_key(likeness);
        let of_site = self.held.iter().filter(|(_, held)| is_of_site(held));
        let of_site = of_site.max_by_key(likeness);
        let beside = of_site.filter(|_| best.is_some_and(|(_, held)| !is_of_site(held)));
        let numbers: Vec<u32> = best.into_iter().chain(beside).map(|it| *it.0).collect();
        if numbers.is_empty() || !self.trust.may_refer() {
            return Vec::new();
        }
        let found = numbers.into_iter().filter_map(|number| {
            let bytes = self.find(number)?;
            Some(Template { number, bytes })
        });
        found.collect()
    }

    /// The hello of this number.
    pub(crate) fn find(&mut self, number: u32) -> Option<Arc<[u8]>> {
        let held = self.held.get_mut(&number)?;
        self.turn += 1;
        held.turn = self.turn;
        Some(Arc::clone(&held.bytes))
    }

    /// A hello that was written against others has arrived.
    pub fn rebuilt(&mut self) {
        self.trust.rebuilt();
    }

    /// One was not rebuilt: the far side has lost what it held, or another proxy has taken its
    /// place.
    pub fn missed(&mut self) {
        self.trust.missed();
        self.held.clear();
        self.bytes = 0;
    }

    /// How many are held, and about how many bytes they take.
    pub fn size(&self) -> (usize, usize) {
        (self.held.len(), self.bytes)
    }

    /// Bytes of memory in use, about.
    pub fn footprint(&self) -> usize {
        self.bytes
    }

    /// Keeps the bounds, after one more hello of this client.
    fn shrink(&mut self, client: Profile) {
        let of_client = |held: &Held| held.client == client;
        let count = self.held.values().filter(|held| of_client(held)).count();
        if count > self.bounds.of_one_client {
            self.forget_oldest(of_client);
        }
        while self.held.len() > self.bounds.hellos || self.bytes > self.bounds.bytes {
            self.forget_oldest(|_| true);
        }
    }

    fn forget_oldest(&mut self, among: impl Fn(&Held) -> bool) {
        let among = self.held.iter().filter(|(_, held)| among(held));
        if let Some(oldest) = among.min_by_key(|(_, held)| held.turn).map(|it| *it.0) {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, number: u32) -> Option<Held> {
        let held = self.held.remove(&number)?;
        self.bytes -= held.bytes.len() + ENTRY_COST;
        Some(held)
    }
}

/// The number of a hello.
fn number_of(hello: &[u8]) -> u32 {
    u32::from_be_bytes(Digest::of(hello).prefix4()) >> (u32::BITS - NUMBER_BITS)
}

#[cfg(test)]
mod tests;
