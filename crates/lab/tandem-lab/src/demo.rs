//! The demonstration: one satellite link, a real server, a real client; without proxies, in packet
//! mode at first contact and then, and through a tunnel; in TLS 1.3 without proxies, and through a
//! tunnel with the server's consent.
//!
//! It shows each packet as it leaves the link, so that what is said in the end can be believed:
//! nothing in its figures comes from the proxies. It fails loudly where an endpoint received other
//! bytes than were sent.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use tandem_netsim::link::{Direction, LinkConfig};

use crate::experiment::{Experiment, Unit, trial_seconds};
use crate::lane::{Lane, LaneSpec, Trial};
use crate::runner;
use crate::setup::Setup;
use crate::waterfalls::Gallery;
use tandem_report::arm::{Arm, StoreState};
use tandem_report::row::Row;
use tandem_report::summary::grouped;
use tandem_report::{self as report, ReportOptions};
use tandem_testbed::LabError;
use tandem_testbed::circumstances;
use tandem_testbed::console::{self, Console, Progress, human_duration};
use tandem_testbed::effort::Effort;
use tandem_testbed::emulator::{Crossing, Emulator, Fate};
use tandem_testbed::endpoints::{Endpoints, Version};
use tandem_testbed::interrupt;
use tandem_testbed::lease::Lease;
use tandem_testbed::links::{self, LinkSpec};
use tandem_testbed::pki;
use tandem_trace::Moment;

/// The link of the demonstration, and the one of the short demonstration.
const LINK: &str = "iridium";
const QUICK_LINK: &str = "inmarsat-64";

/// What is shown, in this order.
const STEPS: [(Arm, &str); 6] = [
    (Arm::Plain, "Plain"),
    (Arm::PacketCold, "First contact"),
    (Arm::Packet, "Packet mode"),
    (Arm::Tunnel, "Tunnel"),
    (Arm::Tls13, "TLS 1.3, plain"),
    (Arm::TunnelConsent, "TLS 1.3, tunnel"),
];

/// The tables in the end: each arm is compared with the first one beside it.
const TABLES: [(&str, &[(Arm, &str)]); 2] = [
    (
        "TLS 1.2",
        &[
            (Arm::Plain, "plain"),
            (Arm::PacketCold, "first contact"),
            (Arm::Packet, "packet mode"),
            (Arm::Tunnel, "tunnel"),
        ],
    ),
    (
        "TLS 1.3",
        &[
            (Arm::Tls13, "plain"),
            (Arm::TunnelConsent, "tunnel, consent"),
        ],
    ),
];

/// How often the display looks at the link. A packet of 60 bytes takes 200 ms on the slowest
/// preset.
const LOOK: Duration = Duration::from_millis(40);

/// What to show.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The `tandem` binary for the daemons.
    pub exe: PathBuf,
    /// Where the page and the captures go; made where it is missing.
    pub out: PathBuf,
    /// `Quick`: each way once, on a faster link.
    pub effort: Effort,
    /// A preset instead of the default.
    pub link: Option<String>,
}

/// Shows it.
///
/// # Errors
/// `BytesDiffer`, `TrialsFailed`; what keeps a lab from being built; `Interrupted`.
pub fn demo(options: &DemoOptions) -> Result<(), LabError> {
    interrupt::watch()?;
    let lease = Lease::any()?;
    let stage = Stage::set(options, &lease)?;
    stage.introduce();
    let rows = stage.play()?;
    stage.conclude(&rows)?;
    runner::verdict(&rows, &options.out.join("demo.jsonl"))
}

struct Stage<'a> {
    options: &'a DemoOptions,
    unit: Unit,
    experiment: Experiment,
    chain: pki::Chain,
    console: Console,
}

impl<'a> Stage<'a> {
    fn set(options: &'a DemoOptions, lease: &Lease) -> Result<Self, LabError> {
        let default = match options.effort {
            Effort::Full => LINK,
            Effort::Quick => QUICK_LINK,
        };
        let link = LinkSpec::preset(options.link.as_deref().unwrap_or(default));
        let config = link.config()?;
        let endpoints = Endpoints::curl();
        fs::create_dir_all(&options.out)
            .map_err(LabError::io(format!("make {}", options.out.display())))?;
        let chain = pki::issue(&lease.directory(), "chain", &endpoints.chain_spec())?;
        let experiment = Experiment {
            name: "demo".to_owned(),
            about: "The demonstration: one server, one client, without and with Tandem.".to_owned(),
            seed: 1,
            trials: match options.effort {
                Effort::Full => 2,
                Effort::Quick => 1,
            },
            links: vec![link.clone()],
            endpoints: vec![endpoints.clone()],
            arms: STEPS.map(|(arm, _)| arm).into(),
            side_by_side: 2,
            situations: Vec::new(),
        };
        Ok(Self {
            options,
            unit: Unit {
                situation: None,
                link,
                config,
                endpoints,
                seed: 1,
            },
            experiment,
            chain,
            console: Console::default(),
        })
    }

