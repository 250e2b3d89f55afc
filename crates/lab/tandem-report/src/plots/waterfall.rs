//! A handshake packet by packet: time runs down, packets lean from the end that sends to the end
//! that receives.
//!
//! ```text
//!      client           server
//!  0 s  |\                |     A band: as high as the link takes to send the packet. A line where that is not known.
//!       |  \ \            |     What leans is the delay.
//!       |     \  \        |
//!  1 s  |         \   \   |
//! ```

use super::super::number;
use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, FAINT, GRID, INK, LABEL, SMALL, STRONG, Svg, clipped, width_of};
use super::super::waterfall::{Waterfall, WaterfallArm, WaterfallDirection, WaterfallPacket};
use super::{FULL, Figure};
use crate::arm::Arm;

/// What is compared, where at least two of them are there.
const COMPARED: [Arm; 3] = [Arm::Plain, Arm::Packet, Arm::Tunnel];
/// Of other arms so many are drawn.
const MAX_OTHERS: usize = 2;
/// Packets of an arm that are drawn.
const MAX_PACKETS: usize = 80;

const LEFT: f64 = 44.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 24.0;
const LINE: f64 = 13.0;
const HEIGHT: f64 = 640.0;
/// Share of an arm's width for the words on each side.
const WORDS: f64 = 0.34;

/// The figure; `None` where there is nothing to draw.
pub(crate) fn waterfall(waterfall: &Waterfall) -> Option<Figure> {
    let arms = chosen(waterfall);
    if arms.is_empty() {
        return None;
    }
    let end = arms.iter().map(|arm| end_of(arm)).fold(0.0, f64::max);
    let (top, bottom) = (TOP, TOP + HEIGHT);
    let scale = Scale::exact(end * 1.02, (top, bottom));
    let name = format!("waterfall-{}", waterfall.name());
    let mut svg = Svg::new(&name, FULL, bottom + BOTTOM);
    for tick in scale.ticks(10) {
        let y = scale.at(tick);
        svg.line((LEFT, y), (FULL, y), GRID, 1.0);
        svg.text((LEFT - 6.0, y + 4.0), Anchor::End, SMALL, &tick_label(tick));
    }
    svg.upright_text((9.0, (top + bottom) / 2.0), SMALL, "seconds");
    let width = (FULL - LEFT) / arms.len() as f64;
    for (index, arm) in arms.iter().enumerate() {
        let left = LEFT + index as f64 * width;
        Lane::new(arm, &scale, (left + 4.0, left + width - 4.0)).draw(&mut svg, (top, bottom));
    }
    Some(Figure {
        name,
        title: format!(
            "A handshake on {}, packet by packet: {}",
            waterfall.link, waterfall.endpoints
        ),
        caption: "One trial of each arm on the same scale of time. A band is as high as the link takes to send the packet and leans by \
                  the delay; pale ones only acknowledge; figures are IP bytes. A dashed stub with a cross was lost."
            .to_owned(),
        svg: svg.finish(&format!(
            "Packets on {} in the order of time, for each arm",
            waterfall.link
        )),
    })
}

/// What is compared: plain, and packet mode and the tunnel while warm; else what there is.
fn chosen(waterfall: &Waterfall) -> Vec<&WaterfallArm> {
    let drawable = || waterfall.arms.iter().filter(|arm| !arm.packets.is_empty());
    let compared: Vec<&WaterfallArm> = COMPARED
        .into_iter()
        .filter_map(|arm| drawable().find(|drawn| drawn.arm == arm))
        .collect();
    if compared.len() > 1 {
        compared
    } else {
        drawable().take(MAX_OTHERS).collect()
    }
}

fn end_of(arm: &WaterfallArm) -> f64 {
    // What comes after the first byte of data is the connection's close.
    arm.first_byte_seconds.unwrap_or_else(|| {
        arm.packets
            .iter()
            .take(MAX_PACKETS)
            .map(|packet| packet.arrived_seconds.unwrap_or(packet.at_seconds))
            .fold(0.0, f64::max)
    })
}

