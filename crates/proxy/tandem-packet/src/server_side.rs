//! One flow at the server-side proxy: answers the other's presence, takes its hints, hands the
//! server's flight to the writer, rebuilds the client's.
//!
//! Is not: the writing (`writer`) nor the rebuilding (`inbound`) itself. Invariants: no option that
//! was put on for us reaches the server; nothing is rewritten in a flow whose client-side proxy did
//! not show itself in it.

mod intention;
mod publication;

use tandem_engine::filter::Holdings;
use tandem_engine::{Asked, Possession};
use tandem_link::inband::frame::Sender;
use tandem_link::inband::{FlowId, Version, option};
use tandem_store::Store;
use tandem_wire::{Edit, Instant, Seq, TcpFlags, TcpPacket};

use crate::acks::AckFilter;
use crate::config::Limits;
use crate::context::{Context, Keep, Share, Toward};
use crate::format::{Format, Ground};
use crate::inbound::{Inbound, Rewritten};
use crate::output::{Direction, Event, GiveUp, Outbox, Owed, Verdict};
use crate::pace::Pace;
use crate::segment::{self, Offer};
use crate::watch::{Progress, Watch};
use crate::writer::{Aim, Terms, Writer};
use intention::Answer;

/// A flow at the server-side proxy.
#[derive(Debug)]
pub(crate) enum ServerSide {
    /// A SYN with a valid presence (or, in the thesis's format, any SYN) has passed.
    Asked {
        /// The client's initial sequence number.
        client: Seq,
        /// What the SYN said.
        offer: Offer,
        /// The version that both proxies speak.
        version: Version,
        /// The client's clock in it.
        clock: u32,
        /// Which of our holdings the other proxy goes by, where it goes by what is published.
        asked: Option<Asked>,
    },
    /// The SYN/ACK has passed, with our answer on it.
    Agreed(Box<Agreed>),
}

/// A flow in which both proxies know of each other.
#[derive(Debug)]
pub(crate) struct Agreed {
    id: FlowId,
    /// The version of all that is said from our answer on.
    version: Version,
    /// The client's maximum segment size.
    mss: usize,
    pace: Pace,
    watch: Watch,
    writer: Writer,
    inbound: Inbound,
    acks: AckFilter,
    /// How far the client has acknowledged.
    acknowledged: Option<Seq>,
    /// Whether the SYN came again after our answer, which may not get through, and nothing has
    /// shown yet that it did.
    unheard: bool,
    /// The sequence number after the server's Finished.
    finished: Option<Seq>,
    answer: Answer,
    /// Which of our holdings the other proxy goes by, where it goes by what is published.
    asked: Option<Asked>,
    /// Whether it was considered to publish them in this connection.
    was_considered: bool,
    /// Whether timestamps are taken off on the way: then nothing is harmless.
    is_stripped: bool,
}

