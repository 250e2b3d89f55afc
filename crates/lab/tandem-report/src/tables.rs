//! `tables.md`: every figure as Markdown, for `docs/results`.
//!
//! The same figures as the page's, with quartiles throughout. Names cannot break a table: vertical
//! bars and line breaks in them are replaced.

use std::fmt::Write as _;

use super::cases::{ArmFigures, Case, Measure};
use super::headline::Headline;
use super::input::{Input, Run};
use super::markdown::plain_text;
use super::number::{self, ABSENT};
use super::totals::Totals;
use super::verdict::BarResult;
use super::{apart, caveats, crowds, peers, profile, situations, splitting};
use crate::stats::Spread;

/// The document.
pub(crate) fn tables(input: &Input, cases: &[Case], bars: &[BarResult]) -> String {
    let runs = &input.runs;
    let mut out = String::from("# Results of the lab\n\n");
    let headline = Headline::of(cases);
    line(
        &mut out,
        &format!(
            "{}\n{}\n",
            plain_text(&headline.sentence),
            plain_text(&headline.details)
        ),
    );
    line(&mut out, &format!("{}\n", Totals::of(input).in_words()));
    line(
        &mut out,
        "| run | date (UTC) | machine | programs |\n|---|---|---|---|",
    );
    let measured = runs.iter().chain(&input.staged).chain(&input.crowds);
    let measured = measured.map(|run| (run.name.as_str(), run.info.as_ref()));
    let splitting = (!input.splitting.is_empty())
        .then_some((crate::split_row::ROWS, input.splitting_info.as_ref()));
    let others = input.others.iter();
    let others = others.map(|other| (other.name.as_str(), other.info.as_ref()));
    for (name, info) in measured.chain(splitting).chain(others) {
        let unknown = || ("not recorded".to_owned(), "not recorded", String::new());
        let (date, machine, programs) = info.map_or_else(unknown, |info| {
            let programs = info.programs.iter();
            let programs: Vec<String> = programs
                .map(|program| format!("{} {}", program.name, program.version))
                .collect();
            (info.period(), info.machine.as_str(), programs.join(", "))
        });
        row(&mut out, &[name, &date, machine, &programs]);
    }
    links(
        &mut out,
        runs.iter().chain(&input.staged).chain(&input.crowds),
    );
    line(&mut out, "\n## Bars\n");
    line(
        &mut out,
        "| what | case | measured | bar | target | thesis | verdict | worst case |\n|---|---|--:|--:|--:|--:|---|---|",
    );
    for bar in bars {
        let figure = |figure: Option<f64>| {
            figure.map_or_else(|| ABSENT.to_owned(), |figure| bar.in_words(figure))
        };
        row(
            &mut out,
            &[
                bar.what,
                bar.case,
                &figure(bar.measured),
                &bar.bar_in_words(),
                &figure(bar.target),
                bar.thesis.unwrap_or(ABSENT),
                &bar.verdict(),
                &bar.note,
            ],
        );
    }
    let mut experiment = None;
    for case in cases {
        if experiment != Some((&case.run, &case.experiment)) {
            experiment = Some((&case.run, &case.experiment));
            line(
                &mut out,
                &format!(
                    "\n## {} ({})",
                    plain_text(&case.experiment),
                    plain_text(&case.run)
                ),
            );
        }
        table(&mut out, case);
    }
    line(
        &mut out,
        "\nMedians, with quartiles in brackets where they differ. “of plain” is the ratio of medians within the run.",
    );
    let parts = apart::markdown(cases);
    if !parts.is_empty() {
        line(&mut out, "\n## What the bytes of a handshake are\n");
        out.push_str(&parts);
    }
    let profile = profile::markdown(input);
    if !profile.is_empty() {
        let about = profile::ABOUT;
        line(
            &mut out,
            &format!("\n## Where the proxies' time goes (section 4.2)\n\n{about}\n"),
        );
        out.push_str(&profile);
    }
    let peers = peers::markdown(cases);
    if !peers.is_empty() {
        line(&mut out, &format!("\n## Peers\n\n{}", peers::ABOUT));
        out.push_str(&peers);
    }
    for run in &input.staged {
        line(&mut out, &format!("\n## {}\n", plain_text(&run.name)));
        out.push_str(&situations::markdown(&run.rows));
    }
    for run in &input.crowds {
        line(&mut out, &format!("\n## {}\n", plain_text(&run.name)));
        out.push_str(&crowds::markdown(&run.rows));
    }
    if !input.splitting.is_empty() {
        line(
            &mut out,
            &format!("\n## SSL splitting ({})\n", crate::split_row::ROWS),
        );
        out.push_str(&splitting::markdown(&input.splitting).replace("## ", "### "));
    }
    let mctls = super::mctls::tables(&input.mctls);
    if !mctls.is_empty() {
        line(
            &mut out,
            &format!("\n## Multi-context TLS ({})\n", crate::mctls_row::ROWS),
        );
        for table in mctls {
            out.push_str(&table.markdown().replace("## ", "### "));
        }
    }
    let cost = super::cost::tables(&input.cost);
    if !cost.is_empty() {
        line(
            &mut out,
            &format!(
                "\n## What TLS costs at servers ({})\n",
                crate::cost_row::ROWS
            ),
        );
        for table in cost {
            out.push_str(&table.markdown().replace("## ", "### "));
        }
    }
    list(&mut out, "Method", &caveats::METHOD.map(str::to_owned));
    list(&mut out, "Limits", &caveats::limits(runs, cases));
    let failures = caveats::failures(cases);
    if !failures.is_empty() {
        list(&mut out, "Failures", &failures);
    }
    out
}

