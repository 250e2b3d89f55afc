//! What arrives over the link for the near endpoint: told apart as rewritten, rebuilt, and asked
//! for where it cannot be.
//!
//! Is: the same for the server's flight at the client-side proxy and for the client's flight at the
//! server-side one. Is not: the rebuilding itself (`reader`), nor the writing (`writer`).
//! Invariants: of what was rebuilt the endpoint gets all that it has not acknowledged, in order;
//! what is not recognised is nobody's business here.

use tandem_delta::Reference;
use tandem_engine::{Miss, thesis};
use tandem_link::inband::{FlowId, Version, option};
use tandem_store::Store;
use tandem_wire::{Edit, Seq, TcpFlags, TcpOption, TcpPacket, Template};

use crate::context::{Context, Toward};
use crate::format::Format;
use crate::output::{Direction, Event, Owed, Verdict};
use crate::paws::Clock;
use crate::reader::{Origin, Reader, Rebuilt};
use crate::segment::{self, Cut};
use crate::watch::Watch;

/// What a flow knows of the endpoint on this side of the link, and of what comes to it.
#[derive(Debug)]
pub(crate) struct Inbound {
    flow: FlowId,
    version: Version,
    /// The near endpoint.
    toward: Toward,
    /// Its maximum segment size.
    mss: usize,
    /// The far endpoint's.
    clock: Clock,
    reader: Reader,
    /// The thesis's: where the segment began that held references.
    expanded: Option<Seq>,
    missed: Missed,
    /// Whether something was rebuilt.
    rebuilt: bool,
    /// Payload of rewritten segments since then.
    received: usize,
    /// The thesis's: what the server's hello said of the client's certificates.
    confirmation: Vec<Reference>,
    /// How far the near endpoint has acknowledged.
    acknowledged: Option<Seq>,
    /// The headers of its last segment: a segment of our own looks like it.
    template: Template,
}

/// Whether something could not be rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missed {
    /// Nothing.
    Nothing,
    /// Something, and the far side still has to be told.
    Asking,
    /// Something, and there is nothing more to be said of it.
    Before,
}

/// A segment that was recognised as rewritten: what became of it, and the options that the far
/// endpoint gave it.
pub(crate) struct Rewritten {
    rebuilt: Rebuilt,
    options: Vec<u8>,
}

impl Inbound {
    /// For the endpoint `toward`, which takes segments of `mss` bytes; `clock` is the timestamp in
    /// the far one's SYN or SYN/ACK.
    pub(crate) fn new(
        (flow, version): (FlowId, Version),
        toward: Toward,
        mss: usize,
        clock: u32,
    ) -> Self {
        Self {
            flow,
            version,
            toward,
            mss,
            clock: Clock::new(clock),
            reader: Reader::default(),
            expanded: None,
            missed: Missed::Nothing,
            rebuilt: false,
            received: 0,
            confirmation: Vec::new(),
            acknowledged: None,
            template: Template::default(),
        }
    }

    /// The near endpoint has sent this SYN/ACK: until it sends more, a segment of our own looks
    /// like an acknowledgement after it.
    pub(crate) fn near_opened(&mut self, packet: &TcpPacket<'_>) {
        let Some(timestamps) = packet.timestamps() else {
            return;
        };
        let scale = packet.options().find_map(|option| {
            let TcpOption::WindowScale(scale) = option else {
                return None;
            };
            Some(scale)
        });
        // RFC 7323, section 2.2: that of a SYN is never scaled, later ones are, by 14 bits at most.
        let window = packet.window() >> scale.unwrap_or(0).min(14);
        let edit = Edit {
            flags: Some(TcpFlags::ACK),
            seq: Some(packet.seq().wrapping_add(1)),
            window: Some(window),
            options: Some(&timestamps.alone()),
            payload: Some(&[]),
            ..Edit::default()
        };
        let opened = packet.rebuilt(&edit);
        if let Some(Ok(opened)) = opened.as_deref().ok().map(TcpPacket::parse) {
            self.template.keep(&opened);
        }
    }

