//! A lab that stands for use by hand: put up, entered, taken down; and the emulated link alone.
//!
//! The hosts outlive the command that put them up; the link runs in a process of its own (`tandem
//! lab link`) in the background. `down` takes the standing lab down and whatever a killed lab left
//! behind.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use tandem_testbed::LabError;
use tandem_testbed::command;
use tandem_testbed::console;
use tandem_testbed::emulator::{CaptureFile, Emulator};
use tandem_testbed::endpoints::Endpoints;
use tandem_testbed::interrupt;
use tandem_testbed::lease::{self, Lease, STANDING};
use tandem_testbed::links::{self, LinkSpec};
use tandem_testbed::netns::Namespace;
use tandem_testbed::pki::{self, SERVER_NAME};
use tandem_testbed::programs;
use tandem_testbed::server::{PATH, PORT, Server};
use tandem_testbed::topology::{Family, Host, LINK_DEVICE, LinkEnds, Topology, server_address};
use tandem_testbed::tun;

/// The link's process makes two devices and says `ready`; a busy machine may take longer than the
/// usual milliseconds.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// How long the link's process may take to end.
const END_LIMIT: Duration = Duration::from_secs(3);

/// What `up` is to put up.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// The link.
    pub link: LinkSpec,
}

/// Puts the lab up and leaves it standing: four hosts, the link, nginx with a chain of three
/// certificates.
///
/// # Errors
/// `Busy` where one stands already; `NotRoot`, `Kernel`, `ProgramMissing`, `Usage`, `Command`,
/// `Io`.
pub fn up(options: &UpOptions) -> Result<(), LabError> {
    interrupt::watch()?;
    let config = options.link.config()?;
    let lease = Lease::named(STANDING)?;
    let left = lease::existing()?.iter().any(|(name, _)| name == STANDING);
    if left {
        return Err(LabError::Busy {
            what: "the standing lab".to_owned(),
            remedy: "`tandem lab down` takes it down",
        });
    }
    let directory = lease.directory();
    match put_up(lease, options) {
        Ok(()) => {}
        Err(error) => {
            take_down(STANDING)?;
            return Err(error);
        }
    }
    let server = server_address(Family::V4);
    let root = directory.join("chain/root.pem");
    console::result(&format!(
        "The lab stands: client - client-side =({}: {})= server-side - server\n\n  \
         tandem lab shell client                      a shell in a host (client, client-side, server-side, server)\n  \
         tandem lab shell client -- curl --cacert {root} --resolve {SERVER_NAME}:{PORT}:{server} https://{SERVER_NAME}{PATH}\n  \
         tandem lab shell client-side -- tandem client-side --link {LINK_DEVICE} --key KEY --store DIR\n  \
         tandem lab down                              takes everything down\n\n\
         The server, {server}, runs nginx with TLS 1.2 and a chain of three certificates.",
        options.link.name,
        links::describe(&config),
        root = root.display(),
    ));
    Ok(())
}

fn put_up(lease: Lease, options: &UpOptions) -> Result<(), LabError> {
    let directory = lease.directory();
    fs::create_dir_all(&directory).map_err(LabError::io("make the lab's directory"))?;
    let config = options.link.config()?;
    let (topology, ends) = Topology::build_under(lease, config.up.mtu.min(config.down.mtu))?;
    // The devices go with the descriptors, and come again when the link's process makes them; what
    // `ip` set goes too.
    drop(ends);
    let endpoints = Endpoints::three();
    let chain = pki::issue(&directory, "chain", &endpoints.chain_spec())?;
    let server = Server::start(
        topology.host(Host::Server),
        &directory.join("server"),
        &endpoints,
        &chain,
        None,
    )?;
    start_link(&topology, options, &directory)?;
    topology.address_link(config.up.mtu.min(config.down.mtu))?;
    server.leave_running();
    topology.leave_standing();
    Ok(())
}

/// Starts `tandem lab link` in the background and waits until it is ready.
fn start_link(topology: &Topology, options: &UpOptions, directory: &Path) -> Result<(), LabError> {
    let log = directory.join("link.log");
    let output = File::create(&log).map_err(LabError::io("write the link's log"))?;
    let errors = output
        .try_clone()
        .map_err(LabError::io("write the link's log"))?;
    let mut command = Command::new(programs::lab()?);
    command.arg("link");
    for (flag, host) in [
        ("--client-side", Host::ClientSide),
        ("--server-side", Host::ServerSide),
    ] {
        command.args([flag, topology.host(host).name()]);
    }
    command.args(link_arguments(&options.link)?);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    // Out of the terminal's process group, so that Ctrl-C there does not end it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command
        .spawn()
        .map_err(|source| command::start_error(&command, source))?;
    let mark = directory.join("link.process");
    fs::write(&mark, process_mark(child.id())).map_err(LabError::io("note the link's process"))?;
    let ready = interrupt::wait_until(READY_LIMIT, Duration::from_millis(10), || {
        fs::read_to_string(&log).is_ok_and(|text| text.lines().any(|line| line == "ready"))
    })?;
    if ready {
        Ok(())
    } else {
        Err(LabError::Command {
            command: command::line(&command),
            why: fs::read_to_string(&log)
                .unwrap_or_default()
                .trim()
                .to_owned(),
        })
    }
}

