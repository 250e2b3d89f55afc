//! What must hold for any layout that is read, called by the fuzz target in `fuzz/` and by the
//! replay of its corpus.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use tandem_record_key::{CLIENT_RANDOM_LEN, Direction, IV_LEN, RecordKey, Suite};
use tandem_wire::tls::Records;

use crate::layout::{Layout, MAX_RECORDS};
use crate::record::{Opener, Sealer};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("seal_layout", seal_layout)];

/// The messages that layouts are of.
const MESSAGES: [u8; 5] = [4, 40, 200, 36, 255];

/// What is read as a layout is bounded, and the records that are sealed by it open to the same
/// plaintext and the same layout.
///
/// # Panics
/// That does not hold.
pub fn seal_layout(data: &[u8]) {
    let plaintext: Vec<u8> = MESSAGES
        .iter()
        .flat_map(|&length| {
            let body = vec![length; usize::from(length) - 4];
            [&[11, 0, 0, length - 4][..], &body].concat()
        })
        .collect();
    let Some(layout) = Layout::decode(&mut &data[..], &plaintext) else {
        return;
    };
    let random = [1; CLIENT_RANDOM_LEN];
    let key = RecordKey::new(
        Direction::FromServer,
        Suite::Aes128Gcm,
        random,
        &[2; IV_LEN],
        &[3; 16],
    )
    .expect("the suite's length");
    let sealed = layout.seal(&plaintext, &mut Sealer::new(&key));
    let sealed = sealed.expect("a layout of the plaintext");
    assert_eq!(sealed.len(), layout.sealed_len());
    let (mut opener, mut again, mut opened) = (Opener::new(&key), Layout::default(), Vec::new());
    let mut records = 0;
    for record in Records::new(&sealed) {
        let record = record.expect("our own record");
        let record = opener.open(&sealed[record.range]).expect("our own record");
        assert!(again.push(&record));
        opened.extend_from_slice(&record.content);
        records += 1;
    }
    assert!(records <= MAX_RECORDS && opened == plaintext && again == layout);
    let mut encoded = Vec::new();
    again.encode(&plaintext, &mut encoded);
    let read = Layout::decode(&mut &encoded[..], &plaintext);
    assert!(read == Some(layout), "our own encoding");
    assert!(encoded.len() <= data.len(), "the shortest encoding");
}
