//! A store on disk answers as one in memory does, whatever is asked of it in whatever order, and
//! also after it was closed and opened again.

use core::time::Duration;

use crate::support::certificate::Certificate;
use crate::support::disk::open;
use crate::support::stores::{DAY, NOW, site};
use proptest::prelude::*;
use tandem_store::{Digest, Health, KINDS, Kind, Limits, MemoryStore, Purge, Site, Store};
use tandem_store_sqlite::SqliteStore;
use tandem_wire::clock::UnixTime;
use tempfile::TempDir;

const SITES: usize = 4;
const CHAINS: usize = 8;

#[derive(Clone, Debug)]
enum Step {
    Learn {
        kind: Kind,
        site: Option<usize>,
        chain: usize,
    },
    Expect {
        kind: Kind,
        site: usize,
        limit: usize,
    },
    FindObject(Kind, usize),
    FindCertificates(usize),
    Wait {
        hours: u64,
    },
    SetClockBack {
        hours: u64,
    },
    Maintain,
    Purge(PurgeStep),
    Reopen,
}

#[derive(Clone, Debug)]
enum PurgeStep {
    All,
    Expired,
    Old,
    Site(usize),
}

/// Chains most of the time.
fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![3 => Just(Kind::Chain), 2 => (0..KINDS.len()).prop_map(|row| KINDS[row].kind)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (kind(), prop::option::of(0..SITES), 0..CHAINS)
            .prop_map(|(kind, site, chain)| Step::Learn { kind, site, chain }),
        4 => (kind(), 0..SITES, 0..4_usize)
            .prop_map(|(kind, site, limit)| Step::Expect { kind, site, limit }),
        2 => (kind(), 0..CHAINS).prop_map(|(kind, chain)| Step::FindObject(kind, chain)),
        2 => (0..CHAINS).prop_map(Step::FindCertificates),
        2 => (0..400_u64).prop_map(|hours| Step::Wait { hours }),
        1 => (0..400_u64).prop_map(|hours| Step::SetClockBack { hours }),
        3 => Just(Step::Maintain),
        1 => prop_oneof![
            1 => Just(PurgeStep::All),
            2 => Just(PurgeStep::Expired),
            2 => Just(PurgeStep::Old),
            4 => (0..SITES).prop_map(PurgeStep::Site),
        ].prop_map(Step::Purge),
        2 => Just(Step::Reopen),
    ]
}

fn sites() -> [Site; SITES] {
    [
        site("a.example.com"),
        site("b.example.com"),
        site("c.example.org"),
        Site::Address("[2001:db8::1]:443".parse().expect("an address")),
    ]
}

/// Chains that share certificates, match sites by name and wildcard, expire at different times, or
/// are no certificates.
fn chains() -> [Vec<Vec<u8>>; CHAINS] {
    let leaf = |serial, dns_names: &[&str], not_after| {
        Certificate {
            serial,
            dns_names,
            not_after,
            ..Certificate::default()
        }
        .der()
    };
    let issuer = Certificate {
        common_name: "Test Issuer",
        ..Certificate::default()
    }
    .der();
    [
        vec![
            leaf(1, &["a.example.com"], "20250620000000Z"),
            issuer.clone(),
        ],
        vec![
            leaf(2, &["*.example.com", "c.example.org"], "20250701000000Z"),
            issuer.clone(),
        ],
        vec![
            leaf(3, &["*.example.com", "a.example.com"], "20991231000000Z"),
            issuer.clone(),
        ],
        vec![
            leaf(4, &[], "20250801000000Z"),
            issuer.clone(),
            b"no certificate".to_vec(),
        ],
        vec![issuer.clone()],
        vec![issuer.clone(), issuer],
        vec![b"no certificate".to_vec()],
        vec![
            leaf(5, &["b.example.com"], "20991231000000Z"),
            vec![7; 3_000],
        ],
    ]
}

/// Both stores, and the time.
struct Pair {
    home: TempDir,
    limits: Limits,
    disk: Option<SqliteStore>,
    memory: MemoryStore,
    now: UnixTime,
}

