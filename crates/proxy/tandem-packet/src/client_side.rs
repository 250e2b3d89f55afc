//! One flow at the client-side proxy: shows its presence, says what it holds, rebuilds what comes
//! as a delta, hands the client's answer to the writer.
//!
//! Is not: the recognition of flows (`proxy`), the rebuilding (`inbound`) nor the writing
//! (`writer`). Invariants: no option that was put on for us reaches the client; what is rebuilt was
//! checked; a flow whose far side did not answer is never touched after its SYN.

mod client_flight;
mod hello_ticket;

use tandem_delta::Reference;
use tandem_engine::intention::HeldBits;
use tandem_engine::{Hints, expected_chains, thesis};
use tandem_link::inband::frame::Sender;
use tandem_link::inband::option::{self, MAX_HINTS};
use tandem_link::inband::{FlowId, Key, Version};
use tandem_store::Store;
use tandem_wire::{Edit, Instant, Seq, TcpFlags, TcpPacket};

use crate::acks::AckFilter;
use crate::config::{ClientCertificates, Limits};
use crate::context::{Context, Keep, Share, Toward};
use crate::format::Format;
use crate::hello::HelloTimer;
use crate::inbound::Inbound;
use crate::output::{Direction, Event, GiveUp, Outbox, Owed, Verdict};
use crate::segment::{self, Offer};
use crate::watch::{Progress, Watch};
use crate::writer::Writer;
use hello_ticket::Referral;

/// How many copies of the hello carry the hint: the first, and one more in case that is lost. A
/// hello that has to be repeated again goes as the client sent it, in case the option is what
/// somebody in between does not like.
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
    watch: Watch,
    inbound: Inbound,
    hint: Hint,
    timer: HelloTimer,
    acks: AckFilter,
    writer: Writer,
    /// The server's maximum segment size.
    server_mss: usize,
    /// How far the server has acknowledged.
    acknowledged: Option<Seq>,
    /// Whether timestamps are taken off on the way: then nothing is harmless.
    is_stripped: bool,
    /// The certificates of the client's intention that the far side holds.
    confirmed: Vec<Reference>,
    /// Whether the far side has published what it holds in this connection.
    was_told: bool,
    referral: Referral,
}

/// What the far side is told beside the hello.
#[derive(Debug)]
enum Hint {
    /// The hello is not complete yet.
    Pending,
    /// On the segment whose payload ends here, so many times more.
    On {
        end: Seq,
        option: Vec<u8>,
        copies: u8,
    },
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
        let refusal = match cx.config.wire.shows_itself() {
            _ if offer.foreign => GiveUp::ForeignSyn,
            false => {
                owed.settle(Verdict::Accept, cx.out);
                return Some(asked);
            }
            true if !offer.timestamps => GiveUp::NoTimestamps,
            true => match announced(packet, cx) {
                Some(edited) => {
                    owed.settle(Verdict::Replace(edited), cx.out);
                    return Some(asked);
                }
                None => GiveUp::ForeignSyn,
            },
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
            // The same SYN again: without an option, in case the option is what somebody in between
            // does not like.
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
        let (version, verdict) = if cx.config.wire.shows_itself() {
            let Some((version, stripped)) = answered(packet, cx.key, id) else {
                return cx.give_up(owed, GiveUp::NoAnswer);
            };
            // What is said after this would not be understood.
            if !cx.spoken.includes(version) {
                return cx.give_up(owed, GiveUp::NoCommonVersion);
            }
            cx.out.event(Event::PeerSeen);
            (version, Verdict::Replace(stripped))
        } else {
            (cx.spoken.newest(), Verdict::Accept)
        };
        owed.settle(verdict, cx.out);
        let clock = packet.timestamps().map_or(0, |timestamps| timestamps.value);
        let agreed = Box::new(Agreed {
            id,
            version,
            timer,
            watch: Watch::new(id),
            inbound: Inbound::new((id, version), Toward::Client, offer.mss, clock),
            hint: Hint::Pending,
            acks: AckFilter::default(),
            writer: Writer::default(),
            server_mss: Offer::of(packet).mss,
            // What says this again says nothing.
            acknowledged: Some(packet.ack()),
            is_stripped: false,
            confirmed: Vec::new(),
            was_told: false,
            referral: Referral::None,
        });
        *self = Self::Agreed(agreed);
        Keep::Flow
    }

