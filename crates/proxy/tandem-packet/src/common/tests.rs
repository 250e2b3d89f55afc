//! What becomes of the far proxy's options, and what is news of the far endpoint.

use std::net::SocketAddr;

use tandem_link::inband::FlowId;
use tandem_wire::{SegmentRepr, Seq, TcpFlags, TcpPacket, Timestamps};

use super::*;

fn segment(flags: TcpFlags, ack: u32, payload: &[u8], stamps: bool) -> Vec<u8> {
    let stamps = stamps.then_some(Timestamps { value: 7, echo: 1 });
    SegmentRepr {
        source: SocketAddr::from(([10, 0, 0, 2], 443)),
        destination: SocketAddr::from(([10, 0, 0, 1], 1)),
        seq: Seq(101),
        ack: Seq(ack),
        flags,
        window: 1,
        options: stamps.map_or(Vec::new(), |stamps| stamps.alone().to_vec()),
        payload: payload.to_vec(),
        hop_limit: 1,
    }
    .build()
}

fn common() -> Common {
    let id = FlowId {
        client: Seq(0),
        server: Seq(100),
    };
    let far = Far {
        is: Toward::Server,
        mss: 1_460,
        acknowledged: Some(Seq(1)),
        is_stripped: false,
    };
    Common::new((id, Version::TWO), Connection::new(None), far, (1_460, 7))
}

#[test]
fn what_was_added_for_an_option_ends_with_it_and_the_rest_goes_on() {
    let stripped = || Some(vec![1]);
    let ack = TcpFlags::ACK;
    for (flags, payload, is_news, becomes) in [
        (ack, &b""[..], false, Verdict::Drop),
        (ack, b"", true, Verdict::Replace(vec![1])),
        (ack, b"data", false, Verdict::Replace(vec![1])),
        (
            ack.with(TcpFlags::FIN),
            b"",
            false,
            Verdict::Replace(vec![1]),
        ),
    ] {
        let bytes = segment(flags, 1, payload, true);
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        let verdict = Common::without_option(&packet, stripped(), is_news);
        assert_eq!(verdict, becomes);
        assert_eq!(
            Common::without_option(&packet, None, is_news),
            Verdict::Accept
        );
    }
}

#[test]
fn news_is_what_acknowledges_more_and_timestamps_that_are_gone_once_are_missed_for_good() {
    let mut common = common();
    let mut out = Outbox::default();
    for (ack, stamps, is_news, is_stripped) in [
        (1, true, false, false),
        (5, true, true, false),
        (5, false, false, true),
        (4, true, false, true),
        (5, true, false, true),
        (6, true, true, true),
    ] {
        let bytes = segment(TcpFlags::ACK, ack, b"", stamps);
        let packet = TcpPacket::parse(&bytes).expect("a segment");
        assert_eq!(common.far_sent(&packet, &mut out), is_news);
        assert_eq!(common.far.is_stripped, is_stripped);
    }
    let bytes = segment(TcpFlags::PSH, 9, b"", true);
    let packet = TcpPacket::parse(&bytes).expect("a segment");
    assert!(
        !common.far_sent(&packet, &mut out),
        "it acknowledges nothing"
    );
    assert_eq!(common.far.acknowledged, Some(Seq(6)));
}