impl Pair {
    /// `bytes`: as little as makes chains go for want of room. In front of the disk there is room
    /// for one certificate or two.
    fn new(bytes: u64) -> Self {
        let home = TempDir::new().expect("a directory");
        let limits = Limits {
            bytes,
            remember: Duration::from_secs(10 * DAY),
            keep_expired: Duration::from_secs(5 * DAY),
            objects_per_site: 3,
            sites_per_object: 2,
            ..Limits::default()
        };
        let memory = MemoryStore::new(limits.clone());
        let limits = Limits {
            front_bytes: 1_000,
            ..limits
        };
        Self {
            disk: Some(open(&home, &limits)),
            home,
            limits,
            memory,
            now: NOW,
        }
    }

    fn both<T: PartialEq + core::fmt::Debug>(
        &mut self,
        ask: impl Fn(&mut dyn Store, UnixTime) -> T,
    ) {
        let disk = self.disk.as_mut().expect("open");
        assert_eq!(ask(disk, self.now), ask(&mut self.memory, self.now));
    }

    fn take(&mut self, step: &Step) {
        let (sites, chains) = (sites(), chains());
        let refs = |chain: usize| chains[chain].iter().map(Vec::as_slice).collect::<Vec<_>>();
        match step {
            Step::Learn { kind, site, chain } => {
                let chain = refs(*chain);
                let site = site.map(|site| &sites[site]);
                self.both(|store, now| store.learn(*kind, site, &chain, now));
            }
            Step::Expect { kind, site, limit } => {
                self.both(|store, now| store.expected(*kind, &sites[*site], now, *limit))
            }
            Step::FindObject(kind, chain) => {
                let id = kind.id_of(&refs(*chain));
                self.both(|store, _| {
                    (
                        store.object(*kind, &id),
                        store.object_by_prefix(&id.prefix4()),
                    )
                });
            }
            Step::FindCertificates(chain) => {
                for der in refs(*chain) {
                    let digest = Digest::of(der);
                    self.both(|store, _| {
                        (
                            store.part(&digest),
                            store.part_by_prefix(&digest.prefix16()),
                        )
                    });
                }
            }
            Step::Wait { hours } => self.now.0 += hours * 3_600,
            Step::SetClockBack { hours } => self.now.0 -= hours * 3_600,
            Step::Maintain => {
                // Past the interval at which the store on disk looks for what has expired.
                self.now.0 += 3_600;
                self.disk.as_mut().expect("open").maintain(self.now);
                self.memory.expire(self.now);
            }
            Step::Purge(what) => {
                let what = match what {
                    PurgeStep::All => Purge::All,
                    PurgeStep::Expired => Purge::ExpiredBefore(self.now),
                    PurgeStep::Old => Purge::NotSeenSince(UnixTime(self.now.0 - 5 * DAY)),
                    PurgeStep::Site(site) => Purge::Site(sites[*site].clone()),
                };
                let purged = self.disk.as_mut().expect("open").purge(&what);
                assert_eq!(purged, self.memory.purge(&what));
            }
            Step::Reopen => {
                drop(self.disk.take());
                self.disk = Some(open(&self.home, &self.limits));
            }
        }
        self.compare();
    }

    fn compare(&mut self) {
        let holdings = |health: Health| (health.parts, health.objects, health.bytes);
        self.both(|store, _| holdings(store.health()));
        for kind in KINDS.iter().map(|row| row.kind) {
            for site in sites() {
                self.both(|store, now| store.expected(kind, &site, now, 99));
            }
            self.both(|store, _| store.unexpected(kind, 99));
        }
        assert_eq!(self.disk.as_ref().expect("open").health().disk_errors, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_store_on_disk_answers_as_one_in_memory(
        bytes in prop_oneof![Just(1_u64 << 20), 2_000_u64..12_000],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut pair = Pair::new(bytes);
        for step in &steps {
            pair.take(step);
        }
        pair.take(&Step::Reopen);
        for chain in 0..CHAINS {
            pair.take(&Step::FindCertificates(chain));
        }
    }
}
