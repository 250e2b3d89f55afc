//! A handshake packet by packet: time runs down, packets lean from the end that sends to the end that receives.
//!
//! ```text
//!        client          server         client     server
//!   0 s  SYN \______             |        ...
//!            |      \_____       |
//!   1 s      |            \_____ |
//! ```

use super::super::number;
use super::super::palette::look;
use super::super::scale::{Scale, tick_label};
use super::super::svg::{Anchor, FAINT, GRID, INK, LABEL, SMALL, STRONG, Svg, clipped};
use super::super::waterfall::{Waterfall, WaterfallArm, WaterfallPacket, Way};
use super::{FULL, Figure};

/// Arms that fit side by side.
const MOST_ARMS: usize = 4;
/// Packets of an arm that are drawn.
const MOST_PACKETS: usize = 60;

const LEFT: f64 = 44.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 24.0;
const LINE: f64 = 13.0;
const SHORTEST: f64 = 320.0;

/// The figure; `None` where there is nothing to draw.
pub(crate) fn waterfall(waterfall: &Waterfall) -> Option<Figure> {
    let arms: Vec<&WaterfallArm> = waterfall
        .arms
        .iter()
        .filter(|arm| !arm.packets.is_empty())
        .take(MOST_ARMS)
        .collect();
    let end = arms.iter().map(|arm| end_of(arm)).fold(0.0, f64::max);
    let most = arms
        .iter()
        .map(|arm| arm.packets.len().min(MOST_PACKETS))
        .max()?;
    // Each packet's words need a line at its sender's end.
    let height = (most as f64 * LINE * 1.5).max(SHORTEST);
    let (top, bottom) = (TOP, TOP + height);
    let scale = Scale::linear(end, 8, (top, bottom));
    let name = format!("waterfall-{}", waterfall.name());
    let mut svg = Svg::new(&name, FULL, bottom + BOTTOM);
    for tick in scale.ticks(8) {
        let y = scale.at(tick);
        svg.line((LEFT, y), (FULL, y), GRID, 1.0);
        svg.text((LEFT - 6.0, y + 4.0), Anchor::End, SMALL, &tick_label(tick));
    }
    svg.upright_text((9.0, (top + bottom) / 2.0), SMALL, "seconds");
    let width = (FULL - LEFT) / arms.len() as f64;
    for (index, arm) in arms.iter().enumerate() {
        let left = LEFT + index as f64 * width;
        draw_arm(
            &mut svg,
            arm,
            &scale,
            (left + 8.0, left + width),
            (top, bottom),
        );
    }
    Some(Figure {
        name,
        title: format!(
            "A handshake on {}, packet by packet: {}",
            waterfall.link, waterfall.endpoints
        ),
        caption: "One trial of each arm, on the same scale of time. A line begins when the packet comes to the link, where it may wait \
                  for those before it, and ends when it has arrived; figures are IP bytes. A line that breaks off: lost."
            .to_owned(),
        svg: svg.finish(&format!(
            "Packets on {} in the order of time, for each arm",
            waterfall.link
        )),
    })
}

fn end_of(arm: &WaterfallArm) -> f64 {
    arm.packets
        .iter()
        .take(MOST_PACKETS)
        .map(|packet| packet.arrived_seconds.unwrap_or(packet.at_seconds))
        .chain(arm.first_byte_seconds)
        .fold(0.0, f64::max)
}

fn draw_arm(
    svg: &mut Svg,
    arm: &WaterfallArm,
    scale: &Scale,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
) {
    let look = look(arm.arm);
    let words = (right - left) * 0.32;
    let (client, server) = (left + words, right - words);
    svg.mark((left + 5.0, 10.0), look.shape, look.colour);
    svg.text((left + 16.0, 14.0), Anchor::Start, STRONG, look.label);
    for (x, end) in [(client, "client"), (server, "server")] {
        svg.text((x, top - 10.0), Anchor::Middle, LABEL, end);
        svg.line((x, top), (x, bottom), FAINT, 1.0);
    }
    let mut next_line = [top; 2];
    for packet in arm.packets.iter().take(MOST_PACKETS) {
        let (from, to, anchor, side) = match packet.direction {
            Way::Up => (client, server, Anchor::End, 0),
            Way::Down => (server, client, Anchor::Start, 1),
        };
        let sent = (from, scale.at(packet.at_seconds));
        draw_packet(svg, packet, scale, sent, to, look.colour);
        let y = sent.1.max(next_line[side]);
        next_line[side] = y + LINE;
        let away = match packet.direction {
            Way::Up => -6.0,
            Way::Down => 6.0,
        };
        let label = format!("{} {}", packet.label, number::count(packet.bytes as f64));
        svg.text(
            (from + away, y + 4.0),
            anchor,
            SMALL,
            &clipped(&label, SMALL, words - 8.0),
        );
    }
    if let Some(seconds) = arm.first_byte_seconds {
        let y = scale.at(seconds);
        svg.line((client - 5.0, y), (client + 5.0, y), INK, 3.0);
        svg.text(
            (client + 9.0, y + 12.0),
            Anchor::Start,
            STRONG,
            &format!("first byte: {} s", number::seconds(seconds)),
        );
    }
    if arm.packets.len() > MOST_PACKETS {
        svg.text(
            ((client + server) / 2.0, bottom + 16.0),
            Anchor::Middle,
            SMALL,
            &format!("the first {MOST_PACKETS} of {}", arm.packets.len()),
        );
    }
}

fn draw_packet(
    svg: &mut Svg,
    packet: &WaterfallPacket,
    scale: &Scale,
    sent: (f64, f64),
    to: f64,
    colour: &'static str,
) {
    match packet.arrived_seconds {
        Some(arrived) => {
            let tip = (to, scale.at(arrived));
            svg.line(sent, tip, colour, 1.5);
            svg.arrow_head(sent, tip, colour);
        }
        None => {
            let x = sent.0 + (to - sent.0) * 0.4;
            svg.dashed(sent, (x, sent.1 + 8.0), colour, 1.5);
            svg.text((x, sent.1 + 12.0), Anchor::Middle, STRONG, "×");
        }
    }
}
