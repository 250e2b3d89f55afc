//! Both directions of one flow, read along from the first byte: how far the handshake is, and what
//! it carried.
//!
//! Is not: a change of anything. Invariants: one view of each byte, the first; a flow in which
//! there were two views is given up for good; what is learned was vouched for by both Finished;
//! memory is bounded by the limit on each direction.

use std::net::SocketAddr;

use tandem_delta::Reference;
use tandem_engine::intention::Intention;
use tandem_engine::ticket::{self, ShownTicket};
use tandem_engine::{ClientCertificate, ClientChain, Flight, Handshake, Pass, Stage};
use tandem_link::inband::FlowId;
use tandem_store::{ObjectId, Site, Store};
use tandem_wire::{Assembler, Inserted, Seq, TcpPacket, UnixTime};

use crate::context::{Context, Toward};
use crate::format::Format;
use crate::output::{Event, GiveUp};

/// Most bytes of either direction that are kept until the handshake is over: a server's flight with
/// post-quantum certificates is about 20 kB, and a frame stands for at most 64 KiB.
const STREAM_LIMIT: usize = tandem_link::inband::frame::MAX_SPAN;

/// A flow, read along.
#[derive(Debug)]
pub(crate) struct Watch {
    client: Assembler,
    server: Assembler,
    handshake: Handshake,
    given_up: Option<GiveUp>,
}

/// What reading a segment led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The handshake goes on.
    Going,
    /// Both Finished have passed.
    Finished,
    /// There is nothing here for packet mode.
    GiveUp(GiveUp),
}

/// What a client has shown of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing yet.
    NotYet,
    /// That it has no certificate, or was asked for none.
    Nothing,
    /// This chain.
    Chain(ClientChain),
}

impl Watch {
    pub(crate) fn new(flow: FlowId) -> Self {
        Self {
            client: Assembler::new(flow.client.wrapping_add(1), STREAM_LIMIT),
            server: Assembler::new(flow.server.wrapping_add(1), STREAM_LIMIT),
            handshake: Handshake::new(),
            given_up: None,
        }
    }

    /// Reads a segment along.
    pub(crate) fn packet(&mut self, toward: Toward, packet: &TcpPacket<'_>) -> Progress {
        self.bytes(toward, packet.seq(), packet.payload())
    }

    /// Reads bytes along that stand at `seq`.
    pub(crate) fn bytes(&mut self, toward: Toward, seq: Seq, payload: &[u8]) -> Progress {
        if payload.is_empty() || self.given_up.is_some() {
            return self.progress();
        }
        let stream = match toward {
            Toward::Server => &mut self.client,
            Toward::Client => &mut self.server,
        };
        match stream.insert(seq, payload) {
            Inserted::New | Inserted::Duplicate => {}
            Inserted::Conflict => self.given_up = Some(GiveUp::Conflict),
            Inserted::OutOfBounds => self.given_up = Some(GiveUp::TooLong),
        }
        match toward {
            Toward::Server => self.handshake.client_sent(self.client.contiguous()),
            Toward::Client => self.handshake.server_sent(self.server.contiguous()),
        }
        self.progress()
    }

    fn progress(&self) -> Progress {
        match (self.given_up, self.handshake.stage()) {
            (Some(why), _) => Progress::GiveUp(why),
            (None, Stage::Going) => Progress::Going,
            (None, Stage::Finished) => Progress::Finished,
            (None, Stage::Pass(pass)) => Progress::GiveUp(GiveUp::Handshake(pass)),
        }
    }

    /// Whether the whole ClientHello has passed.
    pub(crate) fn hello_is_complete(&self) -> bool {
        self.handshake.hello_is_complete()
    }

    /// Whom the client asked for: the name in its hello or, where it named nobody, the address that
    /// it connected to.
    pub(crate) fn site(&self, server: SocketAddr) -> Site {
        let name = self.handshake.server_name();
        name.map_or(Site::Address(server), |name| Site::Name(name.clone()))
    }

    /// The flight that goes to this endpoint, once all of it has passed: the server's first, or the
    /// client's answer to it where that shows a chain.
    pub(crate) fn flight(&self, toward: Toward) -> Option<&Flight> {
        match toward {
            Toward::Client => self.handshake.flight(),
            Toward::Server => self.handshake.client_flight(),
        }
    }

    /// What goes to this endpoint, from its first byte, without gaps.
    pub(crate) fn stream(&self, toward: Toward) -> &[u8] {
        self.assembler(toward).contiguous()
    }

    /// The sequence number of the first byte that goes to this endpoint.
    pub(crate) fn start(&self, toward: Toward) -> Seq {
        self.assembler(toward).start_seq()
    }

    /// The sequence number after the last byte that has gone to this endpoint without gaps.
    pub(crate) fn next(&self, toward: Toward) -> Seq {
        self.assembler(toward).next_seq()
    }

    /// Whether bytes to this endpoint are missing before others that have passed.
    pub(crate) fn has_gap(&self, toward: Toward) -> bool {
        self.assembler(toward).has_gap()
    }

    fn assembler(&self, toward: Toward) -> &Assembler {
        match toward {
            Toward::Server => &self.client,
            Toward::Client => &self.server,
        }
    }

    /// Whether the server has sent anything yet.
    pub(crate) fn server_has_spoken(&self) -> bool {
        self.server.held() > 0
    }

    /// Whether the server's flight has passed and asks the client for a certificate.
    pub(crate) fn asks_for_certificate(&self) -> bool {
        self.handshake.asks_for_certificate()
    }

