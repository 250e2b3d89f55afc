//! One flow at the client-side proxy: shows its presence, says what it has stored, rebuilds what
//! comes as a delta, hands the client's flight to the writer.
//!
//! Is not: the recognition of flows (`proxy`), the rebuilding (`inbound`) nor the writing
//! (`writer`). Invariants: no option that was put on for us reaches the client; what is rebuilt was
//! checked; a flow whose far side did not answer is never touched after its SYN.

mod client_flight;
mod hello;

use tandem_engine::Connection;
use tandem_engine::intention::HeldBits;
use tandem_link::inband::frame::Sender;
use tandem_link::inband::option::{self, MAX_HINTS};
use tandem_link::inband::{FlowId, Key, Version};
use tandem_store::Store;
use tandem_wire::{Edit, Seq, TcpFlags, TcpPacket};

use crate::common::{Common, Far};
use crate::context::{Context, Keep, Next, Toward};
use crate::format::Format;
use crate::hello::HelloTimer;
use crate::output::{Direction, Event, GiveUp, Owed, Verdict};
use crate::segment::{self, Offer};
use crate::watch::Progress;
use hello::Shortened;

/// How many copies of the hello carry the hint: the first, and one more in case that is lost. A
/// hello that has to be repeated again goes as the client sent it, in case the option is what
/// somebody in between does not like.
const HINTED_COPIES: u8 = 2;

/// The SYN went out; nobody has answered yet.
#[derive(Debug)]
pub(crate) struct Asking {
    /// The client's initial sequence number.
    pub(crate) client: Seq,
    /// What the SYN said.
    offer: Offer,
    /// When it crossed.
    timer: HelloTimer,
}

/// A flow in which both proxies know of each other.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) common: Common,
    hint: Hint,
    timer: HelloTimer,
    shortened: Shortened,
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

