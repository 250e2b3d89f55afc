//! What a flow's handshake cost, and when each thing in it happened: for the admin page.
//!
//! Is not: a decision; nothing in the engine depends on it. Invariant: bounded, in each flow and in
//! all ([`Summaries`]).

use std::collections::VecDeque;
use std::net::SocketAddr;

use tandem_store::Site;
use tandem_wire::Instant;

use crate::output::Event;

/// Summaries that wait to be taken: 2 MB at most. An adapter takes them each second, in which
/// fewer handshakes end.
const MAX_WAITING: usize = 4_096;

/// A flow whose handshake is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Whom the client asked for, as far as that was read.
    pub site: Site,
    /// When its SYN passed.
    pub began: Instant,
    /// Payload of its packets up to the end of the handshake, as the endpoints sent it.
    pub original_bytes: u64,
    /// Payload that crossed in its place.
    pub crossed_bytes: u64,
    /// How it ended: the name of the event's counter, without its beginning.
    pub outcome: &'static str,
    /// What happened when.
    pub marks: Vec<(&'static str, Instant)>,
}

/// What is kept of a flow in its handshake.
#[derive(Debug)]
pub(crate) struct Note {
    began: Instant,
    original_bytes: u64,
    crossed_bytes: u64,
    peer: Option<Instant>,
    flight: Option<Instant>,
    outcome: Option<&'static str>,
}

impl Note {
    pub(crate) fn since(began: Instant) -> Self {
        Self {
            began,
            original_bytes: 0,
            crossed_bytes: 0,
            peer: None,
            flight: None,
            outcome: None,
        }
    }

    /// A packet with so much payload passes.
    pub(crate) fn packet(&mut self, payload: usize) {
        self.original_bytes += payload as u64;
        self.crossed_bytes += payload as u64;
    }

    /// What happened in the flow.
    pub(crate) fn event(&mut self, event: Event, now: Instant) {
        match event {
            Event::PeerSeen => self.peer = Some(now),
            Event::FlightWritten { original, sent } => {
                let spared = original.saturating_sub(sent);
                self.crossed_bytes = self.crossed_bytes.saturating_sub(spared);
                self.flight.get_or_insert(now);
            }
            Event::FlightRebuilt { bytes, received } => {
                self.original_bytes += bytes.saturating_sub(received);
                self.flight.get_or_insert(now);
            }
            Event::OriginalsSent(bytes) => self.crossed_bytes += bytes,
            Event::HandshakeFinished | Event::GivenUp(_) => {
                let name = event.name();
                let name = name.strip_prefix("handshakes_").unwrap_or(name);
                let name = name.strip_prefix("flows_").unwrap_or(name);
                let name = name.strip_prefix("given_up_").unwrap_or(name);
                self.outcome.get_or_insert(name);
            }
            Event::Unread(_)
            | Event::BadChecksum
            | Event::FlowOpened
            | Event::Engine(_)
            | Event::HintSent
            | Event::HoldReleased(_)
            | Event::AckAbsorbed
            | Event::FlightAcknowledged
            | Event::FlightRefused
            | Event::RepeatAbsorbed
            | Event::FlightRepeated
            | Event::FlightMissed(_)
            | Event::MissSent
            | Event::MissReceived
            | Event::TimestampsReplaced
            | Event::PathStopped(_)
            | Event::PathResumed
            | Event::RewriteWithheld
            | Event::OptionRefused => {}
        }
    }

    /// The summary of a flow that ends now; none, where it never got to a handshake.
    fn summary(&self, site: Option<Site>, server: SocketAddr, now: Instant) -> Option<Summary> {
        let outcome = self.outcome?;
        let marks = [("peer", self.peer), ("flight", self.flight)];
        let marks = marks.into_iter().filter_map(|(name, at)| Some((name, at?)));
        Some(Summary {
            site: site.unwrap_or(Site::Address(server)),
            began: self.began,
            original_bytes: self.original_bytes,
            crossed_bytes: self.crossed_bytes,
            outcome,
            marks: marks.chain([("over", now)]).collect(),
        })
    }
}

/// Summaries that wait to be taken; the last ones, where they are too many.
#[derive(Debug, Default)]
pub(crate) struct Summaries(VecDeque<Summary>);

impl Summaries {
    /// A flow has ended.
    pub(crate) fn end(
        &mut self,
        note: &Note,
        site: Option<Site>,
        server: SocketAddr,
        now: Instant,
    ) {
        if let Some(summary) = note.summary(site, server, now) {
            if self.0.len() >= MAX_WAITING {
                self.0.pop_front();
            }
            self.0.push_back(summary);
        }
    }

    pub(crate) fn take(&mut self) -> impl Iterator<Item = Summary> {
        self.0.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::GiveUp;
    use std::time::Duration;
    use tandem_engine::Pass;

    fn server() -> SocketAddr {
        "192.0.2.1:443".parse().expect("an address")
    }

    #[test]
    fn what_was_spared_shows_at_the_side_that_writes_and_at_the_side_that_rebuilds() {
        let start = Instant::ZERO;
        let mut writes = Note::since(start);
        writes.packet(3_000);
        let (original, sent) = (3_000, 200);
        writes.event(Event::FlightWritten { original, sent }, start);
        let mut rebuilds = Note::since(start);
        rebuilds.packet(200);
        let (bytes, received) = (3_000, 200);
        rebuilds.event(Event::FlightRebuilt { bytes, received }, start);
        for mut note in [writes, rebuilds] {
            let now = start + Duration::from_millis(5);
            assert_eq!(note.summary(None, server(), now), None);
            note.event(Event::HandshakeFinished, now);
            let summary = note.summary(None, server(), now).expect("it is over");
            assert_eq!(
                (summary.original_bytes, summary.crossed_bytes),
                (3_000, 200)
            );
            assert_eq!(summary.outcome, "finished");
            assert_eq!(summary.marks, [("flight", start), ("over", now)]);
        }
    }

    #[test]
    fn the_last_ones_are_kept_where_nobody_asks() {
        let mut summaries = Summaries::default();
        for number in 0..MAX_WAITING + 5 {
            let mut note = Note::since(Instant::ZERO);
            note.packet(number);
            let tls13 = GiveUp::Handshake(Pass::Tls13);
            note.event(Event::GivenUp(tls13), Instant::ZERO);
            summaries.end(&note, None, server(), Instant::ZERO);
        }
        let all: Vec<Summary> = summaries.take().collect();
        assert_eq!(all.len(), MAX_WAITING);
        assert_eq!((all[0].original_bytes, all[0].outcome), (5, "tls13"));
    }
}