    /// Whether the client's answer to the server's flight has begun with a whole message.
    pub(crate) fn client_has_shown(&self) -> bool {
        *self.handshake.client_certificate() != ClientCertificate::NotYet
    }

    /// What the client's hello says, in the extension of this number, of the chain that it may
    /// show.
    pub(crate) fn intention(&self, extension: u16) -> Option<Intention> {
        self.handshake
            .intention(self.client.contiguous(), extension)
    }

    /// What the client has shown of itself so far.
    pub(crate) fn shown(&self) -> Shown {
        match self.handshake.client_certificate() {
            ClientCertificate::NotYet => Shown::NotYet,
            ClientCertificate::None => Shown::Nothing,
            ClientCertificate::Chain(flight) => ClientChain::of(flight, self.client.contiguous())
                .map_or(Shown::Nothing, Shown::Chain),
        }
    }

    /// The session ticket that the client's hello shows, and its name.
    pub(crate) fn shown_ticket(&self) -> Option<(&ShownTicket, Reference)> {
        let shown = self.handshake.shown_ticket()?;
        Some((
            shown,
            ticket::name_of(&shown.bytes(self.client.contiguous())),
        ))
    }

    /// Whether a ticket has begun in what has passed of the hello.
    pub(crate) fn begins_ticket(&self) -> bool {
        ticket::begins(self.client.contiguous())
    }

    /// Remembers the session tickets of a handshake that went as far as it is followed: the one
    /// that the server gave and, where it took it and sent no certificate, the one that the
    /// client showed.
    ///
    /// An abbreviated handshake is followed no further than to the server's ChangeCipherSpec, and
    /// nothing vouches for its tickets but that a client shows them again. Nobody is told of
    /// them before that.
    pub(crate) fn learn_tickets<S>(&self, cx: &mut Context<'_, S>) {
        if !cx.config.wire.is_harmless() {
            return;
        }
        let taken = match self.progress() {
            Progress::Finished => None,
            Progress::GiveUp(GiveUp::Handshake(Pass::Resumed)) => self.handshake.shown_ticket(),
            Progress::Going | Progress::GiveUp(_) => return,
        };
        let given = self.handshake.given_ticket(self.server.contiguous());
        let taken = taken.map(|taken| (taken.bytes(self.client.contiguous()), None));
        let given = given.map(|given| (given.bytes, given.lifetime));
        for (ticket, lifetime) in taken.into_iter().chain(given) {
            let site = self.site(cx.server);
            if cx.tickets.learn(&site, &ticket, lifetime, cx.now) {
                cx.out.event(Event::TicketLearned);
            }
        }
    }

    /// Puts the server's chain into the store, once both Finished have vouched for it.
    pub(crate) fn learn(&self, store: &mut impl Store, site: &Site, now: UnixTime) -> bool {
        self.handshake
            .learn(self.server.contiguous(), store, site, now)
    }

    /// Puts the client's chain into the store, likewise, and names it.
    pub(crate) fn learn_client(&self, store: &mut impl Store, now: UnixTime) -> Option<ObjectId> {
        self.handshake
            .learn_client(self.client.contiguous(), store, now)
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        self.client.held() + self.server.held() + self.handshake.footprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_store::MemoryStore;

    const FLOW: FlowId = FlowId {
        client: Seq(u32::MAX),
        server: Seq(u32::MAX - 2),
    };

    fn watch() -> Watch {
        Watch::new(FLOW)
    }

    #[test]
    fn two_views_of_a_byte_end_it_for_good() {
        for toward in [Toward::Client, Toward::Server] {
            let mut watch = watch();
            let start = match toward {
                Toward::Client => FLOW.server.wrapping_add(1),
                Toward::Server => FLOW.client.wrapping_add(1),
            };
            assert_eq!(watch.bytes(toward, start, &[22, 3, 3]), Progress::Going);
            let conflict = Progress::GiveUp(GiveUp::Conflict);
            assert_eq!(watch.bytes(toward, start, &[22, 3, 1]), conflict);
            assert_eq!(watch.bytes(toward, start, &[22, 3, 3, 0]), conflict);
            assert_eq!(watch.bytes(toward, start, &[]), conflict);
            let site = Site::Address(std::net::SocketAddr::from(([192, 0, 2, 1], 443)));
            assert!(!watch.learn(&mut MemoryStore::default(), &site, UnixTime(1)));
        }
    }

    #[test]
    fn what_is_out_of_order_is_counted_and_bounded() {
        let mut watch = watch();
        let start = FLOW.client.wrapping_add(1);
        let far = start.wrapping_add(10_000);
        assert_eq!(watch.bytes(Toward::Server, far, &[0; 900]), Progress::Going);
        assert!(watch.footprint() >= 900);
        let beyond = start.wrapping_add(STREAM_LIMIT as u32);
        let too_long = Progress::GiveUp(GiveUp::TooLong);
        assert_eq!(watch.bytes(Toward::Server, beyond, &[0]), too_long);
    }

    #[test]
    fn the_servers_first_bytes_are_seen_whatever_their_order() {
        let mut watch = watch();
        assert!(!watch.server_has_spoken());
        let start = FLOW.server.wrapping_add(1);
        watch.bytes(Toward::Client, start.wrapping_add(5), b"later");
        assert!(watch.server_has_spoken() && watch.has_gap(Toward::Client));
        assert_eq!(watch.next(Toward::Client), start);
        let progress = watch.bytes(Toward::Client, start, b"220 m");
        assert_eq!(progress, Progress::GiveUp(GiveUp::Handshake(Pass::NotTls)));
        assert_eq!(watch.stream(Toward::Client), b"220 mlater");
        assert_eq!(watch.start(Toward::Client), start);
    }
}
