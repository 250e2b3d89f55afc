//! What must hold of single messages and of streams of them.

use super::*;
use crate::error::Breach;
use crate::name::{ObjectName, PayloadName};
use crate::object::{List, MAX_LIST_LEN};
use crate::payload::{MAX_PAYLOAD_LEN, Payload};
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
    assert_eq!(run.total_len(), 1_000_000);
    assert_eq!(run.end(), Some(1_016_384));
}

/// One of each kind.
fn all() -> Vec<Vec<u8>> {
    let mac = Mac::new(&[0xaa; 32]);
    let payload = Payload::new(*b"a payload").expect("short");
    let object = List::of(&[7; 20_000]).expect("short");
    let run = Run {
        object: object.name(),
        offset: 0,
        record_len: 16_384,
        last_len: 3_616,
        count: 2,
    };
    let miss = Miss::Object {
        object: object.name(),
        first: 1,
        count: 1,
    };
    let part = list_parts(&object).next().expect("there is one");
    [
        Message::Verbatim(Verbatim {
            record_type: RecordType::Handshake,
            bytes: &[22, 3, 1, 0, 2, 1, 0],
        }),
        Message::Stub(Stub::literal(RecordType::Alert, &[1, 0], &mac)),
        Message::Stub(Stub::literal(RecordType::ApplicationData, &[], &Mac::NONE)),
        Message::Stub(Stub::named(
            RecordType::Handshake,
            payload.name(),
            &Mac::NONE,
        )),
        Message::Stub(Stub::run(run, &[0xbb; 96])),
        Message::KeyExpose(KeyExpose::new(Suite::Sha256Sha256, &[]).expect("no key")),
        Message::Greeting(Greeting::new(Channel::Misses, Encodings::DEFAULT)),
        Message::Miss(Miss::Payload(payload.name())),
        Message::Miss(miss),
        Message::Found(Found::new(&payload)),
        Message::ListPart(part),
        Message::Absent(Absent(miss)),
        Message::Progress(Progress::Taken(0x0102_0304_0506_0708)),
        Message::Progress(Progress::End),
        Message::Progress(Progress::Over),
        Message::Progress(Progress::Coming),
    ]
    .iter()
    .map(written)
    .collect()
}

#[test]
fn every_message_is_read_back_and_every_cut_and_changed_one_is_safe() {
    for bytes in all() {
        assert!(read(&bytes).is_ok(), "{bytes:02x?}");
        crate::fuzzing::split_message(&bytes);
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                crate::fuzzing::split_message(&changed);
            }
        }
    }
}

#[test]
fn what_no_suite_and_no_encoding_has_is_refused() {
    let stub = |encoding: u8, id: &[u8], mac: &[u8]| {
        let mut body = vec![0, encoding];
        put_vec16(&mut body, id);
        put_vec16(&mut body, mac);
        let mut out = Vec::new();
        frame(&mut out, 0x97, |out| out.extend_from_slice(&body));
        match Message::read(&out) {
            Err(Error::Malformed(malformed)) => Some(malformed),
            Ok(_) => None,
            Err(other) => panic!("{other}"),
        }
    };
    let run = |record_len: u16, last_len: u16, count: u16| {
        let mut id = vec![0; 40];
        for field in [record_len, last_len, count] {
            id.extend_from_slice(&field.to_be_bytes());
        }
        id
    };
    assert_eq!(stub(1, &[0; 16_384], &[0; 48]), None);
    assert_eq!(
        stub(1, &[0; 16_385], &[]),
        Some(Malformed::PlaintextLength(16_385))
    );
    assert_eq!(stub(5, &[], &[]), Some(Malformed::Encoding(5)));
    assert_eq!(stub(2, &[0; 32], &[]), Some(Malformed::IdLength(32)));
    assert_eq!(stub(3, &[0; 20], &[]), Some(Malformed::IdLength(20)));
    assert_eq!(stub(1, &[], &[0; 12]), Some(Malformed::MacLength(12)));
    assert_eq!(stub(4, &run(5, 5, 1), &[0; 20]), None);
    assert_eq!(stub(4, &run(5, 5, 2), &[0; 40]), None);
    assert_eq!(
        stub(4, &run(5, 5, 3), &[0; 40]),
        Some(Malformed::MacLength(40))
    );
    assert_eq!(stub(4, &run(5, 5, 1), &[]), Some(Malformed::MacLength(0)));
    assert_eq!(stub(4, &run(5, 6, 1), &[0; 20]), Some(Malformed::Run));
    assert_eq!(stub(4, &run(5, 0, 1), &[0; 20]), Some(Malformed::Run));
    assert_eq!(stub(4, &run(5, 5, 0), &[]), Some(Malformed::Run));
    assert_eq!(stub(4, &run(16_385, 5, 1), &[0; 20]), Some(Malformed::Run));
    assert_eq!(stub(4, &[0; 45], &[0; 20]), Some(Malformed::IdLength(45)));
}

