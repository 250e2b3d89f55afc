//! One thread of the generator: its connections, in an open or a closed loop, and what they
//! brought.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::ClientConfig;
use tandem_measure::{
    Arrivals, Counts, Exchange, Fault, Kind, Load, Offer, Percent, Requests, ReuseCounter, Tally,
};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use crate::board::Board;
use crate::connection::{Connection, Opening, Stage};
use crate::failure::Failure;
use crate::plan::Plan;
use crate::sessions::Sessions;
use crate::timer::Timer;
use crate::tls;

/// How long a place of the closed loop rests after a failure, so as not to flood the server.
const PAUSE: Duration = Duration::from_millis(10);
/// How often a thread without anything to start looks whether the run is over.
const LOOK: Duration = Duration::from_millis(50);

/// What a thread is to do.
pub(crate) struct Work {
    pub(crate) plan: Plan,
    pub(crate) config: ClientConfig,
    pub(crate) reuse: Percent,
    /// This thread's part of the load.
    pub(crate) load: Load,
    /// Of this thread.
    pub(crate) seed: u64,
    pub(crate) board: Arc<Board>,
    pub(crate) gear: Gear,
}

/// What a thread needs from the system, beside connections. Every thread's is made before one of
/// them begins, since connections may use up the descriptors.
pub(crate) struct Gear {
    timer: Timer,
    runtime: Runtime,
}

impl Gear {
    /// # Errors
    /// The system gives no more.
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let timer = {
            let _within = runtime.enter();
            Timer::new()?
        };
        Ok(Self { timer, runtime })
    }
}

/// What a thread has brought.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    /// In the time that is measured.
    pub(crate) tally: Tally,
    /// From the first connection to the last.
    pub(crate) whole: Counts,
}

/// What this thread's connections share.
struct Client {
    plan: Plan,
    config: Arc<ClientConfig>,
    sessions: Arc<Sessions>,
    board: Arc<Board>,
    reuse: RefCell<ReuseCounter>,
    requests: RefCell<Requests>,
    brought: RefCell<Brought>,
    buffer: RefCell<Vec<u8>>,
    /// Connections under way, and who waits for the last.
    open: Cell<usize>,
    none_open: Notify,
}

/// Works to the end.
///
/// # Errors
/// The timer fails.
pub(crate) fn work(work: Work) -> io::Result<Brought> {
    let Gear { timer, runtime } = work.gear;
    let sessions = Arc::new(Sessions::default());
    let config = tls::with_sessions(&work.config, work.plan.resumption, Arc::clone(&sessions));
    let requests = Requests::new(&work.plan.mix, &work.plan.target.path, work.seed);
    let client = Rc::new(Client {
        plan: work.plan,
        config: Arc::new(config),
        sessions,
        board: work.board,
        reuse: RefCell::new(ReuseCounter::new(work.reuse)),
        requests: RefCell::new(requests),
        brought: RefCell::default(),
        buffer: RefCell::default(),
        open: Cell::new(0),
        none_open: Notify::new(),
    });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        match work.load {
            Load::Rate(rate) => open_loop(&client, &timer, rate, work.seed).await?,
            Load::Connections(number) => closed_loop(&client, number),
        }
        while client.open.get() > 0 {
            client.none_open.notified().await;
        }
        Ok::<(), io::Error>(())
    })?;
    // Connections that still wait for the server to close.
    drop(tasks);
    Ok(client.brought.take())
}

