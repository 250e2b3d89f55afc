//! What must hold between origin, volunteer and client, with an opener in the place of the client.
//! Real clients: `tests/openssl.rs`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tandem_wire::tls::record::Records;

use super::*;
use crate::error::Malformed;
use crate::message::{KeyExpose, Message, Stub};
use crate::name::{ObjectName, PayloadName};
use crate::open::{BadRecord, Opener};
use crate::seal::Sealer;
use crate::stub::StubWriter;
use crate::suite::{Format, RecordType, Suite};

const DATA: RecordType = RecordType::ApplicationData;
const ALL: Encodings = Encodings::DEFAULT.and(Encodings::SHA1);

/// What the origin writes on one connection, and what the client knows.
struct Origin {
    suite: Suite,
    writer: StubWriter,
    out: Vec<u8>,
}

impl Origin {
    /// Has answered the greeting and exposed its key.
    fn new(suite: Suite) -> Self {
        let (mac_key, key, iv) = keys(suite);
        let sealer = match suite.format() {
            Format::Cbc => Sealer::tls12(suite, &mac_key, 0),
            Format::Integrity => Sealer::tls13(suite, &mac_key, &iv, 0),
        };
        let mut out = Vec::new();
        Greeting::new(Channel::Connection, ALL)
            .answer(ALL)
            .write(&mut out);
        KeyExpose::new(suite, &key)
            .expect("a key of the suite")
            .write(&mut out);
        Self {
            suite,
            writer: StubWriter::new(sealer.expect("keys of the suite"), ALL),
            out,
        }
    }

    fn literal(&mut self, plaintext: &[u8]) {
        self.writer
            .literal(&mut self.out, DATA, plaintext)
            .expect("short");
    }

    fn named(&mut self, payload: &Payload) {
        self.writer
            .named(&mut self.out, DATA, payload)
            .expect("short");
    }

    /// The object from `offset` on, in as many runs as it takes.
    fn runs(&mut self, object: &[u8], list: &List, mut offset: usize, record_len: usize) {
        while offset < object.len() {
            let mut run = self
                .writer
                .run(list.name(), offset as u64, record_len)
                .expect("a length that can be");
            for record in object[offset..].chunks(record_len) {
                if run.is_full() {
                    break;
                }
                run.record(record).expect("there is room");
            }
            offset = run.finish(&mut self.out) as usize;
        }
    }

    /// What a client makes of these records.
    fn client(&self, records: &[u8]) -> Result<Vec<u8>, BadRecord> {
        let (mac_key, key, iv) = keys(self.suite);
        let mut opener = match self.suite.format() {
            Format::Cbc => Opener::tls12(self.suite, &mac_key, &key, 0),
            Format::Integrity => Opener::tls13(self.suite, &mac_key, &iv, 0),
        }
        .expect("keys of the suite");
        let mut plaintext = Vec::new();
        let mut all = Records::new(records);
        for record in &mut all {
            let record = record.expect("a record");
            let record_type =
                RecordType::from_u8(record.header.content_type.as_u8()).expect("a known type");
            let mut fragment = record.fragment.to_vec();
            let opened = opener.open(record_type, &mut fragment)?;
            assert_eq!(opened.record_type, DATA);
            plaintext.extend_from_slice(&fragment[opened.plaintext]);
        }
        assert_eq!(all.rest(), b"");
        Ok(plaintext)
    }
}

fn keys(suite: Suite) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    (
        vec![0x11; suite.mac_len()],
        vec![0x22; suite.key_len()],
        vec![0x33; suite.static_iv_len()],
    )
}

/// What a volunteer holds.
#[derive(Default)]
struct Cache {
    payloads: BTreeMap<PayloadName, Payload>,
    lists: BTreeMap<ObjectName, Arc<List>>,
}

impl Cache {
    fn payload(&mut self, bytes: &[u8]) -> Payload {
        let payload = Payload::new(bytes).expect("short");
        self.payloads.insert(payload.name(), payload.clone());
        payload
    }

    fn object(&mut self, bytes: &[u8]) -> Arc<List> {
        let list = Arc::new(List::of(bytes).expect("short"));
        self.lists.insert(list.name(), Arc::clone(&list));
        for chunk in bytes.chunks(CHUNK_LEN) {
            self.payload(chunk);
        }
        list
    }

