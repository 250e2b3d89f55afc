//! Keeps the client side's tunnel to the server side: makes it at the start, and again when it is
//! gone and somebody needs it; over UDP where that gets through, over TCP where it does not.
//!
//! Is not: a transport; the tunnels come from a [`Connect`] each. How one is watched, and given up,
//! is in `keeper/up.rs`.
//!
//! Invariants: nothing is tried while nobody needs the tunnel, but at the start, nor while the link
//! is down (`link_state.rs`); tries follow each other at growing intervals, or when somebody new
//! needs it; who waits for the tunnel waits in bounded time, and a whole try at least, unless the
//! link is down; a tunnel that another takes the place of lasts until its connections have ended
//! and all that they sent is there, or until it is known to be dead.
//!
//! ```text
//!            no answer by UDP within a round trip
//!   UDP tried -----------------------------------------> TCP tried beside it: the first is taken
//!
//!   over UDP ---- no answer to what somebody new says ---> TCP tried; the old one is kept aside
//!   over TCP ---- the one kept aside is heard again -----> over UDP
//!            ---- now and then, while in use: UDP tried -> over UDP
//!            ---- no answer to what somebody new says ---> both tried, as at the start
//! ```

mod look;
mod outage;
mod up;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::board::{Board, Tally};
use crate::link_state::LinkState;
use crate::transport::{Connect, Lost, Over, Stream, Tunnel, nudge};
use look::Looks;
use outage::Outage;
use up::{People, Present, Up};

/// Between the first try and the second, and at least between any two.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Between tries at most, for the same who wait: a line that comes back is used within a minute.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// TCP is tried a round trip later than UDP, less this; and when it is up, UDP has this long to be
/// up after all, as processors take their time, too. TCP and TLS take a round trip each, so that
/// where UDP is blocked the tunnel is up after three. Where it is not, but slow, the answer to TCP
/// waits behind the one to UDP.
const GRACE: Duration = Duration::from_millis(100);

/// A tunnel that came back to UDP and fell silent sooner makes the next look wait longer: each turn
/// costs two handshakes, and what was opened in that tunnel.
const STEADY: Duration = Duration::from_secs(5 * 60);

/// In a tunnel, a question without an answer after so many round trips is a reason to try another
/// way. A second at least: queues take their time, too.
const ROUND_TRIPS: u32 = 3;
const MIN_DOUBT: Duration = Duration::from_secs(1);

/// The relays' side.
#[derive(Debug)]
pub(crate) struct Keeper<T> {
    current: watch::Receiver<Option<Up<T>>>,
    waiting: Arc<watch::Sender<People>>,
    patience: Duration,
    link: LinkState,
}

/// A tunnel in somebody's hands. It lasts as long as this, if it can.
#[derive(Debug)]
pub(crate) struct Lease<T> {
    tunnel: T,
    _present: Present,
}

/// A stream in a tunnel, which is kept for as long as the lease.
pub(crate) struct Leased<T: Tunnel> {
    pub(crate) stream: Stream<T::Sending, T::Receiving>,
    pub(crate) lease: Lease<T>,
}

impl<T: Tunnel> Keeper<T> {
    /// A keeper, and the task that makes the tunnels; the task ends with nothing but its runtime.
    pub(crate) fn new<U, V>(
        udp: U,
        tcp: V,
        link: LinkState,
        board: Arc<Board>,
    ) -> (Self, impl Future<Output = ()> + Send)
    where
        U: Connect<Tunnel: Into<T>>,
        V: Connect<Tunnel: Into<T>>,
    {
        let (current, seen) = watch::channel(None);
        let waiting = Arc::new(watch::Sender::new(People::default()));
        let keeping = Keeping {
            head_start: udp.round_trip().saturating_sub(GRACE).max(GRACE),
            doubt: doubt(udp.round_trip()),
            udp,
            tcp,
            link: link.clone(),
            board,
            outage: Outage::default(),
            current,
            waiting: waiting.subscribe(),
        };
        let keeper = Self {
            current: seen,
            waiting,
            // One whole try, and the pause before it.
            patience: keeping.patience() + MIN_PAUSE * 2,
            link,
        };
        (keeper, keeping.run())
    }

