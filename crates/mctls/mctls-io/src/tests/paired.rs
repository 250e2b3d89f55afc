//! Two paired middleboxes over real sockets: what crosses between them, and what somebody on that
//! hop can do.

use std::sync::{Arc, Mutex};

use mctls::config::{PathMode, Right};
use mctls::error::{Breach, Check};
use mctls::frame::Frame;
use mctls::party::ContextId;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    BODY, HEADERS, Interference, Pair, Task, bytes, forwards, interferer, listen, middlebox,
    middlebox_settings, pair, received, server,
};
use crate::{Error, Middlebox, PairSettings};

use Right::{None as No, Read};

const BOTH: [[Right; 2]; 2] = [[No, Read]; 2];

async fn paired(number: usize, peer: usize, key: u8) -> Task<Result<(), Error>> {
    let middlebox = Middlebox::new(&middlebox_settings(number, forwards));
    let middlebox = middlebox.expect("settings that can be used");
    let middlebox = middlebox.paired(PairSettings {
        name: format!("box-{peer}.test"),
        key: [key; 32],
        purposes: vec!["body".into()],
        memory: 1 << 20,
    });
    listen(move |stream| {
        let middlebox = middlebox.clone();
        async move { middlebox.serve(stream).await }
    })
    .await
}

/// Two paired middleboxes with somebody on the hop between them.
struct Hop {
    one: Task<Result<(), Error>>,
    two: Task<Result<(), Error>>,
    between: (Task<()>, UnboundedSender<Vec<u8>>),
}

impl Hop {
    async fn new(interference: impl Fn() -> Interference + Send + Sync + 'static) -> Self {
        let two = paired(2, 1, 7).await;
        Self {
            one: paired(1, 2, 7).await,
            between: interferer(two.address.clone(), interference).await,
            two,
        }
    }

    fn via(&self) -> [&str; 2] {
        [&self.one.address, &self.between.0.address]
    }
}

/// Sends data both ways, so that both middleboxes have spoken; then this, in the body.
async fn send(pair: &mut Pair, data: &[u8]) {
    pair.client
        .sender
        .send(HEADERS, b"hello")
        .await
        .expect("sent");
    assert_eq!(received(&mut pair.server).await.payload, b"hello");
    pair.server
        .sender
        .send(HEADERS, b"hello")
        .await
        .expect("sent");
    assert_eq!(received(&mut pair.client).await.payload, b"hello");
    pair.client.sender.send(BODY, data).await.expect("sent");
}

/// How the far middlebox ends.
async fn fails(hop: &mut Hop, error: impl Into<mctls::Error>) {
    let Err(Error::Session(found)) = hop.two.next().await else {
        panic!("nobody has noticed");
    };
    assert_eq!(found, error.into());
}

#[tokio::test]
async fn what_crosses_between_a_pair_is_short_and_what_arrives_is_the_same() {
    let crossed: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = Arc::clone(&crossed);
    let hop = Hop::new(move || {
        let seen = Arc::clone(&seen);
        Box::new(move |frame| {
            if let Frame::Short(body) = frame {
                seen.lock()
                    .expect("no test panics with it")
                    .push(body.len());
            }
            vec![bytes(frame)]
        })
    })
    .await;
    let mut server = server().await;
    for _ in 0..2 {
        let mut pair = pair(&mut server, &hop.via(), &BOTH, PathMode::Required).await;
        let data: Vec<u8> = (0..1000_u16).flat_map(u16::to_be_bytes).collect();
        for _ in 0..2 {
            send(&mut pair, &data).await;
            let delivery = received(&mut pair.server).await;
            assert_eq!(delivery.payload, data);
            assert_eq!(delivery.seen_by.len(), 2);
        }
        pair.client.sender.close().await.expect("closed");
        assert!(pair.server.receiver.recv().await.expect("closed").is_none());
        pair.server.sender.close().await.expect("closed");
    }
    let crossed = crossed.lock().expect("no test panics with it").clone();
    assert_eq!(crossed.len(), 4);
    assert!(crossed[0] > 2_000, "{crossed:?}");
    assert!(
        crossed[1..].iter().all(|length| *length < 150),
        "{crossed:?}"
    );
}

