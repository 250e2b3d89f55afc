//! Which scenarios are simulated.

use serde::Serialize;
use tandem_split_sim::{Caches, Choice, Churn, Delivery, Rules, Scenario, Shape, Sharing};

use super::SplitSimOptions;

/// Bytes of the page's bodies: HTML, two small ones, two pictures.
const PAGE: [u64; 5] = [30_000, 10_000, 10_000, 100_000, 300_000];
const MINUTES: f64 = 60.0;
const HOURS: f64 = 3600.0;
/// The flash crowd.
pub(crate) const FLASH: f64 = 10.0 * MINUTES;
/// The same crowd over so long a time that a warm site can carry it on the thesis's line.
pub(crate) const SPREAD: f64 = 12.0 * HOURS;
const PATIENCE: f64 = 60.0;

/// What runs are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Group {
    /// All at once.
    Flash,
    /// Over half a day.
    Spread,
    /// By the time in which the crowd comes.
    Crowd,
    /// By the rate of the origin's line.
    Line,
    /// By the number of volunteers.
    Volunteers,
    /// By what is assumed.
    Assumptions,
}

/// Which measured bytes a run goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Costs {
    /// Those of requests that were made one at a time.
    Alone,
    /// The same with proofs that grow as they did when many volunteers asked at once.
    Crowded,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Planned {
    pub(crate) group: Group,
    /// Of the delivery and the volunteers.
    pub(crate) name: String,
    /// What differs from the first scenarios.
    pub(crate) variant: String,
    pub(crate) costs: Costs,
    pub(crate) scenario: Scenario,
}

const HTTPS: (&str, Delivery) = ("HTTPS, no volunteers", Delivery::Https);
const COLD_ALONE: (&str, Delivery) = (
    "cold, each alone",
    Delivery::Split {
        caches: Caches::Cold,
        sharing: Sharing::OriginOnly,
    },
);
const COLD: (&str, Delivery) = (
    "cold, with peers",
    Delivery::Split {
        caches: Caches::Cold,
        sharing: Sharing::Peers,
    },
);
const WARM: (&str, Delivery) = (
    "warm",
    Delivery::Split {
        caches: Caches::Warm,
        sharing: Sharing::Peers,
    },
);
const WARM_ALONE: Delivery = Delivery::Split {
    caches: Caches::Warm,
    sharing: Sharing::OriginOnly,
};

/// All runs, in the order of the tables.
pub(crate) fn plan(options: &SplitSimOptions, line_bits: u64, volunteer_bits: u64) -> Vec<Planned> {
    let base = Scenario {
        delivery: Delivery::Https,
        clients: options.clients,
        crowd_seconds: FLASH,
        page: PAGE.to_vec(),
        patience_seconds: PATIENCE,
        line_bits,
        volunteers: options.volunteers,
        volunteer_bits,
        choice: Choice::AtRandom,
        churn: None,
        rules: Rules::default(),
        seed: options.seed,
    };
    let mut runs = Runs {
        base,
        planned: Vec::new(),
    };
    for (group, crowd_seconds) in [(Group::Flash, FLASH), (Group::Spread, SPREAD)] {
        runs.compared(group, crowd_seconds);
    }
    for minutes in [10.0, 60.0, 180.0, 360.0, 720.0] {
        runs.three(Group::Crowd, &within(minutes * MINUTES), |scenario| {
            scenario.crowd_seconds = minutes * MINUTES;
        });
    }
    for kilobits in [160, 500, 2_000, 10_000, 20_000] {
        runs.three(Group::Line, &format!("{kilobits} kbit/s"), |scenario| {
            scenario.line_bits = kilobits * 1000;
        });
    }
    for volunteers in volunteers(options.volunteers) {
        runs.volunteers(volunteers);
    }
    runs.assumptions();
    runs.planned
}

/// Growing numbers of volunteers up to this one.
fn volunteers(most: u32) -> Vec<u32> {
    let mut counts: Vec<u32> = [100, 30, 10, 3, 1].map(|part| most / part).to_vec();
    counts.retain(|count| *count > 0);
    counts.dedup();
    counts
}

fn within(seconds: f64) -> String {
    if seconds < HOURS {
        format!("{:.0} min", seconds / MINUTES)
    } else {
        format!("{:.0} h", seconds / HOURS)
    }
}

struct Runs {
    base: Scenario,
    planned: Vec<Planned>,
}

