//! How two brokers of a site do, as it is shown and counted.
//!
//! Is not: what they say to each other ([`crate::pair`]).

use serde::Serialize;
use tandem_daemon::metrics::Number;
use tokio::sync::watch;

/// Seconds between both clocks that are worth a warning.
const MAX_AHEAD: u64 = 60;

/// How the two do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Status {
    pub(crate) role: Role,
    /// Whether the other one is there.
    pub(crate) connected: bool,
    /// Whether this one, a standby, acts.
    pub(crate) acting: bool,
    /// Seconds by which the other one's clock is ahead.
    pub(crate) clock_ahead_seconds: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    Primary,
    Standby,
}

/// The status, and the same in numbers.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    status: watch::Sender<Status>,
    connected: Number,
    acting: Number,
    clock: Number,
    takeovers: Number,
}

impl Shown {
    pub(crate) fn new(role: Role) -> Self {
        let (counter, gauge) = (Number::counter, Number::gauge);
        Self {
            status: watch::Sender::new(Status {
                role,
                connected: false,
                acting: false,
                clock_ahead_seconds: 0,
            }),
            connected: gauge(
                "tandem_broker_pair_connected",
                "Whether the other broker of the site is there",
            ),
            acting: gauge(
                "tandem_broker_standby_acting",
                "Whether this standby acts in place of its primary",
            ),
            clock: gauge(
                "tandem_broker_pair_clock_seconds",
                "Seconds between the clocks of both brokers",
            ),
            takeovers: counter(
                "tandem_broker_takeovers",
                "Times that this standby began to act",
            ),
        }
    }

    pub(crate) fn numbers(&self) -> Vec<Number> {
        vec![
            self.connected.clone(),
            self.acting.clone(),
            self.clock.clone(),
            self.takeovers.clone(),
        ]
    }

    pub(crate) fn status(&self) -> Status {
        *self.status.borrow()
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        self.connected.set(connected.into());
        self.status
            .send_modify(|status| status.connected = connected);
    }

    pub(crate) fn set_acting(&self, acting: bool) {
        self.acting.set(acting.into());
        self.status.send_modify(|status| {
            if acting && !status.acting {
                self.takeovers.add(1);
            }
            status.acting = acting;
        });
    }

    /// Notes the other one's clock, and warns once where it is far from the own one.
    pub(crate) fn set_ahead(&self, ahead: i64) {
        let before = self.status().clock_ahead_seconds;
        self.clock.set(ahead.unsigned_abs());
        self.status
            .send_modify(|status| status.clock_ahead_seconds = ahead);
        if ahead.unsigned_abs() > MAX_AHEAD && before.unsigned_abs() <= MAX_AHEAD {
            tracing::error!(
                seconds = ahead,
                "the other broker's clock is ahead of this one's by so much: have both machines set their clocks (chrony, systemd-timesyncd)"
            );
        }
    }
}
