//! A line that sends at a constant rate, and whose turn it is.
//!
//! ```text
//!   party A  [a1 a2 a3]  \
//!   party B  [b1]         >-- in turn, a quantum each --> the line
//!   party C  [c1 c2]     /
//! ```
//!
//! Parties take turns, a quantum each (round robin); what one party sends goes out in the order in
//! which it came (FIFO). So a party with a long queue delays another's next transfer by one quantum
//! for each party that waits. This is the order in which an origin works for its volunteers
//! (`docs/splitting.md`, "Fair turns"), and about how TCP connections share a line.
//!
//! Invariants: bytes take no less time than the rate allows; nothing is sent twice; while anything
//! waits, the line is busy.

use std::collections::{BTreeMap, VecDeque};

use crate::time::Time;

/// A line. `P` names parties, `T` what they send.
#[derive(Debug)]
pub struct Line<P, T> {
    bits_per_second: u64,
    quantum: u64,
    queues: BTreeMap<P, Queue<T>>,
    turns: VecDeque<P>,
    sending: Option<Sending<P, T>>,
    waiting: u64,
    waiting_bytes: u64,
}

#[derive(Debug)]
struct Queue<T> {
    transfers: VecDeque<Transfer<T>>,
    /// Whether the party stands in `turns`, or is sending.
    has_turn: bool,
}

#[derive(Debug)]
struct Transfer<T> {
    what: T,
    left: u64,
}

#[derive(Debug)]
struct Sending<P, T> {
    party: P,
    what: T,
    bytes: u64,
    ends: Time,
    is_wanted: bool,
}

/// A quantum that has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Sent<T> {
    /// Of this transfer.
    pub what: T,
    /// So many bytes.
    pub bytes: u64,
    /// Whether they were its last ones; never of a transfer that was cancelled.
    pub is_last: bool,
}

impl<P: Copy + Ord, T: Copy + PartialEq> Line<P, T> {
    /// An idle line. Rate and quantum are at least 1.
    pub fn new(bits_per_second: u64, quantum: u64) -> Self {
        Self {
            bits_per_second: bits_per_second.max(1),
            quantum: quantum.max(1),
            queues: BTreeMap::new(),
            turns: VecDeque::new(),
            sending: None,
            waiting: 0,
            waiting_bytes: 0,
        }
    }

    /// A party has something to send, at least one byte of it.
    pub fn handle_input(&mut self, party: P, what: T, bytes: u64, now: Time) {
        let left = bytes.max(1);
        let queue = self.queues.entry(party).or_insert_with(|| Queue {
            transfers: VecDeque::new(),
            has_turn: false,
        });
        queue.transfers.push_back(Transfer { what, left });
        if !queue.has_turn {
            queue.has_turn = true;
            self.turns.push_back(party);
        }
        self.waiting += 1;
        self.waiting_bytes += left;
        if self.sending.is_none() {
            self.send(now);
        }
    }

    /// The quantum that has left by now, if one has. A call that comes early does nothing.
    pub fn handle_timeout(&mut self, now: Time) -> Option<Sent<T>> {
        let sending = self.sending.take_if(|sending| sending.ends <= now)?;
        let mut is_last = false;
        if let Some(queue) = self.queues.get_mut(&sending.party) {
            if sending.is_wanted {
                self.waiting_bytes -= sending.bytes;
                if let Some(first) = queue.transfers.front_mut() {
                    first.left -= sending.bytes;
                    is_last = first.left == 0;
                }
                if is_last {
                    queue.transfers.pop_front();
                    self.waiting -= 1;
                }
            }
            if queue.transfers.is_empty() {
                self.queues.remove(&sending.party);
            } else {
                self.turns.push_back(sending.party);
            }
        }
        self.send(sending.ends);
        Some(Sent {
            what: sending.what,
            bytes: sending.bytes,
            is_last,
        })
    }

