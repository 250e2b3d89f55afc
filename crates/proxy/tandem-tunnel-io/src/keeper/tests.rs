//! The keeper over a transport that does what the test says.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::board::Facts;
use crate::transport::{Broken, Counts, Receiving, Sending, Stopped, Stream};

/// A connection that carries nothing; it ends when it is told to.
#[derive(Clone, Debug)]
struct Empty {
    number: usize,
    ended: Arc<watch::Sender<Option<Lost>>>,
    counts: Arc<Mutex<Counts>>,
}

impl Empty {
    /// So many datagrams have left and come.
    fn carries(&self, sent: u64, received: u64) {
        let mut counts = self.counts.lock().expect("no panic");
        counts.sent_datagrams += sent;
        counts.received_datagrams += received;
    }

    fn is_up(&self) -> bool {
        self.ended.borrow().is_none()
    }
}

#[derive(Debug)]
enum Never {}

impl Sending for Never {
    async fn write(&mut self, _: &[u8]) -> Result<usize, Broken> {
        match *self {}
    }
    fn finish(&mut self) {
        match *self {}
    }
    fn reset(&mut self, _: u32) {
        match *self {}
    }
    fn lower_priority(&mut self) {
        match *self {}
    }
    fn stopped(&self) -> Stopped {
        match *self {}
    }
}

impl Receiving for Never {
    type Piece = Vec<u8>;
    async fn read(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        match *self {}
    }
    fn stop(&mut self, _: u32) {
        match *self {}
    }
}

impl Tunnel for Empty {
    type Sending = Never;
    type Receiving = Never;
    async fn open(&self) -> Result<Stream<Never, Never>, Lost> {
        Err(self.closed().await)
    }
    async fn accept(&self) -> Result<Stream<Never, Never>, Lost> {
        Err(self.closed().await)
    }
    async fn closed(&self) -> Lost {
        let mut ended = self.ended.subscribe();
        let why = ended.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or(Lost::Here)
    }
    fn close(&self) {
        self.ended.send_replace(Some(Lost::Here));
    }
    async fn farewell(&self) {
        self.close();
    }
    fn counts(&self) -> Counts {
        *self.counts.lock().expect("no panic")
    }
}

/// Fails so many times, then succeeds.
#[derive(Clone)]
struct Line {
    tries: Arc<AtomicUsize>,
    failures: Arc<Mutex<usize>>,
}

impl Line {
    fn failing(failures: usize) -> Self {
        Self {
            tries: Arc::default(),
            failures: Arc::new(Mutex::new(failures)),
        }
    }

    fn tries(&self) -> usize {
        self.tries.load(Ordering::Relaxed)
    }
}

impl Connect for Line {
    type Tunnel = Empty;

    async fn connect(&self) -> Result<Empty, Lost> {
        let number = self.tries.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock().expect("no panic");
        if *failures > 0 {
            *failures -= 1;
            return Err(Lost::Silent);
        }
        Ok(Empty {
            number,
            ended: Arc::new(watch::Sender::new(None)),
            counts: Arc::default(),
        })
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }
}

fn start(line: &Line) -> Keeper<Empty> {
    let board = Board::new(Facts {
        role: "client-side",
        link: String::new(),
    });
    let (keeper, task) = Keeper::new(line.clone(), board);
    tokio::spawn(task);
    keeper
}

#[tokio::test(start_paused = true)]
async fn it_connects_at_the_start_and_again_only_when_somebody_needs_it() {
    let line = Line::failing(0);
    let keeper = start(&line);
    let first = keeper.tunnel().await.expect("up");
    assert_eq!(first.number, 0);
    first.ended.send_replace(Some(Lost::Restarted));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(line.tries(), 1, "nobody needs it");
    let second = keeper.tunnel().await.expect("up again");
    assert_eq!(second.number, 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_after_failures_and_tries_become_rarer() {
    let line = Line::failing(3);
    let keeper = start(&line);
    let start = tokio::time::Instant::now();
    assert_eq!(keeper.tunnel().await.expect("up").number, 3);
    // 1, 2 and 4 seconds, each less a quarter at most.
    let took = start.elapsed();
    let range = Duration::from_millis(5_250)..=Duration::from_millis(7_010);
    assert!(range.contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_goes_without_and_then_nobody_tries() {
    let line = Line::failing(usize::MAX);
    let keeper = start(&line);
    let start = tokio::time::Instant::now();
    assert!(keeper.tunnel().await.is_none());
    assert!(start.elapsed() < Duration::from_secs(13));
    sleep(Duration::from_secs(120)).await;
    let tries = line.tries();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(line.tries(), tries, "nobody waits any more");
}

#[tokio::test(start_paused = true)]
async fn who_comes_in_a_long_pause_has_a_try_of_its_own() {
    let line = Line::failing(usize::MAX);
    let keeper = start(&line);
    // After so many tries a pause is longer than anybody waits, by far.
    while line.tries() < 8 {
        assert!(keeper.tunnel().await.is_none());
    }
    *line.failures.lock().expect("no panic") = 0;
    let start = tokio::time::Instant::now();
    assert!(keeper.tunnel().await.is_some());
    assert!(start.elapsed() < MIN_PAUSE * 2);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_gets_no_answer_any_more_is_given_up() {
    let line = Line::failing(0);
    let keeper = start(&line);
    let tunnel = keeper.tunnel().await.expect("up");
    tunnel.carries(5, 5);
    // Probes leave as quinn sends them.
    let start = tokio::time::Instant::now();
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        sleep(Duration::from_secs(pause)).await;
        tunnel.carries(2, 0);
    }
    assert!(!tunnel.is_up(), "after {:?}", start.elapsed());
    assert_eq!(line.tries(), 1, "nobody needs it");
    assert_eq!(keeper.tunnel().await.expect("up again").number, 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_five_minutes_and_a_rest_of_days_leave_a_tunnel_up() {
    let line = Line::failing(0);
    let keeper = start(&line);
    let tunnel = keeper.tunnel().await.expect("up");
    for _ in 0..3 {
        // An acknowledgement is the last that leaves before a rest.
        tunnel.carries(5, 5);
        sleep(LOOK_INTERVAL * 2).await;
        tunnel.carries(1, 0);
        sleep(Duration::from_secs(100_000)).await;
        assert!(tunnel.is_up(), "at rest");
        // An outage follows, and ends shortly after the probe at 300 s.
        for pause in [20, 40, 80, 160] {
            sleep(Duration::from_secs(pause)).await;
            tunnel.carries(2, 0);
        }
        sleep(Duration::from_secs(320)).await;
        tunnel.carries(2, 0);
        sleep(Duration::from_secs(8)).await;
        assert!(tunnel.is_up(), "the answer is on its way");
        tunnel.carries(0, 2);
    }
    assert_eq!(line.tries(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_cause_one_connection() {
    let line = Line::failing(1);
    let keeper = Arc::new(start(&line));
    let relays: Vec<_> = (0..100)
        .map(|_| {
            let keeper = Arc::clone(&keeper);
            tokio::spawn(async move { keeper.tunnel().await.expect("up").number })
        })
        .collect();
    for relay in relays {
        assert_eq!(relay.await.expect("no panic"), 1);
    }
    assert_eq!(line.tries(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_for_a_stream_goes_without_and_others_keep_the_tunnel() {
    let line = Line::failing(0);
    let keeper = start(&line);
    let tunnel = keeper.tunnel().await.expect("up");
    let start = Instant::now();
    assert!(keeper.stream().await.is_none());
    assert_eq!(start.elapsed(), keeper.patience);
    assert!(tunnel.is_up());
}
