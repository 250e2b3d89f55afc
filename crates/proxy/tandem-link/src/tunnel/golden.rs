//! Messages byte for byte, from the layouts in this module's documentation.
//!
//! Is not: a test of what is read. A change of these values is another version of the protocol.

use super::{Frame, Miss, Offer, Open, Phrase, Piece, Target, check};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn piece(bytes: &[u8]) -> Piece {
    Piece::new(bytes.to_vec()).expect("a body")
}

fn phrase(number: u8) -> Frame {
    Frame::Phrase(Phrase::new(number).expect("a phrase"))
}

#[test]
fn each_frame_has_the_bytes_of_its_layout() {
    let long = vec![0xab; 300];
    for (frame, expected) in [
        (Frame::Rest, "00".to_owned()),
        (Frame::Bytes(piece(b"abc")), "0103616263".to_owned()),
        (
            Frame::Bytes(piece(&long)),
            format!("01ac02{}", "ab".repeat(300)),
        ),
        (
            Frame::Delta {
                // The front of SHA-256 of "abc" (FIPS 180-4, the example of one block).
                check: check(b"abc"),
                delta: piece(&[0, 2, 0x61]),
            },
            "0203ba7816bf000261".to_owned(),
        ),
        (Frame::Rebuilt, "03".to_owned()),
        (Frame::Missed(Miss::NotHeld), "0400".to_owned()),
        (Frame::Missed(Miss::Malformed), "0401".to_owned()),
        (Frame::Missed(Miss::Check), "0402".to_owned()),
        (Frame::Again(piece(b"abc")), "0503616263".to_owned()),
        (Frame::Plain, "06".to_owned()),
        (Frame::End, "07".to_owned()),
        (Frame::Unknown, "08".to_owned()),
        (Frame::Hints(vec![[1; 4]]), "0901010101".to_owned()),
        (
            Frame::Hints(vec![[1; 4], [2; 4], [3; 4]]),
            "0b010101010202020203030303".to_owned(),
        ),
        (phrase(0), "0c".to_owned()),
        (phrase(7), "13".to_owned()),
        (Frame::Sealed(piece(b"abc")), "1403616263".to_owned()),
        (
            Frame::Offer(Offer {
                held: 2_600,
                answer: 1_900,
                least: 450,
            }),
            "150a28076c01c2".to_owned(),
        ),
        (Frame::Waits, "16".to_owned()),
        (Frame::Key(piece(b"abc")), "1703616263".to_owned()),
        (Frame::NoKey, "18".to_owned()),
    ] {
        let mut out = Vec::new();
        frame.write(&mut out);
        assert_eq!(hex(&out), expected);
    }
}

#[test]
fn each_open_has_the_bytes_of_its_layout() {
    for (host, port, expected) in [
        ("192.0.2.1", 443, "00c0000201"),
        ("192.0.2.1", 8_443, "04c000020120fb"),
        ("2001:db8::1", 443, "0120010db8000000000000000000000001"),
        ("2001:db8::1", 25, "0520010db80000000000000000000000010019"),
        ("a.example", 443, "0209612e6578616d706c65"),
        ("a.example", 80, "0609612e6578616d706c650050"),
    ] {
        let mut out = Vec::new();
        let target = Target::new(host, port).expect("a target");
        Open::to(target).write(&mut out).expect("it may cross");
        assert_eq!(hex(&out), expected, "{host}");
    }
}

#[test]
fn a_client_that_is_told_follows_the_target() {
    for (client, expected) in [
        ("198.51.100.7:50000", "08c0000201c6336407c350"),
        (
            "[2001:db8::7]:50000",
            "10c000020120010db8000000000000000000000007c350",
        ),
    ] {
        let mut out = Vec::new();
        let target = Target::new("192.0.2.1", 443).expect("a target");
        let open = Open::to(target).of_client(client.parse().expect("an address"));
        open.write(&mut out).expect("it may cross");
        assert_eq!(hex(&out), expected, "{client}");
    }
}

#[test]
fn the_phrases_are_these() {
    let phrases = (0..Phrase::COUNT).filter_map(Phrase::new);
    let all: Vec<String> = phrases.map(|phrase| hex(phrase.bytes())).collect();
    assert_eq!(
        all,
        [
            "1403030001011603030028",
            "1403030001011603030020",
            "1403030001011603030040",
            "1403030001011603030050",
            "16030300251000002120",
            "1603030046100000424104",
            "1603030106100001020100",
            "140303000101170303",
        ]
    );
}
