//! Named links with published figures, and where the figures are from.
//!
//! McVeety's five (thesis of 2009, table 4.1) are kept as they stand there. The
//! table's latency is used as one-way: the thesis does not say whether it means
//! one way or the round trip, but its own results (9.5 s for a handshake of
//! about 3 kB on Iridium) fit one-way.
//!
//! The modern ones are middles of what is published for a service, not of one
//! terminal on one day; a round trip is split evenly. What nobody published, or
//! only for something near it, is an [`Evidence::Estimate`]. Half-duplex links
//! (NB-IoT, HF) are given as two independent directions, which flatters them.

use std::time::Duration;

use super::config::LinkConfig;
use crate::error::NetsimError;
use crate::units::BitRate;

/// How well a figure is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The source gives the figure.
    Published,
    /// Derived from the source by assumption; [`Preset::source`] says how.
    Estimate,
}

/// A named link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What experiments call it.
    pub name: &'static str,
    /// Client to server.
    pub up: BitRate,
    /// Server to client.
    pub down: BitRate,
    /// Propagation delay each way.
    pub one_way: Duration,
    /// How well the rates are founded.
    pub rate_evidence: Evidence,
    /// How well the delay is founded.
    pub delay_evidence: Evidence,
    /// Where the figures are from.
    pub source: &'static str,
}

impl Preset {
    /// The link, with the default queue (see [`super::default_queue`]) and no
    /// harm beyond rate and delay.
    pub fn config(&self) -> LinkConfig {
        LinkConfig::new(Some(self.up), Some(self.down), self.one_way)
    }

    /// Finds a preset by its name.
    ///
    /// # Errors
    /// `UnknownPreset`.
    pub fn by_name(name: &str) -> Result<Self, NetsimError> {
        ALL.iter()
            .find(|preset| preset.name == name)
            .copied()
            .ok_or_else(|| NetsimError::UnknownPreset(name.to_owned()))
    }
}

const THESIS: &str = "McVeety 2009, table 4.1; its latency read as one-way";

/// Iridium's circuit-switched data of 2009.
pub const IRIDIUM: Preset = Preset {
    name: "iridium",
    up: bps(2_400),
    down: bps(2_400),
    one_way: ms(400),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Published,
    source: THESIS,
};

/// An Inmarsat channel of 64 kbit/s.
pub const INMARSAT_64: Preset = Preset {
    name: "inmarsat-64",
    up: bps(64_000),
    down: bps(64_000),
    one_way: ms(442),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Published,
    source: THESIS,
};

/// Milstar: a thin way up, a wider one down.
pub const MILSTAR: Preset = Preset {
    name: "milstar",
    up: bps(2_400),
    down: bps(256_000),
    one_way: ms(500),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Published,
    source: THESIS,
};

/// A tactical common data link of 10 Mbit/s: the fast end of the scale.
pub const TCDL_10: Preset = Preset {
    name: "tcdl-10",
    up: bps(10_000_000),
    down: bps(10_000_000),
    one_way: ms(0),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Published,
    source: THESIS,
};

/// A cellular modem of 2009.
pub const CELL_MODEM: Preset = Preset {
    name: "cell-modem",
    up: bps(97_877),
    down: bps(981_525),
    one_way: ms(90),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Published,
    source: THESIS,
};

/// Iridium Certus, the mid-band class: 22 kbit/s up, 88 kbit/s down.
pub const CERTUS_100: Preset = Preset {
    name: "certus-100",
    up: bps(22_000),
    down: bps(88_000),
    one_way: ms(300),
    rate_evidence: Evidence::Estimate,
    delay_evidence: Evidence::Estimate,
    source: "88 kbit/s for hand-held Certus: decodesystems.com/iridium.html; 22 kbit/s up is the \
             class as it is sold, without a paper to cite; delay estimated between the thesis's \
             Iridium and what satellite links between a 780 km orbit's satellites leave",
};