    fn answer(&self, splicer: &mut Splicer, want: Want) {
        match want {
            Want::Payload(name) => match self.payloads.get(&name) {
                Some(payload) => assert!(splicer.give(payload)),
                None => splicer.missing(want),
            },
            Want::List { object, .. } => match self.lists.get(&object) {
                Some(list) => assert!(splicer.give_list(list)),
                None => splicer.missing(want),
            },
        }
    }
}

fn splicer(limits: Limits) -> Splicer {
    Splicer::new(ALL, limits)
}

fn iv() -> impl FnMut() -> [u8; 16] {
    let mut number = 0_u128;
    move || {
        number += 1;
        number.to_be_bytes()
    }
}

/// Runs a splicer over all that the origin wrote, in pieces of `cut` bytes.
fn volunteer(
    origin: &[u8],
    cache: &Cache,
    limits: Limits,
    cut: usize,
) -> (Vec<u8>, Result<(), Error>) {
    let mut splicer = splicer(limits);
    let (mut out, mut at, mut iv) = (Vec::new(), 0, iv());
    loop {
        let before = (at, out.len());
        let pushed = splicer.push(&origin[at..origin.len().min(at + cut)]);
        at += pushed.as_ref().copied().unwrap_or(0);
        while let Some(want) = splicer.poll_want() {
            cache.answer(&mut splicer, want);
        }
        let until = out.len() + 20_000;
        if let Err(error) = splicer.write_records(&mut out, until, &mut iv) {
            return (out, Err(error));
        }
        if before == (at, out.len()) && splicer.poll_want().is_none() {
            let end = splicer.end();
            assert!(end.is_err() || splicer.is_drained());
            return (out, end);
        }
    }
}

fn body(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at / 7 + at / 16_384 * 31) as u8)
        .collect()
}

#[test]
fn what_the_origin_seals_and_the_volunteer_splices_the_client_opens() {
    for suite in Suite::ALL {
        let (mut origin, mut cache) = (Origin::new(suite), Cache::default());
        let object = body(5 * CHUNK_LEN + 77);
        let list = cache.object(&object);
        let payload = cache.payload(&body(9_000));
        origin.literal(b"HTTP/1.1 200 OK\r\n\r\n");
        origin.named(&payload);
        origin.runs(&object, &list, 0, CHUNK_LEN);
        // From a place that is no chunk's beginning, as a range request asks for.
        origin.runs(&object, &list, 5_000, CHUNK_LEN);
        origin.literal(&[]);
        let (records, end) = volunteer(&origin.out, &cache, Limits::default(), 1_400);
        assert_eq!(end, Ok(()), "{suite}");
        let expected = [
            b"HTTP/1.1 200 OK\r\n\r\n",
            payload.bytes(),
            &object,
            &object[5_000..],
        ]
        .concat();
        assert_eq!(origin.client(&records), Ok(expected), "{suite}");
    }
}

#[test]
fn a_changed_stub_or_payload_is_refused_by_volunteer_or_client() {
    let suite = Suite::EcdheRsaAes128CbcSha;
    let (mut origin, mut cache) = (Origin::new(suite), Cache::default());
    let payload = cache.payload(&body(300));
    origin.literal(b"head");
    origin.named(&payload);
    let (records, _) = volunteer(&origin.out, &cache, Limits::default(), 9_999);
    let good = origin.client(&records).expect("nothing was changed");
    for at in 0..origin.out.len() {
        for bit in 0..8 {
            let mut changed = origin.out.clone();
            changed[at] ^= 1 << bit;
            let (records, end) = volunteer(&changed, &cache, Limits::default(), 9_999);
            let seen = origin.client(&records);
            assert!(
                end.is_err() || seen.is_err() || seen.as_ref() == Ok(&good),
                "bit {bit} of byte {at}"
            );
            assert!(seen.is_err() || good.starts_with(&seen.expect("it opens")));
        }
    }
}