impl Asking {
    /// A SYN from the client. `None`: nothing to do in this flow.
    pub(crate) fn open<S: Store>(
        owed: Owed,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Option<Self> {
        let offer = Offer::of(packet);
        let mut timer = HelloTimer::default();
        timer.syn(packet, cx.now);
        let asking = Self {
            client: packet.seq(),
            offer,
            timer,
        };
        let refusal = match cx.config.wire.shows_itself() {
            _ if offer.foreign => GiveUp::ForeignSyn,
            false => {
                owed.settle(Verdict::Accept, cx.out);
                return Some(asking);
            }
            true if !offer.timestamps => GiveUp::NoTimestamps,
            true => match announced(packet, cx) {
                Some(edited) => {
                    owed.settle(Verdict::Replace(edited), cx.out);
                    return Some(asking);
                }
                None => GiveUp::ForeignSyn,
            },
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
            Toward::Client => self.syn_ack(owed, packet, cx),
            // The same SYN again: without an option, in case the option is what somebody in between
            // does not like.
            Toward::Server
                if packet.flags().contains(TcpFlags::SYN) && packet.seq() == self.client =>
            {
                self.timer.syn(packet, cx.now);
                owed.settle(Verdict::Accept, cx.out);
                Next::Same
            }
            Toward::Server => cx.give_up(owed, GiveUp::NoAnswer).into(),
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
        self.timer.syn_ack(packet, cx.now);
        let (version, verdict) = if cx.config.wire.shows_itself() {
            let Some((version, stripped)) = answered(packet, cx.key, id) else {
                return cx.give_up(owed, GiveUp::NoAnswer).into();
            };
            // What is said after this would not be understood.
            if !cx.spoken.includes(version) {
                return cx.give_up(owed, GiveUp::NoCommonVersion).into();
            }
            cx.out.event(Event::PeerSeen);
            (version, Verdict::Replace(stripped))
        } else {
            (cx.spoken.newest(), Verdict::Accept)
        };
        owed.settle(verdict, cx.out);
        let clock = packet.timestamps().map_or(0, |timestamps| timestamps.value);
        let server = Far {
            is: Toward::Server,
            mss: Offer::of(packet).mss,
            // What says this again says nothing.
            acknowledged: Some(packet.ack()),
            is_stripped: false,
        };
        Next::Agreed(Box::new(Agreed {
            common: Common::new(
                (id, version),
                Connection::new(None),
                server,
                (self.offer.mss, clock),
            ),
            timer: self.timer,
            hint: Hint::Pending,
            shortened: Shortened::No,
        }))
    }
}

/// The SYN with our presence, and what of the far side's holdings is known, if there is room for
/// that.
fn announced<S: Store>(packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Option<Vec<u8>> {
    let (client, newest) = (packet.seq(), cx.spoken.newest());
    let known = cx.engine.goes_by();
    let knowing = known.map(|known| option::presence_knowing(cx.key, client, newest, known.0));
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
    /// A packet of the flow.
    pub(crate) fn packet<S: Store>(
        &mut self,
        owed: Owed,
        toward: Toward,
        packet: &TcpPacket<'_>,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        match toward {
            Toward::Server => self.client_segment(owed, packet, cx),
            Toward::Client => self.server_segment(owed, packet, cx),
        }
    }

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
        self.common.inbound.near_sent(packet);
        // Before anything else, for what is absorbed says nothing again.
        let may_absorb = cx.config.wire.is_harmless();
        if may_absorb && self.timer.absorbs(packet, cx.now, cx.link) {
            cx.out.event(Event::RepeatAbsorbed);
            owed.settle(Verdict::Drop, cx.out);
            return Keep::Flow;
        }
        self.common.settle_acks(packet, cx.out);
        self.expect_flight(packet, cx);
        let seen = self.common.watch.packet(Toward::Server, packet);
        self.consider_client_flight(cx);
        self.consider_hello(packet, cx);
        let verdict = match seen {
            Progress::Going => self.with_hint(packet, cx),
            Progress::Finished | Progress::GiveUp(_) => Verdict::Accept,
        };
        if !cx.may_rewrite {
            self.common.writer.stand_down(cx.out);
        }
        let says = !packet.payload().is_empty() || packet.flags().contains(TcpFlags::FIN);
        if says && self.common.writer.is_engaged() {
            // What crosses in place of a hello carries the hello's hint.
            let hinted =
                if let (Verdict::Replace(hinted), Shortened::Open) = (&verdict, self.shortened) {
                    TcpPacket::parse(hinted).ok()
                } else {
                    None
                };
            if hinted.is_some() || verdict == Verdict::Accept {
                let completes = !self.common.writer.has_sent();
                self.write(owed, hinted.as_ref().unwrap_or(packet), seen, cx);
                if completes && self.common.watch.hello_is_complete() {
                    self.note_hello(packet, cx);
                }
                self.judge_hello(cx);
                return Keep::Flow;
            }
        }
        if verdict == Verdict::Accept && matches!(seen, Progress::Going) {
            self.common.writer.saw(packet);
            self.common.acks.pass(owed, packet, cx.ack_time(), cx.out);
            return Keep::Flow;
        }
        self.settle(owed, verdict, seen, cx)
    }

    /// What the segment has to carry for the far side: the hint or a miss.
    fn with_hint<S: Store>(&mut self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Verdict {
        if matches!(self.hint, Hint::Pending) && self.common.watch.hello_is_complete() {
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
                match self.common.inbound.request(cx) {
                    Some(request) => carrying(packet, &request, cx),
                    None => Verdict::Accept,
                }
            }
        }
    }

    /// What to tell the far side, now that the hello is complete with `packet`.
    fn choose_hint<S: Store>(&self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Hint {
        let hint = match cx.config.wire.codes() {
            None => self.name_stored(packet, cx),
            Some(_) => self.announce(packet, cx),
        };
        match &hint {
            Hint::On { .. } | Hint::Replaced { .. } => cx.out.event(Event::HintSent),
            Hint::Pending | Hint::Nothing => {}
        }
        hint
    }

    fn name_stored<S: Store>(&self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Hint {
        let moment = cx.moment();
        let stored = (self.common.watch.connection()).hints(cx.engine, moment, MAX_HINTS);
        // Nothing stored: that somebody is there to rebuild is worth saying where flights can be
        // compressed.
        if stored.is_empty() && !self.common.version.can_hint_nothing() {
            return Hint::Nothing;
        }
        if !cx.may_rewrite {
            cx.out.event(Event::RewriteWithheld);
            return Hint::Nothing;
        }
        Hint::On {
            end: packet.end(),
            option: option::hint(cx.key, self.common.id, self.common.version, &stored),
            copies: HINTED_COPIES,
        }
    }

    /// The thesis's: references to all certificates that are expected, in the hello itself.
    fn announce<S: Store>(&self, packet: &TcpPacket<'_>, cx: &mut Context<'_, S>) -> Hint {
        let is_whole = packet.seq() == self.common.id.client.wrapping_add(1);
        let (connection, moment) = (self.common.watch.connection(), cx.moment());
        let announced = connection
            .announce(packet.payload(), cx.engine, moment)
            .filter(|_| is_whole);
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
            let verdict = answered(packet, cx.key, self.common.id)
                .map_or(Verdict::Accept, |(_, stripped)| Verdict::Replace(stripped));
            owed.settle(verdict, cx.out);
            return Keep::Flow;
        }
        self.timer.answered(packet, cx.now, cx.link);
        let is_news = self.common.far_sent(packet, cx.out);
        self.judge_hello(cx);
        let mut verdict = Verdict::Accept;
        if let Some((option, rest)) = segment::proxy_option(packet) {
            let (id, version) = (self.common.id, self.common.version);
            if option.verify_miss(cx.key, id, version, Sender::Client) {
                cx.out.event(Event::MissReceived);
                self.was_missed(cx);
            } else if let Some(stored) = option.verify_held(cx.key, id, version) {
                let (connection, streams) = self.common.watch.parts();
                connection.confirmed(HeldBits(stored), streams, cx.engine);
            } else {
                return self.common.refuse_option(owed, cx);
            }
            let stripped = segment::with_options(packet, rest);
            verdict = Common::without_option(packet, stripped, is_news);
        } else {
            let pace = self.timer.pace(cx.link);
            if self.common.writer.is_refused_by(packet, &pace, cx.now) {
                cx.out.event(Event::FlightRefused);
                self.was_missed(cx);
            }
            if self.takes_publication(packet, cx) {
                owed.settle(Verdict::Drop, cx.out);
                return Keep::Flow;
            }
            if let Some(rewritten) = self
                .common
                .inbound
                .recognise(packet, &self.common.watch, cx)
            {
                self.common
                    .inbound
                    .deliver(owed, packet, rewritten, &mut self.common.watch, cx);
                let confirmed = self.common.inbound.confirmation().to_vec();
                let (connection, _) = self.common.watch.parts();
                connection.confirmed_by_name(confirmed, cx.engine);
                return Keep::Flow;
            }
        }
        self.common.inbound.passes(packet);
        let seen = self.common.watch.packet(Toward::Client, packet);
        self.settle(owed, verdict, seen, cx)
    }

    fn settle<S: Store>(
        &mut self,
        owed: Owed,
        verdict: Verdict,
        seen: Progress,
        cx: &mut Context<'_, S>,
    ) -> Keep {
        let round_trip = self.timer.pace(cx.link).answer_to(0);
        self.common
            .settle(owed, (verdict, seen), true, round_trip, cx)
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