#[test]
fn greetings_agree_on_what_both_know() {
    let asked = Greeting::new(Channel::Connection, Encodings::DEFAULT);
    let answer = asked.answer(Encodings::SHA1.and(Encodings::RUN));
    assert_eq!(answer.encodings, Encodings::RUN);
    assert_eq!(asked.accept(&answer), Ok(()));
    let later = Greeting {
        version: PROTOCOL_VERSION + 1,
        ..asked
    };
    assert_eq!(later.answer(Encodings::DEFAULT).version, PROTOCOL_VERSION);
    assert_eq!(
        asked.accept(&later),
        Err(Breach::Version(PROTOCOL_VERSION + 1))
    );
    let more = Greeting {
        encodings: Encodings::SHA1,
        ..asked
    };
    assert_eq!(asked.accept(&more), Err(Breach::Greeting));
    let other = Greeting {
        channel: Channel::Misses,
        ..asked
    };
    assert_eq!(asked.accept(&other), Err(Breach::Greeting));
    // A later version may add to its greeting.
    let longer = [0x47, 3, 3, 0, 6, 5, 1, 0, 0x18, 9, 9];
    assert_eq!(read(&longer), Ok(Message::Greeting(later)));
    let own = [0x47, 3, 3, 0, 6, 1, 1, 0, 0x18, 9, 9];
    assert_eq!(read(&own), Err(Malformed::TrailingBytes.into()));
}

#[test]
fn a_side_says_what_is_its_own_to_say() {
    let greeting = |channel| {
        written(&Message::Greeting(Greeting::new(
            channel,
            Encodings::DEFAULT,
        )))
    };
    let allowed = |side, channel: Option<Channel>| {
        all()
            .iter()
            .filter(|message| {
                let start = channel.map(greeting).unwrap_or_default();
                let mut decoder = Decoder::new(side);
                let stream = [&start, message.as_slice()].concat();
                assert_eq!(decoder.push(&stream), stream.len());
                if !start.is_empty() {
                    assert!(decoder.next_message().is_ok());
                }
                decoder.next_message().is_ok()
            })
            .map(|message| message[0])
            .collect::<Vec<u8>>()
    };
    let (connection, misses) = (Some(Channel::Connection), Some(Channel::Misses));
    assert_eq!(allowed(Side::Client, None), [22]);
    assert_eq!(allowed(Side::Volunteer, None), b"G");
    assert_eq!(allowed(Side::Volunteer, connection), [22, b'T', b'E', b'O']);
    assert_eq!(allowed(Side::Volunteer, misses), b"MM");
    assert_eq!(allowed(Side::Origin, None), b"G");
    assert_eq!(
        allowed(Side::Origin, connection),
        [22, 0x95, 0x97, 0x96, 0x97, 0x58, b'T', b'O']
    );
    assert_eq!(allowed(Side::Origin, misses), b"PLAC");
}

#[test]
fn nothing_is_announced_to_who_knows_only_the_third_version() {
    for (version, is_known) in [(3, false), (4, true)] {
        let greeting = Greeting {
            version,
            ..Greeting::new(Channel::Misses, Encodings::DEFAULT)
        };
        assert_eq!(greeting.tells_coming(), is_known);
        let mut stream = written(&Message::Greeting(greeting));
        Message::Progress(Progress::Coming).write(&mut stream);
        let mut decoder = Decoder::new(Side::Origin);
        assert_eq!(decoder.push(&stream), stream.len());
        assert!(decoder.next_message().is_ok());
        assert_eq!(decoder.next_message().is_ok(), is_known);
    }
}

