//! What an option or a frame says, in words: for comments in captures.
//!
//! Is not: a check of tags; this is a look from outside, without the key, at what may be anything.
//!
//! Invariant: bounded work, and no word about bytes that do not have a message's exact form.

use tandem_delta::{Delta, Instruction};

use super::frame::{Frame, Parsed, Sender};
use super::option::{HintId, ProxyOption, ProxyOptionKind};
use super::publication;
use super::version::Version;

/// A proxy option, by its data: what follows the experiment's identifier.
pub fn option(data: &[u8]) -> Option<String> {
    let option = ProxyOption::parse(data)?;
    // Version and type, and the tag of seven bytes.
    let entries = data.len().saturating_sub(1 + 7) / size_of::<HintId>();
    Some(match option.kind() {
        ProxyOptionKind::Presence => match option.known_fingerprint() {
            Some(known) => format!(
                "presence: a client-side proxy is here, and goes by holdings {:08x}",
                known
            ),
            None => "presence: a client-side proxy is here".to_owned(),
        },
        ProxyOptionKind::Answer => "answer: a server-side proxy is here".to_owned(),
        ProxyOptionKind::Hint => format!("hint: {} held at the clients' side", things(entries)),
        ProxyOptionKind::Miss(Sender::Server) => "miss: send the server's originals".to_owned(),
        ProxyOptionKind::Miss(Sender::Client) => "miss: send the client's originals".to_owned(),
        ProxyOptionKind::Held => {
            let bits = data.get(1..5)?.iter().map(|byte| byte.count_ones());
            let count = bits.sum::<u32>() as usize;
            format!(
                "held: of the hello's certificates, {} held at the servers' side",
                things(count)
            )
        }
    })
}

/// The frame that a segment's payload begins with, where the segment holds all of it.
pub fn frame(payload: &[u8]) -> Option<String> {
    let version = Version::new(payload.first()? >> 4)?;
    if let Some(said) = publication::parse(payload) {
        return Some(format!(
            "publication: {} bytes, a filter of one in {} over {} clients' chains; holdings {:08x}",
            payload.len(),
            said.rate,
            said.count,
            said.fingerprint
        ));
    }
    [(Sender::Server, "server"), (Sender::Client, "client")]
        .into_iter()
        .find_map(
            |(sender, whose)| match Frame::parse(payload, version, sender) {
                Parsed::Whole(frame) => Some(flight(&frame, version, whose)),
                Parsed::Cut { .. } | Parsed::No => None,
            },
        )
}

fn flight(frame: &Frame<'_>, version: Version, whose: &str) -> String {
    let front = format!(
        "frame: {} bytes in place of {} of the {whose}'s flight",
        frame.length, frame.span
    );
    let Ok(delta) = Delta::parse(version.encoding(), frame.delta, frame.span) else {
        return front + ", not a delta of ours";
    };
    let (mut literal, mut copied, mut copies) = (0, 0, 0);
    let (mut compressed, mut into) = (0, 0);
    for instruction in delta.instructions() {
        match instruction {
            Instruction::Add(bytes) => literal += bytes.len(),
            Instruction::Copy { length, .. } => {
                copied += length;
                copies += 1;
            }
            Instruction::Inflate {
                length,
                compressed: bytes,
                ..
            } => {
                compressed += length;
                into += bytes.len();
            }
        }
    }
    let ranges = if copies == 1 { "range" } else { "ranges" };
    let compressed = if compressed > 0 {
        format!("{compressed} compressed into {into}, ")
    } else {
        String::new()
    };
    format!(
        "{front}: {literal} as they are, {compressed}{copied} in {copies} {ranges} of what is held"
    )
}

fn things(count: usize) -> String {
    match count {
        0 => "nothing is".to_owned(),
        1 => "1 thing is".to_owned(),
        count => format!("{count} things are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inband::flow::FlowId;
    use crate::inband::key::Key;
    use tandem_delta::{DeltaWriter, Encoding, Reference};
    use tandem_wire::Seq;

    const FLOW: FlowId = FlowId {
        client: Seq(1),
        server: Seq(2),
    };

    #[test]
    fn options_and_frames_are_told_and_nothing_else() {
        let key = Key::from_bytes([1; 32]);
        let hint = crate::inband::option::hint(&key, FLOW, Version::ONE, &[[1; 4], [2; 4]]);
        assert_eq!(
            option(&hint[4..]).as_deref(),
            Some("hint: 2 things are held at the clients' side")
        );
        let held = crate::inband::option::held(&key, FLOW, Version::ONE, 0x8000_0005);
        assert_eq!(
            option(&held[4..]).as_deref(),
            Some("held: of the hello's certificates, 3 things are held at the servers' side")
        );
        let mut delta = DeltaWriter::new(Encoding::One);
        delta.add(&[7; 20]);
        delta.copy(Reference([3; 16]), 0, 400);
        let written = crate::inband::frame::write(
            &key,
            (FLOW, Version::ONE, Sender::Client),
            Seq(9),
            &delta.finish(),
            &[7; 420],
        )
        .expect("it is shorter");
        let words = frame(&written).expect("a frame");
        assert!(
            words.ends_with("in place of 420 of the client's flight: 20 as they are, 400 in 1 range of what is held"),
            "{words}"
        );
        assert_eq!(frame(&written[..30]), None);
        let said = publication::Publication {
            fingerprint: 0xab,
            rate: 256,
            count: 1,
            bits: &[0x5a, 0x80],
        };
        let written = publication::write(&key, FLOW, Version::ONE, &said);
        assert_eq!(
            frame(&written).as_deref(),
            Some(
                "publication: 19 bytes, a filter of one in 256 over 1 clients' chains; holdings 000000ab"
            )
        );
        let presence = crate::inband::option::presence_knowing(&key, Seq(1), Version::ONE, 0xcd);
        assert_eq!(
            option(&presence[4..]).as_deref(),
            Some("presence: a client-side proxy is here, and goes by holdings 000000cd")
        );
        assert_eq!(frame(&[0x16, 3, 3, 0, 50, 2, 0, 0]), None);
        assert_eq!(frame(&[]), None);
        assert_eq!(option(&[0x1f; 12]), None);
    }
}
