//! A service that lets records wait: what follows waits behind them, the other direction does not,
//! and what waits is bounded.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use mctls::config::{Context, PathMode, Right};
use mctls::party::Direction;
use mctls::record::MAX_PARTS;
use tokio::time::timeout;

use super::{
    BODY, HEADERS, PATIENCE, middlebox, middlebox_settings, middlebox_with, pair, received, server,
};
use crate::middlebox::MAX_WAITING;
use crate::{Error, Service, Verdict};

/// Opened once, by the test.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    held: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Gate {
    fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().expect("no panic with it").take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Lets what it sees towards the server wait until the gate is open.
struct Waits {
    gate: Arc<Gate>,
    verdict: Verdict,
    has_told: bool,
    /// Whether it says that it works as long as it waits.
    works: bool,
}

impl Service for Waits {
    fn inspect(&mut self, direction: Direction, _: &Context, data: &[u8]) -> Verdict {
        match direction {
            Direction::ToServer => {
                self.gate.held.fetch_add(data.len(), Ordering::SeqCst);
                Verdict::Wait
            }
            Direction::ToClient => Verdict::Forward,
        }
    }

    fn decide(&mut self, direction: Direction) -> Option<Verdict> {
        assert_eq!(direction, Direction::ToServer, "nothing else waits");
        let is_open = self.gate.is_open.load(Ordering::SeqCst);
        is_open.then(|| self.verdict.clone())
    }

    fn works(&self) -> bool {
        self.works && !self.gate.is_open.load(Ordering::SeqCst)
    }