#[test]
fn a_volunteer_that_changes_drops_or_repeats_a_record_is_found_out() {
    for suite in Suite::ALL {
        let mut origin = Origin::new(suite);
        for number in 0..4 {
            origin.literal(&[number; 100]);
        }
        let (records, _) = volunteer(&origin.out, &Cache::default(), Limits::default(), 9_999);
        let whole: Vec<&[u8]> = Records::new(&records)
            .map(|record| &records[record.expect("a record").range])
            .collect();
        assert!(origin.client(&whole.concat()).is_ok());
        let mut others: Vec<Vec<u8>> = vec![
            [whole[0], whole[2], whole[3]].concat(),
            [whole[0], whole[0], whole[1]].concat(),
            [whole[1], whole[0]].concat(),
        ];
        // One bit of each kind: header, IV or plaintext, ciphertext, MAC, padding. That of an IV is
        // not covered; it turns a bit of the plaintext, which is.
        for at in [0, 5, 20, 40, 110, whole[0].len() - 1] {
            let mut changed = records.clone();
            changed[at] ^= 1;
            others.push(changed);
        }
        for (number, other) in others.into_iter().enumerate() {
            let mut records = Records::new(&other);
            let readable = records.by_ref().all(|record| {
                record.is_ok_and(|record| {
                    RecordType::from_u8(record.header.content_type.as_u8()).is_some()
                })
            });
            assert!(
                !readable || origin.client(&other).is_err(),
                "{suite}: {number}"
            );
        }
    }
}

#[test]
fn behind_an_over_nothing_comes_that_was_not_asked_for() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    origin.literal(b"the last of it");
    Message::Progress(crate::message::Progress::Over).write(&mut origin.out);
    let mut splicer = Splicer::new(ALL, Limits::default());
    assert_eq!(splicer.push(&origin.out), Ok(origin.out.len()));
    assert!(splicer.is_over() && !splicer.is_drained());
    let mut records = Vec::new();
    assert_eq!(
        splicer.write_records(&mut records, 10_000, || [0; 16]),
        Ok(())
    );
    assert!(splicer.is_drained() && splicer.end().is_ok());
    let mut more = Vec::new();
    Greeting::new(Channel::Connection, ALL).write(&mut more);
    assert_eq!(splicer.push(&more), Err(Breach::Greeting.into()));
}

#[test]
fn certificates_go_out_in_clear_before_the_key_and_nothing_does_behind_it() {
    let mut cache = Cache::default();
    let certificate = cache.payload(&body(1_000));
    let mut out = Vec::new();
    Greeting::new(Channel::Connection, ALL).write(&mut out);
    let stub = Stub::named(
        RecordType::Handshake,
        certificate.name(),
        &crate::seal::Mac::NONE,
    );
    Message::Stub(stub).write(&mut out);
    out.extend([20, 3, 3, 0, 1, 1]);
    let (records, end) = volunteer(&out, &cache, Limits::default(), 10);
    assert_eq!(end, Ok(()));
    let [high, low] = 1_000_u16.to_be_bytes();
    let expected = [
        &[22, 3, 3, high, low],
        certificate.bytes(),
        &[20, 3, 3, 0, 1, 1],
    ];
    assert_eq!(records, expected.concat());

    let after = |message: &[u8]| {
        let suite = Suite::EcdheRsaAes256CbcSha;
        let mut out = Origin::new(suite).out;
        out.extend_from_slice(message);
        volunteer(&out, &cache, Limits::default(), 10_000)
    };
    let mut clear = Vec::new();
    Message::Stub(stub).write(&mut clear);
    assert_eq!(
        after(&clear),
        (
            vec![],
            Err(Breach::Mac {
                expected: 20,
                found: 0
            }
            .into())
        )
    );
    assert_eq!(
        after(&[23, 3, 3, 0, 1, 1]),
        (vec![], Err(Breach::VerbatimAfterKey.into()))
    );
    let mut again = Vec::new();
    KeyExpose::new(Suite::Sha256Sha256, &[])
        .expect("no key")
        .write(&mut again);
    assert_eq!(after(&again), (vec![], Err(Breach::SecondKey.into())));
    let mut wide = Vec::new();
    let mac = crate::seal::Mac::new(&[0; 32]);
    Message::Stub(Stub::literal(DATA, b"x", &mac)).write(&mut wide);
    assert!(matches!(
        after(&wide).1,
        Err(Error::Peer(Breach::Mac {
            expected: 20,
            found: 32
        }))
    ));
}

