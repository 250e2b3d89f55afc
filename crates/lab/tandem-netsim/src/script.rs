//! What a simulated application does: a list of steps over a byte stream.
//!
//! Shaped for TLS 1.2 and 1.3 handshakes over real bytes: send a flight, wait
//! for so many bytes, send the next. The script does not look at the bytes; the
//! test compares what the hosts received with what they were to receive.

use std::time::Duration;

use tandem_wire::clock::Instant;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write these bytes. Does not wait for them to be acknowledged.
    Send(Vec<u8>),
    /// Wait until this many more bytes have arrived than the `Receive` steps
    /// before have waited for.
    Receive(u64),
    /// Wait until the peer has closed its direction.
    ReceiveEnd,
    /// Do nothing for this long.
    Wait(Duration),
    /// Stop taking data from TCP; its window fills.
    PauseReading,
    /// Take all there is and all that comes.
    ResumeReading,
    /// Close the direction: FIN behind all that was sent.
    Close,
    /// Reset the connection.
    Abort,
}

/// A list of steps under way. Starts when the connection is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    steps: Vec<Step>,
    position: usize,
    awaited: u64,
    waiting_until: Option<Instant>,
}

impl Script {
    /// A script from its steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The two sides of a conversation in turns: the client's script and the
    /// server's. Each turn names who speaks and what is said; the other waits
    /// for it. Neither closes.
    pub fn conversation(turns: &[(Speaker, &[u8])]) -> (Self, Self) {
        let steps = |me: Speaker| {
            turns.iter().map(move |(speaker, bytes)| {
                if *speaker == me {
                    Step::Send(bytes.to_vec())
                } else {
                    Step::Receive(bytes.len() as u64)
                }
            })
        };
        (
            Self::new(steps(Speaker::Client)),
            Self::new(steps(Speaker::Server)),
        )
    }

    /// The same with one more step at the end.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Whether all steps are done.
    pub fn is_done(&self) -> bool {
        self.position >= self.steps.len()
    }

    /// The step that it is at, by number from 0.
    pub fn position(&self) -> usize {
        self.position
    }

    /// When a `Wait` ends.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting_until
    }

    /// The next step that can be done now, as if it were done.
    pub(crate) fn advance(&mut self, seen: Seen, now: Instant) -> Option<Action> {
        loop {
            let action = match self.steps.get(self.position)? {
                Step::Send(bytes) => Some(Action::Send(bytes.clone())),
                Step::Receive(bytes) => {
                    if seen.received < self.awaited + bytes {
                        return None;
                    }
                    self.awaited += bytes;
                    None
                }
                Step::ReceiveEnd => {
                    match seen.end {
                        StreamEnd::NotYet => return None,
                        StreamEnd::Reached => {}
                    }
                    None
                }
                Step::Wait(duration) => {
                    let until = *self.waiting_until.get_or_insert(now + *duration);
                    if now < until {
                        return None;
                    }
                    self.waiting_until = None;
                    None
                }
                Step::PauseReading => Some(Action::PauseReading),
                Step::ResumeReading => Some(Action::ResumeReading),
                Step::Close => Some(Action::Close),
                Step::Abort => Some(Action::Abort),
            };
            self.position += 1;
            if action.is_some() {
                return action;
            }
        }
    }
}

/// Who speaks in a turn of [`Script::conversation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The side that connected.
    Client,
    /// The side that listened.
    Server,
}

/// What a script can see of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Bytes received in order since the start.
    pub(crate) received: u64,
    pub(crate) end: StreamEnd,
}

/// Whether the peer has closed its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    NotYet,
    Reached,
}

/// What a script asks of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Send(Vec<u8>),
    PauseReading,
    ResumeReading,
    Close,
    Abort,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_done_in_order_as_they_can_be() {
        let mut script = Script::new([
            Step::Send(vec![1]),
            Step::Receive(3),
            Step::Receive(2),
            Step::Wait(Duration::from_millis(5)),
            Step::ReceiveEnd,
            Step::Close,
        ]);
        let seen = |received, end| Seen { received, end };
        let at = Instant::from_micros;
        let early = seen(4, StreamEnd::NotYet);
        assert_eq!(script.advance(early, at(0)), Some(Action::Send(vec![1])));
        assert_eq!(script.advance(early, at(0)), None);
        assert_eq!(script.position(), 2);
        assert_eq!(script.advance(seen(5, StreamEnd::NotYet), at(10)), None);
        assert_eq!(script.due(), Some(at(5_010)));
        let end = seen(5, StreamEnd::Reached);
        assert_eq!(script.advance(end, at(5_009)), None);
        assert_eq!(script.advance(end, at(5_010)), Some(Action::Close));
        assert!(script.is_done());
        assert_eq!(script.due(), None);
    }
}
