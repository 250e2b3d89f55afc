//! One flow at the server-side proxy: answers the other's presence, takes its hints, hands the
//! server's flight to the writer, rebuilds the client's.
//!
//! Is not: the writing (`writer`) nor the rebuilding (`inbound`) itself. Invariants: no option that
//! was put on for us reaches the server; nothing is rewritten in a flow whose client-side proxy did
//! not show itself in it.

mod intention;
mod publication;

use tandem_engine::filter::Fingerprint;
use tandem_engine::{Asked as AskedToPublish, Connection, Ground};
use tandem_link::inband::frame::Sender;
use tandem_link::inband::{FlowId, Version, option};
use tandem_store::Store;
use tandem_wire::{Edit, Seq, TcpFlags, TcpPacket};

use crate::common::{Common, Far};
use crate::context::{Context, Keep, Next, Toward};
use crate::format::Format;
use crate::inbound::Rewritten;
use crate::output::{Direction, Event, GiveUp, Owed, Verdict};
use crate::pace::Pace;
use crate::segment::{self, Offer};
use crate::watch::Progress;
use crate::writer::Aim;
use intention::Confirmation;

/// A SYN with a valid presence (or, in the thesis's format, any SYN) has passed.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The client's initial sequence number.
    pub(crate) client: Seq,
    /// What the SYN said.
    offer: Offer,
    /// The version that both proxies speak.
    version: Version,
    /// The client's clock in it.
    clock: u32,
    /// Which publication of ours the other proxy goes by, if by any.
    goes_by: Option<AskedToPublish>,
}

/// The SYN/ACK has passed, with our answer on it: both proxies know of each other.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) common: Common,
    pace: Pace,
    /// Whether the SYN came again after our answer, which may not get through, and nothing has
    /// shown yet that it did.
    is_unheard: bool,
    /// The sequence number after the server's Finished.
    finished: Option<Seq>,
    confirmation: Confirmation,
}

