//! The parts of the evaluation: who does what, in which order, and what becomes a row.
//!
//! The paper gives middleboxes full access in each context, as the worst case; so does this, except
//! where it says otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mctls::config::Right;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use tandem_netsim::link::LinkCounters;
use tandem_report::mctls_row::{McArm, McPart, McRow, Strategy};
use tandem_testbed::console::{Console, Progress};
use tandem_testbed::rows::Rows;
use tandem_testbed::{LabError, LinkSpec, interrupt};
use tokio::task::JoinSet;

use crate::connection::{Connection, differs};
use crate::dial::Dialer;
use crate::exchange::{self, Ask};
use crate::lines;
use crate::pages::Page;
use crate::pki::Pki;
use crate::plan::{self, Order, Plan, Transfers};
use crate::stage::{Repeats, Stage, Times};

/// What is asked for where only the first byte counts.
const FEW_BYTES: u32 = 100;

/// How long a batch's last connections may still occupy the parties.
const AFTERWARDS: Duration = Duration::from_millis(30);

/// What all parts are given.
pub(crate) struct Evaluation<'a> {
    pub(crate) pki: Arc<Pki>,
    pub(crate) plan: &'a Plan,
    pub(crate) console: &'a Console,
    pub(crate) rows: &'a mut Rows<McRow>,
    pub(crate) chance: Pcg64Mcg,
    pub(crate) seed: u64,
}

/// An arm with so many contexts.
#[derive(Clone, Copy, Debug)]
struct Variant {
    arm: McArm,
    contexts: u8,
    strategy: Option<Strategy>,
}

/// A trial of a variant.
struct Trial<'a> {
    part: McPart,
    link: &'a str,
    variant: Variant,
    right: Right,
    number: u32,
    connections: u32,
    bytes: u64,
}

/// What a client's job hands back.
struct Done {
    seconds: f64,
    /// What has to stay open until everything is counted.
    open: Option<Connection>,
}

impl Done {
    fn in_time(seconds: Duration) -> Self {
        Self {
            seconds: seconds.as_secs_f64(),
            open: None,
        }
    }
}

