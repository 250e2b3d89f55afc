//! One client at one job, or before one kind of harm: what came of it, and whether that is right.
//!
//! Invariants: no client may take a wrong byte for a right one, nor a part for the whole; what it
//! had until it saw the harm is a beginning of the right bytes.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use tandem_testbed::LabError;

use super::clients::Client;
use super::files::digits;
use super::harm::Harm;
use super::job::{self, Job};
use super::site::{Counts, HOST, OTHER_HOST, Site};
use super::task::{Answer, Outcome, Task, Then, Tools};

/// Longest that a client may take for a job.
const LIMIT: Duration = Duration::from_secs(120);
/// How long one waits that is served nothing more.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the origin may take to count what has happened.
const COUNTED_IN: Duration = Duration::from_secs(5);

/// What a volunteer does that is not honest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trick {
    Record(Harm),
    Swap,
    OtherSite,
}

impl Trick {
    pub(super) const ALL: [Self; 8] = [
        Self::Record(Harm::Flip),
        Self::Record(Harm::Drop),
        Self::Record(Harm::Reorder),
        Self::Record(Harm::Replay),
        Self::Record(Harm::Truncate),
        Self::Swap,
        Self::Record(Harm::Stall),
        Self::OtherSite,
    ];

    /// What tables call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Record(Harm::Flip) => "flips a bit",
            Self::Record(Harm::Drop) => "drops",
            Self::Record(Harm::Reorder) => "reorders",
            Self::Record(Harm::Replay) => "replays",
            Self::Record(Harm::Truncate) => "truncates",
            Self::Swap => "swaps payloads",
            Self::Record(Harm::Stall) => "stalls",
            Self::OtherSite => "for another site",
        }
    }

    /// Whether a client can say, by an alert, that this has happened.
    fn can_be_told(self) -> bool {
        match self {
            Self::Record(Harm::Flip | Harm::Drop | Harm::Reorder | Harm::Replay) | Self::Swap => {
                true
            }
            Self::Record(Harm::Truncate | Harm::Stall) | Self::OtherSite => false,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The job is done, every byte right.
    Works,
    /// The client saw that something is wrong, or went on waiting, with nothing wrong taken for
    /// right.
    Refused,
    /// The client cannot do this, whoever serves.
    Cannot,
    /// The client is not installed.
    NotInstalled,
    /// The job is not done.
    Fails,
    /// The client took something wrong for right.
    Deceived,
    /// The origin should have counted it and has not.
    Uncounted,
}

impl Verdict {
    /// Whether splitting is at fault.
    pub(crate) fn is_fault(self) -> bool {
        match self {
            Self::Works | Self::Refused | Self::Cannot | Self::NotInstalled => false,
            Self::Fails | Self::Deceived | Self::Uncounted => true,
        }
    }
}

/// By what the origin knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Counted {
    /// The client's alert about a record.
    Alert,
    /// The name in the client's hello.
    Name,
    /// The client went away without a word, or nobody took the rest of an answer.
    Silence,
    /// Nothing: it looks like a connection that ends well.
    Nothing,
}

/// One of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) client: String,
    /// The client's version.
    pub(crate) version: Option<String>,
    /// `honest` or what the volunteer does.
    pub(crate) volunteer: String,
    /// The job.
    pub(crate) job: String,
    pub(crate) verdict: Verdict,
    pub(crate) counted: Option<Counted>,
    /// Bytes of the body that the client had when it saw the harm.
    pub(crate) prefix_bytes: Option<usize>,
    /// What a browser says of the connection's security.
    pub(crate) security: Option<String>,
    /// Why it is so, in the client's words or ours.
    pub(crate) why: String,
    pub(crate) seconds: f64,
}

impl Cell {
    pub(super) fn untried(
        client: Client,
        volunteer: &str,
        job: &str,
        verdict: Verdict,
        why: &str,
    ) -> Self {
        Self {
            client: client.name().to_owned(),
            version: None,
            volunteer: volunteer.to_owned(),
            job: job.to_owned(),
            verdict,
            counted: None,
            prefix_bytes: None,
            security: None,
            why: why.to_owned(),
            seconds: 0.0,
        }
    }

    /// An honest volunteer.
    pub(super) fn job(
        client: Client,
        job: Job,
        site: &Site,
        tools: &Tools,
    ) -> Result<Self, LabError> {
        let begun = Instant::now();
        let before = site.counts();
        let task = Task {
            at: site.volunteer,
            host: HOST,
            job,
            path: job.path(),
            limit: LIMIT,
            then: Then::Close,
        };
        let outcome = client.run(&task, tools)?;
        let wrong = wrong(client, job, &outcome).or_else(|| miscounted(job, before, site));
        let verdict = match wrong {
            None => Verdict::Works,
            Some(_) => Verdict::Fails,
        };
        Ok(Self {
            security: outcome.security,
            seconds: begun.elapsed().as_secs_f64(),
            why: wrong
                .map(|wrong| format!("{wrong} {}", outcome.words))
                .unwrap_or_default(),
            ..Self::untried(client, "honest", job.name(), verdict, "")
        })
    }

