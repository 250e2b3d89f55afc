//! What was simulated, as JSON and as tables.
//!
//! Invariant: each says that nobody measured it, what it assumes and what it leaves out.

use serde::Serialize;
use tandem_report::split_row::Delivery as Way;
use tandem_split_sim::{Calibration, Scenario, SizeCost, Unfit, WITHIN};
use tandem_testbed::LabError;

use super::calibration::Calibrated;
use super::plan::Group;
use super::validation::{Pair, Validation};
use super::{IN_TIME, Run, SplitSimOptions};

/// What stands before the runs.
#[derive(Serialize)]
struct Head<'a> {
    what: &'a str,
    seed: u64,
    clients: u32,
    volunteers: u32,
    calibration: &'a Calibrated,
    validation: &'a Validation,
}

/// Where the figures come from, in one line.
pub(super) fn source(calibrated: &Calibrated) -> String {
    format!(
        "calibrated by {}: {} rows of the part sizes, {} of the part latency",
        calibrated.file, calibrated.size_rows, calibrated.latency_rows
    )
}

/// Everything, a run a line.
///
/// # Errors
/// `Io`.
pub(super) fn json(
    options: &SplitSimOptions,
    calibrated: &Calibrated,
    validation: &Validation,
    runs: &[Run],
) -> Result<String, LabError> {
    let head = Head {
        what: "a simulation by tandem lab split-sim; only calibration and validation have measured figures",
        seed: options.seed,
        clients: options.clients,
        volunteers: options.volunteers,
        calibration: calibrated,
        validation,
    };
    let failed = |error: serde_json::Error| LabError::io("write JSON")(error.into());
    let head = serde_json::to_string(&head).map_err(failed)?;
    let runs = runs.iter().map(serde_json::to_string);
    let runs = runs.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    // The head's closing brace comes after the runs.
    let open = head.strip_suffix('}').unwrap_or(&head);
    Ok(format!("{open},\"runs\":[\n{}\n]}}\n", runs.join(",\n")))
}

/// The page with tables.
///
/// # Errors
/// [`Unfit`], for a page that was not simulated either.
pub(super) fn markdown(
    options: &SplitSimOptions,
    calibrated: &Calibrated,
    validation: &Validation,
    runs: &[Run],
) -> Result<String, Unfit> {
    let Some(first) = runs.first().map(|run| &run.planned.scenario) else {
        return Ok(String::new());
    };
    let mut text = format!(
        "# SSL splitting with very many clients: a simulation\n\n\
         **Nobody measured this.** `tandem lab split-sim` simulated it: {} clients want one page of {} ({}) from a \
         site whose origin has a line of {} kbit/s, and up to {} volunteers. Seed {}. What it is calibrated by, what \
         it assumes and what it leaves out stands [below](#the-model).\n\n",
        grouped(options.clients.into()),
        bytes(first.page.iter().sum()),
        first
            .page
            .iter()
            .map(|body| bytes(*body))
            .collect::<Vec<_>>()
            .join(", "),
        first.line_bits / 1000,
        grouped(options.volunteers.into()),
        options.seed,
    );
    text.push_str(&capacity(first, &calibrated.figures)?);
    for (group, title) in [
        (Group::Flash, "A flash crowd: all within 10 minutes"),
        (Group::Spread, "The same crowd within 12 hours"),
    ] {
        text.push_str(&compared(title, group, runs));
    }
    text.push_str("![Share of clients served within 30 s, against the rate of the line](plots/split-simulation-line.svg)\n\n");
    text.push_str("![What the line carries within 12 hours](plots/split-simulation-time.svg)\n\n");
    for (group, title) in [
        (Group::Crowd, "By the time within which the crowd comes"),
        (Group::Line, "The flash crowd, by the origin's line"),
        (Group::Volunteers, "By the number of volunteers"),
        (Group::Assumptions, "By what is assumed"),
    ] {
        text.push_str(&sweep(title, group, runs));
    }
    text.push_str(&model(first, calibrated));
    text.push_str(&checked(calibrated, validation));
    Ok(text)
}

