//! The parts of the evaluation: who asks for what in which order, and what becomes a row.
//!
//! Deliveries run interleaved in random order; a file comes cold by a volunteer before it comes
//! warm by the same one.

use std::time::{Duration, Instant};

use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use tandem_netsim::link::LinkConfig;

use super::plan::Plan;
use super::site::{About, Fetched, Site, Source, Volunteer};
use super::trace::Trace;
use super::tree::Object;
use tandem_report::split_row::{Delivery, Part, SplitRow};
use tandem_testbed::LabError;
use tandem_testbed::console::Progress;
use tandem_testbed::interrupt;
use tandem_testbed::links::LinkSpec;
use tandem_testbed::rows::Rows;

/// What a volunteer is asked for before anything is measured, so that its channel of misses is open
/// and the certificate known.
const FIRST_WORDS: u64 = 20_000;

/// Longest wait for a request: what the slowest link takes for a megabyte several times over.
const LIMIT: Duration = Duration::from_secs(600);

/// What all parts are given.
pub(crate) struct Stand<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) link: &'a LinkSpec,
    pub(crate) site: Site,
    pub(crate) rows: &'a mut Rows<SplitRow>,
    pub(crate) progress: &'a mut Progress,
    pub(crate) chance: Pcg64Mcg,
}

