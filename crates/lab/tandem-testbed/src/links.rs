//! What an experiment file or the command line says of a link, and the emulator's configuration
//! that it means.
//!
//! The presets and their sources are `tandem_netsim::presets`; this only reads, overrides and
//! names.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tandem_netsim::link::{Direction, DirectionConfig, LinkConfig, Loss};
use tandem_netsim::presets::Preset;
use tandem_netsim::{BitRate, Probability};

use crate::error::LabError;

/// Below this rate in either direction a handshake leaves the processor idle nearly all the time,
/// so that labs on such links may run side by side without disturbing each other.
const SLOW_BITS_PER_SECOND: u64 = 1_500_000;

/// From this delay on, one way, the same holds of any rate.
const LONG_DELAY: Duration = Duration::from_millis(100);

/// A link in words: a preset, or figures, or a preset with some figures changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkSpec {
    /// A preset's name, or any name where `up`, `down` and `delay-ms` are all given.
    pub name: String,
    /// Client to server, bit/s.
    #[serde(default)]
    pub up: Option<u64>,
    /// Server to client, bit/s.
    #[serde(default)]
    pub down: Option<u64>,
    /// One-way propagation delay, milliseconds.
    #[serde(default)]
    pub delay_ms: Option<f64>,
    /// Independent loss in both directions, per cent of packets. Default 0.
    #[serde(default)]
    pub loss_percent: Option<f64>,
    /// Largest IP packet, bytes. Default 1,500. Also the MTU of the link's devices.
    #[serde(default)]
    pub mtu: Option<usize>,
    /// Bytes that may wait in front of each direction. Default: the emulator's.
    #[serde(default)]
    pub queue_bytes: Option<usize>,
}

impl LinkSpec {
    /// A named preset, unchanged.
    pub fn preset(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// The emulator's configuration.
    ///
    /// # Errors
    /// `Usage`: unknown preset with figures missing, a rate of zero, a negative delay, a loss
    /// beyond 100 %.
    pub fn config(&self) -> Result<LinkConfig, LabError> {
        let wrong = |why: String| LabError::usage(format!("link {}", self.name), why);
        let rate = |bits: u64| {
            BitRate::from_bits_per_second(bits)
                .ok_or_else(|| wrong("a rate of 0 carries nothing".to_owned()))
        };
        let preset = Preset::by_name(&self.name).ok();
        let (up, down) = match (self.up, self.down, preset) {
            (Some(up), Some(down), _) => (rate(up)?, rate(down)?),
            (up, down, Some(preset)) => (
                up.map_or(Ok(preset.up), rate)?,
                down.map_or(Ok(preset.down), rate)?,
            ),
            (_, _, None) => return Err(wrong(unknown())),
        };
        let delay = match (self.delay_ms, preset) {
            (Some(ms), _) => Duration::try_from_secs_f64(ms / 1e3)
                .map_err(|_| wrong(format!("a delay of {ms} ms is out of range")))?,
            (None, Some(preset)) => preset.one_way,
            (None, None) => return Err(wrong(unknown())),
        };
        let loss = match self.loss_percent {
            Some(percent) => Loss::Independent(
                Probability::new(percent / 100.0).map_err(|error| wrong(error.to_string()))?,
            ),
            None => Loss::None,
        };
        Ok(LinkConfig::new(Some(up), Some(down), delay).with_both(
            |direction: &mut DirectionConfig| {
                direction.loss = loss;
                direction.mtu = self.mtu.unwrap_or(direction.mtu);
                direction.queue_limit = self.queue_bytes.unwrap_or(direction.queue_limit);
            },
        ))
    }

    /// Where the figures come from, for tables.
    pub fn source(&self) -> &'static str {
        let own = self.up.is_some() || self.down.is_some() || self.delay_ms.is_some();
        match Preset::by_name(&self.name) {
            Ok(preset) if !own => preset.source,
            Ok(_) | Err(_) => "set in the experiment",
        }
    }
}

/// A link as an operator knows it who tells his proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkFigures {
    /// Bits per second from client to server; `None` where there is no bound.
    pub up: Option<u64>,
    /// From server to client.
    pub down: Option<u64>,
    /// There and back without a queue, whole milliseconds, at least 1.
    pub round_trip_ms: u128,
}

