//! Messages that are the whole of one direction of a stream of the tunnel.

use crate::transport::{Broken, Receiving, Sending};

/// Writes a message and ends the direction.
pub(crate) async fn write_whole(sending: &mut impl Sending, message: &[u8]) -> Result<(), Broken> {
    let mut rest = message;
    while !rest.is_empty() {
        let written = sending.write(rest).await?;
        rest = rest.get(written..).unwrap_or_default();
    }
    sending.finish();
    Ok(())
}

/// Reads on to the end of the direction, behind what has been read of it already. `None` where it
/// breaks, or has more than `max` bytes.
pub(crate) async fn read_whole(
    receiving: &mut impl Receiving,
    begun: &[u8],
    max: usize,
) -> Option<Vec<u8>> {
    let mut message = begun.to_vec();
    while message.len() <= max {
        match receiving.read().await.ok()? {
            Some(piece) => message.extend_from_slice(&piece),
            None => return Some(message),
        }
    }
    None
}