/// What the line can carry at best.
fn capacity(scenario: &Scenario, figures: &Calibration) -> Result<String, Unfit> {
    let page = |of: fn(SizeCost) -> u64| {
        let costs = scenario.page.iter().map(|body| figures.cost(*body).map(of));
        costs.sum::<Result<u64, Unfit>>()
    };
    let line = |name: &str, bytes: u64| {
        let hour = scenario.line_bits as f64 / 8.0 * 3600.0 / bytes as f64;
        vec![name.to_owned(), grouped(bytes), grouped(hour as u64)]
    };
    let lines = vec![
        line("HTTPS", page(|cost| cost.https)?),
        line("volunteer that lacks the page", page(|cost| cost.cold)?),
        line("volunteer that has the page", page(|cost| cost.warm)?),
    ];
    Ok(table(
        "What the line can carry",
        "Arithmetic with measured bytes: no waiting, nobody gives up, each body over a connection of its own.",
        &[
            "a client gets the page by",
            "bytes on the origin's line",
            "clients each hour at most",
        ],
        1,
        lines,
    ))
}

/// All deliveries beside each other.
fn compared(title: &str, group: Group, runs: &[Run]) -> String {
    let here = || runs.iter().filter(move |run| run.planned.group == group);
    let within = WITHIN.map(|seconds| format!("within {seconds} s"));
    let mut columns = vec!["", "served"];
    columns.extend(within.iter().map(String::as_str));
    columns.extend(["median s", "99 % s"]);
    let clients = here().map(|run| {
        let outcome = &run.outcome;
        let all = f64::from(run.planned.scenario.clients);
        let mut line = vec![run.planned.name.clone()];
        line.push(share(f64::from(outcome.served) / all));
        line.extend(outcome.served_within.map(share));
        line.push(
            outcome
                .latency
                .map_or_else(absent, |took| seconds(took.p50)),
        );
        line.push(
            outcome
                .latency
                .map_or_else(absent, |took| seconds(took.p99)),
        );
        line
    });
    let mut text = table(
        title,
        "Shares of all clients that got the whole page; times are of those.",
        &columns,
        1,
        clients.collect(),
    );
    let line = here().map(|run| {
        let outcome = &run.outcome;
        let rate = run.planned.scenario.line_bits as f64 / 8.0;
        let pieces = outcome.pieces;
        let needed = pieces.held + pieces.coming + pieces.from_peers + pieces.from_origin;
        let held = if needed == 0 {
            absent()
        } else {
            share(pieces.held as f64 / needed as f64)
        };
        vec![
            run.planned.name.clone(),
            megabytes(outcome.line.total()),
            megabytes(outcome.line.misses),
            megabytes(outcome.line.in_vain),
            share(outcome.line_busy),
            seconds(outcome.max_waiting_bytes as f64 / rate),
            grouped(outcome.refused_by_origin),
            grouped(outcome.volunteers_used.into()),
            held,
            grouped(pieces.from_peers),
            grouped(pieces.from_origin),
        ]
    });
    text.push_str(&bare_table(
        "MB on the origin's line, those of pieces that volunteers lacked, and those for nobody: for clients that gave \
         up, or pieces that came too late. The longest queue in seconds of the line. Connections for which the origin \
         had no place. Volunteers that served somebody; of the pieces that they needed, the share that they held, and \
         how often another volunteer gave one and the origin was asked for one.",
        &[
            "", "MB", "pieces", "in vain", "busy", "queue s", "refused", "volunteers", "held", "of peers", "of origin",
        ],
        1,
        line.collect(),
    ));
    text
}

/// Runs that differ in one thing.
fn sweep(title: &str, group: Group, runs: &[Run]) -> String {
    let here = runs.iter().filter(|run| run.planned.group == group);
    let lines = here.map(|run| {
        let outcome = &run.outcome;
        let all = f64::from(run.planned.scenario.clients);
        vec![
            run.planned.variant.clone(),
            run.planned.name.clone(),
            share(f64::from(outcome.served) / all),
            share(outcome.served_within[IN_TIME]),
            outcome
                .latency
                .map_or_else(absent, |took| seconds(took.p50)),
            megabytes(outcome.line.total()),
            megabytes(outcome.line.misses),
            megabytes(outcome.line.in_vain),
            share(outcome.line_busy),
        ]
    });
    let within = format!("within {} s", WITHIN[IN_TIME]);
    let columns = [
        "",
        "",
        "served",
        within.as_str(),
        "median s",
        "MB",
        "pieces",
        "in vain",
        "busy",
    ];
    table(title, "Columns as above.", &columns, 2, lines.collect())
}