impl ServerSide {
    /// A SYN that arrived over the link. `None`: nothing to do in this flow.
    pub(crate) fn open<S: Store>(
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Option<Self> {
        let offer = Offer::of(packet);
        let asked = |version, known: Option<Holdings>| Self::Asked {
            client: packet.seq(),
            offer,
            version,
            clock: packet.timestamps().map_or(0, |timestamps| timestamps.value),
            asked: known.map(|known| Asked { known, at: cx.now }),
        };
        let refusal = match segment::proxy_option(packet) {
            _ if offer.foreign => GiveUp::ForeignSyn,
            _ if !cx.config.wire.shows_itself() => {
                owed.settle(Verdict::Accept, cx.out);
                return Some(asked(cx.spoken.newest(), None));
            }
            None => GiveUp::NoAnswer,
            Some((option, rest)) => {
                let offered = option.verify_presence(cx.key, packet.seq());
                let agreed = offered.map(|offered| cx.spoken.agree(offered));
                match (agreed, segment::with_options(packet, rest)) {
                    (Some(Some(version)), Some(stripped)) => {
                        owed.settle(Verdict::Replace(stripped), cx.out);
                        return Some(asked(version, option.known_holdings().map(Holdings)));
                    }
                    // No answer says so; the option goes on, to be ignored by the server.
                    (Some(None), _) => GiveUp::NoCommonVersion,
                    (None, _) | (Some(Some(_)), None) => {
                        cx.out.event(Event::OptionRefused);
                        GiveUp::NoAnswer
                    }
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

    /// Any later packet of the flow.
    pub(crate) fn packet<S: Store>(
        &mut self,
        owed: Owed,
        toward: Toward,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match (self, toward) {
            (this, Toward::Server) if packet.flags().contains(TcpFlags::SYN) => {
                this.syn_again(owed, packet, cx)
            }
            (Self::Asked { .. }, Toward::Server) => cx.give_up(owed, GiveUp::NotFromStart),
            (this @ Self::Asked { .. }, Toward::Client) => this.syn_ack(owed, packet, cx),
            (Self::Agreed(agreed), Toward::Server) => agreed.client_segment(owed, packet, cx),
            (Self::Agreed(agreed), Toward::Client) => agreed.server_segment(owed, packet, cx),
        }
    }

    /// A repeated SYN may carry the option (it was held up) or not (the client-side proxy left it
    /// off, having seen no answer: then our option may be what somebody in between does not like,
    /// and it is left off too).
    fn syn_again<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        let stripped = segment::proxy_option(packet)
            .filter(|(option, _)| option.verify_presence(cx.key, self.client_isn()).is_some())
            .and_then(|(_, rest)| segment::with_options(packet, rest));
        match self {
            Self::Asked { .. } => {}
            Self::Agreed(agreed) => agreed.unheard |= stripped.is_none(),
        }
        owed.settle(stripped.map_or(Verdict::Accept, Verdict::Replace), cx.out);
        Keep::Flow
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
            version,
            clock,
            asked,
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
        let mut agreed = Box::new(Agreed {
            id,
            version,
            mss: offer.mss,
            pace: Pace::default(),
            watch: Watch::new(id),
            writer: Writer::default(),
            inbound: Inbound::new((id, version), Toward::Server, Offer::of(packet).mss, clock),
            acks: AckFilter::default(),
            acknowledged: None,
            unheard: false,
            finished: None,
            answer: Answer::default(),
            asked,
            was_considered: false,
            is_stripped: false,
        });
        if !cx.config.wire.shows_itself() {
            agreed.pace.opening_sent(packet, cx.now);
            owed.settle(Verdict::Accept, cx.out);
        } else if packet.timestamps().is_none() {
            return cx.give_up(owed, GiveUp::NoTimestamps);
        } else {
            if agreed.answer(owed, packet, cx) == Keep::Forget {
                return Keep::Forget;
            }
            cx.out.event(Event::PeerSeen);
        }
        agreed.inbound.near_opened(packet);
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

impl Agreed {
    /// Puts our answer on a SYN/ACK; where there is no room for it, the flow goes on without us.
    fn answer<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        self.pace.opening_sent(packet, cx.now);
        let option = option::answer(cx.key, self.id, self.version);
        match segment::with_proxy_option(packet, &option, cx.config.limits.mtu) {
            Some(edited) => {
                owed.settle(Verdict::Replace(edited), cx.out);
                Keep::Flow
            }
            None => cx.give_up(owed, GiveUp::ForeignSyn),
        }
    }

    fn client_segment<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        self.pace.arrived(packet, cx.now);
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
        }
        let mtu = cx.config.limits.mtu;
        let mut verdict = Verdict::Accept;
        if let Some((option, rest)) = segment::proxy_option(packet) {
            if let Some(hints) = option.verify_hint(cx.key, self.id, self.version) {
                // Who hints has our answer: the SYN came again because the link is slower than the
                // client's timer.
                self.unheard = false;
                // What has begun to pass as it is goes on as it is; and where timestamps were
                // agreed and are taken off on the way, nothing is harmless.
                if !self.watch.server_has_spoken() && packet.timestamps().is_some() {
                    if cx.may_rewrite {
                        self.arm(Possession::from_hints(hints));
                    } else {
                        cx.out.event(Event::RewriteWithheld);
                    }
                }
            } else if option.verify_miss(cx.key, self.id, self.version, Sender::Server) {
                cx.out.event(Event::MissReceived);
                self.writer.send_originals(mtu, cx.out);
            } else {
                cx.out.event(Event::OptionRefused);
                return cx.give_up_with(owed, GiveUp::NoAnswer, |out| {
                    self.writer.send_originals(mtu, out)
                });
            }
            // An acknowledgement that the client-side proxy added says nothing new, and ends here;
            // from anything else only the option is taken.
            let added = packet.payload().is_empty() && packet.flags() == TcpFlags::ACK && !news;
            let stripped = segment::with_options(packet, rest);
            // A hint may come with a hello that has a reference in place of its ticket.
            let inner = stripped
                .as_deref()
                .filter(|_| cx.config.wire.is_harmless() && !packet.payload().is_empty())
                .and_then(|stripped| TcpPacket::parse(stripped).ok());
            if let Some(inner) = inner
                && let Some(rewritten) = self.inbound.recognise(&inner, &self.watch, cx)
            {
                return self.rebuild(owed, &inner, rewritten, cx);
            }
            verdict = match stripped {
                Some(_) if added => Verdict::Drop,
                Some(stripped) => Verdict::Replace(stripped),
                None => Verdict::Accept,
            };
        } else {
            if self.writer.is_refused_by(packet, &self.pace, cx.now) {
                cx.out.event(Event::FlightRefused);
                self.writer.send_originals(mtu, cx.out);
            }
            if let Some(rewritten) = self.inbound.recognise(packet, &self.watch, cx) {
                return self.rebuild(owed, packet, rewritten, cx);
            }
        }
        self.inbound.passes(packet);
        let is_first = packet.seq() == self.id.client.wrapping_add(1);
        let announced = is_first
            .then(|| cx.config.wire.announced(packet.payload()))
            .flatten();
        let seen = match &announced {
            Some(announced) => {
                if !self.watch.server_has_spoken() {
                    self.arm(Possession::from_references(&announced.references));
                }
                let edit = Edit {
                    payload: Some(&announced.hello),
                    ..Edit::default()
                };
                verdict = packet
                    .rebuilt(&edit)
                    .map_or(Verdict::Accept, Verdict::Replace);
                self.watch
                    .bytes(Toward::Server, packet.seq(), &announced.hello)
            }
            None => self.watch.packet(Toward::Server, packet),
        };
        self.consider_intention(cx);
        self.settle(owed, verdict, seen, cx)
    }

    /// What the client sent has crossed in another form.
    fn rebuild<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        rewritten: Rewritten,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        // What was published says nothing of tickets.
        let is_answer = self.watch.hello_is_complete();
        self.inbound
            .deliver(owed, packet, rewritten, &mut self.watch, cx);
        if is_answer && self.inbound.has_missed() {
            cx.publisher.doubt(cx.now);
        }
        self.consider_intention(cx);
        Keep::Flow
    }

    /// The client-side proxy holds this of what the server is about to send.
    fn arm(&mut self, possession: Possession) {
        self.writer.arm(Aim {
            from: self.watch.start(Toward::Client),
            ground: Ground::Hinted(possession),
        });
    }

    fn server_segment<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        if packet.flags().contains(TcpFlags::SYN) {
            if !cx.config.wire.shows_itself() {
                self.pace.opening_sent(packet, cx.now);
            } else if !self.unheard {
                return self.answer(owed, packet, cx);
            }
            owed.settle(Verdict::Accept, cx.out);
            return Keep::Flow;
        }
        self.inbound.near_sent(packet);
        if self.writer.has_sent() {
            // What comes now may be absorbed, and would not say again what waits.
            self.acks.release(cx.out);
        } else {
            self.acks.next(packet, cx.out);
        }
        let seen = self.watch.packet(Toward::Client, packet);
        if matches!(seen, Progress::Finished) {
            self.finished.get_or_insert(self.watch.next(Toward::Client));
        }
        let after = self.publish(packet, cx);
        let keep = self.pass_on(owed, packet, seen, cx);
        after
            .into_iter()
            .for_each(|publication| cx.out.inject(Direction::ToLink, publication));
        keep
    }

    /// What becomes of a segment of the server's that was read along.
    fn pass_on<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        seen: Progress,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        let ends = packet.flags().contains(TcpFlags::FIN);
        if packet.payload().is_empty() && !ends && matches!(seen, Progress::Going) {
            self.writer.saw(packet);
            match self.with_proxy_option(packet, cx) {
                Some(edited) => owed.settle(Verdict::Replace(edited), cx.out),
                None => self.acks.pass(owed, packet, cx.ack_time(), cx.out),
            }
            return Keep::Flow;
        }
        if !self.writer.is_engaged()
            && let Some(edited) = self.with_proxy_option(packet, cx)
        {
            return self.settle(owed, Verdict::Replace(edited), seen, cx);
        }
        self.answer_alone(packet, cx);
        if self.writer.is_at_rest() && !matches!(seen, Progress::Going) {
            return self.settle(owed, Verdict::Accept, seen, cx);
        }
        if !cx.may_rewrite {
            self.writer.stand_down(cx.out);
        }
        let terms = Terms {
            key: cx.key,
            wire: cx.config.wire,
            limits: &cx.config.limits,
            flow: self.id,
            version: self.version,
            toward: Toward::Client,
            mss: self.mss,
            pace: self.pace,
            answer: self.answer.in_hello(),
        };
        self.writer.segment(
            owed,
            packet,
            (&self.watch, seen),
            terms,
            (cx.store, cx.now, cx.out),
        );
        Keep::Flow
    }