    fn introduce(&self) {
        let sizes: Vec<String> = self.chain.sizes.iter().map(usize::to_string).collect();
        let each = |arm| trial_seconds(&self.unit.config, &self.unit.endpoints, arm);
        // The tunnels are set up during the first two.
        let first = (each(Arm::Plain) + each(Arm::PacketCold)).max(each(Arm::TunnelCold));
        let rest = [Arm::Packet, Arm::Tunnel, Arm::Tls13, Arm::TunnelConsent];
        let mut seconds = first + rest.map(each).iter().sum::<f64>();
        if self.experiment.trials > 1 {
            seconds += each(Arm::Plain);
        }
        console::result(&format!(
            "Four hosts on this machine, in network namespaces of their own:\n\n    \
             client ──── client-side proxy ════ {link} ════ server-side proxy ──── server\n\n    \
             client  curl fetches {body} bytes over HTTPS: TLS 1.2, then TLS 1.3\n    \
             link    {figures}\n    \
             server  nginx, shows itself by three certificates of {sizes} bytes\n\n\
             Programs and kernel are the real ones; only the link is emulated. It carries each packet bit by bit and counts it:\n\
             every figure below is the link's, or the kernel's clock at the client. None is the proxies' own.\n\
             This takes about {time}. Times are those of arrival at the far end, from the first packet on.\n",
            link = self.unit.link.name,
            figures = links::describe(&self.unit.config),
            body = tandem_testbed::server::BODY.len(),
            sizes = sizes.join(", "),
            time = human_duration(Duration::from_secs_f64(seconds)),
        ));
    }

    /// All trials; the rows, and on disk what else the page needs.
    fn play(&self) -> Result<Vec<Row>, LabError> {
        let mut plain = self.lane(Arm::Plain)?;
        let mut proxied = self.lane(Arm::Packet)?;
        let mut tunnel = self.lane(Arm::Tunnel)?;
        let mut plain_tls13 = self.lane(Arm::Tls13)?;
        let mut consenting = self.lane(Arm::TunnelConsent)?;
        let mut trials = std::thread::scope(|scope| {
            let setting_up =
                [&mut tunnel, &mut consenting].map(|lane| scope.spawn(move || lane.warm_up()));
            let trials = self.play_first(&mut plain, &mut proxied);
            setting_up
                .map(joined)
                .into_iter()
                .collect::<Result<(), _>>()?;
            trials
        })?;
        console::result(
            "\n3. Packet mode again. The client-side proxy says in the connection itself what it holds, the server-side one\n   \
             leaves that out, and the client-side one puts the exact bytes back before the client sees them.\n",
        );
        trials.push(self.shown(&mut proxied, Arm::Packet)?);
        let counters = tunnel.emulator().counters();
        console::result(&format!(
            "\n4. Tunnel mode: TCP ends at each proxy, and between them there is one QUIC connection, which stays up. It was set\n   \
             up meanwhile on a link of its own and carried a first contact: {} IP bytes in all.\n",
            grouped(counters.up.ip_bytes + counters.down.ip_bytes),
        ));
        trials.push(self.shown(&mut tunnel, Arm::Tunnel)?);
        console::result(
            "\n5. TLS 1.3, plain. It takes one round trip less, but encrypts certificates: no proxy finds them by itself.\n",
        );
        trials.push(self.shown(&mut plain_tls13, Arm::Tls13)?);
        console::result(
            "\n6. TLS 1.3 through a tunnel, with the server's consent: for each connection, nginx gives the server-side proxy the key\n   \
             of its own part of the handshake. Certificates cross as references again. This key opens no application data, and\n   \
             no proxy has another.\n",
        );
        trials.push(self.shown(&mut consenting, Arm::TunnelConsent)?);
        if self.experiment.trials > 1 {
            console::result(
                "\n7. All five once more, at the same time, each on a link of its own.\n",
            );
            let again = std::thread::scope(|scope| {
                let lanes = [
                    &mut plain,
                    &mut proxied,
                    &mut tunnel,
                    &mut plain_tls13,
                    &mut consenting,
                ];
                lanes
                    .map(|lane| scope.spawn(move || lane.trial()))
                    .map(joined)
            });
            for trial in again {
                let trial = trial?;
                console::result(&format!("   {}", in_short(&trial.row)));
                trials.push(trial);
            }
        }
        self.write(&trials)?;
        proxied.finish()?;
        tunnel.finish()?;
        consenting.finish()?;
        Ok(trials.into_iter().map(|trial| trial.row).collect())
    }