    /// The tunnel, once there is one; `None` if that takes too long, or the link is down.
    pub(crate) async fn tunnel(&self) -> Option<Lease<T>> {
        if self.link.is_down() {
            return None;
        }
        let mut current = self.current.clone();
        if let Some(lease) = current.borrow().as_ref().map(Up::lease) {
            return Some(lease);
        }
        let _waits = Present::among(&self.waiting);
        let found = tokio::select! {
            found = timeout(self.patience, current.wait_for(Option::is_some)) => found,
            () = self.link.down() => return None,
        };
        // It is held meanwhile, so that it does not count as unused.
        found.ok()?.ok()?.as_ref().map(Up::lease)
    }

    /// A stream in the tunnel; `None` if either takes too long.
    pub(crate) async fn stream(&self) -> Option<Leased<T>> {
        let lease = self.tunnel().await?;
        // It waits while there are as many as the other side permits.
        let stream = timeout(self.patience, lease.tunnel.open())
            .await
            .ok()?
            .ok()?;
        Some(Leased { stream, lease })
    }

    /// The tunnel, if there is one now.
    pub(crate) fn now(&self) -> Option<T> {
        self.current.borrow().as_ref().map(|up| up.tunnel().clone())
    }
}

/// The task's side.
struct Keeping<U, V, T> {
    udp: U,
    tcp: V,
    link: LinkState,
    board: Arc<Board>,
    outage: Outage,
    current: watch::Sender<Option<Up<T>>>,
    waiting: watch::Receiver<People>,
    /// How long UDP is tried alone.
    head_start: Duration,
    /// How long an answer in a tunnel may take before another way is tried.
    doubt: Duration,
}

/// A tunnel over UDP that gives no answer, kept for the case that it does.
struct Aside<T> {
    up: Up<T>,
    until: Instant,
}

/// What ends the time of a tunnel as the current one.
enum Next<T> {
    /// It has ended.
    Gone,
    /// This one is better. The old one is alive.
    Better(T),
    /// This one gives answers, and the old one has given none since.
    Instead(T, Instant),
    /// The one that was kept aside is heard again.
    Back,
    /// The one that was kept aside is not worth waiting for.
    Forgotten,
}

