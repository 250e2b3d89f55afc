//! The ClientHellos that have passed, and what answered them: templates for the next ones.
//!
//! Is: both sides' memory of whole hellos, by number, each with the server's first flight after it;
//! at the client side, the choice of those that a hello is most like. Is not: the reading of hellos
//! (`objects`), the delta (`rewrite`), nor the store: a hello is useful for minutes, and says who
//! asked for which site.
//!
//! A hello's number is the first 20 bits of its digest, so both sides use the same number without
//! having to agree on it. A memory holds one hello of a number at most: a later one replaces it.
//!
//! Invariants: the hellos of one client, all hellos, and their bytes are bounded; the least
//! recently used hello is forgotten first. A number that means nothing at the far side, or another
//! hello, costs a miss: the check over the rebuilt bytes finds out. A miss forgets all hellos. A
//! flight is learned once both Finished have passed, which is at the server side first.

use std::collections::BTreeMap;
use std::sync::Arc;

use tandem_store::{Digest, HostName};

use crate::objects::hello::{Hello, Profile};
use crate::peer::Role;
use crate::peer::trust::Trust;

/// The longest hello that is held, in bytes. Browsers send about 2,000.
const MAX_LEN: usize = 8 << 10;

/// The longest flight that is held. A chain with post-quantum keys has 20 kB.
const MAX_FLIGHT_LEN: usize = 24 << 10;

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
                bytes: 256 << 10,
            },
            Role::ServerSide => Self {
                hellos: 512,
                of_one_client: 128,
                bytes: 4 << 20,
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
    answer: Answer,
    /// When it was last seen or referred to.
    turn: u64,
}

/// What is known of how a server answered a hello.
#[derive(Debug)]
enum Answer {
    /// Nothing.
    Unknown,
    /// In TLS 1.3: what the server shows is encrypted.
    Sealed,
    /// With this flight.
    Flight(Arc<[u8]>),
}

impl Answer {
    fn len(&self) -> usize {
        match self {
            Self::Unknown | Self::Sealed => 0,
            Self::Flight(flight) => flight.len(),
        }
    }
}

/// What may be expected of a server's flight.
#[derive(Debug)]
pub(crate) enum Expected {
    /// Nothing; the site's certificates may be held all the same.
    Unknown,
    /// It will be encrypted.
    Sealed,
    /// It will be like this one.
    Flight(Arc<[u8]>),
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
            answer: Answer::Unknown,
            turn: self.turn,
        };
        let is_new = known.is_none_or(|known| known.bytes != held.bytes);
        self.held.insert(number, held);
        self.shrink(hello.client);
        is_new
    }

    /// Whether nothing is known of how this hello was answered.
    pub(crate) fn is_new(&self, hello: &Hello<'_>) -> bool {
        let held = self.held.get(&number_of(hello.bytes));
        held.is_none_or(|held| {
            &*held.bytes != hello.bytes || matches!(held.answer, Answer::Unknown)
        })
    }

    /// Remembers the server's first flight after a hello. `true`: it is new here.
    pub(crate) fn answered(&mut self, hello: &Hello<'_>, flight: &[u8]) -> bool {
        if flight.len() > MAX_FLIGHT_LEN {
            return false;
        }
        let Some(held) = self.held.get_mut(&number_of(hello.bytes)) else {
            return false;
        };
        if &*held.bytes != hello.bytes || matches!(held.answer, Answer::Flight(_)) {
            return false;
        }
        held.answer = Answer::Flight(flight.into());
        self.bytes += flight.len();
        self.shrink(hello.client);
        true
    }

    /// Remembers that what followed a hello was encrypted.
    pub(crate) fn sealed(&mut self, hello: &Hello<'_>) {
        let held = self.held.get_mut(&number_of(hello.bytes));
        if let Some(held) = held.filter(|held| &*held.bytes == hello.bytes) {
            self.bytes -= held.answer.len();
            held.answer = Answer::Sealed;
        }
    }

    /// What answered the hello of this number, and may be expected again.
    pub(crate) fn answer(&self, number: u32) -> Expected {
        match self.held.get(&number).map(|held| &held.answer) {
            Some(Answer::Flight(flight)) => Expected::Flight(Arc::clone(flight)),
            Some(Answer::Sealed) => Expected::Sealed,
            Some(Answer::Unknown) | None => Expected::Unknown,
        }
    }

    /// The same, if it was for this site.
    pub(crate) fn answer_of(&self, number: u32, site: Option<&HostName>) -> Expected {
        let held = self.held.get(&number);
        match held.is_some_and(|held| site.is_some() && held.site.as_ref() == site) {
            true => self.answer(number),
            false => Expected::Unknown,
        }
    }

    /// A flight that was written against an earlier one was not rebuilt here: the far side has
    /// other flights under these numbers.
    pub(crate) fn flight_missed(&mut self) {
        for held in self.held.values_mut() {
            self.bytes -= held.answer.len();
            held.answer = Answer::Unknown;
        }
    }

    /// The next flight of this site will be another than those that are held.
    pub(crate) fn forget_flights_of(&mut self, site: &HostName) {
        for held in self.held.values_mut() {
            if held.site.as_ref() == Some(site) {
                self.bytes -= held.answer.len();
                held.answer = Answer::Unknown;
            }
        }
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
        self.bytes -= held.bytes.len() + held.answer.len() + ENTRY_COST;
        Some(held)
    }
}

/// The number of a hello.
fn number_of(hello: &[u8]) -> u32 {
    u32::from_be_bytes(Digest::of(hello).prefix4()) >> (u32::BITS - NUMBER_BITS)
}

#[cfg(test)]
mod tests;
