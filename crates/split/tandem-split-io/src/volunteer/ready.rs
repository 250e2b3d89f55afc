//! Channels to the origin that are open before their clients come: a client's first record leaves
//! at once, not two round trips later.
//!
//! Is: those on which clients have been served, each for another one, and one more, opened when the
//! last one was taken; let go after a while without clients. Is not: needed; who finds none opens
//! one.
//!
//! Invariants: no channel is handed out twice, nor before the origin has answered on it: one that
//! has died meanwhile costs its client time, and another is opened; one carries one client at a
//! time; few wait, and what is opened in vain is at most one handshake after the last client.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::link::Link;
use tandem_channel::ClientChannel;
use tandem_split::message::{Message, Progress};

/// How long a channel waits for a client: less than an origin waits for a word from a volunteer
/// that has served.
const KEPT: Duration = Duration::from_secs(100);

/// Channels that wait at most: as many clients may come at once without a handshake.
const MAX_KEPT: usize = 16;

/// How long the origin may take to answer on a channel that was kept: one that is lost on the way
/// says nothing.
const DEAD: Duration = Duration::from_secs(8);
/// How long it may take on a new one.
const ANSWER: Duration = Duration::from_secs(30);

/// Where to ask for the channel that is ready.
type Asked = oneshot::Sender<oneshot::Sender<Kept>>;

/// A channel that waits for a client.
#[derive(Debug)]
struct Kept {
    channel: ClientChannel,
    /// Whether the last word about the client before is still to be said. It goes with the first
    /// about the next: by itself it would be one more record and packet for each client.
    owes_over: bool,
}

#[derive(Debug, Default)]
struct Stock {
    /// The one that was used last is at the end.
    kept: Vec<Asked>,
    is_opening: bool,
    /// Where channels lead now.
    target: Target,
}

/// How often the target had changed when a channel was opened: what was opened before leads
/// elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Target(u64);

/// What came of a hello.
pub(super) struct Said {
    /// For one client.
    pub(super) channel: ClientChannel,
    /// What the origin said first.
    pub(super) answer: Vec<u8>,
    /// Where it leads.
    pub(super) target: Target,
}

/// See above.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    link: Link,
    stock: Arc<Mutex<Stock>>,
}

impl Ready {
    pub(super) fn over(link: Link) -> Self {
        Self {
            link,
            stock: Arc::default(),
        }
    }

    /// The link over which channels are opened.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// What is ready is not wanted any more: the link leads elsewhere now.
    pub(super) fn forget(&self) {
        let mut stock = lock(&self.stock);
        stock.kept.clear();
        stock.is_opening = false;
        stock.target.0 += 1;
    }

    /// A channel on which `hello` was said, and what the origin said first. The next one is made
    /// ready meanwhile, if none is.
    pub(super) async fn say(&self, hello: &[u8]) -> io::Result<Said> {
        let kept = match self.ready().await {
            Some((kept, target)) => {
                let mut words = Vec::new();
                if kept.owes_over {
                    Message::Progress(Progress::Over).write(&mut words);
                }
                words.extend_from_slice(hello);
                let answered = said(kept.channel, &words, DEAD).await.ok();
                answered.map(|answered| (answered, target))
            }
            None => None,
        };
        let ((channel, answer), target) = match kept {
            Some(answered) => answered,
            None => {
                // Before the link is asked: it may lead elsewhere meanwhile.
                let target = lock(&self.stock).target;
                (said(self.link.open().await?, hello, ANSWER).await?, target)
            }
        };
        self.refill();
        Ok(Said {
            channel,
            answer,
            target,
        })
    }

    /// Keeps a channel for another client: the origin has said its last word about the one before.
    pub(super) fn take_back(&self, channel: ClientChannel, target: Target) {
        let asks = {
            let mut stock = lock(&self.stock);
            stock.kept.retain(|asked| !asked.is_closed());
            if stock.target != target || stock.kept.len() >= MAX_KEPT {
                return;
            }
            stock.enter()
        };
        let owes_over = true;
        tokio::spawn(keep(Kept { channel, owes_over }, asks));
    }

    async fn ready(&self) -> Option<(Kept, Target)> {
        loop {
            let (asked, target) = {
                let mut stock = lock(&self.stock);
                (stock.kept.pop()?, stock.target)
            };
            let (sender, channel) = oneshot::channel();
            // It may have ended just now.
            if asked.send(sender).is_ok()
                && let Ok(kept) = channel.await
            {
                return Some((kept, target));
            }
        }
    }

    fn refill(&self) {
        let target = {
            let mut stock = lock(&self.stock);
            // The channel behind one may have ended.
            stock.kept.retain(|asked| !asked.is_closed());
            if stock.is_opening || !stock.kept.is_empty() {
                return;
            }
            stock.is_opening = true;
            stock.target
        };
        let (link, stock) = (self.link.clone(), Arc::clone(&self.stock));
        tokio::spawn(async move {
            let opened = link.open().await;
            let asks = {
                let mut stock = lock(&stock);
                if stock.target != target {
                    return;
                }
                stock.is_opening = false;
                match &opened {
                    Ok(_) => stock.enter(),
                    Err(_) => return,
                }
            };
            if let Ok(channel) = opened {
                let owes_over = false;
                keep(Kept { channel, owes_over }, asks).await;
            }
        });
    }
}

impl Stock {
    /// One more that waits; it hears there who asks for it.
    fn enter(&mut self) -> oneshot::Receiver<oneshot::Sender<Kept>> {
        let (asked, asks) = oneshot::channel();
        self.kept.push(asked);
        asks
    }
}

async fn said(
    mut channel: ClientChannel,
    hello: &[u8],
    patience: Duration,
) -> io::Result<(ClientChannel, Vec<u8>)> {
    let mut first = vec![0; 4096];
    let exchange = async {
        channel.write_all(hello).await?;
        channel.flush().await?;
        channel.read(&mut first).await
    };
    match timeout(patience, exchange).await?? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        len => {
            first.truncate(len);
            Ok((channel, first))
        }
    }
}

/// Keeps a channel until somebody asks for it, the origin closes it, or nobody has come for long.
async fn keep(mut kept: Kept, asks: oneshot::Receiver<oneshot::Sender<Kept>>) {
    let mut unexpected = [0];
    tokio::select! {
        biased;
        asked = asks => {
            if let Ok(sender) = asked {
                // Who asked may be gone: then the channel ends here.
                drop(sender.send(kept));
            }
            return;
        }
        // The origin says nothing before it is greeted: this is its end.
        _ = kept.channel.read(&mut unexpected) => {}
        () = sleep(KEPT) => {}
    }
    // It may be closed already.
    let _ = kept.channel.shutdown().await;
}

fn lock(stock: &Mutex<Stock>) -> MutexGuard<'_, Stock> {
    stock.lock().unwrap_or_else(PoisonError::into_inner)
}
