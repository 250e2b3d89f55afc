//! The result of one run, in the form in which it is written as JSON. Times are microseconds unless
//! their name says seconds.

use std::time::Duration;

use serde::Serialize;

use crate::counts::Counts;
use crate::found::FoundRate;
use crate::limit::{Effort, Limit};
use crate::phase::{Kind, Phase};
use crate::reuse::Percent;

use crate::tally::Tally;
use crate::times::Percentiles;

/// How the load is made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// So many connections start a second, whatever becomes of those before.
    Rate(f64),
    /// So many connections at a time; the next starts when one is done.
    Connections(usize),
}

impl Load {
    /// For tables.
    #[must_use]
    pub fn says(self) -> String {
        match self {
            Self::Rate(rate) => format!("open loop, {rate} connections/s"),
            Self::Connections(1) => "closed loop, 1 connection".to_owned(),
            Self::Connections(number) => format!("closed loop, {number} connections"),
        }
    }
}

/// One phase of one kind; means of a connection or request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PhaseOutcome {
    /// Which.
    pub phase: Phase,
    /// Times.
    pub time: Percentiles,
    /// Bytes sent.
    pub sent: f64,
    /// Bytes received.
    pub received: f64,
    /// Round trips.
    pub round_trips: f64,
}

/// Connections, or requests, of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindOutcome {
    /// Which.
    pub kind: Kind,
    /// From the real start to the end of the answer.
    pub whole: Percentiles,
    /// Bytes of an answer before encryption, its head too; the mean.
    pub plain: f64,
    /// Those that occurred, in order.
    pub phases: Vec<PhaseOutcome>,
}

impl KindOutcome {
    /// One of its phases.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> Option<&PhaseOutcome> {
        self.phases.iter().find(|found| found.phase == phase)
    }
}

/// What the generator itself took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GeneratorCost {
    /// Its threads.
    pub threads: usize,
    /// Processor time of all of them, seconds.
    pub cpu_seconds: f64,
    /// The same for each connection, or where none was opened for each request.
    pub cpu_each: f64,
    /// Time in which they could have run and had no processor, seconds.
    pub waited_seconds: f64,
    /// How much later than intended connections started.
    pub late: Percentiles,
    /// Whose limit the figures show.
    pub limit: Limit,
}

/// What the server showed of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ServerFacts {
    /// Its address.
    pub address: String,
    /// The TLS version.
    pub tls: Option<String>,
    /// The cipher suite.
    pub cipher_suite: Option<String>,
    /// The group of the key agreement.
    pub group: Option<String>,
    /// The certificates that it sends, in its order.
    pub chain: Vec<CertificateFacts>,
    /// Bytes of the OCSP response that it sends with them (the staple).
    pub staple_bytes: usize,
    /// Whether it asked for the client certificate that was there to be given.
    pub asked_for_certificate: bool,
}

/// What connections were limited to, or had in addition, where that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The only TLS version.
    pub tls: Option<String>,
    /// The only group.
    pub group: Option<String>,
    /// The only cipher.
    pub cipher: Option<String>,
    /// A client certificate was there to be given.
    pub client_certificate: bool,
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertificateFacts {
    /// Its size, DER.
    pub bytes: usize,
    /// Whose it is.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// The kind of its key, with the size in bits.
    pub key: String,
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// What was asked for.
    pub url: String,
    /// How connections were made.
    pub load: Load,
    /// The share of connections that were to reuse a session.
    pub reuse: Percent,
    /// By which means they were to.
    pub resumption: String,
    /// What else was asked for.
    pub asked: Asked,
    /// Requests on a connection; none means as many as the server allows.
    pub keep_alive: Option<u32>,
    /// The mix of requests.
    pub mix: String,
    /// Of arrivals and requests.
    pub seed: u64,
    /// What the server showed.
    pub server: ServerFacts,
    /// How long it ran before, seconds.
    pub warm_up_seconds: f64,
    /// Whether it was steady by then.
    pub steady: bool,
    /// How long the measurement took, seconds; 0 where the server never answered.
    pub seconds: f64,
    /// In this time.
    #[serde(flatten)]
    pub counts: Counts,
    /// From the intended start to the end of the answer.
    pub latency: Percentiles,
    /// Full, resumed, kept open: those that occurred.
    pub kinds: Vec<KindOutcome>,
    /// The generator's own part.
    pub generator: GeneratorCost,
    /// How the rate was found, where it was searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub find_rate: Option<FoundRate>,
    /// Warm-up and the end together, to be held against the server's own counts.
    pub whole_run: Counts,
    /// Points of the latencies' cumulative curve: share, microseconds.
    #[serde(skip)]
    pub curve: Vec<(f64, u64)>,
}