#[test]
fn nobody_speaks_of_progress_to_the_first_version() {
    for (version, side, is_known) in [
        (1, Side::Volunteer, false),
        (1, Side::Origin, false),
        (2, Side::Volunteer, true),
        (2, Side::Origin, true),
    ] {
        let greeting = Greeting {
            version,
            ..Greeting::new(Channel::Connection, Encodings::DEFAULT)
        };
        let mut stream = written(&Message::Greeting(greeting));
        Message::Progress(Progress::Taken(7)).write(&mut stream);
        let mut decoder = Decoder::new(side);
        assert_eq!(decoder.push(&stream), stream.len());
        assert!(decoder.next_message().is_ok());
        assert_eq!(decoder.next_message().is_ok(), is_known);
    }
}

#[test]
fn behind_an_over_a_channel_is_at_its_beginning() {
    let greeting = |version| {
        let greeting = Greeting::new(Channel::Connection, Encodings::DEFAULT);
        written(&Message::Greeting(Greeting {
            version,
            ..greeting
        }))
    };
    let over = written(&Message::Progress(Progress::Over));
    let taken = written(&Message::Progress(Progress::Taken(7)));
    let whole = |side, messages: &[&[u8]]| {
        let mut decoder = Decoder::new(side);
        let stream = messages.concat();
        assert_eq!(decoder.push(&stream), stream.len());
        let mut count = 0;
        loop {
            match decoder.next_message() {
                Ok(Some(_)) => count += 1,
                Ok(None) => return Ok(count),
                Err(error) => return Err(error),
            }
        }
    };
    for side in [Side::Volunteer, Side::Origin] {
        let [second, third] = [2, 3].map(greeting);
        let again = [&third[..], &taken, &over, &third, &taken, &over, &second];
        assert_eq!(whole(side, &again), Ok(7));
        let unasked = whole(side, &[&third, &over, &taken]);
        assert_eq!(unasked, Err(Breach::Greeting.into()));
        let unknown = whole(side, &[&second, &over]);
        assert_eq!(unknown, Err(Breach::Direction(b'O').into()));
    }
}