/// A link as the command line says it: in figures, so that presets and changes to them need not be
/// told apart.
fn link_arguments(spec: &LinkSpec) -> Result<Vec<String>, LabError> {
    let config = spec.config()?;
    let mut arguments = Vec::new();
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    if let Some(rate) = config.up.rate {
        add("--up", rate.bits_per_second().to_string());
    }
    if let Some(rate) = config.down.rate {
        add("--down", rate.bits_per_second().to_string());
    }
    add("--delay", (config.up.delay.as_secs_f64() * 1e3).to_string());
    if let Some(loss) = spec.loss_percent {
        add("--loss", loss.to_string());
    }
    if let Some(mtu) = spec.mtu {
        add("--mtu", mtu.to_string());
    }
    if let Some(queue) = spec.queue_bytes {
        add("--queue", queue.to_string());
    }
    Ok(arguments)
}

/// Which labs `down` takes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DownScope {
    /// The standing one, and what killed labs left behind.
    #[default]
    Leftovers,
    /// Also those that are running now.
    Everything,
}

/// What to take down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DownOptions {
    /// Which labs.
    pub scope: DownScope,
}

/// Takes labs down: their processes, namespaces and files.
///
/// # Errors
/// `NotRoot`; `Command`, `Io` where something could not be removed (the rest is removed
/// nevertheless).
pub fn down(options: &DownOptions) -> Result<(), LabError> {
    lease::require_root()?;
    let mut first_error = Ok(());
    let (mut removed, mut running) = (0, 0);
    for (name, held) in lease::existing()? {
        let spared = match options.scope {
            DownScope::Leftovers => held,
            DownScope::Everything => false,
        };
        if spared {
            running += 1;
            continue;
        }
        let result = take_down(&name);
        if result.is_ok() {
            removed += 1;
            let what = if name == STANDING {
                "the standing lab".to_owned()
            } else {
                format!("the lab {name}")
            };
            console::result(&format!("{what} is taken down"));
        }
        first_error = first_error.and(result);
    }
    if removed == 0 && first_error.is_ok() {
        console::result("nothing to take down");
    }
    if running > 0 {
        console::result(&format!(
            "labs that are running now, and stay: {running} (--all takes them down, too)"
        ));
    }
    first_error
}

fn take_down(name: &str) -> Result<(), LabError> {
    end_link(&lease::directory(name));
    lease::remove_belongings(name)
}