    /// Whether the client's flight, which crossed as a delta, may come so again: until the client
    /// has the server's Finished.
    fn may_come_again(&self) -> bool {
        let knows = |end: Seq| self.acknowledged.is_some_and(|ack| !ack.is_before(end));
        self.inbound.has_rebuilt() && !self.finished.is_some_and(knows)
    }

    /// The segment with what the client-side proxy has to be told, if there is something and room
    /// for it: that originals are wanted, or what is held of a client's intention.
    fn with_proxy_option<S>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &Context<'_, S>,
    ) -> Option<Vec<u8>> {
        match self.inbound.request(cx) {
            Some(request) => segment::with_proxy_option(packet, &request, cx.config.limits.mtu),
            None => self.with_answer(packet, cx),
        }
    }

    fn settle<S: Store>(
        &mut self,
        owed: Owed,
        verdict: Verdict,
        seen: Progress,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match seen {
            Progress::Going => {
                owed.settle(verdict, cx.out);
                Keep::Flow
            }
            Progress::Finished
                if verdict == Verdict::Accept
                    && self.writer.is_at_rest()
                    && !self.may_come_again() =>
            {
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
            Progress::GiveUp(why) if verdict == Verdict::Accept => {
                self.watch.learn_tickets(cx);
                let mtu = cx.config.limits.mtu;
                cx.give_up_with(owed, why, |out| self.writer.send_originals(mtu, out))
            }
            // This packet has an option to lose or a token to hold first, or something may come
            // again that has to be rebuilt; a later one of the flow takes its leave.
            Progress::Finished | Progress::GiveUp(_) => {
                owed.settle(verdict, cx.out);
                Keep::Flow
            }
        }
    }
}
