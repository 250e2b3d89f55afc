//! Vectors of the format.
//!
//! They were computed from the facts in `docs/mctls12.md` by a program of its own (Python's `hmac`
//! and `hashlib`, AES by the `openssl` command), not by this crate and not by the prototype.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use mctls::config::Right;
use mctls::party::{ContextId, Direction};
use mctls12::list::{Context, MiddleboxList, Place};
use zeroize::Zeroizing;

use crate::endpoint::Handshake;
use crate::error::Malformed;
use crate::list::Proposal;
use crate::message::{Material, Message, write_parts};
use crate::prf::Transcript;
use crate::protect::{Aes, seal, tag};
use crate::record::ContentType;
use crate::rehearsal::{entropy, records};
use crate::schedule::{Master, Part, Parts, Randoms, context_keys, wholes};
use crate::session::{Event, Provenance, Receiver};

use Right::{None as No, Read, Write};

fn hex(text: &str) -> Vec<u8> {
    HEXLOWER.decode(text.as_bytes()).expect("hexadecimal")
}

const IV: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

const RANDOMS: Randoms = Randoms {
    client: [0xc1; 32],
    server: [0x52; 32],
};

fn master() -> Master {
    let premaster: Vec<u8> = (0..127).collect();
    Master::new(&premaster, &RANDOMS)
}

fn part(read: impl Fn(u8) -> u8, write: impl Fn(u8) -> u8) -> Part {
    let half = |of: &dyn Fn(u8) -> u8, first: u8| {
        let mut half = Zeroizing::new([0; 64]);
        for (byte, number) in half.iter_mut().zip(first..) {
            *byte = of(number);
        }
        Some(half)
    };
    Part {
        read: half(&read, 0),
        write: half(&write, 64),
    }
}

/// Both endpoints' halves for slice 2.
fn contexts() -> Parts {
    let client = part(|number| number, |number| number);
    let server = part(|_| 0x5a, |_| 0xa5);
    wholes(&[(2, client)].into(), &[(2, server)].into())
}

#[test]
fn the_extension_has_these_bytes() {
    let place = |name: &str, address: &str| Place {
        name: name.into(),
        address: address.into(),
    };
    let context = |id, purpose: &str, rights: &[Right]| Context {
        id: ContextId(id),
        purpose: purpose.into(),
        rights: rights.to_vec(),
    };
    let list = MiddleboxList::new(
        place("h", "h:1"),
        vec![place("a", "a:2"), place("b", "b:3")],
        vec![context(1, "x", &[Read, No]), context(2, "", &[Write, Read])],
    );
    let proposal = Proposal::new(list.expect("good")).expect("few contexts");
    let mut bytes = Vec::new();
    proposal.write(&mut bytes);
    let expected = [
        "02", "020178", "0300", // two slices, 2 "x" and 3 ""
        "02",   // two middleboxes
        "03", "03613a32", "020203", "0103", // 3 at a:2 reads 2 and 3, writes 3
        "04", "03623a33", "0103", "00",       // 4 at b:3 reads 3
        "03683a31", // the server
    ];
    assert_eq!(HEXLOWER.encode(&bytes), expected.concat());
    assert_eq!(Proposal::read(&bytes), Ok(proposal));
    for end in 0..bytes.len() {
        assert!(Proposal::read(&bytes[..end]).is_err());
    }
    // A slice of the handshake as a context; an id twice; to write without reading.
    let refused = Proposal::read(&hex("01010000036831"));
    assert_eq!(refused, Err(Malformed::Value));
    let refused = Proposal::read(&hex("01020002030161000003016200000168"));
    assert_eq!(refused, Err(Malformed::Value));
    let read = Proposal::read(&hex("0102000103016100010201680a")).map(drop);
    assert_eq!(read, Err(Malformed::TrailingBytes));
    let read = Proposal::read(&hex("010200010301610001020168")).expect("good");
    assert_eq!(read.list.contexts()[0].rights, [No]);
}

#[test]
fn the_client_hello_has_these_bytes() {
    let mut hello = Vec::new();
    let context = Context {
        id: ContextId(1),
        purpose: String::new(),
        rights: vec![],
    };
    let server = Place {
        name: "h".into(),
        address: "h".into(),
    };
    let list = MiddleboxList::new(server, vec![], vec![context]).expect("good");
    let verify = Arc::new(crate::rehearsal::Anybody);
    Handshake::client(list, verify, entropy(1), &mut hello).expect("few contexts");
    let expected = [
        "160666004100", // a record of the handshake, slice 0
        "0100003d",
        "0666", // ClientHello
    ]
    .concat();
    assert_eq!(HEXLOWER.encode(&hello[..12]), expected);
    let expected = [
        "00", "00020067", "0100", // no session, the suite, no compression
        "0012", // extensions
        "ff060006", "01", "0200", "00", "0168", // the list
        "000d0004", "0002", "0401", // RSA with SHA-256
    ];
    assert_eq!(HEXLOWER.encode(&hello[44..]), expected.concat());
}

