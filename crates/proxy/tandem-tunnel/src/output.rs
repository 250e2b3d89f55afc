//! What goes into a relay and what comes out of it.
//!
//! Is not: how either is carried out; that is the adapter's.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tandem_engine::Engine;
use tandem_link::tunnel::{Ending, Open};
use tandem_wire::{Instant, UnixTime};

use crate::event::Event;

/// What time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// By the clock that only goes forward.
    pub now: Instant,
    /// By the calendar.
    pub wall: UnixTime,
}

/// What happened outside. The endpoint is the TCP connection on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// The endpoint sent this.
    Endpoint(&'a [u8]),
    /// The endpoint sends no more.
    EndpointEnd,
    /// The endpoint's connection failed, or could not be made.
    EndpointFailed(Ending),
    /// This came on the stream.
    Tunnel(&'a [u8]),
    /// The peer ended its direction of the stream.
    TunnelEnd,
    /// The peer reset the stream, asked for its end, or is gone.
    TunnelReset(Ending),
    /// Server side only: the connection to the target stands, with this address.
    Connected(SocketAddr),
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Output {
    /// Server side only: connect to this target, where it is allowed. The answer is
    /// [`Input::Connected`] or [`Input::EndpointFailed`].
    Connect(Open),
    /// Send this to the endpoint.
    ToEndpoint(Vec<u8>),
    /// Send the endpoint no more.
    EndEndpoint,
    /// Reset the endpoint's connection; the relay is over.
    AbortEndpoint(Ending),
    /// Send this on the stream.
    ToTunnel(Vec<u8>),
    /// End this direction of the stream.
    EndTunnel,
    /// Reset this direction of the stream and ask for the end of the other, with this code; the
    /// relay is over.
    ResetTunnel(Ending),
    /// The handshake is over: once what was to be sent on the stream before this has gone, other
    /// streams' handshakes go first.
    Bulk,
    /// Something to count.
    Event(Event),
}

/// Why a relay wants to be called at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wakeup {
    /// The peer has not said where the connection goes.
    Opening,
    /// The client has said nothing: the server may be meant to speak first.
    Silence,
    /// What is held has to go.
    Hold,
    /// The key of what is held may have come.
    Key,
}

/// What a relay works with while it handles one input.
pub(crate) struct Context<'a, S> {
    pub(crate) engine: &'a mut Engine<S>,
    pub(crate) clock: Clock,
    pub(crate) out: &'a mut VecDeque<Output>,
}

impl<S> Context<'_, S> {
    pub(crate) fn tell(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }
}
