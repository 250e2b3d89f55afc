//! Which drawings a page has, given what the rows hold.

use super::cases::Case;
use super::input::Input;
use super::plots::{self, Figure};
use super::thesis::ENDPOINTS;
use super::waterfall::Waterfall;

/// All drawings, in the page's order.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// All cases at a glance.
    pub(crate) overview: Option<Figure>,
    /// McVeety's, with ours beside; none where nothing of ours was measured in his setting.
    pub(crate) thesis: Vec<Figure>,
    /// Bytes against certificate size; belongs to figure 4-6.
    pub(crate) sizes: Option<Figure>,
    /// Where the directory holds what to draw, the longest handshake first.
    pub(crate) waterfalls: Vec<Figure>,
}

impl Figures {
    /// Draws them.
    pub(crate) fn of(input: &Input, cases: &[Case]) -> Self {
        let in_his_setting = |case: &Case| ENDPOINTS.contains(&case.endpoints.as_str());
        let thesis = if cases.iter().any(in_his_setting) {
            vec![
                plots::high_latency(cases),
                plots::low_latency(cases),
                plots::bandwidth(cases),
            ]
        } else {
            Vec::new()
        };
        Self {
            overview: plots::overview(cases),
            thesis,
            sizes: plots::sizes(cases),
            waterfalls: waterfalls(input),
        }
    }

    /// Each of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Figure> {
        self.overview
            .iter()
            .chain(&self.thesis)
            .chain(&self.sizes)
            .chain(&self.waterfalls)
    }
}

fn waterfalls(input: &Input) -> Vec<Figure> {
    let mut waterfalls: Vec<&Waterfall> = input.waterfalls.iter().collect();
    let longest = |waterfall: &Waterfall| {
        waterfall
            .arms
            .iter()
            .filter_map(|arm| arm.first_byte_seconds)
            .fold(0.0, f64::max)
    };
    waterfalls.sort_by(|a, b| longest(b).total_cmp(&longest(a)));
    waterfalls
        .into_iter()
        .filter_map(plots::waterfall)
        .collect()
}