impl<U, V, T> Keeping<U, V, T>
where
    U: Connect<Tunnel: Into<T>>,
    V: Connect<Tunnel: Into<T>>,
    T: Tunnel,
{
    /// The longest that [`Keeping::race`] takes.
    fn patience(&self) -> Duration {
        let tcp = self.head_start + self.tcp.patience() + GRACE;
        self.udp.patience().max(tcp)
    }

    async fn run(mut self) {
        let mut pause = MIN_PAUSE;
        loop {
            match self.race().await {
                Some(tunnel) => {
                    pause = MIN_PAUSE;
                    self.serve(tunnel).await;
                }
                None => {
                    tokio::select! {
                        () = sleep(jittered(pause)) => {}
                        () = another(self.waiting.clone()) => {}
                        () = self.link.comes_up() => pause = Duration::ZERO,
                    }
                    pause = (pause * 2).clamp(MIN_PAUSE, MAX_PAUSE);
                }
            }
            if self
                .waiting
                .wait_for(|waiting| waiting.now > 0)
                .await
                .is_err()
            {
                return;
            }
        }
    }

    /// A tunnel by whichever way answers first, while the link is up.
    async fn race(&self) -> Option<T> {
        self.link.while_up(|| self.race_once()).await
    }

    /// What does not answer first is left.
    async fn race_once(&self) -> Option<T> {
        let has_failed = watch::Sender::new(false);
        let mut udp_failed = has_failed.subscribe();
        let mut udp = pin!(self.udp.connect());
        let mut tcp = pin!(async {
            // At once where UDP cannot even be tried.
            let _ = timeout(self.head_start, udp_failed.wait_for(|failed| *failed)).await;
            self.tcp.connect().await
        });
        let (mut by_udp, mut by_tcp) = (None, None);
        while by_udp.is_none() || by_tcp.is_none() {
            tokio::select! {
                biased;
                made = &mut udp, if by_udp.is_none() => match made {
                    Ok(tunnel) => return Some(tunnel.into()),
                    Err(why) => {
                        let has_answered = has_answered(&why);
                        by_udp = Some(why);
                        if has_answered {
                            break;
                        }
                        has_failed.send_replace(true);
                    }
                },
                made = &mut tcp, if by_tcp.is_none() => match made {
                    Ok(tunnel) => {
                        if by_udp.is_none() && let Ok(Ok(better)) = timeout(GRACE, udp).await {
                            return Some(better.into());
                        }
                        return Some(tunnel.into());
                    }
                    Err(why) => by_tcp = Some(why),
                },
            }
        }
        self.board.count(Tally::TunnelsFailed, 1);
        let by_udp = by_udp.unwrap_or(Lost::Silent);
        let why = match by_tcp {
            None => by_udp.to_string(),
            Some(by_tcp) => format!("by UDP, {by_udp}; by TCP, {by_tcp}"),
        };
        self.outage.goes_on(format_args!("no tunnel: {why}"));
        self.board.tunnel_ended(&why);
        None
    }

    /// Until there is no tunnel any more.
    async fn serve(&self, first: T) {
        let mut looks = Looks::new();
        // Since when the tunnel runs over UDP again.
        let mut better: Option<Instant> = None;
        let mut aside: Option<Aside<T>> = None;
        let mut up = self.up(first);
        loop {
            self.current.send_replace(Some(up.clone()));
            // A new one says so itself.
            self.outage.is_over();
            let next = match up.tunnel().over() {
                Over::Udp => self.on_udp(&up).await,
                Over::Tcp => self.on_tcp(&up, aside.as_ref(), &mut looks).await,
            };
            match next {
                Next::Gone => match aside.take() {
                    // Perhaps it is heard yet.
                    Some(aside) => up = aside.up,
                    None => break,
                },
                Next::Better(tunnel) => {
                    better = Some(Instant::now());
                    self.replace(&mut up, self.up(tunnel)).retire();
                }
                Next::Instead(tunnel, since) => {
                    let silent = self.replace(&mut up, self.up(tunnel));
                    // The next word of a silent one comes when the pause since its last one has
                    // passed again: pauses double.
                    let until = Instant::now() + since.elapsed() + self.doubt;
                    match (silent.tunnel().over(), up.tunnel().over()) {
                        (Over::Udp, Over::Tcp) => {
                            match better.take() {
                                // UDP let a handshake through and little after it.
                                Some(at) if at.elapsed() < STEADY => looks.put_off(),
                                Some(_) | None => looks = Looks::new(),
                            }
                            // Its own question after an outage, whose end TCP may have seen
                            // first, comes within this time.
                            let asked = Instant::now() + nudge::INTERVAL + self.doubt;
                            let until = until.max(asked);
                            aside = Some(Aside { up: silent, until });
                        }
                        (Over::Udp, Over::Udp) | (Over::Tcp, Over::Udp | Over::Tcp) => {
                            silent.abandon(until);
                        }
                    }
                }
                Next::Back => {
                    if let Some(aside) = aside.take() {
                        self.replace(&mut up, aside.up).retire();
                    }
                }
                Next::Forgotten => {
                    if let Some(aside) = aside.take() {
                        aside.up.tunnel().close();
                    }
                }
            }
            // It is kept for as long as TCP is used in its place.
            if up.tunnel().over() == Over::Udp
                && let Some(aside) = aside.take()
            {
                aside.up.abandon(aside.until);
            }
        }
        self.current.send_replace(None);
    }

    /// This tunnel, which is looked after from now on.
    fn up(&self, tunnel: T) -> Up<T> {
        Up::new(tunnel, &self.link, &self.board)
    }

    /// From now on `next` is the current one; the old one.
    fn replace(&self, up: &mut Up<T>, next: Up<T>) -> Up<T> {
        // Before the old one is let go: who comes takes the new one.
        self.current.send_replace(Some(next.clone()));
        std::mem::replace(up, next)
    }

    /// While the tunnel over UDP is the current one.
    async fn on_udp(&self, up: &Up<T>) -> Next<T> {
        let mut pause = MIN_PAUSE;
        loop {
            let since = tokio::select! {
                _ = up.tunnel().closed() => return Next::Gone,
                since = up.doubt(self.doubt) => since,
            };
            tokio::select! {
                _ = up.tunnel().closed() => return Next::Gone,
                () = self.heard_again(up) => {}
                tunnel = self.another_by_tcp() => match tunnel {
                    Some(tunnel) => return Next::Instead(tunnel.into(), since),
                    None => {
                        self.breathe(up, &mut pause).await;
                    }
                },
            }
        }
    }

    /// Is ready once it is heard again.
    async fn heard_again(&self, up: &Up<T>) {
        up.heard().await;
        if self.outage.is_over() {
            tracing::info!("the tunnel over {} gives answers again", up.tunnel().over());
        }
    }

    async fn another_by_tcp(&self) -> Option<V::Tunnel> {
        let tried = self.link.while_up(|| self.tcp.connect());
        match tried.await {
            Ok(tunnel) => Some(tunnel),
            Err(why) => {
                self.board.count(Tally::TunnelsFailed, 1);
                self.outage.goes_on(format_args!(
                    "the tunnel over UDP gets no answer, and TCP gives none: {why}"
                ));
                None
            }
        }
    }

    /// While the tunnel over TCP is the current one.
    async fn on_tcp(&self, up: &Up<T>, aside: Option<&Aside<T>>, looks: &mut Looks) -> Next<T> {
        let mut pause = MIN_PAUSE;
        loop {
            let by_udp = || self.link.while_up(|| self.udp.connect());
            let since = tokio::select! {
                _ = up.tunnel().closed() => return Next::Gone,
                () = heard(aside) => return Next::Back,
                () = past(aside) => return Next::Forgotten,
                tunnel = looks.find(by_udp, up, self.doubt), if aside.is_none() => {
                    return Next::Better(tunnel.into());
                }
                since = up.doubt(self.doubt) => since,
            };
            tokio::select! {
                _ = up.tunnel().closed() => return Next::Gone,
                () = self.heard_again(up) => {}
                tunnel = self.race() => match tunnel {
                    Some(tunnel) => return Next::Instead(tunnel, since),
                    None => {
                        self.breathe(up, &mut pause).await;
                    }
                },
            }
        }
    }

    /// A pause, longer each time, unless the tunnel is heard again or ends.
    async fn breathe(&self, up: &Up<T>, pause: &mut Duration) {
        tokio::select! {
            () = sleep(jittered(*pause)) => {}
            () = self.heard_again(up) => {}
            () = self.link.comes_up() => *pause = Duration::ZERO,
            _ = up.tunnel().closed() => {}
        }
        *pause = (*pause * 2).clamp(MIN_PAUSE, MAX_PAUSE);
    }
}

