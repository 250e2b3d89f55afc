//! One flow at the client-side proxy: shows its presence, says what it holds, rebuilds what comes as a delta.
//!
//! Is not: the recognition of flows (`proxy`). Invariants: no mark that was put on for us reaches the client; what
//! is rebuilt was checked; a flow whose far side did not answer is never touched after its SYN.

mod rebuild;

use tandem_engine::{Hints, StoreSource, expected_chains, thesis};
use tandem_link::mark::{self, MAX_HINTS};
use tandem_link::{FlowId, Key, Version};
use tandem_store::{Site, Store};
use tandem_wire::{Edit, Instant, Seq, TcpFlags, TcpPacket};

use crate::acks::AckFilter;
use crate::config::WireFormat;
use crate::flow::Share;
use crate::hello::HelloTimer;
use crate::output::{Direction, Event, GiveUp, Outbox, Owed, Verdict};
use crate::paws::ServerClock;
use crate::proxy::{Context, Keep, Toward};
use crate::reader::{Origin, Reader, Rebuilt};
use crate::segment::{self, Offer};
use crate::watch::{Progress, Watch};

/// How many copies of the hello carry the hint: the first, and one more in case that is lost. A hello that has to be repeated
/// again goes as the client sent it, in case the mark is what somebody in between does not like.
const HINTED_COPIES: u8 = 2;

/// Most chains whose certificates a CPI names. Each certificate makes the hello 16 bytes longer.
const ANNOUNCED_CHAINS: usize = 2;

/// A flow at the client-side proxy.
#[derive(Debug)]
pub(crate) enum ClientSide {
    /// The SYN went out; nobody has answered yet.
    Asked {
        /// The client's initial sequence number.
        client: Seq,
        /// What the SYN said.
        offer: Offer,
        /// When it crossed.
        timer: HelloTimer,
    },
    /// The far side is there.
    Agreed(Box<Agreed>),
}

/// A flow in which both proxies know of each other.
#[derive(Debug)]
pub(crate) struct Agreed {
    id: FlowId,
    /// The version of all that is said after the answer.
    version: Version,
    mss: usize,
    watch: Watch,
    reader: Reader,
    hint: Hint,
    timer: HelloTimer,
    clock: ServerClock,
    /// The thesis's: where the segment began that held references.
    expanded: Option<Seq>,
    /// The headers of the client's last segment: a segment of our own looks like it.
    template: Vec<u8>,
    /// Whether the far side still has to be told of a miss.
    missed: bool,
    acks: AckFilter,
    /// How far the client has acknowledged.
    acknowledged: Option<Seq>,
}

/// What the far side is told beside the hello.
#[derive(Debug)]
enum Hint {
    /// The hello is not complete yet.
    Pending,
    /// On the segment whose payload ends here, so many times more.
    On { end: Seq, mark: Vec<u8>, copies: u8 },
    /// The thesis's: the hello whose first byte stands here was replaced once.
    Replaced { start: Seq },
    /// There was nothing to say.
    Nothing,
}

