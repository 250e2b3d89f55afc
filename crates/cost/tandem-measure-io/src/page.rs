//! The page: one document that needs nothing but itself. No script, no font, no image from
//! elsewhere.
//!
//! Everything that comes from a server or a command line goes through [`escaped`].

use std::fmt::Write as _;

use tandem_measure::{Outcome, PhaseOutcome, advice};
use tandem_report::draw::{PAGE_STYLE, escaped};

use crate::plots;
use crate::table::{bytes, conditions, headline, milliseconds};

/// How the figures come about.
const METHOD: [&str; 6] = [
    "In an open loop connections start at random moments at the given rate, whatever becomes of those before. Latency counts \
     from the moment at which a connection was to start: a server that stands still cannot hide.",
    "Nothing of the warm-up is in the figures: it ends when rate and latency of the last second's two halves agree.",
    "A connection is resumed when the server resumed it. An offer that the server refused is a full handshake.",
    "A request that timed out is in the latencies with the time that was waited, which is less than it would have taken.",
    "Round trips are the times at which the client had to wait for an answer to go on. What TCP repeats or holds back is not seen.",
    "Bytes are those of TLS: the headers of TCP and IP come on top.",
];

/// The document of these results, of one server.
#[must_use]
pub fn page(outcomes: &[Outcome]) -> String {
    let mut page = Page(String::new());
    page.raw(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>What TLS costs</title>\n\
         <style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<header>\n<p class=\"name\">Tandem, measure</p>"
    ));
    if let Some(first) = outcomes.first() {
        page.words("h1", "What TLS costs");
        page.words("p", &headline(first));
    }
    page.raw("</header>");
    page.remarks(outcomes);
    page.summary(outcomes);
    for outcome in outcomes {
        page.search(outcome);
    }
    for figure in plots::figures(outcomes) {
        page.words("h2", figure.title);
        page.raw(&format!("<figure>\n{}", figure.svg));
        page.words("figcaption", figure.caption);
        page.raw("</figure>");
    }
    page.phases(outcomes);
    let advice = advice(outcomes);
    if !advice.is_empty() {
        page.words("h2", "What would help, as far as it was measured");
        page.list(advice.into_iter());
    }
    page.words("h2", "How it is measured");
    page.list(METHOD.iter().map(|line| (*line).to_owned()));
    page.list(outcomes.iter().map(conditions));
    page.raw("</body>\n</html>");
    page.0
}

struct Page(String);

impl Page {
    fn raw(&mut self, html: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{html}");
    }

    fn words(&mut self, element: &str, words: &str) {
        self.raw(&format!("<{element}>{}</{element}>", escaped(words)));
    }

    fn list(&mut self, lines: impl Iterator<Item = String>) {
        self.raw("<ul>");
        for line in lines {
            self.words("li", &line);
        }
        self.raw("</ul>");
    }

    fn remarks(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            self.raw("<div class=\"good\">");
            self.words("strong", &outcome.label());
            self.list(outcome.remarks().into_iter());
            self.raw("</div>");
        }
    }

    fn summary(&mut self, outcomes: &[Outcome]) {
        self.words("h2", "Results");
        self.head(&[
            "run",
            "resumed",
            "connections",
            "a second",
            "requests a second",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "received",
            "failed",
        ]);
        for outcome in outcomes {
            let counts = &outcome.counts;
            let latency = &outcome.latency;
            let resumed = outcome
                .resumed_percent()
                .map_or_else(|| "–".to_owned(), |percent| format!("{percent:.1} %"));
            self.row(&[
                outcome.label(),
                resumed,
                counts.connections.to_string(),
                format!("{:.1}", outcome.connection_rate()),
                format!("{:.1}", outcome.request_rate()),
                milliseconds(latency.p50 as f64),
                milliseconds(latency.p90 as f64),
                milliseconds(latency.p99 as f64),
                milliseconds(latency.p99_9 as f64),
                bytes(counts.bytes.received as f64),
                counts.failures().to_string(),
            ]);
        }
        self.raw("</tbody></table></div>");
    }

    /// How a rate was found.
    fn search(&mut self, outcome: &Outcome) {
        let Some(found) = &outcome.find_rate else {
            return;
        };
        self.words("h2", &format!("The search for a rate, {}", outcome.label()));
        self.words("p", &found.says());
        self.head(&[
            "connections a second",
            "requests a second",
            "p50",
            "p99",
            "failed",
            "p99 within the bound?",
        ]);
        for trial in &found.tried {
            self.row(&[
                format!("{:.1}", trial.rate),
                format!("{:.1}", trial.requests_per_second),
                milliseconds(trial.p50 as f64),
                milliseconds(trial.p99 as f64),
                trial.failed.to_string(),
                trial.verdict.says().to_owned(),
            ]);
        }
        self.raw("</tbody></table></div>");
    }

    fn phases(&mut self, outcomes: &[Outcome]) {
        self.words("h2", "Phases: time, bytes, round trips");
        self.head(&[
            "run",
            "connection",
            "phase",
            "mean",
            "p50",
            "p99",
            "bytes sent",
            "bytes received",
            "round trips",
        ]);
        for outcome in outcomes {
            for kind in &outcome.kinds {
                for PhaseOutcome {
                    phase,
                    time,
                    sent,
                    received,
                    round_trips,
                } in &kind.phases
                {
                    self.row(&[
                        outcome.label(),
                        kind.kind.says().to_owned(),
                        phase.says().to_owned(),
                        milliseconds(time.mean),
                        milliseconds(time.p50 as f64),
                        milliseconds(time.p99 as f64),
                        format!("{sent:.0}"),
                        format!("{received:.0}"),
                        format!("{round_trips:.1}"),
                    ]);
                }
            }
        }
        self.raw("</tbody></table></div>");
    }

    fn head(&mut self, columns: &[&str]) {
        self.raw("<div class=\"scroll\"><table><thead><tr>");
        for column in columns {
            self.words("th", column);
        }
        self.raw("</tr></thead><tbody>");
    }

    fn row(&mut self, cells: &[String]) {
        self.raw("<tr>");
        for cell in cells {
            self.words("td", cell);
        }
        self.raw("</tr>");
    }
}
