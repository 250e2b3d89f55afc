//! The writing half of packet mode: holds a flight, sends a delta in its place, and falls back.
//!
//! Is: the bounded hold, the anchoring at the end, repeats and the failsafe, the same for the
//! server's first flight, for the client's flight after it and for a hello. Is not: the choice of
//! what a delta says (`tandem-engine`) or presence and hints (`server_side`).
//!
//! ```text
//!   Idle --ground--> Armed --first segment--> Holding --whole flight--> Sent --acknowledged--> Idle
//!                                                |  any bound                |  2nd repeat or miss
//!                                                +--> originals, Over        +--> originals, Over
//! ```
//!
//! Invariants: every held token gets its verdict; what was written once is never written
//! differently; after `Over` nothing of this flow is altered again.

mod group;

use tandem_delta::Reference;
use tandem_engine::Ground;
use tandem_link::inband::{FlowId, Key, Version};
use tandem_store::Store;
use tandem_wire::{Instant, Seq, TcpFlags, TcpPacket};

use crate::config::{Limits, WireFormat};
use crate::context::Toward;
use crate::format::{Format, Outgoing};
use crate::output::{Direction, Event, GiveUp, Outbox, Owed, Verdict};
use crate::pace::Pace;
use crate::segment::{self, Cut};
use crate::watch::{Progress, Watch};
use group::Group;

/// What the writer has to know of its flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) key: &'a Key,
    pub(crate) wire: WireFormat,
    pub(crate) limits: &'a Limits,
    pub(crate) flow: FlowId,
    /// The version that both proxies speak in this flow.
    pub(crate) version: Version,
    /// Whom the flight goes to.
    pub(crate) toward: Toward,
    /// That endpoint's maximum segment size.
    pub(crate) mss: usize,
    /// What was measured of the link.
    pub(crate) pace: Pace,
    /// The thesis's: what the server's hello is to say of the client's certificates.
    pub(crate) confirmation: &'a [Reference],
}

#[derive(Debug, Default)]
pub(crate) enum Writer {
    /// There is no ground for a delta, or none for another; nothing is held.
    #[default]
    Idle,
    /// The far side may hold something of the next flight.
    Armed(Aim),
    /// The flight is coming.
    Holding(Hold),
    /// The flight went out as a delta and is not yet acknowledged.
    Sent(Group),
    /// Nothing is altered any more.
    Over,
}

/// A flight to come: where it begins, and on what ground it is written shorter.
#[derive(Debug)]
pub(crate) struct Aim {
    pub(crate) from: Seq,
    pub(crate) ground: Ground,
}

/// A flight on its way in.
#[derive(Debug)]
pub(crate) struct Hold {
    aim: Aim,
    segments: Vec<(Owed, Vec<u8>)>,
    bytes: usize,
    since: Instant,
}

impl Hold {
    /// Whether a segment of the same bytes is held already.
    fn has(&self, packet: &TcpPacket<'_>) -> bool {
        self.segments.iter().any(|(_, held)| {
            TcpPacket::parse(held).is_ok_and(|held| {
                held.seq() == packet.seq() && held.payload().len() >= packet.payload().len()
            })
        })
    }

    /// What goes in place of the flight, and how many bytes it stands for.
    fn payload(
        &self,
        watch: &Watch,
        terms: Terms<'_>,
        store: &mut impl Store,
    ) -> Option<(Vec<u8>, usize)> {
        let stream = watch.stream(terms.toward);
        let before = self.aim.from.distance_from(watch.start(terms.toward));
        let before = usize::try_from(before).ok()?;
        let outgoing = Outgoing {
            flight: watch
                .connection()
                .outgoing(terms.toward.origin(), stream, before),
            from: self.aim.from,
            ground: &self.aim.ground,
            key: terms.key,
            whose: (terms.flow, terms.version, terms.toward.sender()),
            confirmation: terms.confirmation,
        };
        let payload = terms.wire.write(outgoing, store)?;
        Some((payload, outgoing.flight.bytes()?.len()))
    }
}

impl Writer {
    /// The far side may hold something: from here on, hold.
    pub(crate) fn arm(&mut self, aim: Aim) {
        match self {
            Writer::Idle | Writer::Armed(_) => *self = Writer::Armed(aim),
            Writer::Holding(_) | Writer::Sent(_) | Writer::Over => {}
        }
    }

    /// Nothing is to be made of the flight to come, a hello perhaps: what is held of it goes, and a
    /// later one may still be written.
    pub(crate) fn stand_down(&mut self, out: &mut Outbox) {
        match self {
            Writer::Armed(_) | Writer::Holding(_) => {
                self.release(out);
                *self = Writer::Idle;
            }
            Writer::Idle | Writer::Sent(_) | Writer::Over => {}
        }
    }

