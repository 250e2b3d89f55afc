//! Which objects to expect from whom: what each site has shown, by kind, and when.
//!
//! Not here: the objects, nor what a certificate's names say of a site. Invariant: each site has at
//! most so many objects of one kind; past that the one that it showed longest ago is no longer
//! expected.

use std::collections::BTreeMap;

use tandem_wire::clock::UnixTime;

use crate::digest::ObjectId;
use crate::kind::Kind;
use crate::site::Site;

/// That a site showed an object, and when it did last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The object.
    pub object: ObjectId,
    /// The turn.
    pub seen: u64,
    /// The time.
    pub last_seen: UnixTime,
}

/// Expectations by kind and site.
#[derive(Debug)]
pub(crate) struct Expectations {
    objects_per_site: usize,
    /// By kind, then by site: a site is looked up without a copy of it.
    of: BTreeMap<Kind, BTreeMap<Site, Vec<Expectation>>>,
}

impl Expectations {
    /// None, and never more than this many of one kind and site.
    pub(crate) const fn new(objects_per_site: usize) -> Self {
        Self {
            objects_per_site,
            of: BTreeMap::new(),
        }
    }

    /// What each site showed last, of a kind.
    pub(crate) fn latest(&self, kind: Kind) -> impl Iterator<Item = (&Site, &Expectation)> {
        let sites = self.of.get(&kind).into_iter().flatten();
        sites.filter_map(|(site, shown)| Some((site, shown.iter().max_by_key(|it| it.seen)?)))
    }

    /// What is expected, in no order.
    pub(crate) fn of(&self, kind: Kind, site: &Site) -> &[Expectation] {
        let of_site = self.of.get(&kind).and_then(|sites| sites.get(site));
        of_site.map_or(&[][..], Vec::as_slice)
    }

    /// One of them.
    pub(crate) fn find(&self, kind: Kind, site: &Site, object: &ObjectId) -> Option<&Expectation> {
        let mut of_site = self.of(kind, site).iter();
        of_site.find(|expectation| expectation.object == *object)
    }

    /// Adds one, or renews it. `true` if it is new.
    pub(crate) fn place(&mut self, kind: Kind, site: &Site, expectation: Expectation) -> bool {
        let sites = self.of.entry(kind).or_default();
        let Some(of_site) = sites.get_mut(site) else {
            sites.insert(site.clone(), vec![expectation]);
            return true;
        };
        let mut known = of_site.iter_mut();
        if let Some(known) = known.find(|known| known.object == expectation.object) {
            *known = expectation;
            return false;
        }
        of_site.push(expectation);
        true
    }

    /// The one that is too many for this kind and site.
    pub(crate) fn surplus(&self, kind: Kind, site: &Site) -> Option<ObjectId> {
        let of_site = self.of(kind, site);
        let oldest = of_site.iter().min_by_key(|expectation| expectation.seen)?;
        (of_site.len() > self.objects_per_site).then_some(oldest.object)
    }

    /// Takes one away.
    pub(crate) fn remove(&mut self, kind: Kind, site: &Site, object: &ObjectId) {
        let Some(sites) = self.of.get_mut(&kind) else {
            return;
        };
        if let Some(of_site) = sites.get_mut(site) {
            of_site.retain(|expectation| expectation.object != *object);
            if of_site.is_empty() {
                sites.remove(site);
            }
        }
    }

    /// Whether there are none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.of.values().all(BTreeMap::is_empty)
    }
}
