//! A table in plain text: columns as wide as their widest cell, numbers to the right.
//!
//! Not a layout engine. Invariant: no line is longer than the page; where cells are too wide for
//! it, the first column, which holds names, is cut.

use super::WIDTH;

/// Blanks before the first column and between columns.
const INDENT: usize = 2;
const GAP: usize = 2;
/// A name is never cut shorter than this.
const MIN_FIRST: usize = 8;

/// One cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    align: Align,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

impl Cell {
    /// Words: to the left.
    pub(super) fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            align: Align::Left,
        }
    }

    /// A number, formatted: to the right.
    pub(super) fn number(text: String) -> Self {
        Self {
            text,
            align: Align::Right,
        }
    }
}

/// The table. The first column holds words, all others numbers.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headings and no rows.
    pub(super) fn new(headings: &[&str]) -> Self {
        let mut headings = headings.iter();
        let first = headings.next().map(|heading| Cell::text(heading));
        let rest = headings.map(|heading| Cell::number((*heading).to_owned()));
        Self {
            rows: vec![first.into_iter().chain(rest).collect()],
        }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// Whether there is no row under the headings.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// The lines, headings first.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let rest: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
        if let Some(first) = widths.first_mut() {
            *first = (*first).min((WIDTH - INDENT).saturating_sub(rest).max(MIN_FIRST));
        }
        self.rows.iter().map(move |row| {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| padded(cell, width))
                .collect();
            let line = format!("{}{}", " ".repeat(INDENT), cells.join(&" ".repeat(GAP)));
            line.chars().take(WIDTH).collect()
        })
    }

    fn width(&self, column: usize) -> usize {
        self.rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.text.chars().count())
            .max()
            .unwrap_or(0)
    }
}

fn padded(cell: &Cell, width: usize) -> String {
    let text: String = cell.text.chars().take(width).collect();
    match cell.align {
        Align::Left => format!("{text:<width$}"),
        Align::Right => format!("{text:>width$}"),
    }
}