impl Evaluation<'_> {
    /// Figure 8.
    pub(crate) fn handshakes(&mut self) -> Result<(), LabError> {
        let link = plan::fast();
        let variants = variants(&self.plan.contexts);
        let mut progress = self.bar("handshakes", self.plan.middleboxes.len());
        for boxes in &self.plan.middleboxes {
            let stage = self.counting(*boxes, &link)?;
            for number in 0..self.plan.handshake_trials {
                for variant in self.shuffled(&variants) {
                    let trial = Trial {
                        number,
                        ..Trial::new(McPart::Handshake, &link, variant)
                    };
                    let row = trial.take(&self.pki, &stage, |dialer| async move {
                        let begun = Instant::now();
                        let open = Some(dialer.connect().await?);
                        let seconds = begun.elapsed().as_secs_f64();
                        Ok(Done { seconds, open })
                    })?;
                    self.rows.push(row)?;
                }
            }
            progress.step(&format!("{boxes} middleboxes"));
        }
        progress.finish();
        Ok(())
    }

    /// Figure 3.
    pub(crate) fn first_bytes(&mut self) -> Result<(), LabError> {
        let link = plan::paper();
        let mut progress = self.bar("first byte", self.plan.middleboxes.len());
        for boxes in &self.plan.middleboxes {
            let stage = self.stage(*boxes, &link)?;
            let contexts = match boxes {
                1 => self.plan.first_byte_contexts.as_slice(),
                _ => &[1],
            };
            let variants = variants(contexts);
            for number in 0..self.plan.first_byte_trials {
                for variant in self.shuffled(&variants) {
                    let trial = Trial {
                        number,
                        bytes: u64::from(FEW_BYTES),
                        ..Trial::new(McPart::FirstByte, &link, variant)
                    };
                    let row = trial.take(&self.pki, &stage, |dialer| async move {
                        let begun = Instant::now();
                        let mut connection = dialer.connect().await?;
                        let first = exchange::ask(&mut connection, &Ask::of(FEW_BYTES)).await?;
                        connection.end().await?;
                        Ok(Done::in_time(first - begun))
                    })?;
                    self.rows.push(row)?;
                }
            }
            progress.step(&format!("{boxes} middleboxes"));
        }
        progress.finish();
        Ok(())
    }

    /// Figure 7.
    pub(crate) fn transfers(&mut self) -> Result<(), LabError> {
        let plan = self.plan;
        let steps = plan.transfers.iter().map(|one| one.sizes.len()).sum();
        let mut progress = self.bar("transfers", steps);
        for transfers in &plan.transfers {
            for size in &transfers.sizes {
                match transfers.order {
                    Order::OneByOne => {
                        let stage = self.stage(1, &transfers.link)?;
                        for number in 0..transfers.trials {
                            for variant in self.shuffled(&variants(&[1])) {
                                let trial = transfer(transfers, *size, number, variant);
                                let row = trial.transfer(&self.pki, &stage, *size)?;
                                self.rows.push(row)?;
                            }
                        }
                    }
                    Order::AtOnce => self.transfers_at_once(transfers, *size)?,
                }
                progress.step(&format!("{}: {size} bytes", transfers.link.name));
            }
        }
        progress.finish();
        Ok(())
    }

    /// Every arm over links of its own, at the same time.
    fn transfers_at_once(&mut self, transfers: &Transfers, size: u32) -> Result<(), LabError> {
        for number in 0..transfers.trials {
            let variants = variants(&[1]);
            let mut stages = Vec::new();
            for variant in &variants {
                stages.push((*variant, self.stage(1, &transfers.link)?));
            }
            let pki = &self.pki;
            let taken: Vec<Result<McRow, LabError>> = std::thread::scope(|scope| {
                let threads: Vec<_> = stages
                    .iter()
                    .map(|(variant, stage)| {
                        scope.spawn(move || {
                            transfer(transfers, size, number, *variant).transfer(pki, stage, size)
                        })
                    })
                    .collect();
                let threads = threads.into_iter();
                threads
                    .map(|thread| {
                        thread
                            .join()
                            .unwrap_or_else(|_| Err(differs("a thread panicked")))
                    })
                    .collect()
            });
            for row in taken {
                self.rows.push(row?)?;
            }
        }
        Ok(())
    }

    /// Figures 4 and 6.
    pub(crate) fn pages(&mut self) -> Result<(), LabError> {
        let link = plan::paper();
        let stage = self.stage(1, &link)?;
        let pages = Page::draw(self.plan.pages, self.seed);
        let mut progress = self.bar("pages", pages.len());
        for (number, page) in (0..).zip(&pages) {
            for variant in self.shuffled(&strategies()) {
                let asks = asks(page, variant);
                let trial = Trial {
                    number,
                    connections: u32::try_from(asks.len()).unwrap_or(u32::MAX),
                    bytes: asks.iter().flatten().map(Ask::bytes).sum(),
                    ..Trial::new(McPart::Page, &link, variant)
                };
                let row = trial.take(&self.pki, &stage, |dialer| load(dialer, asks))?;
                self.rows.push(row)?;
            }
            progress.step(&format!("{} objects", page.objects().count()));
        }
        progress.finish();
        Ok(())
    }

    /// Section 5.2: what records add, on one connection that is there already.
    pub(crate) fn overhead(&mut self) -> Result<(), LabError> {
        let link = plan::fast();
        let stage = self.counting(1, &link)?;
        let pages = Page::draw(self.plan.pages, self.seed);
        let mut progress = self.bar("overhead", pages.len());
        for (number, page) in (0..).zip(&pages) {
            for variant in self.shuffled(&strategies()) {
                let asks: Vec<Ask> = asks(page, variant).into_iter().flatten().collect();
                let trial = Trial {
                    number,
                    bytes: asks.iter().map(Ask::bytes).sum(),
                    ..Trial::new(McPart::Overhead, &link, variant)
                };
                let dialer = trial.dialer(&self.pki, &stage)?;
                let connected = stage
                    .client()
                    .run(async move { dialer.connect().await })
                    .and_then(|connection| stage.settle().map(|()| connection));
                let row = trial.take(&self.pki, &stage, |_| async move {
                    let mut connection = connected?;
                    let begun = Instant::now();
                    for ask in &asks {
                        exchange::ask(&mut connection, ask).await?;
                    }
                    let seconds = begun.elapsed().as_secs_f64();
                    let open = Some(connection);
                    Ok(Done { seconds, open })
                })?;
                self.rows.push(row)?;
            }
            progress.step(&format!("{} objects", page.objects().count()));
        }
        progress.finish();
        Ok(())
    }

    /// Figure 5.
    pub(crate) fn connections(&mut self) -> Result<(), LabError> {
        let link = local();
        let stage = Stage::local(&self.pki, 1)?;
        let variants = variants(&self.plan.batch_contexts);
        let batch = self.plan.batch;
        let mut progress = self.bar("connections", self.plan.batches as usize + 1);
        // The first batch of each fills caches, and is not kept.
        for number in 0..=self.plan.batches {
            for variant in self.shuffled(&variants) {
                let trial = Trial {
                    number: number.saturating_sub(1),
                    connections: batch,
                    ..Trial::new(McPart::Connections, &link, variant)
                };
                let row = trial.take(&self.pki, &stage, |dialer| async move {
                    let begun = Instant::now();
                    for _ in 0..batch {
                        dialer.connect().await?.end().await?;
                    }
                    Ok(Done::in_time(begun.elapsed()))
                })?;
                if number > 0 {
                    self.rows.push(row)?;
                }
            }
            progress.step(&format!("{batch} of each"));
        }
        progress.finish();
        Ok(())
    }

    /// Through a middlebox that may read, and passes everything on.
    pub(crate) fn bulk(&mut self) -> Result<(), LabError> {
        let link = local();
        let stage = Stage::local(&self.pki, 1)?;
        let size = self.plan.bulk_bytes;
        let mut progress = self.bar("bulk", self.plan.bulk_trials as usize);
        for number in 0..self.plan.bulk_trials {
            for variant in self.shuffled(&variants(&[1])) {
                let trial = Trial {
                    number,
                    right: Right::Read,
                    bytes: u64::from(size),
                    ..Trial::new(McPart::Bulk, &link, variant)
                };
                let row = trial.take(&self.pki, &stage, move |dialer| async move {
                    let mut connection = dialer.connect().await?;
                    let begun = Instant::now();
                    exchange::ask(&mut connection, &Ask::of(size)).await?;
                    let taken = begun.elapsed();
                    connection.end().await?;
                    Ok(Done::in_time(taken))
                })?;
                self.rows.push(row)?;
            }
            progress.step(&format!("{size} bytes"));
        }
        progress.finish();
        Ok(())
    }

    /// Section 5.4.
    pub(crate) fn lines(&mut self) -> Result<(), LabError> {
        for lines in lines::all() {
            let variant = Variant {
                arm: McArm::Mctls13,
                contexts: 1,
                strategy: None,
            };
            let row = Trial::new(McPart::Lines, &local(), variant).row(1);
            self.rows.push(McRow {
                lines: Some(lines),
                ..row
            })?;
        }
        Ok(())
    }

    fn bar(&self, name: &str, steps: usize) -> Progress {
        self.console
            .bar(name, u64::try_from(steps).unwrap_or(u64::MAX))
    }

    fn stage(&self, boxes: usize, link: &LinkSpec) -> Result<Stage, LabError> {
        Stage::with_links(
            &self.pki,
            boxes,
            &link.config()?,
            Repeats::AsEver,
            self.seed,
        )
    }

    /// One on which bytes are counted.
    fn counting(&self, boxes: usize, link: &LinkSpec) -> Result<Stage, LabError> {
        Stage::with_links(&self.pki, boxes, &link.config()?, Repeats::Late, self.seed)
    }

    fn shuffled(&mut self, variants: &[Variant]) -> Vec<Variant> {
        let mut variants = variants.to_vec();
        variants.shuffle(&mut self.chance);
        variants
    }
}