    /// When the quantum that is being sent has left.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.sending.as_ref().map(|sending| sending.ends)
    }

    /// Nobody wants this any more. A quantum that is being sent leaves nevertheless.
    pub fn cancel(&mut self, party: P, what: T) {
        self.cancel_where(party, |transfer| *transfer == what);
    }

    /// Nobody wants anything of this party any more.
    pub fn cancel_all(&mut self, party: P) {
        self.cancel_where(party, |_| true);
    }

    /// Transfers that have not left as a whole.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Bytes of these that have not left.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    fn cancel_where(&mut self, party: P, is_meant: impl Fn(&T) -> bool) {
        let Some(queue) = self.queues.get_mut(&party) else {
            return;
        };
        let (waiting, waiting_bytes) = (&mut self.waiting, &mut self.waiting_bytes);
        queue.transfers.retain(|transfer| {
            let is_kept = !is_meant(&transfer.what);
            if !is_kept {
                *waiting -= 1;
                *waiting_bytes -= transfer.left;
            }
            is_kept
        });
        if let Some(sending) = &mut self.sending
            && sending.party == party
            && is_meant(&sending.what)
        {
            sending.is_wanted = false;
        }
    }

    /// Starts the next quantum, if anything waits.
    fn send(&mut self, now: Time) {
        while let Some(party) = self.turns.pop_front() {
            let first = self
                .queues
                .get(&party)
                .and_then(|queue| queue.transfers.front());
            let Some(first) = first else {
                // All of it was cancelled.
                self.queues.remove(&party);
                continue;
            };
            let bytes = first.left.min(self.quantum);
            let micros = (bytes * 8_000_000).div_ceil(self.bits_per_second);
            self.sending = Some(Sending {
                party,
                what: first.what,
                bytes,
                ends: now + Time::from_micros(micros),
                is_wanted: true,
            });
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 byte takes 1 ms.
    fn line(quantum: u64) -> Line<char, u32> {
        Line::new(8_000, quantum)
    }

    /// Sends all that waits: transfers in the order in which they end, each with its millisecond.
    fn drained(line: &mut Line<char, u32>) -> Vec<(u32, u64)> {
        let mut ended = Vec::new();
        while let Some(at) = line.poll_timeout() {
            let sent = line.handle_timeout(at).expect("it is time");
            if sent.is_last {
                ended.push((sent.what, at.micros() / 1000));
            }
        }
        ended
    }

    #[test]
    fn transfers_of_one_party_leave_in_the_order_in_which_they_came() {
        let mut line = line(10);
        for (what, bytes) in [(3, 25), (1, 10), (2, 5)] {
            line.handle_input('a', what, bytes, Time::ZERO);
        }
        assert_eq!(drained(&mut line), [(3, 25), (1, 35), (2, 40)]);
    }

    #[test]
    fn a_party_with_a_long_queue_delays_another_by_one_quantum() {
        let mut line = line(10);
        for what in 0..100 {
            line.handle_input('a', what, 1_000, Time::ZERO);
        }
        line.handle_input('b', 1_000, 10, Time::from_micros(5_000));
        let ended = drained(&mut line);
        assert_eq!(ended[0], (1_000, 20));
        assert_eq!(ended.last(), Some(&(99, 100_010)));
    }

    #[test]
    fn parties_share_the_line_equally() {
        let mut line = line(10);
        line.handle_input('a', 1, 100, Time::ZERO);
        line.handle_input('b', 2, 100, Time::ZERO);
        line.handle_input('c', 3, 50, Time::ZERO);
        assert_eq!(drained(&mut line), [(3, 150), (1, 240), (2, 250)]);
    }

    #[test]
    fn an_early_call_does_nothing_and_an_idle_line_starts_at_once() {
        let mut line = line(10);
        line.handle_input('a', 1, 10, Time::from_micros(500));
        assert_eq!(line.handle_timeout(Time::from_micros(10_499)), None);
        let end = Time::from_micros(10_500);
        assert_eq!(line.poll_timeout(), Some(end));
        assert!(line.handle_timeout(end).is_some_and(|sent| sent.is_last));
        assert_eq!(line.poll_timeout(), None);
        line.handle_input('a', 2, 10, Time::from_micros(90_000));
        assert_eq!(line.poll_timeout(), Some(Time::from_micros(100_000)));
    }

    #[test]
    fn what_is_cancelled_costs_the_quantum_that_is_under_way() {
        let mut line = line(10);
        line.handle_input('a', 1, 100, Time::ZERO);
        line.handle_input('a', 2, 10, Time::ZERO);
        line.handle_input('b', 3, 10, Time::ZERO);
        line.cancel('a', 1);
        line.cancel('b', 3);
        assert_eq!((line.waiting(), line.waiting_bytes()), (1, 10));
        assert_eq!(drained(&mut line), [(2, 20)]);
        assert_eq!((line.waiting(), line.waiting_bytes()), (0, 0));
        line.handle_input('b', 4, 10, Time::from_micros(50_000));
        line.cancel_all('b');
        line.handle_input('b', 5, 10, Time::from_micros(50_000));
        assert_eq!(drained(&mut line), [(5, 70)]);
    }

    #[test]
    fn a_line_is_never_faster_than_its_rate() {
        // 7 bit/s divide nothing evenly.
        let mut line: Line<u32, u32> = Line::new(7, 3);
        for party in 0..5 {
            line.handle_input(party, party, 11 + u64::from(party), Time::ZERO);
        }
        let mut sent = 0;
        while let Some(at) = line.poll_timeout() {
            sent += line.handle_timeout(at).map_or(0, |sent| sent.bytes);
            assert!(sent as f64 * 8.0 <= 7.0 * at.seconds());
        }
        assert_eq!(sent, 65);
    }
}