    /// Whether it is still to be said what the far side has stored of a client's flight.
    pub(crate) fn awaits_client_flight(&self) -> bool {
        match self {
            Writer::Armed(aim) | Writer::Holding(Hold { aim, .. }) => {
                aim.ground.awaits_client_flight()
            }
            Writer::Idle | Writer::Sent(_) | Writer::Over => false,
        }
    }

    /// It has been said what the far side has stored of the flight to come.
    pub(crate) fn stands_on(&mut self, ground: Ground) {
        match self {
            Writer::Armed(aim) | Writer::Holding(Hold { aim, .. }) => aim.ground = ground,
            Writer::Idle | Writer::Sent(_) | Writer::Over => {}
        }
    }

    /// When a held flight has to be let go.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        match self {
            Writer::Holding(hold) => Some(hold.since + limits.hold_time),
            Writer::Idle | Writer::Armed(_) | Writer::Sent(_) | Writer::Over => None,
        }
    }

    /// Lets a flight go that has been held long enough.
    pub(crate) fn expire(&mut self, now: Instant, limits: &Limits, out: &mut Outbox) {
        if self.deadline(limits).is_some_and(|due| due <= now) {
            self.release(out);
        }
    }

    /// How many packets and payload bytes are held.
    pub(crate) fn held(&self) -> (usize, usize) {
        match self {
            Writer::Holding(hold) => (hold.segments.len(), hold.bytes),
            Writer::Idle | Writer::Armed(_) | Writer::Sent(_) | Writer::Over => (0, 0),
        }
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        match self {
            Writer::Holding(hold) => hold.bytes + hold.segments.len() * 128,
            Writer::Sent(group) => {
                group.payload.len() + group.original_bytes + group.originals.len() * 128
            }
            Writer::Idle | Writer::Armed(_) | Writer::Over => 0,
        }
    }

    /// The near endpoint has sent a segment of any kind.
    pub(crate) fn saw(&mut self, packet: &TcpPacket<'_>) {
        match self {
            Writer::Sent(group) => group.saw(packet.timestamps()),
            Writer::Idle | Writer::Armed(_) | Writer::Holding(_) | Writer::Over => {}
        }
    }

    /// A segment of the near endpoint's, already read along by `watch` with the result `progress`.
    /// Settles its token now or later.
    pub(crate) fn segment(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        (watch, progress): (&Watch, Progress),
        terms: Terms<'_>,
        (store, now, out): (&mut impl Store, Instant, &mut Outbox),
    ) {
        self.saw(packet);
        if packet.payload().is_empty() {
            // What ends the stream does not overtake what is before it.
            if packet.flags().contains(TcpFlags::FIN) {
                self.release_held(out);
            }
            return owed.settle(Verdict::Accept, out);
        }
        match std::mem::take(self) {
            Writer::Idle => owed.settle(Verdict::Accept, out),
            Writer::Over => {
                *self = Writer::Over;
                owed.settle(Verdict::Accept, out);
            }
            Writer::Armed(aim) => {
                let hold = Hold {
                    aim,
                    segments: Vec::new(),
                    bytes: 0,
                    since: now,
                };
                *self = Writer::Holding(hold);
                self.hold(owed, packet, (watch, progress), terms, (store, now, out));
            }
            Writer::Holding(hold) => {
                *self = Writer::Holding(hold);
                self.hold(owed, packet, (watch, progress), terms, (store, now, out));
            }
            Writer::Sent(group) => {
                *self = Writer::Sent(group);
                self.repeat(owed, packet, progress, terms, (now, out));
            }
        }
    }

    fn hold(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        (watch, progress): (&Watch, Progress),
        terms: Terms<'_>,
        (store, now, out): (&mut impl Store, Instant, &mut Outbox),
    ) {
        let Writer::Holding(hold) = self else {
            return owed.settle(Verdict::Accept, out);
        };
        let ends = packet.flags().contains(TcpFlags::FIN);
        // What has passed before the flight and comes again.
        let end = packet.end();
        if !ends && !end.is_after(hold.aim.from) && matches!(progress, Progress::Going) {
            return owed.settle(Verdict::Accept, out);
        }
        if !ends && hold.has(packet) && matches!(progress, Progress::Going) {
            out.event(Event::RepeatAbsorbed);
            return owed.settle(Verdict::Drop, out);
        }
        hold.bytes += packet.payload().len();
        hold.segments.push((owed, packet.bytes().to_vec()));
        let over_limit = hold.segments.len() > terms.limits.hold_segments
            || hold.bytes > terms.limits.hold_bytes;
        match progress {
            Progress::GiveUp(_) | Progress::Finished => self.release(out),
            Progress::Going if over_limit || ends => self.release(out),
            Progress::Going => {
                let ground = &hold.aim.ground;
                let is_whole = watch.connection().is_whole(ground, terms.toward.origin());
                if is_whole && !watch.has_gap(terms.toward) {
                    self.write(watch, terms, (store, now, out));
                }
            }
        }
    }

    /// Lets a held flight go, unaltered and in the order of its arrival, and alters nothing of this
    /// flow again.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        self.release_held(out);
        *self = Writer::Over;
    }

    /// Lets a held flight go, if one is held.
    fn release_held(&mut self, out: &mut Outbox) {
        if !matches!(self, Writer::Holding(_)) {
            return;
        }
        if let Writer::Holding(hold) = std::mem::replace(self, Writer::Over) {
            out.event(Event::HoldReleased(hold.bytes as u64));
            for (owed, _) in hold.segments {
                owed.settle(Verdict::Accept, out);
            }
        }
    }

    /// The whole flight is here: send a delta in its place, if that is smaller.
    fn write(
        &mut self,
        watch: &Watch,
        terms: Terms<'_>,
        (store, now, out): (&mut impl Store, Instant, &mut Outbox),
    ) {
        let Writer::Holding(hold) = self else { return };
        let (start, end) = (hold.aim.from, watch.next(terms.toward));
        let written = hold.payload(watch, terms, store);
        let newest = hold
            .segments
            .last()
            .map(|(_, bytes)| bytes.clone())
            .unwrap_or_default();
        let packets = match (&written, TcpPacket::parse(&newest)) {
            (Some((payload, _)), Ok(template)) => rewritten(&template, payload, end, terms),
            _ => Vec::new(),
        };
        let (Some((payload, original)), false) = (written, packets.is_empty()) else {
            return self.release(out);
        };
        let Writer::Holding(hold) = std::mem::replace(self, Writer::Over) else {
            return;
        };
        out.event(Event::FlightWritten {
            original: original as u64,
            sent: payload.len() as u64,
        });
        let stamps = TcpPacket::parse(&newest)
            .ok()
            .and_then(|newest| newest.timestamps());
        // The last tokens carry the rewritten segments, so that these leave in order and nothing
        // has to be injected: a frame needs no more segments than the flight it stands for,
        // but for an endpoint that sends larger ones than asked.
        let spare = packets.len().saturating_sub(hold.segments.len());
        let mut packets = packets.into_iter();
        for packet in packets.by_ref().take(spare) {
            out.inject(Direction::ToLink, packet);
        }
        let first = hold.segments.len() - packets.len();
        let mut originals = Vec::with_capacity(hold.segments.len());
        for (index, (owed, original)) in hold.segments.into_iter().enumerate() {
            let verdict = if index < first { None } else { packets.next() };
            owed.settle(verdict.map_or(Verdict::Drop, Verdict::Replace), out);
            originals.push(original);
        }
        *self = Writer::Sent(Group {
            start,
            end,
            payload,
            originals,
            original_bytes: hold.bytes,
            sent_at: now,
            repeats: 0,
            is_rebuilt: false,
            stamps,
        });
    }

    /// A segment while a rewritten flight is under way.
    fn repeat(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        progress: Progress,
        terms: Terms<'_>,
        (now, out): (Instant, &mut Outbox),
    ) {
        let Writer::Sent(group) = self else {
            return owed.settle(Verdict::Accept, out);
        };
        let first = packet.seq();
        let last = packet.end();
        // New data, or a keep-alive of the byte before the flight (RFC 9293, section 3.8.4).
        if !first.is_before(group.end) || !last.is_after(group.start) {
            return owed.settle(Verdict::Accept, out);
        }
        // What is lost behind the other proxy is nobody's business here.
        if group.is_rebuilt {
            return owed.settle(Verdict::Accept, out);
        }
        let reaches_past = last.is_after(group.end) || packet.flags().contains(TcpFlags::FIN);
        // A path that has become narrower takes this one, and may not take the originals.
        let is_smaller = !group.has_sent(packet);
        if !reaches_past && !matches!(progress, Progress::GiveUp(_)) {
            // Before its answer can be here, a repeat says nothing about the copy under way.
            if now.saturating_since(group.sent_at) < terms.pace.answer_to(group.payload.len()) {
                out.event(Event::RepeatAbsorbed);
                return owed.settle(Verdict::Drop, out);
            }
            let packets = if group.repeats < terms.wire.tries() {
                rewritten(packet, &group.payload, group.end, terms)
            } else {
                Vec::new()
            };
            let mut packets = packets.into_iter();
            if let Some(one) = packets.next() {
                group.repeats += 1;
                group.sent_at = now;
                out.event(Event::FlightRepeated);
                owed.settle(Verdict::Replace(one), out);
                return packets.for_each(|packet| out.inject(Direction::ToLink, packet));
            }
        }
        self.send_originals(terms.limits.mtu, out);
        owed.settle(
            if reaches_past || is_smaller {
                Verdict::Accept
            } else {
                Verdict::Drop
            },
            out,
        );
    }

    /// Sends what the near endpoint sent, unaltered, and alters nothing of this flow again.
    pub(crate) fn send_originals(&mut self, mtu: usize, out: &mut Outbox) {
        self.release_held(out);
        if let Writer::Sent(group) = std::mem::replace(self, Writer::Over) {
            out.event(Event::OriginalsSent(group.original_bytes as u64));
            out.event(Event::GivenUp(GiveUp::Failsafe));
            for packet in &group.originals {
                group
                    .passable(packet, mtu)
                    .into_iter()
                    .for_each(|packet| out.inject(Direction::ToLink, packet));
            }
        }
    }

    /// The far endpoint says how far it is.
    pub(crate) fn acknowledged(&mut self, packet: &TcpPacket<'_>, out: &mut Outbox) {
        let Writer::Sent(group) = self else { return };
        if !packet.ack().is_before(group.end) {
            out.event(Event::FlightAcknowledged);
            // A hello may be followed by another flight.
            *self = Writer::Idle;
        } else if group.has_arrived_in_part(packet) {
            group.is_rebuilt = true;
        }
    }

    /// Whether the far endpoint, having been sent the delta longer than a round trip ago, still
    /// asks for the flight's first byte: a duplicate acknowledgement is what PAWS answers with
    /// (RFC 7323, section 5.3) where nobody rebuilt the flight. One that reports later bytes is
    /// another matter: the flight was rebuilt, and a segment of it was lost behind the other proxy.
    pub(crate) fn is_refused_by(&self, packet: &TcpPacket<'_>, pace: &Pace, now: Instant) -> bool {
        match self {
            Writer::Sent(group) => {
                packet.payload().is_empty()
                    && packet.ack() == group.start
                    && !group.has_arrived_in_part(packet)
                    && pace
                        .round_trip()
                        .is_some_and(|round_trip| now.saturating_since(group.sent_at) >= round_trip)
            }
            Writer::Idle | Writer::Armed(_) | Writer::Holding(_) | Writer::Over => false,
        }
    }

    /// Whether a rewritten flight is under way.
    pub(crate) fn has_sent(&self) -> bool {
        match self {
            Writer::Sent(_) => true,
            Writer::Idle | Writer::Armed(_) | Writer::Holding(_) | Writer::Over => false,
        }
    }

    /// How many bytes crossed in place of the flight that is under way.
    pub(crate) fn sent_bytes(&self) -> Option<usize> {
        match self {
            Writer::Sent(group) => Some(group.payload.len()),
            Writer::Idle | Writer::Armed(_) | Writer::Holding(_) | Writer::Over => None,
        }
    }

    /// Whether it is over with this flow: something was not rebuilt, or was let go.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Writer::Over => true,
            Writer::Idle | Writer::Armed(_) | Writer::Holding(_) | Writer::Sent(_) => false,
        }
    }

    /// Whether the next segment of the near endpoint's is the writer's.
    pub(crate) fn is_engaged(&self) -> bool {
        match self {
            Writer::Armed(_) | Writer::Holding(_) | Writer::Sent(_) => true,
            Writer::Idle | Writer::Over => false,
        }
    }

    /// Whether nothing is left to do for this flow.
    pub(crate) fn is_at_rest(&self) -> bool {
        match self {
            Writer::Idle | Writer::Armed(_) | Writer::Over => true,
            Writer::Holding(_) | Writer::Sent(_) => false,
        }
    }
}

/// The packets that carry `payload` in place of a flight that ends at `end`; empty where it cannot
/// be carried.
///
/// Anchored at the end: a NAT between the proxies has then seen the last byte that the receiver
/// will acknowledge.
fn rewritten(template: &TcpPacket<'_>, payload: &[u8], end: Seq, terms: Terms<'_>) -> Vec<Vec<u8>> {
    let Some(options) = terms.wire.options(template) else {
        return Vec::new();
    };
    let headers = template.header_len() - template.options_bytes().len();
    let mss = terms.mss.min(terms.limits.mtu.saturating_sub(headers));
    let start = end.before(payload.len());
    let packets = segment::cut(
        template,
        payload,
        Cut {
            start,
            options: &options,
            mss,
        },
    );
    if packets.len() > terms.wire.max_segments() {
        return Vec::new();
    }
    packets
}

#[cfg(test)]
mod tests;