#[tokio::test]
async fn a_short_record_that_somebody_on_the_hop_changes_is_caught_there() {
    let mut hop = Hop::new(|| {
        Box::new(|frame| match frame {
            Frame::Short(body) => {
                let mut changed = body.to_vec();
                *changed.last_mut().expect("not empty") ^= 1;
                vec![bytes(&Frame::Short(&changed))]
            }
            other => vec![bytes(other)],
        })
    })
    .await;
    let mut server = server().await;
    let mut pair = pair(&mut server, &hop.via(), &BOTH, PathMode::Off).await;
    send(&mut pair, &[1; 2_000]).await;
    fails(&mut hop, Check::Pair).await;
}

#[tokio::test]
async fn a_short_record_that_comes_twice_is_out_of_order() {
    let mut hop = Hop::new(|| {
        Box::new(|frame| match frame {
            Frame::Short(_) => vec![bytes(frame), bytes(frame)],
            other => vec![bytes(other)],
        })
    })
    .await;
    let mut server = server().await;
    let mut pair = pair(&mut server, &hop.via(), &BOTH, PathMode::Off).await;
    send(&mut pair, &[1; 2_000]).await;
    let (expected, found) = (2, 1);
    fails(&mut hop, Breach::Sequence { expected, found }).await;
}

#[tokio::test]
async fn a_short_record_or_a_beginning_from_nowhere_is_refused() {
    for (frame, error) in [
        // A header of zeros names context 0, which has no short records.
        (
            bytes(&Frame::Short(&[0; 80])),
            Breach::Context(ContextId(0)),
        ),
        (bytes(&Frame::Holds(&[0; 80])), Breach::Unexpected(0xb5)),
    ] {
        let mut hop = Hop::new(|| Box::new(|frame| vec![bytes(frame)])).await;
        let mut server = server().await;
        let mut pair = pair(&mut server, &hop.via(), &BOTH, PathMode::Off).await;
        send(&mut pair, b"data").await;
        hop.between.1.send(frame).expect("it listens");
        fails(&mut hop, error).await;
    }
}

#[tokio::test]
async fn a_middlebox_or_an_endpoint_without_a_pair_takes_no_such_frames() {
    for frame in [Frame::Short(&[0; 80]), Frame::Holds(&[0; 80])] {
        let kind = bytes(&frame)[0];
        let mut one = middlebox(1, forwards).await;
        let (between, injector) =
            interferer(one.address.clone(), || Box::new(|frame| vec![bytes(frame)])).await;
        let mut server = server().await;
        let rights = [[Read, Read]];
        let _pair = pair(&mut server, &[&between.address], &rights, PathMode::Off).await;
        injector.send(bytes(&frame)).expect("it listens");
        let Err(Error::Session(error)) = one.next().await else {
            panic!("it was taken");
        };
        assert_eq!(error, Breach::Unexpected(kind).into());
    }
    let one = middlebox(1, forwards).await;
    let mut server = server().await;
    let (between, injector) = interferer(server.address.clone(), || {
        Box::new(|frame| vec![bytes(frame)])
    })
    .await;
    let address = std::mem::replace(&mut server.address, between.address.clone());
    let rights = [[Read, Read]];
    let mut pair = pair(&mut server, &[&one.address], &rights, PathMode::Off).await;
    assert_ne!(address, server.address);
    injector
        .send(bytes(&Frame::Short(&[0; 80])))
        .expect("it listens");
    let Err(Error::Session(error)) = pair.server.receiver.recv().await else {
        panic!("it was taken");
    };
    assert_eq!(error, Breach::Unexpected(0xb4).into());
}

#[tokio::test]
async fn one_without_its_pair_or_with_another_key_has_no_session() {
    let two = middlebox(2, forwards).await;
    let other = paired(2, 1, 8).await;
    for (mut far, error) in [
        (two, Breach::Unexpected(0xb5).into()),
        (other, mctls::Error::from(Check::Pair)),
    ] {
        let one = paired(1, 2, 7).await;
        let mut server = server().await;
        let via = [one.address.as_str(), far.address.as_str()];
        let mut pair = pair(&mut server, &via, &BOTH, PathMode::Off).await;
        pair.client
            .sender
            .send(HEADERS, b"hello")
            .await
            .expect("sent");
        let Err(Error::Session(found)) = far.next().await else {
            panic!("it went on");
        };
        assert_eq!(found, error);
    }
}
