//! Congestion control for a line whose rate the operator has stated: as much in flight as the line
//! holds, whatever is lost.
//!
//! Is not: fair to other traffic on the same line. RFC 8085, section 3.1.3 permits a fixed rate
//! where the path is provisioned for it, and the operator says so by stating the rate.
//!
//! Invariant: the window depends on the stated rate and on the shortest round trip alone, not on
//! the current one: otherwise a queue would lengthen the round trip, and that the queue.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

/// Packets that may be in flight beyond what the line holds: one on the line, one whose
/// acknowledgement is on its way. More would stand before it: at 2,400 bit/s each is 4 s in which
/// no handshake and no acknowledgement gets through.
const SPARE_PACKETS: u64 = 2;

/// What is stated of the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedRate {
    /// Bits per second.
    pub(super) rate: u64,
    /// The round trip, as stated or assumed.
    pub(super) round_trip: Duration,
    /// How long the other side may withhold acknowledgements.
    pub(super) ack_delay: Duration,
}

impl ControllerFactory for FixedRate {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Window {
            line: *self,
            measured: None,
            mtu: current_mtu.into(),
        })
    }
}

/// The controller of one path.
#[derive(Clone, Debug)]
struct Window {
    line: FixedRate,
    /// The shortest round trip so far.
    measured: Option<Duration>,
    /// Bytes.
    mtu: u64,
}

impl Window {
    fn measured(&mut self, shortest: Duration) {
        self.measured = Some(shortest);
    }

    /// Bytes: rate x time until an acknowledgement is due, a quarter more so that pacing and timers
    /// leave no gaps, and the spare packets.
    fn bytes(&self) -> u64 {
        // The window is never narrower than the stated round trip wants it. A measured one counts
        // without the time in which a packet each way occupies the line: at 2,400 bit/s, 8 s.
        let packets = u128::from(2 * self.mtu) * 8_000_000 / u128::from(self.line.rate.max(1));
        let packets = Duration::from_micros(u64::try_from(packets).unwrap_or(u64::MAX));
        let measured = self.measured.unwrap_or_default().saturating_sub(packets);
        let round_trip = measured.max(self.line.round_trip);
        let time = round_trip + self.line.ack_delay;
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let held = u128::from(self.line.rate) * u128::from(micros) / 8_000_000;
        let held = u64::try_from(held * 5 / 4).unwrap_or(u64::MAX);
        // quinn sends while in flight + packet < window.
        held.saturating_add(SPARE_PACKETS * self.mtu + 1)
    }
}

impl Controller for Window {
    fn on_ack(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _bytes: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.measured(rtt.min());
    }

    fn on_congestion_event(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _is_persistent_congestion: bool,
        _lost_bytes: u64,
    ) {
        // A loss says nothing of a line whose rate is known. While nothing at all arrives, quinn
        // sends probes only, at growing intervals.
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
    }

    fn window(&self) -> u64 {
        self.bytes()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.bytes()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rate: u64, round_trip: u64) -> Box<dyn Controller> {
        let line = FixedRate {
            rate,
            round_trip: Duration::from_millis(round_trip),
            ack_delay: Duration::ZERO,
        };
        Arc::new(line).build(Instant::now(), 1_200)
    }

    #[test]
    fn the_window_is_what_the_line_holds_and_a_quarter_and_two_packets() {
        assert_eq!(of(8_000_000, 600).window(), 750_000 + 2_401);
        assert_eq!(of(2_400, 1_500).window(), 562 + 2_401);
        assert_eq!(of(u64::MAX, 600_000).window(), u64::MAX);
    }

    #[test]
    fn a_loss_does_not_narrow_the_window() {
        let mut controller = of(1_000_000, 600);
        let before = controller.window();
        let now = Instant::now();
        controller.on_congestion_event(now, now, true, 100_000);
        assert_eq!(controller.window(), before);
    }

    #[test]
    fn a_longer_round_trip_than_the_stated_one_widens_it_and_a_shorter_one_does_not_narrow_it() {
        let line = FixedRate {
            rate: 8_000_000,
            round_trip: Duration::from_millis(100),
            ack_delay: Duration::from_millis(100),
        };
        let mut window = Window {
            line,
            measured: None,
            mtu: 1_200,
        };
        let stated = window.bytes();
        assert_eq!(stated, 250_000 + 2_401);
        window.measured(Duration::from_millis(10));
        assert_eq!(window.bytes(), stated);
        // 2.4 ms of it are two packets.
        window.measured(Duration::from_micros(502_400));
        assert_eq!(window.bytes(), 750_000 + 2_401);
    }

    #[test]
    fn two_packets_may_be_in_flight_on_the_thinnest_line() {
        // quinn's condition: a packet goes while in flight + packet < window.
        let window = of(1, 1).window();
        assert!(1_200 + 1_200 < window && 2_400 + 1_200 >= window);
        let window = of(2_400, 800).window();
        assert!(1_200 + 1_200 < window && 2_400 + 1_200 >= window);
    }
}
