//! A channel to the origin that is open before its client comes: the client's first record leaves
//! at once, not two round trips later.
//!
//! Is: one channel at a time, opened when the last one was taken and let go after a while without
//! clients. Is not: needed; who finds none opens one.
//!
//! Invariants: no channel is handed out twice, nor before the origin has answered on it: one that
//! has died meanwhile costs its client time, and another is opened; what is opened in vain is at
//! most one handshake after the last client.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::link::Link;
use tandem_channel::ClientChannel;

/// How long a channel waits for a client: less than an origin waits for a word from a volunteer
/// that has served.
const KEPT: Duration = Duration::from_secs(100);

/// How long the origin may take to answer on a channel that was kept: one that is lost on the way
/// says nothing.
const DEAD: Duration = Duration::from_secs(8);
/// How long it may take on a new one.
const ANSWER: Duration = Duration::from_secs(30);

/// Where to ask for the channel that is ready.
type Asked = oneshot::Sender<oneshot::Sender<ClientChannel>>;

#[derive(Debug, Default)]
struct Stock {
    place: Place,
    /// How often the target has changed: what was opened before leads elsewhere.
    targets: u64,
}

#[derive(Debug, Default)]
enum Place {
    /// Nothing is ready, and nothing is being made ready.
    #[default]
    Empty,
    Opening,
    Ready(Asked),
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
        stock.place = Place::Empty;
        stock.targets += 1;
    }

    /// A channel on which `hello` was said, and what the origin said first. The next one is made
    /// ready meanwhile.
    pub(super) async fn say(&self, hello: &[u8]) -> io::Result<(ClientChannel, Vec<u8>)> {
        let kept = match self.ready().await {
            Some(channel) => said(channel, hello, DEAD).await.ok(),
            None => None,
        };
        let answered = match kept {
            Some(answered) => answered,
            None => said(self.link.open().await?, hello, ANSWER).await?,
        };
        self.refill();
        Ok(answered)
    }

    async fn ready(&self) -> Option<ClientChannel> {
        let asked = {
            let mut stock = lock(&self.stock);
            match std::mem::take(&mut stock.place) {
                Place::Ready(asked) => asked,
                other @ (Place::Empty | Place::Opening) => {
                    stock.place = other;
                    return None;
                }
            }
        };
        let (sender, channel) = oneshot::channel();
        // It may have ended just now.
        asked.send(sender).ok()?;
        channel.await.ok()
    }

    fn refill(&self) {
        let targets = {
            let mut stock = lock(&self.stock);
            match &stock.place {
                Place::Empty => {}
                // The channel behind it has ended, and nobody has asked since.
                Place::Ready(asked) if asked.is_closed() => {}
                Place::Opening | Place::Ready(_) => return,
            }
            stock.place = Place::Opening;
            stock.targets
        };
        let (link, stock) = (self.link.clone(), Arc::clone(&self.stock));
        tokio::spawn(async move {
            let opened = link.open().await;
            let asks = {
                let mut stock = lock(&stock);
                if stock.targets != targets {
                    return;
                }
                let (asked, asks) = oneshot::channel();
                stock.place = match &opened {
                    Ok(_) => Place::Ready(asked),
                    Err(_) => Place::Empty,
                };
                asks
            };
            if let Ok(channel) = opened {
                keep(channel, asks).await;
            }
        });
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
async fn keep(mut channel: ClientChannel, asks: oneshot::Receiver<oneshot::Sender<ClientChannel>>) {
    let mut unexpected = [0];
    tokio::select! {
        biased;
        asked = asks => {
            if let Ok(sender) = asked {
                // Who asked may be gone: then the channel ends here.
                drop(sender.send(channel));
            }
            return;
        }
        // The origin says nothing before it is greeted: this is its end.
        _ = channel.read(&mut unexpected) => {}
        () = sleep(KEPT) => {}
    }
    // It may be closed already.
    let _ = channel.shutdown().await;
}

fn lock(stock: &Mutex<Stock>) -> MutexGuard<'_, Stock> {
    stock.lock().unwrap_or_else(PoisonError::into_inner)
}