#[test]
fn what_nobody_has_ends_the_connection_behind_what_came_before() {
    let (mut origin, mut cache) = (Origin::new(Suite::Sha256Sha256), Cache::default());
    let here = cache.payload(&body(100));
    let gone = Payload::new(body(200)).expect("short");
    let object = body(100_000);
    let list = List::of(&object).expect("short");
    origin.named(&here);
    let before = origin.out.len();
    origin.named(&gone);
    origin.named(&here);
    let (records, end) = volunteer(&origin.out, &cache, Limits::default(), 9_999);
    assert_eq!(end, Err(Error::Missing(Want::Payload(gone.name()))));
    assert_eq!(origin.client(&records), Ok(here.bytes().to_vec()));

    let mut origin = Origin {
        out: origin.out[..before].to_vec(),
        ..origin
    };
    origin.runs(&object, &list, CHUNK_LEN, CHUNK_LEN);
    let (records, end) = volunteer(&origin.out, &cache, Limits::default(), 9_999);
    let want = Want::List {
        object: list.name(),
        first_chunk: 1,
        chunks: 6,
    };
    assert_eq!(end, Err(Error::Missing(want)));
    assert_eq!(origin.client(&records), Ok(here.bytes().to_vec()));
}

#[test]
fn a_run_has_its_place_in_its_object() {
    let object = body(CHUNK_LEN + 10);
    let mut cache = Cache::default();
    let list = cache.object(&object);
    let run = |offset, record_len, count: usize| {
        let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
        let mut run = origin
            .writer
            .run(list.name(), offset, record_len)
            .expect("a length that can be");
        for _ in 0..count {
            run.record(&vec![0; record_len]).expect("there is room");
        }
        run.finish(&mut origin.out);
        volunteer(&origin.out, &cache, Limits::default(), 9_999).1
    };
    assert_eq!(run(10, CHUNK_LEN, 1), Ok(()));
    let beyond = Err(Breach::RunBeyondObject.into());
    assert_eq!(run(11, CHUNK_LEN, 1), beyond);
    assert_eq!(run(0, 5, 3_279 / 5), Ok(()));
    assert_eq!(run(u64::MAX - 4, 5, 1), beyond);
    assert_eq!(run(u64::MAX - 5, 5, 2), beyond);
    assert_eq!(run(1 << 30, 1, 1), beyond);

    // A list that says more of its object than the chunks bear out.
    let lying = [
        b"TSL\x01".as_slice(),
        &(CHUNK_LEN as u32).to_be_bytes(),
        &20_u64.to_be_bytes(),
        PayloadName::sha256(b"short").as_bytes(),
    ]
    .concat();
    let name = ObjectName(<sha2::Sha256 as sha2::Digest>::digest(&lying).into());
    let lying = Arc::new(List::check(name, lying).expect("a list"));
    cache.payload(b"short");
    cache.lists.insert(name, lying);
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let mut run = origin.writer.run(name, 0, 20).expect("a length");
    run.record(&[0; 20]).expect("there is room");
    run.finish(&mut origin.out);
    assert_eq!(
        volunteer(&origin.out, &cache, Limits::default(), 9_999).1,
        beyond
    );
}

#[test]
fn a_slow_cache_holds_the_origin_back_and_memory_is_bounded() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let gone = Payload::new(body(200)).expect("short");
    origin.named(&gone);
    for _ in 0..100 {
        origin.literal(&[7; 16_000]);
    }
    let limits = Limits {
        queue_bytes: 50_000,
        payloads_ahead: 4,
    };
    let mut splicer = splicer(limits);
    let mut taken = 0;
    while let Ok(more @ 1..) = splicer.push(&origin.out[taken..]) {
        taken += more;
    }
    assert!(!splicer.has_room());
    assert!((50_000..50_000 + 2 * 18_500).contains(&taken), "{taken}");
    let mut records = Vec::new();
    assert_eq!(
        splicer.write_records(&mut records, usize::MAX, iv()),
        Ok(())
    );
    assert!(records.is_empty());
    assert!(splicer.give(&gone) && !splicer.give(&gone));
    assert_eq!(
        splicer.write_records(&mut records, usize::MAX, iv()),
        Ok(())
    );
    assert!(splicer.has_room() && records.len() > 40_000);
}

