//! When connections go to their servers without the tunnel, of those that can: while it is down.
//!
//! Is not: how they go there (`intake/gate.rs`), nor how the tunnel is made (`keeper.rs`).
//!
//! Invariants: nobody who can go without the tunnel waits for it longer than [`Detour::patience`];
//! each change is logged, and no connection; looking at the tunnel sends nothing. Whoever goes
//! without it has the keeper try again, at its own intervals.
//!
//! ```text
//!   Expected --- it is up -----------------------> Up
//!   Expected --- somebody has waited too long ---> Down
//!   Up --------- it has ended -------------------> Expected
//!   Up --------- it gives no answer -------------> Down
//!   Down ------- it is up, and answers ----------> Up
//! ```

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::board::Board;
use crate::keeper::Keeper;
use crate::silence::Silence;
use crate::transport::Tunnel;

/// Between two looks at the tunnel. They cost the line nothing.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a tunnel may take to be made, or to answer, in round trips of its handshake. One is
/// enough where nothing is lost.
const HANDSHAKES: u32 = 2;
/// At least: long enough for a first packet that is lost, and for another way to the other side;
/// short enough for somebody who waits for a page.
const MIN_PATIENCE: Duration = Duration::from_secs(5);
/// An answer may take so many of the round trips that were measured.
const ROUND_TRIPS: u32 = 4;

/// How a connection that comes now finds the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Not there, but expected soon: it has not been made yet, or has just ended.
    Expected,
    /// It is up, and answers as far as is known.
    Up,
    /// Not there, and it could not be made in time; or it gives no answer.
    Down,
}

/// See the module. Clones are the same.
#[derive(Clone)]
pub(crate) struct Detour {
    standing: Arc<watch::Sender<Standing>>,
    wanted: Arc<Notify>,
    board: Arc<Board>,
    patience: Duration,
}

impl Detour {
    /// Where a handshake takes `round_trip`.
    pub(crate) fn new(round_trip: Duration, board: Arc<Board>) -> Self {
        let detour = Self {
            standing: Arc::new(watch::Sender::new(Standing::Expected)),
            wanted: Arc::default(),
            board,
            patience: (round_trip * HANDSHAKES).max(MIN_PATIENCE),
        };
        detour.show(Standing::Expected);
        detour
    }

    /// Is ready once somebody who has come now should go without the tunnel: at once while it is
    /// down, and after the patience in any case.
    pub(crate) async fn open(&self) {
        let mut standing = self.standing.subscribe();
        let down = standing.wait_for(|standing| *standing == Standing::Down);
        if timeout(self.patience, down).await.is_err() {
            self.turn(Standing::Down, |now| now == Standing::Expected);
        }
        self.wanted.notify_one();
    }

    /// The same for somebody who may have none: never then.
    pub(crate) async fn open_of(detour: Option<&Self>) {
        match detour {
            Some(detour) => detour.open().await,
            None => pending().await,
        }
    }

    /// Whether somebody who comes now goes without the tunnel at once.
    pub(crate) fn is_open(&self) -> bool {
        let is_down = *self.standing.borrow() == Standing::Down;
        if is_down {
            self.wanted.notify_one();
        }
        is_down
    }

    /// Watches the keeper's tunnel, and asks for one where somebody went without; for ever.
    pub(crate) async fn watch<T: Tunnel>(self, keeper: Arc<Keeper<T>>) {
        let ask = async {
            loop {
                self.wanted.notified().await;
                keeper.tunnel().await;
            }
        };
        tokio::join!(self.look(&keeper), ask);
    }

    async fn look<T: Tunnel>(&self, keeper: &Keeper<T>) {
        let mut silence = None;
        loop {
            match keeper.now() {
                Some(tunnel) => {
                    let counts = tunnel.counts();
                    let silent = silence
                        .get_or_insert_with(|| Silence::after(counts))
                        .look(counts);
                    if silent < self.patience.max(counts.round_trip * ROUND_TRIPS) {
                        self.turn(Standing::Up, |now| now != Standing::Up);
                    } else {
                        self.turn(Standing::Down, |now| now != Standing::Down);
                    }
                }
                None => {
                    silence = None;
                    self.turn(Standing::Expected, |now| now == Standing::Up);
                }
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// From now on it is `next`, if what it is now says so.
    fn turn(&self, next: Standing, is_due: impl FnOnce(Standing) -> bool) {
        self.standing.send_if_modified(|standing| {
            let before = *standing;
            if !is_due(before) {
                return false;
            }
            *standing = next;
            self.show(next);
            match (before, next) {
                (_, Standing::Down) => tracing::warn!(
                    "the tunnel is down: connections of the link go to their servers without it"
                ),
                (Standing::Down, Standing::Up) => {
                    tracing::info!("connections of the link use the tunnel again");
                }
                (_, Standing::Expected | Standing::Up) => {}
            }
            true
        });
    }

    fn show(&self, standing: Standing) {
        let is_down = match standing {
            Standing::Expected | Standing::Up => 0,
            Standing::Down => 1,
        };
        self.board.numbers([("tunnel_down", is_down)]);
    }
}

#[cfg(test)]
mod tests;
