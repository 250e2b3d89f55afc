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
    /// Passes on what happened; what a direction that has ended brings is dropped. Failures are the
    /// relay's.
    pub(crate) fn handle(&mut self, input: Input<'_>, out: &mut VecDeque<Output>) {
        match (input, self.outward, self.inward) {
            (Input::Endpoint(bytes), Direction::Open, _) if !bytes.is_empty() => {
                out.push_back(Output::ToTunnel(bytes.to_vec()));
                self.lead.sent(bytes.len());
                self.lead.handed_over(out);
            }
            (Input::Tunnel(bytes), _, Direction::Open) if !bytes.is_empty() => {
                out.push_back(Output::ToEndpoint(bytes.to_vec()));
            }
            (Input::EndpointEnd, Direction::Open, _) => {
                self.outward = Direction::Ended;
                out.push_back(Output::EndTunnel);
            }
            (Input::TunnelEnd, _, Direction::Open) => {
                self.inward = Direction::Ended;
                out.push_back(Output::EndEndpoint);
            }
            (
                Input::Endpoint(_)
                | Input::Tunnel(_)
                | Input::EndpointEnd
                | Input::TunnelEnd
                | Input::Connected(_)
                | Input::EndpointFailed(_)
                | Input::TunnelReset(_),
                _,
                _,
            ) => {}
        }
    }

    /// Whether both directions have ended.
    pub(crate) fn is_over(&self) -> bool {
        (self.outward, self.inward) == (Direction::Ended, Direction::Ended)
    }
}
