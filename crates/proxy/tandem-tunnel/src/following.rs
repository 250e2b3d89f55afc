//! Both directions of a connection as the engine reads them along.
//!
//! Is not: what is held or sent. Invariant: of each direction at most [`STREAM_LIMIT`] bytes are
//! kept, from the first on, and only while the handshake goes on.

use std::net::{IpAddr, SocketAddr};

use tandem_engine::{Connection, Engine, Ground, KeyOffer, Moment, Role, Sender, Streams};
use tandem_link::tunnel::MAX_LEN;
use tandem_store::Store;
use tandem_wire::Instant;

/// Most bytes of either direction that are followed: what one frame stands for. A server's flight
/// with post-quantum certificates has about 20,000.
pub(crate) const STREAM_LIMIT: usize = MAX_LEN;

/// A handshake that goes on.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) connection: Connection,
    client: Vec<u8>,
    server: Vec<u8>,
}

impl Following {
    /// One of which nothing was read.
    pub(crate) fn new() -> Self {
        Self {
            connection: Connection::new(None),
            client: Vec::new(),
            server: Vec::new(),
        }
    }

    /// Reads what this end sent. `None`, and nothing read, where that is more than is followed.
    pub(crate) fn read(&mut self, sender: Sender, bytes: &[u8]) -> Option<()> {
        let stream = match sender {
            Sender::Client => &mut self.client,
            Sender::Server => &mut self.server,
        };
        if bytes.len() > STREAM_LIMIT - stream.len() {
            return None;
        }
        stream.extend_from_slice(bytes);
        self.connection.read(sender, stream);
        Some(())
    }

    /// What this end has sent.
    pub(crate) fn stream(&self, sender: Sender) -> &[u8] {
        match sender {
            Sender::Client => &self.client,
            Sender::Server => &self.server,
        }
    }

    /// What both have sent.
    pub(crate) fn streams(&self) -> Streams<'_> {
        Streams {
            client: &self.client,
            server: &self.server,
        }
    }

    /// Remembers the client's hello for those to come: with the server's first bytes.
    pub(crate) fn keep_hello<S: Store>(&self, engine: &mut Engine<S>) {
        self.connection.hello_seen(self.streams(), engine);
    }

    /// Opens what has come of this end's flight, where its key was released. To be called at the
    /// side of that end.
    pub(crate) fn unseal<S: Store>(
        &mut self,
        sender: Sender,
        engine: &mut Engine<S>,
        moment: Moment,
    ) {
        let streams = Streams {
            client: &self.client,
            server: &self.server,
        };
        match sender {
            Sender::Client => self.connection.unseal_client(streams, engine),
            Sender::Server => self.connection.unseal(streams, engine, moment),
        }
    }

    /// At the client side, before the client sends more: whether that is opened.
    pub(crate) fn sealed_client_flight_to_come<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        now: Instant,
    ) -> Option<Ground> {
        let streams = Streams {
            client: &self.client,
            server: &self.server,
        };
        self.connection
            .sealed_client_flight_to_come(streams, engine, now)
    }

    /// The flight of the endpoint of this side passes as it is.
    pub(crate) fn flight_passes(&mut self, role: Role) {
        let streams = Streams {
            client: &self.client,
            server: &self.server,
        };
        match role {
            Role::ClientSide => self.connection.client_flight_passes(streams),
            Role::ServerSide => self.connection.server_flight_passes(),
        }
    }

    /// What is offered to this server of a client at this address, where so many spared bytes are
    /// worth a round trip.
    pub(crate) fn offer_key<S: Store>(
        &mut self,
        engine: &mut Engine<S>,
        server: SocketAddr,
        client: (IpAddr, usize),
    ) -> Option<KeyOffer> {
        let streams = Streams {
            client: &self.client,
            server: &self.server,
        };
        self.connection.offer_key(streams, engine, server, client)
    }

    /// The far side waits for the key.
    pub(crate) fn key_wanted(&mut self, now: Instant) {
        let streams = Streams {
            client: &self.client,
            server: &self.server,
        };
        self.connection.key_wanted(streams, now);
    }

    /// The far side has handed this key over, or has none.
    pub(crate) fn key_given<S: Store>(
        &mut self,
        key: Option<&[u8]>,
        engine: &mut Engine<S>,
    ) -> Result<(), tandem_engine::Miss> {
        self.connection.key_given(key, &self.server, engine)
    }

    /// Goes on behind a HelloRetryRequest that has come.
    pub(crate) fn follow_retry(&mut self) {
        let streams = Streams {
            client: &self.client,
            server: &self.server,
        };
        self.connection.follow_retry(streams);
    }

    /// The sealed flight out of this message, at this side: of the far endpoint.
    pub(crate) fn reseal<S: Store>(
        &mut self,
        role: Role,
        message: &[u8],
        engine: &mut Engine<S>,
        now: Instant,
    ) -> Result<Vec<u8>, tandem_engine::Miss> {
        let streams = Streams {
            client: &self.client,
            server: &self.server,
        };
        let limit = (STREAM_LIMIT, now);
        let connection = &mut self.connection;
        match role {
            Role::ClientSide => connection.reseal(message, streams, engine, limit),
            Role::ServerSide => connection.reseal_client(message, streams, engine, limit),
        }
    }

    /// Whether this end's stream ends in a fatal alert in clear (RFC 5246, section 7.2): then no
    /// more of its flight comes. Bytes that only look like one cost a delta, never a byte.
    pub(crate) fn ends_in_fatal_alert(&self, sender: Sender) -> bool {
        const ALERT: u8 = 21;
        const FATAL: u8 = 2;
        matches!(
            self.stream(sender).last_chunk(),
            Some([ALERT, 3, _, 0, 2, FATAL, _])
        )
    }

    /// Bytes of memory in use, about.
    pub(crate) fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.client.capacity()
            + self.server.capacity()
            + self.connection.footprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_followed_as_far_as_the_limit_and_not_a_byte_further() {
        for sender in [Sender::Client, Sender::Server] {
            let mut following = Following::new();
            assert!(following.read(sender, &vec![22; STREAM_LIMIT]).is_some());
            assert!(following.read(sender, &[22]).is_none());
            assert_eq!(following.stream(sender).len(), STREAM_LIMIT);
        }
    }
}
