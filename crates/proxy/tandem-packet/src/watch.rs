//! Both directions of one flow, read along from the first byte: how far the handshake is, and what
//! it carried.
//!
//! Is not: a change of anything. Invariants: one view of each byte, the first; a flow in which
//! there were two views is given up for good; what is learned was vouched for by both Finished;
//! memory is bounded by the limit on each direction.

use std::net::SocketAddr;
use std::time::Duration;

use tandem_engine::{Connection, Crossed, Stage, Streams};
use tandem_link::inband::FlowId;
use tandem_store::{Site, Store};
use tandem_wire::{Assembler, Inserted, Seq, TcpPacket};

use crate::context::{Context, Toward};
use crate::output::GiveUp;

/// Most bytes of either direction that are kept until the handshake is over: a server's flight with
/// post-quantum certificates is about 20 kB, and a frame stands for at most 64 KiB.
const STREAM_LIMIT: usize = tandem_link::inband::frame::MAX_SPAN;

/// A flow, read along.
#[derive(Debug)]
pub(crate) struct Watch {
    client: Assembler,
    server: Assembler,
    connection: Connection,
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

impl Watch {
    pub(crate) fn new(flow: FlowId, connection: Connection) -> Self {
        Self {
            client: Assembler::new(flow.client.wrapping_add(1), STREAM_LIMIT),
            server: Assembler::new(flow.server.wrapping_add(1), STREAM_LIMIT),
            connection,
            given_up: None,
        }
    }

    /// Whom the client asked for, once its hello is whole.
    pub(crate) fn site(&self, server: SocketAddr) -> Option<Site> {
        let is_known = self.connection.hello_is_complete();
        is_known.then(|| self.connection.site(server))
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
        self.connection.read(toward.origin(), stream.contiguous());
        self.progress()
    }

    fn progress(&self) -> Progress {
        match (self.given_up, self.connection.stage()) {
            (Some(why), _) => Progress::GiveUp(why),
            (None, Stage::Going) => Progress::Going,
            (None, Stage::Finished) => Progress::Finished,
            (None, Stage::Pass(pass)) => Progress::GiveUp(GiveUp::Handshake(pass)),
        }
    }

    /// Whether the whole ClientHello has passed.
    pub(crate) fn hello_is_complete(&self) -> bool {
        self.connection.hello_is_complete()
    }

    /// What is to be made of it all, and what both ends have sent.
    pub(crate) fn parts(&mut self) -> (&mut Connection, Streams<'_>) {
        let streams = Streams {
            client: self.client.contiguous(),
            server: self.server.contiguous(),
        };
        (&mut self.connection, streams)
    }

    /// What is to be made of it all.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
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

    /// Both Finished have passed. `crossed` says how the client's flight came over the link,
    /// `round_trip` how long one of the far side's takes.
    pub(crate) fn finished<S: Store>(
        &mut self,
        said: (Crossed, Duration),
        cx: &mut Context<'_, S>,
    ) {
        let moment = cx.moment();
        let (connection, streams) = self.parts();
        connection.finished(streams, cx.engine, moment, said);
    }

    /// The handshake is not followed further: an abbreviated one may be as far as it is.
    pub(crate) fn gave_up<S: Store>(&mut self, cx: &mut Context<'_, S>) {
        if self.given_up.is_none() {
            let moment = cx.moment();
            let (connection, streams) = self.parts();
            connection.gave_up(streams, cx.engine, moment);
        }
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        self.client.held() + self.server.held() + self.connection.footprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_engine::Pass;

    const FLOW: FlowId = FlowId {
        client: Seq(u32::MAX),
        server: Seq(u32::MAX - 2),
    };

    fn watch() -> Watch {
        Watch::new(FLOW, Connection::new(None))
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
