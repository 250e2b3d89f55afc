//! A connection of which the proxies have nothing more to say: bytes pass.
//!
//! Invariant: no bytes are kept.

use std::collections::VecDeque;

use crate::output::{Input, Output};

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Bytes pass.
    Open,
    /// It has ended.
    Ended,
}

/// Bytes that an endpoint may send after a handshake that could not be followed to its end until
/// they are taken for bulk: a server's flight in TLS 1.3, its certificates among it, is shorter.
const HANDSHAKE_REST: usize = 16 * 1024;

/// How long what an endpoint sends goes before other connections' bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lead {
    /// While the handshake is followed.
    Handshake,
    /// For so many bytes more, at least one.
    Bytes(usize),
    /// Until what has been said is handed over.
    Ending,
    /// No more.
    Over,
}

impl Lead {
    /// The handshake is not followed any more, and may go on.
    pub(crate) fn unfollowed() -> Self {
        Self::Bytes(HANDSHAKE_REST)
    }

    /// The endpoint has sent so many bytes.
    pub(crate) fn sent(&mut self, len: usize) {
        if let Self::Bytes(left) = *self {
            *self = if len < left {
                Self::Bytes(left - len)
            } else {
                Self::Ending
            };
        }
    }

    /// What has been said is handed over.
    pub(crate) fn handed_over(&mut self, out: &mut VecDeque<Output>) {
        if *self == Self::Ending {
            *self = Self::Over;
            out.push_back(Output::Bulk);
        }
    }
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct Passing {
    /// From the endpoint to the tunnel.
    pub(crate) outward: Direction,
    /// From the tunnel to the endpoint.
    pub(crate) inward: Direction,
    pub(crate) lead: Lead,
}

impl Passing {
    /// Passes on what happened. Failures are the relay's.
    pub(crate) fn handle(&mut self, input: Input<'_>, out: &mut VecDeque<Output>) {
        match input {
            Input::Endpoint(bytes) => self.pass_to_tunnel(bytes.to_vec(), out),
            Input::Tunnel(bytes) => self.pass_to_endpoint(bytes.to_vec(), out),
            Input::EndpointEnd if self.outward == Direction::Open => {
                self.outward = Direction::Ended;
                out.push_back(Output::EndTunnel);
            }
            Input::TunnelEnd if self.inward == Direction::Open => {
                self.inward = Direction::Ended;
                out.push_back(Output::EndEndpoint);
            }
            Input::EndpointEnd
            | Input::TunnelEnd
            | Input::Connected(_)
            | Input::EndpointFailed(_)
            | Input::TunnelReset(_) => {}
        }
    }

    /// The endpoint has sent this; it is dropped where the endpoint had ended.
    pub(crate) fn pass_to_tunnel(&mut self, bytes: Vec<u8>, out: &mut VecDeque<Output>) {
        if self.outward == Direction::Open && !bytes.is_empty() {
            self.lead.sent(bytes.len());
            out.push_back(Output::ToTunnel(bytes));
            self.lead.handed_over(out);
        }
    }

    /// The same of what came on the stream.
    pub(crate) fn pass_to_endpoint(&self, bytes: Vec<u8>, out: &mut VecDeque<Output>) {
        if self.inward == Direction::Open && !bytes.is_empty() {
            out.push_back(Output::ToEndpoint(bytes));
        }
    }

    /// Whether both directions have ended.
    pub(crate) fn is_over(&self) -> bool {
        (self.outward, self.inward) == (Direction::Ended, Direction::Ended)
    }
}
