//! A hello and a flight, segment by segment by hand, and what arrives of them.
//!
//! Not here: the pair and the flow that they go through (`pair.rs`).

use tandem_wire::TcpPacket;

use super::{Flow, NAME, Pair, tls};

/// A hello and a flight for segments made by hand, and the chain in it.
pub fn speech() -> (Vec<Vec<u8>>, Vec<u8>, Vec<u8>) {
    let chain = tls::chain(&[926, 900]);
    let flight = tls::records(&tls::server_flight(&chain), tls::Layout::MessageARecord);
    (chain, tls::client_hello(Some(NAME), 0), flight)
}

/// A pair that has agreed on this flow and heard the hello.
pub fn greeted(chain: &[Vec<u8>], flow: &mut Flow, hello: &[u8]) -> Pair {
    let mut pair = Pair::knowing(chain);
    pair.open(flow);
    let arrived = pair.client(flow.client(0, hello));
    assert_eq!(arrived.at_server, [flow.client(0, hello)]);
    flow.server_acked = hello.len() as u32;
    pair
}

/// Whether these packets are those, to the byte; said briefly where they are not.
#[track_caller]
pub fn same(packets: &[Vec<u8>], expected: &[&Vec<u8>]) {
    let brief = |packet: &Vec<u8>| {
        let packet = TcpPacket::parse(packet).expect("a segment");
        let stamps = packet.timestamps().map(|timestamps| timestamps.value);
        let length = packet.payload().len();
        format!(
            "{:?} {} +{length} {stamps:?}",
            packet.flags(),
            packet.seq().0
        )
    };
    let equal = packets.iter().collect::<Vec<_>>() == expected;
    let expected: Vec<_> = expected.iter().map(|packet| brief(packet)).collect();
    let packets: Vec<_> = packets.iter().map(brief).collect();
    assert!(equal, "{packets:#?}\nare not\n{expected:#?}");
}

/// What these segments carry, one after the other.
pub fn payloads(packets: &[Vec<u8>]) -> Vec<u8> {
    packets
        .iter()
        .flat_map(|packet| {
            TcpPacket::parse(packet)
                .expect("a segment")
                .payload()
                .to_vec()
        })
        .collect()
}

/// The flight in segments of `size` bytes.
pub fn cut(flow: &Flow, flight: &[u8], size: usize) -> Vec<Vec<u8>> {
    (0..)
        .zip(flight.chunks(size))
        .map(|(index, piece)| flow.server(index * size as u32, piece))
        .collect()
}

/// The rest of the handshake after the flight, and that both sides let the connection go.
pub fn finish(pair: &mut Pair, flow: &mut Flow, hello: &[u8], flight: &[u8]) {
    let answer = [
        tls::record(22, 0x0303, &tls::message(16, &[7; 33])),
        tls::finished(1),
    ]
    .concat();
    flow.client_acked = flight.len() as u32;
    let answer = flow.client(hello.len() as u32, &answer);
    same(&pair.client(answer.clone()).at_server, &[&answer]);
    flow.server_acked += TcpPacket::parse(&answer)
        .expect("a segment")
        .payload()
        .len() as u32;
    let last = flow.server(flight.len() as u32, &tls::finished(2));
    same(&pair.server(last.clone()).at_client, &[&last]);
}

pub fn learned(pair: &Pair) -> usize {
    pair.client_side.count("chains_learned") + pair.server_side.count("chains_learned")
}