/// Starts connections when they are due, whatever becomes of those before.
async fn open_loop(client: &Rc<Client>, timer: &Timer, rate: f64, seed: u64) -> io::Result<()> {
    let board = &client.board;
    for after in Arrivals::new(rate, seed) {
        let due = board.base + after;
        loop {
            if board.is_over(due.min(Instant::now())) || board.is_over(due) {
                return Ok(());
            }
            let now = Instant::now();
            if due <= now {
                break;
            }
            timer.until(due.min(now + LOOK)).await?;
        }
        start(client, async move |client| {
            // Counted where it fails.
            let _ = visit(&client, due).await;
        });
        // Whatever is ready has its turn, also where starts are due all the time.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Starts places, in each of which one connection follows the other.
fn closed_loop(client: &Rc<Client>, places: usize) {
    for _ in 0..places {
        start(client, async move |client| {
            loop {
                let now = Instant::now();
                if client.board.is_over(now) {
                    break;
                }
                if visit(&client, now).await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
}

/// Starts a task that the thread's end waits for.
fn start(client: &Rc<Client>, task: impl AsyncFnOnce(Rc<Client>) + 'static) {
    client.open.set(client.open.get() + 1);
    let client = Rc::clone(client);
    tokio::task::spawn_local(async move {
        task(Rc::clone(&client)).await;
        client.open.set(client.open.get() - 1);
        if client.open.get() == 0 {
            client.none_open.notify_one();
        }
    });
}

/// One connection with its requests. An error is counted already.
async fn visit(client: &Client, intended: Instant) -> Result<(), Failed> {
    let started = Instant::now();
    let stage = Cell::new(Stage::Connecting);
    if client.board.is_measured(intended) {
        let late = started.saturating_duration_since(intended);
        client.brought.borrow_mut().tally.started(late);
    }
    let mut left = client.plan.keep_alive;
    let mut request = client.request(left == Some(1));
    let opened = async {
        let opening = Opening {
            target: &client.plan.target,
            config: &client.config,
            sessions: &client.sessions,
            request: &request,
        };
        let wanted = || client.reuse.borrow().next();
        let count = |offer: Offer| client.reuse.borrow_mut().opened(offer);
        Connection::open(&opening, started, &stage, wanted, count).await
    };
    let deadline = tokio::time::Instant::from_std(started + client.plan.timeout);
    let opened = match tokio::time::timeout_at(deadline, opened).await {
        Ok(opened) => opened,
        Err(_) => Err(stage.get().time_out().into()),
    };
    let mut connection = match opened {
        Ok(connection) => connection,
        Err(failure) => return Err(client.failed(intended, &failure)),
    };
    client.opened(intended, &connection);
    let mut kind = connection.handshake.offer.kind();
    let (mut intended, mut begun, mut deadline) = (intended, started, deadline);
    loop {
        let asked = connection.ask(&request, &client.buffer);
        let answer = match tokio::time::timeout_at(deadline, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(Stage::Asking.time_out().into()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => return Err(client.failed(intended, &failure)),
        };
        let exchange = Exchange {
            kind,
            latency: answer.done.saturating_duration_since(intended),
            whole: answer.done.saturating_duration_since(begun),
            steps: answer.steps,
            body: answer.body,
            plain: answer.plain,
        };
        match answer.status {
            400..=499 => {
                client.failed(intended, &Fault::Status4xx.into());
            }
            500.. => {
                client.failed(intended, &Fault::Status5xx.into());
            }
            _ => client.answered(intended, &exchange),
        }
        left = left.map(|left| left - 1);
        let is_over = client.board.is_over(Instant::now());
        if left == Some(0) || answer.closes || is_over {
            break;
        }
        request = client.request(left == Some(1));
        kind = Kind::Kept;
        intended = connection.rest();
        begun = intended;
        deadline = tokio::time::Instant::from_std(begun + client.plan.timeout);
    }
    tokio::task::spawn_local(connection.close());
    Ok(())
}

/// A connection or request failed; it is counted.
#[derive(Debug)]
struct Failed;

impl Client {
    /// The next request, as bytes.
    fn request(&self, is_last: bool) -> Vec<u8> {
        let mut requests = self.requests.borrow_mut();
        let path = requests.next_path();
        let host = &self.plan.target.authority;
        let close = if is_last { "Connection: close\r\n" } else { "" };
        let agent = concat!("tandem-measure/", env!("CARGO_PKG_VERSION"));
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n{close}\r\n"
        )
        .into_bytes()
    }

    fn opened(&self, intended: Instant, connection: &Connection) {
        self.board
            .facts
            .get_or_init(|| connection.facts(&self.plan.target));
        let mut brought = self.brought.borrow_mut();
        brought.whole.handshake(&connection.handshake);
        if self.board.is_measured(intended) {
            brought.tally.handshake(&connection.handshake);
        }
    }

    fn answered(&self, intended: Instant, exchange: &Exchange) {
        self.board.answered(exchange.latency);
        let mut brought = self.brought.borrow_mut();
        brought.whole.exchange(exchange);
        if self.board.is_measured(intended) {
            brought.tally.exchange(exchange);
        }
    }

    fn failed(&self, intended: Instant, failure: &Failure) -> Failed {
        self.board.failed();
        let mut brought = self.brought.borrow_mut();
        brought.whole.fault(failure.fault, &failure.detail);
        if self.board.is_measured(intended) {
            let waited = intended.elapsed();
            brought.tally.fault(failure.fault, &failure.detail, waited);
        }
        Failed
    }
}