#[test]
fn a_payload_is_asked_for_once_while_it_is_waited_for_and_lists_ahead_are_few() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let twice = Payload::new(body(200)).expect("short");
    origin.named(&twice);
    origin.named(&twice);
    let objects: Vec<Vec<u8>> = (1..10).map(|number| body(40_000 + number)).collect();
    for object in &objects {
        origin.runs(object, &List::of(object).expect("short"), 0, CHUNK_LEN);
    }
    let mut splicer = splicer(Limits::default());
    assert_eq!(splicer.push(&origin.out), Ok(origin.out.len()));
    let wants: Vec<Want> = std::iter::from_fn(|| splicer.poll_want()).collect();
    assert!(wants.contains(&Want::Payload(twice.name())));
    assert_eq!(wants.len(), 1 + 4, "{wants:?}");
}

#[test]
fn no_more_payloads_are_asked_for_than_may_be_ahead() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let payloads: Vec<Payload> = (0..10)
        .map(|number| Payload::new(body(200 + number)).expect("short"))
        .collect();
    payloads.iter().for_each(|payload| origin.named(payload));
    let limits = Limits {
        payloads_ahead: 4,
        ..Limits::default()
    };
    let mut splicer = splicer(limits);
    assert_eq!(splicer.push(&origin.out), Ok(origin.out.len()));
    let wants: Vec<Want> = std::iter::from_fn(|| splicer.poll_want()).collect();
    let first: Vec<Want> = payloads[..4]
        .iter()
        .map(|p| Want::Payload(p.name()))
        .collect();
    assert_eq!(wants, first);
}

#[test]
fn what_waits_in_whatever_place_is_not_drained() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let start = origin.out.clone();
    let pushed = |stream: &[u8]| {
        let mut splicer = splicer(Limits::default());
        assert_eq!(splicer.push(stream), Ok(stream.len()));
        let mut records = Vec::new();
        let written = splicer.write_records(&mut records, usize::MAX, iv());
        assert_eq!((written, records.len()), (Ok(()), 0));
        splicer.is_drained()
    };
    assert!(pushed(&start));
    assert!(!pushed(&start[..start.len() - 1]), "a message is cut");
    origin.named(&Payload::new(body(200)).expect("short"));
    assert!(!pushed(&origin.out), "a payload is missing");
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let object = body(100);
    origin.runs(&object, &List::of(&object).expect("short"), 0, 100);
    assert!(!pushed(&origin.out), "a list is missing");
    // What comes behind it is wrong, but its turn has not come.
    origin.out.push(0xff);
    let mut splicer = splicer(Limits::default());
    assert!(splicer.push(&origin.out).is_err());
    assert_eq!(
        splicer.write_records(&mut Vec::new(), usize::MAX, iv()),
        Ok(())
    );
}

#[test]
fn nothing_is_written_where_enough_is() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    origin.literal(b"a record");
    let mut splicer = splicer(Limits::default());
    assert_eq!(splicer.push(&origin.out), Ok(origin.out.len()));
    let mut records = b"enough".to_vec();
    assert_eq!(splicer.write_records(&mut records, 6, iv()), Ok(()));
    assert_eq!(records, b"enough");
    assert_eq!(splicer.write_records(&mut records, 7, iv()), Ok(()));
    assert_eq!(origin.client(&records[6..]), Ok(b"a record".to_vec()));
}

#[test]
fn more_objects_than_lists_are_asked_for_ahead_come_one_after_another() {
    let mut cache = Cache::default();
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    // One ends with its last chunk.
    let objects: Vec<Vec<u8>> = (0..9).map(|n| body(2 * CHUNK_LEN + 31 * n)).collect();
    for object in &objects {
        let list = cache.object(object);
        origin.runs(object, &list, 0, CHUNK_LEN);
    }
    let (records, end) = volunteer(&origin.out, &cache, Limits::default(), 9_999);
    assert_eq!(end, Ok(()));
    assert_eq!(origin.client(&records), Ok(objects.concat()));
}