    /// When a held flight or ACK has to be let go.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        match self {
            Self::Asked { .. } => None,
            Self::Agreed(agreed) => {
                let waiting = [agreed.writer.deadline(limits), agreed.acks.deadline()];
                waiting.into_iter().flatten().min()
            }
        }
    }

    /// Lets go what has waited long enough.
    pub(crate) fn expire(&mut self, now: Instant, limits: &Limits, out: &mut Outbox) {
        match self {
            Self::Asked { .. } => {}
            Self::Agreed(agreed) => {
                agreed.acks.expire(now, out);
                agreed.writer.expire(now, limits, out);
            }
        }
    }

    /// Lets go what waits.
    pub(crate) fn release(&mut self, out: &mut Outbox) {
        match self {
            Self::Asked { .. } => {}
            Self::Agreed(agreed) => {
                agreed.acks.release(out);
                agreed.writer.release(out);
            }
        }
    }

    /// Lets go what waits, and sends the originals of what went out rewritten.
    pub(crate) fn fall_back(&mut self, mtu: usize, out: &mut Outbox) {
        match self {
            Self::Asked { .. } => {}
            Self::Agreed(agreed) => {
                agreed.acks.release(out);
                agreed.writer.send_originals(mtu, out);
            }
        }
    }

    /// What is kept for this flow.
    pub(crate) fn share(&self) -> Share {
        match self {
            Self::Asked { .. } => Share::default(),
            Self::Agreed(agreed) => {
                let (packets, bytes) = agreed.writer.held();
                Share {
                    memory: size_of::<Agreed>()
                        + agreed.watch.footprint()
                        + agreed.inbound.footprint()
                        + agreed.writer.footprint(),
                    held_packets: packets + agreed.acks.held(),
                    held_bytes: bytes,
                }
            }
        }
    }
}

/// The SYN with our presence, and what of the far side's holdings is known, if there is room for
/// that.
fn announced<S>(packet: &TcpPacket<'_>, cx: &Context<'_, S>) -> Option<Vec<u8>> {
    let (client, newest) = (packet.seq(), cx.spoken.newest());
    let knowing = match cx.config.client_certificates {
        ClientCertificates::Filter { .. } => {
            let known = cx.far.holdings().0;
            Some(option::presence_knowing(cx.key, client, newest, known))
        }
        ClientCertificates::None
        | ClientCertificates::Persistent
        | ClientCertificates::Cii { .. } => None,
    };
    let plain = option::presence(cx.key, client, newest);
    let options = knowing.into_iter().chain([plain]);
    let mut edited =
        options.map(|option| segment::with_proxy_option(packet, &option, cx.config.limits.mtu));
    edited.find_map(|edited| edited)
}

