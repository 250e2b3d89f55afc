//! The keeper over a transport that does what the test says.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::timeout;

use super::outage::INTERVAL;
use super::up::{LOOK_INTERVAL, MAX_REST, MAX_SILENCE};
use crate::board::Facts;
use crate::link_state::{Hooks, link_state};
use crate::transport::{Broken, Counts, Datagrams, Receiving, Sending, Stopped, Stream, nudge};

/// A connection that carries nothing; it ends when it is told to.
#[derive(Clone, Debug)]
pub(crate) struct Empty {
    number: usize,
    over: Over,
    ended: Arc<watch::Sender<Option<Lost>>>,
    counts: Arc<Mutex<Counts>>,
    nudges: Arc<AtomicUsize>,
}

impl Empty {
    /// How often the other side has been asked.
    fn nudges(&self) -> usize {
        self.nudges.load(Ordering::Relaxed)
    }

    /// So many datagrams have left and come.
    pub(crate) fn carries(&self, sent: u64, received: u64) {
        let mut counts = self.counts.lock().expect("no panic");
        counts.sent_datagrams += sent;
        counts.received_datagrams += received;
    }

    pub(crate) fn is_up(&self) -> bool {
        self.ended.borrow().is_none()
    }

    pub(crate) fn end(&self, why: Lost) {
        self.ended.send_replace(Some(why));
    }
}

#[derive(Debug)]
pub(crate) enum Never {}

impl Datagrams for Never {
    async fn room(&self, _: usize, _: Instant) {
        match *self {}
    }
    fn max_len(&self) -> Option<usize> {
        match *self {}
    }
    fn send(&self, _: &[u8]) {
        match *self {}
    }
    async fn receive(&self) -> Vec<u8> {
        match *self {}
    }
}

impl Sending for Never {
    type Datagrams = Never;
    fn datagrams(&self) -> Never {
        match *self {}
    }
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
        self.end(Lost::Here);
    }
    async fn farewell(&self) {
        self.close();
    }
    fn nudge(&self) {
        self.nudges.fetch_add(1, Ordering::Relaxed);
    }
    fn counts(&self) -> Counts {
        *self.counts.lock().expect("no panic")
    }
    fn over(&self) -> Over {
        self.over
    }
}

/// A way to the other side.
#[derive(Clone)]
pub(crate) struct Line {
    over: Over,
    tries: Arc<AtomicUsize>,
    mode: Arc<Mutex<Mode>>,
}

/// What becomes of a try.
#[derive(Clone, Copy)]
enum Mode {
    /// It fails so many times, then succeeds.
    Fails(usize),
    /// Nobody answers.
    Blocked,
    /// Somebody else answers.
    Refuses,
}

impl Line {
    fn new(over: Over, mode: Mode) -> Self {
        Self {
            over,
            tries: Arc::default(),
            mode: Arc::new(Mutex::new(mode)),
        }
    }

    /// Over TCP, and nobody answers.
    pub(crate) fn none() -> Self {
        Self::new(Over::Tcp, Mode::Fails(usize::MAX))
    }

    pub(crate) fn failing(failures: usize) -> Self {
        Self::new(Over::Udp, Mode::Fails(failures))
    }

    fn becomes(&self, mode: Mode) {
        *self.mode.lock().expect("no panic") = mode;
    }

    pub(crate) fn tries(&self) -> usize {
        self.tries.load(Ordering::Relaxed)
    }
}

const UP: Mode = Mode::Fails(0);

impl Connect for Line {
    type Tunnel = Empty;

    async fn connect(&self) -> Result<Empty, Lost> {
        let number = self.tries.fetch_add(1, Ordering::Relaxed);
        let mode = *self.mode.lock().expect("no panic");
        match mode {
            Mode::Fails(0) => {}
            Mode::Fails(failures) => {
                self.becomes(Mode::Fails(failures - 1));
                return Err(Lost::Silent);
            }
            Mode::Blocked => {
                sleep(self.patience()).await;
                return Err(Lost::Silent);
            }
            Mode::Refuses => return Err(Lost::Refused("no".to_owned())),
        }
        Ok(Empty {
            number,
            over: self.over,
            ended: Arc::new(watch::Sender::new(None)),
            counts: Arc::default(),
            nudges: Arc::default(),
        })
    }

    fn patience(&self) -> Duration {
        match self.over {
            Over::Udp => Duration::from_secs(10),
            Over::Tcp => Duration::from_secs(5),
        }
    }

