//! Writes SVG: shapes and text at points, every text and attribute escaped. Knows nothing of what
//! is drawn.
//!
//! Each drawing stands alone, in a file or inside a page: fonts and colours are attributes,
//! identifiers begin with the drawing's own. Text is not measured: [`width_of`] estimates.
//!
//! Specification: SVG 1.1, second edition.

use std::fmt::Write as _;

/// What text is drawn in where the reader has it.
const FONTS: &str = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif";

/// Text and frames.
pub const INK: &str = "#1c1c1c";
/// Text of less weight. Contrast on white 5.7:1.
pub const FAINT: &str = "#666666";
/// Lines of a grid.
pub const GRID: &str = "#e3e3e3";

/// A drawing under way.
#[derive(Debug)]
pub struct Svg {
    id: String,
    width: f64,
    height: f64,
    body: String,
}

/// Where text stands in relation to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// To the right of it.
    Start,
    /// Around it.
    Middle,
    /// To the left of it.
    End,
}

/// How text looks.
#[derive(Debug, Clone, Copy)]
pub struct Font {
    /// Pixels.
    pub size: f64,
    /// Colour.
    pub colour: &'static str,
    /// Regular 400, semi-bold 600.
    pub weight: u16,
}

/// Labels.
pub const LABEL: Font = Font {
    size: 12.0,
    colour: INK,
    weight: 400,
};
/// Figures and ticks.
pub const SMALL: Font = Font {
    size: 11.0,
    colour: FAINT,
    weight: 400,
};
/// Headings within a drawing.
pub const STRONG: Font = Font {
    size: 12.0,
    colour: INK,
    weight: 600,
};

/// What a point of a plot is marked with, so that arms can be told apart without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Disc,
    /// A ring.
    Ring,
    /// A square.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle.
    Triangle,
    /// A triangle on its point.
    Wedge,
    /// An upright cross.
    Plus,
    /// A thick upright line.
    Post,
    /// A square's outline.
    SquareRing,
    /// The outline of a square on its corner.
    DiamondRing,
    /// A triangle's outline.
    TriangleRing,
    /// The outline of a triangle on its point.
    WedgeRing,
    /// A shape with five corners.
    Pentagon,
    /// Its outline.
    PentagonRing,
    /// A shape with six corners.
    Hexagon,
    /// Its outline.
    HexagonRing,
    /// A half disc.
    Moon,
    /// Its outline.
    MoonRing,
    /// A bar that lies.
    Bar,
    /// Two lines that cross.
    Cross,
    /// A thick line.
    Dash,
    /// A star with four points.
    Star,
    /// Its outline.
    StarRing,
    /// The outline of a bar that stands.
    Tower,
    /// Two lines that meet at the top.
    Chevron,
    /// Two lines that meet at the bottom.
    Tick,
}

impl Svg {
    /// An empty drawing of that many pixels. `id` is of letters, digits and hyphens.
    pub fn new(id: &str, width: f64, height: f64) -> Self {
        Self {
            id: id.to_owned(),
            width,
            height,
            body: String::new(),
        }
    }