fn refused(bytes: &[u8]) -> Option<Malformed> {
    match Message::read(bytes) {
        Ok(_) => None,
        Err(Error::Malformed(malformed)) => Some(malformed),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn misses_name_chunks_that_an_object_can_have() {
    let most = crate::object::MAX_CHUNKS as u32;
    for (first, count, is_good) in [
        (most, most, true),
        (most + 1, 1, false),
        (1, most + 1, false),
        (most + 1, most + 1, false),
    ] {
        let object = ObjectName([1; 32]);
        let bytes = written(&Message::Miss(Miss::Object {
            object,
            first,
            count,
        }));
        assert_eq!(refused(&bytes), (!is_good).then_some(Malformed::ListPart));
    }
}

#[test]
fn what_was_missed_has_at_most_a_payloads_length() {
    let payload = Payload::new_sha1([7; MAX_PAYLOAD_LEN]).expect("as long as it can be");
    let mut bytes = written(&Message::Found(Found::new(&payload)));
    assert_eq!(refused(&bytes), None);
    bytes.push(7);
    let length = u16::from_be_bytes([bytes[3], bytes[4]]) + 1;
    bytes[3..5].copy_from_slice(&length.to_be_bytes());
    let too_long = Malformed::PlaintextLength(MAX_PAYLOAD_LEN + 1);
    assert_eq!(refused(&bytes), Some(too_long));
}

#[test]
fn a_part_lies_in_a_list_that_can_be() {
    let longest = MAX_LIST_LEN as u32;
    for (offset, total, len, is_good) in [
        (0_u32, 5, 5, true),
        (1, 5, 4, true),
        (longest - 5, longest, 5, true),
        (0, longest + 1, 5, false),
        (0, 5, 6, false),
        (2, 5, 4, false),
        (0, 5, 0, false),
    ] {
        let mut bytes = Vec::new();
        frame(&mut bytes, kind::LIST_PART, |out| {
            out.extend([1; 32]);
            out.extend(offset.to_be_bytes());
            out.extend(total.to_be_bytes());
            out.extend(vec![7; len]);
        });
        let expected = (!is_good).then_some(Malformed::ListPart);
        assert_eq!(refused(&bytes), expected, "{offset} {total} {len}");
    }
}

#[test]
fn a_run_is_of_application_data_and_has_a_mac_for_each_record() {
    let run = Run {
        object: ObjectName([1; 32]),
        offset: 0,
        record_len: 10,
        last_len: 10,
        count: 2,
    };
    let macs: Vec<u8> = (0..40).collect();
    let stub = Stub::run(run, &macs);
    let each: Vec<&[u8]> = stub.macs().collect();
    assert_eq!(each, [&macs[..20], &macs[20..]]);
    let bytes = written(&Message::Stub(stub));
    assert_eq!(refused(&bytes), None);
    let alert = [&[0x95], &bytes[1..]].concat();
    assert_eq!(refused(&alert), Some(Malformed::Run));
    // One byte more in the message's length and in that of the MACs.
    let mut uneven = [&bytes[..], &[7]].concat();
    let macs_at = bytes.len() - macs.len();
    uneven[4] += 1;
    uneven[macs_at - 1] += 1;
    assert_eq!(refused(&uneven), Some(Malformed::MacLength(41)));
}

#[test]
fn records_in_full_are_of_a_version_of_tls() {
    for (major, minor, is_good) in [(3, 0, true), (3, 4, true), (3, 5, false), (2, 3, false)] {
        let refused = refused(&[22, major, minor, 0, 1, 7]);
        let version = Malformed::Version(u16::from_be_bytes([major, minor]));
        assert_eq!(refused, (!is_good).then_some(version));
    }
}

#[test]
fn a_decoder_takes_one_message_at_most_and_tells_who_greeted() {
    let greeting = Greeting::new(Channel::Misses, Encodings::DEFAULT);
    let mut decoder = Decoder::new(Side::Volunteer);
    assert_eq!(decoder.greeting(), None);
    let stream = [
        &written(&Message::Greeting(greeting))[..],
        &vec![0; 3 * MAX_MESSAGE_LEN],
    ]
    .concat();
    assert_eq!(decoder.push(&stream), MAX_MESSAGE_LEN);
    assert_eq!(decoder.push(&stream), 0);
    assert!(decoder.next_message().is_ok());
    assert_eq!(decoder.greeting(), Some(greeting));
}

#[test]
fn a_list_comes_in_parts_and_in_no_other_order() {
    let list = List::of(&vec![7; 600 * crate::object::CHUNK_LEN]).expect("short");
    let parts: Vec<_> = list_parts(&list).collect();
    assert_eq!(parts.len(), 2);
    let mut so_far = Vec::new();
    assert_eq!(parts[1].join(&mut so_far), Err(Malformed::ListPart.into()));
    assert_eq!(parts[0].join(&mut so_far), Ok(None));
    assert_eq!(parts[0].join(&mut so_far), Err(Malformed::ListPart.into()));
    assert_eq!(parts[1].join(&mut so_far), Ok(Some(list.clone())));
    let mut wrong = list.as_bytes()[..MAX_PART_LEN].to_vec();
    wrong[20] ^= 1;
    assert_eq!(parts[1].join(&mut wrong), Err(Breach::Digest.into()));
}

#[test]
fn streams_are_the_same_however_they_are_cut() {
    let stream = [
        vec![2],
        written(&Message::Greeting(Greeting::new(
            Channel::Connection,
            Encodings::DEFAULT,
        ))),
        all()[..6].concat(),
    ]
    .concat();
    crate::fuzzing::split_decoder(&stream);
    // Many small ones in one push: a decoder takes what it has room for.
    let alert = [21, 3, 3, 0, 2, 1, 0];
    let many = alert.repeat(10_000);
    let (mut decoder, mut at, mut count) = (Decoder::new(Side::Client), 0, 0);
    while at < many.len() {
        at += decoder.push(&many[at..]);
        while let Some(message) = decoder.next_message().expect("alerts") {
            assert_eq!(written(&message), alert);
            count += 1;
        }
    }
    assert_eq!(count, 10_000);
    assert!(decoder.is_between_messages());
}