    /// What does not take a tunnel, and is shown while these are set up.
    fn play_first(&self, plain: &mut Lane, proxied: &mut Lane) -> Result<Vec<Trial>, LabError> {
        console::result("1. Plain: the gateways only route.\n");
        let first = self.shown(plain, Arm::Plain)?;
        console::result(
            "\n2. Packet mode, first contact: both stores are empty. Nothing can be left out yet; the proxies remember the\n   \
             certificates that pass.\n",
        );
        Ok(vec![first, self.shown(proxied, Arm::PacketCold)?])
    }

    fn lane(&self, arm: Arm) -> Result<Lane, LabError> {
        let endpoints = Setup::of(arm).endpoints(&self.unit.endpoints);
        let spec = LaneSpec {
            experiment: &self.experiment.name,
            link_name: &self.unit.link.name,
            link: self.unit.config.clone(),
            arm,
            endpoints: &endpoints,
            chain: &self.chain,
            client: None,
            exe: &self.options.exe,
            seed: self.unit.seed,
            capture: Some(self.options.out.join(format!("demo-{}.pcapng", arm.name()))),
        };
        Lane::build(&spec, runner::trial_limit(&self.unit))
    }

    /// A trial that is shown packet by packet, under the name of `arm`.
    fn shown(&self, lane: &mut Lane, arm: Arm) -> Result<Trial, LabError> {
        let emulator = lane.emulator();
        let (ending, ended) = mpsc::channel::<()>();
        let expected = trial_seconds(&self.unit.config, &self.unit.endpoints, arm);
        let mut trial = std::thread::scope(|scope| {
            let emulator = &emulator;
            let display = scope.spawn(move || {
                let mut display = Display::new(&self.console, &self.unit.config, expected);
                loop {
                    display.look(emulator);
                    // Nothing is ever sent: the trial's end cuts it off.
                    match ended.recv_timeout(LOOK) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => return display,
                    }
                }
            });
            let trial = lane.trial();
            drop(ending);
            let display = match display.join() {
                Ok(display) => display,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let trial = trial?;
            display.finish(&trial.crossings);
            Ok::<_, LabError>(trial)
        })?;
        trial.row.arm = arm;
        trial.row.store = arm.store();
        console::result(&format!("\n   {}", in_short(&trial.row)));
        Ok(trial)
    }

    fn write(&self, trials: &[Trial]) -> Result<(), LabError> {
        let rows: Vec<Row> = trials.iter().map(|trial| trial.row.clone()).collect();
        let info = circumstances::of_links(&self.experiment.links)?;
        let mut gallery = Gallery::new(&self.unit.config);
        trials.iter().for_each(|trial| gallery.add(trial));
        gallery
            .waterfall(
                &self.experiment.name,
                &self.unit.link.name,
                &self.unit.endpoints.name,
                &self.experiment.arms,
            )
            .write(&self.options.out)?;
        runner::write_results(&self.options.out, &self.experiment, &info, rows).map(|_| ())
    }

    fn conclude(&self, rows: &[Row]) -> Result<(), LabError> {
        console::result(&format!("\n{}", tables(rows)));
        let options = ReportOptions {
            dir: self.options.out.clone(),
            out: None,
        };
        let page = report::make(&options)?;
        console::result(&format!(
            "Why believe it? Bytes were counted by the link, which knows nothing of TLS or proxies. What each end sent and what the\n\
             other received was captured in both hosts and compared byte by byte. curl verified the server's certificates and TLS\n\
             its Finished, as always. What crossed the link lies in {captures}, to look at with Wireshark.\n\n\
             Report with plots: {page}",
            captures = Path::new(&self.options.out).join("demo-*.pcapng").display(),
            page = page.display(),
        ));
        Ok(())
    }
}

/// The packets of a trial, one line each once they have crossed, and what is on the link now.
struct Display<'a> {
    console: &'a Console,
    link: &'a LinkConfig,
    progress: Progress,
    /// Whether each crossing of the log has been printed.
    printed: Vec<bool>,
    zero: Option<Moment>,
}

