//! Blocks by hand, through the function that both hellos use.

use super::*;
use proptest::prelude::*;

/// A server_name, two of type 0x0a0a (as a careless client might send), an empty one of an unknown
/// type.
const BLOCK: [u8; 21] = [
    0, 19, 0x0a, 0x0a, 0, 1, 7, 0, 23, 0, 0, 0x0a, 0x0a, 0, 2, 8, 9, 0xff, 0x01, 0, 0,
];

fn parse(body: &[u8]) -> Result<Option<Extensions<'_>>, TlsError> {
    Extensions::parse_rest(body, Reader::new(body))
}

#[test]
fn order_duplicates_and_unknown_types_are_kept() {
    let block = parse(&BLOCK).expect("well formed").expect("a block");
    let types: Vec<_> = block.iter().map(|e| (e.extension_type.0, e.data)).collect();
    assert_eq!(
        types,
        [
            (0x0a0a, &[7][..]),
            (23, &[]),
            (0x0a0a, &[8, 9]),
            (0xff01, &[])
        ]
    );
    assert_eq!(block.range(), 2..21);
    let ranges: Vec<_> = block.iter().map(|e| e.range()).collect();
    assert_eq!(ranges, [2..7, 7..11, 11..17, 17..21]);
    let mut written = Vec::new();
    write_block(&mut written, pairs(&Some(block.to_pairs()))).expect("it fits");
    assert_eq!(written, BLOCK);
}

#[test]
fn a_duplicate_is_no_answer() {
    let block = parse(&BLOCK).expect("well formed").expect("a block");
    assert_eq!(block.find(ExtensionType(0x0a0a)), None);
    assert!(block.contains(ExtensionType(0x0a0a)));
    assert_eq!(block.find(ExtensionType(23)), Some(&[][..]));
    assert_eq!(block.find(ExtensionType(24)), None);
    assert!(!block.contains(ExtensionType(24)));
}

#[test]
fn no_block_an_empty_block_and_broken_blocks() {
    assert_eq!(parse(&[]), Ok(None));
    let empty = parse(&[0, 0]).expect("well formed").expect("a block");
    assert_eq!(empty.iter().count(), 0);
    for (block, error) in [
        (&[0][..], TlsError::Truncated),
        (&[0, 1], TlsError::Truncated),
        (&[0, 0, 0], TlsError::TrailingBytes),
        (&[0, 3, 0, 1, 0], TlsError::Truncated),
        (&[0, 4, 0, 1, 0, 1], TlsError::Truncated),
        (&[0, 1, 9], TlsError::Truncated),
    ] {
        assert_eq!(parse(block), Err(error), "{block:?}");
    }
}

#[test]
fn the_largest_number_of_extensions() {
    // 16,383 empty ones fill a block.
    let mut body = vec![0xff, 0xfc];
    body.extend(std::iter::repeat_n([0x12, 0x34, 0, 0], 16_383).flatten());
    let block = parse(&body).expect("well formed").expect("a block");
    assert_eq!(block.iter().count(), 16_383);
    let mut written = Vec::new();
    write_block(&mut written, pairs(&Some(block.to_pairs()))).expect("it fits");
    assert_eq!(written, body);
    let mut pairs_of_block = block.to_pairs();
    pairs_of_block.push((ExtensionType(1), Vec::new()));
    assert_eq!(
        write_block(&mut Vec::new(), pairs(&Some(pairs_of_block))),
        Err(TlsError::FieldTooLong)
    );
    assert_eq!(
        write_block(
            &mut Vec::new(),
            pairs(&Some(vec![(ExtensionType(1), vec![0; 65_536])]))
        ),
        Err(TlsError::FieldTooLong)
    );
}

/// Blocks of either kind of hello, and no block.
pub(in crate::tls) fn extensions() -> impl Strategy<Value = Option<Vec<(ExtensionType, Vec<u8>)>>> {
    let extension = (0..60_u16, proptest::collection::vec(any::<u8>(), 0..12))
        .prop_map(|(number, data)| (ExtensionType(number), data));
    proptest::option::of(proptest::collection::vec(extension, 0..6))
}
