//! What other reports draw with: shapes, scales, legends, a chart of points and lines, and the
//! page's style, so that all pages of this workspace look alike.

pub use crate::arm::Look;
pub use crate::plots::chart::{Axis, Chart, Drawn, Kind, Series};
pub use crate::plots::legend::{Entry, Swatch, draw as draw_legend, height as legend_height};
pub use crate::plots::{FULL, HALF};
pub use crate::scale::{Scale, tick_label};
pub use crate::svg::{
    Anchor, FAINT, Font, GRID, INK, LABEL, SMALL, STRONG, Shape, Svg, clipped, escaped, width_of,
};

/// What a page's `<style>` has.
pub const PAGE_STYLE: &str = include_str!("page.css");
