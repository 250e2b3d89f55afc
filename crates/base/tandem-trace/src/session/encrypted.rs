//! How far the encrypted flights of TLS 1.3 go, told from outside by sizes, order and
//! acknowledgements.
//!
//! Nothing is decrypted, so this is as near as one can come. What it rests on:
//! - A client sends its Finished only once it has read the server's Finished: the acknowledgement
//!   in the segment of the client's first handshake record covers the server's whole flight, and no
//!   client record before that is one (those are early data).
//! - Without early data a server hears nothing between the hello and the client's flight: a server
//!   record whose own acknowledgement has moved on is behind the server's Finished.
//! - A record that holds a Finished alone has one of two lengths, by the hash of the cipher suite.
//!
//! Where tickets follow the server's Finished at once (a server may do that) they are taken for a
//! part of the flight.
//!
//! RFC 8446, sections 2, 4.2.10, 4.4.4 and 5.2.

use tandem_wire::Seq;

use super::{HEADER_LEN, Record};
use crate::opening::Role;
use crate::tally::{Part, Tally};

/// Encrypted lengths of a Finished alone, SHA-256 and SHA-384: header 4, hash, content type 1, tag
/// 16.
const FINISHED_LENS: [usize; 2] = [4 + 32 + 1 + 16, 4 + 48 + 1 + 16];
/// Records that a client's flight may take: EndOfEarlyData or Certificate, CertificateVerify, and
/// Finished make three.
const MAX_CLIENT_RECORDS: usize = 4;
/// Records that a server's flight may take. Chains of the largest size that is read need 64; one
/// message a record is usual.
const MAX_SERVER_RECORDS: usize = 256;

/// Both flights as far as they came.
#[derive(Clone, Debug, Default)]
pub(super) struct EncryptedFlights {
    /// End of the ServerHello's record, and what the server had received when it was sent.
    hello: Option<(Seq, Option<Seq>)>,
    server: Vec<(Seq, usize)>,
    server_over: bool,
    client: Vec<usize>,
    /// What the client had received when it sent its first handshake record.
    client_received: Option<Seq>,
}

/// Records and bytes of one flight, record headers included in neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Records.
    pub records: u64,
    /// Bytes of their fragments.
    pub fragment_bytes: u64,
}

impl Flight {
    fn of(lens: impl IntoIterator<Item = usize>) -> Self {
        let mut flight = Self::default();
        for len in lens {
            flight.records += 1;
            flight.fragment_bytes += len as u64;
        }
        flight
    }

    /// Bytes with record headers.
    pub fn record_bytes(self) -> u64 {
        self.fragment_bytes + self.records * HEADER_LEN as u64
    }

    pub(super) fn file(self, role: Role, tally: &mut Tally) {
        if self.records > 0 {
            tally.file_many(
                Part::RecordHeader,
                self.records,
                self.records * HEADER_LEN as u64,
            );
            tally.file_many(
                Part::EncryptedFlight(role),
                self.records,
                self.fragment_bytes,
            );
        }
    }
}

impl EncryptedFlights {
    /// The ServerHello was read; what the server sends from here on is encrypted.
    pub(super) fn server_hello(&mut self, end: Seq, ack: Option<Seq>) {
        self.hello = Some((end, ack));
    }

    /// Whether the server's flight is known to be complete.
    pub(super) fn server_is_over(&self) -> bool {
        self.server_over
    }

    /// Takes an encrypted record; `early_data` says that the client's hello offers some. True once
    /// that side's flight is over.
    pub(super) fn take(&mut self, role: Role, record: Record<'_>, early_data: bool) -> bool {
        match role {
            Role::Server => self.take_server(record, early_data),
            Role::Client => self.take_client(record, early_data),
        }
    }

    fn take_server(&mut self, record: Record<'_>, early_data: bool) -> bool {
        let heard_more = match (self.hello, record.ack) {
            (Some((_, Some(then))), Some(now)) => now.is_after(then),
            _ => false,
        };
        let behind = self
            .client_received
            .is_some_and(|received| record.end.is_after(received));
        if behind || (heard_more && !early_data) {
            self.server_over = true;
            return true;
        }
        self.server.push((record.end, record.fragment.len()));
        self.server_over =
            self.client_received == Some(record.end) || self.server.len() >= MAX_SERVER_RECORDS;
        self.server_over
    }

    fn take_client(&mut self, record: Record<'_>, early_data: bool) -> bool {
        if self.client.is_empty() {
            let is_early = match (self.hello, record.ack) {
                (Some((hello_end, _)), Some(received)) => !received.is_after(hello_end),
                (Some(_), None) => false,
                (None, _) => early_data,
            };
            if is_early {
                return false;
            }
            self.client_received = record.ack;
            if let (Some(received), Some(&(end, _))) = (record.ack, self.server.last()) {
                self.server_over |= !received.is_after(end);
            }
        }
        self.client.push(record.fragment.len());
        FINISHED_LENS.contains(&record.fragment.len()) || self.client.len() >= MAX_CLIENT_RECORDS
    }

    /// The server's flight, as far as it can be told.
    pub(super) fn server_flight(&self) -> Flight {
        let within = |end: Seq| {
            self.client_received
                .is_none_or(|received| !end.is_after(received))
        };
        Flight::of(
            self.server
                .iter()
                .filter(|(end, _)| within(*end))
                .map(|&(_, len)| len),
        )
    }

    /// The client's flight: up to the first record that has a Finished's length, or one record
    /// where none has.
    pub(super) fn client_flight(&self) -> Flight {
        let finished = self
            .client
            .iter()
            .position(|len| FINISHED_LENS.contains(len));
        let records = finished.map_or(1, |at| at + 1);
        Flight::of(self.client.iter().take(records).copied())
    }
}