    fn progress(&mut self, context: &mut TaskContext<'_>) -> Poll<()> {
        let mut waker = self.gate.waker.lock().expect("no panic with it");
        *waker = Some(context.waker().clone());
        let is_open = self.gate.is_open.load(Ordering::SeqCst);
        match is_open && !std::mem::replace(&mut self.has_told, is_open) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

fn waits(gate: &Arc<Gate>, verdict: Verdict) -> impl Fn() -> Box<dyn Service> + use<> {
    let gate = Arc::clone(gate);
    move || {
        Box::new(Waits {
            gate: Arc::clone(&gate),
            verdict: verdict.clone(),
            has_told: false,
            works: false,
        })
    }
}

#[tokio::test]
async fn what_follows_waits_behind_it_and_the_other_direction_does_not() {
    for path in [PathMode::Off, PathMode::Required] {
        let gate = Arc::<Gate>::default();
        let one = middlebox(1, waits(&gate, Verdict::Forward)).await;
        let mut server = server().await;
        let rights = [[Right::Read, Right::None]];
        let mut pair = pair(&mut server, &[&one.address], &rights, path).await;
        for (context, data) in [(HEADERS, b"first"), (BODY, b"after"), (HEADERS, b"third")] {
            pair.client.sender.send(context, data).await.expect("sent");
        }
        pair.client.sender.close().await.expect("sent");
        pair.server
            .sender
            .send(HEADERS, b"back")
            .await
            .expect("sent");
        assert_eq!(received(&mut pair.client).await.payload, b"back");
        let early = timeout(Duration::ZERO, pair.server.receiver.recv()).await;
        assert!(early.is_err(), "{early:?}");
        gate.open();
        for data in [b"first", b"after", b"third"] {
            assert_eq!(received(&mut pair.server).await.payload, data);
        }
        let end = pair.server.receiver.recv().await.expect("in order");
        assert_eq!(end, None);
    }
}

#[tokio::test]
async fn what_waits_may_be_replaced_or_blocked() {
    let gate = Arc::<Gate>::default();
    let other = Verdict::Replace(vec![b"other ".to_vec(), b"words".to_vec()]);
    let one = middlebox(1, waits(&gate, other)).await;
    let mut server = server().await;
    let rights = [[Right::Write, Right::None]];
    let mut two = pair(&mut server, &[&one.address], &rights, PathMode::Required).await;
    two.client
        .sender
        .send(HEADERS, b"mine")
        .await
        .expect("sent");
    two.client.sender.send(BODY, b"own").await.expect("sent");
    gate.open();
    assert_eq!(received(&mut two.server).await.payload, b"other words");
    assert_eq!(received(&mut two.server).await.payload, b"own");

    let gate = Arc::<Gate>::default();
    let mut one = middlebox(1, waits(&gate, Verdict::Block)).await;
    let mut two = pair(&mut server, &[&one.address], &rights, PathMode::Off).await;
    two.client.sender.send(HEADERS, b"bad").await.expect("sent");
    gate.open();
    assert!(two.server.receiver.recv().await.is_err());
    assert!(matches!(one.next().await, Err(Error::Blocked)));
}

/// Lets heads wait for ever, and blocks bodies.
struct Blocks;

impl Service for Blocks {
    fn inspect(&mut self, _: Direction, context: &Context, _: &[u8]) -> Verdict {
        match context.id {
            HEADERS => Verdict::Wait,
            _ => Verdict::Block,
        }
    }
}

#[tokio::test]
async fn a_block_does_not_wait_behind_what_waits() {
    let mut one = middlebox(1, || Box::new(Blocks)).await;
    let mut server = server().await;
    let rights = [[Right::Read, Right::Read]];
    let mut pair = pair(&mut server, &[&one.address], &rights, PathMode::Off).await;
    for context in [HEADERS, BODY] {
        pair.client
            .sender
            .send(context, b"data")
            .await
            .expect("sent");
    }
    let ended = timeout(PATIENCE.idle / 4, one.next()).await;
    assert!(matches!(ended, Ok(Err(Error::Blocked))), "{ended:?}");
}

#[tokio::test]
async fn a_pause_in_which_the_service_works_does_not_end_the_session() {
    const IDLE: Duration = Duration::from_secs(1);
    for works in [true, false] {
        let gate = Arc::<Gate>::default();
        let of_service = Arc::clone(&gate);
        let service = move || -> Box<dyn Service> {
            Box::new(Waits {
                gate: Arc::clone(&of_service),
                verdict: Verdict::Forward,
                has_told: false,
                works,
            })
        };
        let mut settings = middlebox_settings(1, service);
        settings.timeouts.idle = IDLE;
        let mut one = middlebox_with(settings).await;
        let mut server = server().await;
        let rights = [[Right::Read, Right::None]];
        let mut pair = pair(&mut server, &[&one.address], &rights, PathMode::Off).await;
        pair.client
            .sender
            .send(HEADERS, b"data")
            .await
            .expect("sent");
        let mut ended = timeout(IDLE * 2, one.next()).await;
        if works {
            assert!(ended.is_err(), "{ended:?}");
            gate.open();
            assert_eq!(received(&mut pair.server).await.payload, b"data");
            // Now it is the neighbours who say nothing.
            ended = timeout(PATIENCE.idle / 4, one.next()).await;
        }
        assert!(
            matches!(ended, Ok(Err(Error::TimedOut(..)))),
            "{works}: {ended:?}"
        );
    }
}

#[tokio::test]
async fn no_more_is_taken_than_may_wait() {
    const LEN: usize = 8 << 20;
    let gate = Arc::<Gate>::default();
    let one = middlebox(1, waits(&gate, Verdict::Forward)).await;
    let mut server = server().await;
    let rights = [[Right::Read, Right::None]];
    let mut pair = pair(&mut server, &[&one.address], &rights, PathMode::Off).await;
    let data = vec![7; LEN];
    let mut sender = pair.client.sender;
    let sending = sender.send(HEADERS, &data);
    let mut sending = std::pin::pin!(sending);
    // It takes as long as it takes: nobody reads on.
    let early = timeout(Duration::from_millis(500), sending.as_mut()).await;
    assert!(early.is_err(), "everything was taken");
    let held = gate.held.load(Ordering::SeqCst);
    assert!(held > 0 && held <= MAX_WAITING, "{held}");
    gate.open();
    let receiving = async {
        let mut came = 0;
        while came < LEN {
            came += received(&mut pair.server).await.payload.len();
        }
        came
    };
    let (sent, came) = tokio::join!(sending, receiving);
    sent.expect("sent");
    assert_eq!(came, LEN);
}

/// Makes eight records of each.
struct Swells;

impl Service for Swells {
    fn inspect(&mut self, _: Direction, _: &Context, data: &[u8]) -> Verdict {
        Verdict::Replace(vec![data.to_vec(); MAX_PARTS])
    }
}

#[tokio::test]
async fn all_records_of_a_group_are_counted_where_it_waits() {
    let gate = Arc::<Gate>::default();
    let one = middlebox(1, || Box::new(Swells)).await;
    let two = middlebox(2, waits(&gate, Verdict::Forward)).await;
    let mut server = server().await;
    let rights = [[Right::Write, Right::None], [Right::Read, Right::None]];
    let via = [one.address.as_str(), &two.address];
    let mut pair = pair(&mut server, &via, &rights, PathMode::Off).await;
    let data = vec![7; 8 << 20];
    let sending = pair.client.sender.send(HEADERS, &data);
    // It takes as long as it takes: nobody reads on.
    let early = timeout(Duration::from_millis(500), sending).await;
    assert!(early.is_err(), "everything was taken");
    let held = gate.held.load(Ordering::SeqCst);
    assert!(held > 0 && held <= MAX_WAITING, "{held}");
}
