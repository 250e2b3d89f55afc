//! The numbers of a running daemon, shared between the tasks, which count, and the admin port,
//! which reads.
//!
//! Is not: a copy of the cores' names: their events bring their own. Names of sites are in its
//! [`Activity`] alone, which `/status` shows and `/metrics` does not.
//!
//! Invariants: counters only grow, a tunnel's when it ends too; nothing that is counted waits for a
//! reader longer than it takes to copy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tandem_status::{Activity, Flow, Report, TunnelState};

use crate::transport::{Counts, Over, Tunnel};

/// What the adapter itself counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tally {
    /// TCP connections that were not served, as there were too many.
    RelaysRefused,
    /// TCP connections that were given up because there was no tunnel.
    RelaysWithoutTunnel,
    /// TCP connections that went to their server from here because the tunnel was down.
    RelaysPassedWithoutTunnel,
    /// TCP connections that a rule refused.
    RelaysRefusedByRule,
    /// TCP connections that a rule sent to their server from here.
    RelaysDirect,
    /// TCP connections that were refused to clients at their limit.
    RelaysRefusedByLimit,
    /// TCP connections that ended because their client had reached its limit.
    RelaysEndedByLimit,
    /// Tunnels that came up.
    TunnelsUp,
    /// Those of them that run over TCP.
    TunnelsUpOverTcp,
    /// Tunnels that did not come up.
    TunnelsFailed,
    /// Tunnels that ended because the other side was restarted.
    TunnelsRestarted,
    /// Bytes that endpoints on this side sent.
    FromEndpointsBytes,
    /// Bytes that endpoints on this side were sent.
    ToEndpointsBytes,
    /// Names that were looked up for the other side.
    NamesResolved,
    /// Connections to servers that were made.
    ServersConnected,
    /// Connections to servers that failed, of those that are allowed.
    ServersFailed,
    /// Servers that may not be connected to.
    ServersNotAllowed,
    /// Connections to servers that should name the client, whom the client side does not tell.
    ClientAddressesNotTold,
    /// The same, where the client side tells an address in none of the networks of clients.
    ClientAddressesNotBelieved,
    /// DNS questions of clients.
    DnsQueries,
    /// Of these, answered by what was kept.
    DnsFromCache,
    /// Of these, answered by what is past its time, as there was nothing else.
    DnsStale,
    /// Of these, told that there is no answer.
    DnsFailed,
    /// Of these, told so at once, as too many were open.
    DnsOverloaded,
    /// DNS messages of clients that may not ask.
    DnsNotAllowed,
    /// DNS messages that are not passed on.
    DnsRefused,
    /// DNS questions that the other side was asked.
    DnsCrossed,
    /// Bytes of these questions and their answers on the tunnel's streams.
    DnsLinkBytes,
    /// DNS questions that this side's resolver has answered.
    DnsResolved,
    /// DNS questions that it has not.
    DnsUnresolved,
    /// Flows of UDP that were opened.
    DatagramFlowsOpened,
    /// Flows of UDP that were not opened, as there were too many.
    DatagramFlowsRefused,
    /// Flows of UDP that the other side broke off.
    DatagramFlowsEndedByPeer,
    /// Datagrams of endpoints on this side.
    DatagramsFromEndpoints,
    /// Bytes of these.
    DatagramBytesFromEndpoints,
    /// Datagrams that endpoints on this side were sent.
    DatagramsToEndpoints,
    /// Bytes of these.
    DatagramBytesToEndpoints,
    /// Datagrams of endpoints on this side for which the line had no room in time, or the kernel's
    /// queue.
    DatagramsDropped,
    /// Datagrams on their way to the link that went on as they are.
    DatagramsPassed,
    /// ICMP errors that clients did not get, as they had got many.
    IcmpErrorsLimited,
    /// Datagrams of servers' programs that are no handshake key.
    RecordKeysMalformed,
    /// Sites' next chains that the other side was asked after.
    RenewalsAsked,
    /// Bytes of these questions and their answers on the tunnel's streams.
    RenewalLinkBytes,
    /// Looks at sites for the other side's questions.
    RenewalsLookedFor,
    /// Tunnels that did not wait for what other server sides know of their peer, as it took too
    /// long.
    RecallsLate,
    /// Notes of other server sides that were new here.
    NotesUsed,
}

