//! Datagrams of QUIC (RFC 9221) that belong to a stream.
//!
//! Is not: the bytes that say to which ([`tandem_link::tunnel::write_datagram`]).
//!
//! Invariants: what comes for a stream that nobody has in hand is dropped, and so is what its
//! holder does not take in time.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn::Connection;
use tandem_link::tunnel::{parse_datagram, write_datagram};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::transport::{Datagrams, nudge};

/// Datagrams of one stream that its holder has not taken yet.
const MAX_WAITING: usize = 64;

/// Who takes the datagrams of one connection, by the stream to which they belong.
#[derive(Debug, Default)]
pub(super) struct Takers(Mutex<HashMap<u32, mpsc::Sender<Vec<u8>>>>);

impl Takers {
    /// Hands out what comes, until the connection ends.
    pub(super) async fn hand_out(self: Arc<Self>, connection: Connection) {
        while let Ok(datagram) = connection.read_datagram().await {
            // One without a number is the other side's question (`nudge.rs`).
            if let Some((stream, payload)) = parse_datagram(&datagram)
                && let Some(taker) = self.lock().get(&stream)
            {
                // It may be lost.
                let _ = taker.try_send(payload.to_vec());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, mpsc::Sender<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What crosses beside a stream.
pub(crate) struct Beside {
    connection: Connection,
    takers: Arc<Takers>,
    /// `None`: it has more bits than are written.
    stream: Option<u32>,
    /// What says so in front of each payload.
    number: Vec<u8>,
    come: tokio::sync::Mutex<mpsc::Receiver<Vec<u8>>>,
}

impl Beside {
    /// Of the stream with this number.
    pub(super) fn of(stream: u64, connection: Connection, takers: Arc<Takers>) -> Self {
        let (taker, come) = mpsc::channel(MAX_WAITING);
        let stream = u32::try_from(stream).ok();
        let mut number = Vec::new();
        if let Some(stream) = stream {
            takers.lock().insert(stream, taker);
            write_datagram(stream, &[], &mut number);
        }
        Self {
            connection,
            takers,
            stream,
            number,
            come: tokio::sync::Mutex::new(come),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(stream) = self.stream {
            self.takers.lock().remove(&stream);
        }
    }
}

impl Datagrams for Beside {
    async fn room(&self, bytes: usize, since: Instant) {
        // Another after each change of the path.
        if let Some(room) = nudge::room(self.connection.congestion_state()) {
            room.take(bytes, since, self.connection.rtt()).await;
        }
    }

    fn max_len(&self) -> Option<usize> {
        self.stream?;
        let max = self.connection.max_datagram_size()?;
        max.checked_sub(self.number.len())
    }

    fn send(&self, payload: &[u8]) {
        let datagram = [&self.number, payload].concat();
        // It may be lost.
        let _ = self.connection.send_datagram(datagram.into());
    }

    async fn receive(&self) -> Vec<u8> {
        match self.come.lock().await.recv().await {
            Some(payload) => payload,
            // Nobody can send any more.
            None => pending().await,
        }
    }
}