    /// A line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.element(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line of dashes.
    pub fn dashed(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.element(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{width}" stroke-dasharray="4 3"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let mut list = String::new();
        for (x, y) in points {
            // Writing to a string cannot fail.
            let _ = write!(list, "{x:.1},{y:.1} ");
        }
        self.element(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>"#,
            list.trim_end()
        ));
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), fill: &str) {
        self.element(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{fill}"/>"#,
            corner.0,
            corner.1,
            size.0.max(0.0),
            size.1.max(0.0)
        ));
    }

    /// A rectangle hatched in a colour, with an outline in it.
    pub fn hatched(&mut self, corner: (f64, f64), size: (f64, f64), colour: &str) {
        let pattern = format!("{}-{}", self.id, colour.trim_start_matches('#'));
        if !self.body.contains(&format!(r#"id="{pattern}""#)) {
            self.element(format_args!(
                r#"<pattern id="{pattern}" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" fill="white"/><line x1="0" y1="0" x2="0" y2="5" stroke="{colour}" stroke-width="3"/></pattern>"#
            ));
        }
        self.element(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="url(#{pattern})" stroke="{colour}" stroke-width="1"/>"#,
            corner.0 + 0.5,
            corner.1 + 0.5,
            (size.0 - 1.0).max(0.0),
            (size.1 - 1.0).max(0.0)
        ));
    }

    /// A filled shape with four corners. `strength` is its opacity, 0 to 1.
    pub fn band(&mut self, corners: [(f64, f64); 4], colour: &str, strength: f64) {
        let points = corners.map(|(x, y)| format!("{x:.1},{y:.1}")).join(" ");
        self.element(format_args!(
            r#"<polygon points="{points}" fill="{colour}" fill-opacity="{strength}" stroke="white" stroke-width="0.7"/>"#
        ));
    }

    /// A mark around a point.
    pub fn mark(&mut self, at: (f64, f64), shape: Shape, colour: &str) {
        let (x, y) = at;
        let paint = format!(r#"fill="{colour}" stroke="white" stroke-width="1""#);
        let outline = format!(r#"fill="white" stroke="{colour}" stroke-width="2""#);
        match shape {
            Shape::Disc => self.element(format_args!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="4.5" {paint}/>"#
            )),
            Shape::Ring => self.element(format_args!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.6" fill="white" stroke="{colour}" stroke-width="2"/>"#
            )),
            Shape::Square | Shape::SquareRing => self.element(format_args!(
                r#"<rect x="{:.1}" y="{:.1}" width="8" height="8" {}/>"#,
                x - 4.0,
                y - 4.0,
                if shape == Shape::Square { &paint } else { &outline }
            )),
            Shape::Diamond | Shape::DiamondRing => self.element(format_args!(
                r#"<rect x="{:.1}" y="{:.1}" width="7.6" height="7.6" transform="rotate(45 {x:.1} {y:.1})" {}/>"#,
                x - 3.8,
                y - 3.8,
                if shape == Shape::Diamond { &paint } else { &outline }
            )),
            Shape::Triangle | Shape::TriangleRing => self.element(format_args!(
                r#"<polygon points="{x:.1},{:.1} {:.1},{:.1} {:.1},{:.1}" {}/>"#,
                y - 5.0,
                x + 4.8,
                y + 3.8,
                x - 4.8,
                y + 3.8,
                if shape == Shape::Triangle { &paint } else { &outline }
            )),
            Shape::Pentagon | Shape::PentagonRing => self.element(format_args!(
                r#"<polygon points="{x:.1},{:.1} {:.1},{:.1} {:.1},{:.1} {:.1},{:.1} {:.1},{:.1}" {}/>"#,
                y - 5.0,
                x + 4.8,
                y - 1.5,
                x + 2.9,
                y + 4.0,
                x - 2.9,
                y + 4.0,
                x - 4.8,
                y - 1.5,
                if shape == Shape::Pentagon { &paint } else { &outline }
            )),
            Shape::Hexagon | Shape::HexagonRing => self.element(format_args!(
                r#"<polygon points="{:.1},{:.1} {:.1},{:.1} {:.1},{y:.1} {:.1},{:.1} {:.1},{:.1} {:.1},{y:.1}" {}/>"#,
                x - 2.5,
                y - 4.3,
                x + 2.5,
                y - 4.3,
                x + 5.0,
                x + 2.5,
                y + 4.3,
                x - 2.5,
                y + 4.3,
                x - 5.0,
                if shape == Shape::Hexagon { &paint } else { &outline }
            )),
            Shape::Moon | Shape::MoonRing => self.element(format_args!(
                r#"<path d="M{:.1} {:.1}a4.8 4.8 0 0 0 0 9.6z" {}/>"#,
                x + 2.4,
                y - 4.8,
                if shape == Shape::Moon { &paint } else { &outline }
            )),
            Shape::Bar => self.element(format_args!(
                r#"<rect x="{:.1}" y="{:.1}" width="10" height="4.4" {outline}/>"#,
                x - 5.0,
                y - 2.2
            )),
            Shape::Cross => self.element(format_args!(
                r#"<path d="M{:.1} {:.1}l8 8m0 -8l-8 8" stroke="{colour}" stroke-width="2.4"/>"#,
                x - 4.0,
                y - 4.0
            )),
            Shape::Dash => self.element(format_args!(
                r#"<rect x="{:.1}" y="{:.1}" width="11" height="5" {paint}/>"#,
                x - 5.5,
                y - 2.5
            )),
            Shape::Wedge | Shape::WedgeRing => self.element(format_args!(
                r#"<polygon points="{x:.1},{:.1} {:.1},{:.1} {:.1},{:.1}" {}/>"#,
                y + 5.0,
                x + 4.8,
                y - 3.8,
                x - 4.8,
                y - 3.8,
                if shape == Shape::Wedge { &paint } else { &outline }
            )),
            Shape::Star | Shape::StarRing => self.element(format_args!(
                r#"<path d="M{x:.1} {:.1}l1.8 4.2l4.2 1.8l-4.2 1.8l-1.8 4.2l-1.8 -4.2l-4.2 -1.8l4.2 -1.8z" {}/>"#,
                y - 6.0,
                if shape == Shape::Star { &paint } else { &outline }
            )),
            Shape::Tower => self.element(format_args!(
                r#"<rect x="{:.1}" y="{:.1}" width="4.4" height="10" {outline}/>"#,
                x - 2.2,
                y - 5.0
            )),
            Shape::Chevron | Shape::Tick => {
                let up = if shape == Shape::Chevron { 1.0 } else { -1.0 };
                self.element(format_args!(
                    r#"<path d="M{:.1} {:.1}l5 {:.0}l5 {:.0}" fill="none" stroke="{colour}" stroke-width="2.4"/>"#,
                    x - 5.0,
                    y + 3.0 * up,
                    -6.0 * up,
                    6.0 * up
                ));
            }
            Shape::Post => self.element(format_args!(
                r#"<path d="M{x:.1} {:.1}v9" stroke="{colour}" stroke-width="3.4"/>"#,
                y - 4.5
            )),
            Shape::Plus => self.element(format_args!(
                r#"<path d="M{:.1} {y:.1}h9M{x:.1} {:.1}v9" stroke="{colour}" stroke-width="3"/>"#,
                x - 4.5,
                y - 4.5
            )),
        }
    }

    /// An arrow's head, at its tip, for a line that comes from `from`.
    pub fn arrow_head(&mut self, from: (f64, f64), tip: (f64, f64), colour: &str) {
        let angle = (tip.1 - from.1).atan2(tip.0 - from.0).to_degrees();
        self.element(format_args!(
            r#"<polygon points="0,0 -7,-3 -7,3" transform="translate({:.1} {:.1}) rotate({angle:.1})" fill="{colour}"/>"#,
            tip.0, tip.1
        ));
    }

    /// Text on a base line.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, font: Font, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.element(format_args!(
            r#"<text x="{:.1}" y="{:.1}" text-anchor="{anchor}" font-size="{}" font-weight="{}" fill="{}">{}</text>"#,
            at.0,
            at.1,
            font.size,
            font.weight,
            font.colour,
            escaped(text)
        ));
    }

    /// Text that runs upwards, around a point.
    pub fn upright_text(&mut self, at: (f64, f64), font: Font, text: &str) {
        let (x, y) = at;
        self.element(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" transform="rotate(-90 {x:.1} {y:.1})" text-anchor="middle" font-size="{}" font-weight="{}" fill="{}">{}</text>"#,
            font.size,
            font.weight,
            font.colour,
            escaped(text)
        ));
    }

    /// The drawing as a document, with words for those who cannot see it.
    pub fn finish(self, title: &str) -> String {
        let Self {
            id,
            width,
            height,
            body,
        } = self;
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" role="img" aria-labelledby="{id}-title" font-family="{FONTS}">
<title id="{id}-title">{}</title>
<rect width="{width:.0}" height="{height:.0}" fill="white"/>
{body}</svg>
"#,
            escaped(title)
        )
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// Text as HTML and XML take it, in content and in quoted attributes. Characters that XML 1.0
/// forbids become U+FFFD.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\r' | '\t' => out.push(' '),
            character if character.is_control() => out.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