impl Tally {
    /// All, for counters to be there from the start.
    const ALL: [Tally; 46] = [
        Tally::RelaysRefused,
        Tally::RelaysWithoutTunnel,
        Tally::RelaysPassedWithoutTunnel,
        Tally::RelaysRefusedByRule,
        Tally::RelaysDirect,
        Tally::RelaysRefusedByLimit,
        Tally::RelaysEndedByLimit,
        Tally::TunnelsUp,
        Tally::TunnelsUpOverTcp,
        Tally::TunnelsFailed,
        Tally::TunnelsRestarted,
        Tally::FromEndpointsBytes,
        Tally::ToEndpointsBytes,
        Tally::NamesResolved,
        Tally::ServersConnected,
        Tally::ServersFailed,
        Tally::ServersNotAllowed,
        Tally::ClientAddressesNotTold,
        Tally::ClientAddressesNotBelieved,
        Tally::DnsQueries,
        Tally::DnsFromCache,
        Tally::DnsStale,
        Tally::DnsFailed,
        Tally::DnsOverloaded,
        Tally::DnsNotAllowed,
        Tally::DnsRefused,
        Tally::DnsCrossed,
        Tally::DnsLinkBytes,
        Tally::DnsResolved,
        Tally::DnsUnresolved,
        Tally::DatagramFlowsOpened,
        Tally::DatagramFlowsRefused,
        Tally::DatagramFlowsEndedByPeer,
        Tally::DatagramsFromEndpoints,
        Tally::DatagramBytesFromEndpoints,
        Tally::DatagramsToEndpoints,
        Tally::DatagramBytesToEndpoints,
        Tally::DatagramsDropped,
        Tally::DatagramsPassed,
        Tally::IcmpErrorsLimited,
        Tally::RecordKeysMalformed,
        Tally::RenewalsAsked,
        Tally::RenewalLinkBytes,
        Tally::RenewalsLookedFor,
        Tally::RecallsLate,
        Tally::NotesUsed,
    ];

    fn name(self) -> &'static str {
        match self {
            Tally::RelaysRefused => "relays_refused",
            Tally::RelaysWithoutTunnel => "relays_without_tunnel",
            Tally::RelaysPassedWithoutTunnel => "relays_passed_without_tunnel",
            Tally::RelaysRefusedByRule => "relays_refused_by_rule",
            Tally::RelaysDirect => "relays_direct",
            Tally::RelaysRefusedByLimit => "relays_refused_by_limit",
            Tally::RelaysEndedByLimit => "relays_ended_by_limit",
            Tally::TunnelsUp => "tunnels_up",
            Tally::TunnelsUpOverTcp => "tunnels_up_over_tcp",
            Tally::TunnelsFailed => "tunnels_failed",
            Tally::TunnelsRestarted => "tunnels_restarted",
            Tally::FromEndpointsBytes => "from_endpoints_bytes",
            Tally::ToEndpointsBytes => "to_endpoints_bytes",
            Tally::NamesResolved => "names_resolved",
            Tally::ServersConnected => "servers_connected",
            Tally::ServersFailed => "servers_failed",
            Tally::ServersNotAllowed => "servers_not_allowed",
            Tally::ClientAddressesNotTold => "client_addresses_not_told",
            Tally::ClientAddressesNotBelieved => "client_addresses_not_believed",
            Tally::DnsQueries => "dns_queries",
            Tally::DnsFromCache => "dns_answered_from_cache",
            Tally::DnsStale => "dns_answered_stale",
            Tally::DnsFailed => "dns_failed",
            Tally::DnsOverloaded => "dns_overloaded",
            Tally::DnsNotAllowed => "dns_not_allowed",
            Tally::DnsRefused => "dns_refused",
            Tally::DnsCrossed => "dns_crossed",
            Tally::DnsLinkBytes => "dns_link_bytes",
            Tally::DnsResolved => "dns_resolved",
            Tally::DnsUnresolved => "dns_unresolved",
            Tally::DatagramFlowsOpened => "datagram_flows_opened",
            Tally::DatagramFlowsRefused => "datagram_flows_refused",
            Tally::DatagramFlowsEndedByPeer => "datagram_flows_ended_by_peer",
            Tally::DatagramsFromEndpoints => "datagrams_from_endpoints",
            Tally::DatagramBytesFromEndpoints => "datagram_bytes_from_endpoints",
            Tally::DatagramsToEndpoints => "datagrams_to_endpoints",
            Tally::DatagramBytesToEndpoints => "datagram_bytes_to_endpoints",
            Tally::DatagramsDropped => "datagrams_dropped",
            Tally::DatagramsPassed => "datagrams_passed",
            Tally::IcmpErrorsLimited => "icmp_errors_limited",
            Tally::RecordKeysMalformed => "tunnel_record_keys_malformed",
            Tally::RenewalsAsked => "renewals_asked",
            Tally::RenewalLinkBytes => "renewals_link_bytes",
            Tally::RenewalsLookedFor => "renewals_looked_for",
            Tally::RecallsLate => "shared_store_recalls_late",
            Tally::NotesUsed => "shared_store_notes_used",
        }
    }
}