/// Iridium Certus, the fastest L-band class: 352 kbit/s up, 704 kbit/s down.
pub const CERTUS_700: Preset = Preset {
    name: "certus-700",
    up: bps(352_000),
    down: bps(704_000),
    one_way: ms(300),
    rate_evidence: Evidence::Estimate,
    delay_evidence: Evidence::Estimate,
    source: "352 kbit/s service measured (and reached in 45 % of trials): Berg and Mjelde, FFI \
             report 20/01338, 2020; 704 kbit/s down is the class as it is sold, without a paper \
             to cite; delay as certus-100",
};

/// Consumer broadband over a geostationary high-throughput satellite.
pub const GEO_HTS: Preset = Preset {
    name: "geo-hts",
    up: bps(3_380_000),
    down: bps(18_130_000),
    one_way: ms(315),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Published,
    source: "medians of Viasat in the United States, Q2 2021: 18.13 and 3.38 Mbit/s, 630 ms round \
             trip (Ookla, 'How Starlink's Satellite Internet Stacks Up', 2021)",
};

/// Consumer broadband over satellites in a low orbit.
pub const LEO: Preset = Preset {
    name: "leo",
    up: bps(14_840_000),
    down: bps(104_710_000),
    one_way: Duration::from_micros(22_500),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Published,
    source: "medians of Starlink in the United States, Q1 2025: 104.71 and 14.84 Mbit/s (Ookla in \
             RCR Wireless, 2025), 45 ms round trip (Ookla in New Space Economy, July 2025)",
};

/// NB-IoT, category NB1.
pub const NB_IOT: Preset = Preset {
    name: "nb-iot",
    up: bps(62_000),
    down: bps(26_000),
    one_way: ms(418),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Estimate,
    source: "peak rates of category NB1: 62 and 26 kbit/s (blog.mbedded.ninja, 'Cellular \
             Communication Protocols'); half of the 837 ms measured by Ugwuanyi et al., \
             Electronics 10(18), 2021, taken as a round trip",
};

/// LTE-M, category M1, half duplex.
pub const LTE_M: Preset = Preset {
    name: "lte-m",
    up: bps(375_000),
    down: bps(300_000),
    one_way: ms(50),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Estimate,
    source: "category M1 in half duplex with scheduling delays: 375 and 300 kbit/s \
             (rfwireless-world.com, 'LTE-M Device Categories'); delay estimated: the 10 to 15 ms \
             published are of the radio alone",
};

/// HF radio at the highest rate of a 3 kHz channel's common waveforms.
pub const HF_9600: Preset = Preset {
    name: "hf-9600",
    up: bps(9_600),
    down: bps(9_600),
    one_way: ms(2_000),
    rate_evidence: Evidence::Published,
    delay_evidence: Evidence::Estimate,
    source: "9,600 bit/s as the top of what Isode measured ('STANAG 5066 Performance \
             Measurements over HF Radio'); delay estimated as the low end of 'seconds or tens of \
             seconds' of turnaround (Isode, 'Reducing Turnaround Times in STANAG 5066')",
};

/// All of them, the thesis's first.
pub const ALL: [Preset; 12] = [
    IRIDIUM,
    INMARSAT_64,
    MILSTAR,
    TCDL_10,
    CELL_MODEM,
    CERTUS_100,
    CERTUS_700,
    GEO_HTS,
    LEO,
    NB_IOT,
    LTE_M,
    HF_9600,
];

const fn bps(bits_per_second: u64) -> BitRate {
    match BitRate::from_bits_per_second(bits_per_second) {
        Some(rate) => rate,
        // Evaluated at compile time only.
        None => panic!("a preset has a rate of zero"),
    }
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_own_preset() {
        for preset in ALL {
            assert_eq!(Preset::by_name(preset.name), Ok(preset));
        }
        assert_eq!(
            Preset::by_name("carrier-pigeon"),
            Err(NetsimError::UnknownPreset("carrier-pigeon".to_owned()))
        );
    }
}