#[test]
fn keys_finished_messages_and_alerts_have_these_bytes() {
    let master = master();
    let mut transcript = Transcript::default();
    transcript.add(b"all ");
    transcript.add(b"messages");
    let verify = master.finished(Direction::ToServer, &transcript);
    assert_eq!(HEXLOWER.encode(&verify), "8402c7a433c90b5b7904a07b");
    let message = Message::Finished(verify.to_vec()).to_bytes();
    let to_server = master.keys(&RANDOMS, Direction::ToServer);
    let expected = "000102030405060708090a0b0c0d0e0f\
        fcbb80acb323d949bbdf8102ac3473ad828f190098fcc0cb2edc81afbc32b7c4\
        2779e239f8f6a5f463f1fbdfd289fe32b99591e2b980d33feb522fb29080c357";
    let sealed = to_server.seal_finished(IV, &message);
    assert_eq!(HEXLOWER.encode(&sealed), expected);
    assert_eq!(to_server.open_finished(&sealed), Some(message));
    let to_client = master.keys(&RANDOMS, Direction::ToClient);
    assert_eq!(to_client.open_finished(&sealed), None);
    let expected = "000102030405060708090a0b0c0d0e0f\
        3a4cbaeaf2bacd612b95242f93d493898a3a8b9165c2d9ca7934a92c37116226\
        7973f91ec7d279e97de26b0179b44a354ad9629749dafc973281d61cc0ceca7f\
        2b6bf3496efc374b9f5096220b0c82f1109fbc287bec52c0d8c5669a3bece514\
        2cba2e6e21bc4df6accbf4b8a6d9fc9d";
    let sealed = to_client.seal_alert(IV, [1, 0]);
    assert_eq!(HEXLOWER.encode(&sealed), expected);
    assert_eq!(to_client.open_alert(&sealed), Some(vec![1, 0]));
}

const DATA: &str = "170666008002000102030405060708090a0b0c0d0e0f\
    123f78b1703c118eec6bf5fb3a2d8185b9a267eaa48a7709d45bcf4c2c666c15\
    85401423557722f871096fd4e30e666495cb7cdc4bb817ed6318958811283\
    2ef7c325aeddaf52842cf0656d2b1f7b6ed671139f10a466e5a1df2641f8a94\
    696a7e7335ea138dcd34ac478040a6d3a076";

#[test]
fn a_record_of_a_context_has_these_bytes() {
    let keys = context_keys(&contexts());
    let keys = &keys[&2];
    let end = master().keys(&RANDOMS, Direction::ToServer);
    let writers = keys.writers.as_ref().expect("all of them");
    let kind = ContentType::ApplicationData;
    let macs = [&keys.readers, writers, &end.mac].map(|key| tag(key, kind, b"GET /"));
    let mut bytes = Vec::new();
    let fragment = seal(&keys.cipher, IV, b"GET /", &macs);
    crate::record::write(&mut bytes, kind, 2, &fragment);
    assert_eq!(HEXLOWER.encode(&bytes), DATA);
    let mut receiver = Receiver::new(context_keys(&contexts()), end);
    let Ok(Event::Data(delivery)) = receiver.open(&records(&hex(DATA))[0]) else {
        panic!("it does not open");
    };
    assert_eq!(delivery.data, b"GET /");
    assert_eq!(delivery.provenance, Provenance::Original);
}

#[test]
fn key_material_has_these_bytes() {
    let mut only_read = part(|number| number, |_| 0);
    only_read.write = None;
    let plain = write_parts(&[(2, only_read)].into());
    assert_eq!(plain[..4], [2, 0, 64, 0]);
    assert_eq!(plain[66..], [63, 0, 0]);
    let material = Message::KeyMaterial(Material {
        recipient: 1,
        sealed: None,
        iv: IV,
        ciphertext: Aes::new_256(&[0x33; 32]).seal(IV, &[&plain]),
    });
    let expected = "2800006701000050\
        a417a91f6d2dbbe591cd7841aa32abc310a82b1383d50d80eb6b4d31aa429c85\
        c2e6faef5e33d98ac3fc4fd5395058345de171683550c2d2def3cfd9d6b4bdcf\
        bd07ed13d8db801088588f9d80145876\
        000010000102030405060708090a0b0c0d0e0f";
    assert_eq!(HEXLOWER.encode(&material.to_bytes()), expected);
    assert_eq!(Message::parse(&material.to_bytes()), Ok(material));
    let sealed = Message::KeyMaterial(Material {
        recipient: 3,
        sealed: Some(vec![9; 2]),
        iv: IV,
        ciphertext: vec![7; 1],
    });
    let expected = "2800001a030000020909000102030405060708090a0b0c0d0e0f00000107";
    assert_eq!(HEXLOWER.encode(&sealed.to_bytes()), expected);
    assert_eq!(Message::parse(&sealed.to_bytes()), Ok(sealed));
}