/// Every arm; those with contexts once for each number of them.
fn variants(contexts: &[u8]) -> Vec<Variant> {
    let mut variants = Vec::new();
    for arm in McArm::ALL {
        let contexts = match arm.has_contexts() {
            true => contexts,
            false => &[1],
        };
        variants.extend(contexts.iter().map(|contexts| Variant {
            arm,
            contexts: *contexts,
            strategy: None,
        }));
    }
    variants
}

/// Every arm; those with contexts once for each strategy.
fn strategies() -> Vec<Variant> {
    let mut variants = Vec::new();
    for arm in McArm::ALL {
        let strategies = match arm.has_contexts() {
            true => Strategy::ALL.as_slice(),
            false => &[Strategy::One],
        };
        variants.extend(strategies.iter().map(|strategy| Variant {
            arm,
            contexts: exchange::contexts(*strategy),
            strategy: arm.has_contexts().then_some(*strategy),
        }));
    }
    variants
}

/// What each connection of a page asks for.
fn asks(page: &Page, variant: Variant) -> Vec<Vec<Ask>> {
    let strategy = variant.strategy.unwrap_or(Strategy::One);
    let connections = page.0.iter();
    connections
        .map(|objects| {
            let objects = objects.iter();
            objects
                .map(|size| Ask::object(*size, strategy))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Loads a page: each connection asks for one object after the other.
async fn load(dialer: Dialer, asks: Vec<Vec<Ask>>) -> Result<Done, LabError> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for asks in asks {
        let dialer = dialer.clone();
        tasks.spawn(async move {
            let mut connection = dialer.connect().await?;
            for ask in &asks {
                exchange::ask(&mut connection, ask).await?;
            }
            Ok::<_, LabError>(connection)
        });
    }
    let mut connections = Vec::new();
    while let Some(loaded) = tasks.join_next().await {
        connections.push(loaded.map_err(|_| differs("a task panicked"))??);
    }
    let taken = begun.elapsed();
    for connection in connections {
        connection.end().await?;
    }
    Ok(Done::in_time(taken))
}

fn transfer(transfers: &Transfers, size: u32, number: u32, variant: Variant) -> Trial<'_> {
    Trial {
        number,
        bytes: u64::from(size),
        ..Trial::new(McPart::Transfer, &transfers.link, variant)
    }
}

/// No link: the loopback interface.
fn local() -> LinkSpec {
    LinkSpec::preset("loopback")
}

impl<'a> Trial<'a> {
    fn new(part: McPart, link: &'a LinkSpec, variant: Variant) -> Self {
        Self {
            part,
            link: &link.name,
            variant,
            right: Right::Write,
            number: 0,
            connections: 1,
            bytes: 0,
        }
    }

    fn dialer(&self, pki: &Pki, stage: &Stage) -> Result<Dialer, LabError> {
        let Variant { arm, contexts, .. } = self.variant;
        Dialer::new(arm, pki, stage.route(), contexts, self.right)
    }

    /// The row of a trial of which nothing is known but that it went well.
    fn row(&self, boxes: usize) -> McRow {
        McRow {
            part: self.part,
            arm: self.variant.arm,
            link: self.link.to_owned(),
            middleboxes: u32::try_from(boxes).unwrap_or(u32::MAX),
            contexts: u32::from(self.variant.contexts),
            strategy: self.variant.strategy,
            trial: self.number,
            connections: self.connections,
            bytes: self.bytes,
            seconds: 0.0,
            stream_up: 0,
            stream_down: 0,
            link_bytes: 0,
            client_us: 0,
            middlebox_us: 0,
            server_us: 0,
            lines: None,
            ok: true,
            error: None,
        }
    }

    /// A file, from the client's connect to its last byte.
    fn transfer(&self, pki: &Pki, stage: &Stage, size: u32) -> Result<McRow, LabError> {
        self.take(pki, stage, move |dialer| async move {
            let begun = Instant::now();
            let mut connection = dialer.connect().await?;
            exchange::ask(&mut connection, &Ask::of(size)).await?;
            let taken = begun.elapsed();
            connection.end().await?;
            Ok(Done::in_time(taken))
        })
    }

    /// Has the client do its job, and counts. A failure is a row, an interruption is not.
    fn take<F>(
        &self,
        pki: &Pki,
        stage: &Stage,
        job: impl FnOnce(Dialer) -> F,
    ) -> Result<McRow, LabError>
    where
        F: Future<Output = Result<Done, LabError>> + Send + 'static,
    {
        interrupt::check()?;
        let dialer = self.dialer(pki, stage)?;
        let before = (stage.counters(), stage.times());
        let done = stage.client().run(job(dialer));
        stage.settle()?;
        std::thread::sleep(AFTERWARDS);
        let after = (stage.counters(), stage.times());
        let row = self.row(stage.boxes());
        let done = done.and_then(|done| {
            if let Some(open) = done.open {
                stage.client().run(open.end())?;
                stage.settle()?;
            }
            Ok(done.seconds)
        });
        match done {
            Ok(seconds) => {
                let times = after.1.since(before.1);
                Ok(counted(McRow { seconds, ..row }, before.0, after.0, times))
            }
            Err(LabError::Interrupted) => Err(LabError::Interrupted),
            Err(error) => Ok(McRow {
                ok: false,
                error: Some(error.to_string()),
                ..row
            }),
        }
    }
}

fn counted(row: McRow, before: LinkCounters, after: LinkCounters, times: Times) -> McRow {
    McRow {
        stream_up: after.up.tls_bytes - before.up.tls_bytes,
        stream_down: after.down.tls_bytes - before.down.tls_bytes,
        link_bytes: after.up.ip_bytes - before.up.ip_bytes + after.down.ip_bytes
            - before.down.ip_bytes,
        client_us: times.client,
        middlebox_us: times.middlebox,
        server_us: times.server,
        ..row
    }
}
