//! What the event loop drives: the packet engine, or a stand-in for it.
//!
//! Is not: the loop (`daemon.rs`).
//!
//! Invariant: every [`Engine`] answers each token once, now or later; one that forgets a token
//! costs its packet a few seconds, after which the loop lets it go.

use std::time::Duration;

use tandem_packet::{Direction, Output, Proxy, Summary, Verdict, VerdictToken, Wakeup};
use tandem_store::{Keeping, Store as _};
use tandem_store_sqlite::SqliteStore;
use tandem_wire::{Instant, UnixTime};

/// How long the end of the process waits for what is not yet on disk.
const FAREWELL: Duration = Duration::from_secs(2);

/// Decides what becomes of packets. The shape of every engine: inputs with the time, outputs and
/// time-outs polled.
pub trait Engine {
    /// Takes one packet, which stays in the queue until `token` gets its verdict.
    fn handle_packet(
        &mut self,
        token: VerdictToken,
        direction: Direction,
        packet: &[u8],
        now: Instant,
        wall: UnixTime,
    );

    /// Does what is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// The next thing to carry out. Called after every input until there is none.
    fn poll_output(&mut self) -> Option<Output>;

    /// When to call [`Self::handle_timeout`], and why.
    fn poll_timeout(&self) -> Option<(Instant, Wakeup)>;

    /// About once a second, between packets: what is not urgent, and never waits for a disk.
    fn upkeep(&mut self, wall: UnixTime) {
        let _ = wall;
    }

    /// Names and values of what is kept right now.
    fn gauges(&mut self, each: &mut dyn FnMut(&'static str, u64)) {
        let _ = each;
    }

    /// Summaries of the flows whose handshake has ended since this was last called.
    fn summaries(&mut self, each: &mut dyn FnMut(Summary)) {
        let _ = each;
    }

    /// The end is near: packets that are held may go.
    fn release_all(&mut self) {}

    /// The end: called when no packet waits any more, and may take seconds.
    fn close(&mut self) {}
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn handle_packet(
        &mut self,
        token: VerdictToken,
        direction: Direction,
        packet: &[u8],
        now: Instant,
        wall: UnixTime,
    ) {
        (**self).handle_packet(token, direction, packet, now, wall);
    }

    fn handle_timeout(&mut self, now: Instant) {
        (**self).handle_timeout(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        (**self).poll_output()
    }

    fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        (**self).poll_timeout()
    }

    fn upkeep(&mut self, wall: UnixTime) {
        (**self).upkeep(wall);
    }

    fn gauges(&mut self, each: &mut dyn FnMut(&'static str, u64)) {
        (**self).gauges(each);
    }

    fn summaries(&mut self, each: &mut dyn FnMut(Summary)) {
        (**self).summaries(each);
    }

    fn release_all(&mut self) {
        (**self).release_all();
    }

    fn close(&mut self) {
        (**self).close();
    }
}

impl Engine for Proxy<SqliteStore> {
    fn handle_packet(
        &mut self,
        token: VerdictToken,
        direction: Direction,
        packet: &[u8],
        now: Instant,
        wall: UnixTime,
    ) {
        Proxy::handle_packet(self, token, direction, packet, now, wall);
    }

    fn handle_timeout(&mut self, now: Instant) {
        Proxy::handle_timeout(self, now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        Proxy::poll_output(self)
    }

    fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        Proxy::poll_timeout(self)
    }

    fn upkeep(&mut self, wall: UnixTime) {
        let store = self.store_mut();
        store.maintain(wall);
        for warning in store.take_warnings() {
            tracing::warn!("{warning}");
        }
    }

    fn gauges(&mut self, each: &mut dyn FnMut(&'static str, u64)) {
        let gauges = Proxy::gauges(self);
        each("flows", gauges.flows as u64);
        each("held_packets", gauges.held_packets as u64);
        each("held_bytes", gauges.held_bytes as u64);
        each("flow_bytes", gauges.memory as u64);
        each("stopped_paths", self.stopped_paths() as u64);
        each("servers_without_gain", self.servers_without_gain() as u64);
        let (tickets, ticket_bytes) = self.engine().session_tickets();
        each("session_tickets", tickets as u64);
        each("session_ticket_bytes", ticket_bytes as u64);
        let health = self.store_mut().health();
        each("store_parts", health.parts);
        each("store_objects", health.objects);
        each("store_bytes", health.bytes);
        each("store_unwritten_bytes", health.unwritten_bytes);
        each("store_evicted", health.evicted);
        each("store_disk_reads", health.disk_reads);
        each("store_disk_errors", health.disk_errors);
        each(
            "store_on_disk",
            match health.keeping {
                Keeping::Disk => 1,
                Keeping::Memory | Keeping::DiskFailing => 0,
            },
        );
    }

    fn summaries(&mut self, each: &mut dyn FnMut(Summary)) {
        Proxy::summaries(self).for_each(each);
    }

    fn release_all(&mut self) {
        Proxy::release_all(self);
    }

    fn close(&mut self) {
        if !self.store_mut().sync(FAREWELL) {
            tracing::info!("not all that was learned is on disk");
        }
    }
}

/// Lets every packet go on as it is: what the queue alone costs.
#[derive(Debug, Default)]
pub struct PassThrough {
    last: Option<VerdictToken>,
}

impl Engine for PassThrough {
    fn handle_packet(
        &mut self,
        token: VerdictToken,
        _: Direction,
        _: &[u8],
        _: Instant,
        _: UnixTime,
    ) {
        self.last = Some(token);
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_output(&mut self) -> Option<Output> {
        self.last
            .take()
            .map(|token| Output::Verdict(token, Verdict::Accept))
    }

    fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        None
    }
}
