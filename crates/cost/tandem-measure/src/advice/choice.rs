//! What a server can choose: version, group, cipher, means of resumption. Each was measured alone,
//! beside the server's own choice.

use super::{CHANCE, is_doubtful};
use crate::outcome::{Asked, Load, Outcome};

/// One thing that can be chosen.
struct Choice {
    name: &'static str,
    /// What was asked for.
    asked: fn(&Asked) -> Option<&String>,
    /// What the server chose by itself.
    chosen: fn(&Outcome) -> Option<&String>,
}

const CHOICES: [Choice; 3] = [
    Choice {
        name: "TLS version",
        asked: |asked| asked.tls.as_ref(),
        chosen: |outcome| outcome.server.tls.as_ref(),
    },
    Choice {
        name: "Group",
        asked: |asked| asked.group.as_ref(),
        chosen: |outcome| outcome.server.group.as_ref(),
    },
    Choice {
        name: "Cipher",
        asked: |asked| asked.cipher.as_ref(),
        chosen: |outcome| outcome.server.cipher_suite.as_ref(),
    },
];

/// A sentence for each thing of which several were measured.
pub(super) fn all(outcomes: &[&Outcome]) -> Vec<String> {
    let Some((first, others)) = outcomes.split_first() else {
        return Vec::new();
    };
    let spread = spread(first, others);
    let chance = spread.max(CHANCE);
    let compared = CHOICES
        .iter()
        .map(|choice| compare(choice, first, others, chance));
    let mut advice: Vec<String> = compared.flatten().collect();
    if spread > CHANCE && !advice.is_empty() {
        advice.insert(
            0,
            format!(
                "Runs with the same settings differed by {:.0} %: no smaller gain is told from \
                 chance. Measure for longer, or on machines without other work.",
                spread * 100.0
            ),
        );
    }
    advice
}

/// How far runs are apart that came to the same settings, as a part of the best: those that asked
/// for what the server chooses anyway.
fn spread(first: &Outcome, others: &[&Outcome]) -> f64 {
    let settings = |run: &Outcome| {
        let server = &run.server;
        let negotiated = [&server.tls, &server.group, &server.cipher_suite].map(Clone::clone);
        (negotiated, run.reuse, run.keep_alive)
    };
    let own = settings(first);
    let same = others.iter().filter(|run| settings(run) == own);
    let (mut least, mut most) = (worth(first), worth(first));
    for run in same {
        least = least.min(worth(run));
        most = most.max(worth(run));
    }
    match most > 0.0 {
        true => 1.0 - least / most,
        false => 0.0,
    }
}

fn compare(choice: &Choice, first: &Outcome, others: &[&Outcome], chance: f64) -> Option<String> {
    if (choice.asked)(&first.asked).is_some() {
        return None;
    }
    let is_alone = |asked: &Asked| {
        let asks = |other: &Choice| (other.asked)(asked).is_some();
        CHOICES.iter().filter(|other| asks(other)).count() == 1
    };
    let mut found: Vec<(&str, &Outcome)> = others
        .iter()
        .filter(|other| is_alone(&other.asked) && other.reuse == first.reuse)
        .filter(|other| other.keep_alive == first.keep_alive)
        .filter_map(|other| Some(((choice.asked)(&other.asked)?.as_str(), *other)))
        .collect();
    found.sort_by_key(|(name, _)| *name);
    if found.len() < 2 {
        return None;
    }
    if is_doubtful(first) {
        return Some(format!(
            "{}: what another one would bring is not known: a run was not steady, or the \
             generator was its limit. Measure again, with less load.",
            choice.name
        ));
    }
    let all: Vec<String> = found
        .iter()
        .map(|(name, run)| {
            let mark = if is_doubtful(run) { " (doubtful)" } else { "" };
            format!("{name} {:.1}{mark}", figure(run))
        })
        .collect();
    let all = all.join(", ");
    let own = (choice.chosen)(first).map_or("unknown", String::as_str);
    let proven = found.iter().filter(|(_, run)| !is_doubtful(run));
    let best = proven.max_by(|(_, a), (_, b)| worth(a).total_cmp(&worth(b)));
    let (unit, was) = (unit(first), figure(first));
    match best {
        Some((name, best)) if worth(best) - worth(first) > chance * worth(best) => Some(format!(
            "{}: {name} alone gave {:.1} {unit}, the server's own choice ({own}) {was:.1} ({:.1} \
             times). All: {all}.",
            choice.name,
            figure(best),
            worth(best) / worth(first).max(1e-9)
        )),
        _ => Some(format!(
            "{}: keep the server's own choice ({own}, {was:.1} {unit}); no other one gave more \
             than can be told from chance. All: {all}.",
            choice.name
        )),
    }
}

/// Whether each means of resumption works, where several were tried.
pub(super) fn means(outcomes: &[&Outcome]) -> Option<String> {
    let first = outcomes.first()?;
    let tried: Vec<&&Outcome> = outcomes
        .iter()
        .filter(|run| matches!(run.resumption.as_str(), "id" | "ticket"))
        .filter(|run| run.reuse.value() == 100 && run.asked == first.asked)
        .collect();
    if tried.len() < 2 {
        return None;
    }
    let by = |run: &Outcome| {
        let resumed = run.resumed_percent().unwrap_or_default();
        (run.resumption.clone(), resumed, figure(run))
    };
    let mut words = tried.iter().map(|run| by(run));
    let (name, resumed, rate) = words.next()?;
    let unit = unit(first);
    let mut text = format!(
        "Session reuse in TLS 1.2: by {name} resumed {resumed:.0} % of the connections and gave \
         {rate:.1} {unit}"
    );
    for (name, resumed, rate) in words {
        text.push_str(&format!(", by {name} {resumed:.0} % and {rate:.1}"));
    }
    let works = |run: &&&Outcome| run.counts.resumed * 2 > run.counts.connections;
    text.push_str(match tried.iter().filter(|run| works(run)).count() {
        count if count == tried.len() => ". Both work.",
        _ => ". Switch on the cache (id) or the tickets: not all clients have both.",
    });
    Some(text)
}

/// What a run is judged by: the rate of a closed loop, the mean latency of an open one.
fn figure(run: &Outcome) -> f64 {
    match run.load {
        Load::Connections(_) => run.connection_rate(),
        Load::Rate(_) => run.latency.mean / 1e3,
    }
}

fn unit(run: &Outcome) -> &'static str {
    match run.load {
        Load::Connections(_) => "connections a second",
        Load::Rate(_) => "ms in the mean",
    }
}

/// Larger is better.
fn worth(run: &Outcome) -> f64 {
    match run.load {
        Load::Connections(_) => figure(run),
        Load::Rate(_) => 1.0 / figure(run).max(1e-9),
    }
}