impl<'a> Display<'a> {
    fn new(console: &'a Console, link: &'a LinkConfig, expected: f64) -> Self {
        Self {
            console,
            link,
            progress: console.spinner(expected),
            printed: Vec::new(),
            zero: None,
        }
    }

    fn look(&mut self, emulator: &Arc<Emulator>) {
        let crossings = emulator.log_from(0);
        self.print_arrived(&crossings);
        let waiting: Vec<String> = crossings
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.is_printed(*index))
            .map(|(_, crossing)| self.under_way(crossing))
            .collect();
        self.progress.doing(&if waiting.is_empty() {
            "the link is idle".to_owned()
        } else {
            format!("on the link: {}", waiting.join(" | "))
        });
    }

    fn finish(mut self, crossings: &[Crossing]) {
        self.print_arrived(crossings);
        self.progress.finish();
    }

    /// Prints what has arrived since the last time, in the order of arrival.
    fn print_arrived(&mut self, crossings: &[Crossing]) {
        self.printed.resize(crossings.len(), false);
        let mut arrived: Vec<usize> = (0..crossings.len())
            .filter(|index| !self.printed[*index])
            .filter(|index| {
                crossings[*index].delivered.is_some() || crossings[*index].fate == Fate::Refused
            })
            .collect();
        arrived.sort_by_key(|index| crossings[*index].delivered);
        for index in arrived {
            self.printed[index] = true;
            self.print(&crossings[index]);
        }
    }

    fn is_printed(&self, index: usize) -> bool {
        self.printed.get(index).copied().unwrap_or(false)
    }

    fn under_way(&self, crossing: &Crossing) -> String {
        let bytes = crossing.packet.len();
        format!(
            "{} {} bytes, {:.1} s of air time, {}",
            arrow(crossing.direction),
            grouped(bytes as u64),
            links::air_seconds(links::side(self.link, crossing.direction), bytes as f64),
            crossing.words
        )
    }

    fn print(&mut self, crossing: &Crossing) {
        let zero = *self.zero.get_or_insert(crossing.offered);
        let arrived = match (crossing.delivered, crossing.fate) {
            (Some(at), _) => format!("{:6.2} s", at.seconds_since(zero)),
            (None, Fate::Taken) => "    lost".to_owned(),
            (None, Fate::Refused) => " refused".to_owned(),
        };
        self.console.line(&format!(
            "   {arrived}  {} {:>5} bytes  {}",
            arrow(crossing.direction),
            grouped(crossing.packet.len() as u64),
            crossing.words
        ));
    }
}

/// What a thread came to.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The client is on the left.
fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "──▶",
        Direction::Down => "◀──",
    }
}

/// A trial in one sentence.
fn in_short(row: &Row) -> String {
    let said = STEPS.iter().find(|(arm, _)| *arm == row.arm);
    let name = said.map_or(row.arm.name(), |(_, name)| name);
    // In TLS 1.3 data cannot be told from session tickets.
    let progress = match (row.seconds_first_byte, row.seconds_handshake) {
        (Some(seconds), _) => Some(format!("first byte after {seconds:.2} s")),
        (None, Some(seconds)) if row.version == Version::Tls13.name() => {
            Some(format!("handshake done after {seconds:.2} s"))
        }
        (None, _) => None,
    };
    match (progress, &row.error) {
        (Some(progress), None) => format!(
            "{name}: {progress}; the link carried {}{} IP bytes in {} packets.",
            row.tls_bytes().map_or_else(String::new, |bytes| format!(
                "{} bytes of TLS handshake, ",
                grouped(bytes)
            )),
            grouped(row.link_bytes()),
            row.link_packets_up + row.link_packets_down,
        ),
        (_, error) => format!(
            "{name}: FAILED: {}",
            error.as_deref().unwrap_or("no application data")
        ),
    }
}

/// The first trials of each arm side by side, warm ones with their share of plain; a table for each
/// version of TLS.
fn tables(rows: &[Row]) -> String {
    let of = |(title, columns): (&str, &[(Arm, &str)])| table(title, columns, rows);
    TABLES.map(of).join("\n")
}

