//! What binds a message to one TCP connection: the initial sequence numbers of its two ends.
//!
//! Is not: addresses; a NAT between the proxies changes those, and leaves sequence numbers alone. A
//! firewall that rewrites initial sequence numbers makes every tag wrong, and then nothing is
//! rewritten.

use tandem_wire::Seq;

/// The initial sequence numbers (RFC 9293, section 3.4.1) of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowId {
    /// The one in the client's SYN.
    pub client: Seq,
    /// The one in the server's SYN/ACK.
    pub server: Seq,
}

impl FlowId {
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.client.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.server.0.to_be_bytes());
        bytes
    }
}