/// Ends the link's process, where the noted process is still that one.
fn end_link(directory: &Path) {
    let Ok(mark) = fs::read_to_string(directory.join("link.process")) else {
        return;
    };
    let Some(id) = mark
        .split_ascii_whitespace()
        .next()
        .and_then(|word| word.parse::<u32>().ok())
    else {
        return;
    };
    let still = || process_mark(id) == mark;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        if let (true, Ok(pid)) = (still(), i32::try_from(id)) {
            // It may have ended in between.
            let _ = kill(Pid::from_raw(pid), signal);
        }
        let end = std::time::Instant::now() + END_LIMIT;
        while still() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A process's number and the time of its start, which together never come again (proc(5), field 22
/// of stat).
fn process_mark(id: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The second field is a name in brackets that may hold anything, so fields are counted from its
    // end.
    let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
    let mut fields = fields.split_ascii_whitespace();
    match (fields.next(), fields.nth(18)) {
        (Some("Z") | None, _) | (_, None) => format!("{id} gone"),
        (Some(_), Some(start)) => format!("{id} {start}"),
    }
}

/// What to run where.
#[derive(Debug, Clone)]
pub struct ShellOptions {
    /// The host's name: `client`, `client-side`, `server-side` or `server`.
    pub host: String,
    /// The command and its arguments. Empty: `$SHELL`, or `sh`.
    pub command: Vec<OsString>,
}

/// Runs a shell or a command in a host of the standing lab; its exit code.
///
/// # Errors
/// `Usage` where there is no such host or no standing lab; `Io` where the command cannot be
/// started.
pub fn shell(options: &ShellOptions) -> Result<u8, LabError> {
    lease::require_root()?;
    let host = Host::by_name(&options.host)?;
    let namespace = Namespace::open(&lease::namespace(STANDING, host.name()))
        .map_err(|_| LabError::usage("the lab", "does not stand; `tandem lab up` puts it up"))?;
    let default = [std::env::var_os("SHELL").unwrap_or_else(|| "sh".into())];
    let words = if options.command.is_empty() {
        &default[..]
    } else {
        &options.command
    };
    let [program, arguments @ ..] = words else {
        return Err(LabError::usage("the command", "is empty"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if options.command.is_empty() {
        command.env("PS1", format!("[{}] # ", host.name()));
    }
    // A terminal's Ctrl-C is for the shell; the lab only waits for it.
    interrupt::watch()?;
    let status = namespace
        .spawn(&mut command)?
        .wait()
        .map_err(LabError::io("wait for the command"))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}

/// One end of a link: a namespace, and the name of the device to make there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEnd {
    /// The namespace, as `ip netns` calls it.
    pub namespace: String,
    /// The device. Default: `link0`.
    pub device: String,
}

impl FromStr for LinkEnd {
    type Err = LabError;

    /// `NETNS` or `NETNS:DEV`.
    fn from_str(text: &str) -> Result<Self, LabError> {
        let (namespace, device) = text.split_once(':').unwrap_or((text, LINK_DEVICE));
        if namespace.is_empty() || device.is_empty() {
            return Err(LabError::usage(text, "should be NETNS or NETNS:DEV"));
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            device: device.to_owned(),
        })
    }
}

/// What the link alone is to be.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// Where packets that go up come from.
    pub client_side: LinkEnd,
    /// Where packets that go down come from.
    pub server_side: LinkEnd,
    /// The link.
    pub link: LinkSpec,
    /// Where to write what crosses it.
    pub capture: Option<PathBuf>,
    /// Of its chance.
    pub seed: u64,
}

/// Runs the emulated link between two namespaces until SIGINT or SIGTERM: makes a TUN device in
/// each and brings it up, says `ready`, and in the end what it carried, as a line of JSON.
/// Addresses and routes are the caller's.
///
/// # Errors
/// `NotRoot`, `Kernel`, `Usage`, `Io`.
pub fn link(options: &LinkOptions) -> Result<(), LabError> {
    lease::require_root()?;
    interrupt::watch()?;
    let config = options.link.config()?;
    let device = |end: &LinkEnd, mtu: usize| {
        let namespace = Namespace::open(&end.namespace)?;
        let descriptor = namespace.run(|| tun::create(&end.device))?;
        namespace.ip(&format!("link set {} mtu {mtu} up", end.device))?;
        Ok::<_, LabError>(descriptor)
    };
    let ends = LinkEnds {
        client_sides: vec![device(&options.client_side, config.up.mtu)?],
        server_sides: vec![device(&options.server_side, config.down.mtu)?],
    };
    let capture = options.capture.clone().map(|path| CaptureFile {
        path,
        about: format!("link {}, seed {}", options.link.name, options.seed),
    });
    let emulator = Emulator::start(ends, config, options.seed, capture)?;
    console::result("ready");
    // Whoever reads a pipe is to see the line now.
    let _ = std::io::stdout().flush();
    while !interrupt::requested() && emulator.is_running() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let counters = emulator.stop()?;
    let json = serde_json::json!({
        "up": direction_json(&counters.up),
        "down": direction_json(&counters.down),
    });
    console::result(&json.to_string());
    Ok(())
}

fn direction_json(counters: &tandem_netsim::link::DirectionCounters) -> serde_json::Value {
    serde_json::json!({
        "packets": counters.packets,
        "ip_bytes": counters.ip_bytes,
        "tls_bytes": counters.tls_bytes,
        "delivered_packets": counters.delivered_packets,
        "dropped_queue": counters.dropped_queue,
        "dropped_oversize": counters.dropped_oversize,
        "lost": counters.lost,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_namespace_and_perhaps_a_device() -> Result<(), LabError> {
        let end: LinkEnd = "a".parse()?;
        assert_eq!(
            (end.namespace.as_str(), end.device.as_str()),
            ("a", "link0")
        );
        let end: LinkEnd = "a:b".parse()?;
        assert_eq!((end.namespace.as_str(), end.device.as_str()), ("a", "b"));
        assert!("a:".parse::<LinkEnd>().is_err());
        assert!(":b".parse::<LinkEnd>().is_err());
        Ok(())
    }

    #[test]
    fn a_process_that_is_gone_is_told_from_one_that_runs() {
        let own = process_mark(std::process::id());
        assert_eq!(own, process_mark(std::process::id()));
        assert!(!own.contains("gone"));
        assert!(process_mark(u32::MAX).contains("gone"));
    }

    #[test]
    fn a_link_is_handed_on_in_figures() -> Result<(), LabError> {
        let spec = LinkSpec {
            loss_percent: Some(2.0),
            ..LinkSpec::preset("milstar")
        };
        let words = link_arguments(&spec)?.join(" ");
        assert_eq!(words, "--up 2400 --down 256000 --delay 500 --loss 2");
        Ok(())
    }
}