/// What does not change while a daemon runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// `client-side` or `server-side`.
    pub(crate) role: &'static str,
    /// The other side's address, or where this side waits for it.
    pub(crate) link: String,
}

/// See the module.
pub(crate) struct Board {
    pub(crate) facts: Facts,
    pub(crate) started: Instant,
    tallies: [AtomicU64; Tally::ALL.len()],
    events: Mutex<BTreeMap<&'static str, u64>>,
    relays: Arc<AtomicU64>,
    flows: Arc<AtomicU64>,
    tunnels: Mutex<Tunnels>,
    numbers: Mutex<BTreeMap<&'static str, u64>>,
    notes: Mutex<BTreeMap<&'static str, String>>,
    activity: Mutex<Activity>,
}

/// What has crossed the link so far, and what clients and servers have said to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Payloads of UDP and TCP, both directions.
    pub(crate) bytes: u64,
    /// Packets of UDP.
    pub(crate) datagrams: u64,
    /// Packets of TCP.
    pub(crate) segments: u64,
    /// Bytes of TCP connections and of UDP that went through the tunnel, both directions.
    pub(crate) payload: u64,
    /// The number of these.
    pub(crate) connections: u64,
}

/// The connections to the other side.
#[derive(Default)]
struct Tunnels {
    next: u64,
    up: BTreeMap<u64, Up>,
    /// What those carried that have ended.
    ended: ByTransport,
    /// When the last one ended, if none is up.
    down_since: Option<Instant>,
    /// Why the last one ended, or did not come up.
    last_end: Option<String>,
}

/// What tunnels have carried, by what they run over.
#[derive(Clone, Copy, Default)]
struct ByTransport {
    udp: Counts,
    tcp: Counts,
}

impl ByTransport {
    /// And by this one.
    fn and(mut self, up: &Up) -> Self {
        let counts = (up.counts)();
        match up.over {
            Over::Udp => self.udp = self.udp.and(counts),
            Over::Tcp => self.tcp = self.tcp.and(counts),
        }
        self
    }
}

struct Up {
    since: Instant,
    over: Over,
    counts: Box<dyn Fn() -> Counts + Send>,
}

/// Numbers at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) gauges: BTreeMap<String, u64>,
    /// What is said in words.
    pub(crate) notes: BTreeMap<String, String>,
}

impl Board {
    pub(crate) fn new(facts: Facts) -> Arc<Self> {
        // A counter that is not there cannot be told from one that has not counted yet.
        let relays = tandem_tunnel::Event::ALL.map(tandem_tunnel::Event::name);
        let objects = tandem_engine::Event::ALL.map(tandem_engine::Event::name);
        let events = relays.into_iter().chain(objects).map(|name| (name, 0));
        Arc::new(Self {
            facts,
            started: Instant::now(),
            tallies: [const { AtomicU64::new(0) }; Tally::ALL.len()],
            events: Mutex::new(events.collect()),
            relays: Arc::default(),
            flows: Arc::default(),
            tunnels: Mutex::default(),
            numbers: Mutex::default(),
            notes: Mutex::default(),
            activity: Mutex::default(),
        })
    }

    /// Counts what the adapter does.
    pub(crate) fn count(&self, tally: Tally, amount: usize) {
        self.tallies[tally as usize].fetch_add(amount as u64, Ordering::Relaxed);
    }