impl Stand<'_> {
    /// One new file of each size, in every delivery: figures 5-4 and 5-5.
    pub(crate) fn sizes(&mut self) -> Result<(), LabError> {
        let volunteer = self.met_volunteer()?;
        for trial in 0..self.plan.size_trials {
            for size in &self.plan.sizes {
                let object = self.site.tree.grow(*size)?;
                self.every_delivery(Part::Sizes, None, trial, &volunteer, &object)?;
            }
            self.progress
                .step(&format!("files of {} sizes", self.plan.sizes.len()));
        }
        Ok(())
    }

    /// A trace in every delivery, some requests at a time; warm by a volunteer that has been asked
    /// for each object before.
    pub(crate) fn replay(&mut self, name: &str, trace: &Trace) -> Result<(), LabError> {
        let objects = trace
            .objects
            .iter()
            .map(|size| self.site.tree.grow(*size))
            .collect::<Result<Vec<Object>, _>>()?;
        let (cold, warm) = (self.met_volunteer()?, self.met_volunteer()?);
        for object in &objects {
            let fetched = self.site.fetch(Source::Volunteer(&warm), object, LIMIT)?;
            succeeded(&fetched)?;
        }
        let mut known = vec![false; objects.len()];
        for (block, requests) in trace.requests.chunks(self.plan.block).enumerate() {
            let mut fresh_bytes = 0;
            for request in requests {
                if !std::mem::replace(&mut known[*request], true) {
                    fresh_bytes += objects[*request].size;
                }
            }
            let asked: Vec<&Object> = requests.iter().map(|request| &objects[*request]).collect();
            let mut deliveries = Delivery::ALL;
            deliveries.shuffle(&mut self.chance);
            for delivery in deliveries {
                let about = About {
                    trace: Some(name),
                    sizes: asked.iter().map(|object| object.size).collect(),
                    fresh_bytes,
                    ..About::one(
                        Part::Trace,
                        &self.link.name,
                        delivery,
                        u32::try_from(block).unwrap_or(u32::MAX),
                        asked[0],
                    )
                };
                let from = match delivery {
                    Delivery::Http | Delivery::Https | Delivery::HttpsCbc => {
                        Source::Nginx(delivery)
                    }
                    Delivery::Cold => Source::Volunteer(&cold),
                    Delivery::Warm => Source::Volunteer(&warm),
                };
                let row = self.site.measured(about, &[&cold, &warm], |site| {
                    asked
                        .iter()
                        .map(|object| site.fetch(from, object, LIMIT))
                        .collect()
                })?;
                self.rows.push(row)?;
            }
            interrupt::check()?;
            self.progress
                .step(&format!("{name}, {} requests", requests.len()));
        }
        Ok(())
    }

    /// Files of a trace, each once: figure 5-6.
    pub(crate) fn latency(&mut self, name: &str, trace: &Trace) -> Result<(), LabError> {
        let volunteer = self.met_volunteer()?;
        let small = trace
            .objects
            .iter()
            .filter(|size| **size <= self.plan.latency_largest);
        for (number, size) in small.take(self.plan.latency_files).enumerate() {
            let object = self.site.tree.grow(*size)?;
            let trial = u32::try_from(number).unwrap_or(u32::MAX);
            self.every_delivery(Part::Latency, Some(name), trial, &volunteer, &object)?;
            self.progress.step(&format!("{name}, {size} bytes"));
        }
        Ok(())
    }

    /// So many volunteers, each with a client of its own that asks for the same file some times;
    /// and a client that asks nginx.
    pub(crate) fn scaling(&mut self, fast: &LinkConfig) -> Result<(), LabError> {
        let slow = self.link.config()?;
        let popular = self.site.tree.grow(self.plan.popular_bytes)?;
        let other = self.site.tree.grow(self.plan.direct_bytes)?;
        let most = self.plan.volunteers.iter().copied().max().unwrap_or(0);
        let all = (0..most)
            .map(|_| self.site.volunteer(Some(self.plan.volunteer_rate)))
            .collect::<Result<Vec<Volunteer>, _>>()?;
        let all: Vec<&Volunteer> = all.iter().collect();
        // What each has to fetch once is no part of what is measured, and would take hours.
        self.site.reconfigure(fast.clone());
        for fetched in at_once(&self.site, &all, &popular, 1)?.0 {
            succeeded(&fetched)?;
        }
        self.site.settle()?;
        self.site.reconfigure(slow);
        for trial in 0..self.plan.scaling_trials {
            let about = About {
                volunteers: Some(0),
                ..About::one(
                    Part::Scaling,
                    &self.link.name,
                    Delivery::Https,
                    trial,
                    &other,
                )
            };
            let row = self.site.measured(about, &[], |site| {
                Ok(vec![site.fetch(
                    Source::Nginx(Delivery::Https),
                    &other,
                    LIMIT,
                )?])
            })?;
            self.rows.push(row)?;
            let mut counts = self.plan.volunteers.clone();
            counts.shuffle(&mut self.chance);
            for count in counts {
                let serving = &all[..usize::try_from(count).unwrap_or(usize::MAX)];
                let requests = serving.len() * self.plan.popular_times;
                let about = About {
                    volunteers: Some(count),
                    sizes: vec![popular.size; requests],
                    fresh_bytes: 0,
                    ..About::one(
                        Part::Scaling,
                        &self.link.name,
                        Delivery::Warm,
                        trial,
                        &popular,
                    )
                };
                let mut took = 0.0;
                let row = self.site.measured(about, serving, |site| {
                    let (fetched, seconds) =
                        at_once(site, serving, &popular, self.plan.popular_times)?;
                    took = seconds;
                    Ok(fetched)
                })?;
                self.rows.push(SplitRow {
                    seconds: took,
                    ..row
                })?;
                self.progress
                    .step(&format!("{count} volunteers, {took:.1} s"));
            }
        }
        Ok(())
    }

    /// Processor time at the origin's end: the same bytes by nginx and by a volunteer that has
    /// them.
    pub(crate) fn origin(&mut self) -> Result<(), LabError> {
        let volunteer = self.met_volunteer()?;
        for size in &self.plan.processor_sizes {
            let object = self.site.tree.grow(*size)?;
            succeeded(
                &self
                    .site
                    .fetch(Source::Volunteer(&volunteer), &object, LIMIT)?,
            )?;
            for trial in 0..self.plan.processor_trials {
                let mut deliveries = [Delivery::Https, Delivery::HttpsCbc, Delivery::Warm];
                deliveries.shuffle(&mut self.chance);
                for delivery in deliveries {
                    self.one(Part::Origin, None, delivery, trial, &volunteer, &object)?;
                }
            }
            self.progress.step(&format!("{size} bytes"));
        }
        Ok(())
    }

    /// Processor time and throughput in a volunteer's place: the same bytes by nginx there and by
    /// the volunteer.
    pub(crate) fn volunteer(&mut self, fast: &LinkConfig) -> Result<(), LabError> {
        let volunteer = self.met_volunteer()?;
        self.site.serve_near()?;
        let object = self.site.tree.grow(self.plan.throughput_bytes)?;
        self.site.reconfigure(fast.clone());
        succeeded(
            &self
                .site
                .fetch(Source::Volunteer(&volunteer), &object, LIMIT)?,
        )?;
        self.site.settle()?;
        self.site.reconfigure(self.link.config()?);
        for trial in 0..self.plan.throughput_trials {
            let mut deliveries = [Delivery::Https, Delivery::HttpsCbc, Delivery::Warm];
            deliveries.shuffle(&mut self.chance);
            for delivery in deliveries {
                let from = match delivery {
                    Delivery::Http | Delivery::Https | Delivery::HttpsCbc => Source::Near(delivery),
                    Delivery::Cold | Delivery::Warm => Source::Volunteer(&volunteer),
                };
                let about = About::one(Part::Volunteer, &self.link.name, delivery, trial, &object);
                let row = self.site.measured(about, &[&volunteer], |site| {
                    Ok(vec![site.fetch(from, &object, LIMIT)?])
                })?;
                self.rows.push(row)?;
            }
            self.progress.step(&format!("{} bytes", object.size));
        }
        Ok(())
    }

    fn every_delivery(
        &mut self,
        part: Part,
        trace: Option<&str>,
        trial: u32,
        volunteer: &Volunteer,
        object: &Object,
    ) -> Result<(), LabError> {
        let mut deliveries = Delivery::ALL;
        deliveries.shuffle(&mut self.chance);
        let place = |wanted| deliveries.iter().position(|delivery| *delivery == wanted);
        if let (Some(cold), Some(warm)) = (place(Delivery::Cold), place(Delivery::Warm))
            && warm < cold
        {
            deliveries.swap(cold, warm);
        }
        for delivery in deliveries {
            self.one(part, trace, delivery, trial, volunteer, object)?;
        }
        interrupt::check()
    }

    /// One file in one delivery.
    fn one(
        &mut self,
        part: Part,
        trace: Option<&str>,
        delivery: Delivery,
        trial: u32,
        volunteer: &Volunteer,
        object: &Object,
    ) -> Result<(), LabError> {
        let from = match delivery {
            Delivery::Http | Delivery::Https | Delivery::HttpsCbc => Source::Nginx(delivery),
            Delivery::Cold | Delivery::Warm => Source::Volunteer(volunteer),
        };
        let about = About {
            trace,
            ..About::one(part, &self.link.name, delivery, trial, object)
        };
        let row = self.site.measured(about, &[volunteer], |site| {
            Ok(vec![site.fetch(from, object, LIMIT)?])
        })?;
        self.rows.push(row)
    }

    /// A volunteer that has served somebody before.
    fn met_volunteer(&mut self) -> Result<Volunteer, LabError> {
        let volunteer = self.site.volunteer(None)?;
        let object = self.site.tree.grow(FIRST_WORDS)?;
        let fetched = self
            .site
            .fetch(Source::Volunteer(&volunteer), &object, LIMIT)?;
        succeeded(&fetched)?;
        Ok(volunteer)
    }
}

