//! What the operator's hooks say of the link: that it has come up, or has gone down.
//!
//! Is not: a look at the link. It counts as up until a hook says otherwise.
//!
//! Invariants: while the link is down no tunnel is tried, and nobody waits for one; when it comes
//! up, a try that has begun begins anew, since its pauses have grown.

use std::future::{Future, pending};
use std::sync::Arc;

use tandem_daemon::signals::Signals;
use tokio::sync::watch;

use crate::board::Board;
use crate::error::TunnelError;
use crate::signals::arrival;

/// What was said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Up,
    Down,
}

/// See the module. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct LinkState(watch::Receiver<Said>);

/// Who says it.
pub(crate) struct Hooks {
    said: watch::Sender<Said>,
    board: Arc<Board>,
}

/// The link, which is up, and who may say otherwise.
pub(crate) fn link_state(board: Arc<Board>) -> (Hooks, LinkState) {
    let (said, state) = watch::channel(Said::Up);
    let hooks = Hooks { said, board };
    hooks.show(0);
    (hooks, LinkState(state))
}

impl Hooks {
    /// It has come up. Tries begin anew, also where it counted as up.
    pub(crate) fn up(&self) {
        self.show(0);
        self.said.send_replace(Said::Up);
        tracing::info!("the link is up, as a hook says");
    }

    /// It has gone down.
    pub(crate) fn down(&self) {
        self.show(1);
        self.said.send_replace(Said::Down);
        tracing::info!("the link is down, as a hook says: no tunnel is tried until it is up");
    }

    /// Says what signals say, as long as they can be waited for.
    pub(crate) async fn obey(self, up: Signals, down: Signals) {
        if let Err(error) = self.follow(&up, &down).await {
            tracing::warn!("hooks of the link are not heard any more: {error}");
            self.up();
        }
    }

    async fn follow(&self, up: &Signals, down: &Signals) -> Result<(), TunnelError> {
        loop {
            tokio::select! {
                // Where both have come, the link counts as up: one that is tried in vain costs less
                // than one that is never tried.
                biased;
                said = arrival(down) => said.map(|()| self.down())?,
                said = arrival(up) => said.map(|()| self.up())?,
            }
        }
    }

    fn show(&self, is_down: u64) {
        self.board.numbers([("link_down", is_down)]);
    }
}

impl LinkState {
    pub(crate) fn is_down(&self) -> bool {
        *self.0.borrow() == Said::Down
    }

    /// Is ready while it is down.
    pub(crate) async fn down(&self) {
        self.wait_for(Said::Down).await;
    }

    /// Does this while the link is up, and begins anew when it has come up meanwhile.
    pub(crate) async fn while_up<F: Future>(&self, attempt: impl Fn() -> F) -> F::Output {
        loop {
            self.wait_for(Said::Up).await;
            tokio::select! {
                done = attempt() => return done,
                () = self.down() => {}
                () = self.comes_up() => {}
            }
        }
    }

    /// Is ready when it comes up the next time.
    pub(crate) async fn comes_up(&self) {
        let mut said = self.0.clone();
        said.mark_unchanged();
        while said.changed().await.is_ok() {
            if *said.borrow_and_update() == Said::Up {
                return;
            }
        }
        pending().await
    }

    async fn wait_for(&self, expected: Said) {
        let mut said = self.0.clone();
        if said.wait_for(|said| *said == expected).await.is_err() {
            // Nobody says anything any more.
            pending::<()>().await;
        }
    }
}
