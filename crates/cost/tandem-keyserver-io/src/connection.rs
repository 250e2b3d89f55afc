//! One connection of a client: requests in, answers out, in whatever order they are ready.
//!
//! Is not: what is answered.
//!
//! Invariants: of one connection, so many requests are held at a time and no more is read before
//! one of them is answered and the answer is written; whoever reads no answers is closed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tandem_channel::{Acceptor, ServerChannel, holder};
use tandem_daemon::door::Entry;
use tandem_daemon::places::Places;
use tandem_keyserver::{Frames, GREETING, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::desk::{Desk, HandedIn, Reply};
use crate::settings::PeerId;

/// For the channel's handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Without a request. A client that is there connects again.
const IDLE: Duration = Duration::from_secs(600);
/// For a client that does not read its answers.
const UNREAD: Duration = Duration::from_secs(10);
/// Requests of one connection that are not answered yet.
const MAX_PIPELINE: usize = 64;
/// How long a connection is not read from after a request that came too early.
const REST: Duration = Duration::from_millis(10);
/// Read at once.
const PIECE: usize = 4_096;

/// Serves a connection to its end.
pub(crate) async fn serve(
    stream: TcpStream,
    acceptor: Acceptor,
    desk: Arc<Desk>,
    peers: Arc<Places<PeerId>>,
    entry: Entry,
) {
    let opening = timeout(HANDSHAKE, acceptor.open(stream, Arc::default()));
    let channel = match entry.patiently(opening).await {
        Some(Ok(Ok(channel))) => channel,
        Some(Ok(Err(error))) => {
            desk.numbers.refused_connections.add(1);
            tracing::debug!(%error, "a connection was not admitted");
            return;
        }
        Some(Err(_)) | None => {
            desk.numbers.refused_connections.add(1);
            return;
        }
    };
    let Some(peer) = holder(&channel).map(tandem_channel::KeyName::bytes) else {
        return;
    };
    entry.shown(peer);
    let Some(place) = peers.take(peer) else {
        desk.refuse_connection(peer);
        return;
    };
    let counted = desk.numbers.connections.hold();
    if let Err(error) = talk(channel, peer, &desk).await {
        tracing::debug!(%error, "a connection ended");
    }
    drop((counted, place));
}

async fn talk(channel: ServerChannel, peer: PeerId, desk: &Desk) -> io::Result<()> {
    let (from, to) = tokio::io::split(channel);
    let (sender, replies) = unbounded_channel();
    tokio::select! {
        ended = requests(from, peer, desk, sender) => ended,
        ended = answers(to, replies) => ended,
    }
}

async fn requests(
    mut from: impl AsyncRead + Unpin,
    peer: PeerId,
    desk: &Desk,
    sender: UnboundedSender<Reply>,
) -> io::Result<()> {
    let pipeline = Arc::new(Semaphore::new(MAX_PIPELINE));
    let mut frames = Frames::of_requests();
    let mut piece = vec![0; PIECE];
    loop {
        let len = timeout(IDLE, from.read(&mut piece)).await??;
        if len == 0 {
            // What is being signed is still answered.
            let all = u32::try_from(MAX_PIPELINE).unwrap_or(u32::MAX);
            let _ = pipeline.acquire_many(all).await;
            return Ok(());
        }
        frames.push(&piece[..len]);
        while let Some(body) = frames.next_body().map_err(io::Error::other)? {
            let request = Request::read(&body).map_err(io::Error::other)?;
            let place = Arc::clone(&pipeline).acquire_owned().await;
            let place = place.map_err(io::Error::other)?;
            match desk.hand_in(peer, request, place, &sender) {
                HandedIn::Taken => {}
                HandedIn::TooEarly => tokio::time::sleep(REST).await,
                HandedIn::Stranger => return Ok(()),
            }
        }
    }
}

async fn answers(
    mut to: impl AsyncWrite + Unpin,
    mut replies: UnboundedReceiver<Reply>,
) -> io::Result<()> {
    to.write_all(&GREETING).await?;
    to.flush().await?;
    let mut ready = Vec::new();
    while replies.recv_many(&mut ready, MAX_PIPELINE).await > 0 {
        let bytes: Vec<u8> = ready
            .iter()
            .flat_map(|reply| &reply.frame)
            .copied()
            .collect();
        timeout(UNREAD, async {
            to.write_all(&bytes).await?;
            to.flush().await
        })
        .await??;
        // Only now is there room for further requests.
        ready.drain(..).for_each(|reply| drop(reply.place));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tandem_keyserver::{Content, KeyId, Policy, RequestId, Scheme};

    use super::*;
    use crate::settings::{Loaded, Peer};

    #[test]
    fn no_more_is_read_before_answers_are_written() {
        let peer = Peer {
            name: "deaf".to_owned(),
            rate: 1_000_000,
            burst: 1_000_000,
        };
        let loaded = Loaded {
            channel_key: "unused".into(),
            audit: None,
            keys: BTreeMap::new(),
            peers: [([1; 32], peer)].into(),
            policy: Policy::default(),
            rules: Vec::new(),
        };
        let desk = Desk::new(loaded).expect("nothing to open");
        let request = Request {
            id: RequestId(0),
            key: KeyId::from_bytes([2; 32]),
            scheme: Scheme::Ed25519,
            content: Content::Transcript32([3; 32]),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (mut theirs, ours) = tokio::io::duplex(1 << 20);
            let frames = request.to_frame().repeat(1_000);
            theirs.write_all(&frames).await.expect("room");
            let (sender, mut replies) = unbounded_channel();
            let mut taken = pin!(tokio::task::unconstrained(requests(
                ours, [1; 32], &desk, sender
            )));
            let mut context = Context::from_waker(Waker::noop());
            let mut poll = || assert!(taken.as_mut().poll(&mut context).is_pending());
            poll();
            assert_eq!(replies.len(), MAX_PIPELINE);
            // One that is written makes room for one.
            drop(replies.recv().await);
            poll();
            assert_eq!(replies.len(), MAX_PIPELINE);
        });
    }
}