impl Runs {
    fn add(
        &mut self,
        group: Group,
        (name, delivery): (&str, Delivery),
        variant: &str,
        change: impl Fn(&mut Scenario),
    ) {
        let mut scenario = Scenario {
            delivery,
            ..self.base.clone()
        };
        change(&mut scenario);
        self.planned.push(Planned {
            group,
            name: name.to_owned(),
            variant: variant.to_owned(),
            costs: Costs::Alone,
            scenario,
        });
    }

    /// Every delivery, and volunteers that come and go.
    fn compared(&mut self, group: Group, crowd_seconds: f64) {
        let variant = within(crowd_seconds);
        for delivery in [HTTPS, COLD_ALONE, COLD, WARM] {
            self.add(group, delivery, &variant, |scenario| {
                scenario.crowd_seconds = crowd_seconds;
            });
        }
        for (name, delivery, return_with) in [
            ("cold, with peers, churn", COLD.1, Caches::Warm),
            ("warm, churn, caches kept", WARM.1, Caches::Warm),
            ("warm, churn, caches lost", WARM.1, Caches::Cold),
            (
                "warm, churn, caches lost, each alone",
                WARM_ALONE,
                Caches::Cold,
            ),
        ] {
            self.add(group, (name, delivery), &variant, |scenario| {
                scenario.crowd_seconds = crowd_seconds;
                scenario.churn = Some(churn(HOURS, Shape::Weibull, return_with));
            });
        }
    }

    fn three(&mut self, group: Group, variant: &str, change: impl Fn(&mut Scenario)) {
        for delivery in [HTTPS, COLD, WARM] {
            self.add(group, delivery, variant, &change);
        }
    }

    /// On a line that carries all proofs, and on the thesis's over half a day.
    fn volunteers(&mut self, volunteers: u32) {
        for delivery in [COLD_ALONE, COLD, WARM] {
            let variant = format!("{volunteers} volunteers, 20 Mbit/s, 10 min");
            self.add(Group::Volunteers, delivery, &variant, |scenario| {
                scenario.volunteers = volunteers;
                scenario.line_bits = 20_000_000;
            });
        }
        for delivery in [COLD_ALONE, COLD] {
            let variant = format!("{volunteers} volunteers, 12 h");
            self.add(Group::Volunteers, delivery, &variant, |scenario| {
                scenario.volunteers = volunteers;
                scenario.crowd_seconds = SPREAD;
            });
        }
    }

    /// One assumption at a time, for warm caches.
    fn assumptions(&mut self) {
        let group = Group::Assumptions;
        for seconds in [10.0, 60.0, 600.0] {
            let variant = format!("10 min, mean patience {seconds} s");
            self.add(group, WARM, &variant, |scenario| {
                scenario.patience_seconds = seconds;
            });
        }
        for places in [16, 64, 256, 4096] {
            let variant = format!("10 min, {places} places at the origin");
            self.add(group, WARM, &variant, |scenario| {
                scenario.rules.origin_places = places;
            });
        }
        let shapes = [
            (Shape::Exponential, "exponential"),
            (Shape::Weibull, "Weibull"),
        ];
        for (shape, word) in shapes {
            for minutes in [10.0, 60.0, 360.0] {
                let variant = format!("12 h, {word} sessions of {minutes} min, caches lost");
                self.add(group, WARM, &variant, |scenario| {
                    scenario.crowd_seconds = SPREAD;
                    scenario.churn = Some(churn(minutes * MINUTES, shape, Caches::Cold));
                });
            }
        }
        let pages = [
            (vec![10_000], "a page of 10 kB"),
            (vec![1_000_000], "a file of 1 MB"),
        ];
        for (page, word) in pages {
            for delivery in [HTTPS, WARM] {
                self.add(group, delivery, &format!("12 h, {word}"), |scenario| {
                    scenario.crowd_seconds = SPREAD;
                    scenario.page.clone_from(&page);
                });
            }
        }
        for (costs, word) in [
            (Costs::Alone, "as measured one at a time"),
            (Costs::Crowded, "as measured with many at once"),
        ] {
            self.add(group, WARM, &format!("12 h, proofs {word}"), |scenario| {
                scenario.crowd_seconds = SPREAD;
            });
            if let Some(planned) = self.planned.last_mut() {
                planned.costs = costs;
            }
        }
    }
}

/// Three quarters of the volunteers are there at any time.
fn churn(session_seconds: f64, shape: Shape, return_with: Caches) -> Churn {
    Churn {
        session_seconds,
        shape,
        absence_seconds: session_seconds / 3.0,
        return_with,
    }
}
