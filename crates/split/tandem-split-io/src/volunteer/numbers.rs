//! What a volunteer counts.
//!
//! Is not: who it was that it counted; no name or address is among them.

use super::{cache, peers};
use crate::places;
use tandem_daemon::metrics::Number;

/// What is counted.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) clients: Number,
    pub(super) open: Number,
    pub(super) to_clients: Number,
    pub(super) from_origin: Number,
    pub(super) asked: Number,
    pub(super) missed: Number,
    pub(super) failed: Number,
    pub(super) unreachable: Number,
    pub(super) not_tls: Number,
    pub(super) clients_sent_away: places::Numbers,
    pub(super) refused_peers: Number,
    pub(super) asked_by_peers: Number,
    pub(super) to_peers: Number,
    pub(super) peers: peers::Numbers,
    pub(super) cache: cache::Numbers,
}

impl Numbers {
    pub(super) fn new() -> Self {
        Self {
            clients: Number::counter("tandem_split_volunteer_clients", "Connections of clients"),
            open: Number::gauge(
                "tandem_split_volunteer_open_clients",
                "Connections of clients that are open",
            ),
            to_clients: Number::counter(
                "tandem_split_volunteer_sent_bytes",
                "Bytes of records sent to clients",
            ),
            from_origin: Number::counter(
                "tandem_split_volunteer_stub_bytes",
                "Bytes of messages received from the origin on clients' behalf, without misses",
            ),
            asked: Number::counter(
                "tandem_split_volunteer_misses",
                "Things that the origin was asked for",
            ),
            missed: Number::counter(
                "tandem_split_volunteer_miss_bytes",
                "Bytes of the origin's answers to misses",
            ),
            failed: Number::counter(
                "tandem_split_volunteer_failed_clients",
                "Connections of clients that ended early",
            ),
            unreachable: Number::counter(
                "tandem_split_volunteer_origin_failures",
                "Connections of clients that ended early because of the origin",
            ),
            not_tls: Number::counter(
                "tandem_split_volunteer_not_tls",
                "Connections of clients that spoke no TLS",
            ),
            clients_sent_away: places::Numbers {
                refused: Number::counter(
                    "tandem_split_volunteer_refused_clients",
                    "Connections of clients that got no place: those of their network had all that one may have",
                ),
                displaced: Number::counter(
                    "tandem_split_volunteer_displaced_clients",
                    "Connections of clients that had asked for nothing and made room for another",
                ),
            },
            refused_peers: Number::counter(
                "tandem_split_volunteer_refused_peers",
                "Channels of others that were not opened: strangers, lines that failed, or no place",
            ),
            asked_by_peers: Number::counter(
                "tandem_split_volunteer_peer_questions",
                "Things that other volunteers have asked for",
            ),
            to_peers: Number::counter(
                "tandem_split_volunteer_peer_sent_bytes",
                "Bytes written to the sockets of other volunteers",
            ),
            peers: peers::Numbers {
                asked: Number::counter(
                    "tandem_split_volunteer_peer_misses",
                    "Things that other volunteers were asked for",
                ),
                hits: Number::counter(
                    "tandem_split_volunteer_peer_hits",
                    "Things that other volunteers gave, so that the origin was not asked",
                ),
                failures: Number::counter(
                    "tandem_split_volunteer_peer_failures",
                    "Questions that another volunteer left without an answer, or answered wrongly",
                ),
                wrong: Number::counter(
                    "tandem_split_volunteer_peer_wrong",
                    "Wrong answers of other volunteers: another digest, or no answer at all",
                ),
                received: Number::counter(
                    "tandem_split_volunteer_peer_received_bytes",
                    "Bytes of answers of other volunteers",
                ),
            },
            cache: cache::Numbers {
                from_memory: Number::counter(
                    "tandem_split_volunteer_memory_hits",
                    "Things found in memory",
                ),
                from_disk: Number::counter(
                    "tandem_split_volunteer_disk_hits",
                    "Things found on disk",
                ),
                damaged: Number::counter(
                    "tandem_split_volunteer_damaged",
                    "Things on disk that had another digest",
                ),
                not_kept: Number::counter(
                    "tandem_split_volunteer_not_kept",
                    "Things that the disk did not take",
                ),
                disk_bytes: Number::gauge("tandem_split_volunteer_disk_bytes", "Bytes on disk"),
            },
        }
    }

    pub(super) fn all(&self) -> Vec<Number> {
        [
            &self.clients,
            &self.open,
            &self.to_clients,
            &self.from_origin,
            &self.asked,
            &self.missed,
            &self.failed,
            &self.unreachable,
            &self.not_tls,
            &self.clients_sent_away.refused,
            &self.clients_sent_away.displaced,
            &self.refused_peers,
            &self.asked_by_peers,
            &self.to_peers,
            &self.peers.asked,
            &self.peers.hits,
            &self.peers.failures,
            &self.peers.wrong,
            &self.peers.received,
            &self.cache.from_memory,
            &self.cache.from_disk,
            &self.cache.damaged,
            &self.cache.not_kept,
            &self.cache.disk_bytes,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}
