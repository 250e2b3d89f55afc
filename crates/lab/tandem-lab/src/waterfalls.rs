//! Trials as waterfalls: what the report draws packet by packet, and which trial of each arm it
//! draws.

use tandem_netsim::link::{Direction, LinkConfig};

use crate::lane::Trial;
use tandem_report::arm::Arm;
use tandem_report::{Waterfall, WaterfallArm, WaterfallDirection, WaterfallPacket};
use tandem_testbed::emulator::Crossing;
use tandem_testbed::links;
use tandem_trace::Moment;

/// A waterfall ends this much after the first byte of application data, as a share of the time
/// until then. What comes after is the connection's close.
const AFTERWARDS: f64 = 0.05;

/// The trials of one link and one pair of endpoints, as far as a waterfall needs them.
#[derive(Debug)]
pub(crate) struct Gallery<'a> {
    link: &'a LinkConfig,
    trials: Vec<WaterfallArm>,
}

impl<'a> Gallery<'a> {
    /// An empty one for trials on this link.
    pub(crate) fn new(link: &'a LinkConfig) -> Self {
        Self {
            link,
            trials: Vec::new(),
        }
    }

    /// Takes a trial in. One that failed is not worth a picture.
    pub(crate) fn add(&mut self, trial: &Trial) {
        if trial.row.ok && trial.row.seconds_first_byte.is_some() {
            self.trials.push(picture(trial, self.link));
        }
    }

    /// One trial of each arm: that in the middle by its time.
    pub(crate) fn waterfall(
        self,
        experiment: &str,
        link: &str,
        endpoints: &str,
        arms: &[Arm],
    ) -> Waterfall {
        let arms = arms
            .iter()
            .filter_map(|arm| {
                let mut trials: Vec<&WaterfallArm> = self
                    .trials
                    .iter()
                    .filter(|trial| trial.arm == *arm)
                    .collect();
                let seconds = |trial: &WaterfallArm| trial.first_byte_seconds.unwrap_or(0.0);
                trials.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
                trials.get(trials.len() / 2).map(|trial| (*trial).clone())
            })
            .collect();
        Waterfall {
            experiment: experiment.to_owned(),
            link: link.to_owned(),
            endpoints: endpoints.to_owned(),
            arms,
        }
    }
}

fn picture(trial: &Trial, link: &LinkConfig) -> WaterfallArm {
    // The client's SYN comes to the link some microseconds after the client has sent it. With a
    // tunnel it does not come to the link.
    let syn = trial.exchange.as_ref().map(|exchange| exchange.syn);
    let zero = syn
        .filter(|_| trial.row.arm.is_tunnel())
        .or_else(|| trial.crossings.first().map(|crossing| crossing.offered))
        .unwrap_or_default();
    let end = trial
        .row
        .seconds_first_byte
        .map_or(f64::INFINITY, |seconds| seconds * (1.0 + AFTERWARDS));
    WaterfallArm {
        arm: trial.row.arm,
        first_byte_seconds: trial.row.seconds_first_byte,
        packets: trial
            .crossings
            .iter()
            .map(|crossing| packet(crossing, zero, link))
            .take_while(|packet| packet.at_seconds <= end)
            .collect(),
    }
}

fn packet(crossing: &Crossing, zero: Moment, link: &LinkConfig) -> WaterfallPacket {
    let bytes = crossing.packet.len();
    WaterfallPacket {
        at_seconds: crossing.offered.seconds_since(zero),
        arrived_seconds: crossing.delivered.map(|at| at.seconds_since(zero)),
        air_seconds: Some(links::air_seconds(
            links::side(link, crossing.direction),
            bytes as f64,
        )),
        direction: match crossing.direction {
            Direction::Up => WaterfallDirection::Up,
            Direction::Down => WaterfallDirection::Down,
        },
        bytes: bytes as u64,
        label: crossing.words.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(arm: Arm, seconds: f64) -> WaterfallArm {
        WaterfallArm {
            arm,
            first_byte_seconds: Some(seconds),
            packets: Vec::new(),
        }
    }

    #[test]
    fn the_trial_in_the_middle_is_drawn_and_arms_without_trials_are_left_out() {
        let link = LinkConfig::default();
        let gallery = Gallery {
            link: &link,
            trials: vec![
                trial(Arm::Plain, 9.0),
                trial(Arm::Plain, 1.0),
                trial(Arm::Plain, 3.0),
            ],
        };
        let waterfall = gallery.waterfall("x", "iridium", "one", &[Arm::Plain, Arm::Packet]);
        let drawn: Vec<Option<f64>> = waterfall
            .arms
            .iter()
            .map(|arm| arm.first_byte_seconds)
            .collect();
        assert_eq!(drawn, [Some(3.0)]);
    }
}
