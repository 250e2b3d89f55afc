//! What the link costs by the operator's tariff, shown while the daemon runs, and what it would
//! have cost without Tandem.
//!
//! Is not: the arithmetic ([`Bill`]).
//!
//! Invariants: looked at once a second, from numbers that are there anyway; day and month outlive a
//! restart.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tandem_tunnel::{Bill, Spent, Tariff, plain_bytes};

use crate::board::{Board, Carried};
use crate::clock::{Clocks, wall};
use crate::kept;

/// The file's name, in the store's directory.
const FILE: &str = "spent";

/// Between two looks: as exact as sessions are.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Looks between two writes of the file. A crash forgets what was spent since the last.
const LOOKS_A_WRITE: u32 = 60;

/// Bytes of the headers of UDP and IP (RFC 768, RFC 791, RFC 8200).
const HEADERS_V4: u64 = 28;
const HEADERS_V6: u64 = 48;

/// See the module.
pub(crate) struct Spending {
    bills: Mutex<Bills>,
    file: PathBuf,
    headers: u64,
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
    pub(crate) fn open(tariff: Tariff, store: &Path, peer: SocketAddr) -> Self {
        let file = store.join(FILE);
        let mut bills = Bills {
            paid: Bill::new(tariff.clone()),
            plain: Bill::new(tariff),
        };
        let read = kept::read(&file, |text| match text.lines().collect::<Vec<_>>()[..] {
            [paid, plain] => bills.paid.read(paid) && bills.plain.read(plain),
            _ => false,
        });
        if let Err(problem) = read {
            let file = file.display();
            tracing::warn!("{file}: {problem}; what was spent this month is counted from zero");
        }
        let headers = match peer.ip().to_canonical() {
            std::net::IpAddr::V4(_) => HEADERS_V4,
            std::net::IpAddr::V6(_) => HEADERS_V6,
        };
        Self {
            bills: Mutex::new(bills),
            file,
            headers,
        }
    }

    /// Looks at the numbers from time to time, for ever.
    pub(crate) async fn keep_on<T>(&self, board: &Board, clocks: Clocks) -> T {
        loop {
            for _ in 0..LOOKS_A_WRITE {
                tokio::time::sleep(LOOK_INTERVAL).await;
                self.look(board, clocks);
            }
            // Two short lines.
            self.keep();
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
            payload,
            connections,
        } = board.carried();
        let mut bills = self.bills();
        let (now, wall) = (clocks.now(), wall());
        bills
            .paid
            .observe(bytes + datagrams * self.headers, now, wall);
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
        let bills = self.bills();
        let text = format!("{}\n{}\n", bills.paid.write(), bills.plain.write());
        drop(bills);
        if let Err(error) = kept::write(&self.file, &text) {
            let file = self.file.display();
            tracing::warn!("{file}: {error}; what was spent does not outlive a restart");
        }
    }

    fn bills(&self) -> MutexGuard<'_, Bills> {
        // Each call leaves them whole.
        self.bills.lock().unwrap_or_else(PoisonError::into_inner)
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