/// Whether the other side was reached, however it has ended.
fn has_answered(why: &Lost) -> bool {
    match why {
        Lost::Restarted | Lost::ByPeer | Lost::Refused(_) | Lost::Foreign(_) => true,
        Lost::Here | Lost::Silent | Lost::Unusable(_) | Lost::Unreachable(_) => false,
    }
}

async fn heard<T: Tunnel>(aside: Option<&Aside<T>>) {
    match aside {
        Some(aside) => aside.up.heard().await,
        None => pending().await,
    }
}

/// Is ready once the tunnel that was kept aside has ended, or is not worth waiting for.
async fn past<T: Tunnel>(aside: Option<&Aside<T>>) {
    match aside {
        Some(aside) => tokio::select! {
            _ = aside.up.tunnel().closed() => {}
            () = sleep_until(aside.until) => {}
        },
        None => pending().await,
    }
}

/// How long an answer in a tunnel may take before another way is tried.
fn doubt(round_trip: Duration) -> Duration {
    (round_trip * ROUND_TRIPS).max(MIN_DOUBT)
}

/// Is ready once somebody new waits, but not before the shortest pause is over.
async fn another(mut waiting: watch::Receiver<People>) {
    let come = waiting.borrow().come;
    sleep(jittered(MIN_PAUSE)).await;
    // It fails only where the senders are gone; then nobody waits for the end of the pause.
    let _ = waiting.wait_for(|waiting| waiting.come > come).await;
}

/// Three quarters of `pause` to all of it, so that those whom an outage has stopped do not all come
/// back at once.
fn jittered(pause: Duration) -> Duration {
    // Without random bytes there is no jitter, and nothing else is lost.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    let part = pause / 4;
    pause - part.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
pub(crate) mod tests;
