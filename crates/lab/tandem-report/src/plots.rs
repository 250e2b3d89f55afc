//! The page's drawings. Each is a file of its own beside the page and stands in the page, too.

mod bullet;
pub(crate) mod chart;
mod groups;
pub(crate) mod legend;
mod mctls;
mod messages;
mod misses;
mod mutual;
mod overview;
mod parts;
mod sizes;
mod splitting;
mod thesis;
mod visits;
mod waterfall;

pub(crate) use bullet::bullet;
pub(crate) use mctls::{mctls, mctls_transfers};
pub(crate) use messages::messages;
pub(crate) use misses::misses;
pub(crate) use mutual::mutual;
pub(crate) use overview::overview;
pub(crate) use parts::parts;
pub(crate) use sizes::sizes;
pub(crate) use splitting::splitting;
pub(crate) use thesis::{bandwidth, high_latency, low_latency};
pub use visits::draw_visits;
pub(crate) use waterfall::waterfall;

/// A drawing with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Figure {
    /// Of letters, digits and hyphens: the file's name without `.svg`.
    pub(crate) name: String,
    /// What it shows, in a few words.
    pub(crate) title: String,
    /// How to read it, and what to beware of.
    pub(crate) caption: String,
    /// A whole SVG document.
    pub(crate) svg: String,
}

/// Width of a drawing that fills the page, pixels.
pub const FULL: f64 = 960.0;
/// Width of one of two side by side.
pub const HALF: f64 = 470.0;