/// Each volunteer's client asks for the file so many times; all at once. The requests, and the
/// seconds until the last one's end.
fn at_once(
    site: &Site,
    volunteers: &[&Volunteer],
    object: &Object,
    times: usize,
) -> Result<(Vec<Fetched>, f64), LabError> {
    let begun = Instant::now();
    let fetched = std::thread::scope(|scope| {
        let clients: Vec<_> = volunteers
            .iter()
            .map(|volunteer| {
                scope.spawn(move || {
                    (0..times)
                        .map(|_| site.fetch(Source::Volunteer(volunteer), object, LIMIT))
                        .collect::<Result<Vec<Fetched>, _>>()
                })
            })
            .collect();
        let mut all = Vec::new();
        for client in clients {
            match client.join() {
                Ok(fetched) => all.extend(fetched?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, LabError>(all)
    })?;
    Ok((fetched, begun.elapsed().as_secs_f64()))
}

/// What is not measured has to succeed all the same.
fn succeeded(fetched: &Fetched) -> Result<(), LabError> {
    let why = match &fetched.outcome {
        Ok(true) => return Ok(()),
        Ok(false) => "other bytes than the server has".to_owned(),
        Err(why) => why.clone(),
    };
    Err(LabError::Command {
        command: "a request before the measurement".to_owned(),
        why,
    })
}