fn links<'a>(out: &mut String, runs: impl Iterator<Item = &'a Run>) {
    let mut known: Vec<(&str, &str, &str)> = Vec::new();
    for link in runs
        .filter_map(|run| run.info.as_ref())
        .flat_map(|info| &info.links)
    {
        let link = (
            link.name.as_str(),
            link.description.as_str(),
            link.source.as_str(),
        );
        if !known.contains(&link) {
            known.push(link);
        }
    }
    if known.is_empty() {
        return;
    }
    line(out, "\n| link | rates and delay | from |\n|---|---|---|");
    for (name, description, source) in known {
        row(out, &[name, description, source]);
    }
}

fn table(out: &mut String, case: &Case) {
    line(
        out,
        &format!(
            "\n### {}, {}\n\nTLS {}, {}, chain of {} ({} bytes)\n",
            plain_text(&case.link),
            plain_text(&case.endpoints),
            plain_text(&case.version),
            plain_text(&case.key),
            case.certificates.len(),
            number::count(case.certificate_bytes() as f64)
        ),
    );
    line(
        out,
        "| arm | first byte, s | of plain | handshake, s | TLS bytes | of plain | link bytes | of plain | packets | bytes over floor | × floor | CPU of proxies, µs | memory, KiB | trials | failed | differing |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    );
    for arm in &case.arms {
        row(out, &cells(case, arm).each_ref().map(String::as_str));
    }
}

fn cells(case: &Case, arm: &ArmFigures) -> [String; 16] {
    let with = |measure, write: fn(f64) -> String| in_brackets(arm.spread(measure), write);
    let median = |measure, write: fn(f64) -> String| {
        arm.spread(measure)
            .map_or_else(|| ABSENT.to_owned(), |spread| write(spread.median))
    };
    let of_plain = |measure| {
        case.ratio(arm.arm, measure)
            .map_or_else(|| ABSENT.to_owned(), number::percent)
    };
    [
        arm.arm.look().label.to_owned(),
        with(Measure::FirstByte, number::seconds),
        of_plain(Measure::FirstByte),
        with(Measure::Handshake, number::seconds),
        with(Measure::TlsBytes, number::count),
        of_plain(Measure::TlsBytes),
        with(Measure::LinkBytes, number::count),
        of_plain(Measure::LinkBytes),
        with(Measure::Packets, number::count),
        median(Measure::OverFloor, number::count),
        median(Measure::FloorRatio, |ratio| format!("{ratio:.2}")),
        with(Measure::Cpu, number::count),
        median(Measure::Memory, number::count),
        arm.trials.to_string(),
        arm.failed.to_string(),
        arm.differing.to_string(),
    ]
}

/// "9.81 (9.80–9.82)", or the median alone where the quartiles read the same.
fn in_brackets(spread: Option<Spread>, write: fn(f64) -> String) -> String {
    let Some(spread) = spread else {
        return ABSENT.to_owned();
    };
    let (lower, median, upper) = (write(spread.low), write(spread.median), write(spread.high));
    if lower == upper {
        median
    } else {
        format!("{median} ({lower}–{upper})")
    }
}

fn list(out: &mut String, heading: &str, items: &[String]) {
    line(out, &format!("\n## {heading}\n"));
    for item in items {
        line(out, &format!("- {}", plain_text(item)));
    }
}

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| plain_text(cell)).collect();
    line(out, &format!("| {} |", cells.join(" | ")));
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::super::synthetic;
    use super::super::{bars, cases::cases};
    use super::*;

    fn document(rows: Vec<crate::row::Row>) -> String {
        let runs = [Run {
            name: "rows.jsonl".to_owned(),
            rows,
            info: None,
        }];
        let input = Input {
            runs: runs.to_vec(),
            ..Input::default()
        };
        let cases = cases(&input.runs);
        tables(&input, &cases, &bars::check(&cases, &[], &[]))
    }

    #[test]
    fn every_arm_of_every_case_has_a_row_of_all_columns() {
        let text = document(synthetic::rows());
        assert!(text.contains("### iridium, three"));
        let arms: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("| packet, warm |"))
            .collect();
        assert_eq!(
            arms.len(),
            synthetic::LINKS.len() * synthetic::ENDPOINTS.len()
        );
        assert!(
            arms.iter().all(|line| line.matches('|').count() == 17),
            "{arms:?}"
        );
    }

    #[test]
    fn medians_come_with_quartiles_where_these_differ() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(
            in_brackets(spread(&[9.0, 9.5, 10.0, 10.5, 11.0]), number::seconds),
            "10.00 (9.50–10.50)"
        );
        assert_eq!(in_brackets(spread(&[3412.0; 3]), number::count), "3,412");
        assert_eq!(in_brackets(None, number::count), "–");
    }

    #[test]
    fn names_cannot_break_a_table() {
        let mut rows = synthetic::arm_rows("a|b\n<c>", "one", crate::arm::Arm::Plain, &[1.0]);
        rows[0].ok = false;
        rows[0].error = Some("x | y\nz".to_owned());
        let text = document(rows);
        assert!(text.contains("### a¦b &lt;c>, one"), "{text}");
        assert!(text.contains("first: x ¦ y z"), "{text}");
    }
}