    /// Counts an event of a core.
    pub(crate) fn event(&self, name: &'static str, amount: u64) {
        *lock(&self.events).entry(name).or_default() += amount;
    }

    /// A handshake is over.
    pub(crate) fn flow(&self, flow: Flow) {
        lock(&self.activity).add(flow);
    }

    /// What was saved, by site and by connection.
    pub(crate) fn activity(&self) -> Report {
        lock(&self.activity).report()
    }

    /// A tunnel has ended, or did not come up.
    pub(crate) fn tunnel_ended(&self, why: &impl fmt::Display) {
        lock(&self.tunnels).last_end = Some(why.to_string());
    }

    /// How it stands with the connection to the other side.
    pub(crate) fn tunnel_state(&self) -> TunnelState {
        let tunnels = lock(&self.tunnels);
        let newest = tunnels.up.values().next_back();
        let since = newest.map_or(tunnels.down_since, |up| Some(up.since));
        TunnelState {
            is_up: newest.is_some(),
            since_seconds: since.unwrap_or(self.started).elapsed().as_secs(),
            round_trip_ms: newest.map(|up| {
                let round_trip = (up.counts)().round_trip.as_millis();
                u64::try_from(round_trip).unwrap_or(u64::MAX)
            }),
            last_end: tunnels.last_end.clone(),
        }
    }

    /// One more TCP connection until what is returned is dropped.
    pub(crate) fn relay(&self) -> Open {
        Open::among(&self.relays)
    }

    /// One more flow of UDP until what is returned is dropped.
    pub(crate) fn flow_of_datagrams(&self) -> Open {
        self.count(Tally::DatagramFlowsOpened, 1);
        Open::among(&self.flows)
    }

    /// One more connection to the other side until what is returned is dropped.
    pub(crate) fn tunnel<T: Tunnel>(self: &Arc<Self>, tunnel: &T) -> OpenTunnel {
        self.count(Tally::TunnelsUp, 1);
        match tunnel.over() {
            Over::Udp => {}
            Over::Tcp => self.count(Tally::TunnelsUpOverTcp, 1),
        }
        let mut tunnels = lock(&self.tunnels);
        let number = tunnels.next;
        tunnels.next += 1;
        let tunnel = tunnel.clone();
        let up = Up {
            since: Instant::now(),
            over: tunnel.over(),
            counts: Box::new(move || tunnel.counts()),
        };
        tunnels.up.insert(number, up);
        OpenTunnel {
            board: Arc::clone(self),
            number,
        }
    }