    fn round_trip(&self) -> Duration {
        ROUND_TRIP
    }
}

const ROUND_TRIP: Duration = Duration::from_millis(600);
/// Three of them.
const DOUBT: Duration = Duration::from_millis(1_800);

fn start(line: &Line) -> Keeper<Empty> {
    start_both(line, &Line::none())
}

fn start_both(udp: &Line, tcp: &Line) -> Keeper<Empty> {
    start_with_hooks(udp, tcp).1
}

fn start_with_hooks(udp: &Line, tcp: &Line) -> (Hooks, Keeper<Empty>) {
    let board = Board::new(Facts {
        role: "client-side",
        link: String::new(),
    });
    let (hooks, link) = link_state(Arc::clone(&board));
    let (keeper, task) = Keeper::new(udp.clone(), tcp.clone(), link, board);
    tokio::spawn(task);
    (hooks, keeper)
}

/// The tunnel, for a moment.
async fn tunnel(keeper: &Keeper<Empty>) -> Option<Empty> {
    Some(keeper.tunnel().await?.tunnel.clone())
}

/// Until the tunnel in use runs over this.
async fn comes_over(keeper: &Keeper<Empty>, over: Over) -> Empty {
    let mut current = keeper.current.clone();
    let is = |up: &Option<Up<Empty>>| up.as_ref().is_some_and(|up| up.tunnel().over == over);
    let came = timeout(Duration::from_secs(7_200), current.wait_for(is)).await;
    came.expect("in time").expect("the keeper lives");
    keeper.now().expect("up")
}

