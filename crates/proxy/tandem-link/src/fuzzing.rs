//! What must hold for any input of this crate: one function for each parser, called by the fuzz
//! targets in `fuzz/` and by the replay of their corpora.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use tandem_wire::Seq;

use crate::inband::frame::{Frame, MAX_OVERHEAD, MAX_SPAN, Parsed, Sender};
use crate::inband::option::{self, MAX_HINTS, ProxyOption, ProxyOptionKind};
use crate::inband::{FlowId, Key, Version, publication};
use crate::tunnel::{
    self, Decoder, FlowOpen, FlowOpenDecoder, MessageDecoder, OpenDecoder, RenewalAnswer,
    RenewalQuery,
};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 6] = [
    ("link_option", link_option),
    ("link_frame", link_frame),
    ("link_publication", link_publication),
    ("tunnel_datagrams", tunnel_datagrams),
    ("tunnel_frames", tunnel_frames),
    ("tunnel_renewals", tunnel_renewals),
];

/// A key that the corpora were not made with.
const KEY: [u8; Key::LEN] = [0x6b; Key::LEN];

const FLOW: FlowId = FlowId {
    client: Seq(0x0102_0304),
    server: Seq(0x0506_0708),
};

/// The data of an option: never believed, unless it is what a proxy with the key writes.
pub fn link_option(data: &[u8]) {
    let key = Key::from_bytes(KEY);
    let Some(option) = ProxyOption::parse(data) else {
        return;
    };
    let version = Version::new(data[0] >> 4).expect("an option has a version");
    // What a later version adds to a presence or an answer is its own.
    let own = match option.kind() {
        ProxyOptionKind::Presence => match option.known_fingerprint() {
            Some(known) => option::presence_knowing(&key, FLOW.client, version, known),
            None => option::presence(&key, FLOW.client, version),
        },
        ProxyOptionKind::Answer => option::answer(&key, FLOW, version),
        ProxyOptionKind::Miss(sender) => option::miss(&key, FLOW, version, sender),
        ProxyOptionKind::Held => {
            let bits = data[1..].first_chunk().expect("four bytes of bits");
            option::held(&key, FLOW, version, u32::from_be_bytes(*bits))
        }
        ProxyOptionKind::Hint => {
            // Version and type, what is held, tag of seven bytes.
            let (held, rest) = data[1..data.len() - 7].as_chunks::<4>();
            let fewest = usize::from(!version.can_hint_nothing());
            assert!(rest.is_empty() && (fewest..=MAX_HINTS).contains(&held.len()));
            option::hint(&key, FLOW, version, held)
        }
    };
    let is_own = own[4..] == *data;
    assert!(own.len() <= data.len() + 4);
    let believed = [
        option.verify_presence(&key, FLOW.client).is_some(),
        option.verify_answer(&key, FLOW).is_some(),
        option.verify_hint(&key, FLOW, version).is_some(),
        option.verify_miss(&key, FLOW, version, Sender::Server),
        option.verify_miss(&key, FLOW, version, Sender::Client),
        option.verify_held(&key, FLOW, version).is_some(),
    ];
    let count = believed.iter().filter(|believed| **believed).count();
    // A longer presence or answer is believed where its tag is right, which nobody finds without
    // the key.
    assert_eq!(count, usize::from(is_own));
}

/// A payload: a publication is bounded, the only encoding of what it says but for its check, and
/// not believed.
pub fn link_publication(data: &[u8]) {
    let key = Key::from_bytes(KEY);
    let Some(said) = publication::parse(data) else {
        return;
    };
    assert!(said.bits.len() < data.len() && said.count <= said.bits.len() * 8);
    let version = Version::new(data[0] >> 4).expect("a publication has a version");
    let own = publication::write(&key, FLOW, version, &said);
    let checked = own.len() - 8;
    assert_eq!(own[..checked], data[..checked]);
    let believed = publication::read(&key, FLOW, version, data);
    assert_eq!(believed.is_some(), own == data);
    assert_eq!(publication::read(&key, FLOW, version, &own), Some(said));
    // As a frame of either direction it is none.
    for sender in [Sender::Server, Sender::Client] {
        assert_eq!(Frame::parse(data, version, sender), Parsed::No);
    }
}

