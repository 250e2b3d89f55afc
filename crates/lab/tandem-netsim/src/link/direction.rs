//! One direction of a link: queue, transmitter, path.
//!
//! Events happen in the order of their instants, each at its own instant:
//! the end of a transmission frees the transmitter for the head of the queue
//! from that instant (not from `now`), and decides the packet's fate.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tandem_wire::clock::Instant;

use super::Wakeup;
use super::config::{DirectionConfig, Oversize};
use super::counters::DirectionCounters;
use super::harm::{Fates, corrupt};
use super::icmp;
use super::outage::{hold_until, loses};
use super::serial::SerialClock;
use crate::layout::Layout;

/// A packet being sent.
#[derive(Clone, Debug)]
struct Transmission {
    packet: Vec<u8>,
    /// When its first bit goes out; later than the present during an outage.
    starts: Instant,
    ends: Instant,
    /// When it was offered, and the transmitter's clock before it: to take it
    /// back while an outage still holds it.
    offered: Instant,
    clock_before: SerialClock,
}

/// One direction.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    config: DirectionConfig,
    tls_ports: Vec<u16>,
    started: Instant,
    clock: SerialClock,
    fates: Fates,
    queue: VecDeque<(Instant, Vec<u8>)>,
    queued_bytes: usize,
    sending: Option<Transmission>,
    /// By instant of arrival, then by order of sending.
    path: BTreeMap<(Instant, u64), Vec<u8>>,
    next_on_path: u64,
    arrived: VecDeque<Vec<u8>>,
    counters: DirectionCounters,
}

impl Lane {
    pub(super) fn new(
        config: DirectionConfig,
        tls_ports: Vec<u16>,
        seed: u64,
        stream: u64,
        now: Instant,
    ) -> Self {
        Self {
            config,
            tls_ports,
            started: now,
            clock: SerialClock::new(now),
            fates: Fates::new(seed, stream),
            queue: VecDeque::new(),
            queued_bytes: 0,
            sending: None,
            path: BTreeMap::new(),
            next_on_path: 0,
            arrived: VecDeque::new(),
            counters: DirectionCounters::default(),
        }
    }

    /// Takes a packet; returns what is to be told to its sender, if anything.
    pub(super) fn offer(&mut self, packet: Vec<u8>, now: Instant) -> Option<Vec<u8>> {
        self.counters.offered_packets += 1;
        if packet.len() > self.config.mtu {
            self.counters.dropped_oversize += 1;
            let message = match self.config.oversize {
                Oversize::DropSilently => None,
                Oversize::TellSender { v4, v6 } => icmp::too_big(&packet, self.config.mtu, v4, v6),
            };
            self.counters.icmp_sent += u64::from(message.is_some());
            return message;
        }
        let waits = self.sending.is_some() || !self.queue.is_empty();
        if waits && self.queued_bytes.saturating_add(packet.len()) > self.config.queue_limit {
            self.counters.dropped_queue += 1;
            return None;
        }
        self.queued_bytes += packet.len();
        if waits {
            self.counters.queue_peak = self.counters.queue_peak.max(self.queued_bytes);
        }
        self.queue.push_back((now, packet));
        self.advance(now);
        None
    }

    /// Does all that is due by `now`. One round for each packet sent or
    /// arrived, so the work is bounded by what is held.
    pub(super) fn advance(&mut self, now: Instant) {
        loop {
            if let Some(sending) = self.sending.take_if(|sending| sending.ends <= now) {
                self.finish(sending);
            } else if self.sending.is_none()
                && let Some((offered, packet)) = self.queue.pop_front()
            {
                self.start(packet, offered);
            } else {
                break;
            }
        }
        while let Some(entry) = self.path.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let packet = entry.remove();
            self.counters.delivered_packets += 1;
            self.counters.delivered_bytes += packet.len() as u64;
            self.arrived.push_back(packet);
        }
    }

    fn start(&mut self, packet: Vec<u8>, offered: Instant) {
        self.queued_bytes -= packet.len();
        let wanted = offered.max(self.clock.free_at());
        let since_start = wanted.saturating_since(self.started);
        let held = hold_until(&self.config.outages, since_start) - since_start;
        let starts = wanted + held;
        let clock_before = self.clock;
        let ends = self.clock.serialise(packet.len(), self.config.rate, starts);
        self.sending = Some(Transmission {
            packet,
            starts,
            ends,
            offered,
            clock_before,
        });
    }

    fn finish(&mut self, sent: Transmission) {
        let mut packet = sent.packet;
        self.counters.packets += 1;
        self.counters.ip_bytes += packet.len() as u64;
        self.counters.tls_bytes += self.tls_bytes(&packet);

        let fate = self.fates.draw(&self.config);
        let (starts, ends) = (
            sent.starts.saturating_since(self.started),
            sent.ends.saturating_since(self.started),
        );
        if loses(&self.config.outages, starts, ends) {
            self.counters.lost_in_outage += 1;
            return;
        }
        if fate.lost {
            self.counters.lost += 1;
            return;
        }
        if let Some(draw) = fate.flip
            && corrupt(&mut packet, &self.config.corruption, draw)
        {
            self.counters.corrupted += 1;
        }
        let mut delay = self.config.delay;
        if fate.held_back {
            self.counters.reordered += 1;
            delay = delay.saturating_add(self.config.reordering.extra_delay);
        }
        if fate.twice {
            self.counters.duplicated += 1;
            self.send_off(packet.clone(), sent.ends, delay);
            delay = delay.saturating_add(self.config.duplication.after);
        }
        self.send_off(packet, sent.ends, delay);
    }

    fn send_off(&mut self, packet: Vec<u8>, sent: Instant, delay: Duration) {
        self.path.insert((sent + delay, self.next_on_path), packet);
        self.next_on_path += 1;
    }

    fn tls_bytes(&self, packet: &[u8]) -> u64 {
        Layout::of(packet)
            .and_then(|layout| layout.tcp(packet))
            .filter(|tcp| {
                self.tls_ports.contains(&tcp.source_port)
                    || self.tls_ports.contains(&tcp.destination_port)
            })
            .map_or(0, |tcp| tcp.payload.len() as u64)
    }

    /// Puts a packet among those that have arrived, past the link.
    pub(super) fn hand_over(&mut self, packet: Vec<u8>) {
        self.arrived.push_back(packet);
    }

    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        self.arrived.pop_front()
    }

    pub(super) fn next_due(&self) -> Option<(Instant, Wakeup)> {
        let sending = self
            .sending
            .as_ref()
            .map(|sending| (sending.ends, Wakeup::TransmissionEnds));
        let arrival = self
            .path
            .keys()
            .next()
            .map(|(at, _)| (*at, Wakeup::Arrival));
        match (sending, arrival) {
            (Some(sending), Some(arrival)) => Some(if arrival.0 < sending.0 {
                arrival
            } else {
                sending
            }),
            (sending, arrival) => sending.or(arrival),
        }
    }

    pub(super) fn counters(&self) -> DirectionCounters {
        self.counters
    }

    pub(super) fn config(&self) -> &DirectionConfig {
        &self.config
    }

    pub(super) fn reconfigure(&mut self, config: DirectionConfig, now: Instant) {
        self.config = config;
        // A packet that an outage holds has not started: it goes by the new configuration.
        if let Some(held) = self.sending.take_if(|sending| sending.starts > now) {
            self.clock = held.clock_before;
            self.queued_bytes += held.packet.len();
            self.queue.push_front((held.offered.max(now), held.packet));
        }
    }
}
