//! All of a stream's half at a time, for the tests of both transports.

use super::{Broken, Receiving, Sending};

pub(super) async fn write_all(sending: &mut impl Sending, mut bytes: &[u8]) -> Result<(), Broken> {
    while !bytes.is_empty() {
        let written = sending.write(bytes).await?;
        bytes = &bytes[written..];
    }
    Ok(())
}

pub(super) async fn read_all(receiving: &mut impl Receiving) -> Result<Vec<u8>, Broken> {
    let mut all = Vec::new();
    while let Some(piece) = receiving.read().await? {
        all.extend_from_slice(piece.as_ref());
    }
    Ok(all)
}
