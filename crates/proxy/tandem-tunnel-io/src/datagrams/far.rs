//! The server side's flows: a socket for each, to a server that is allowed.
//!
//! Is not: what is allowed (`dial.rs`).
//!
//! Invariants: a flow that cannot be served, or whose server cannot be reached, is broken off with
//! its reason; when nothing comes of the client any more the socket goes, and the other side hears
//! nothing of that.

use std::sync::Arc;

use tandem_daemon::places::{Places, Share};
use tandem_engine::PeerId;
use tandem_link::tunnel::{Ending, FlowOpen, FlowOpenDecoder};
use tandem_tunnel::FlowSide;
use tokio::time::{Instant, timeout_at};

use super::endpoint::Server;
use super::flow_task::{Begun, FlowTask, Over};
use crate::board::Tally;
use crate::dial::Dialer;
use crate::shared::Shared;
use crate::transport::{Receiving, Sending, Stream};

/// Flows at a time, of all client sides together, which share them. Each has a socket.
const MAX_FLOWS: usize = 1024;

/// See the module.
pub(crate) struct FarFlows {
    dialer: Arc<Dialer>,
    shared: Arc<Shared>,
    places: Arc<Places<PeerId>>,
}

impl FarFlows {
    pub(crate) fn new(dialer: Arc<Dialer>, shared: Arc<Shared>, share: Share) -> Self {
        Self {
            dialer,
            shared,
            places: Places::new(MAX_FLOWS, share),
        }
    }

    /// Serves the flow whose stream, of this peer, begins with these bytes. By then it has to have
    /// said where it goes.
    pub(crate) async fn serve<S: Sending, R: Receiving>(
        &self,
        (mut stream, peer): (Stream<S, R>, PeerId),
        begun: Vec<u8>,
        until: Instant,
    ) {
        if let Err(ending) = self.served((&mut stream, peer), begun, until).await {
            stream.break_off(ending);
        }
    }

    async fn served<S: Sending, R: Receiving>(
        &self,
        (stream, peer): (&mut Stream<S, R>, PeerId),
        begun: Vec<u8>,
        until: Instant,
    ) -> Result<(), Ending> {
        let opened = timeout_at(until, opened(&mut stream.receiving, begun)).await;
        let Opened { open, rest } = opened.map_err(|_| Ending::TimedOut)??;
        let place = self.places.take(peer).ok_or_else(|| {
            self.shared.board.count(Tally::DatagramFlowsRefused, 1);
            Ending::Overloaded
        })?;
        let mut server = Server::new(self.dialer.datagrams(open.target, peer).await?);
        let task = FlowTask {
            side: FlowSide::Far,
            endpoint: &mut server,
            stream,
            begun: Begun::Come(rest),
            meter: None,
            shared: &self.shared,
        };
        let over = task.run().await;
        drop((server, place));
        if over == Over::Rested {
            // The end of the stream crosses when the other side has something to say.
            tokio::select! {
                () = self.shared.over() => {}
                () = end_of(&mut stream.receiving) => {}
            }
        }
        stream.sending.finish();
        Ok(())
    }
}

/// Where a flow goes, and what came behind that.
struct Opened {
    open: FlowOpen,
    rest: Vec<u8>,
}

async fn opened(receiving: &mut impl Receiving, begun: Vec<u8>) -> Result<Opened, Ending> {
    let mut decoder = FlowOpenDecoder::default();
    let mut bytes = begun;
    loop {
        let mut rest = bytes.as_slice();
        let open = decoder.next(&mut rest).map_err(|_| Ending::Malformed)?;
        if let Some(open) = open {
            let rest = rest.to_vec();
            return Ok(Opened { open, rest });
        }
        let read = receiving.read().await;
        bytes = read.ok().flatten().ok_or(Ending::Malformed)?;
    }
}

async fn end_of(receiving: &mut impl Receiving) {
    while let Ok(Some(_)) = receiving.read().await {}
}
