//! What connections and requests brought, added up: by one thread, then over all of them.

use std::time::Duration;

use crate::counts::Counts;
use crate::event::{Exchange, Handshake};
use crate::fault::Fault;
use crate::phase::{Kind, Phase, Step};
use crate::times::Times;

/// What is added up for one phase.
#[derive(Debug, Clone, Default)]
pub struct PhaseTally {
    /// Times.
    pub times: Times,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Round trips.
    pub round_trips: u64,
}

impl PhaseTally {
    fn record(&mut self, step: &Step) {
        self.times.record(step.time);
        self.sent += step.sent;
        self.received += step.received;
        self.round_trips += u64::from(step.round_trips);
    }

    fn add(&mut self, other: &Self) {
        self.times.add(&other.times);
        self.sent += other.sent;
        self.received += other.received;
        self.round_trips += other.round_trips;
    }
}

/// What is added up for one kind.
#[derive(Debug, Clone, Default)]
pub struct KindTally {
    /// From the real start to the end of the answer.
    pub whole: Times,
    /// Bytes of answers before encryption.
    pub plain: u64,
    /// In the order of [`Phase::ALL`].
    pub phases: [PhaseTally; 5],
}

/// All that is added up.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// How many of what.
    pub counts: Counts,
    /// From the intended start to the end of the answer, or to the time-out.
    pub latency: Times,
    /// How much later than intended connections started.
    pub late: Times,
    /// In the order of [`Kind::ALL`].
    pub kinds: [KindTally; 4],
}

impl Tally {
    /// Notes how much later than intended a connection started.
    pub fn started(&mut self, late: Duration) {
        self.late.record(late);
    }

    /// Notes a handshake.
    pub fn handshake(&mut self, handshake: &Handshake) {
        self.counts.handshake(handshake);
        let phases = [Phase::Tcp, Phase::ServerFlight, Phase::KeyExchange];
        let kind = handshake.offer.kind();
        let occurred = match kind {
            Kind::Full | Kind::Resumed | Kind::Kept => phases.len(),
            Kind::Clear => 1,
        };
        self.steps(kind, &phases[..occurred], &handshake.steps);
    }

    /// Notes an answered request.
    pub fn exchange(&mut self, exchange: &Exchange) {
        self.counts.exchange(exchange);
        self.latency.record(exchange.latency);
        let kind = &mut self.kinds[exchange.kind.index()];
        kind.whole.record(exchange.whole);
        kind.plain += exchange.plain;
        let phases = [Phase::FirstByte, Phase::Transfer];
        self.steps(exchange.kind, &phases, &exchange.steps);
    }

    /// Notes a failure, `waited` after the intended start. After a time-out that is the least that
    /// the latency would have been, and counts as it.
    pub fn fault(&mut self, fault: Fault, detail: &str, waited: Duration) {
        self.counts.fault(fault, detail);
        if fault.is_time_out() {
            self.latency.record(waited);
        }
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.latency.add(&other.latency);
        self.late.add(&other.late);
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.whole.add(&other.whole);
            kind.plain += other.plain;
            for (phase, other) in kind.phases.iter_mut().zip(&other.phases) {
                phase.add(other);
            }
        }
    }

    fn steps(&mut self, kind: Kind, phases: &[Phase], steps: &[Step]) {
        let kind = &mut self.kinds[kind.index()];
        for (phase, step) in phases.iter().zip(steps) {
            kind.phases[phase.index()].record(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EarlyData, Means, OfferOutcome};

    fn handshake(offer: OfferOutcome) -> Handshake {
        let step = Step {
            time: Duration::from_millis(2),
            sent: 100,
            received: 1_000,
            round_trips: 1,
        };
        Handshake {
            offer,
            early_data: EarlyData::NotSent,
            steps: [Step::default(), step, Step::default()],
        }
    }

    #[test]
    fn a_refused_resumption_is_a_full_handshake() {
        let mut tally = Tally::default();
        tally.handshake(&handshake(OfferOutcome::Refused));
        tally.handshake(&handshake(OfferOutcome::Taken(Means::Psk)));
        tally.handshake(&handshake(OfferOutcome::NothingThere));
        tally.handshake(&handshake(OfferOutcome::NotWanted));
        let counts = &tally.counts;
        assert_eq!((counts.connections, counts.full, counts.resumed), (4, 3, 1));
        assert_eq!((counts.refused, counts.nothing_to_offer), (1, 1));
        assert_eq!(counts.resumed_by[&Means::Psk], 1);
        assert_eq!((counts.bytes.sent, counts.bytes.received), (400, 4_000));
        let flights = |kind: Kind| {
            tally.kinds[kind.index()].phases[Phase::ServerFlight.index()]
                .times
                .count()
        };
        assert_eq!((flights(Kind::Full), flights(Kind::Resumed)), (3, 1));
    }

    #[test]
    fn a_time_out_is_a_latency_and_a_refusal_is_none() {
        let mut tally = Tally::default();
        tally.fault(Fault::AnswerTimedOut, "", Duration::from_secs(10));
        tally.fault(Fault::Refused, "", Duration::from_millis(1));
        assert_eq!(tally.latency.count(), 1);
        assert_eq!(tally.latency.count_from(Duration::from_secs(9)), 1);
        assert_eq!(tally.counts.failures(), 2);
    }

    #[test]
    fn two_threads_add_up() {
        let mut one = Tally::default();
        one.handshake(&handshake(OfferOutcome::NotWanted));
        one.fault(Fault::Reset, "by peer", Duration::ZERO);
        let mut whole = Tally::default();
        whole.add(&one);
        whole.add(&one);
        assert_eq!(whole.counts.connections, 2);
        assert_eq!(whole.counts.errors[&Fault::Reset], 2);
        assert_eq!(whole.counts.error_examples[&Fault::Reset], "by peer");
        assert_eq!(whole.kinds[0].phases[1].received, 2_000);
    }
}