/// One of them; nothing where an arm has no row.
fn table(title: &str, columns: &[(Arm, &str)], rows: &[Row]) -> String {
    type Figure = (&'static str, fn(&Row) -> Option<f64>, usize);
    const FIGURES: [Figure; 5] = [
        ("time to the first byte, s", |row| row.seconds_first_byte, 2),
        ("time of the handshake, s", |row| row.seconds_handshake, 2),
        (
            "TLS handshake bytes on the link",
            |row| row.tls_bytes().map(|bytes| bytes as f64),
            0,
        ),
        (
            "IP bytes on the link, whole connection",
            |row| Some(row.link_bytes() as f64),
            0,
        ),
        (
            "packets on the link",
            |row| Some((row.link_packets_up + row.link_packets_down) as f64),
            0,
        ),
    ];
    let first_of = |(arm, _): &(Arm, &str)| rows.iter().find(|row| row.arm == *arm);
    let firsts: Option<Vec<&Row>> = columns.iter().map(first_of).collect();
    let Some(firsts) = firsts else {
        return String::new();
    };
    let line = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>17}")).collect();
        format!("{name:40}{cells}\n")
    };
    let headings = columns.iter().map(|(_, name)| (*name).to_owned());
    let mut text = line(title, headings.collect());
    for (name, figure, digits) in FIGURES {
        let plain = firsts.first().and_then(|row| figure(row));
        let cell = |row: &&Row| match (figure(row), plain) {
            // What the link does not show, or a trial that failed does not have.
            (None, _) => "\u{2013}".to_owned(),
            (Some(own), Some(plain)) if row.arm.store() == StoreState::Warm && plain > 0.0 => {
                format!("{own:.digits$} = {:.0} %", own / plain * 100.0)
            }
            (Some(own), _) => format!("{own:.digits$}"),
        };
        if firsts.iter().any(|row| figure(row).is_some()) {
            text += &line(name, firsts.iter().map(cell).collect());
        }
    }
    let same = |(arm, _): &(Arm, &str)| {
        let mut all = rows.iter().filter(|row| row.arm == *arm);
        let word = if all.all(|row| row.identical) {
            "yes"
        } else {
            "NO"
        };
        word.to_owned()
    };
    text + &line(
        "every byte arrived as it was sent",
        columns.iter().map(same).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::row;

    #[test]
    fn the_table_has_the_arms_side_by_side_and_says_where_a_byte_differed() {
        let mut rows = vec![
            row(LINK, "curl", Arm::Plain, 20.0, 4000),
            row(LINK, "curl", Arm::PacketCold, 21.0, 4100),
            row(LINK, "curl", Arm::Packet, 8.0, 1000),
            row(LINK, "curl", Arm::Tunnel, 5.0, 1000),
        ];
        (rows[3].tls_bytes_up, rows[3].tls_bytes_down) = (None, None);
        let text = tables(&rows);
        let line = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            line.unwrap_or_default()
                .split_ascii_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(
            line("time to the first byte").ends_with("20.00 21.00 8.00 = 40 % 5.00 = 25 %"),
            "{text}"
        );
        assert!(
            line("TLS handshake bytes").ends_with("4000 4100 1000 = 25 % \u{2013}"),
            "{text}"
        );
        assert!(
            line("every byte arrived").ends_with("yes yes yes yes"),
            "{text}"
        );
        rows[2].identical = false;
        assert!(tables(&rows).contains("NO"));
        rows.pop();
        assert_eq!(tables(&rows).trim(), "");
    }

    #[test]
    fn tls_1_3_has_a_table_of_its_own_without_what_cannot_be_told_of_it() {
        let mut rows = vec![
            row(LINK, "curl", Arm::Tls13, 15.0, 3000),
            row(LINK, "curl", Arm::TunnelConsent, 3.0, 1000),
        ];
        for row in &mut rows {
            row.version = Version::Tls13.name().to_owned();
            row.seconds_handshake = row.seconds_first_byte.take();
        }
        let text = tables(&rows);
        assert!(text.contains(" 15.00      3.00 = 20 %"), "{text}");
        assert!(
            !text.contains("first byte") && !text.contains("packet mode"),
            "{text}"
        );
        let told = in_short(&rows[1]);
        assert!(
            told.starts_with("TLS 1.3, tunnel: handshake done after 3.00 s;"),
            "{told}"
        );
        rows[1].seconds_handshake = None;
        assert!(in_short(&rows[1]).contains("FAILED"));
    }

    #[test]
    fn a_failed_trial_is_told_as_such() {
        let mut failed = row(LINK, "curl", Arm::Packet, 8.0, 1000);
        failed.ok = false;
        failed.error = Some("curl: (35)".to_owned());
        assert_eq!(in_short(&failed), "Packet mode: FAILED: curl: (35)");
    }
}