impl Outcome {
    /// Whether no request was answered in the whole run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.whole_run.requests == 0
    }

    /// Of one kind; `None` where there was none.
    #[must_use]
    pub fn kind(&self, kind: Kind) -> Option<&KindOutcome> {
        self.kinds.iter().find(|found| found.kind == kind)
    }

    /// What distinguishes it from other runs at the same server, for tables.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = format!("{} % reuse", self.reuse.value());
        if self.reuse > Percent::ZERO && self.resumption != "any" {
            label.push_str(&format!(" ({})", self.resumption));
        }
        let asked = &self.asked;
        if let Some(version) = &asked.tls {
            label.push_str(&format!(", TLS {version}"));
        }
        for part in [&asked.group, &asked.cipher].into_iter().flatten() {
            label.push_str(&format!(", {part}"));
        }
        match self.keep_alive {
            Some(1) => {}
            Some(requests) => label.push_str(&format!(", {requests} requests each")),
            None => label.push_str(", kept open"),
        }
        label
    }

    /// Connections a second.
    #[must_use]
    pub fn connection_rate(&self) -> f64 {
        self.per_second(self.counts.connections)
    }

    /// Requests a second.
    #[must_use]
    pub fn request_rate(&self) -> f64 {
        self.per_second(self.counts.requests)
    }

    /// The part of the connections with TLS that resumed a session, per cent; `None` of none.
    #[must_use]
    pub fn resumed_percent(&self) -> Option<f64> {
        let all = self.counts.full + self.counts.resumed;
        (all > 0).then(|| self.counts.resumed as f64 * 100.0 / all as f64)
    }

    /// What has to be said of the run in words, the most serious first.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let counts = match self.counts.connections + self.counts.requests {
            0 => &self.whole_run,
            _ => &self.counts,
        };
        let mut remarks: Vec<String> = Vec::new();
        if self.is_empty() {
            remarks.push("NOTHING WAS MEASURED: the server answered no request.".to_owned());
        }
        let mut errors: Vec<_> = counts.errors.iter().collect();
        errors.sort_by_key(|(_, count)| core::cmp::Reverse(**count));
        for (fault, count) in errors {
            let example = counts.error_examples.get(fault);
            let example =
                example.map_or_else(String::new, |words| format!(" (the first: {words})"));
            remarks.push(format!("{count} × {}{example}.", fault.says()));
        }
        if self.asked.client_certificate
            && !self.server.asked_for_certificate
            && self.whole_run.full > 0
        {
            remarks.push(
                "The server never asked for the client certificate: none was sent, and its cost is \
                 not measured."
                    .to_owned(),
            );
        }
        if let (Some(found), false) = (&self.find_rate, self.is_empty()) {
            remarks.push(found.says());
        }
        if counts.refused > 0 {
            remarks.push(format!(
                "{} sessions were offered and refused: counted as full handshakes. The server \
                 does not keep its sessions, or its processes do not share them.",
                counts.refused
            ));
        }
        if counts.nothing_to_offer > counts.connections / 100 {
            remarks.push(format!(
                "{} connections were to reuse a session, and the server had given none that \
                 could be: its session cache or its tickets are switched off, or it gives fewer \
                 than are used.",
                counts.nothing_to_offer
            ));
        }
        if counts.early_data_refused > 0 {
            remarks.push(format!(
                "{} requests were sent with the hello and refused; they were sent again after \
                 the handshake.",
                counts.early_data_refused
            ));
        }
        if self.seconds > 0.0 {
            if !self.steady {
                remarks.push(format!(
                    "NOT STEADY after a warm-up of {:.1} s: rate or latency still changed, or \
                     there was too little to tell. Measure for longer, or lower the load.",
                    self.warm_up_seconds
                ));
            }
            remarks.push(self.generator.limit.says());
        }
        remarks
    }

    /// Fills in what follows from a tally.
    #[must_use]
    pub fn with(mut self, tally: &Tally) -> Self {
        self.counts = tally.counts.clone();
        self.latency = tally.latency.percentiles();
        self.curve = tally.latency.curve();
        self.kinds = Kind::ALL
            .into_iter()
            .zip(&tally.kinds)
            .map(|(kind, tally)| KindOutcome {
                kind,
                whole: tally.whole.percentiles(),
                plain: tally.plain as f64 / tally.whole.count().max(1) as f64,
                phases: Phase::ALL
                    .into_iter()
                    .zip(&tally.phases)
                    .filter(|(_, phase)| phase.times.count() > 0)
                    .map(|(phase, tally)| {
                        let each = |sum: u64| sum as f64 / tally.times.count() as f64;
                        PhaseOutcome {
                            phase,
                            time: tally.times.percentiles(),
                            sent: each(tally.sent),
                            received: each(tally.received),
                            round_trips: each(tally.round_trips),
                        }
                    })
                    .collect(),
            })
            .filter(|kind| !kind.phases.is_empty())
            .collect();
        self
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 {
            count as f64 / self.seconds
        } else {
            0.0
        }
    }
}

