//! What an origin counts, for `/metrics`.

use tandem_daemon::metrics::Number;

use super::{kept, work};
use crate::places;

/// What is counted.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) sent: Number,
    pub(super) connections: Number,
    pub(super) used_again: Number,
    pub(super) open: Number,
    pub(super) sent_away: places::Numbers,
    pub(super) work: work::Numbers,
    pub(super) kept: kept::Numbers,
    pub(super) requests: Number,
    pub(super) body_bytes: Number,
    pub(super) misses: Number,
    pub(super) absent: Number,
    pub(super) unpublished: Number,
    pub(super) refused_requests: Number,
    pub(super) not_public: Number,
    pub(super) secured: Number,
    pub(super) resumed: Number,
    pub(super) refused_by_clients: Number,
    pub(super) forged_by_clients: Number,
    pub(super) distrusted: Number,
    pub(super) misdirected: Number,
    pub(super) cut_answers: Number,
    pub(super) vanished: Number,
    pub(super) failed: Number,
}

impl Numbers {
    pub(super) fn new() -> Self {
        Self {
            sent: Number::counter(
                "tandem_split_origin_sent_bytes",
                "Bytes written to the sockets of volunteers: handshakes, stubs, misses",
            ),
            connections: Number::counter(
                "tandem_split_origin_connections",
                "Connections of clients that volunteers have passed on",
            ),
            used_again: Number::counter(
                "tandem_split_origin_channels_used_again",
                "Clients for whom a volunteer has used a channel that was there: it took no handshake of its own",
            ),
            open: Number::gauge(
                "tandem_split_origin_open_channels",
                "Channels that are open",
            ),
            sent_away: places::Numbers {
                refused: Number::counter(
                    "tandem_split_origin_refused_channels",
                    "Channels that got no place: those of their network, or with their key, had all that one may have, or came too often",
                ),
                displaced: Number::counter(
                    "tandem_split_origin_displaced_channels",
                    "Channels that had asked for nothing and made room for another",
                ),
            },
            work: work::Numbers {
                hashed: Number::counter(
                    "tandem_split_origin_hashed_bytes",
                    "Bytes of bodies, and of what volunteers lacked, that were hashed",
                ),
                waiting: Number::gauge(
                    "tandem_split_origin_waiting_turns",
                    "Pieces of work that wait for their turn",
                ),
                delayed: Number::counter(
                    "tandem_split_origin_delayed_turns",
                    "Pieces of work that were put off because their volunteer had reached a limit",
                ),
            },
            kept: kept::Numbers {
                bytes: Number::gauge(
                    "tandem_split_origin_kept_bytes",
                    "Bytes of bodies that are kept in memory with their names",
                ),
                confirmed: Number::counter(
                    "tandem_split_origin_kept_answers",
                    "Answers with a body that was kept: the server behind had said that it still holds",
                ),
                named: Number::counter(
                    "tandem_split_origin_known_bytes",
                    "Bytes of bodies whose names were known: only their records' MACs were made anew",
                ),
            },
            requests: Number::counter(
                "tandem_split_origin_requests",
                "Requests that clients have made",
            ),
            body_bytes: Number::counter(
                "tandem_split_origin_body_bytes",
                "Bytes of the answers' bodies, as clients get them",
            ),
            misses: Number::counter(
                "tandem_split_origin_misses",
                "Things that volunteers have asked for",
            ),
            absent: Number::counter(
                "tandem_split_origin_absent",
                "Things that volunteers have asked for and that were gone",
            ),
            unpublished: Number::counter(
                "tandem_split_origin_unpublished_records",
                "Records sent in full because nothing more could be published",
            ),
            refused_requests: Number::counter(
                "tandem_split_origin_refused_requests",
                "Requests that were answered here with an error",
            ),
            not_public: Number::counter(
                "tandem_split_origin_not_public",
                "Answers of the server behind that were not public",
            ),
            secured: Number::counter(
                "tandem_split_origin_secured_locations",
                "Header lines of the server behind that led to http of this site, and lead to https now",
            ),
            resumed: Number::counter(
                "tandem_split_origin_resumed_sessions",
                "Handshakes that resumed an earlier session",
            ),
            refused_by_clients: Number::counter(
                "tandem_split_origin_refused_by_clients",
                "Connections that a client has ended with an alert because of a bad record: a volunteer has changed something",
            ),
            forged_by_clients: Number::counter(
                "tandem_split_origin_forged_records",
                "Records that no client has sealed: a volunteer has changed something",
            ),
            distrusted: Number::counter(
                "tandem_split_origin_distrusted",
                "Handshakes that a client has ended with an alert because of the certificate",
            ),
            misdirected: Number::counter(
                "tandem_split_origin_misdirected",
                "Connections or requests for another host: a volunteer answers for a site that is not this one, or a name leads here by mistake",
            ),
            cut_answers: Number::counter(
                "tandem_split_origin_cut_answers",
                "Answers that could not be written to their end: the client has left or was cut off, which cannot be told apart",
            ),
            vanished: Number::counter(
                "tandem_split_origin_vanished_clients",
                "Connections on which a client went away without a word: it was cut off, or is one that never says a last word",
            ),
            failed: Number::counter(
                "tandem_split_origin_failed_channels",
                "Channels that ended early",
            ),
        }
    }

    pub(super) fn all(&self) -> Vec<Number> {
        [
            &self.sent,
            &self.connections,
            &self.used_again,
            &self.open,
            &self.sent_away.refused,
            &self.sent_away.displaced,
            &self.work.hashed,
            &self.work.waiting,
            &self.work.delayed,
            &self.kept.bytes,
            &self.kept.confirmed,
            &self.kept.named,
            &self.requests,
            &self.body_bytes,
            &self.misses,
            &self.absent,
            &self.unpublished,
            &self.refused_requests,
            &self.not_public,
            &self.secured,
            &self.resumed,
            &self.refused_by_clients,
            &self.forged_by_clients,
            &self.distrusted,
            &self.misdirected,
            &self.cut_answers,
            &self.vanished,
            &self.failed,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}
