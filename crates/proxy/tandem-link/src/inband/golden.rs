//! Messages byte for byte, computed apart from this crate from the layouts in its documentation.
//!
//! Is not: a test of what is believed; those stand with each message. What changes here is another
//! version ([`super::version`]).

use tandem_wire::Seq;

use super::frame::{self, Sender};
use super::publication::{self, Publication};
use super::{FlowId, Key, Version, option};

const FLOW: FlowId = FlowId {
    client: Seq(0x0102_0304),
    server: Seq(0xa0b0_c0d0),
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn each_message_has_the_bytes_of_its_layout() {
    let key = Key::from_bytes([5; 32]);
    let (client, two) = (FLOW.client, Version::TWO);
    let what = (FLOW, two, Sender::Server);
    let said = Publication {
        fingerprint: 0xabcd,
        rate: 256,
        count: 3,
        bits: &[0xa5, 0x5a, 0xa5, 0x50],
    };
    let written = [
        option::presence(&key, client, two),
        option::presence_knowing(&key, client, two, 0xabcd),
        option::answer(&key, FLOW, two),
        option::hint(&key, FLOW, two, &[[1; 4], [2; 4]]),
        option::miss(&key, FLOW, two, Sender::Server),
        option::miss(&key, FLOW, two, Sender::Client),
        option::held(&key, FLOW, two, 0x8000_0005),
        frame::write(&key, what, Seq(10), &[9; 5], &[7; 420]).expect("it is shorter"),
        publication::write(&key, FLOW, two, &said),
    ];
    let expected = [
        "fd0c544421001346b61aea0a",
        "fd105444210000abcdfefc8ac73f6c42",
        "fd0c544422edfabfd7066cbd",
        "fd14544423010101010202020237850cc26c3ea7",
        "fd0c5444249f7e4c5c1a6f9c",
        "fd0c544425c1a28f5d31db73",
        "fd1054442680000005268302fcfc0beb",
        "21a4030509090909097fb5e2bd6272fa41",
        "230000abcd80020304a55aa5503b32397d5b485894",
    ];
    for (written, expected) in written.iter().zip(expected) {
        assert_eq!(hex(written), expected);
    }
}