    /// The near endpoint has sent this.
    pub(crate) fn near_sent(&mut self, packet: &TcpPacket<'_>) {
        let ack = packet.ack();
        if packet.flags().contains(TcpFlags::ACK)
            && self.acknowledged.is_none_or(|known| ack.is_after(known))
        {
            self.acknowledged = Some(ack);
        }
        self.template.keep(packet);
    }

    /// Looks at a segment from over the link, which has no option; `None`: it is an ordinary one.
    pub(crate) fn recognise<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        watch: &Watch,
        cx: &mut Context<'_, S>,
    ) -> Option<Rewritten> {
        match cx.config.wire.codes() {
            None => self.read_frame(packet, watch, cx),
            Some(codes) => self.expand(packet, watch, codes, cx),
        }
    }

    /// The same of one that may carry a frame.
    fn read_frame<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        watch: &Watch,
        cx: &mut Context<'_, S>,
    ) -> Option<Rewritten> {
        let origin = Origin {
            key: cx.key,
            flow: self.flow,
            version: self.version,
            sender: self.toward.sender(),
        };
        let mut source = cx.engine.source(cx.now);
        let own = packet
            .timestamps()
            .and_then(|timestamps| self.clock.restored(timestamps));
        if let Some(own) = own {
            return Some(Rewritten {
                rebuilt: self.reader.segment(packet, origin, &mut source),
                options: own.within(packet.options_bytes()),
            });
        }
        // Somebody on the way takes timestamps off or puts others in, and the endpoint would take
        // the frame for data.
        let next = watch.next(self.toward);
        let Some(rebuilt) = self.reader.of_any_age(packet, next, origin, &mut source) else {
            if let Some(timestamps) = packet.timestamps() {
                self.clock.saw(timestamps.value);
            }
            return None;
        };
        if matches!(rebuilt, Rebuilt::Flight(..)) {
            cx.out.event(Event::TimestampsReplaced);
        }
        Some(Rewritten {
            rebuilt,
            options: packet.options_bytes().to_vec(),
        })
    }

    /// The same of one that may carry the thesis's CompressedCertificate.
    fn expand<S: Store>(
        &mut self,
        packet: &TcpPacket<'_>,
        watch: &Watch,
        codes: thesis::Codes,
        cx: &mut Context<'_, S>,
    ) -> Option<Rewritten> {
        // Anchored at its end, it begins after what is still missing; a copy of it begins where the
        // first one did.
        let ahead = packet.seq().is_after(watch.next(self.toward));
        let again = self.expanded == Some(packet.seq());
        if !(ahead || again) || packet.payload().is_empty() {
            return None;
        }
        let rebuilt = match thesis::expand(packet.payload(), cx.engine.store(), codes) {
            thesis::Expanded::Whole(bytes) => {
                let bytes = match thesis::confirmation::take(&bytes, codes) {
                    Some((bytes, confirmation)) => {
                        self.confirmation = confirmation;
                        bytes
                    }
                    None => bytes,
                };
                let end = packet.end();
                Rebuilt::Flight(end.before(bytes.len()), bytes)
            }
            thesis::Expanded::Miss(why) => Rebuilt::Miss(why),
            thesis::Expanded::Ordinary => return None,
        };
        self.expanded = Some(packet.seq());
        Some(Rewritten {
            rebuilt,
            options: packet.options_bytes().to_vec(),
        })
    }

    /// Carries out what became of a rewritten segment.
    pub(crate) fn deliver<S: Store>(
        &mut self,
        owed: Owed,
        packet: &TcpPacket<'_>,
        rewritten: Rewritten,
        watch: &mut Watch,
        cx: &mut Context<'_, S>,
    ) {
        self.received += packet.payload().len();
        let headers = packet.header_len() - packet.options_bytes().len();
        let how = |start| Cut {
            start,
            options: &rewritten.options,
            mss: self.mss.min(cx.config.limits.mtu.saturating_sub(headers)),
        };
        let packets = match &rewritten.rebuilt {
            Rebuilt::Flight(start, bytes) => segment::cut(packet, bytes, how(*start)),
            Rebuilt::Incomplete | Rebuilt::Miss(_) => Vec::new(),
        };
        match rewritten.rebuilt {
            Rebuilt::Flight(start, bytes) if !packets.is_empty() => {
                cx.out.event(Event::FlightRebuilt {
                    bytes: bytes.len() as u64,
                    received: std::mem::take(&mut self.received) as u64,
                });
                // Of a flight that comes again the endpoint gets what it has not acknowledged: each
                // segment that it knows would make it repeat itself over the link,
                // and three such repeats look like a loss (RFC 5681, section 3.2).
                let useless = self
                    .acknowledged
                    .map_or(0, |ack| how(start).useless(bytes.len(), ack));
                self.end_request();
                self.rebuilt = true;
                let mut packets = packets.into_iter().skip(useless);
                owed.settle(
                    packets.next().map_or(Verdict::Drop, Verdict::Replace),
                    cx.out,
                );
                packets.for_each(|packet| cx.out.inject(Direction::FromLink, packet));
                // Whatever reading along says of these bytes, they were checked, and the flow's end
                // is still to come.
                let _ = watch.bytes(self.toward, start, &bytes);
            }
            Rebuilt::Incomplete => owed.settle(Verdict::Drop, cx.out),
            missed @ (Rebuilt::Miss(_) | Rebuilt::Flight(..)) => {
                cx.out.event(Event::FlightMissed(match missed {
                    Rebuilt::Miss(why) => why,
                    // It does not fit into segments.
                    Rebuilt::Flight(..) | Rebuilt::Incomplete => Miss::Malformed,
                }));
                // The segment would be discarded by the endpoint in any case (safe), or break the
                // handshake (the thesis's).
                owed.settle(Verdict::Drop, cx.out);
                self.missed = Missed::Before;
                if cx.config.wire.is_harmless() {
                    self.ask_for_originals(watch, cx);
                }
            }
        }
    }

    /// An ordinary segment has come over the link.
    pub(crate) fn passes(&mut self, packet: &TcpPacket<'_>) {
        if !packet.payload().is_empty() {
            self.end_request();
        }
    }

    fn end_request(&mut self) {
        if self.missed == Missed::Asking {
            self.missed = Missed::Before;
        }
    }

    /// The option that the near endpoint's next segment has to carry, as long as originals are
    /// asked for.
    pub(crate) fn request<S>(&self, cx: &Context<'_, S>) -> Option<Vec<u8>> {
        (self.missed == Missed::Asking).then(|| self.miss(cx))
    }

    /// Whether something could not be rebuilt.
    pub(crate) fn has_missed(&self) -> bool {
        self.missed != Missed::Nothing
    }

    /// The thesis's: what the server's hello said of the client's certificates.
    pub(crate) fn confirmation(&self) -> &[Reference] {
        &self.confirmation
    }

    /// Whether something was rebuilt.
    pub(crate) fn has_rebuilt(&self) -> bool {
        self.rebuilt
    }

    fn miss<S>(&self, cx: &Context<'_, S>) -> Vec<u8> {
        option::miss(cx.key, self.flow, self.version, self.toward.sender())
    }

    fn ask_for_originals<S: Store>(&mut self, watch: &Watch, cx: &mut Context<'_, S>) {
        cx.out.event(Event::MissSent);
        self.missed = Missed::Asking;
        let Ok(headers) = self.template.packet() else {
            return;
        };
        let Ok(template) = TcpPacket::parse(&headers) else {
            return;
        };
        let seq = watch.next(self.toward.opposite());
        if let Some(request) = segment::lone_option(&template, seq, &self.miss(cx)) {
            cx.out.inject(Direction::ToLink, request);
        }
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        self.reader.footprint() + self.template.footprint()
    }
}
