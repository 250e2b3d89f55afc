//! Where the daemons' processor time goes, kernel and user apart: section 4.2 of the thesis,
//! redone.
//!
//! The kernel tells user from system time by looking, some hundred times a second, which of the two
//! it is (proc(5), `utime` and `stime`). A handshake takes a millisecond, so thousands are made one
//! after the other, and the exact time on a processor (`schedstat`) is shared out in that
//! proportion.
//!
//! Is not: a look into the user part; what its stages take is timed in benches, since the daemons
//! have no clock of their own.
//!
//! Invariants: one connection at a time, by one client program that runs on, a full handshake each;
//! what fails is an error.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lane::{Lane, LaneSpec};
use tandem_report::accounts::Accounts as Line;
use tandem_report::arm::Arm;
use tandem_testbed::LabError;
use tandem_testbed::accounts::Accounts;
use tandem_testbed::circumstances;
use tandem_testbed::console::{self, Console};
use tandem_testbed::endpoints::Endpoints;
use tandem_testbed::interrupt;
use tandem_testbed::lease::Lease;
use tandem_testbed::links::LinkSpec;
use tandem_testbed::pki;
use tandem_testbed::topology::Host;

/// The fastest link of the thesis: nothing waits for it.
const LINK: &str = "tcdl-10";

/// A queue that does nothing, packet mode, and tunnel mode.
const ARMS: [Arm; 3] = [Arm::PassThrough, Arm::Packet, Arm::Tunnel];

/// How long a lane's own handshakes may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What to profile and how.
#[derive(Debug, Clone)]
pub struct ProfileOptions {
    /// How long handshakes are made with each arm, seconds.
    pub seconds: u32,
    /// Where the result goes; made where it is missing.
    pub out: PathBuf,
    /// The `tandem` binary for the daemons.
    pub exe: PathBuf,
}

/// Makes handshakes through both daemons, one after the other, and writes `profile.jsonl` and
/// `profile.run.json`; what it found in words to standard output.
///
/// # Errors
/// `NotRoot`, `Kernel`, `ProgramMissing`, `Usage` where the lab cannot be built; `Command` where a
/// handshake failed; `Interrupted`, `Io`.
pub fn profile(options: &ProfileOptions) -> Result<PathBuf, LabError> {
    interrupt::watch()?;
    let console = Console::default();
    let lease = Lease::any()?;
    fs::create_dir_all(&options.out)
        .map_err(LabError::io(format!("make {}", options.out.display())))?;
    let endpoints = Endpoints::three();
    let chain = pki::issue(&lease.directory(), "chain", &endpoints.chain_spec())?;
    let link = LinkSpec::preset(LINK);
    let mut lines = Vec::new();
    for arm in ARMS {
        console.say(&format!(
            "{}: handshakes for {} s",
            arm.name(),
            options.seconds
        ));
        let mut lane = Lane::build(
            &LaneSpec {
                experiment: "profile",
                link_name: LINK,
                link: link.config()?,
                arm,
                endpoints: &endpoints,
                chain: &chain,
                client: None,
                exe: &options.exe,
                seed: 1,
                capture: None,
            },
            LIMIT,
        )?;
        lane.warm_up()?;
        let seconds = Duration::from_secs(u64::from(options.seconds));
        let (handshakes, accounts) = lane.load(seconds)?;
        lane.finish()?;
        let hosts = [Host::ClientSide, Host::ServerSide];
        for (host, [before, after]) in hosts.into_iter().zip(accounts) {
            lines.push(line(arm, host, handshakes, before, after));
        }
    }
    let path = options.out.join("profile.jsonl");
    write(&path, &lines)?;
    circumstances::of_links(&[link])?.write_beside(&path)?;
    console::result(&table(&lines));
    Ok(path)
}

fn line(arm: Arm, host: Host, handshakes: u64, before: Accounts, after: Accounts) -> Line {
    let each = |sum: f64| sum / handshakes.max(1) as f64;
    let user = after.user_ticks.saturating_sub(before.user_ticks) as f64;
    let system = after.system_ticks.saturating_sub(before.system_ticks) as f64;
    let micros = after.micros.saturating_sub(before.micros) as f64;
    let share = user / (user + system).max(1.0);
    Line {
        arm,
        daemon: host.role().unwrap_or_default().to_owned(),
        handshakes,
        user_us: each(micros * share),
        system_us: each(micros * (1.0 - share)),
        wakeups: each(after.switches.saturating_sub(before.switches) as f64),
        packets: each(after.queued.saturating_sub(before.queued) as f64),
    }
}

fn write(path: &Path, lines: &[Line]) -> Result<(), LabError> {
    let io = || LabError::io(format!("write {}", path.display()));
    let mut file = fs::File::create(path).map_err(io())?;
    for line in lines {
        let text = serde_json::to_string(line).map_err(|error| io()(error.into()))?;
        writeln!(file, "{text}").map_err(io())?;
    }
    Ok(())
}

fn table(lines: &[Line]) -> String {
    let mut text = "| arm | daemon | handshakes | user, µs | kernel, µs | wake-ups | packets |\n\
                    |---|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for line in lines {
        text.push_str(&format!(
            "| {} | {} | {} | {:.0} | {:.0} | {:.1} | {:.1} |\n",
            line.arm.name(),
            line.daemon,
            line.handshakes,
            line.user_us,
            line.system_us,
            line.wakeups,
            line.packets
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_time_is_shared_out_as_it_was_seen() {
        let after = Accounts {
            micros: 10_000,
            user_ticks: 1,
            system_ticks: 3,
            switches: 40,
            queued: 120,
        };
        let line = line(
            Arm::Packet,
            Host::ClientSide,
            10,
            Accounts::default(),
            after,
        );
        assert_eq!(
            (line.user_us, line.system_us, line.wakeups, line.packets),
            (250.0, 750.0, 4.0, 12.0)
        );
        assert_eq!(line.daemon, "client-side");
    }
}
