//! Any bytes are safe, and what is read is written again as it was: the fuzz targets' checks, on
//! inputs that a seed gives.

use mctls::fuzzing::{mctls_frames, mctls_messages, mctls_records};
use proptest::collection::vec;
use proptest::prelude::*;

/// Types that a reader knows, so that it gets past the first byte.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![1u8..=5, 16u8..=21, any::<u8>()];
    (kind, vec(any::<u8>(), 0..200)).prop_map(|(kind, body)| {
        let [high, low] = (body.len() as u16).to_be_bytes();
        [&[kind, high, low], &body[..]].concat()
    })
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![20u8..=23, 0xb0u8..=0xb5, any::<u8>()];
    (kind, vec(any::<u8>(), 0..200)).prop_map(|(kind, body)| {
        let [high, low] = (body.len() as u16).to_be_bytes();
        [&[kind, 3, 3, high, low], &body[..]].concat()
    })
}

proptest! {
    #[test]
    fn messages_are_read_as_they_are_written(cut in any::<u8>(), all in vec(message(), 0..6)) {
        mctls_messages(&[&[cut], &all.concat()[..]].concat());
    }

    #[test]
    fn frames_are_read_as_they_are_written(cut in any::<u8>(), all in vec(frame(), 0..6)) {
        mctls_frames(&[&[cut], &all.concat()[..]].concat());
    }

    #[test]
    fn no_change_to_a_record_is_taken(
        shape in any::<u8>(),
        plan in any::<u8>(),
        changes in vec(any::<u8>(), 0..12),
    ) {
        mctls_records(&[&[1, shape, 0, plan], &changes[..]].concat());
    }

    #[test]
    fn any_bytes_are_safe_as_records(
        shape in any::<u8>(),
        author in 0u8..3,
        part in any::<u8>(),
        rest in vec(any::<u8>(), 0..300),
    ) {
        let header = [0, shape, shape, 0, 1, author, part, 0, 0, 0, 0, 0, 0, 0, 0];
        mctls_records(&[&header, &rest[..]].concat());
    }
}