/// A payload: a frame lies inside it, is found in any longer one, announced by any shorter one, and
/// not believed.
pub fn link_frame(data: &[u8]) {
    let key = Key::from_bytes(KEY);
    match Frame::parse(data, Version::ONE, Sender::Server) {
        Parsed::Whole(frame) => {
            assert!(frame.length <= data.len() && frame.length < frame.span);
            assert!(frame.span <= MAX_SPAN);
            assert!(
                frame.delta.len() < frame.length
                    && frame.length <= frame.delta.len() + MAX_OVERHEAD
            );
            assert!(!frame.verify(&key, FLOW, Seq(1), &vec![0; frame.span]));
            let longer = [data, b"more"].concat();
            assert_eq!(
                Frame::parse(&longer, Version::ONE, Sender::Server),
                Parsed::Whole(frame)
            );
            for cut in 0..frame.length {
                match Frame::parse(&data[..cut], Version::ONE, Sender::Server) {
                    Parsed::Cut { length } => {
                        assert!(length.is_none_or(|length| length == frame.length));
                    }
                    other => panic!("cut at {cut} it is {other:?}"),
                }
            }
        }
        Parsed::Cut { length } => assert!(length.is_none_or(|length| length > data.len())),
        Parsed::No => {
            // What is no frame does not become one by growing.
            let longer = [data, &[0; 16]].concat();
            assert_eq!(
                Frame::parse(&longer, Version::ONE, Sender::Server),
                Parsed::No
            );
        }
    }
}

/// What a client-side proxy writes on a stream: read the same at once and byte by byte, written
/// again the same, and never kept beyond one frame.
pub fn tunnel_frames(data: &[u8]) {
    let mut whole = data;
    let mut single = OpenDecoder::default();
    let open = OpenDecoder::default().next(&mut whole);
    let after = data.len() - whole.len();
    for (index, byte) in data[..after].iter().enumerate() {
        let last = index + 1 == after;
        let read = single.next(&mut std::slice::from_ref(byte));
        assert!(if last { read == open } else { read == Ok(None) });
    }
    let Ok(Some(open)) = open else {
        return;
    };
    let mut again = Vec::new();
    open.write(&mut again).expect("what was read may cross");
    assert_eq!(again, data[..after]);
    let (mut at_once, mut by_bytes) = (Decoder::default(), Decoder::default());
    loop {
        let before = whole;
        let frame = at_once.next(&mut whole);
        let used = before.len() - whole.len();
        assert!(at_once.kept() <= tunnel::MAX_LEN + tunnel::CHECK_LEN && at_once.kept() <= used);
        for (index, byte) in before[..used].iter().enumerate() {
            let last = index + 1 == used;
            let read = by_bytes.next(&mut std::slice::from_ref(byte));
            assert!(if last {
                read == frame
            } else {
                read == Ok(None)
            });
        }
        let Ok(Some(frame)) = frame else {
            return;
        };
        let mut again = Vec::new();
        frame.write(&mut again);
        assert_eq!(again, before[..used]);
        assert_eq!(again.len(), frame.encoded_len());
        if frame == tunnel::Frame::Rest {
            return;
        }
    }
}

/// A question after a renewed chain, and an answer to one: what is read is written the same.
pub fn tunnel_renewals(data: &[u8]) {
    if let Ok(query) = RenewalQuery::parse(data) {
        assert!(RenewalQuery::begins(data) && data.len() <= tunnel::MAX_RENEWAL_QUERY);
        let mut again = Vec::new();
        query.write(&mut again).expect("what was read may cross");
        assert_eq!(again, data);
    }
    if let Ok(answer) = RenewalAnswer::parse(data) {
        assert!(data.len() <= tunnel::MAX_RENEWAL_ANSWER);
        let mut again = Vec::new();
        answer.write(&mut again);
        assert_eq!(again, data);
    }
}

/// A flow's stream, and the same bytes as a datagram: read the same at once and byte by byte,
/// written again the same, and never kept beyond one message.
pub fn tunnel_datagrams(data: &[u8]) {
    if let Some((stream, payload)) = tunnel::parse_datagram(data) {
        let mut again = Vec::new();
        tunnel::write_datagram(stream, payload, &mut again);
        assert_eq!(again, data);
    }
    let mut whole = data;
    let mut single = FlowOpenDecoder::default();
    let open = FlowOpenDecoder::default().next(&mut whole);
    let after = data.len() - whole.len();
    if let Ok(Some(open)) = &open {
        for (index, byte) in data[..after].iter().enumerate() {
            let last = index + 1 == after;
            let read = single.next(&mut std::slice::from_ref(byte));
            assert_eq!(read, Ok(last.then(|| open.clone())));
        }
        let mut again = Vec::new();
        open.write(&mut again).expect("what was read may cross");
        assert!(again == data[..after] && FlowOpen::begins(data));
    } else {
        // The messages of the other direction.
        whole = data;
    }
    let mut single = MessageDecoder::default();
    let mut at_once = MessageDecoder::default();
    loop {
        let before = whole;
        let payload = at_once.next(&mut whole);
        let used = before.len() - whole.len();
        assert!(at_once.kept() <= tunnel::MAX_PAYLOAD && at_once.kept() <= used);
        let Ok(Some(payload)) = payload else {
            return;
        };
        for (index, byte) in before[..used].iter().enumerate() {
            let last = index + 1 == used;
            let read = single.next(&mut std::slice::from_ref(byte));
            assert_eq!(read, Ok(last.then(|| payload.clone())));
        }
        let mut again = Vec::new();
        tunnel::write_message(&payload, &mut again).expect("what was read may cross");
        assert_eq!(again, before[..used]);
    }
}
