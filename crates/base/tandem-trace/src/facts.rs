//! What a capture is made of: plain counts, serialized as they stand into reports.

use serde::Serialize;

/// What the capture is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CaptureFacts {
    /// Frames read.
    pub frames: u64,
    /// Earliest time stamp, microseconds since 1970; none where no frame has one.
    pub first_unix_micros: Option<u64>,
    /// Latest time stamp.
    pub last_unix_micros: Option<u64>,
    /// Seconds between the two.
    pub seconds: f64,
    /// Bytes of all IP packets as they were on the link, headers included.
    pub ip_bytes: u64,
    /// TCP packets.
    pub tcp_packets: u64,
    /// Payload bytes of TCP packets, retransmissions included.
    pub tcp_payload_bytes: u64,
    /// TCP connections.
    pub connections: u64,
    /// Of them, those that were open when the capture began: their handshakes are not in it.
    pub connections_already_open: u64,
    /// Connections that the capture shows in one direction only, with a handshake.
    pub one_sided_handshakes: u64,
    /// QUIC Initial datagrams: their handshakes are TLS 1.3, encrypted, and not counted above.
    pub quic_initial_datagrams: u64,
    /// DTLS ClientHello datagrams: not counted above.
    pub dtls_client_hello_datagrams: u64,
}