/// What is measured, what is assumed, what is left out.
fn model(scenario: &Scenario, calibrated: &Calibrated) -> String {
    let rules = scenario.rules;
    let figures = &calibrated.figures;
    format!(
        "## The model\n\n\
         **Measured** ({file}; sound rows only):\n\n\
         - Bytes that leave the origin for a body, by its size: medians of `link_bytes_down` in the part `sizes` ({size_rows} \
         rows), straight lines between measured sizes. A connection and a full handshake for each body.\n\
         - What a request takes beside the time of these bytes: medians in the part `latency` ({latency_rows} rows, over \
         {link}): {https:.3} s by HTTPS, {warm:.3} s through a volunteer that has the body, {cold:.3} s through one that \
         lacks it.\n\
         - A volunteer sends {volunteer} kB/s, and the origin's line is {line} kbit/s: the lab's own settings in the parts \
         `scaling` and `latency`.\n\n\
         **As the programs do it** (docs/splitting.md and the code): the origin's places ({origin_places}; HTTPS has as many \
         here) and a volunteer's ({volunteer_places}); two owners for each piece of {piece} bytes, by rendezvous hashing over \
         the members; the first {ahead} pieces of a megabyte with its list; {min_patience} to {max_patience} s of patience with \
         another volunteer that says nothing, twice as long as the origin usually takes, then the origin is asked; one that \
         fetches from the origin is waited for as long as something comes to it each {next_word} s, {word} s if it gives \
         nothing and {wait} s for one piece; who was silent is not asked for {passed} s, who was waited for in vain for \
         {promised} s; a volunteer that has gone leaves DNS after {unlisted} s and the members' list after {forgotten} s, one \
         that has come is in DNS after {listed} s.\n\n\
         **Assumed**, and no more than plausible:\n\n\
         - Clients come at any moment of the crowd's time with equal probability. Each waits for the whole page, \
         exponentially with a mean of {patience} s, and does not come back. It goes to a volunteer at random and stays there. \
         The first body comes alone, then all others at once. One that gets no place tries again after {retry} s; one that \
         meets a volunteer that is gone takes {dead} s to try another.\n\
         - *Churn*: sessions have a mean of an hour, absences of 20 minutes (exponential), so three quarters of the volunteers \
         are there; those that are there at first begin a session then. Sessions are spread as Weibull with shape 1/2: \
         Stutzbach and Rejaie (Understanding Churn in Peer-to-Peer Networks, IMC 2006) fit three BitTorrent swarms with shapes of 0.34, 0.38 and 0.59. Theirs are file sharers, not \
         volunteers of a site. All go without a word.\n\
         - Lines are shared in turns: at the origin's, {quantum} bytes for each volunteer's clients and for what each volunteer \
         lacks; within these first come, first served; by HTTPS each connection has its turns. A round trip between volunteers \
         takes {peer} s.\n\n\
         **Left out**: packets, loss and TCP's own behaviour in a queue of minutes, which makes an overloaded line worse (see \
         the last table); resumed sessions and connections that are used again, which make it better; the distance between \
         clients and volunteers; what clients send; time-outs of programs and browsers; processors; caches of resolvers, \
         which send many clients to one volunteer; how places are shared out among networks; health checks; clients that lie, \
         volunteers that do; other traffic on any line. A body passes to the client when the origin's part of it has come as a \
         whole.\n\n",
        file = calibrated.file,
        size_rows = calibrated.size_rows,
        latency_rows = calibrated.latency_rows,
        link = calibrated.link,
        https = figures.https_seconds,
        warm = figures.warm_seconds,
        cold = figures.cold_seconds,
        volunteer = scenario.volunteer_bits / 8000,
        line = scenario.line_bits / 1000,
        origin_places = grouped(rules.origin_places.into()),
        volunteer_places = grouped(rules.volunteer_places.into()),
        piece = grouped(rules.piece_bytes),
        ahead = rules.pieces_with_list,
        min_patience = rules.min_peer_patience,
        max_patience = rules.max_peer_patience,
        next_word = rules.next_word_seconds,
        word = rules.peer_word_seconds,
        wait = rules.max_peer_wait_seconds,
        passed = rules.passed_over_seconds,
        promised = rules.promised_seconds,
        unlisted = rules.unlisted_after_seconds,
        forgotten = rules.forgotten_after_seconds,
        listed = rules.listed_after_seconds,
        patience = scenario.patience_seconds,
        retry = rules.retry_seconds,
        dead = rules.dead_address_seconds,
        peer = rules.peer_seconds,
        quantum = grouped(rules.origin_quantum),
    )
}

