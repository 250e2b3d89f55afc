//! Client, middleboxes and server in a row, each in a network namespace of its own, with an
//! emulated link between each two:
//!
//! ```text
//!   client ==== middlebox 1 ==== middlebox 2 ==== server
//!        link 0             link 1           link 2
//! ```
//!
//! Each party is a thread with a runtime of one thread, so the kernel's account of that thread is
//! what the party takes of the processor. Every party serves every arm, each at a port of its own.
//!
//! A stage without links has all parties in one namespace, on its loopback interface: there the
//! processor is the limit.
//!
//! Is not: what is measured. Invariant: when a [`Stage`] is dropped, nothing of it is left.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tandem_netsim::link::{LinkConfig, LinkCounters};
use tandem_report::mctls_row::McArm;
use tandem_testbed::emulator::Emulator;
use tandem_testbed::lease::{self, Lease};
use tandem_testbed::netns::Namespace;
use tandem_testbed::topology::LinkEnds;
use tandem_testbed::{LabError, tun};

use crate::party::Party;
use crate::pki::Pki;
use crate::route::{Route, port};
use crate::{middlebox, server};

/// How long nothing may cross a link before what was under way has arrived.
const QUIET: Duration = Duration::from_millis(30);

/// How long to wait for that at most.
const SETTLE: Duration = Duration::from_secs(20);

/// What the parties' TCP repeats by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// What the kernel finds right.
    AsEver,
    /// Nothing within a second: what counts bytes must not count those that a busy machine has
    /// acknowledged late.
    Late,
}

/// Parties in a row. The order of the fields is that in which they end.
#[derive(Debug)]
pub(crate) struct Stage {
    client: Party,
    middleboxes: Vec<Party>,
    server: Party,
    links: Vec<Emulator>,
    route: Arc<Route>,
    _lease: Lease,
}

/// Processor time of three parties, microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) client: u64,
    /// The first middlebox.
    pub(crate) middlebox: u64,
    pub(crate) server: u64,
}

impl Times {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            client: self.client - before.client,
            middlebox: self.middlebox - before.middlebox,
            server: self.server - before.server,
        }
    }
}

impl Stage {
    /// With so many middleboxes, and a link of this kind between each two parties.
    ///
    /// # Errors
    /// `NotRoot`, `Kernel`, `ProgramMissing`, `Command`, `Io`.
    pub(crate) fn with_links(
        pki: &Arc<Pki>,
        middleboxes: usize,
        link: &LinkConfig,
        repeats: Repeats,
        seed: u64,
    ) -> Result<Self, LabError> {
        let lease = Lease::any()?;
        let mut hosts = Vec::new();
        for number in 0..middleboxes + 2 {
            let host = host(&lease, &format!("host{number}"))?;
            match repeats {
                Repeats::AsEver => {}
                Repeats::Late => repeat_late(&host)?,
            }
            hosts.push(host);
        }
        let mut links = Vec::new();
        for (number, pair) in hosts.windows(2).enumerate() {
            let device = format!("link{number}");
            let end = |host: &Namespace| host.run(|| tun::create(&device));
            let ends = LinkEnds {
                client_sides: vec![end(&pair[0])?],
                server_sides: vec![end(&pair[1])?],
            };
            for (host, own) in pair.iter().zip([1, 2]) {
                host.ip_batch(&format!(
                    "link set {device} up mtu 1500 txqueuelen 10000\naddr add 10.78.{number}.{own}/24 dev {device}\n"
                ))?;
            }
            links.push(Emulator::start(ends, counted(link), seed, None)?);
        }
        let address = |number: usize| {
            let network = u8::try_from(number).unwrap_or(u8::MAX);
            Ipv4Addr::new(10, 78, network, 2)
        };
        let route = Arc::new(Route {
            hops: (0..=middleboxes).map(address).collect(),
        });
        Self::people(pki, lease, &hosts, links, route)
    }

    /// With so many middleboxes, and the loopback interface between them.
    ///
    /// # Errors
    /// As [`Stage::with_links`].
    pub(crate) fn local(pki: &Arc<Pki>, middleboxes: usize) -> Result<Self, LabError> {
        let lease = Lease::any()?;
        let only = host(&lease, "host")?;
        let address = |number: usize| {
            let own = u8::try_from(number + 2).unwrap_or(u8::MAX);
            Ipv4Addr::new(127, 0, 0, own)
        };
        let route = Arc::new(Route {
            hops: (0..=middleboxes).map(address).collect(),
        });
        let hosts = vec![only; middleboxes + 2];
        Self::people(pki, lease, &hosts, Vec::new(), route)
    }

    fn people(
        pki: &Arc<Pki>,
        lease: Lease,
        hosts: &[Namespace],
        links: Vec<Emulator>,
        route: Arc<Route>,
    ) -> Result<Self, LabError> {
        let (client, others) = hosts.split_first().expect("a stage has two hosts at least");
        let (server, middleboxes) = others.split_last().expect("a stage has two hosts at least");
        let server_party = Party::start("server", server)?;
        let at = *route.hops.last().expect("a route ends at the server");
        server_party.run(server::serve(Arc::clone(pki), at))?;
        let mut boxes = Vec::new();
        for (number, host) in middleboxes.iter().enumerate() {
            let party = Party::start("middlebox", host)?;
            party.run(middlebox::serve(
                Arc::clone(pki),
                Arc::clone(&route),
                number,
            ))?;
            boxes.push(party);
        }
        Ok(Self {
            client: Party::start("client", client)?,
            middleboxes: boxes,
            server: server_party,
            links,
            route,
            _lease: lease,
        })
    }

    /// Where the client is.
    pub(crate) fn client(&self) -> &Party {
        &self.client
    }

    /// Where everybody listens.
    pub(crate) fn route(&self) -> &Arc<Route> {
        &self.route
    }

    /// How many middleboxes there are.
    pub(crate) fn boxes(&self) -> usize {
        self.middleboxes.len()
    }

    /// Waits until nothing is under way.
    ///
    /// # Errors
    /// `Interrupted`.
    pub(crate) fn settle(&self) -> Result<(), LabError> {
        for link in &self.links {
            link.settle(QUIET, SETTLE)?;
        }
        Ok(())
    }

    /// What the client's link has carried; nothing where there is none.
    pub(crate) fn counters(&self) -> LinkCounters {
        let first = self.links.first();
        first.map(Emulator::counters).unwrap_or_default()
    }

    /// What the parties have taken of the processor so far.
    pub(crate) fn times(&self) -> Times {
        let first = self.middleboxes.first();
        Times {
            client: self.client.micros(),
            middlebox: first.map_or(0, Party::micros),
            server: self.server.micros(),
        }
    }
}

/// A namespace in which TCP remembers nothing from one connection to the next, so that no arm
/// profits from another.
fn host(lease: &Lease, name: &str) -> Result<Namespace, LabError> {
    let host = Namespace::create(&lease::namespace(lease.name(), name))?;
    host.set("ipv4/tcp_no_metrics_save", "1")?;
    Ok(host)
}

/// Linux, ip-sysctl: no tail loss probes, and a second before a repeat.
fn repeat_late(host: &Namespace) -> Result<(), LabError> {
    host.set("ipv4/tcp_early_retrans", "0")?;
    match host.set("ipv4/tcp_rto_min_us", "1000000") {
        // Before Linux 6.11 it is 200 ms.
        Err(LabError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The link, counting the payload of every arm.
fn counted(link: &LinkConfig) -> LinkConfig {
    LinkConfig {
        tls_ports: McArm::ALL.map(port).to_vec(),
        ..link.clone()
    }
}
