//! Which drawings a page has, given what the rows hold.

use super::cases::Case;
use super::exhibit::Exhibit;
use super::input::Input;
use super::plots::{self, Figure};
use super::situations::Staged;
use super::thesis::ENDPOINTS;
use super::waterfall::Waterfall;

/// All drawings, in the page's order.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// All cases at a glance.
    pub(crate) overview: Option<Figure>,
    /// What a handshake's bytes are; where some were taken apart.
    pub(crate) parts: Option<Figure>,
    /// McVeety's, with ours beside, those with client certificates where they were measured; none
    /// where nothing of ours was measured in his setting.
    pub(crate) thesis: Vec<Figure>,
    /// Bytes against certificate size; belongs to figure 4-6.
    pub(crate) sizes: Option<Figure>,
    /// A chain as a capture shows it, figures 4-7 and 4-8; where both forms were kept.
    pub(crate) messages: Option<Figure>,
    /// What a miss adds, beside figure 4-9; where misses were measured.
    pub(crate) misses: Option<Figure>,
    /// A miss packet by packet, as figure 4-9 shows it.
    pub(crate) flows: Vec<Figure>,
    /// Chapter 5 of the thesis on splitting, as far as there are rows.
    pub(crate) splitting: Vec<Figure>,
    /// Section 5 of the paper on multi-context TLS, as far as there are rows.
    pub(crate) mctls: Vec<Figure>,
    /// Its figure 7, which is as wide as the page.
    pub(crate) mctls_transfers: Option<Figure>,
    /// Where the directory holds what to draw, the longest handshake first.
    pub(crate) waterfalls: Vec<Figure>,
}

impl Figures {
    /// Draws them.
    pub(crate) fn of(input: &Input, cases: &[Case], staged: &[Staged]) -> Self {
        let in_his_setting = |case: &Case| ENDPOINTS.contains(&case.endpoints.as_str());
        let thesis = if cases.iter().any(in_his_setting) {
            let mut figures = vec![plots::high_latency(cases), plots::low_latency(cases)];
            figures.extend(plots::mutual(cases));
            figures.push(plots::bandwidth(cases));
            figures
        } else {
            Vec::new()
        };
        Self {
            overview: plots::overview(cases),
            parts: plots::parts(cases),
            thesis,
            sizes: plots::sizes(cases),
            messages: chosen(input).and_then(plots::messages),
            misses: plots::misses(staged),
            flows: waterfalls(input, Scene::Staged),
            splitting: plots::splitting(&input.splitting),
            mctls: plots::mctls(&input.mctls),
            mctls_transfers: plots::mctls_transfers(&input.mctls),
            waterfalls: waterfalls(input, Scene::Ordinary),
        }
    }

    /// Each of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Figure> {
        self.overview
            .iter()
            .chain(&self.parts)
            .chain(&self.thesis)
            .chain(&self.sizes)
            .chain(&self.messages)
            .chain(&self.misses)
            .chain(&self.flows)
            .chain(&self.splitting)
            .chain(&self.mctls)
            .chain(&self.mctls_transfers)
            .chain(&self.waterfalls)
    }
}

/// The one that is drawn: of the case three where there is one, like the thesis's of three
/// certificates.
fn chosen(input: &Input) -> Option<&Exhibit> {
    let three = |exhibit: &&Exhibit| exhibit.endpoints == "three";
    let all = &input.exhibits;
    all.iter().find(three).or_else(|| all.first())
}

/// Whether something was the matter in a waterfall's trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    Ordinary,
    Staged,
}

fn waterfalls(input: &Input, scene: Scene) -> Vec<Figure> {
    let is_wanted = |waterfall: &&Waterfall| {
        let is_staged = input
            .staged
            .iter()
            .flat_map(|run| &run.rows)
            .any(|row| row.experiment == waterfall.experiment);
        is_staged == (scene == Scene::Staged)
    };
    let mut waterfalls: Vec<&Waterfall> = input.waterfalls.iter().filter(is_wanted).collect();
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
