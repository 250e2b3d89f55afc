//! Strangers at the server side's TCP port who say nothing, or too little.

use tokio::net::TcpSocket;

use super::*;

/// As many connections from each of these addresses.
async fn silent(place: &Place, from: &[String], each: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for from in from {
        for _ in 0..each {
            let socket = TcpSocket::new_v4().expect("a descriptor");
            let from = SocketAddr::new(from.parse().expect("an address"), 0);
            socket.bind(from).expect("it is this machine's");
            let stream = socket.connect(place.address).await;
            held.push(stream.expect("it listens"));
        }
    }
    held
}

/// A client side comes from 127.0.0.1, and a client of it gets an answer.
async fn is_served(place: &Place, own_key: [u8; 32]) {
    let mover = Mover::new(own_key);
    let stay = mover.go_to(place, Over::Tcp);
    let client = mover.client(&stay, echo().await).await;
    assert_eq!(exchanged(client, b"mine").await, b"mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_silent_addresses_do_not_close_the_door() {
    let place = Place::open(None);
    let addresses: Vec<String> = (1..=8).map(|net| format!("127.{net}.0.1")).collect();
    let _held = silent(&place, &addresses, 4).await;
    soon(is_served(&place, own_key(1))).await;
}

/// The client side with this key comes from 127.0.0.1.
async fn comes(place: &Place, own_key: [u8; 32]) -> Result<tcp::Tcp, Lost> {
    let (line, server) = (Line::default(), name(&KEY, End::Server));
    let expected = quic::expected(&line);
    let client = tcp::Client::to(&own_key, server, (place.address, &line), &expected);
    client.expect("it starts").connect().await
}

/// A line on which a hello is awaited for ten seconds.
const LINE: Line = Line {
    rate: Some(10_000_000),
    round_trip: Some(Duration::from_millis(2_500)),
};

#[tokio::test(flavor = "multi_thread")]
async fn those_who_take_all_that_strangers_get_are_given_up_soon() {
    let place = Place::open_on(&LINE, None);
    let addresses: Vec<String> = (1..=16).map(|net| format!("127.{net}.0.1")).collect();
    let mut first = silent(&place, &addresses, 40).await;
    let refused = comes(&place, own_key(1)).await;
    assert!(refused.is_err(), "nobody has come from this address yet");
    // A hello that does not become whole is none.
    for stream in &mut first {
        // It fails where there was no place.
        let _ = stream.write_all(&[22]).await;
    }
    let goes_on = async {
        while comes(&place, own_key(1)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    // The handshake itself may take a minute.
    let within = Duration::from_secs(40);
    let came = timeout(within, goes_on).await;
    came.expect("given up long before");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_take_all_that_strangers_get_keep_no_known_one_out() {
    let place = Place::open(None);
    comes(&place, own_key(1)).await.expect("it is admitted");
    let addresses: Vec<String> = (1..=16).map(|net| format!("127.{net}.0.1")).collect();
    let _crowd = silent(&place, &addresses, 40).await;
    let mut strangers = silent(&place, &["127.17.0.1".to_owned()], 1).await;
    // Long before those of the crowd are given up.
    let refused = timeout(Duration::from_secs(10), strangers[0].read(&mut [0])).await;
    assert!(refused.is_ok(), "there is no place for a stranger");
    let known = comes(&place, own_key(2)).await;
    assert!(known.is_ok(), "{known:?}");
}

#[tokio::test]
async fn silence_ends_where_there_is_no_crowd_and_somebody_is_known_too() {
    let place = Place::open(None);
    let from = ["127.0.0.1".to_owned(), "127.1.0.1".to_owned()];
    comes(&place, own_key(1)).await.expect("it is admitted");
    let mut held = silent(&place, &from, 1).await;
    tokio::time::pause();
    for (stream, from) in held.iter_mut().zip(from) {
        let ended = timeout(Duration::from_secs(600), stream.read(&mut [0])).await;
        assert!(ended.is_ok(), "{from} holds a place for ever");
    }
}