#[test]
fn the_list_of_an_object_that_comes_again_is_asked_for_once() {
    let mut cache = Cache::default();
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let objects = [500, 500, 600, 700, 800, 900].map(body);
    for object in &objects {
        let list = cache.object(object);
        origin.runs(object, &list, 0, 100);
    }
    let mut splicer = splicer(Limits::default());
    let (mut records, mut iv, mut lists, mut at) = (Vec::new(), iv(), 0, 0);
    // In pieces, so that the first is done before the second comes.
    while at < origin.out.len() {
        let end = origin.out.len().min(at + 50);
        at += splicer.push(&origin.out[at..end]).expect("room");
        while let Some(want) = splicer.poll_want() {
            lists += usize::from(matches!(want, Want::List { .. }));
            cache.answer(&mut splicer, want);
        }
        splicer
            .write_records(&mut records, usize::MAX, &mut iv)
            .expect("all is there");
    }
    assert_eq!(origin.client(&records), Ok(objects.concat()));
    assert_eq!(lists, 5);
    assert!(splicer.is_drained() && splicer.lists.has_room());
}

#[test]
fn macs_of_runs_count_as_what_waits() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let object = body(20_000);
    origin.runs(&object, &List::of(&object).expect("short"), 0, 1);
    assert!(origin.out.len() > 300_000);
    let limits = Limits {
        queue_bytes: 50_000,
        ..Limits::default()
    };
    let mut splicer = splicer(limits);
    let mut taken = 0;
    while let Ok(more @ 1..) = splicer.push(&origin.out[taken..]) {
        taken += more;
    }
    assert!((50_000..50_000 + 2 * 18_500).contains(&taken), "{taken}");
}

#[test]
fn a_run_may_end_where_the_longest_object_does() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    let name = ObjectName([7; 32]);
    let offset = crate::object::MAX_OBJECT_LEN - 10;
    let mut run = origin.writer.run(name, offset, 10).expect("a length");
    run.record(&[0; 10]).expect("there is room");
    run.finish(&mut origin.out);
    let mut splicer = splicer(Limits::default());
    assert_eq!(splicer.push(&origin.out), Ok(origin.out.len()));
    assert!(matches!(splicer.poll_want(), Some(Want::List { .. })));
}

#[test]
fn a_channel_that_ends_in_a_message_was_cut() {
    let mut origin = Origin::new(Suite::EcdheRsaAes128CbcSha);
    origin.literal(b"whole");
    let whole = origin.out.len();
    origin.literal(b"cut");
    let mut broken = origin.out[..whole].to_vec();
    broken.push(0xff);
    let mut one = splicer(Limits::default());
    assert!(one.push(&broken).is_err());
    let mut records = Vec::new();
    let written = one.write_records(&mut records, usize::MAX, iv());
    assert_eq!(written, Err(Malformed::Type(0xff).into()));
    assert_eq!(origin.client(&records), Ok(b"whole".to_vec()));

    let (records, end) = volunteer(
        &origin.out[..origin.out.len() - 1],
        &Cache::default(),
        Limits::default(),
        9_999,
    );
    assert_eq!(end, Err(Breach::CutMessage.into()));
    assert_eq!(origin.client(&records), Ok(b"whole".to_vec()));
    let (_, end) = volunteer(
        &origin.out[..whole],
        &Cache::default(),
        Limits::default(),
        9_999,
    );
    assert_eq!(end, Ok(()));
    let mut splicer = splicer(Limits::default());
    assert_eq!(
        splicer.push(b"GET / HTTP/1.1\r\n"),
        Err(Error::Malformed(Malformed::Version(0x4554)))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_way_of_cutting_and_encoding_gives_the_client_the_same_bytes(
        suite in prop::sample::select(Suite::ALL.to_vec()),
        len in 1..80_000_usize,
        offset in 0..80_000_usize,
        record_len in 500..=CHUNK_LEN,
        cut in 1..5_000_usize,
        payloads_ahead in 1..8_usize,
        queue_bytes in 1..60_000_usize,
    ) {
        let (mut origin, mut cache) = (Origin::new(suite), Cache::default());
        let object = body(len);
        let list = cache.object(&object);
        let offset = offset % len;
        origin.literal(&object[..len.min(100)]);
        origin.runs(&object, &list, offset, record_len);
        origin.named(&cache.payload(&object[..len.min(10_000)]));
        let limits = Limits { queue_bytes, payloads_ahead };
        let (records, end) = volunteer(&origin.out, &cache, limits, cut);
        prop_assert_eq!(end, Ok(()));
        let expected = [&object[..len.min(100)], &object[offset..], &object[..len.min(10_000)]].concat();
        prop_assert_eq!(origin.client(&records), Ok(expected));
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzzing::split_splicer(&bytes);
    }
}