impl Asked {
    /// A SYN that arrived over the link. `None`: nothing to do in this flow.
    pub(crate) fn open<S: Store>(
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Option<Self> {
        let offer = Offer::of(packet);
        let asked = |version, known: Option<Fingerprint>| Self {
            client: packet.seq(),
            offer,
            version,
            clock: packet.timestamps().map_or(0, |timestamps| timestamps.value),
            goes_by: known.map(|known| AskedToPublish { known, at: cx.now }),
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
                        return Some(asked(version, option.known_fingerprint().map(Fingerprint)));
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
        let _ = cx.give_up(owed, refusal);
        None
    }

    /// Any later packet of the flow.
    pub(crate) fn packet<S: Store>(
        &mut self,
        owed: Owed,
        toward: Toward,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Next<Agreed> {
        match toward {
            Toward::Server if packet.flags().contains(TcpFlags::SYN) => {
                let stripped = without_presence(packet, self.client, cx);
                owed.settle(stripped.map_or(Verdict::Accept, Verdict::Replace), cx.out);
                Next::Same
            }
            Toward::Server => cx.give_up(owed, GiveUp::NotFromStart).into(),
            Toward::Client => self.syn_ack(owed, packet, cx),
        }
    }

    fn syn_ack<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Next<Agreed> {
        if !segment::answers(packet, self.client) {
            return cx.give_up(owed, GiveUp::Closed).into();
        }
        let id = FlowId {
            client: self.client,
            server: packet.seq(),
        };
        let client = Far {
            is: Toward::Client,
            mss: self.offer.mss,
            acknowledged: None,
            is_stripped: false,
        };
        let server_mss = Offer::of(packet).mss;
        let mut agreed = Box::new(Agreed {
            common: Common::new(
                (id, self.version),
                Connection::new(self.goes_by),
                client,
                (server_mss, self.clock),
            ),
            pace: Pace::default(),
            is_unheard: false,
            finished: None,
            confirmation: Confirmation::default(),
        });
        if !cx.config.wire.shows_itself() {
            agreed.pace.opening_sent(packet, cx.now);
            owed.settle(Verdict::Accept, cx.out);
        } else if packet.timestamps().is_none() {
            return cx.give_up(owed, GiveUp::NoTimestamps).into();
        } else {
            if agreed.answer(owed, packet, cx) == Keep::Forget {
                return Next::Over;
            }
            cx.out.event(Event::PeerSeen);
        }
        agreed.common.inbound.near_opened(packet);
        Next::Agreed(agreed)
    }
}

/// A repeated SYN may carry the option (it was held up) or not (the client-side proxy left it off,
/// having seen no answer: then our option may be what somebody in between does not like, and it is
/// left off too). The SYN without its option, where it has one.
fn without_presence<S>(
    packet: &TcpPacket<'_>,
    client: Seq,
    cx: &Context<'_, S>,
) -> Option<Vec<u8>> {
    let (option, rest) = segment::proxy_option(packet)?;
    option.verify_presence(cx.key, client)?;
    segment::with_options(packet, rest)
}

impl Agreed {
    /// A packet of the flow.
    pub(crate) fn packet<S: Store>(
        &mut self,
        owed: Owed,
        toward: Toward,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match toward {
            Toward::Server if packet.flags().contains(TcpFlags::SYN) => {
                let stripped = without_presence(packet, self.common.id.client, cx);
                self.is_unheard |= stripped.is_none();
                owed.settle(stripped.map_or(Verdict::Accept, Verdict::Replace), cx.out);
                Keep::Flow
            }
            Toward::Server => self.client_segment(owed, packet, cx),
            Toward::Client => self.server_segment(owed, packet, cx),
        }
    }

    /// Puts our answer on a SYN/ACK; where there is no room for it, the flow goes on without us.
    fn answer<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        self.pace.opening_sent(packet, cx.now);
        let option = option::answer(cx.key, self.common.id, self.common.version);
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
        let is_news = self.common.far_sent(packet, cx.out);
        let mtu = cx.config.limits.mtu;
        let mut verdict = Verdict::Accept;
        if let Some((option, rest)) = segment::proxy_option(packet) {
            if let Some(hints) = option.verify_hint(cx.key, self.common.id, self.common.version) {
                // Who hints has our answer: the SYN came again because the link is slower than the
                // client's timer.
                self.is_unheard = false;
                // A flow that started in pass-through stays in pass-through; and where
                // timestamps were agreed and are taken off on the way, nothing is harmless.
                if !self.common.watch.server_has_spoken() && packet.timestamps().is_some() {
                    if cx.may_rewrite {
                        self.arm(Ground::hinted(hints));
                    } else {
                        cx.out.event(Event::RewriteWithheld);
                    }
                }
            } else if option.verify_miss(
                cx.key,
                self.common.id,
                self.common.version,
                Sender::Server,
            ) {
                cx.out.event(Event::MissReceived);
                self.common.writer.send_originals(mtu, cx.out);
            } else {
                return self.common.refuse_option(owed, cx);
            }
            let stripped = segment::with_options(packet, rest);
            // A hint may come with a hello that crosses in another form.
            let inner = stripped
                .as_deref()
                .filter(|_| cx.config.wire.is_harmless() && !packet.payload().is_empty())
                .and_then(|stripped| TcpPacket::parse(stripped).ok());
            if let Some(inner) = inner
                && let Some(rewritten) =
                    self.common
                        .inbound
                        .recognise(&inner, &self.common.watch, cx)
            {
                return self.rebuild(owed, &inner, rewritten, cx);
            }
            verdict = Common::without_option(packet, stripped, is_news);
        } else {
            if self.common.writer.is_refused_by(packet, &self.pace, cx.now) {
                cx.out.event(Event::FlightRefused);
                self.common.writer.send_originals(mtu, cx.out);
            }
            if let Some(rewritten) = self
                .common
                .inbound
                .recognise(packet, &self.common.watch, cx)
            {
                return self.rebuild(owed, packet, rewritten, cx);
            }
        }
        self.common.inbound.passes(packet);
        let is_first = packet.seq() == self.common.id.client.wrapping_add(1);
        let announced = is_first
            .then(|| cx.config.wire.announced(packet.payload()))
            .flatten();
        let seen = match &announced {
            Some(announced) => {
                if !self.common.watch.server_has_spoken() {
                    self.arm(Ground::announced(announced));
                }
                let edit = Edit {
                    payload: Some(&announced.hello),
                    ..Edit::default()
                };
                verdict = packet
                    .rebuilt(&edit)
                    .map_or(Verdict::Accept, Verdict::Replace);
                self.common
                    .watch
                    .bytes(Toward::Server, packet.seq(), &announced.hello)
            }
            None => self.common.watch.packet(Toward::Server, packet),
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
        // What is known of flights says nothing of hellos.
        let is_flight = self.common.watch.hello_is_complete();
        self.common
            .inbound
            .deliver(owed, packet, rewritten, &mut self.common.watch, cx);
        if is_flight && self.common.inbound.has_missed() {
            cx.engine.client_flight_not_rebuilt(cx.now);
        }
        self.consider_intention(cx);
        Keep::Flow
    }

    /// The client-side proxy has stored this of what the server is about to send.
    fn arm(&mut self, ground: Ground) {
        self.common.writer.arm(Aim {
            from: self.common.watch.start(Toward::Client),
            ground,
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
            } else if !self.is_unheard {
                return self.answer(owed, packet, cx);
            }
            owed.settle(Verdict::Accept, cx.out);
            return Keep::Flow;
        }
        self.common.inbound.near_sent(packet);
        self.common.settle_acks(packet, cx.out);
        let seen = self.common.watch.packet(Toward::Client, packet);
        if matches!(seen, Progress::Finished) {
            self.finished
                .get_or_insert(self.common.watch.next(Toward::Client));
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
            self.common.writer.saw(packet);
            match self.with_proxy_option(packet, cx) {
                Some(edited) => owed.settle(Verdict::Replace(edited), cx.out),
                None => self.common.acks.pass(owed, packet, cx.ack_time(), cx.out),
            }
            return Keep::Flow;
        }
        if !self.common.writer.is_engaged()
            && let Some(edited) = self.with_proxy_option(packet, cx)
        {
            return self.settle(owed, Verdict::Replace(edited), seen, cx);
        }
        self.confirm_alone(packet, cx);
        if self.common.writer.is_at_rest() && !matches!(seen, Progress::Going) {
            return self.settle(owed, Verdict::Accept, seen, cx);
        }
        if !cx.may_rewrite {
            self.common.writer.stand_down(cx.out);
        }
        let said = (self.pace, self.confirmation.in_hello());
        self.common.write(owed, packet, seen, said, cx);
        Keep::Flow
    }

    /// Whether the client's flight, which crossed as a delta, may come so again: until the client
    /// has the server's Finished.
    fn may_come_again(&self) -> bool {
        let knows = |end: Seq| {
            self.common
                .far
                .acknowledged
                .is_some_and(|ack| !ack.is_before(end))
        };
        self.common.inbound.has_rebuilt() && !self.finished.is_some_and(knows)
    }

    /// The segment with what the client-side proxy has to be told, if there is something and room
    /// for it: that originals are wanted, or what is stored of a client's intention.
    fn with_proxy_option<S>(
        &mut self,
        packet: &TcpPacket<'_>,
        cx: &Context<'_, S>,
    ) -> Option<Vec<u8>> {
        match self.common.inbound.request(cx) {
            Some(request) => segment::with_proxy_option(packet, &request, cx.config.limits.mtu),
            None => self.with_confirmation(packet, cx),
        }
    }

    fn settle<S: Store>(
        &mut self,
        owed: Owed,
        verdict: Verdict,
        seen: Progress,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        let may_end = !self.may_come_again();
        let round_trip = self.pace.answer_to(0);
        self.common
            .settle(owed, (verdict, seen), may_end, round_trip, cx)
    }
}
