//! A bar held against what was measured: the record that scripts read, and its words for people.

use serde::Serialize;

use super::number::{self, SPACE};

/// A bar held against the results. In JSON: one object of `bars.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BarResult {
    /// A name that stays, such as `tls-bytes-one`.
    pub id: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// Whose it is: link and endpoints.
    pub case: &'static str,
    /// Of the figures below.
    pub unit: Unit,
    /// Which side of the bar is the good one.
    pub bound: Bound,
    /// What must hold.
    pub bar: f64,
    /// Where it should end.
    pub target: Option<f64>,
    /// What the thesis has, in words.
    pub thesis: Option<&'static str>,
    /// The worst case's figure.
    pub measured: Option<f64>,
    /// Whether the bar holds.
    pub outcome: Outcome,
    /// By how much it does not; `None` where it does.
    pub missed_by: Option<f64>,
    /// Whether the target holds, too.
    pub target_reached: Option<bool>,
    /// Sound trials of the arm that has fewer; `None` for benches.
    pub trials: Option<usize>,
    /// Which case is the worst, of how many, and what else a reader must know.
    pub note: String,
}

/// A figure, over how many trials, and what else a reader must know.
pub(crate) struct Finding {
    pub(crate) figure: f64,
    pub(crate) trials: usize,
    pub(crate) note: String,
}

/// What a bar's figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Per cent of plain, in the same run.
    PercentOfPlain,
    /// Per cent of what plain routing carries in the same time.
    PercentOfRouted,
    /// Per cent of HTTPS by nginx, in the same run.
    PercentOfHttps,
    /// Per cent of split TLS, in the same run.
    PercentOfSplitTls,
    /// Per cent of end-to-end TLS, in the same run.
    PercentOfEndToEndTls,
    /// Per cent that is sent in addition.
    PercentAdded,
    /// Per cent that need not be sent.
    PercentSaved,
    /// Times the bytes that are fresh by design.
    TimesFloor,
    /// Milliseconds.
    Milliseconds,
    /// Handshakes a second.
    HandshakesPerSecond,
    /// Kibibytes.
    Kibibytes,
    /// Bytes.
    Bytes,
}

/// Which side of a bar is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The bar and below.
    AtMost,
    /// The bar and above.
    AtLeast,
}

/// Whether a bar holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It does.
    Reached,
    /// It does not.
    Missed,
    /// The results do not say.
    NotMeasured,
}

impl Bound {
    /// How far a figure is on the wrong side of a bar; not above zero where it is on the good one.
    pub(crate) fn excess(self, figure: f64, bar: f64) -> f64 {
        match self {
            Bound::AtMost => figure - bar,
            Bound::AtLeast => bar - figure,
        }
    }

    fn sign(self) -> char {
        match self {
            Bound::AtMost => '≤',
            Bound::AtLeast => '≥',
        }
    }
}

impl BarResult {
    /// A bar of which nothing was measured, without target.
    pub(crate) fn open(
        id: &'static str,
        what: &'static str,
        case: &'static str,
        unit: Unit,
        bound: Bound,
        bar: f64,
    ) -> Self {
        Self {
            id,
            what,
            case,
            unit,
            bound,
            bar,
            target: None,
            thesis: None,
            measured: None,
            outcome: Outcome::NotMeasured,
            missed_by: None,
            target_reached: None,
            trials: None,
            note: "no sound trials".to_owned(),
        }
    }

    /// With its figure, and what follows from it.
    #[must_use]
    pub(crate) fn with(self, figure: f64) -> Self {
        let excess = self.bound.excess(figure, self.bar);
        let missed = excess > 0.0;
        Self {
            measured: Some(figure),
            outcome: if missed {
                Outcome::Missed
            } else {
                Outcome::Reached
            },
            missed_by: missed.then_some(excess),
            target_reached: self
                .target
                .map(|target| !missed && self.bound.excess(figure, target) <= 0.0),
            ..self
        }
    }

    /// With what the rows say, if they say anything.
    pub(crate) fn held(self, finding: Option<Finding>) -> Self {
        match finding {
            Some(Finding {
                figure,
                trials,
                note,
            }) => Self {
                trials: Some(trials),
                note,
                ..self.with(figure)
            },
            None => self,
        }
    }

    /// A figure of this bar with its unit.
    pub(crate) fn in_words(&self, figure: f64) -> String {
        let words = match self.unit {
            Unit::PercentOfPlain
            | Unit::PercentOfRouted
            | Unit::PercentOfHttps
            | Unit::PercentOfSplitTls
            | Unit::PercentOfEndToEndTls => {
                format!("{figure:.1}{SPACE}%")
            }
            // What is left or added is small.
            Unit::PercentSaved | Unit::PercentAdded => format!("{figure:.2}{SPACE}%"),
            Unit::TimesFloor => format!("{figure:.2}{SPACE}times the floor"),
            Unit::Milliseconds if figure.abs() < 10.0 => format!("{figure:.2}{SPACE}ms"),
            Unit::Milliseconds => format!("{figure:.1}{SPACE}ms"),
            Unit::HandshakesPerSecond => format!("{}/s", number::count(figure)),
            Unit::Kibibytes => format!("{figure:.1}{SPACE}KiB"),
            Unit::Bytes => format!("{figure:.0}{SPACE}bytes"),
        };
        words.replace('-', "−")
    }

    /// "≤ 52.0 %".
    pub(crate) fn bar_in_words(&self) -> String {
        format!("{}{SPACE}{}", self.bound.sign(), self.in_words(self.bar))
    }

    /// "reached", "reached, target too", "missed by 3.1 points", "not measured".
    pub(crate) fn verdict(&self) -> String {
        let target = match self.target_reached {
            Some(true) => ", target too",
            Some(false) | None => "",
        };
        match (self.outcome, self.missed_by) {
            (Outcome::Reached, _) => format!("reached{target}"),
            (Outcome::Missed, missed_by) => self.distance(missed_by.unwrap_or_default()),
            (Outcome::NotMeasured, _) => "not measured".to_owned(),
        }
    }

    fn distance(&self, by: f64) -> String {
        match self.unit {
            Unit::PercentOfPlain
            | Unit::PercentOfRouted
            | Unit::PercentOfHttps
            | Unit::PercentOfSplitTls
            | Unit::PercentOfEndToEndTls
                if by < 0.05 =>
            {
                format!("missed by less than 0.1{SPACE}points")
            }
            Unit::PercentOfPlain
            | Unit::PercentOfRouted
            | Unit::PercentOfHttps
            | Unit::PercentOfSplitTls
            | Unit::PercentOfEndToEndTls => {
                format!("missed by {by:.1}{SPACE}points")
            }
            Unit::PercentSaved | Unit::PercentAdded => format!("missed by {by:.2}{SPACE}points"),
            Unit::Milliseconds if by < 0.005 => format!("missed by less than 0.01{SPACE}ms"),
            Unit::TimesFloor if by < 0.005 => {
                format!("missed by less than 0.01{SPACE}times the floor")
            }
            Unit::TimesFloor
            | Unit::Milliseconds
            | Unit::HandshakesPerSecond
            | Unit::Kibibytes
            | Unit::Bytes => {
                format!("missed by {}", self.in_words(by))
            }
        }
    }
}
