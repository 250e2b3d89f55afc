//! What must hold for any input of this crate: one function for each parser, called by the fuzz
//! targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use std::sync::Arc;

use crate::delta::{Delta, Instruction, MAX_REFERENCES, Source};
use crate::encoding::Encoding;
use crate::name::Reference;
use crate::writer::DeltaWriter;

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 3] = [
    ("delta", delta),
    ("delta_two", delta_two),
    ("delta_three", delta_three),
];

const LIMIT: usize = 4_096;

/// How many more bytes a larger offset takes at most.
const MAX_OFFSET_GROWTH: usize = 4;

/// Holds one object of 256 bytes under references that begin with 1 and the number 1, nothing else.
struct Ones(Arc<[u8]>);

impl Source for Ones {
    fn resolve(&mut self, reference: &Reference) -> Option<Arc<[u8]>> {
        (reference.0[0] == 1).then(|| Arc::clone(&self.0))
    }

    fn numbered(&mut self, number: u32) -> Option<Arc<[u8]>> {
        (number == 1).then(|| Arc::clone(&self.0))
    }
}

/// A delta in the first encoding: bounded, and the same when its instructions are written again.
pub fn delta(data: &[u8]) {
    read_and_written_again(Encoding::One, data);
}

/// The same in the second.
pub fn delta_two(data: &[u8]) {
    read_and_written_again(Encoding::Two, data);
}

/// The same in the third.
pub fn delta_three(data: &[u8]) {
    read_and_written_again(Encoding::Three, data);
}

fn read_and_written_again(encoding: Encoding, data: &[u8]) {
    let Ok(parsed) = Delta::parse(encoding, data, LIMIT) else {
        return;
    };
    assert!(parsed.rebuilt_len() <= LIMIT);
    let mut source = Ones((0..=255).collect());
    let built = parsed.apply(&mut source);
    if let Ok(built) = &built {
        assert_eq!(built.len(), parsed.rebuilt_len());
    }
    let mut writer = DeltaWriter::new(encoding);
    let mut references = 0;
    for instruction in parsed.instructions() {
        match instruction {
            Instruction::Add(bytes) => writer.add(bytes),
            Instruction::Copy {
                name,
                offset,
                length,
            } => {
                references += 1;
                writer.copy(*name, *offset, *length);
            }
            Instruction::Inflate {
                dictionaries,
                length,
                compressed,
            } => {
                references += dictionaries.len();
                writer.inflate(dictionaries, *length, compressed);
            }
        }
    }
    let written = writer.finish();
    // A place that stood in front of a literal is written behind it, where its offset is larger.
    let moved = match encoding.has_places() {
        true => MAX_OFFSET_GROWTH * references,
        false => 0,
    };
    assert!(references > MAX_REFERENCES || written.len() <= data.len() + moved);
    let again = Delta::parse(encoding, &written, LIMIT).expect("our own encoding");
    assert_eq!(again.apply(&mut source), built);
}
