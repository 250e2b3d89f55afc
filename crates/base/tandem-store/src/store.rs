//! What the engine asks of a store.
//!
//! Not here: any store. Invariant: a store's troubles are not the engine's. One that cannot answer
//! says `None`, which makes the engine send the bytes, and tells the operator through
//! [`Store::health`].

use std::sync::Arc;

use tandem_wire::clock::UnixTime;

use crate::digest::{ChainId, Digest};
use crate::site::Site;

/// A chain by the names of its certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The chain's name.
    pub id: ChainId,
    /// Its certificates, leaf first.
    pub certificates: Vec<Digest>,
}

/// Content-addressed certificates, and an index of which chains to expect from whom.
///
/// Looking something up by name or prefix counts as use, hence `&mut self`.
pub trait Store {
    /// A certificate's DER.
    fn certificate(&mut self, digest: &Digest) -> Option<Arc<[u8]>>;

    /// The one certificate whose digest starts with `prefix`; `None` if there is none, or more than
    /// one.
    fn certificate_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)>;

    /// A chain by its whole name.
    fn chain(&mut self, id: &ChainId) -> Option<Chain>;

    /// The one chain whose name starts with `prefix`; `None` if there is none, or more than one.
    fn chain_by_prefix(&mut self, prefix: &[u8]) -> Option<Chain>;

    /// Which chains to expect from `site`, at most `limit`: first those seen there within
    /// [`Limits::remember`](crate::Limits) whose leaf answers to the name (RFC 6125: `dNSName`s,
    /// with `*` for the whole left-most label; the common name only where there is no
    /// `dNSName`), then the others seen there, then the others whose leaf answers to it. In
    /// each group the newest seen come first; chains whose leaf has expired are left out.
    ///
    /// Neither being seen there nor naming the site is proof by itself: any server can be asked for
    /// any name, and any certificate can hold one. Both together come first, so that strangers do
    /// not crowd the site's own chains out of the few places that a hint has.
    fn chains_for(&mut self, site: &Site, now: UnixTime, limit: usize) -> Vec<ChainId>;

    /// Takes in a chain (DER, leaf first) that `site` showed, or refreshes when it was last seen.
    /// Bytes that are no X.509 certificate are held like any other; they just answer to no
    /// name. What is beyond the [`Limits`](crate::Limits) is named but not held.
    fn learn(&mut self, site: Option<&Site>, chain: &[&[u8]], now: UnixTime) -> ChainId;

    /// The chains that no site is known to have shown: what clients have shown of themselves, and
    /// what was imported without a site. The newest seen come first, at most `limit`. Takes
    /// time for each chain that is held.
    fn client_chains(&self, limit: usize) -> Vec<ChainId>;

    /// How the store is doing.
    fn health(&self) -> Health {
        Health::default()
    }
}

/// How a store is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Where what is learned ends up.
    pub keeping: Keeping,
    /// Certificates held.
    pub certificates: u64,
    /// Chains held.
    pub chains: u64,
    /// Bytes held, as [`Limits::bytes`](crate::Limits) counts them.
    pub bytes: u64,
    /// Chains and single certificates given up for want of room, since the start.
    pub evicted: u64,
    /// Bytes of DER that are not yet on disk.
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
    fn certificate(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        (**self).certificate(digest)
    }

    fn certificate_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        (**self).certificate_by_prefix(prefix)
    }

    fn chain(&mut self, id: &ChainId) -> Option<Chain> {
        (**self).chain(id)
    }

    fn chain_by_prefix(&mut self, prefix: &[u8]) -> Option<Chain> {
        (**self).chain_by_prefix(prefix)
    }

    fn chains_for(&mut self, site: &Site, now: UnixTime, limit: usize) -> Vec<ChainId> {
        (**self).chains_for(site, now, limit)
    }

    fn learn(&mut self, site: Option<&Site>, chain: &[&[u8]], now: UnixTime) -> ChainId {
        (**self).learn(site, chain, now)
    }

    fn client_chains(&self, limit: usize) -> Vec<ChainId> {
        (**self).client_chains(limit)
    }

    fn health(&self) -> Health {
        (**self).health()
    }
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn certificate(&mut self, digest: &Digest) -> Option<Arc<[u8]>> {
        (**self).certificate(digest)
    }

    fn certificate_by_prefix(&mut self, prefix: &[u8; 16]) -> Option<(Digest, Arc<[u8]>)> {
        (**self).certificate_by_prefix(prefix)
    }

    fn chain(&mut self, id: &ChainId) -> Option<Chain> {
        (**self).chain(id)
    }

    fn chain_by_prefix(&mut self, prefix: &[u8]) -> Option<Chain> {
        (**self).chain_by_prefix(prefix)
    }

    fn chains_for(&mut self, site: &Site, now: UnixTime, limit: usize) -> Vec<ChainId> {
        (**self).chains_for(site, now, limit)
    }

    fn learn(&mut self, site: Option<&Site>, chain: &[&[u8]], now: UnixTime) -> ChainId {
        (**self).learn(site, chain, now)
    }

    fn client_chains(&self, limit: usize) -> Vec<ChainId> {
        (**self).client_chains(limit)
    }

    fn health(&self) -> Health {
        (**self).health()
    }
}