impl GeneratorCost {
    /// From what each thread had in this time.
    #[must_use]
    pub fn of(efforts: &[Effort], window: Duration, tally: &Tally) -> Self {
        let late = tally.late.percentiles();
        let cpu: Duration = efforts.iter().map(|effort| effort.busy).sum();
        let waited: Duration = efforts.iter().map(|effort| effort.waited).sum();
        let each = match tally.counts.connections {
            0 => tally.counts.requests,
            connections => connections,
        };
        Self {
            threads: efforts.len(),
            cpu_seconds: cpu.as_secs_f64(),
            cpu_each: match each {
                0 => 0.0,
                each => cpu.as_secs_f64() * 1e6 / each as f64,
            },
            waited_seconds: waited.as_secs_f64(),
            limit: Limit::judge(efforts, window, late.p99, tally.latency.percentiles().p99),
            late,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::{EarlyData, Exchange, Handshake, OfferOutcome};
    use crate::fault::Fault;
    use crate::phase::Step;

    /// Of ten seconds with nothing in them.
    pub(crate) fn outcome() -> Outcome {
        let window = Duration::from_secs(10);
        Outcome {
            url: "https://localhost/".to_owned(),
            load: Load::Rate(100.0),
            reuse: Percent::ZERO,
            resumption: "any".to_owned(),
            asked: Asked::default(),
            keep_alive: Some(1),
            mix: "page".to_owned(),
            seed: 1,
            server: ServerFacts::default(),
            warm_up_seconds: 1.0,
            steady: true,
            seconds: 10.0,
            counts: Counts::default(),
            latency: Percentiles::default(),
            kinds: Vec::new(),
            generator: GeneratorCost::of(&[Effort::default()], window, &Tally::default()),
            find_rate: None,
            whole_run: Counts::default(),
            curve: Vec::new(),
        }
    }

    fn step(milliseconds: u64) -> Step {
        Step {
            time: Duration::from_millis(milliseconds),
            sent: 10,
            received: 20,
            round_trips: 1,
        }
    }

    fn tally() -> Tally {
        let mut tally = Tally::default();
        tally.handshake(&Handshake {
            offer: OfferOutcome::Refused,
            early_data: EarlyData::NotSent,
            steps: [step(1), step(2), step(3)],
        });
        tally.exchange(&Exchange {
            kind: Kind::Full,
            latency: Duration::from_millis(16),
            whole: Duration::from_millis(15),
            steps: [step(4), step(5)],
            body: 7,
            plain: 17,
        });
        tally
    }

    #[test]
    fn the_phases_add_up_to_the_whole() {
        let outcome = outcome().with(&tally());
        let full = outcome.kind(Kind::Full).expect("a full handshake");
        let sum: f64 = full.phases.iter().map(|phase| phase.time.mean).sum();
        assert!((sum - full.whole.mean).abs() < 1e-6, "{sum}");
        assert_eq!(full.phases.len(), 5);
        assert!((full.plain - 17.0).abs() < 1e-9, "{}", full.plain);
        assert_eq!(outcome.kind(Kind::Resumed), None);
        assert_eq!(outcome.resumed_percent(), Some(0.0));
        assert!((outcome.request_rate() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_failure_and_a_refusal_are_said_in_words() {
        let mut tally = tally();
        tally.fault(Fault::NoDescriptors, "", Duration::ZERO);
        let mut outcome = outcome().with(&tally);
        outcome.whole_run = tally.counts.clone();
        let remarks = outcome.remarks().join("\n");
        assert!(!remarks.contains("NOTHING"), "{remarks}");
        for words in [
            "1 × this side has no descriptors",
            "ulimit -n",
            "1 sessions were offered",
        ] {
            assert!(remarks.contains(words), "{words}: {remarks}");
        }
    }

    #[test]
    fn a_label_says_what_was_asked_for() {
        let mut outcome = outcome();
        assert_eq!(outcome.label(), "0 % reuse");
        outcome.asked.tls = Some("1.2".to_owned());
        outcome.asked.group = Some("P-256".to_owned());
        outcome.keep_alive = Some(10);
        outcome.reuse = Percent::new(50).expect("a share");
        outcome.resumption = "id".to_owned();
        assert_eq!(
            outcome.label(),
            "50 % reuse (id), TLS 1.2, P-256, 10 requests each"
        );
    }

    #[test]
    fn a_client_certificate_that_nobody_wanted_is_said_to_be_unused() {
        let mut outcome = outcome();
        outcome.asked.client_certificate = true;
        outcome.whole_run.full = 3;
        assert!(outcome.remarks().join("").contains("never asked"));
        outcome.server.asked_for_certificate = true;
        assert!(!outcome.remarks().join("").contains("never asked"));
    }

    #[test]
    fn a_server_that_never_answered_is_no_silent_number() {
        let mut outcome = outcome();
        outcome.seconds = 0.0;
        outcome.whole_run.fault(Fault::Refused, "os error 111");
        let remarks = outcome.remarks();
        assert!(remarks[0].contains("NOTHING WAS MEASURED"), "{remarks:?}");
        for words in ["1 × connection refused", "(the first: os error 111)"] {
            assert!(remarks[1].contains(words), "{remarks:?}");
        }
        assert!((outcome.request_rate()).abs() < 1e-9);
    }
}