/// About how wide text is, pixels: the mean advance of sans-serif fonts is 0.52 of their size.
pub fn width_of(text: &str, font: Font) -> f64 {
    text.chars().count() as f64 * font.size * 0.52
}

/// Text cut to about that width.
pub fn clipped(text: &str, font: Font, width: f64) -> String {
    if width_of(text, font) <= width {
        return text.to_owned();
    }
    let room = (width / (font.size * 0.52)).max(1.0) as usize;
    let mut out: String = text.chars().take(room.saturating_sub(1)).collect();
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut svg = Svg::new("x", 10.0, 10.0);
        svg.text((0.0, 0.0), Anchor::Start, LABEL, "<a href='x'>&\"\u{1}");
        let document = svg.finish("<title>");
        assert!(document.contains("&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}"));
        assert!(document.contains(">&lt;title&gt;</title>"));
    }

    #[test]
    fn a_hatch_is_defined_once() {
        let mut svg = Svg::new("x", 10.0, 10.0);
        svg.hatched((0.0, 0.0), (5.0, 5.0), "#0072B2");
        svg.hatched((5.0, 0.0), (5.0, 5.0), "#0072B2");
        assert_eq!(svg.finish("t").matches("<pattern").count(), 1);
    }

    #[test]
    fn long_text_is_cut_with_a_sign() {
        assert_eq!(clipped("short", LABEL, 100.0), "short");
        let cut = clipped(&"x".repeat(100), LABEL, 66.0);
        assert!(cut.ends_with('…') && cut.chars().count() == 10, "{cut}");
    }
}
