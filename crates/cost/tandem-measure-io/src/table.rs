//! Results as text for a terminal.

use std::fmt::Write as _;

use tandem_measure::{FoundRate, KindOutcome, Outcome, Percentiles, PhaseOutcome};

/// One result, in full.
#[must_use]
pub fn table(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut text, outcome);
    text
}

/// Several results, a line each.
#[must_use]
pub fn comparison(outcomes: &[Outcome]) -> String {
    let labels: Vec<String> = outcomes.iter().map(Outcome::label).collect();
    let width = labels.iter().map(String::len).max().unwrap_or_default();
    let mut text = format!(
        "{:<width$}  {:>8}  {:>13}  {:>11}  {:>11}  {:>13}  {:>13}  {:>7}\n",
        "run", "resumed", "connections/s", "p50", "p99", "full, mean", "resumed, mean", "failed"
    );
    for (outcome, label) in outcomes.iter().zip(&labels) {
        let resumed = outcome
            .resumed_percent()
            .map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"));
        let mean = |kind| {
            outcome.kind(kind).map_or_else(
                || "-".to_owned(),
                |kind: &KindOutcome| milliseconds(kind.whole.mean),
            )
        };
        let _ = writeln!(
            text,
            "{label:<width$}  {resumed:>8}  {:>13.1}  {:>11}  {:>11}  {:>13}  {:>13}  {:>7}",
            outcome.connection_rate(),
            milliseconds(outcome.latency.p50 as f64),
            milliseconds(outcome.latency.p99 as f64),
            mean(tandem_measure::Kind::Full),
            mean(tandem_measure::Kind::Resumed),
            outcome.counts.failures(),
        );
    }
    text
}

fn write_table(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    writeln!(text, "{}", headline(outcome))?;
    writeln!(text, "{}\n", conditions(outcome))?;
    let counts = &outcome.counts;
    if outcome.seconds > 0.0 {
        let resumed = outcome
            .resumed_percent()
            .map_or_else(String::new, |percent| format!(" ({percent:.1} %)"));
        writeln!(
            text,
            "  connections  {:>10}  {:>9.1}/s   {}",
            counts.connections,
            outcome.connection_rate(),
            match counts.clear {
                0 => format!("full {}, resumed {}{resumed}", counts.full, counts.resumed),
                clear => format!("without TLS {clear}"),
            },
        )?;
        writeln!(
            text,
            "  requests     {:>10}  {:>9.1}/s   failed {}",
            counts.requests,
            outcome.request_rate(),
            counts.failures(),
        )?;
        writeln!(
            text,
            "  bytes        sent {}, received {}, of that in bodies {}",
            bytes(counts.bytes.sent as f64),
            bytes(counts.bytes.received as f64),
            bytes(counts.bytes.body as f64),
        )?;
        writeln!(text, "  latency      {}", percentiles(&outcome.latency))?;
        writeln!(text, "\n{}", phases(outcome))?;
        let generator = &outcome.generator;
        writeln!(
            text,
            "  generator    {} threads, {:.2} s of processor time ({:.0} µs each), {:.2} s in \
             wait for a processor; starts late by {} (p99)\n",
            generator.threads,
            generator.cpu_seconds,
            generator.cpu_each,
            generator.waited_seconds,
            milliseconds(generator.late.p99 as f64),
        )?;
    }
    if let Some(found) = &outcome.find_rate {
        writeln!(text, "{}", trials(found))?;
    }
    for remark in outcome.remarks() {
        writeln!(text, "  * {remark}")?;
    }
    Ok(())
}

/// The runs of a search, a line each.
fn trials(found: &FoundRate) -> String {
    let mut text = format!(
        "  {:>13}  {:>11}  {:>11}  {:>11}  {:>7}  p99 within {}?\n",
        "connections/s",
        "requests/s",
        "p50",
        "p99",
        "failed",
        milliseconds(found.p99_bound as f64)
    );
    for trial in &found.tried {
        let _ = writeln!(
            text,
            "  {:>13.1}  {:>11.1}  {:>11}  {:>11}  {:>7}  {}",
            trial.rate,
            trial.requests_per_second,
            milliseconds(trial.p50 as f64),
            milliseconds(trial.p99 as f64),
            trial.failed,
            trial.verdict.says(),
        );
    }
    text
}