/// One arm's part of the figure.
struct Lane<'a> {
    arm: &'a WaterfallArm,
    scale: &'a Scale,
    left: f64,
    client: f64,
    server: f64,
    /// Pixels for words on either side.
    words: f64,
    /// From client and from server, seconds, where it can be told.
    delays: [Option<f64>; 2],
}

impl<'a> Lane<'a> {
    fn new(arm: &'a WaterfallArm, scale: &'a Scale, (left, right): (f64, f64)) -> Self {
        let words = (right - left) * WORDS;
        Self {
            arm,
            scale,
            left,
            client: left + words,
            server: right - words,
            words: words - 12.0,
            delays: [
                delay(arm, WaterfallDirection::Up),
                delay(arm, WaterfallDirection::Down),
            ],
        }
    }

    fn draw(&self, svg: &mut Svg, (top, bottom): (f64, f64)) {
        let look = self.arm.arm.look();
        svg.mark((self.left + 5.0, 10.0), look.shape, look.colour);
        svg.text((self.left + 16.0, 14.0), Anchor::Start, STRONG, look.label);
        for (x, end) in [(self.client, "client"), (self.server, "server")] {
            svg.text((x, top - 8.0), Anchor::Middle, LABEL, end);
            svg.line((x, top), (x, bottom), FAINT, 1.0);
        }
        let end = end_of(self.arm);
        let shown: Vec<&WaterfallPacket> = self
            .arm
            .packets
            .iter()
            .take(MAX_PACKETS)
            // What the client says in answer to that byte is stamped a little before it, by another
            // clock's reading.
            .filter(|packet| packet.at_seconds < end * 0.999)
            .collect();
        for packet in &shown {
            self.packet(svg, packet, look.colour);
        }
        // Words above all bands.
        let mut next_line = [top; 2];
        for packet in shown.iter().filter(|packet| !only_acknowledges(packet)) {
            let side = match packet.direction {
                WaterfallDirection::Up => &mut next_line[0],
                WaterfallDirection::Down => &mut next_line[1],
            };
            *side = self.words(svg, packet, *side);
        }
        if let Some(seconds) = self.arm.first_byte_seconds {
            let y = self.scale.at(seconds);
            svg.line((self.client - 6.0, y), (self.client + 6.0, y), INK, 3.0);
            svg.text(
                (self.client + 10.0, (y + 15.0).min(bottom + 16.0)),
                Anchor::Start,
                STRONG,
                &format!("first byte: {} s", number::seconds(seconds)),
            );
        }
    }

    /// When the link began to send a packet: as far as can be told, else when it came to the link.
    fn started(&self, packet: &WaterfallPacket) -> f64 {
        let delay = match packet.direction {
            WaterfallDirection::Up => self.delays[0],
            WaterfallDirection::Down => self.delays[1],
        };
        match (packet.arrived_seconds, packet.air_seconds, delay) {
            (Some(arrived), Some(air), Some(delay)) => {
                (arrived - delay - air).max(packet.at_seconds)
            }
            (_, _, _) => packet.at_seconds,
        }
    }

    fn packet(&self, svg: &mut Svg, packet: &WaterfallPacket, colour: &'static str) {
        let (from, to) = match packet.direction {
            WaterfallDirection::Up => (self.client, self.server),
            WaterfallDirection::Down => (self.server, self.client),
        };
        let strength = if only_acknowledges(packet) { 0.3 } else { 0.7 };
        let start = self.scale.at(self.started(packet));
        match (packet.arrived_seconds, packet.air_seconds) {
            (Some(arrived), Some(air)) => {
                let y = |seconds: f64| self.scale.at(seconds);
                let finished = y(self.started(packet) + air).max(start + 1.0);
                let last = y(arrived).max(y(arrived - air) + 1.0);
                svg.band(
                    [
                        (from, start),
                        (to, y(arrived - air)),
                        (to, last),
                        (from, finished),
                    ],
                    colour,
                    strength,
                );
            }
            (Some(arrived), None) => {
                let tip = (to, self.scale.at(arrived));
                svg.line((from, start), tip, colour, 1.5);
                svg.arrow_head((from, start), tip, colour);
            }
            (None, _) => {
                let x = from + (to - from) * 0.4;
                svg.dashed((from, start), (x, start + 8.0), colour, 1.5);
                svg.text((x, start + 12.0), Anchor::Middle, STRONG, "×");
            }
        }
    }

