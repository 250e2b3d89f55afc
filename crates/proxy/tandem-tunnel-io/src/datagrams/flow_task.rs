//! A flow at one side: moves payloads between the endpoint and the tunnel until it is over.
//!
//! Is not: where the flow goes, nor which way a payload takes ([`Flow`]).
//!
//! Invariants: nothing is waited for but with everything else; what the client has used up of its
//! limit ends the flow.

use tandem_link::tunnel::Ending;
use tandem_tunnel::{Crossing, Flow, FlowSide, Standing};
use tokio::time::{Instant, sleep_until};

use super::endpoint::{Endpoint, Gone};
use crate::board::Tally;
use crate::limits::Meter;
use crate::shared::Shared;
use crate::transport::{Broken, Datagrams as _, Receiving, Sending, Stream};

/// A flow, its endpoint and its stream.
pub(super) struct FlowTask<'a, E, S, R> {
    pub(super) side: FlowSide,
    pub(super) endpoint: &'a mut E,
    pub(super) stream: &'a mut Stream<S, R>,
    /// What has come of the stream behind its first message, or what is to be sent as that.
    pub(super) begun: Begun,
    pub(super) meter: Option<Meter>,
    pub(super) shared: &'a Shared,
}

/// Bytes of the stream.
pub(super) enum Begun {
    /// They have come.
    Come(Vec<u8>),
    /// They are to be sent.
    ToSend(Vec<u8>),
}

/// Why a flow is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// The client has said nothing for long, or is gone.
    Rested,
    /// The other side has ended it in order, or this side ends.
    Ended,
    /// The other side gave it up, for this reason.
    Refused(Ending),
    /// The tunnel is lost.
    Lost,
    /// The other side sent what is none of its messages.
    Malformed,
}

/// What happens next.
enum Next {
    Said(Result<Vec<u8>, Gone>),
    Heard(Vec<u8>),
    Read(Result<Option<Vec<u8>>, Broken>),
    Written(Result<usize, Broken>),
    Room,
    Rested,
    Ended,
}

impl<E: Endpoint, S: Sending, R: Receiving> FlowTask<'_, E, S, R> {
    /// Until it is over. The stream is left as it is, unless the other side broke the rules.
    pub(super) async fn run(self) -> Over {
        let Self {
            side,
            endpoint,
            stream,
            begun,
            meter,
            shared,
        } = self;
        let (clocks, board) = (shared.clocks, &shared.board);
        let _shown = board.flow_of_datagrams();
        stream.sending.lower_priority();
        let datagrams = stream.sending.datagrams();
        let mut flow = Flow::new(side, clocks.now());
        let (mut come, mut to_send) = match begun {
            Begun::Come(come) => (come, Vec::new()),
            Begun::ToSend(to_send) => (Vec::new(), to_send),
        };
        let has_bytes = |bytes| match &meter {
            None => true,
            Some(meter) => match meter.charge(bytes) {
                Standing::Within => true,
                Standing::Reached | Standing::AtLimit => {
                    board.count(Tally::RelaysEndedByLimit, 1);
                    false
                }
            },
        };
        let give = |endpoint: &mut E, payload: &[u8]| {
            board.count(Tally::DatagramsToEndpoints, 1);
            board.count(Tally::DatagramBytesToEndpoints, payload.len());
            endpoint.give(payload);
        };
        // Since when the next payload waits for room.
        let mut waits_since = None;
        loop {
            if !has_bytes(come.len()) {
                return Over::Rested;
            }
            let mut rest = come.as_slice();
            loop {
                match flow.read(&mut rest, clocks.now()) {
                    Ok(Some(payload)) => give(endpoint, &payload),
                    Ok(None) => break,
                    Err(_) => {
                        stream.break_off(Ending::Malformed);
                        return Over::Malformed;
                    }
                }
            }
            come = Vec::new();
            let next_len = to_send
                .is_empty()
                .then(|| flow.next_len(clocks.now()))
                .flatten();
            let dropped = flow.take_dropped();
            if dropped > 0 {
                board.count(Tally::DatagramsDropped, dropped);
            }
            waits_since = next_len.map(|_| waits_since.unwrap_or_else(Instant::now));
            let next = tokio::select! {
                payload = endpoint.next() => Next::Said(payload),
                payload = datagrams.receive() => Next::Heard(payload),
                read = stream.receiving.read() => Next::Read(read),
                written = stream.sending.write(&to_send), if !to_send.is_empty() => {
                    Next::Written(written)
                }
                () = async {
                    if let (Some(len), Some(since)) = (next_len, waits_since) {
                        datagrams.room(len, since).await;
                    }
                }, if next_len.is_some() => Next::Room,
                () = sleep_until(clocks.moment(flow.ends())) => Next::Rested,
                () = shared.over() => Next::Ended,
            };
            match next {
                Next::Said(Ok(payload)) => {
                    board.count(Tally::DatagramsFromEndpoints, 1);
                    board.count(Tally::DatagramBytesFromEndpoints, payload.len());
                    flow.take(payload, clocks.now());
                }
                Next::Heard(payload) => {
                    if !has_bytes(payload.len()) {
                        return Over::Rested;
                    }
                    flow.heard(clocks.now());
                    give(endpoint, &payload);
                }
                Next::Read(Ok(Some(bytes))) => come = bytes,
                Next::Written(Ok(len)) => {
                    if !has_bytes(len) {
                        return Over::Rested;
                    }
                    to_send.drain(..len);
                }
                Next::Room => {
                    waits_since = None;
                    match flow.poll(datagrams.max_len()) {
                        Some(Crossing::Datagram(payload)) => {
                            if !has_bytes(payload.len()) {
                                return Over::Rested;
                            }
                            datagrams.send(&payload);
                        }
                        Some(Crossing::Stream(bytes)) => to_send = bytes,
                        None => {}
                    }
                }
                // The client hears of it what it would hear without the proxies.
                Next::Said(Err(Gone::Unreachable(why))) => {
                    stream.break_off(why);
                    return Over::Ended;
                }
                Next::Said(Err(Gone::Left)) | Next::Rested => return Over::Rested,
                Next::Read(Ok(None)) | Next::Ended => return Over::Ended,
                Next::Read(Err(why)) | Next::Written(Err(why)) => {
                    return match why {
                        Broken::ByPeer(code) => Over::Refused(Ending::from_code(code)),
                        Broken::Lost => Over::Lost,
                    };
                }
            }
        }
    }
}
