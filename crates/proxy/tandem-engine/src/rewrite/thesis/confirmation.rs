//! The confirmation (McVeety 2009, section 3.2.5, steps 4 to 8: possession answer): an extension
//! that the server-side proxy adds to the ServerHello, and the client-side one takes off.
//!
//! Is not: sent where nobody takes it off; it rides in a flight with a CompressedCertificate, which
//! needs the other proxy in any case.
//!
//! ```text
//! confirmation   extension, last of the ServerHello:
//!                reference{1..}, those of the client's CII that are held
//! ```
//!
//! Invariant: [`take`] undoes [`add`] to the byte.

use tandem_wire::tls::{ExtensionType, HandshakeType, ServerHello};

use super::{Codes, MESSAGE_HEADER, message, message_in_record, splice, without_last};
use tandem_delta::Reference;

/// The run of records with the confirmation in its ServerHello; `None` where there is nothing to
/// say, or where it could not be told from what the server said.
pub fn add(bytes: &[u8], held: &[Reference], codes: Codes) -> Option<Vec<u8>> {
    let (record, whole) = message_in_record(bytes, HandshakeType::SERVER_HELLO.0)?;
    let body = &bytes[whole.start + MESSAGE_HEADER..whole.end];
    let hello = ServerHello::parse(body).ok()?;
    if held.is_empty() {
        return None;
    }
    let mut extension = codes.possession.to_be_bytes().to_vec();
    let length = held.len() * Reference::LEN;
    extension.extend_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
    held.iter()
        .for_each(|reference| extension.extend_from_slice(&reference.0));
    let mut edited = body.to_vec();
    match hello.extensions() {
        None => edited.extend_from_slice(&u16::try_from(extension.len()).ok()?.to_be_bytes()),
        Some(block) => {
            let length = block.as_bytes().len();
            // An empty block could not be told from none afterwards.
            if length == 0 || block.contains(ExtensionType(codes.possession)) {
                return None;
            }
            let at = body.len() - length - 2;
            edited[at..at + 2]
                .copy_from_slice(&u16::try_from(length + extension.len()).ok()?.to_be_bytes());
        }
    }
    edited.extend_from_slice(&extension);
    let edited = message(HandshakeType::SERVER_HELLO.0, &edited)?;
    splice(bytes, record, whole, &edited)
}

/// Undoes [`add`]: the records as the server sent them, and what is held. `None` where there is no
/// confirmation in them.
pub fn take(bytes: &[u8], codes: Codes) -> Option<(Vec<u8>, Vec<Reference>)> {
    let (record, whole) = message_in_record(bytes, HandshakeType::SERVER_HELLO.0)?;
    let body = &bytes[whole.start + MESSAGE_HEADER..whole.end];
    let hello = ServerHello::parse(body).ok()?;
    let (held, edited) = without_last(body, hello.extensions()?, codes)?;
    let edited = message(HandshakeType::SERVER_HELLO.0, &edited)?;
    Some((splice(bytes, record, whole, &edited)?, held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{apart, chain, flight, message, noise, packed};

    const HELD: [Reference; 2] = [Reference([7; 16]), Reference([8; 16])];

    /// A server's flight whose hello has this extension block, its length included.
    fn with(block: &[u8]) -> Vec<Vec<u8>> {
        let mut messages = flight(&chain(&[300]));
        let mut body = vec![3, 3];
        body.extend(noise(32, 2));
        body.extend([0, 0xc0, 0x2f, 0]);
        body.extend(block);
        messages[0] = message(2, &body);
        messages
    }

    #[test]
    fn a_confirmation_is_taken_off_again_to_the_byte() {
        let codes = Codes::default();
        for block in [&[][..], &[0, 5, 0xff, 1, 0, 1, 0]] {
            for bytes in [apart(&with(block)), packed(&with(block), 1 << 14)] {
                assert_eq!(take(&bytes, codes), None);
                let longer = add(&bytes, &HELD, codes).expect("there is room");
                assert_eq!(take(&longer, codes), Some((bytes, HELD.to_vec())));
                assert_eq!(add(&longer, &HELD, codes), None, "one is enough");
            }
        }
    }

    #[test]
    fn what_could_not_be_undone_is_not_done() {
        let codes = Codes::default();
        let plain = apart(&with(&[]));
        assert_eq!(add(&plain, &[], codes), None);
        // An empty block; the number in use; a hello over two records; no hello at all.
        let used = [0, 4, 0, 0x99, 0, 0];
        for bytes in [
            apart(&with(&[0, 0])),
            apart(&with(&used)),
            packed(&with(&[]), 30),
            apart(&[message(14, &[])]),
            b"HTTP/1.1 200 OK\r\n".to_vec(),
        ] {
            assert_eq!(add(&bytes, &HELD, codes), None);
            assert_eq!(take(&bytes, codes), None);
        }
    }
}
