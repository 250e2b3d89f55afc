//! What one client side takes of the server side leaves enough to the others, over UDP and TCP.

use tandem_link::tunnel::{Ending, FlowOpen, Open};

use super::*;
use crate::datagrams::{Associations, NearFlows};
use crate::keeper::Leased;
use crate::tests::datagrams::{Program, comes_true, gauge, mirror, write_all};
use crate::transport::{Broken, Receiving as _};

/// More than the server side has for all: a client side opens as many streams that begin so.
async fn crowd(stay: &Stay, count: usize, begun: &[u8]) -> Vec<Leased<Any>> {
    let mut held = Vec::new();
    for _ in 0..count {
        let mut leased = stay.keeper.stream().await.expect("a tunnel");
        write_all(&mut leased.stream.sending, begun).await;
        held.push(leased);
    }
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn the_flows_of_one_client_side_leave_some_to_another() {
    for over in [Over::Udp, Over::Tcp] {
        let place = Place::open(None);
        let (one, other) = (Mover::new(own_key(1)), Mover::new(own_key(2)));
        let target = Target::Address(mirror().await);
        let mut begun = Vec::new();
        let open = FlowOpen {
            target: target.clone(),
        };
        open.write(&mut begun).expect("it may cross");
        let _held = crowd(&one.go_to(&place, over), 1_100, &begun).await;
        let board = &place.shared.board;
        comes_true("no more are granted", || {
            place.counter("datagram_flows_refused") + gauge(board, "datagram_flows") == 1_100
        })
        .await;
        assert!(place.counter("datagram_flows_refused") > 0);
        let stay = other.go_to(&place, over);
        let gate = Arc::clone(&other.gate);
        let flows = NearFlows::new(stay.keeper, gate, Arc::clone(&other.shared));
        let all = Associations::new(flows);
        let program = Program::among(&all).await;
        assert_eq!(program.asks(&target, b"mine").await, b"mine", "over {over}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connections_of_one_client_side_leave_some_to_another() {
    let place = Place::open(None);
    let (one, other) = (Mover::new(own_key(1)), Mover::new(own_key(2)));
    // Two tunnels, of which each may have as many streams as there are places. None says where it
    // goes.
    let mut begun = Vec::new();
    let open = Open::to(Target::Address(echo().await));
    open.write(&mut begun).expect("it may cross");
    begun.pop();
    let mut held = Vec::new();
    for over in [Over::Udp, Over::Tcp] {
        let stay = one.go_to(&place, over);
        held.push(crowd(&stay, 5_100, &begun).await);
    }
    // Streams that have not said it in time end meanwhile, so that they cannot be added up.
    comes_true("no more are granted", || {
        place.counter("relays_refused") > 0
    })
    .await;
    let stay = other.go_to(&place, Over::Udp);
    let client = other.client(&stay, echo().await).await;
    assert_eq!(exchanged(client, b"mine").await, b"mine");
}

#[tokio::test]
async fn a_stream_may_take_as_long_as_a_handshake_to_say_where_it_goes_and_no_longer() {
    let place = Place::open(None);
    let stay = Mover::new(own_key(1)).go_to(&place, Over::Tcp);
    let mut begun = Vec::new();
    let open = FlowOpen {
        target: Target::Address(mirror().await),
    };
    open.write(&mut begun).expect("it may cross");
    begun.pop();
    let mut held = crowd(&stay, 1, &begun).await;
    tokio::time::pause();
    let since = tokio::time::Instant::now();
    let broken = held[0].stream.receiving.read().await;
    assert_eq!(broken, Err(Broken::ByPeer(Ending::TimedOut.code().into())));
    let expected = quic::expected(&Line::default()).patience;
    let taken = since.elapsed();
    let early = Duration::from_secs(10);
    assert!(
        taken > expected - early && taken < expected + early,
        "{taken:?}"
    );
}
