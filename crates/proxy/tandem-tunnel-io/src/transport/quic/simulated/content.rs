//! What is in a datagram: the types of its QUIC packets, and the frames that quinn has counted.
//!
//! Is not: a parser for what comes from others; it reads what this process has written.

use quinn_proto::FrameStats;

/// The types of the QUIC packets in a datagram (RFC 9000, section 17).
pub(super) fn packets(mut bytes: &[u8]) -> String {
    let mut types = Vec::new();
    while let Some(first) = bytes.first() {
        if first & 0x80 == 0 {
            types.push(format!("1-RTT {}", bytes.len()));
            break;
        }
        let kind = match first >> 4 & 3 {
            0 => "Initial",
            1 => "0-RTT",
            2 => "Handshake",
            _ => "Retry",
        };
        let ids = 6 + usize::from(bytes[5]);
        let mut at = ids + 1 + usize::from(bytes[ids]);
        if kind == "Initial" {
            let (token, len) = varint(&bytes[at..]);
            at += len + token;
        }
        let (length, len) = varint(&bytes[at..]);
        let whole = (at + len + length).min(bytes.len());
        types.push(format!("{kind} {whole}"));
        bytes = &bytes[whole..];
    }
    types.join(" + ")
}

/// A number and its length (RFC 9000, section 16).
fn varint(bytes: &[u8]) -> (usize, usize) {
    let len = 1 << (bytes[0] >> 6);
    let value = bytes[1..len]
        .iter()
        .fold(usize::from(bytes[0] & 0x3f), |value, byte| {
            value << 8 | usize::from(*byte)
        });
    (value, len)
}

/// The frames that were sent between two counts.
pub(super) fn frames(before: &FrameStats, after: &FrameStats) -> String {
    let each = [
        ("CRYPTO", after.crypto - before.crypto),
        ("ACK", after.acks - before.acks),
        ("STREAM", after.stream - before.stream),
        ("PING", after.ping - before.ping),
        ("IMMEDIATE_ACK", after.immediate_ack - before.immediate_ack),
        ("ACK_FREQUENCY", after.ack_frequency - before.ack_frequency),
        (
            "HANDSHAKE_DONE",
            (after.handshake_done - before.handshake_done).into(),
        ),
        (
            "NEW_CONNECTION_ID",
            after.new_connection_id - before.new_connection_id,
        ),
        (
            "RETIRE_CONNECTION_ID",
            after.retire_connection_id - before.retire_connection_id,
        ),
        ("NEW_TOKEN", after.new_token - before.new_token),
        (
            "PATH_CHALLENGE",
            after.path_challenge - before.path_challenge,
        ),
        ("PATH_RESPONSE", after.path_response - before.path_response),
        ("MAX_DATA", after.max_data - before.max_data),
        (
            "MAX_STREAM_DATA",
            after.max_stream_data - before.max_stream_data,
        ),
        (
            "MAX_STREAMS",
            after.max_streams_bidi - before.max_streams_bidi,
        ),
        ("DATAGRAM", after.datagram - before.datagram),
    ];
    let sent = each.iter().filter(|(_, count)| *count > 0);
    let names: Vec<_> = sent
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    names.join(", ")
}