/// The simulation beside what the lab measured.
fn checked(calibrated: &Calibrated, validation: &Validation) -> String {
    let mut lines = Vec::new();
    for way in [Way::Https, Way::Cold, Way::Warm] {
        if let Some((seconds, bytes)) = validation.median_ratios(way) {
            let count = validation.singles.iter().filter(|one| one.delivery == way);
            lines.push(vec![
                format!("{} files one at a time, {}", count.count(), way.label()),
                absent(),
                absent(),
                share(seconds),
                absent(),
                absent(),
                share(bytes),
            ]);
        }
    }
    for crew in &validation.crews {
        let pair = |pair: Pair, written: fn(f64) -> String| {
            let both = [written(pair.measured), written(pair.simulated)];
            both.into_iter().chain([share(pair.ratio())])
        };
        let mut line = vec![format!(
            "1 MB twice, volunteers at once: {}",
            crew.volunteers
        )];
        line.extend(pair(crew.seconds, seconds));
        line.extend(pair(crew.bytes, |figure| grouped(figure as u64)));
        lines.push(line);
    }
    table(
        "Checked against the lab",
        &format!(
            "The lab's own set-ups over {}, simulated: parts `latency` (medians of the ratios; the calibration's seconds are from \
             there, its bytes are not) and `scaling` (nothing of the calibration is from there). With {} volunteers at once the \
             line carried {:.2} times the bytes of requests made one at a time, in more packets, of which none was dropped: TCP \
             repeats what waits for long. The simulation leaves that out; the last two lines of \"By what is assumed\" show what \
             it would change.",
            calibrated.link, calibrated.crowd.volunteers, calibrated.crowd.proofs
        ),
        &[
            "",
            "s measured",
            "s simulated",
            "of measured",
            "bytes measured",
            "bytes simulated",
            "of measured",
        ],
        1,
        lines,
    )
}

/// A table under a heading.
fn table(
    title: &str,
    note: &str,
    columns: &[&str],
    words: usize,
    lines: Vec<Vec<String>>,
) -> String {
    format!("## {title}\n\n{}", bare_table(note, columns, words, lines))
}

/// A table; so many columns from the left are words.
fn bare_table(note: &str, columns: &[&str], words: usize, lines: Vec<Vec<String>>) -> String {
    let rule = |column| if column < words { "---" } else { "--:" };
    let rule: Vec<&str> = (0..columns.len()).map(rule).collect();
    let mut text = format!(
        "{note}\n\n| {} |\n| {} |\n",
        columns.join(" | "),
        rule.join(" | ")
    );
    for line in lines {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
    }
    text.push('\n');
    text
}

fn absent() -> String {
    "–".to_owned()
}

/// Per cent, with as many digits as mean something.
fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        "0".to_owned()
    } else if percent < 0.005 {
        "< 0.01 %".to_owned()
    } else if percent < 1.0 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        100.0.. => grouped(seconds.round() as u64),
        10.0.. => format!("{seconds:.1}"),
        _ => format!("{seconds:.2}"),
    }
}

fn megabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    match megabytes {
        100.0.. => grouped(megabytes.round() as u64),
        _ => format!("{megabytes:.1}"),
    }
}

/// `300 B`, `30 kB`, `1 MB`.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes as f64 / 1e3),
        _ => format!("{} MB", bytes as f64 / 1e6),
    }
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_mean_something() {
        assert_eq!([0.0, 1e-5, 0.948].map(share), ["0", "< 0.01 %", "94.8 %"]);
        assert_eq!(
            [2.684, 12.34, 1_234.5].map(seconds),
            ["2.68", "12.3", "1,235"]
        );
        assert_eq!([470_000, 870_250_500].map(megabytes), ["0.5", "870"]);
        assert_eq!(
            [100, 10_000, 1_000_000].map(bytes),
            ["100 B", "10 kB", "1 MB"]
        );
        assert_eq!([7, 1_234_567].map(grouped), ["7", "1,234,567"]);
    }
}