impl ClientSide {
    /// A SYN from the client. `None`: nothing to do in this flow.
    pub(crate) fn open<S: Store>(
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Option<Self> {
        let offer = Offer::of(packet);
        let mut timer = HelloTimer::default();
        timer.syn(packet, cx.now);
        let asked = Self::Asked {
            client: packet.seq(),
            offer,
            timer,
        };
        let refusal = match cx.config.wire {
            _ if offer.foreign => GiveUp::ForeignSyn,
            WireFormat::Mcveety(_) => {
                owed.settle(Verdict::Accept, cx.out);
                return Some(asked);
            }
            WireFormat::Safe if !offer.timestamps => GiveUp::NoTimestamps,
            WireFormat::Safe => {
                let mark = mark::presence(cx.key, packet.seq(), cx.spoken.newest());
                match segment::with_mark(packet, &mark, cx.config.limits.mtu) {
                    Some(marked) => {
                        owed.settle(Verdict::Replace(marked), cx.out);
                        return Some(asked);
                    }
                    None => GiveUp::ForeignSyn,
                }
            }
        };
        cx.out.event(Event::GivenUp(refusal));
        owed.settle(Verdict::Leave, cx.out);
        None
    }

    /// The client's initial sequence number.
    pub(crate) fn client_isn(&self) -> Seq {
        match self {
            Self::Asked { client, .. } => *client,
            Self::Agreed(agreed) => agreed.id.client,
        }
    }

    /// The client's initial sequence number, if nobody has answered yet.
    pub(crate) fn unanswered(&self) -> Option<Seq> {
        match self {
            Self::Asked { client, .. } => Some(*client),
            Self::Agreed(_) => None,
        }
    }

    /// Any later packet of the flow.
    pub(crate) fn packet<S: Store>(
        &mut self,
        owed: Owed,
        toward: Toward,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match (self, toward) {
            // The same SYN again: without a mark, in case the mark is what somebody in between does not like.
            (Self::Asked { client, timer, .. }, Toward::Server)
                if packet.flags().contains(TcpFlags::SYN) && packet.seq() == *client =>
            {
                timer.syn(packet, cx.now);
                owed.settle(Verdict::Accept, cx.out);
                Keep::Flow
            }
            (Self::Asked { .. }, Toward::Server) => cx.give_up(owed, GiveUp::NoAnswer),
            (this @ Self::Asked { .. }, Toward::Client) => this.syn_ack(owed, packet, cx),
            (Self::Agreed(agreed), Toward::Server) => agreed.client_segment(owed, packet, cx),
            (Self::Agreed(agreed), Toward::Client) => agreed.server_segment(owed, packet, cx),
        }
    }

    fn syn_ack<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        let Self::Asked {
            client,
            offer,
            mut timer,
        } = *self
        else {
            return cx.give_up(owed, GiveUp::NotFromStart);
        };
        let wanted = TcpFlags::SYN.with(TcpFlags::ACK);
        if !packet.flags().contains(wanted) || packet.ack() != client.wrapping_add(1) {
            return cx.give_up(owed, GiveUp::Closed);
        }
        let id = FlowId {
            client,
            server: packet.seq(),
        };
        timer.syn_ack(packet, cx.now);
        let mut agreed = Box::new(Agreed {
            id,
            version: cx.spoken.newest(),
            timer,
            mss: offer.mss,
            watch: Watch::new(id),
            reader: Reader::default(),
            hint: Hint::Pending,
            expanded: None,
            clock: ServerClock::new(packet.timestamps().map_or(0, |timestamps| timestamps.value)),
            template: Vec::new(),
            missed: false,
            acks: AckFilter::default(),
            acknowledged: None,
        });
        match cx.config.wire {
            WireFormat::Mcveety(_) => owed.settle(Verdict::Accept, cx.out),
            WireFormat::Safe => {
                let Some((version, stripped)) = answered(packet, cx.key, id) else {
                    return cx.give_up(owed, GiveUp::NoAnswer);
                };
                // What is said after this would not be understood.
                if !cx.spoken.includes(version) {
                    return cx.give_up(owed, GiveUp::NoCommonVersion);
                }
                agreed.version = version;
                cx.out.event(Event::PeerSeen);
                owed.settle(Verdict::Replace(stripped), cx.out);
            }
        }
        *self = Self::Agreed(agreed);
        Keep::Flow
    }

    /// When an ACK that waits has to go.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Asked { .. } => None,
            Self::Agreed(agreed) => agreed.acks.deadline(),
        }
    }

    /// Lets go what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut Outbox) {
        match self {
            Self::Asked { .. } => {}
            Self::Agreed(agreed) => agreed.acks.expire(now, out),
        }
    }

    /// Lets go what waits.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        match self {
            Self::Asked { .. } => {}
            Self::Agreed(agreed) => agreed.acks.release(out),
        }
    }

    /// What is kept for this flow.
    pub(crate) fn share(&self) -> Share {
        match self {
            Self::Asked { .. } => Share::default(),
            Self::Agreed(agreed) => Share {
                memory: size_of::<Agreed>()
                    + agreed.watch.footprint()
                    + agreed.reader.footprint()
                    + agreed.template.len(),
                held_packets: agreed.acks.held(),
                held_bytes: 0,
            },
        }
    }
}

/// The version in the far side's answer, and the SYN/ACK without it; `None` if there is no valid one, or no timestamps were
/// agreed.
fn answered(packet: &TcpPacket<'_>, key: &Key, id: FlowId) -> Option<(Version, Vec<u8>)> {
    let (mark, rest) = segment::mark(packet)?;
    let version = mark.verify_answer(key, id)?;
    packet.timestamps()?;
    Some((version, segment::with_options(packet, rest)?))
}

