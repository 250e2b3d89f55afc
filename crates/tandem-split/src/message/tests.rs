//! What must hold of single messages and of streams of them.

use super::*;
use crate::name::PayloadName;
use crate::object::ObjectName;
use crate::seal::Mac;
use crate::suite::Suite;

fn read(bytes: &[u8]) -> Result<Message<'_>, Error> {
    match Message::read(bytes)? {
        Read::Whole(message, length) => {
            assert_eq!(length, bytes.len());
            Ok(message)
        }
        Read::Cut { length } => panic!("cut, of {length:?}"),
    }
}

fn written(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.write(&mut out);
    out
}

#[test]
fn stubs_and_keys_are_those_of_the_thesis() {
    // Figure 3-2: length = 6 + length(id) + length(mac).
    let mac = Mac::new(&[0xaa; 20]);
    let stub = Message::Stub(Stub::literal(RecordType::Alert, &[1, 0], &mac));
    let head = [0x95, 3, 3, 0, 28, 0, 1, 0, 2, 1, 0, 0, 20];
    assert_eq!(written(&stub), [&head[..], &[0xaa; 20]].concat());
    assert_eq!(read(&written(&stub)), Ok(stub));

    let name = PayloadName::Sha1([0xbb; 20]);
    let stub = Message::Stub(Stub::named(RecordType::ApplicationData, name, &mac));
    let head = [0x97, 3, 3, 0, 46, 0, 2, 0, 20];
    let expected = [&head[..], &[0xbb; 20], &[0, 20], &[0xaa; 20]].concat();
    assert_eq!(written(&stub), expected);
    assert_eq!(read(&expected), Ok(stub));

    // Figure 3-3, with the suite in front of it.
    let keys = KeyExpose::new(Suite::EcdheRsaAes128CbcSha, &[0xcc; 16]).expect("16 bytes");
    let keys = Message::KeyExpose(keys);
    let head = [0x58, 3, 3, 0, 22, 0xc0, 0x13, 0, 16];
    assert_eq!(written(&keys), [&head[..], &[0xcc; 16], &[0, 0]].concat());
    assert_eq!(read(&written(&keys)), Ok(keys));
}

#[test]
fn a_run_costs_its_macs_and_57_bytes() {
    let run = Run {
        object: ObjectName([1; 32]),
        offset: 16_384,
        record_len: 16_384,
        last_len: 576,
        count: 62,
    };
    let macs = vec![2; 62 * 20];
    let stub = Message::Stub(Stub::run(run, &macs));
    let bytes = written(&stub);
    assert_eq!(bytes.len(), 57 + 62 * 20);
    assert_eq!(read(&bytes), Ok(stub));
    assert_eq!(run.len(), 1_000_000);
    assert_eq!(run.end(), Some(1_016_384));
}