    /// Shows numbers that go up and down.
    pub(crate) fn numbers(&self, numbers: impl IntoIterator<Item = (&'static str, u64)>) {
        lock(&self.numbers).extend(numbers);
    }

    /// Shows a text.
    pub(crate) fn note(&self, name: &'static str, text: String) {
        lock(&self.notes).insert(name, text);
    }

    pub(crate) fn carried(&self) -> Carried {
        let ByTransport { udp, tcp } = lock(&self.tunnels).counts();
        let of = |tally: Tally| self.tallies[tally as usize].load(Ordering::Relaxed);
        let opened = tandem_tunnel::Event::RelayOpened.name();
        let connections = lock(&self.events).get(opened).copied();
        Carried {
            bytes: [udp, tcp]
                .map(|counts| counts.sent_bytes + counts.received_bytes)
                .iter()
                .sum(),
            datagrams: udp.sent_datagrams + udp.received_datagrams,
            segments: tcp.sent_datagrams + tcp.received_datagrams,
            payload: [
                Tally::FromEndpointsBytes,
                Tally::ToEndpointsBytes,
                Tally::DatagramBytesFromEndpoints,
                Tally::DatagramBytesToEndpoints,
            ]
            .map(of)
            .iter()
            .sum(),
            connections: connections.unwrap_or_default(),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let tallies = Tally::ALL.into_iter().map(|tally| {
            let value = self.tallies[tally as usize].load(Ordering::Relaxed);
            (tally.name().to_owned(), value)
        });
        let mut counters: BTreeMap<String, u64> = tallies.collect();
        for (name, value) in lock(&self.events).iter() {
            counters.insert(format!("tunnel_{name}"), *value);
        }
        let mut gauges: BTreeMap<String, u64> = lock(&self.numbers)
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        for (name, open) in [("relays", &self.relays), ("datagram_flows", &self.flows)] {
            gauges.insert(name.to_owned(), open.load(Ordering::Relaxed));
        }
        lock(&self.tunnels).show(&mut counters, &mut gauges);
        let notes = lock(&self.notes);
        let notes = notes.iter();
        Snapshot {
            counters,
            gauges,
            notes: notes
                .map(|(name, text)| ((*name).to_owned(), text.clone()))
                .collect(),
        }
    }
}

impl Tunnels {
    fn counts(&self) -> ByTransport {
        self.up.values().fold(self.ended, ByTransport::and)
    }

    fn show(&self, counters: &mut BTreeMap<String, u64>, gauges: &mut BTreeMap<String, u64>) {
        let ByTransport { udp, tcp } = self.counts();
        for (name, value) in [
            ("udp_sent_bytes", udp.sent_bytes),
            ("udp_sent_datagrams", udp.sent_datagrams),
            ("udp_received_bytes", udp.received_bytes),
            ("udp_received_datagrams", udp.received_datagrams),
            ("tcp_sent_bytes", tcp.sent_bytes),
            ("tcp_sent_segments", tcp.sent_datagrams),
            ("tcp_received_bytes", tcp.received_bytes),
            ("tcp_received_segments", tcp.received_datagrams),
            ("tcp_repeated_segments", tcp.lost_packets),
            ("lost_packets", udp.lost_packets),
        ] {
            counters.insert(name.to_owned(), value);
        }
        let over = |over| self.up.values().filter(|up| up.over == over).count() as u64;
        gauges.insert("tunnels".to_owned(), self.up.len() as u64);
        gauges.insert("tunnels_over_udp".to_owned(), over(Over::Udp));
        gauges.insert("tunnels_over_tcp".to_owned(), over(Over::Tcp));
        // The newest: on the client side it is the one in use.
        if let Some(newest) = self.up.values().next_back() {
            let round_trip = (newest.counts)().round_trip.as_millis();
            let seconds = newest.since.elapsed().as_secs();
            gauges.insert("tunnel_up_seconds".to_owned(), seconds);
            gauges.insert(
                "round_trip_milliseconds".to_owned(),
                u64::try_from(round_trip).unwrap_or(u64::MAX),
            );
        }
    }
}

/// One of those that are counted while they are open.
#[derive(Debug)]
pub(crate) struct Open(Arc<AtomicU64>);

impl Open {
    fn among(open: &Arc<AtomicU64>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`Board::tunnel`].
pub(crate) struct OpenTunnel {
    board: Arc<Board>,
    number: u64,
}

impl Drop for OpenTunnel {
    fn drop(&mut self) {
        let mut tunnels = lock(&self.board.tunnels);
        if let Some(up) = tunnels.up.remove(&self.number) {
            tunnels.ended = tunnels.ended.and(&up);
            if tunnels.up.is_empty() {
                tunnels.down_since = Some(Instant::now());
            }
        }
    }
}

/// A reader that panicked while it copied has changed nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Arc<Board> {
        Board::new(Facts {
            role: "client-side",
            link: "192.0.2.1:4433".to_owned(),
        })
    }

    #[test]
    fn tallies_and_events_are_there_from_the_start_and_are_counted() {
        let board = board();
        for (index, tally) in Tally::ALL.into_iter().enumerate() {
            assert_eq!(tally as usize, index, "the order of ALL is the enum's");
            assert_eq!(board.snapshot().counters[tally.name()], 0);
        }
        let event = tandem_tunnel::Event::ALL[0].name();
        board.count(Tally::ToEndpointsBytes, 5);
        board.event(event, 2);
        board.event(event, 1);
        let counters = board.snapshot().counters;
        assert_eq!(counters["to_endpoints_bytes"], 5);
        assert_eq!(counters[&format!("tunnel_{event}")], 3);
    }

    #[test]
    fn open_relays_are_counted_as_long_as_they_are_open() {
        let board = board();
        let relay = board.relay();
        assert_eq!(board.snapshot().gauges["relays"], 1);
        drop(relay);
        assert_eq!(board.snapshot().gauges["relays"], 0);
    }
}