/// The version in the far side's answer, and the SYN/ACK without it; `None` if there is no valid
/// one, or no timestamps were agreed.
fn answered(packet: &TcpPacket<'_>, key: &Key, id: FlowId) -> Option<(Version, Vec<u8>)> {
    let (option, rest) = segment::proxy_option(packet)?;
    let version = option.verify_answer(key, id)?;
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
        self.inbound.near_sent(packet);
        // Before anything else, for what is absorbed says nothing again.
        let may_absorb = cx.config.wire.is_harmless();
        if may_absorb && self.timer.absorbs(packet, cx.now, cx.link) {
            cx.out.event(Event::RepeatAbsorbed);
            owed.settle(Verdict::Drop, cx.out);
            return Keep::Flow;
        }
        if self.writer.has_sent() {
            // What comes now may be absorbed, and would not say again what waits.
            self.acks.release(cx.out);
        } else {
            self.acks.next(packet, cx.out);
        }
        self.expect_flight(packet, cx);
        let seen = self.watch.packet(Toward::Server, packet);
        self.form_belief(cx);
        self.consider_ticket(packet, cx);
        let verdict = match seen {
            Progress::Going => self.with_hint(packet, cx),
            Progress::Finished | Progress::GiveUp(_) => Verdict::Accept,
        };
        if !cx.may_rewrite {
            self.writer.stand_down(cx.out);
        }
        let says = !packet.payload().is_empty() || packet.flags().contains(TcpFlags::FIN);
        if says && self.writer.is_engaged() {
            // What crosses in place of a hello carries the hello's hint.
            let hinted =
                if let (Verdict::Replace(hinted), Referral::Open) = (&verdict, self.referral) {
                    TcpPacket::parse(hinted).ok()
                } else {
                    None
                };
            if hinted.is_some() || verdict == Verdict::Accept {
                let completes = !self.writer.has_sent();
                self.write(owed, hinted.as_ref().unwrap_or(packet), seen, cx);
                if completes && self.watch.hello_is_complete() {
                    self.note_referral(packet, cx);
                }
                self.judge_referral(cx);
                return Keep::Flow;
            }
        }
        if verdict == Verdict::Accept && matches!(seen, Progress::Going) {
            self.writer.saw(packet);
            self.acks.pass(owed, packet, cx.ack_time(), cx.out);
            return Keep::Flow;
        }
        self.settle(owed, verdict, seen, cx)
    }

    /// What the segment has to carry for the far side: the hint or a miss.
    fn with_hint<S: Store>(&mut self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Verdict {
        if matches!(self.hint, Hint::Pending) && self.watch.hello_is_complete() {
            self.hint = self.choose_hint(packet, cx);
            self.timer.hello(packet, cx.now);
        }
        let end = packet.end();
        match &mut self.hint {
            Hint::On {
                end: hinted,
                option,
                copies: copies @ 1..,
            } if end == *hinted && !packet.payload().is_empty() => {
                *copies -= 1;
                carrying(packet, option, cx)
            }
            Hint::Replaced { start } if packet.seq() == *start && !packet.payload().is_empty() => {
                match cx.replaced.take() {
                    Some(replaced) => Verdict::Replace(replaced),
                    None => Verdict::Accept,
                }
            }
            Hint::Pending | Hint::On { .. } | Hint::Replaced { .. } | Hint::Nothing => {
                match self.inbound.request(cx) {
                    Some(request) => carrying(packet, &request, cx),
                    None => Verdict::Accept,
                }
            }
        }
    }

    /// What to tell the far side, now that the hello is complete with `packet`.
    fn choose_hint<S: Store>(&self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Hint {
        let hint = match cx.config.wire.codes() {
            None => self.name_held(packet, cx),
            Some(codes) => self.announce(packet, codes, cx),
        };
        match &hint {
            Hint::On { .. } | Hint::Replaced { .. } => cx.out.event(Event::HintSent),
            Hint::Pending | Hint::Nothing => {}
        }
        hint
    }

    fn name_held<S: Store>(&self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Hint {
        let hints = Hints::to(cx.store, &self.watch.site(cx.server), cx.wall, MAX_HINTS);
        match &hints {
            Hints::OfSite(_) => {}
            Hints::Issuers(_) => cx.out.event(Event::NothingHeld),
        }
        // Nothing held: that somebody is there to rebuild is worth saying where flights can be
        // compressed.
        if hints.ids().is_empty() && !self.version.can_hint_nothing() {
            return Hint::Nothing;
        }
        if !cx.may_rewrite {
            cx.out.event(Event::RewriteWithheld);
            return Hint::Nothing;
        }
        let held: Vec<_> = hints.ids().iter().map(|id| id.prefix4()).collect();
        Hint::On {
            end: packet.end(),
            option: option::hint(cx.key, self.id, self.version, &held),
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
        let chains = expected_chains(
            cx.store,
            &self.watch.site(cx.server),
            cx.wall,
            ANNOUNCED_CHAINS,
        );
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
        self.is_stripped |= packet.timestamps().is_none();
        let news = packet.flags().contains(TcpFlags::ACK)
            && self
                .acknowledged
                .is_none_or(|known| packet.ack().is_after(known));
        if news {
            self.acknowledged = Some(packet.ack());
        }
        if packet.flags().contains(TcpFlags::ACK) {
            self.writer.acknowledged(packet, cx.out);
            self.judge_referral(cx);
        }
        let mut verdict = Verdict::Accept;
        if let Some((option, rest)) = segment::proxy_option(packet) {
            if option.verify_miss(cx.key, self.id, self.version, Sender::Client) {
                cx.out.event(Event::MissReceived);
                self.disbelieve(cx);
            } else if let Some(held) = option.verify_held(cx.key, self.id, self.version) {
                self.confirm(HeldBits(held), cx);
            } else {
                cx.out.event(Event::OptionRefused);
                return cx.give_up_with(owed, GiveUp::NoAnswer, |out| {
                    self.writer.send_originals(cx.config.limits.mtu, out)
                });
            }
            // What the server-side proxy added says nothing new, and ends here; from anything else
            // only the option is taken.
            let added = packet.payload().is_empty() && packet.flags() == TcpFlags::ACK && !news;
            verdict = match segment::with_options(packet, rest) {
                Some(_) if added => Verdict::Drop,
                Some(stripped) => Verdict::Replace(stripped),
                None => Verdict::Accept,
            };
        } else {
            let pace = self.timer.pace(cx.link);
            if self.writer.is_refused_by(packet, &pace, cx.now) {
                cx.out.event(Event::FlightRefused);
                self.disbelieve(cx);
            }
            if self.takes_publication(packet, cx) {
                owed.settle(Verdict::Drop, cx.out);
                return Keep::Flow;
            }
            if let Some(rewritten) = self.inbound.recognise(packet, &self.watch, cx) {
                self.inbound
                    .deliver(owed, packet, rewritten, &mut self.watch, cx);
                let answer = self.inbound.answer().to_vec();
                self.confirm_all(answer, cx);
                return Keep::Flow;
            }
        }
        self.inbound.passes(packet);
        let seen = self.watch.packet(Toward::Client, packet);
        self.settle(owed, verdict, seen, cx)
    }

    fn settle<S: Store>(
        &mut self,
        owed: Owed,
        verdict: Verdict,
        seen: Progress,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match seen {
            Progress::Finished if verdict == Verdict::Accept && self.writer.is_at_rest() => {
                self.finished(owed, cx)
            }
            Progress::GiveUp(why) if verdict == Verdict::Accept => {
                self.watch.learn_tickets(cx);
                let mtu = cx.config.limits.mtu;
                cx.give_up_with(owed, why, |out| self.writer.send_originals(mtu, out))
            }
            // One with an option to lose, or with a flight behind it that is not acknowledged: a
            // later one of the flow takes its leave.
            Progress::Going | Progress::Finished | Progress::GiveUp(_) => {
                owed.settle(verdict, cx.out);
                Keep::Flow
            }
        }
    }

    /// Both Finished have passed: what each sent is what the other accepted, so their chains may be
    /// remembered.
    fn finished<S: Store>(&mut self, owed: Owed, cx: &mut Context<'_, S>) -> Keep {
        self.watch.learn_tickets(cx);
        let site = self.watch.site(cx.server);
        if self.watch.learn(cx.store, &site, cx.wall) {
            cx.out.event(Event::ChainLearned);
        }
        self.learn_client(cx);
        cx.out.event(Event::HandshakeFinished);
        owed.settle(Verdict::Leave, cx.out);
        Keep::Forget
    }
}

/// The segment with an option. Where it is full, a pure ACK before it carries the option, and ends
/// at the far side.
fn carrying<S>(packet: &TcpPacket<'_>, option: &[u8], cx: &mut Context<'_, S>) -> Verdict {
    if let Some(edited) = segment::with_proxy_option(packet, option, cx.config.limits.mtu) {
        return Verdict::Replace(edited);
    }
    if let Some(alone) = segment::lone_option(packet, packet.seq(), option) {
        cx.out.inject(Direction::ToLink, alone);
    }
    Verdict::Accept
}