/// What was measured.
pub(crate) fn headline(outcome: &Outcome) -> String {
    let server = &outcome.server;
    let mut text = format!("{}  ({}", outcome.url, server.address);
    if let Some(version) = &server.tls {
        let _ = write!(text, "; TLS {version}");
    }
    for part in [&server.cipher_suite, &server.group].into_iter().flatten() {
        let _ = write!(text, ", {part}");
    }
    if let Some(leaf) = server.chain.first() {
        let count = server.chain.len();
        let size: usize = server.chain.iter().map(|one| one.bytes).sum();
        let _ = write!(
            text,
            "; key {}, certificates {count}, {size} bytes",
            leaf.key
        );
    }
    text.push(')');
    text
}

/// How it was measured.
pub(crate) fn conditions(outcome: &Outcome) -> String {
    let kept = match outcome.keep_alive {
        Some(1) => "1 request each".to_owned(),
        Some(number) => format!("{number} requests each"),
        None => "kept open".to_owned(),
    };
    let asked = &outcome.asked;
    let mut only: Vec<String> = asked
        .tls
        .iter()
        .map(|version| format!("TLS {version}"))
        .collect();
    only.extend([&asked.group, &asked.cipher].into_iter().flatten().cloned());
    let mut limits = match only.as_slice() {
        [] => String::new(),
        some => format!("; only {}", some.join(", ")),
    };
    if asked.client_certificate {
        limits.push_str("; with a client certificate");
    }
    format!(
        "{}, {kept}; mix {}; reuse {} % ({}){limits}; {:.1} s after a warm-up of {:.1} s; seed {}",
        outcome.load.says(),
        outcome.mix,
        outcome.reuse.value(),
        outcome.resumption,
        outcome.seconds,
        outcome.warm_up_seconds,
        outcome.seed,
    )
}

fn phases(outcome: &Outcome) -> String {
    let mut text = format!(
        "  {:<9}  {:<24} {:>11} {:>11} {:>11} {:>10} {:>10} {:>6}\n",
        "", "phase", "mean", "p50", "p99", "sent", "received", "trips"
    );
    for kind in &outcome.kinds {
        for phase in &kind.phases {
            let PhaseOutcome {
                phase,
                time,
                sent,
                received,
                round_trips,
            } = phase;
            let _ = writeln!(
                text,
                "  {:<9}  {:<24} {:>11} {:>11} {:>11} {sent:>10.0} {received:>10.0} {round_trips:>6.1}",
                kind.kind.says(),
                phase.says(),
                milliseconds(time.mean),
                milliseconds(time.p50 as f64),
                milliseconds(time.p99 as f64),
            );
        }
        let whole = &kind.whole;
        let sum = |of: fn(&PhaseOutcome) -> f64| kind.phases.iter().map(of).sum::<f64>();
        let _ = writeln!(
            text,
            "  {:<9}  {:<24} {:>11} {:>11} {:>11} {:>10.0} {:>10.0} {:>6.1}",
            kind.kind.says(),
            "all",
            milliseconds(whole.mean),
            milliseconds(whole.p50 as f64),
            milliseconds(whole.p99 as f64),
            sum(|phase| phase.sent),
            sum(|phase| phase.received),
            sum(|phase| phase.round_trips),
        );
    }
    text
}

fn percentiles(times: &Percentiles) -> String {
    format!(
        "p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
        milliseconds(times.p50 as f64),
        milliseconds(times.p90 as f64),
        milliseconds(times.p99 as f64),
        milliseconds(times.p99_9 as f64),
        milliseconds(times.max as f64),
    )
}

/// Microseconds as milliseconds, with three or four digits that count.
pub(crate) fn milliseconds(micros: f64) -> String {
    let value = micros / 1e3;
    let decimals = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} ms")
}

/// Bytes with a unit.
pub(crate) fn bytes(number: f64) -> String {
    match number {
        number if number >= 1e9 => format!("{:.2} GB", number / 1e9),
        number if number >= 1e6 => format!("{:.2} MB", number / 1e6),
        number if number >= 1e3 => format!("{:.1} kB", number / 1e3),
        number => format!("{number:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_mean_something() {
        for (micros, text) in [
            (85.0, "0.085 ms"),
            (1_234.0, "1.23 ms"),
            (12_345.0, "12.3 ms"),
            (1_234_567.0, "1235 ms"),
        ] {
            assert_eq!(milliseconds(micros), text);
        }
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(12_345.0), "12.3 kB");
        assert_eq!(bytes(3.2e6), "3.20 MB");
    }
}
