//! A tunnel that is up: who uses it, whether the other side still answers, and its end.
//!
//! Is not: what takes its place.
//!
//! Invariant: looking at it sends nothing; at rest nobody knows whether the other side is there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Lease, ROUND_TRIPS};
use crate::board::{Board, OpenTunnel, Tally};
use crate::link_state::LinkState;
use crate::silence::Silence;
use crate::transport::{Counts, Lost, Tunnel};

/// Between two looks at what a tunnel has carried. They cost the line nothing.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// The same while its next word is waited for.
const LISTEN_INTERVAL: Duration = Duration::from_millis(500);
/// The time that an answer may take is watched so often for somebody new: what is heard at first
/// may have been sent before.
const ANSWER_TIMES: u32 = 16;
/// A tunnel that asks for so long and gets no answer is given up. Outages of ten minutes are to be
/// survived; over QUIC, within half a minute of their end there is a question
/// (`transport/nudge.rs`), and half a minute is for its answer. TCP's pauses double, up to two
/// minutes.
pub(super) const MAX_SILENCE: Duration = Duration::from_secs(11 * 60);
/// Between two looks at a tunnel that is to be closed.
const REST_INTERVAL: Duration = Duration::from_secs(5);
/// While something waits for its delivery, QUIC and TCP send it again after some round trips.
const REST_ROUND_TRIPS: u32 = 6;
const MIN_REST: Duration = Duration::from_secs(10);
/// In an outage QUIC asks each half minute, and TCP's pauses double, up to two minutes.
pub(super) const MAX_REST: Duration = Duration::from_secs(150);

/// Those who wait for something, or use it.
#[derive(Debug, Default)]
pub(super) struct People {
    /// How many do now.
    pub(super) now: usize,
    /// How many have come since the start.
    pub(super) come: u64,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Present(Arc<watch::Sender<People>>);

impl Present {
    pub(super) fn among(people: &Arc<watch::Sender<People>>) -> Self {
        people.send_modify(|people| {
            people.now += 1;
            people.come += 1;
        });
        Self(Arc::clone(people))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.send_modify(|people| people.now -= 1);
    }
}

/// Whether anybody new is to use the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Current,
    Retired,
}

/// See the module. Clones are the same tunnel.
#[derive(Clone, Debug)]
pub(super) struct Up<T> {
    tunnel: T,
    users: Arc<watch::Sender<People>>,
    stage: Arc<watch::Sender<Stage>>,
}

impl<T: Tunnel> Up<T> {
    /// This tunnel, which is looked after from now on.
    pub(super) fn new(tunnel: T, link: &LinkState, board: &Arc<Board>) -> Self {
        let up = Self {
            tunnel,
            users: Arc::new(watch::Sender::new(People::default())),
            stage: Arc::new(watch::Sender::new(Stage::Current)),
        };
        tracing::info!("the tunnel is up, over {}", up.tunnel.over());
        let shown = board.tunnel(&up.tunnel);
        tokio::spawn(up.clone().look_after(Arc::clone(board), shown));
        tokio::spawn(up.clone().ask_when_up(link.clone()));
        up
    }

    pub(super) fn tunnel(&self) -> &T {
        &self.tunnel
    }

    /// For one more user.
    pub(super) fn lease(&self) -> Lease<T> {
        Lease {
            tunnel: self.tunnel.clone(),
            _present: Present::among(&self.users),
        }
    }

    /// Nobody new comes. It is closed when the last one has gone and all that it sent is there.
    pub(super) fn retire(&self) {
        self.stage.send_replace(Stage::Retired);
    }

    /// The same, and if it is not heard before `until`, it is closed then.
    pub(super) fn abandon(self, until: Instant) {
        self.retire();
        tokio::spawn(async move {
            tokio::select! {
                _ = self.tunnel.closed() => {}
                () = self.heard() => {}
                () = sleep_until(until) => self.tunnel.close(),
            }
        });
    }

