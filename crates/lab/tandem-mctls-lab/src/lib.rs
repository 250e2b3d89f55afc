//! Multi-context TLS, measured: the evaluation of the paper (Naylor et al. 2015, section 5) redone,
//! with both protocols of this project, split TLS, end-to-end TLS and no encryption in one run.
//!
//! ```text
//!   plan -- how much --> parts -- who does what, in which order --> rows --> mctls.jsonl
//!                          |
//!                        stage: client, middleboxes, server; links between them
//! ```
//!
//! Is not: a proof of what the protocols promise; the tests of `mctls-io` and `mctls12-io` are.
//!
//! Invariants: all that is compared runs interleaved in random order; every byte that arrives is
//! compared with what was sent; bytes are the link's, processor time is the kernel's account.

mod connection;
mod dial;
mod exchange;
mod lines;
mod middlebox;
mod pages;
mod parts;
mod party;
mod pki;
mod plan;
mod route;
mod rows;
mod server;
mod stage;
mod tls;

use std::fs;
use std::path::PathBuf;

use rand_pcg::Pcg64Mcg;
use tandem_report as report;
use tandem_report::mctls_row::{McPart, ROWS};
use tandem_testbed::console::{self, Console};
use tandem_testbed::rows::Rows;
use tandem_testbed::{Effort, LabError, circumstances, interrupt, lease};

use parts::Evaluation;
use pki::Pki;
use plan::Plan;

/// What to evaluate and how.
#[derive(Debug, Clone)]
pub struct MctlsOptions {
    /// All of it, or a minute's worth.
    pub effort: Effort,
    /// Where results go; made where it is missing.
    pub out: PathBuf,
    /// Only these parts (`handshake`, `first-byte`, `transfer`, `page`, `overhead`, `connections`,
    /// `bulk`, `lines`); empty: all.
    pub parts: Vec<String>,
    /// Of the order of trials and of the pages.
    pub seed: u64,
}

/// Evaluates, and writes `mctls.jsonl` (rows), `mctls.md` (bars and tables) and `mctls.run.json`
/// (circumstances).
///
/// # Errors
/// `NotRoot`, `Kernel`, `ProgramMissing`, `Command` where the lab cannot be built; `TrialsFailed`
/// (all is written nevertheless); `Usage` for a part that is none; `Interrupted`, `Io`.
pub fn mctls(options: &MctlsOptions) -> Result<PathBuf, LabError> {
    interrupt::watch()?;
    lease::require_root()?;
    let parts = rows::parts(&options.parts)?;
    let console = Console::default();
    let plan = Plan::of(options.effort);
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let path = options.out.join(ROWS);
    let begun = circumstances::of_links(&plan.links())?;
    let mut rows = Rows::create(&path)?;
    let mut evaluation = Evaluation {
        pki: Pki::make()?,
        plan: &plan,
        console: &console,
        rows: &mut rows,
        chance: Pcg64Mcg::new(u128::from(options.seed)),
        seed: options.seed,
    };
    for part in &parts {
        match part {
            McPart::Handshake => evaluation.handshakes()?,
            McPart::FirstByte => evaluation.first_bytes()?,
            McPart::Transfer => evaluation.transfers()?,
            McPart::Page => evaluation.pages()?,
            McPart::Overhead => evaluation.overhead()?,
            McPart::Connections => evaluation.connections()?,
            McPart::Bulk => evaluation.bulk()?,
            McPart::Lines => evaluation.lines()?,
        }
    }
    let first = begun.date.clone();
    let info = begun.with_times(first, report::now());
    info.write_beside(&path)?;
    let tables = report::mctls_markdown(rows.all());
    let page = format!("# Multi-context TLS\n\n{}\n\n{tables}", info.in_words());
    fs::write(path.with_extension("md"), page).map_err(LabError::io("write mctls.md"))?;
    console::result(&tables);
    rows::verdict(rows.all()).map(|()| path)
}
