//! What the engine asks of a store.
//!
//! Not here: any store. Invariant: a store's troubles are not the engine's. One that cannot answer
//! says `None`, which makes the engine send the bytes, and tells the operator through
//! [`Store::health`].

use std::sync::Arc;

use tandem_wire::clock::UnixTime;

use crate::digest::{Digest, ObjectId};
use crate::kind::Kind;
use crate::site::Site;

/// An object by the names of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub id: ObjectId,
    /// Its parts: of a chain the certificates, leaf first.
    pub parts: Vec<Digest>,
}

/// What a site showed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest {
    /// The site.
    pub site: Site,
    /// The object.
    pub object: ObjectId,
    /// When it was last seen there.
    pub last_seen: UnixTime,
}

/// Content-addressed objects, and an index of which to expect from whom.
///
/// Taking something out by name or prefix counts as use, hence `&mut self`.
pub trait Store {
    /// The bytes of a part: of a certificate, its DER.
    fn part(&mut self, digest: &Digest) -> Option<Arc<[u8]>>;

    /// The one part whose digest starts with `prefix`; `None` if there is none, or more than one.
    fn part_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)>;

    /// Whether an object is held. Asking is no use of it.
    fn holds(&self, kind: Kind, id: &ObjectId) -> bool;

    /// An object by its kind and whole name.
    fn object(&mut self, kind: Kind, id: &ObjectId) -> Option<Object>;

    /// The object whose name starts with `prefix`, of whatever kind; `None` if there is none, or
    /// more than one such name.
    fn object_by_prefix(&mut self, prefix: &[u8]) -> Option<Object>;

    /// Which objects of a kind to expect from `site`, at most `limit`: first those seen there
    /// within [`Limits::remember`](crate::Limits) whose leaf answers to the name (RFC 6125:
    /// `dNSName`s, with `*` for the whole left-most label; the common name only where there is no
    /// `dNSName`), then the others seen there, then the others whose leaf answers to it. In
    /// each group the newest seen come first; what has expired is left out.
    ///
    /// Neither being seen there nor naming the site is proof by itself: any server can be asked for
    /// any name, and any certificate can hold one. Both together come first, so that strangers do
    /// not crowd the site's own chains out of the few places that a hint has.
    fn expected(&mut self, kind: Kind, site: &Site, now: UnixTime, limit: usize) -> Vec<ObjectId>;

    /// Takes in an object (a chain: DER, leaf first) that `site` showed, or refreshes when it was
    /// last seen. Bytes that are no X.509 certificate are held like any other; they just answer to
    /// no name. What is beyond the [`Limits`](crate::Limits) is named but not held.
    fn learn(
        &mut self,
        kind: Kind,
        site: Option<&Site>,
        parts: &[&[u8]],
        now: UnixTime,
    ) -> ObjectId;

    /// The objects of a kind that no site is known to have shown: of chains what clients have shown
    /// of themselves, and what was imported without a site. The newest seen come first, at most
    /// `limit`. Takes time for each object that is held.
    fn unexpected(&self, kind: Kind, limit: usize) -> Vec<ObjectId>;

    /// What each site showed last of a kind; the newest seen come first, at most `limit`. Takes
    /// time for each site.
    fn latest(&self, kind: Kind, limit: usize) -> Vec<Latest>;

    /// How the store is doing.
    fn health(&self) -> Health {
        Health::default()
    }

    /// What an object's name is the digest of: its parts as its kind lays them out. `None` where a
    /// part is not held any more.
    fn contents(&mut self, object: &Object) -> Option<Arc<[u8]>> {
        let mut contents = Vec::new();
        for digest in &object.parts {
            let part = self.part(digest)?;
            object.kind.row().layout.append(&mut contents, &part);
        }
        Some(contents.into())
    }
}

/// How a store is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Where what is learned ends up.
    pub keeping: Keeping,
    /// Parts held: certificates, and what else objects are made of.
    pub parts: u64,
    /// Objects held, of all kinds.
    pub objects: u64,
    /// Bytes held, as [`Limits::bytes`](crate::Limits) counts them.
    pub bytes: u64,
    /// Objects given up for want of room, since the start.
    pub evicted: u64,
    /// Bytes of parts that are not yet on disk.
    pub unwritten_bytes: u64,
    /// Look-ups that went to the disk, since the start.
    pub disk_reads: u64,
    /// Look-ups and writes that the disk failed, since the start.
    pub disk_errors: u64,
}

/// Where what a store learns ends up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keeping {
    /// In memory: gone when the process ends.
    #[default]
    Memory,
    /// On disk, within seconds.
    Disk,
    /// In memory for now: the disk refuses writes, and is tried again.
    DiskFailing,
}

impl<S: Store + ?Sized> Store for &mut S {
    fn part(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        (**self).part(digest)
    }

    fn part_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        (**self).part_by_prefix(prefix)
    }

    fn holds(&self, kind: Kind, id: &ObjectId) -> bool {
        (**self).holds(kind, id)
    }

    fn object(&mut self, kind: Kind, id: &ObjectId) -> Option<Object> {
        (**self).object(kind, id)
    }

    fn object_by_prefix(&mut self, prefix: &[u8]) -> Option<Object> {
        (**self).object_by_prefix(prefix)
    }

    fn expected(&mut self, kind: Kind, site: &Site, now: UnixTime, limit: usize) -> Vec<ObjectId> {
        (**self).expected(kind, site, now, limit)
    }

    fn learn(
        &mut self,
        kind: Kind,
        site: Option<&Site>,
        parts: &[&[u8]],
        now: UnixTime,
    ) -> ObjectId {
        (**self).learn(kind, site, parts, now)
    }

    fn unexpected(&self, kind: Kind, limit: usize) -> Vec<ObjectId> {
        (**self).unexpected(kind, limit)
    }

    fn latest(&self, kind: Kind, limit: usize) -> Vec<Latest> {
        (**self).latest(kind, limit)
    }

    fn health(&self) -> Health {
        (**self).health()
    }
}