    /// Is ready once it has carried more than `seen`.
    pub(super) async fn carries(&self, seen: &Counts) {
        while self.tunnel.counts().sent_datagrams == seen.sent_datagrams {
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Is ready once the other side is heard again.
    pub(super) async fn heard(&self) {
        let before = self.tunnel.counts().received_datagrams;
        while self.tunnel.counts().received_datagrams == before {
            sleep(LISTEN_INTERVAL).await;
        }
    }

    /// How long an answer may take, by what was measured; `doubt` at least.
    pub(super) fn answer_time(&self, doubt: Duration) -> Duration {
        (self.tunnel.counts().round_trip * ROUND_TRIPS).max(doubt)
    }

    /// Is ready once somebody new has come, and nothing was heard for as long as an answer may
    /// take, though something was sent; with the time since when.
    pub(super) async fn doubt(&self, doubt: Duration) -> Instant {
        let mut users = self.users.subscribe();
        let mut come = users.borrow().come;
        loop {
            // Who has come meanwhile may have been answered.
            let is_new = users.borrow().come == come;
            // It fails only where the sender is gone, and that is here.
            let _ = users.wait_for(|users| users.come > come).await;
            come = users.borrow().come;
            let (mut since, mut before) = (Instant::now(), self.tunnel.counts());
            let mut unanswered = 0;
            for time in 0..ANSWER_TIMES {
                sleep(self.answer_time(doubt)).await;
                let after = self.tunnel.counts();
                if after.received_datagrams > before.received_datagrams {
                    (since, unanswered) = (Instant::now(), 0);
                } else if after.sent_datagrams > before.sent_datagrams {
                    unanswered += 1;
                }
                // Who is new has asked something. Later it may be an acknowledgement, which gets
                // no answer; what gets none though it should is sent again.
                if unanswered > 1 || unanswered > 0 && is_new && time == 0 {
                    return since;
                }
                if users.borrow().come > come {
                    break;
                }
                before = after;
            }
        }
    }

    /// Until it ends.
    async fn look_after(self, board: Arc<Board>, shown: OpenTunnel) {
        let why = tokio::select! {
            why = self.tunnel.closed() => why,
            () = unanswered(&self.tunnel) => {
                self.tunnel.close();
                Lost::Silent
            }
            () = self.unused() => {
                self.tunnel.close();
                Lost::Here
            }
        };
        drop(shown);
        tracing::info!("the tunnel over {} is down: {why}", self.tunnel.over());
        board.tunnel_ended(&why);
        if why == Lost::Restarted {
            board.count(Tally::TunnelsRestarted, 1);
        }
    }

    /// Asks the other side each time that the link comes up while somebody uses the tunnel, until
    /// it ends: what was lost is known at once, and the other side learns of a new address.
    async fn ask_when_up(self, link: LinkState) {
        loop {
            tokio::select! {
                _ = self.tunnel.closed() => return,
                () = link.comes_up() => {}
            }
            if self.users.borrow().now > 0 {
                self.tunnel.nudge();
            }
        }
    }

    /// Is ready once it is retired, the last user has gone, and nothing is sent any more: the end
    /// of an upload may wait here for longer than its user.
    async fn unused(&self) {
        // It fails only where the sender is gone, and that is here.
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage == Stage::Retired).await;
        let mut seen = self.tunnel.counts();
        let (mut silence, mut since) = (Silence::after(seen), Instant::now());
        loop {
            sleep(REST_INTERVAL).await;
            let counts = self.tunnel.counts();
            if counts.sent_datagrams != seen.sent_datagrams {
                since = Instant::now();
            }
            seen = counts;
            let rest = match silence.look(counts) {
                Duration::ZERO => (counts.round_trip * REST_ROUND_TRIPS).max(MIN_REST),
                _ => MAX_REST,
            };
            if self.users.borrow().now == 0 && since.elapsed() >= rest {
                return;
            }
        }
    }
}

/// Is ready once the other side has not answered for [`MAX_SILENCE`].
async fn unanswered(tunnel: &impl Tunnel) {
    let mut silence = Silence::after(tunnel.counts());
    loop {
        sleep(LOOK_INTERVAL).await;
        if silence.look(tunnel.counts()) >= MAX_SILENCE {
            return;
        }
    }
}
