//! What handshakes and records cost on the client's link, shown with `--nocapture`; and what the
//! largest session costs nobody: that it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mctls::config::{Context, PathMode, Right};
use mctls::party::ContextId;
use tokio::net::TcpStream;

use super::{
    BODY, Pair, Task, client_settings, connect_with, forwards, listen, middlebox, received, server,
    session,
};
use crate::KeyExchange;

use Right::{Read, Write};

/// A hop that counts what passes, both ways.
async fn counting(to: String, count: &Arc<AtomicUsize>) -> Task<()> {
    let count = Arc::clone(count);
    listen(move |mut client: TcpStream| {
        let (to, count) = (to.clone(), Arc::clone(&count));
        async move {
            let mut server = TcpStream::connect(to).await.expect("the next hop");
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            tokio::join!(
                pass(&mut from_client, &mut to_server, &count),
                pass(&mut from_server, &mut to_client, &count),
            );
        }
    })
    .await
}

async fn pass(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    count: &AtomicUsize,
) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut buffer = vec![0; 1 << 14];
    while let Ok(length) = from.read(&mut buffer).await {
        count.fetch_add(length, Ordering::SeqCst);
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// Bytes on the client's link until data may be sent, with so many middleboxes and contexts.
async fn handshake(boxes: usize, contexts: u8, key_exchange: KeyExchange) -> usize {
    let mut server = server().await;
    let mut tasks = Vec::new();
    for number in 1..=boxes {
        tasks.push(middlebox(number, forwards).await);
    }
    let count = Arc::default();
    let first = tasks.first().map_or(&server.address, |task| &task.address);
    let hop = counting(first.clone(), &count).await;
    let mut via: Vec<&str> = tasks.iter().map(|task| task.address.as_str()).collect();
    let mut settings = client_settings(&[], &[], PathMode::Off);
    let to = match via.first_mut() {
        Some(first) => {
            *first = &hop.address;
            settings = client_settings(&via, &vec![[Write, Write]; boxes], PathMode::Off);
            server.address.clone()
        }
        None => hop.address.clone(),
    };
    settings.key_exchange = key_exchange;
    settings.contexts = (1..=contexts)
        .map(|id| Context {
            id: ContextId(id),
            purpose: String::new(),
            path: PathMode::Off,
            rights: vec![Write; boxes],
        })
        .collect();
    let mut pair = Pair {
        client: session(connect_with(settings, &to).await),
        server: session(server.next().await),
    };
    // The server is ready, too, once its first data is here; which does not belong to the count.
    let context = ContextId(1);
    pair.server.sender.send(context, b"x").await.expect("sent");
    let first = received(&mut pair.client).await;
    assert_eq!(first.payload, b"x");
    let record = 5 + 11 + 17 + if boxes > 0 { 16 } else { 0 };
    count.load(Ordering::SeqCst) - record
}

#[tokio::test]
async fn what_a_handshake_costs_on_the_clients_link() {
    let mut table = Vec::new();
    for key_exchange in [KeyExchange::Classical, KeyExchange::Hybrid] {
        for (boxes, contexts) in [(0, 1), (1, 1), (1, 4), (1, 16), (2, 1), (2, 4)] {
            let bytes = handshake(boxes, contexts, key_exchange).await;
            println!("{key_exchange:?}, {boxes} middleboxes, {contexts} contexts: {bytes} bytes");
            table.push(bytes);
        }
    }
    // The prototype's with one context and one middlebox, and TLMSP's, are 3,899 and 4,054.
    assert!(table[1] < 3_899, "{} bytes", table[1]);
    let further = table[4] - table[1];
    assert!(further < 2_000, "{further} bytes for one more middlebox");
}

/// Each write wakes somebody up, which costs as much as what it says.
#[tokio::test]
async fn a_clients_handshake_takes_three_writes() {
    let mut server = server().await;
    let one = middlebox(1, forwards).await;
    let rights = [[Write, Write]];
    let pair = super::pair(&mut server, &[&one.address], &rights, PathMode::Off).await;
    // Hellos; offer; readiness.
    assert_eq!(pair.client.sender.writes(), 3);
}

#[tokio::test]
async fn sixteen_middleboxes_and_255_contexts_work_over_sockets() {
    let mut server = server().await;
    let mut tasks = Vec::new();
    for number in 1..=16 {
        tasks.push(middlebox(number, forwards).await);
    }
    let via: Vec<&str> = tasks.iter().map(|task| task.address.as_str()).collect();
    let mut settings = client_settings(&via, &[[Read, Read]; 16], PathMode::Off);
    settings.contexts = (1..=255)
        .map(|id| Context {
            id: ContextId(id),
            purpose: "p".repeat(64),
            path: PathMode::Required,
            rights: vec![Write; 16],
        })
        .collect();
    let mut pair = Pair {
        client: session(connect_with(settings, &server.address.clone()).await),
        server: session(server.next().await),
    };
    for context in [ContextId(1), BODY, ContextId(255)] {
        pair.client
            .sender
            .send(context, b"data")
            .await
            .expect("sent");
        let delivery = received(&mut pair.server).await;
        assert_eq!((delivery.context, delivery.seen_by.len()), (context, 16));
    }
}
