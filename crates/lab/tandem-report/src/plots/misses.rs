//! What a miss adds to a handshake: the time that figure 4-9 shows, beside ours on each link.

use super::super::number;
use super::super::situations::{Staged, find};
use super::super::thesis::MISS_SECONDS;
use super::groups::{Bar, Base, Group, Groups};
use super::legend::{Entry, Swatch};
use super::{Figure, HALF};
use crate::arm::Arm;
use crate::situation::Situation;

/// Those that can miss, the thesis's way first.
const OURS: [Arm; 2] = [Arm::PacketMcveety, Arm::Packet];

/// Where case 3 and case 0 were both measured; `None` where nowhere.
pub(crate) fn misses(staged: &[Staged]) -> Option<Figure> {
    let his = Swatch::Hatched(Arm::PacketMcveety.look().colour);
    let mut groups = vec![Group {
        label: "thesis".to_owned(),
        bars: vec![bar(Some(MISS_SECONDS), his), bar(None, his)],
    }];
    let plain = staged.iter().filter(|staged| {
        // The thesis's server has one certificate.
        staged.situation == Situation::Case3
            && staged.arm == Arm::Plain
            && staged.endpoints == "one"
    });
    for like in plain {
        let bars: Vec<Bar> = OURS
            .into_iter()
            .map(|arm| {
                let seconds = |situation| find(staged, like, situation, arm)?.seconds();
                let added = seconds(Situation::Case3)
                    .zip(seconds(Situation::Case0))
                    .map(|(miss, hit)| miss - hit);
                bar(added, Swatch::Filled(arm.look().colour))
            })
            .collect();
        if bars.iter().any(|bar| bar.figure.is_some()) {
            groups.push(Group {
                label: like.link.clone(),
                bars,
            });
        }
    }
    if groups.len() < 2 {
        return None;
    }
    let title = "Figure 4-9: what a miss adds to a handshake";
    Some(Figure {
        name: "figure-4-9".to_owned(),
        title: title.to_owned(),
        caption: "Seconds until the end of the handshake, case 3 less case 0. In the thesis's way the reference is dropped and a timer of \
                  TCP's brings the chain; in ours the client side asks for it, which takes a round trip of the link and the time to send \
                  it. The thesis gives about 750 ms and does not say on which link."
            .to_owned(),
        svg: Groups {
            name: "figure-4-9",
            description: title.to_owned(),
            axis: "seconds added",
            width: HALF,
            legend: vec![
                (his, "thesis".to_owned()),
                entry(Arm::PacketMcveety, "waited for, thesis\u{2019}s format"),
                entry(Arm::Packet, "asked for, safe format"),
            ],
            groups,
            reference: None,
            base: Base::Fitting,
        }
        .draw(),
    })
}

fn entry(arm: Arm, words: &str) -> Entry {
    (Swatch::Filled(arm.look().colour), words.to_owned())
}

fn bar(figure: Option<f64>, swatch: Swatch) -> Bar {
    Bar {
        figure,
        label: figure.map_or_else(String::new, number::seconds),
        swatch,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::situations::{staged, tests::rows};
    use super::*;

    #[test]
    fn it_is_drawn_where_a_hit_and_a_miss_were_measured() {
        let mut all = rows(Situation::Case3, Arm::Plain, &[2.0]);
        all.extend(rows(Situation::Case3, Arm::Packet, &[4.0]));
        assert!(misses(&staged(&all)).is_none(), "a miss without a hit");
        all.extend(rows(Situation::Case0, Arm::Packet, &[2.0]));
        let figure = misses(&staged(&all)).map(|figure| figure.svg);
        let svg = figure.unwrap_or_default();
        // 0.95 of the times, as the rows have the handshake's.
        assert!(svg.contains(">1.90<") && svg.contains(">0.750<"), "{svg}");
    }
}
