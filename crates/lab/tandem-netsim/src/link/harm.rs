//! What a link does to a packet between its ends: loss, damage, delay, copies.
//!
//! All randomness of a link is here. Each packet takes its draws in one fixed
//! order and number whatever is configured, so that switching one harm on does
//! not change which packets another hits.

use rand::RngCore;
use rand_pcg::Pcg64;

use super::config::{
    ChecksumAfter, Corruption, CorruptionScope, DirectionConfig, GilbertElliott, Loss,
};
use crate::layout::{Layout, be16, checksum_after, put_be16};
use crate::units::Probability;

/// What is to become of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) lost: bool,
    pub(super) held_back: bool,
    pub(super) twice: bool,
    /// Which bit of those in scope is flipped, as a draw over the whole `u64`.
    pub(super) flip: Option<u64>,
}

/// A direction's source of fates.
#[derive(Clone, Debug)]
pub(super) struct Fates {
    rng: Pcg64,
    channel_is_bad: bool,
}

impl Fates {
    /// `stream` separates the directions: traffic one way does not change the
    /// fates of the other's.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self {
            rng: Pcg64::new(u128::from(seed), u128::from(stream)),
            channel_is_bad: false,
        }
    }

    pub(super) fn draw(&mut self, config: &DirectionConfig) -> Fate {
        let lost = self.draw_loss(config.loss);
        let held_back = config.reordering.probability.hits(&mut self.rng);
        let twice = config.duplication.probability.hits(&mut self.rng);
        let damaged = config.corruption.probability.hits(&mut self.rng);
        let flip = self.rng.next_u64();
        Fate {
            lost,
            held_back,
            twice,
            flip: damaged.then_some(flip),
        }
    }

    fn draw_loss(&mut self, loss: Loss) -> bool {
        let (change, lose) = match loss {
            Loss::None => (Probability::NEVER, Probability::NEVER),
            Loss::Independent(probability) => (Probability::NEVER, probability),
            Loss::GilbertElliott(channel) => {
                return self.draw_burst_loss(channel);
            }
        };
        self.channel_is_bad ^= change.hits(&mut self.rng);
        lose.hits(&mut self.rng)
    }

    fn draw_burst_loss(&mut self, channel: GilbertElliott) -> bool {
        let change = if self.channel_is_bad {
            channel.bad_to_good
        } else {
            channel.good_to_bad
        };
        self.channel_is_bad ^= change.hits(&mut self.rng);
        let lose = if self.channel_is_bad {
            channel.loss_in_bad
        } else {
            channel.loss_in_good
        };
        lose.hits(&mut self.rng)
    }
}

/// Flips the drawn bit; `false` where the packet has none in scope.
pub(super) fn corrupt(packet: &mut [u8], corruption: &Corruption, draw: u64) -> bool {
    let Some(layout) = Layout::of(packet) else {
        return false;
    };
    let scope = match corruption.scope {
        CorruptionScope::BeyondIpHeader => layout.transport.clone(),
        CorruptionScope::TcpPayload => match layout.tcp(packet) {
            Some(tcp) => tcp.payload,
            None => return false,
        },
    };
    let checksum_at = match corruption.checksum {
        ChecksumAfter::LeftBad => None,
        ChecksumAfter::MadeGood => layout.checksum_at(),
    };
    // With the checksum to be made good its own two bytes are not in scope.
    let spared = checksum_at.filter(|at| scope.contains(at));
    let bytes = scope.len() - if spared.is_some() { 2 } else { 0 };
    if bytes == 0 {
        return false;
    }
    let bit = draw % (bytes as u64 * 8);
    let Ok(byte) = usize::try_from(bit / 8) else {
        return false;
    };
    let mut at = scope.start + byte;
    if let Some(spared) = spared
        && at >= spared
    {
        at += 2;
    }
    let Some(byte) = packet.get(at).copied() else {
        return false;
    };
    let flipped = byte ^ (1 << (bit % 8));
    let word_at = layout.transport.start + ((at - layout.transport.start) & !1);
    let old_word = word(packet, word_at, layout.transport.end);
    packet[at] = flipped;
    if let Some(checksum_at) = checksum_at
        && let Some(checksum) = be16(packet, checksum_at)
    {
        let new_word = word(packet, word_at, layout.transport.end);
        put_be16(
            packet,
            checksum_at,
            checksum_after(checksum, old_word, new_word),
        );
    }
    true
}

/// The 16-bit word at `at`, its second byte zero at the end (RFC 1071).
fn word(packet: &[u8], at: usize, end: usize) -> u16 {
    let high = packet.get(at).copied().unwrap_or(0);
    let low = if at + 1 < end {
        packet.get(at + 1).copied().unwrap_or(0)
    } else {
        0
    };
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn losses(loss: Loss, packets: usize, seed: u64) -> Vec<bool> {
        let mut config = DirectionConfig::new(None, Duration::ZERO);
        config.loss = loss;
        let mut fates = Fates::new(seed, 0);
        (0..packets).map(|_| fates.draw(&config).lost).collect()
    }

    #[test]
    fn independent_loss_is_as_frequent_as_asked() {
        for (percent, seed) in [(1u8, 1u64), (10, 2), (30, 3), (50, 4)] {
            let packets = 100_000;
            let lost = losses(
                Loss::Independent(Probability::percent(percent)),
                packets,
                seed,
            )
            .iter()
            .filter(|lost| **lost)
            .count();
            let p = f64::from(percent) / 100.0;
            let mean = packets as f64 * p;
            // Five standard deviations: a run in 1.7 million would be outside.
            let allowed = 5.0 * (packets as f64 * p * (1.0 - p)).sqrt();
            assert!(
                (lost as f64 - mean).abs() < allowed,
                "seed {seed}: {lost} lost, {mean} +- {allowed} expected"
            );
        }
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts_of_the_mean_length() -> Result<(), crate::NetsimError> {
        // Bad for 5 packets on average, good for 95: 5 % lost, in bursts of 5.
        let channel = GilbertElliott {
            good_to_bad: Probability::new(1.0 / 95.0)?,
            bad_to_good: Probability::new(0.2)?,
            loss_in_good: Probability::NEVER,
            loss_in_bad: Probability::ALWAYS,
        };
        let fates = losses(Loss::GilbertElliott(channel), 400_000, 5);
        let lost = fates.iter().filter(|lost| **lost).count();
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let share = lost as f64 / fates.len() as f64;
        let burst = lost as f64 / bursts as f64;
        assert!((0.045..0.055).contains(&share), "{share}");
        assert!((4.7..5.3).contains(&burst), "{burst}");
        Ok(())
    }

    #[test]
    fn one_harm_does_not_move_another() {
        let mut plain = DirectionConfig::new(None, Duration::ZERO);
        plain.loss = Loss::Independent(Probability::percent(20));
        let mut more = plain.clone();
        more.corruption.probability = Probability::percent(50);
        more.duplication.probability = Probability::percent(50);
        more.reordering.probability = Probability::percent(50);
        let (mut a, mut b) = (Fates::new(9, 1), Fates::new(9, 1));
        for _ in 0..1_000 {
            assert_eq!(a.draw(&plain).lost, b.draw(&more).lost);
        }
    }
}
