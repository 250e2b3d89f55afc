//! What the link costs by the operator's tariff, shown while the daemon runs, and what it would
//! have cost without Tandem.
//!
//! Is not: the arithmetic ([`Bill`]).
//!
//! Invariants: looked at once a second, from numbers that are there anyway; day and month outlive a
//! restart.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_tunnel::{Bill, Spent, Tariff, plain_bytes};
use tokio::task::spawn_blocking;

use crate::board::{Board, Carried};
use crate::clock::{Clocks, wall};
use crate::kept::Kept;

/// The file's name, in the store's directory.
const FILE: &str = "spent";

/// Between two looks: as exact as sessions are.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Looks between two writes of the file. A crash forgets what was spent since the last.
const LOOKS_A_WRITE: u32 = 60;

/// Bytes of IP's header (RFC 791, RFC 8200).
const IP_V4: u64 = 20;
const IP_V6: u64 = 40;
/// Bytes of UDP's (RFC 768), and of TCP's with its timestamps (RFC 9293, RFC 7323).
const UDP: u64 = 8;
const TCP: u64 = 32;

/// See the module.
pub(crate) struct Spending {
    bills: Mutex<Bills>,
    kept: Kept,
    ip_header: u64,
}

struct Bills {
    /// Of what has crossed the link.
    paid: Bill,
    /// Of what would have crossed without Tandem.
    plain: Bill,
}

/// What both bills say, for people.
struct Words<'a>(&'a Bills);

impl Spending {
    /// Goes on from what the file in the directory of the store says.
    pub(crate) fn open(tariff: Tariff, store: &Path, peer: SocketAddr) -> Arc<Self> {
        let kept = Kept::new(store, FILE, "what was spent this month");
        let bills = kept.read(|text| Bills::read(&tariff, text));
        let ip_header = match peer.ip().to_canonical() {
            IpAddr::V4(_) => IP_V4,
            IpAddr::V6(_) => IP_V6,
        };
        Arc::new(Self {
            bills: Mutex::new(bills.unwrap_or_else(|| Bills::new(tariff))),
            kept,
            ip_header,
        })
    }

    /// Looks at the numbers from time to time, for ever.
    pub(crate) async fn keep_on(self: Arc<Self>, board: Arc<Board>, clocks: Clocks) {
        loop {
            for _ in 0..LOOKS_A_WRITE {
                tokio::time::sleep(LOOK_INTERVAL).await;
                self.look(&board, clocks);
            }
            let spending = Arc::clone(&self);
            // It does not panic, and if it did, the next may not.
            let _ = spawn_blocking(move || spending.keep()).await;
        }
    }

    /// The last look, for the log and the file.
    pub(crate) fn close(&self, board: &Board, clocks: Clocks) {
        self.look(board, clocks);
        self.keep();
        let bills = self.bills();
        tracing::info!("spent {}", Words(&bills));
    }

    fn look(&self, board: &Board, clocks: Clocks) {
        let Carried {
            bytes,
            datagrams,
            segments,
            payload,
            connections,
        } = board.carried();
        let mut bills = self.bills();
        let (now, wall) = (clocks.now(), wall());
        let headers = datagrams * (self.ip_header + UDP) + segments * (self.ip_header + TCP);
        bills.paid.observe(bytes + headers, now, wall);
        let plain = plain_bytes(payload, connections);
        bills.plain.observe(plain, now, wall);
        let (paid, plain) = (bills.paid.spent(), bills.plain.spent());
        board.numbers([
            ("spent_today_micros", paid.today.micros()),
            ("spent_month_micros", paid.month.micros()),
            ("spent_since_start_micros", paid.since_start.micros()),
            ("spent_without_tandem_today_micros", plain.today.micros()),
            ("spent_without_tandem_month_micros", plain.month.micros()),
            (
                "spent_without_tandem_since_start_micros",
                plain.since_start.micros(),
            ),
        ]);
        board.note("spent", Words(&bills).to_string());
    }

    fn keep(&self) {
        self.kept.write(|| self.bills().write());
    }

    fn bills(&self) -> MutexGuard<'_, Bills> {
        // Each call leaves them whole.
        self.bills.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bills {
    fn new(tariff: Tariff) -> Self {
        Self {
            paid: Bill::new(tariff.clone()),
            plain: Bill::new(tariff),
        }
    }

    /// A line each.
    fn write(&self) -> String {
        format!("{}\n{}\n", self.paid.write(), self.plain.write())
    }

    /// `None`: these are no such lines.
    fn read(tariff: &Tariff, text: &str) -> Option<Self> {
        let (paid, plain) = text.strip_suffix('\n')?.split_once('\n')?;
        Some(Self {
            paid: Bill::read(tariff.clone(), paid)?,
            plain: Bill::read(tariff.clone(), plain)?,
        })
    }
}

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bills { paid, plain } = self.0;
        let currency = &paid.tariff().currency;
        let of = |spent: Spent| {
            let Spent {
                today,
                month,
                since_start,
            } = spent;
            format!("{today} {currency} today, {month} this month, {since_start} since the start")
        };
        let (paid, plain) = (of(paid.spent()), of(plain.spent()));
        write!(f, "{paid}; without Tandem about {plain}")
    }
}
