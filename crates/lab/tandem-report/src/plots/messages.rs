//! A chain as a capture shows it, compressed and normal side by side: figures 4-7 and 4-8.

use super::super::exhibit::{COMPRESSED_CERTIFICATE, Exhibit, Field};
use super::super::number::{self, SPACE};
use super::super::svg::{Anchor, FAINT, INK, LABEL, SMALL, STRONG, Svg};
use super::{FULL, Figure};
use crate::arm::Arm;

const LINE: f64 = 19.0;
const TOP: f64 = 30.0;
/// Where a column's bytes begin, from its left edge.
const BYTES: f64 = 150.0;
/// Bytes of a field that are written out.
const MAX_BYTES: usize = 16;
/// Between the columns.
const GAP: f64 = 20.0;
/// Of the bars that show the messages' sizes.
const BAR: f64 = 14.0;

/// The figure; `None` where one of the messages is not what it should be.
pub(crate) fn messages(exhibit: &Exhibit) -> Option<Figure> {
    let [compressed, normal] = exhibit.fields()?;
    let lines = compressed.len().max(normal.len()) as f64;
    let bottom = TOP + lines * LINE + 16.0;
    let mut svg = Svg::new("figure-4-7", FULL, bottom + 2.0 * (BAR + 6.0) + 4.0);
    let half = (FULL - GAP) / 2.0;
    column(
        &mut svg,
        0.0,
        "4-7: a compressed certificate chain",
        &compressed,
    );
    column(
        &mut svg,
        half + GAP,
        "4-8: a normal certificate chain",
        &normal,
    );
    let sizes = [size(&compressed), size(&normal)];
    let scale = (FULL - 120.0) / sizes[1].max(sizes[0]).max(1.0);
    let colours = [Arm::PacketMcveety, Arm::Plain].map(|arm| arm.look().colour);
    for (place, (bytes, colour)) in sizes.into_iter().zip(colours).enumerate() {
        let y = bottom + place as f64 * (BAR + 6.0);
        let width = bytes * scale;
        svg.rectangle((0.0, y), (width, BAR), colour);
        let words = format!("{}{SPACE}bytes", number::count(bytes));
        svg.text((width + 6.0, y + 11.0), Anchor::Start, LABEL, &words);
    }
    Some(Figure {
        name: "figure-4-7".to_owned(),
        title: "Figures 4-7 and 4-8: a chain as a capture shows it".to_owned(),
        caption: format!(
            "The server's certificates on the link, the handshake message alone, out of what the emulated link carried ({}, endpoints {}): \
             through the proxies in the thesis's format, and without them. As in the thesis, {COMPRESSED_CERTIFICATE:#04x} is followed by \
             the length and a reference of 16 bytes for each certificate. Of longer fields the beginning. Wireshark shows the same with \
             extras/wireshark/tandem.lua.",
            exhibit.link, exhibit.endpoints
        ),
        svg: svg.finish("The certificate message of the same chain, compressed and normal"),
    })
}

fn column(svg: &mut Svg, left: f64, title: &str, fields: &[Field]) {
    svg.text((left, 14.0), Anchor::Start, STRONG, title);
    svg.line((left, 21.0), (left + (FULL - GAP) / 2.0, 21.0), FAINT, 1.0);
    for (index, field) in fields.iter().enumerate() {
        let y = TOP + (index as f64 + 0.5) * LINE;
        svg.text((left, y), Anchor::Start, LABEL, &field.what);
        let mut words: Vec<String> = field
            .bytes
            .iter()
            .take(MAX_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if field.bytes.len() > MAX_BYTES {
            words.truncate(MAX_BYTES / 2);
            words.push(format!(
                "\u{2026} {} bytes",
                number::count(field.bytes.len() as f64)
            ));
        }
        svg.text((left + BYTES, y), Anchor::Start, SMALL, &words.join(" "));
    }
    let foot = TOP + fields.len() as f64 * LINE + 2.0;
    svg.line((left, foot), (left + (FULL - GAP) / 2.0, foot), INK, 0.5);
}

fn size(fields: &[Field]) -> f64 {
    fields.iter().map(|field| field.bytes.len()).sum::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::super::super::exhibit::tests::exhibit;
    use super::*;

    #[test]
    fn references_are_written_out_and_certificates_begun() {
        let svg = messages(&exhibit()).map(|figure| figure.svg);
        let svg = svg.unwrap_or_default();
        assert!(svg.contains(&"ab ".repeat(15)), "{svg}");
        assert!(svg.contains("\u{2026} 300 bytes"), "{svg}");
        assert!(
            svg.contains("36\u{a0}bytes") && svg.contains("333\u{a0}bytes"),
            "{svg}"
        );
    }
}