    /// Writes what a packet is beside its sender, no higher than `least`. Returns where the next
    /// words may stand.
    fn words(&self, svg: &mut Svg, packet: &WaterfallPacket, least: f64) -> f64 {
        let (x, anchor) = match packet.direction {
            WaterfallDirection::Up => (self.client - 7.0, Anchor::End),
            WaterfallDirection::Down => (self.server + 7.0, Anchor::Start),
        };
        let mut y = self.scale.at(self.started(packet)).max(least);
        for line in lines(packet, self.words) {
            svg.text((x, y + 8.0), anchor, SMALL, &line);
            y += LINE;
        }
        y + 2.0
    }
}

/// The delay of a direction: what the packet that waited least took, without being sent.
fn delay(arm: &WaterfallArm, direction: WaterfallDirection) -> Option<f64> {
    arm.packets
        .iter()
        .filter(|packet| packet.direction == direction)
        .filter_map(|packet| {
            Some(packet.arrived_seconds? - packet.at_seconds - packet.air_seconds?)
        })
        .min_by(f64::total_cmp)
        .map(|delay| delay.max(0.0))
}

fn only_acknowledges(packet: &WaterfallPacket) -> bool {
    packet.label.is_empty() || packet.label == "ACK"
}

/// Bytes, then what it carries, in lines that fit a width.
fn lines(packet: &WaterfallPacket, width: f64) -> Vec<String> {
    /// Beyond these a packet's words would push the next ones away.
    const MAX_LINES: usize = 3;
    let mut lines: Vec<String> = Vec::new();
    let mut line = format!("{}:", number::count(packet.bytes as f64));
    for word in packet.label.split_whitespace() {
        let longer = format!("{line} {word}");
        if width_of(&longer, SMALL) > width {
            lines.push(std::mem::replace(&mut line, word.to_owned()));
        } else {
            line = longer;
        }
    }
    lines.push(line);
    if lines.len() > MAX_LINES {
        lines.truncate(MAX_LINES);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    lines
        .iter()
        .map(|line| clipped(line, SMALL, width))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::synthetic;
    use super::*;

    #[test]
    fn words_wrap_at_spaces() {
        let mut packet = synthetic::waterfall().arms[0].packets[1].clone();
        packet.label = "ClientKeyExchange, ChangeCipherSpec, Finished (encrypted)".to_owned();
        assert_eq!(
            lines(&packet, 150.0),
            [
                "60: ClientKeyExchange,",
                "ChangeCipherSpec, Finished",
                "(encrypted)"
            ]
        );
        packet.label = "a, b, c".to_owned();
        assert_eq!(lines(&packet, 150.0), ["60: a, b, c"]);
    }

    #[test]
    fn the_delay_is_that_of_a_packet_that_did_not_wait() {
        let waterfall = synthetic::waterfall();
        let down = delay(&waterfall.arms[0], WaterfallDirection::Down);
        assert_eq!(down, Some(0.5));
    }

    #[test]
    fn plain_and_warm_arms_are_drawn_where_they_are_there() {
        let mut waterfall = synthetic::waterfall();
        let mut cold = waterfall.arms[1].clone();
        cold.arm = Arm::PacketCold;
        waterfall.arms.insert(1, cold);
        let arms: Vec<Arm> = chosen(&waterfall).iter().map(|arm| arm.arm).collect();
        assert_eq!(arms, [Arm::Plain, Arm::Packet]);
        let mut tunnel = waterfall.arms[2].clone();
        tunnel.arm = Arm::Tunnel;
        waterfall.arms.push(tunnel);
        let arms: Vec<Arm> = chosen(&waterfall).iter().map(|arm| arm.arm).collect();
        assert_eq!(arms, [Arm::Plain, Arm::Packet, Arm::Tunnel]);
        waterfall.arms.truncate(2);
        assert_eq!(chosen(&waterfall).len(), 2);
    }
}