#[tokio::test(start_paused = true)]
async fn it_connects_at_the_start_and_again_only_when_somebody_needs_it() {
    let line = Line::failing(0);
    let keeper = start(&line);
    let first = tunnel(&keeper).await.expect("up");
    assert_eq!(first.number, 0);
    first.end(Lost::Restarted);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(line.tries(), 1, "nobody needs it");
    let second = tunnel(&keeper).await.expect("up again");
    assert_eq!(second.number, 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_after_failures_and_tries_become_rarer() {
    let line = Line::failing(3);
    let keeper = start(&line);
    let start = tokio::time::Instant::now();
    assert_eq!(tunnel(&keeper).await.expect("up").number, 3);
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
    line.becomes(UP);
    let start = tokio::time::Instant::now();
    assert!(keeper.tunnel().await.is_some());
    assert!(start.elapsed() < MIN_PAUSE * 2);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_gets_no_answer_any_more_is_given_up() {
    let line = Line::failing(0);
    let keeper = start(&line);
    let first = tunnel(&keeper).await.expect("up");
    first.carries(5, 5);
    // Probes leave as quinn sends them.
    let start = tokio::time::Instant::now();
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        sleep(Duration::from_secs(pause)).await;
        first.carries(2, 0);
    }
    assert!(!first.is_up(), "after {:?}", start.elapsed());
    assert_eq!(line.tries(), 1, "nobody needs it");
    assert_eq!(tunnel(&keeper).await.expect("up again").number, 1);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_five_minutes_and_a_rest_of_days_leave_a_tunnel_up() {
    let line = Line::failing(0);
    let keeper = start(&line);
    let up = tunnel(&keeper).await.expect("up");
    for _ in 0..3 {
        // An acknowledgement is the last that leaves before a rest.
        up.carries(5, 5);
        sleep(LOOK_INTERVAL * 2).await;
        up.carries(1, 0);
        sleep(Duration::from_secs(100_000)).await;
        assert!(up.is_up(), "at rest");
        // An outage follows, and ends shortly after the probe at 300 s.
        for pause in [20, 40, 80, 160] {
            sleep(Duration::from_secs(pause)).await;
            up.carries(2, 0);
        }
        sleep(Duration::from_secs(320)).await;
        up.carries(2, 0);
        sleep(Duration::from_secs(8)).await;
        assert!(up.is_up(), "the answer is on its way");
        up.carries(0, 2);
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
            tokio::spawn(async move { tunnel(&keeper).await.expect("up").number })
        })
        .collect();
    for relay in relays {
        assert_eq!(relay.await.expect("no panic"), 1);
    }
    assert_eq!(line.tries(), 2);
}

#[tokio::test(start_paused = true)]
async fn where_udp_is_blocked_tcp_is_tried_after_a_round_trip() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let start = Instant::now();
    assert_eq!(tunnel(&keeper).await.expect("up").over, Over::Tcp);
    // With the time that UDP has when TCP is up.
    let range = ROUND_TRIP..ROUND_TRIP + Duration::from_millis(10);
    assert!(range.contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn where_udp_is_answered_tcp_is_not_tried() {
    for mode in [UP, Mode::Refuses] {
        let tcp = Line::new(Over::Tcp, UP);
        let keeper = start_both(&Line::new(Over::Udp, mode), &tcp);
        let came = timeout(Duration::from_secs(3), keeper.tunnel()).await;
        let is_up = came.is_ok_and(|lease| lease.is_some());
        assert_eq!(is_up, matches!(mode, Mode::Fails(0)));
        assert_eq!(tcp.tries(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn over_tcp_udp_is_tried_more_and_more_rarely_and_only_while_in_use() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let lease = keeper.tunnel().await.expect("up");
    assert_eq!(udp.tries(), 1);
    // After a quarter of a minute; 5, 15, 35, 75, 155, 315, 635 and 1,275 minutes later.
    for _ in 0..24 * 60 {
        lease.tunnel.carries(1, 1);
        sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(udp.tries(), 10);
    sleep(Duration::from_secs(30 * 24 * 3600)).await;
    assert_eq!(udp.tries(), 11, "nobody says anything");
    lease.tunnel.carries(1, 1);
    sleep(LOOK_INTERVAL * 2).await;
    assert_eq!(udp.tries(), 12);
}

#[tokio::test(start_paused = true)]
async fn once_udp_gets_through_it_is_used_and_tcp_lasts_as_long_as_its_users() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let old = keeper.tunnel().await.expect("up");
    assert_eq!(old.tunnel.over, Over::Tcp);
    udp.becomes(UP);
    old.tunnel.carries(5, 5);
    let start = Instant::now();
    comes_over(&keeper, Over::Udp).await;
    assert!(start.elapsed() <= Duration::from_secs(16));
    sleep(Duration::from_secs(3_600)).await;
    assert!(old.tunnel.is_up(), "somebody uses it");
    let tcp = old.tunnel.clone();
    drop(old);
    sleep(MAX_REST).await;
    assert!(!tcp.is_up());
}

#[tokio::test(start_paused = true)]
async fn what_the_last_user_of_a_replaced_tunnel_has_sent_still_arrives() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let old = keeper.tunnel().await.expect("up");
    udp.becomes(UP);
    old.tunnel.carries(5, 5);
    comes_over(&keeper, Over::Udp).await;
    let tcp = old.tunnel.clone();
    drop(old);
    // The end of an upload, in an outage: TCP repeats it more and more rarely.
    for pause in [1, 6, 12, 30, 60, 120, 120] {
        sleep(Duration::from_secs(pause)).await;
        assert!(tcp.is_up());
        tcp.carries(1, 0);
    }
    tcp.carries(0, 1);
    sleep(MAX_REST).await;
    assert!(!tcp.is_up(), "nothing is left in it");
}

#[tokio::test(start_paused = true)]
async fn where_udp_lets_a_handshake_through_and_little_more_it_is_tried_ever_more_rarely() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let _first = keeper.tunnel().await.expect("up");
    udp.becomes(UP);
    for seconds in [15, 300, 600] {
        comes_over(&keeper, Over::Tcp).await.carries(5, 5);
        let start = Instant::now();
        let over_udp = comes_over(&keeper, Over::Udp).await;
        let pause = start.elapsed().as_secs();
        assert!((seconds - 2..=seconds + 2).contains(&pause), "{pause}");
        let _somebody = keeper.tunnel().await.expect("up");
        sleep(Duration::from_millis(1)).await;
        over_udp.carries(1, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_given_up_is_not_taken_again_at_once() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let tcp = Line::new(Over::Tcp, UP);
    let keeper = start_both(&udp, &tcp);
    let up = comes_over(&keeper, Over::Tcp).await;
    tcp.becomes(Mode::Blocked);
    up.carries(5, 5);
    // While UDP is tried, a quarter of a minute after the start, the tunnel is doubted.
    sleep(Duration::from_secs(14)).await;
    let _somebody = keeper.tunnel().await.expect("up");
    sleep(Duration::from_millis(1)).await;
    up.carries(1, 0);
    sleep(DOUBT).await;
    let tries = udp.tries();
    assert_eq!(
        tries, 3,
        "at the start, at the look, and in place of the tunnel"
    );
    up.carries(0, 1);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(udp.tries(), tries);
}

/// Counts the warnings of the log.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, event: &tracing::Metadata<'_>) -> bool {
        *event.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_of_when_it_begins_and_now_and_then() {
    let warnings = Arc::new(AtomicUsize::new(0));
    let _here = tracing::subscriber::set_default(Warnings(Arc::clone(&warnings)));
    let told = || warnings.load(Ordering::Relaxed);
    let line = Line::failing(usize::MAX);
    let keeper = start(&line);
    let start = Instant::now();
    let minute = Duration::from_secs(60);
    while start.elapsed() < INTERVAL - minute {
        assert!(keeper.tunnel().await.is_none());
    }
    assert!(line.tries() > 20, "{}", line.tries());
    assert_eq!(told(), 1);
    while start.elapsed() < INTERVAL + minute {
        assert!(keeper.tunnel().await.is_none());
    }
    assert_eq!(told(), 2);
    line.becomes(UP);
    let up = tunnel(&keeper).await.expect("up");
    line.becomes(Mode::Fails(usize::MAX));
    up.end(Lost::Restarted);
    sleep(Duration::from_millis(1)).await;
    assert!(keeper.tunnel().await.is_none());
    assert_eq!(told(), 3, "another outage");
}

/// A tunnel over UDP that gives no answer to what somebody new says.
async fn silenced(keeper: &Keeper<Empty>) -> (Lease<Empty>, Empty) {
    let first = keeper.tunnel().await.expect("up");
    first.tunnel.carries(5, 5);
    sleep(Duration::from_secs(100)).await;
    let _second = keeper.tunnel().await.expect("up");
    sleep(Duration::from_millis(1)).await;
    first.tunnel.carries(1, 0);
    let over_tcp = comes_over(keeper, Over::Tcp).await;
    (first, over_tcp)
}

#[tokio::test(start_paused = true)]
async fn when_udp_is_blocked_later_tcp_takes_its_place_within_three_round_trips() {
    let udp = Line::new(Over::Udp, UP);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let start = Instant::now();
    let (old, _) = silenced(&keeper).await;
    let took = start.elapsed() - Duration::from_secs(100);
    assert!(took < DOUBT + Duration::from_millis(10), "{took:?}");
    // The old one is given up when it is silent for longer than it needs to ask.
    udp.becomes(Mode::Blocked);
    sleep(nudge::INTERVAL).await;
    assert!(old.tunnel.is_up());
    sleep(DOUBT * 2).await;
    assert!(!old.tunnel.is_up());
    assert_eq!(keeper.now().expect("up").over, Over::Tcp);
}

#[tokio::test(start_paused = true)]
async fn what_was_on_its_way_before_udp_was_blocked_does_not_hide_that() {
    for (unanswered, expected) in [(1, Over::Udp), (2, Over::Tcp)] {
        let keeper = start_both(&Line::new(Over::Udp, UP), &Line::new(Over::Tcp, UP));
        let somebody = keeper.tunnel().await.expect("up");
        sleep(Duration::from_millis(1)).await;
        somebody.tunnel.carries(1, 1);
        // One may be an acknowledgement, which gets no answer.
        for _ in 0..unanswered {
            sleep(DOUBT).await;
            somebody.tunnel.carries(1, 0);
        }
        sleep(DOUBT * 20).await;
        assert_eq!(keeper.now().expect("up").over, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_over_udp_that_is_heard_again_is_used_again() {
    let udp = Line::new(Over::Udp, UP);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let (old, over_tcp) = silenced(&keeper).await;
    old.tunnel.carries(0, 1);
    comes_over(&keeper, Over::Udp).await;
    assert!(old.tunnel.is_up());
    assert_eq!(udp.tries(), 1);
    sleep(MAX_REST).await;
    assert!(!over_tcp.is_up(), "nobody uses it");
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_whose_end_tcp_sees_first_udp_has_time_to_ask() {
    let udp = Line::new(Over::Udp, UP);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let (old, _) = silenced(&keeper).await;
    sleep(nudge::INTERVAL).await;
    old.tunnel.carries(1, 1);
    comes_over(&keeper, Over::Udp).await;
    assert!(old.tunnel.is_up());
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_both_ends_no_tunnel_and_tries_become_rarer() {
    let udp = Line::new(Over::Udp, UP);
    let tcp = Line::new(Over::Tcp, Mode::Blocked);
    let keeper = start_both(&udp, &tcp);
    let old = tunnel(&keeper).await.expect("up");
    for pause in [1, 2, 4, 8, 16, 32, 64, 128] {
        let _somebody = keeper.tunnel().await.expect("up");
        sleep(Duration::from_millis(1)).await;
        old.carries(1, 0);
        sleep(Duration::from_secs(pause)).await;
    }
    assert!((1..8).contains(&tcp.tries()), "{}", tcp.tries());
    old.carries(0, 1);
    sleep(Duration::from_secs(60)).await;
    let tries = tcp.tries();
    let somebody = keeper.tunnel().await.expect("up");
    somebody.tunnel.carries(1, 1);
    sleep(MAX_SILENCE * 2).await;
    assert!(old.is_up());
    assert_eq!(tcp.tries(), tries, "it answers");
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_over_tcp_that_a_network_has_forgotten_is_replaced() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let keeper = start_both(&udp, &Line::new(Over::Tcp, UP));
    let old = keeper.tunnel().await.expect("up");
    old.tunnel.carries(5, 5);
    sleep(Duration::from_secs(200)).await;
    let new = keeper.tunnel().await.expect("up");
    sleep(Duration::from_millis(1)).await;
    new.tunnel.carries(1, 0);
    sleep(DOUBT * 2 + Duration::from_millis(10)).await;
    assert_eq!(keeper.now().expect("up").number, 1);
    assert!(old.tunnel.is_up(), "not yet given up");
    sleep(DOUBT * 4).await;
    assert!(!old.tunnel.is_up());
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_for_a_stream_goes_without_and_others_keep_the_tunnel() {
    let keeper = start(&Line::failing(0));
    let tunnel = tunnel(&keeper).await.expect("up");
    let start = Instant::now();
    assert!(keeper.stream().await.is_none());
    assert_eq!(start.elapsed(), keeper.patience);
    assert!(tunnel.is_up());
}

#[tokio::test(start_paused = true)]
async fn while_the_link_is_down_nothing_is_tried_and_nobody_waits() {
    let (udp, tcp) = (Line::new(Over::Udp, Mode::Blocked), Line::none());
    let (hooks, keeper) = start_with_hooks(&udp, &tcp);
    let waits = keeper.tunnel();
    sleep(Duration::from_millis(1)).await;
    let start = Instant::now();
    let goes_down = async {
        sleep(Duration::from_secs(1)).await;
        hooks.down();
    };
    let (found, ()) = tokio::join!(waits, goes_down);
    assert!(found.is_none());
    assert!(keeper.tunnel().await.is_none());
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    udp.becomes(UP);
    let tries = (udp.tries(), tcp.tries());
    sleep(Duration::from_secs(24 * 3600)).await;
    assert!(keeper.tunnel().await.is_none());
    assert_eq!((udp.tries(), tcp.tries()), tries);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_is_not_used_while_the_link_is_down() {
    let (hooks, keeper) = start_with_hooks(&Line::new(Over::Udp, UP), &Line::none());
    assert!(keeper.tunnel().await.is_some());
    hooks.down();
    assert!(keeper.tunnel().await.is_none());
    hooks.up();
    assert!(keeper.tunnel().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn when_the_link_comes_up_a_try_begins_anew() {
    let udp = Line::new(Over::Udp, Mode::Blocked);
    let (hooks, _keeper) = start_with_hooks(&udp, &Line::none());
    sleep(Duration::from_secs(3)).await;
    assert_eq!(udp.tries(), 1);
    hooks.up();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(udp.tries(), 2);
}

#[tokio::test(start_paused = true)]
async fn when_the_link_comes_up_no_pause_is_waited_for() {
    let udp = Line::failing(usize::MAX);
    let (hooks, keeper) = start_with_hooks(&udp, &Line::none());
    let comes_up = async {
        // In the pause of eight seconds, after those of one, two, and four.
        sleep(Duration::from_secs(9)).await;
        udp.becomes(UP);
        hooks.up();
        Instant::now()
    };
    let found = async { keeper.tunnel().await.map(|_| Instant::now()) };
    let (found, up) = tokio::join!(found, comes_up);
    assert_eq!(found, Some(up));
}

#[tokio::test(start_paused = true)]
async fn when_the_link_comes_up_a_tunnel_in_use_asks_and_one_at_rest_does_not() {
    let (hooks, keeper) = start_with_hooks(&Line::new(Over::Udp, UP), &Line::none());
    let user = keeper.tunnel().await.expect("up");
    let tunnel = user.tunnel.clone();
    hooks.down();
    hooks.up();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(tunnel.nudges(), 1);
    drop(user);
    hooks.up();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(tunnel.nudges(), 1);
}