impl Agreed {
    fn client_segment<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        if packet.flags().contains(TcpFlags::SYN) {
            // A copy that comes late.
            owed.settle(Verdict::Accept, cx.out);
            return Keep::Flow;
        }
        let ack = packet.ack();
        if packet.flags().contains(TcpFlags::ACK)
            && self.acknowledged.is_none_or(|known| ack.is_after(known))
        {
            self.acknowledged = Some(ack);
        }
        // Before anything else, for what is absorbed says nothing again.
        let safe = cx.config.wire == WireFormat::Safe;
        if safe && self.timer.absorbs(packet, cx.now, cx.link) {
            cx.out.event(Event::RepeatAbsorbed);
            owed.settle(Verdict::Drop, cx.out);
            return Keep::Flow;
        }
        self.acks.next(packet, cx.out);
        self.template.clear();
        self.template
            .extend_from_slice(&packet.bytes()[..packet.header_len()]);
        match self.watch.packet(Toward::Server, packet) {
            Progress::GiveUp(why) => return cx.give_up(owed, why),
            Progress::Finished => return self.finished(owed, cx),
            Progress::Going => {}
        }
        if matches!(self.hint, Hint::Pending) && self.watch.hello_is_complete() {
            self.hint = self.choose_hint(packet, cx);
            self.timer.hello(packet, cx.now);
        }
        let end = packet.seq().wrapping_add(packet.payload().len() as u32);
        let verdict = match &mut self.hint {
            Hint::On {
                end: hinted,
                mark,
                copies: copies @ 1..,
            } if end == *hinted && !packet.payload().is_empty() => {
                *copies -= 1;
                marked(packet, mark, cx)
            }
            Hint::Replaced { start } if packet.seq() == *start && !packet.payload().is_empty() => {
                match cx.replaced.take() {
                    Some(replaced) => Verdict::Replace(replaced),
                    None => Verdict::Accept,
                }
            }
            Hint::Pending | Hint::On { .. } | Hint::Replaced { .. } | Hint::Nothing
                if self.missed =>
            {
                marked(packet, &mark::miss(cx.key, self.id, self.version), cx)
            }
            Hint::Pending | Hint::On { .. } | Hint::Replaced { .. } | Hint::Nothing => {
                Verdict::Accept
            }
        };
        match verdict {
            Verdict::Accept => self.acks.pass(owed, packet, cx.ack_time(), cx.out),
            Verdict::Replace(_) | Verdict::Drop | Verdict::Leave => owed.settle(verdict, cx.out),
        }
        Keep::Flow
    }

    /// What to tell the far side, now that the hello is complete with `packet`.
    fn choose_hint<S: Store>(&self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Hint {
        let hint = match cx.config.wire {
            WireFormat::Safe => self.name_held(packet, cx),
            WireFormat::Mcveety(codes) => self.announce(packet, codes, cx),
        };
        match &hint {
            Hint::On { .. } | Hint::Replaced { .. } => cx.out.event(Event::HintSent),
            Hint::Pending | Hint::Nothing => {}
        }
        hint
    }

    fn name_held<S: Store>(&self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Hint {
        let hints = Hints::to(cx.store, &self.site(cx), cx.wall, MAX_HINTS);
        match &hints {
            Hints::OfSite(_) => {}
            Hints::Issuers(_) => cx.out.event(Event::NothingHeld),
        }
        if hints.ids().is_empty() {
            return Hint::Nothing;
        }
        let held: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
        Hint::On {
            end: packet.seq().wrapping_add(packet.payload().len() as u32),
            mark: mark::hint(cx.key, self.id, self.version, &held),
            copies: HINTED_COPIES,
        }
    }

    /// The thesis's: references to all certificates that are expected, in the hello itself.
    fn announce<S: Store>(
        &self,
        packet: &TcpPacket<'_>,
        codes: thesis::Codes,
        cx: &mut Context<'_, S>,
    ) -> Hint {
        let chains = expected_chains(cx.store, &self.site(cx), cx.wall, ANNOUNCED_CHAINS);
        if chains.is_empty() {
            cx.out.event(Event::NothingHeld);
            return Hint::Nothing;
        }
        let whole = packet.seq() == self.id.client.wrapping_add(1);
        let announced =
            thesis::announce(packet.payload(), &chains, cx.store, codes).filter(|_| whole);
        let replaced = announced
            .filter(|hello| packet.header_len() + hello.len() <= cx.config.limits.mtu)
            .and_then(|hello| {
                packet
                    .rebuilt(&Edit {
                        payload: Some(&hello),
                        ..Edit::default()
                    })
                    .ok()
            });
        let Some(replaced) = replaced else {
            return Hint::Nothing;
        };
        cx.replaced = Some(replaced);
        Hint::Replaced {
            start: packet.seq(),
        }
    }

    fn server_segment<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        if packet.flags().contains(TcpFlags::SYN) {
            let verdict = answered(packet, cx.key, self.id)
                .map_or(Verdict::Accept, |(_, stripped)| Verdict::Replace(stripped));
            owed.settle(verdict, cx.out);
            return Keep::Flow;
        }
        self.timer.answered(packet, cx.now, cx.link);
        match cx.config.wire {
            WireFormat::Safe => {
                if let Some(timestamps) = packet.timestamps() {
                    if let Some(own) = self.clock.restored(timestamps) {
                        let options = segment::options_with(packet, own);
                        let rebuilt = self.reader.segment(
                            packet,
                            self.origin(cx.key),
                            &mut StoreSource::new(cx.store),
                        );
                        return self.rebuilt(owed, packet, (rebuilt, &options), cx);
                    }
                    self.clock.saw(timestamps.value);
                } else if let Some(rebuilt) =
                    Reader::unmarked(packet, self.origin(cx.key), &mut StoreSource::new(cx.store))
                {
                    // Somebody takes timestamps off, and the client would take the frame for data.
                    return self.rebuilt(owed, packet, (rebuilt, packet.options_bytes()), cx);
                }
            }
            WireFormat::Mcveety(codes) => {
                // Anchored at its end, it begins after what is still missing; a copy of it begins where the first one did.
                let ahead = packet.seq().is_after(self.watch.server_next());
                let again = self.expanded == Some(packet.seq());
                if (ahead || again) && !packet.payload().is_empty() {
                    let rebuilt = match thesis::expand(packet.payload(), cx.store, codes) {
                        thesis::Expanded::Whole(bytes) => {
                            let end = packet.seq().wrapping_add(packet.payload().len() as u32);
                            Some(Rebuilt::Flight(end.wrapping_sub(bytes.len() as u32), bytes))
                        }
                        thesis::Expanded::Miss => Some(Rebuilt::Miss),
                        thesis::Expanded::Ordinary => None,
                    };
                    if let Some(rebuilt) = rebuilt {
                        self.expanded = Some(packet.seq());
                        return self.rebuilt(owed, packet, (rebuilt, packet.options_bytes()), cx);
                    }
                }
            }
        }
        if !packet.payload().is_empty() {
            self.missed = false;
        }
        match self.watch.packet(Toward::Client, packet) {
            Progress::GiveUp(why) => cx.give_up(owed, why),
            Progress::Finished => self.finished(owed, cx),
            Progress::Going => {
                owed.settle(Verdict::Accept, cx.out);
                Keep::Flow
            }
        }
    }

    /// Both Finished have passed: what the server sent is what the client accepted, so its chain may be remembered.
    fn finished<S: Store>(&mut self, owed: Owed, cx: &mut Context<'_, S>) -> Keep {
        let site = self.site(cx);
        if self.watch.learn(cx.store, &site, cx.wall) {
            cx.out.event(Event::ChainLearned);
        }
        cx.out.event(Event::HandshakeFinished);
        owed.settle(Verdict::Leave, cx.out);
        Keep::Forget
    }

    fn site<S>(&self, cx: &Context<'_, S>) -> Site {
        self.watch
            .server_name()
            .map_or(Site::Address(cx.server), |name| Site::Name(name.clone()))
    }

    fn origin<'k>(&self, key: &'k Key) -> Origin<'k> {
        Origin {
            key,
            flow: self.id,
            version: self.version,
        }
    }
}

/// The segment with a mark. Where it is full, a pure ACK before it carries the mark, and ends at the far side.
fn marked<S>(packet: &TcpPacket<'_>, mark: &[u8], cx: &mut Context<'_, S>) -> Verdict {
    if let Some(marked) = segment::with_mark(packet, mark, cx.config.limits.mtu) {
        return Verdict::Replace(marked);
    }
    if let Some(alone) = segment::lone_mark(packet, packet.seq(), mark) {
        cx.out.inject(Direction::ToLink, alone);
    }
    Verdict::Accept
}
