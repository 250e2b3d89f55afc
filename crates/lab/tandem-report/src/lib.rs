//! What experiments measured, as rows; and what is made of rows: one page, its plots, its tables
//! and the verdict on each bar, out of rows that runs left behind.
//!
//! ```text
//!   *.jsonl -- input --> rows -- cases --> medians, ratios --+--> bars ----> bars.json
//!                   |-- situations --> cases of table 2.2 ----+
//!   *.run.json                                               +--> plots ---> plots/*.svg
//!   waterfall-*.json ----------------------------------------+--> page ----> report.html
//!   bench.jsonl ---------------------------------------------+--> tables --> tables.md
//! ```
//!
//! It measures nothing and leaves nothing out in silence: what failed, what is missing and what is
//! not known is said on the page. The same files always make the same page.

pub mod accounts;
mod apart;
pub mod arm;
mod bars;
mod cases;
mod caveats;
pub mod coming;
mod cost;
pub mod cost_row;
mod crowds;
mod date;
pub mod draw;
mod error;
mod exhibit;
mod figures;
mod headline;
mod input;
mod markdown;
mod mctls;
pub mod mctls_row;
mod number;
mod page;
mod parts;
mod peers;
mod plots;
mod profile;
pub mod row;
mod run_info;
mod scale;
pub mod situation;
mod situations;
pub mod split_row;
mod splitting;
mod stats;
pub mod summary;
mod svg;
#[cfg(test)]
mod synthetic;
mod table;
mod tables;
mod thesis;
mod totals;
mod verdict;
pub mod visits;
mod waterfall;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use apart::of_rows as parts_markdown;
pub use cost::markdown as cost_markdown;
pub use crowds::markdown as crowds_markdown;
pub use error::ReportError;
pub use exhibit::{CERTIFICATE, COMPRESSED_CERTIFICATE, Exhibit};
pub use mctls::markdown as mctls_markdown;
pub use parts::Parts;
pub use plots::draw_visits;
pub use run_info::{LinkInfo, Program, RunInfo, now};
pub use situations::markdown as situations_markdown;
pub use splitting::markdown as splitting_markdown;
pub use verdict::{BarResult, Bound, Outcome, Unit};
pub use waterfall::{Waterfall, WaterfallArm, WaterfallDirection, WaterfallPacket};

use figures::Figures;
use headline::Headline;

/// Where results lie, and where the report is to go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// Where runs wrote their rows; searched one level deep.
    pub dir: PathBuf,
    /// Where to write. Default: `dir`. Made if it is not there.
    pub out: Option<PathBuf>,
}

/// Makes a report and prints its essence. Returns where the page is.
///
/// # Errors
/// `NoResults`, `DamagedResults`, `Io`.
pub fn report(options: &ReportOptions) -> Result<PathBuf, ReportError> {
    let made = Made::by(options)?;
    made.print()?;
    Ok(made.page)
}

/// The same without a word.
///
/// # Errors
/// As [`report`].
pub fn make(options: &ReportOptions) -> Result<PathBuf, ReportError> {
    Made::by(options).map(|made| made.page)
}

/// A report that is on disk.
struct Made {
    page: PathBuf,
    headline: Headline,
    bars: Vec<BarResult>,
}

impl Made {
    fn by(options: &ReportOptions) -> Result<Self, ReportError> {
        let out = options.out.as_deref().unwrap_or(&options.dir);
        let input = input::read(&options.dir)?;
        let cases = cases::cases(&input.runs);
        let mut bars = bars::check(&cases, &input.benches, &input.profile);
        let of_proxies = bars.len();
        if !input.splitting.is_empty() {
            bars.extend(splitting::check(&input.splitting));
        }
        let before_mctls = bars.len();
        if !input.mctls.is_empty() {
            bars.extend(mctls::check(&input.mctls));
        }
        let staged = situations::staged(input.staged.iter().flat_map(|run| &run.rows));
        let figures = Figures::of(&input, &cases, &staged);
        let plots = out.join("plots");
        fs::create_dir_all(&plots).map_err(ReportError::io(format!("make {}", plots.display())))?;
        for figure in figures.all() {
            write(&plots.join(format!("{}.svg", figure.name)), &figure.svg)?;
        }
        let mut json = serde_json::to_string_pretty(&bars)
            .map_err(|error| ReportError::io("write bars.json")(error.into()))?;
        json.push('\n');
        write(&out.join("bars.json"), &json)?;
        let tables = tables::tables(&input, &cases, &bars);
        write(&out.join("tables.md"), &tables)?;
        let page = out.join("report.html");
        let bars_by_part = page::Bars {
            proxies: &bars[..of_proxies],
            splitting: &bars[of_proxies..before_mctls],
            mctls: &bars[before_mctls..],
        };
        write(
            &page,
            &page::page(&input, &cases, &staged, bars_by_part, &figures),
        )?;
        Ok(Self {
            page,
            headline: Headline::of(&cases),
            bars,
        })
    }

    fn print(&self) -> Result<(), ReportError> {
        let mut text = format!("{}\n\n", self.headline.sentence);
        for bar in &self.bars {
            let measured = bar
                .measured
                .map_or_else(|| number::ABSENT.to_owned(), |figure| bar.in_words(figure));
            text.push_str(&format!(
                "  {:<32}  {:<26}  {measured:>9}  {}\n",
                bar.what,
                bar.case,
                bar.verdict()
            ));
        }
        text.push_str(&format!("\n{}\n", self.page.display()));
        // On a terminal a no-break space may not look like a space.
        let text = text.replace(number::SPACE, " ");
        match io::stdout().lock().write_all(text.as_bytes()) {
            // A reader that went away wanted no more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(ReportError::io("write to standard output")),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), ReportError> {
    fs::write(path, text).map_err(ReportError::io(format!("write {}", path.display())))
}

#[cfg(test)]
mod tests;