    /// A volunteer that is not.
    pub(super) fn trick(
        client: Client,
        trick: Trick,
        site: &Site,
        tools: &Tools,
    ) -> Result<Self, LabError> {
        let begun = Instant::now();
        let (at, host) = match trick {
            Trick::Record(harm) => (site.harmed(harm)?, HOST),
            Trick::Swap => (site.swapping, HOST),
            Trick::OtherSite => (site.volunteer, OTHER_HOST),
        };
        let task = |seed: u64| Task {
            at,
            host,
            job: Job::Large,
            path: job::path(seed),
            limit: match trick {
                Trick::Record(Harm::Stall) => PATIENCE + client.start_up(),
                Trick::Record(_) | Trick::Swap | Trick::OtherSite => LIMIT,
            },
            then: Then::Stay,
        };
        let seed = job::OTHER_SEED;
        if trick == Trick::Swap {
            // The double learns one file, and then puts it under the other's MACs.
            site.swapper.learn();
            let learned = Task {
                then: Then::Close,
                ..task(seed + 1)
            };
            client.run(&learned, tools)?;
            site.swapper.swap();
        }
        let before = site.counts();
        let outcome = client.run(&task(seed), tools)?;
        let whole = job::file(seed);
        let taken = outcome.answers.first();
        let is_deceived = outcome.answers.iter().any(|answer| {
            let is_right = whole
                .get(..answer.len)
                .is_some_and(|begin| digits(begin) == answer.sha256);
            answer.is_whole || !is_right
        });
        let is_told = trick.can_be_told() && client.tells();
        let counted = counted(is_told, before, site);
        // Who never came to the harm has refused nothing.
        let has_asked = site.counts().requests > before.requests;
        let verdict = if is_deceived {
            Verdict::Deceived
        } else if !has_asked && trick != Trick::OtherSite {
            Verdict::Fails
        } else if is_told && counted != Counted::Alert
            || trick == Trick::OtherSite && counted != Counted::Name
        {
            Verdict::Uncounted
        } else {
            Verdict::Refused
        };
        Ok(Self {
            counted: Some(counted),
            prefix_bytes: taken.map(|answer| answer.len),
            seconds: begun.elapsed().as_secs_f64(),
            ..Self::untried(client, trick.name(), "2 MB", verdict, &outcome.words)
        })
    }
}

/// What of the answers is not as it should be.
fn wrong(client: Client, job: Job, outcome: &Outcome) -> Option<String> {
    let expected = job.expected();
    let right = Answer::of(expected.status, &expected.body, true);
    let (got, times) = (outcome.answers.len(), client.answers(job));
    if got != times {
        return Some(format!("{got} answers of {times}."));
    }
    let bad = outcome.answers.iter().find(|answer| **answer != right)?;
    Some(format!(
        "{} with {} bytes, {} ({} with {} were to come).",
        bad.status,
        bad.len,
        if bad.is_whole { "whole" } else { "cut" },
        right.status,
        right.len
    ))
}

/// What the origin should have seen of a job and has not.
fn miscounted(job: Job, before: Counts, site: &Site) -> Option<String> {
    let now = site.counts();
    let connections = now.connections - before.connections;
    let requests = now.requests - before.requests;
    if now.refused != before.refused {
        return Some("the client has refused a record.".to_owned());
    }
    match job {
        Job::Resume if now.resumed == before.resumed => Some(format!(
            "no session was resumed in {connections} connections."
        )),
        Job::Keep if requests < 3 || connections >= requests => Some(format!(
            "{connections} connections for {requests} requests."
        )),
        Job::Page
        | Job::Resume
        | Job::Keep
        | Job::Head
        | Job::NotModified
        | Job::Range
        | Job::Large
        | Job::Upload
        | Job::Chunked => None,
    }
}

/// Waits for the origin to know.
fn counted(is_told: bool, before: Counts, site: &Site) -> Counted {
    let begun = Instant::now();
    loop {
        let now = site.counts();
        if now.refused > before.refused {
            return Counted::Alert;
        }
        if now.misdirected > before.misdirected {
            return Counted::Name;
        }
        let is_silent = now.vanished > before.vanished || now.cut > before.cut;
        // Where an alert is to come, silence about another connection may come first.
        if is_silent && !is_told {
            return Counted::Silence;
        }
        if begun.elapsed() > COUNTED_IN {
            return if is_silent {
                Counted::Silence
            } else {
                Counted::Nothing
            };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
