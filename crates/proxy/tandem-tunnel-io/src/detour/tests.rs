//! The detour beside a keeper whose transport does what the test says.

use tokio::time::Instant;

use super::*;
use crate::board::Facts;
use crate::keeper::tests::{Empty, Line};
use crate::link_state::{Hooks, link_state};
use crate::transport::Lost;

struct Both {
    keeper: Arc<Keeper<Empty>>,
    detour: Detour,
    hooks: Hooks,
    board: Arc<Board>,
}

impl Both {
    fn start(line: &Line, round_trip: Duration) -> Self {
        let board = Board::new(Facts {
            role: "client-side",
            link: String::new(),
        });
        let (hooks, link) = link_state(Arc::clone(&board));
        let (keeper, task) = Keeper::new(line.clone(), Line::none(), link, Arc::clone(&board));
        tokio::spawn(task);
        let keeper = Arc::new(keeper);
        let detour = Detour::new(round_trip, Arc::clone(&board));
        tokio::spawn(detour.clone().watch(Arc::clone(&keeper)));
        Self {
            keeper,
            detour,
            hooks,
            board,
        }
    }

    /// Whether somebody who comes now goes without the tunnel, and how long that takes to know.
    async fn comes(&self) -> (bool, Duration) {
        let start = Instant::now();
        let goes_without = tokio::select! {
            biased;
            () = self.detour.open() => true,
            tunnel = self.keeper.tunnel() => tunnel.is_none(),
        };
        (goes_without, start.elapsed())
    }

    /// The tunnel, which is to be up.
    async fn tunnel(&self) -> Empty {
        assert!(self.keeper.tunnel().await.is_some());
        self.keeper.now().expect("up")
    }

    fn is_down(&self) -> bool {
        self.board.snapshot().gauges["tunnel_down"] == 1
    }
}

/// Longer than it takes the detour to see what has become of the tunnel.
const A_LOOK: Duration = Duration::from_millis(1_100);

#[tokio::test(start_paused = true)]
async fn the_first_waits_while_the_tunnel_is_made_and_nobody_once_that_took_too_long() {
    let line = Line::failing(usize::MAX);
    let both = Both::start(&line, Duration::from_millis(333));
    assert!(!both.is_down());
    assert_eq!(both.comes().await, (true, MIN_PATIENCE));
    assert!(both.is_down());
    for _ in 0..100 {
        assert_eq!(both.comes().await, (true, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_thin_line_the_first_waits_longer() {
    let line = Line::failing(usize::MAX);
    let both = Both::start(&line, Duration::from_secs(5));
    assert_eq!(both.comes().await, (true, Duration::from_secs(10)));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_tunnel_that_comes_in_time_uses_it() {
    let line = Line::failing(2);
    let both = Both::start(&line, Duration::from_secs(1));
    let (goes_without, waited) = both.comes().await;
    assert!(!goes_without && waited < MIN_PATIENCE, "{waited:?}");
    assert!(!both.is_down());
}

#[tokio::test(start_paused = true)]
async fn tries_go_on_while_somebody_goes_without_and_the_tunnel_is_used_once_it_is_up() {
    let line = Line::failing(9);
    let both = Both::start(&line, Duration::from_secs(1));
    let start = Instant::now();
    let mut without = 0;
    while both.comes().await.0 {
        without += 1;
        sleep(Duration::from_secs(1)).await;
    }
    // Tries that fail at once: 1, 2, 4 s and so on up to a minute apart, or sooner.
    let took = start.elapsed();
    assert!(took < Duration::from_secs(400), "{took:?}");
    assert!(without > 20, "{without} in {took:?}");
    assert!(!both.is_down());
}

#[tokio::test(start_paused = true)]
async fn while_nobody_comes_nothing_is_tried() {
    let line = Line::failing(usize::MAX);
    let both = Both::start(&line, Duration::from_secs(1));
    assert!(both.comes().await.0);
    sleep(Duration::from_secs(300)).await;
    let tries = line.tries();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(line.tries(), tries);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_gives_no_answer_is_left_alone_until_it_does() {
    let line = Line::failing(0);
    let both = Both::start(&line, Duration::from_secs(1));
    let tunnel = both.tunnel().await;
    // An exchange, its acknowledgement, and a long rest.
    tunnel.carries(3, 3);
    sleep(A_LOOK).await;
    tunnel.carries(1, 0);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(both.comes().await, (false, Duration::ZERO));
    // Something new, and then QUIC's probes.
    for _ in 0..3 {
        tunnel.carries(1, 0);
        sleep(Duration::from_secs(3)).await;
    }
    assert!(both.is_down());
    assert_eq!(both.comes().await, (true, Duration::ZERO));
    assert!(tunnel.is_up(), "what runs through it may go on");
    tunnel.carries(0, 1);
    sleep(A_LOOK).await;
    assert_eq!(both.comes().await, (false, Duration::ZERO));
    assert_eq!(line.tries(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_ends_at_rest_is_made_again_for_the_next_who_waits_for_it() {
    let line = Line::failing(0);
    let both = Both::start(&line, Duration::from_secs(1));
    let tunnel = both.tunnel().await;
    tunnel.end(Lost::ByPeer);
    sleep(Duration::from_secs(3600)).await;
    assert!(!both.is_down(), "nobody needs it");
    assert_eq!(both.comes().await, (false, Duration::ZERO));
    assert_eq!(line.tries(), 2);
}

#[tokio::test(start_paused = true)]
async fn while_the_link_is_down_everybody_goes_without_the_tunnel_at_once() {
    let both = Both::start(&Line::failing(0), Duration::from_secs(1));
    both.tunnel().await;
    both.hooks.down();
    assert_eq!(both.comes().await, (true, Duration::ZERO));
    both.hooks.up();
    assert_eq!(both.comes().await, (false, Duration::ZERO));
}