impl LinkFigures {
    /// Those of a link.
    pub fn of(config: &LinkConfig) -> Self {
        let round_trip = config.up.delay + config.down.delay;
        Self {
            up: config.up.rate.map(BitRate::bits_per_second),
            down: config.down.rate.map(BitRate::bits_per_second),
            round_trip_ms: round_trip.as_millis().max(1),
        }
    }
}

/// Whether labs on this link may run beside others.
pub fn is_slow(config: &LinkConfig) -> bool {
    let bits =
        |direction: &DirectionConfig| direction.rate.map_or(u64::MAX, BitRate::bits_per_second);
    let is_thin = bits(&config.up).min(bits(&config.down)) < SLOW_BITS_PER_SECOND;
    is_thin || config.up.delay.max(config.down.delay) >= LONG_DELAY
}

/// Seconds that `bytes` of IP packets take to be sent in a direction.
pub fn air_seconds(direction: &DirectionConfig, bytes: f64) -> f64 {
    match direction.rate {
        // A rate fits an f64 exactly up to 2^53 bit/s.
        Some(rate) => bytes * 8.0 / rate.bits_per_second() as f64,
        None => 0.0,
    }
}

/// One direction of a link.
pub fn side(config: &LinkConfig, direction: Direction) -> &DirectionConfig {
    match direction {
        Direction::Up => &config.up,
        Direction::Down => &config.down,
    }
}

/// One line: rates and delay.
pub fn describe(config: &LinkConfig) -> String {
    let rate = |direction: &DirectionConfig| {
        direction.rate.map_or_else(
            || "unlimited".to_owned(),
            |rate| human_rate(rate.bits_per_second()),
        )
    };
    format!(
        "{} up, {} down, {} ms one way",
        rate(&config.up),
        rate(&config.down),
        config.up.delay.as_secs_f64() * 1e3
    )
}

fn human_rate(bits: u64) -> String {
    let bits = bits as f64;
    if bits >= 1e6 {
        format!("{:.3} Mbit/s", bits / 1e6)
    } else {
        format!("{:.1} kbit/s", bits / 1e3)
    }
    .replace(".000 ", " ")
    .replace(".0 ", " ")
}

fn unknown() -> String {
    let names: Vec<&str> = tandem_netsim::presets::ALL
        .iter()
        .map(|preset| preset.name)
        .collect();
    format!(
        "is not a preset ({}); a link of one's own needs up, down and delay-ms",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_may_be_changed_and_a_link_may_be_ones_own() -> Result<(), LabError> {
        let iridium = LinkSpec::preset("iridium").config()?;
        assert_eq!(iridium.up.delay, Duration::from_millis(400));
        let faster = LinkSpec {
            up: Some(9600),
            ..LinkSpec::preset("iridium")
        };
        let bits = |direction: &DirectionConfig| direction.rate.map(BitRate::bits_per_second);
        assert_eq!(bits(&faster.config()?.up), Some(9600));
        assert_eq!(bits(&faster.config()?.down), Some(2400));
        let own = LinkSpec {
            name: "kite".to_owned(),
            up: Some(1),
            down: Some(2),
            delay_ms: Some(0.5),
            ..LinkSpec::default()
        };
        assert_eq!(own.config()?.down.delay, Duration::from_micros(500));
        Ok(())
    }

    #[test]
    fn an_operator_knows_both_rates_and_the_round_trip() -> Result<(), LabError> {
        let of = |name| {
            LinkSpec::preset(name)
                .config()
                .map(|link| LinkFigures::of(&link))
        };
        let milstar = of("milstar")?;
        assert_eq!((milstar.up, milstar.down), (Some(2_400), Some(256_000)));
        assert_eq!(milstar.round_trip_ms, 1_000);
        assert_eq!(of("tcdl-10")?.round_trip_ms, 1, "never 0");
        Ok(())
    }

    #[test]
    fn what_cannot_be_a_link_is_refused() {
        let unknown = LinkSpec::preset("carrier-pigeon");
        let zero = LinkSpec {
            up: Some(0),
            ..LinkSpec::preset("iridium")
        };
        let negative = LinkSpec {
            delay_ms: Some(-1.0),
            ..LinkSpec::preset("iridium")
        };
        let all = LinkSpec {
            loss_percent: Some(101.0),
            ..LinkSpec::preset("iridium")
        };
        for wrong in [unknown, zero, negative, all] {
            assert!(
                matches!(wrong.config(), Err(LabError::Usage { .. })),
                "{wrong:?}"
            );
        }
    }
}
