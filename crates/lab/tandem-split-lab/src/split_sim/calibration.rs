//! What a simulation is calibrated by: figures out of the rows that `tandem lab split` measured.
//!
//! Invariant: no figure is made up. Where rows are missing, there is no calibration.

use std::path::Path;

use serde::Serialize;
use tandem_report::split_row::{Delivery, Part, SplitRow};
use tandem_split_sim::{Calibration, SizeCost, Unfit};
use tandem_testbed::LabError;

use super::plan::Costs;
use crate::splitting::plan;

/// A calibration, and what each of its figures is made of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Calibrated {
    /// The file with the rows.
    pub(crate) file: String,
    /// Sound rows of part `sizes` that count: medians of `link_bytes_down`.
    pub(crate) size_rows: usize,
    /// Sound rows of part `latency` that count: medians of `seconds` without the time in which
    /// `link_bytes_down` leave.
    pub(crate) latency_rows: usize,
    /// The link of the latter, and what it sends, bits per second.
    pub(crate) link: String,
    /// See there.
    pub(crate) link_bits: u64,
    /// The figures.
    pub(crate) figures: Calibration,
    /// What came out where many volunteers asked at once; no part of the figures.
    pub(crate) crowd: Crowd,
}

/// Many volunteers at once over the same link, as part `scaling` measured them: what to compare the
/// simulation with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Crowd {
    /// The most volunteers of a sound row.
    pub(crate) volunteers: u32,
    /// Median bytes that left the origin for a request, as a multiple of those of a request that
    /// was made alone.
    pub(crate) proofs: f64,
}

impl Calibrated {
    /// Out of rows that were read from `file`.
    ///
    /// # Errors
    /// `Usage`, which names the rows that are missing.
    pub(crate) fn of(rows: &[SplitRow], file: &Path) -> Result<Self, LabError> {
        let source = Source { rows, file };
        let link = plan::adsl();
        let link_bits = link
            .down
            .ok_or_else(|| source.lacks("the rate of the line of the part latency"))?;
        let mut sizes: Vec<u64> = source.of(Part::Sizes).map(SplitRow::body_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() < 2 {
            return Err(source.lacks("rows of the part sizes for two sizes or more"));
        }
        let mut size_rows = 0;
        let mut bytes = |body: u64, delivery: Delivery| {
            let like = |row: &&SplitRow| row.delivery == delivery && row.body_bytes() == body;
            let down = source.of(Part::Sizes).filter(like);
            let down: Vec<f64> = down.map(|row| row.link_bytes_down as f64).collect();
            size_rows += down.len();
            let median = median(down).ok_or_else(|| {
                let way = delivery.label();
                source.lacks(&format!("a row of the part sizes, {body} bytes, {way}"))
            })?;
            Ok::<_, LabError>(median.round() as u64)
        };
        let sizes = sizes
            .into_iter()
            .map(|body| {
                Ok(SizeCost {
                    body,
                    https: bytes(body, Delivery::Https)?,
                    warm: bytes(body, Delivery::Warm)?,
                    cold: bytes(body, Delivery::Cold)?,
                })
            })
            .collect::<Result<Vec<_>, LabError>>()?;
        let mut latency_rows = 0;
        let mut seconds = |delivery: Delivery| {
            let like = |row: &&SplitRow| row.delivery == delivery && row.link == link.name;
            let rests: Vec<f64> = source
                .of(Part::Latency)
                .filter(like)
                .map(|row| row.seconds - row.link_bytes_down as f64 * 8.0 / link_bits as f64)
                .collect();
            latency_rows += rests.len();
            median(rests).ok_or_else(|| {
                let (way, link) = (delivery.label(), &link.name);
                source.lacks(&format!("a row of the part latency, {way}, over {link}"))
            })
        };
        let figures = Calibration {
            sizes,
            https_seconds: seconds(Delivery::Https)?,
            warm_seconds: seconds(Delivery::Warm)?,
            cold_seconds: seconds(Delivery::Cold)?,
        };
        let crowd = source.crowd(&figures, &link.name)?;
        Ok(Self {
            file: file.display().to_string(),
            size_rows,
            latency_rows,
            link: link.name,
            link_bits,
            figures,
            crowd,
        })
    }

    /// The figures for runs that go by these costs.
    pub(crate) fn for_costs(&self, costs: Costs) -> Calibration {
        let mut figures = self.figures.clone();
        match costs {
            Costs::Alone => {}
            Costs::Crowded => {
                for size in &mut figures.sizes {
                    let more = (size.warm as f64 * (self.crowd.proofs - 1.0)).round() as u64;
                    size.warm += more;
                    size.cold += more;
                }
            }
        }
        figures
    }
}

struct Source<'a> {
    rows: &'a [SplitRow],
    file: &'a Path,
}

impl<'a> Source<'a> {
    /// Sound rows of a part.
    fn of(&self, part: Part) -> impl Iterator<Item = &'a SplitRow> + use<'a> {
        let rows = self.rows.iter();
        rows.filter(move |row| row.part == part && row.is_sound())
    }

    /// See [`Crowd`].
    fn crowd(&self, figures: &Calibration, link: &str) -> Result<Crowd, LabError> {
        let warm = |row: &&SplitRow| row.delivery == Delivery::Warm && row.link == link;
        let rows = || self.of(Part::Scaling).filter(warm);
        let most = rows().filter_map(|row| row.volunteers).max();
        let volunteers = most.ok_or_else(|| {
            self.lacks(&format!(
                "a row of the part scaling with volunteers, over {link}"
            ))
        })?;
        let mut multiples = Vec::new();
        for row in rows().filter(|row| row.volunteers == Some(volunteers)) {
            let costs = row.sizes.iter().map(|body| figures.cost(*body));
            let alone = costs.map(|cost| cost.map(|cost| cost.warm));
            let alone: u64 = alone
                .sum::<Result<u64, Unfit>>()
                .map_err(|_| self.lacks("rows of the part sizes as large as those of scaling"))?;
            multiples.push(row.link_bytes_down as f64 / alone as f64);
        }
        let proofs = median(multiples).ok_or_else(|| self.lacks("a row of the part scaling"))?;
        Ok(Crowd {
            volunteers,
            // Fewer bytes than alone would be chance.
            proofs: proofs.max(1.0),
        })
    }

    fn lacks(&self, what: &str) -> LabError {
        LabError::usage(
            self.file.display().to_string(),
            format!("the simulation needs {what}; `tandem lab split` measures it"),
        )
    }
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    let upper = *figures.get(middle)?;
    Some(if figures.len() % 2 == 1 {
        upper
    } else {
        (figures[middle - 1] + upper) / 2.0
    })
}
