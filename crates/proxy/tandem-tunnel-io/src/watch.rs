//! What a connection's handshake cost, and when what happened in it: for the admin page.
//!
//! Is not: a decision. Invariant: bounded; nothing is noted any more once the handshake is over.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use tandem_link::tunnel::Target;
use tandem_status::{Flow, Mark};
use tandem_store::Site;
use tandem_tunnel::Event;
use tokio::time::Instant;

/// What happens in a handshake, at either side, in the order of the client side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// There is a stream of the tunnel.
    Tunnel,
    /// The client's first bytes are here.
    Hello,
    /// Client side: the first bytes leave for the tunnel.
    Open,
    /// Server side: the server is connected to.
    Connected,
    /// The server's first bytes are here.
    Flight,
}

impl Moment {
    fn name(self) -> &'static str {
        match self {
            Self::Tunnel => "tunnel",
            Self::Hello => "hello",
            Self::Open => "open",
            Self::Connected => "connected",
            Self::Flight => "flight",
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Watch {
    began: Instant,
    began_unix_ms: u64,
    /// Where the connection goes, until the client's hello names it.
    target: String,
    site: Option<Site>,
    original_bytes: u64,
    crossed_bytes: u64,
    /// Each moment once.
    seen: Vec<(Moment, Instant)>,
    outcome: Option<&'static str>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    GoesOn,
    Reported,
}

impl Watch {
    /// From the moment on when the connection was taken in; where it goes is known at the client
    /// side.
    pub(crate) fn since(began: Instant, target: Option<&Target>) -> Self {
        let wall = SystemTime::now() - began.elapsed();
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            began,
            began_unix_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            target: target.map(Target::to_string).unwrap_or_default(),
            site: None,
            original_bytes: 0,
            crossed_bytes: 0,
            seen: Vec::new(),
            outcome: None,
            state: State::GoesOn,
        }
    }

    fn goes_on(&self) -> bool {
        self.state == State::GoesOn
    }

    /// Something happens now; again, it is not noted.
    pub(crate) fn at(&mut self, moment: Moment) {
        if self.goes_on() && !self.seen.iter().any(|(seen, _)| *seen == moment) {
            self.seen.push((moment, Instant::now()));
        }
    }

    /// An endpoint of this side sent so many bytes, or was sent them.
    pub(crate) fn endpoint(&mut self, len: usize) {
        if self.goes_on() {
            self.original_bytes += len as u64;
        }
    }

    /// So many bytes came on the stream of the tunnel, or left on it.
    pub(crate) fn tunnel(&mut self, len: usize) {
        if self.goes_on() {
            self.crossed_bytes += len as u64;
        }
    }

    /// Server side: the server has this address.
    pub(crate) fn connected(&mut self, address: std::net::SocketAddr) {
        self.target = address.to_string();
        self.at(Moment::Connected);
    }

    /// Whom the client asked for, once that is known.
    pub(crate) fn site(&mut self, site: impl FnOnce() -> Option<Site>) {
        if self.goes_on() && self.site.is_none() {
            self.site = site();
        }
    }

    /// The relay reports something.
    pub(crate) fn event(&mut self, event: Event) {
        let over = match event {
            Event::HandshakeFinished | Event::HandshakePassed(_) | Event::HandshakeTooLong => {
                event.name()
            }
            Event::Ended(_) => event.name(),
            Event::RelayOpened
            | Event::RelayClosed
            | Event::HelloWritten
            | Event::HelloRebuilt
            | Event::FlightWritten
            | Event::FlightRebuilt
            | Event::OpenedWritten
            | Event::OpenedDropped(_)
            | Event::FlightMissed(_)
            | Event::BytesElided(_)
            | Event::LiteralBytes(_)
            | Event::OriginalBytes(_)
            | Event::HoldTimedOut => return,
        };
        let over = over.trim_start_matches("handshakes_");
        let over = over.trim_start_matches("passed_");
        let over = over.trim_start_matches("relays_");
        self.outcome.get_or_insert(over);
    }

    /// The whole, once, when everything is done that ended the handshake.
    pub(crate) fn finished(&mut self) -> Option<Flow> {
        let outcome = self.outcome.filter(|_| self.goes_on())?;
        self.state = State::Reported;
        let since = |at: Instant| {
            let millis = at.saturating_duration_since(self.began).as_millis();
            u64::try_from(millis).unwrap_or(u64::MAX)
        };
        let seen = self.seen.iter().map(|(moment, at)| Mark {
            name: Cow::Borrowed(moment.name()),
            at_ms: since(*at),
        });
        let over = Mark {
            name: Cow::Borrowed("over"),
            at_ms: since(Instant::now()),
        };
        let site = match &self.site {
            Some(Site::Name(name)) => name.to_string(),
            // The address of a name is not known at the client side.
            Some(Site::Address(_) | Site::Any) | None => self.target.clone(),
        };
        Some(Flow {
            began_unix_ms: self.began_unix_ms,
            site,
            original_bytes: self.original_bytes,
            crossed_bytes: self.crossed_bytes,
            outcome: Cow::Borrowed(outcome),
            marks: seen.chain([over]).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_engine::Pass;

    #[test]
    fn a_handshake_is_reported_with_what_it_cost_and_nothing_after_it_counts() {
        let target = Target::Address("192.0.2.1:443".parse().expect("an address"));
        let mut watch = Watch::since(Instant::now(), Some(&target));
        watch.at(Moment::Hello);
        watch.endpoint(500);
        watch.tunnel(100);
        watch.at(Moment::Hello);
        assert_eq!(watch.finished(), None);
        watch.event(Event::HandshakePassed(Pass::Tls13));
        // What goes on with it.
        watch.tunnel(7);
        let flow = watch.finished().expect("it is over");
        watch.event(Event::RelayClosed);
        assert_eq!(watch.finished(), None);
        assert_eq!((flow.original_bytes, flow.crossed_bytes), (500, 107));
        assert_eq!(flow.outcome, "tls13");
        assert_eq!(flow.site, "192.0.2.1:443");
        let names: Vec<&str> = flow.marks.iter().map(|mark| mark.name.as_ref()).collect();
        assert_eq!(names, ["hello", "over"]);
    }
}
