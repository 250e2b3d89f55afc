//! The thread that asks: for each signature one key server after the other, until one gives it.
//!
//! Is not: a connection; see `link`.
//!
//! Invariants: the next key server is asked when one refuses, breaks or is slow, and the first
//! signature counts. With none within reach the answer is given at once.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use nix::sys::signal::{SigSet, SigmaskHow};
use tandem_keyserver::Outcome;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::board::Board;
use crate::error::SignError;
use crate::link::{Ended, Link, Work};
use crate::settings::Options;
use crate::wanted::Wanted;

/// Starts the thread. It ends when nobody can want a signature any more. No signal comes to it:
/// programs wait for theirs elsewhere, and nginx would sleep on.
pub(crate) fn start(options: Options, wanted: UnboundedReceiver<Wanted>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = thread::Builder::new()
        .name("key-client".to_owned())
        .spawn(move || runtime.block_on(serve(options, wanted)));
    before.thread_set_mask()?;
    started.map(drop)
}

async fn serve(options: Options, mut wanted: UnboundedReceiver<Wanted>) {
    let board = Arc::new(Board::new(options));
    let number = board.options.servers.len();
    let pool: Arc<Vec<Link>> = Arc::new((0..number).map(|at| Link::start(&board, at)).collect());
    while let Some(wanted) = wanted.recv().await {
        let (board, pool) = (Arc::clone(&board), Arc::clone(&pool));
        tokio::spawn(async move {
            let answer = fetch(&board, &pool, &wanted).await;
            if let Err(error) = &answer {
                board.tell(error);
            }
            // Whoever waited may have given up.
            let _ = wanted.to.send(answer);
        });
    }
}

async fn fetch(board: &Board, pool: &[Link], wanted: &Wanted) -> Result<Vec<u8>, SignError> {
    let Options {
        patience, deadline, ..
    } = board.options;
    let begun = Instant::now();
    let mut order: VecDeque<usize> = board.servers().to_ask(board.started.elapsed()).into();
    // Whoever's connection breaks may be asked once more, over a new one.
    let mut again = order.clone();
    let (to, mut ended) = unbounded_channel();
    let mut asked = None;
    let mut open = 0;
    let mut why = SignError::NoServer;
    loop {
        if let Some(server) = order.pop_front() {
            let work = Work {
                key: wanted.key,
                scheme: wanted.scheme,
                content: wanted.content,
                to: to.clone(),
            };
            if pool.get(server).is_some_and(|link| link.ask(work)) {
                open += 1;
                asked = Some(server);
            } else {
                why = SignError::TooManyWaiting;
                continue;
            }
        } else if open == 0 {
            return Err(why);
        }
        let left = deadline.saturating_sub(begun.elapsed());
        let wait = if order.is_empty() {
            left
        } else {
            left.min(patience)
        };
        match timeout(wait, ended.recv()).await {
            Ok(Some(Ended::Answered(Outcome::Signed(signature)))) => return Ok(signature),
            Ok(Some(Ended::Answered(Outcome::Refused(refusal)))) => {
                open -= 1;
                why = SignError::Refused(refusal);
            }
            Ok(Some(Ended::Broken(server))) => {
                open -= 1;
                why = SignError::NoServer;
                if let Some(at) = again.iter().position(|&other| other == server)
                    && board.servers().is_reachable(server)
                {
                    again.remove(at);
                    order.push_back(server);
                }
            }
            Ok(None) => return Err(why),
            Err(_) => {
                if let Some(server) = asked {
                    let now = board.started.elapsed();
                    board.servers().was_slow(server, now);
                }
                if begun.elapsed() >= deadline {
                    return Err(SignError::TooLate);
                }
            }
        }
    }
}
