//! A table with its words, for the page and for Markdown.

/// A table with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) title: &'static str,
    pub(crate) note: String,
    pub(crate) columns: Vec<String>,
    /// How many columns from the left are no figures.
    pub(crate) words: usize,
    pub(crate) lines: Vec<Vec<String>>,
}

impl Table {
    /// With its title as a heading of the second level.
    pub(crate) fn markdown(&self) -> String {
        let rule: Vec<&str> = (0..self.columns.len())
            .map(|column| if column < self.words { "---" } else { "--:" })
            .collect();
        let mut text = format!(
            "## {}\n\n{}\n\n| {} |\n| {} |\n",
            self.title,
            self.note,
            self.columns.join(" | "),
            rule.join(" | ")
        );
        for line in &self.lines {
            text.push_str(&format!("| {} |\n", line.join(" | ")));
        }
        text.push('\n');
        text
    }
}
