//! The servers: how each is set up, started, asked for its own count of resumed sessions, ended.
//!
//! Equal settings: one certificate, the same files, one thread or process that works where it can
//! be chosen, sessions by tickets and in a cache, no other log than the one that counts.

mod settings;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tandem_testbed::installed::{self, Question};
use tandem_testbed::pki::Chain;
use tandem_testbed::{LabError, command, interrupt, programs};

use crate::site::{Site, free_ports, together};

/// A virtual machine of Java takes a while on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long one may take to end.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Apache's way to use processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessModel {
    Prefork,
    Worker,
    Event,
}

impl ProcessModel {
    fn name(self) -> &'static str {
        match self {
            Self::Prefork => "prefork",
            Self::Worker => "worker",
            Self::Event => "event",
        }
    }
}

/// Where sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Tickets, and a cache that all processes share.
    All,
    /// A cache that all processes share, no tickets.
    Shared,
    /// A cache of each process's own, no tickets; nginx only.
    Own,
}

/// A server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Nginx,
    Apache(ProcessModel),
    Haproxy,
    Go,
    Java,
    Node,
    Openssl,
    Hyper,
}

impl Program {
    pub(crate) const ALL: [Self; 10] = [
        Self::Nginx,
        Self::Apache(ProcessModel::Prefork),
        Self::Apache(ProcessModel::Worker),
        Self::Apache(ProcessModel::Event),
        Self::Haproxy,
        Self::Go,
        Self::Java,
        Self::Node,
        Self::Openssl,
        Self::Hyper,
    ];

    /// What tables call it, and `--servers` names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache(ProcessModel::Prefork) => "apache-prefork",
            Self::Apache(ProcessModel::Worker) => "apache-worker",
            Self::Apache(ProcessModel::Event) => "apache-event",
            Self::Haproxy => "haproxy",
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "node",
            Self::Openssl => "s_server",
            Self::Hyper => "rustls-hyper",
        }
    }

    /// Whether it serves files over plain HTTP, too.
    pub(crate) fn has_plain(self) -> bool {
        self != Self::Openssl
    }

    /// Whether it serves files of this size: HAProxy answers out of one buffer.
    pub(crate) fn serves(self, bytes: u64) -> bool {
        self != Self::Haproxy || bytes <= 12_288
    }

    /// Whether it calls OpenSSL as a shared object, by the functions that can be timed. Where
    /// s_server serves files, libssl calls itself.
    pub(crate) fn has_openssl(self) -> bool {
        match self {
            Self::Nginx | Self::Apache(_) | Self::Haproxy => true,
            Self::Go | Self::Java | Self::Node | Self::Openssl | Self::Hyper => false,
        }
    }

    fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Nginx => &["nginx"],
            Self::Apache(_) => &["apache2"],
            Self::Haproxy => &["haproxy"],
            Self::Go => &["go"],
            Self::Java => &["java", "javac"],
            Self::Node => &["node"],
            Self::Openssl => &["openssl"],
            Self::Hyper => &[],
        }
    }

    /// Why it cannot be measured here.
    pub(crate) fn missing(self) -> Option<String> {
        let missing = self
            .needs()
            .iter()
            .find(|program| installed::find(program).is_none());
        match (missing, self) {
            (Some(program), _) => Some(format!("{program} is not installed")),
            (None, Self::Hyper) => programs::example("hyper-server")
                .err()
                .map(|_| "the example hyper-server is not built".to_owned()),
            (None, Self::Apache(model)) => {
                let module = settings::apache_module(&format!("mpm_{}", model.name()));
                (!module.exists()).then(|| format!("{} is missing", module.display()))
            }
            (None, _) => None,
        }
    }

    /// The version that is installed.
    pub(crate) fn version(self) -> Option<String> {
        let program = |name: &str| installed::find(name).unwrap_or_default();
        match self {
            Self::Nginx => Question::new(program("nginx"), &["-v"]).ask(),
            Self::Apache(_) => Question::new(program("apache2"), &["-v"]).ask(),
            Self::Haproxy => Question::new(program("haproxy"), &["-v"]).ask(),
            Self::Go => Question::new("go", &["version"]).ask(),
            Self::Java => Question::new("java", &["--version"]).ask(),
            Self::Node => Question::new("node", &["--version"]).ask(),
            Self::Openssl => Question::new("openssl", &["version"]).ask(),
            Self::Hyper => Some("0.23 with hyper 1".to_owned()),
        }
    }

    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    /// `Command` with its words where it does not come up; `Io`, `Interrupted`.
    pub(crate) fn start(self, site: &Site, wanted: &Wanted<'_>) -> Result<Running, LabError> {
        let ports = free_ports()?;
        let folder = site.folder.join(format!("{}-{}", self.name(), ports[0]));
        fs::create_dir_all(&folder).map_err(LabError::io("make a folder"))?;
        let place = Place {
            site,
            folder: &folder,
            ports,
            wanted,
        };
        let mut command = self.command(&place)?;
        if let Some((library, file)) = wanted.timed {
            command.env("LD_PRELOAD", library);
            command.env("TANDEM_COST_TAP", file);
        }
        Running::launch(self, command, ports, folder)
    }

    fn command(self, place: &Place<'_>) -> Result<Command, LabError> {
        let site = place.site;
        let program =
            |name: &str| site.server(installed::find(name).unwrap_or_else(|| name.into()));
        let mut command = match self {
            Self::Nginx => {
                let file = place.write("nginx.conf", &settings::nginx(place))?;
                let mut command = program("nginx");
                command
                    .arg("-c")
                    .arg(file)
                    .arg("-p")
                    .arg(place.folder)
                    .args(["-e", "stderr"]);
                command
            }
            Self::Apache(model) => {
                let file = place.write("apache.conf", &settings::apache(place, model))?;
                let mut command = program("apache2");
                command
                    .arg("-d")
                    .arg(place.folder)
                    .arg("-f")
                    .arg(file)
                    .arg("-DFOREGROUND");
                command
            }
            Self::Haproxy => {
                let file = place.write("haproxy.cfg", &settings::haproxy(place))?;
                let mut command = program("haproxy");
                command.args(["-db", "-f"]).arg(file);
                command
            }
            Self::Openssl => {
                let mut command = program("openssl");
                let chain = place.wanted.chain;
                command
                    .current_dir(site.www())
                    .args(["s_server", "-quiet", "-WWW", "-accept"])
                    .arg(format!("127.0.0.1:{}", place.ports[0]))
                    .arg("-cert")
                    .arg(&chain.leaf)
                    .arg("-cert_chain")
                    .arg(&chain.issuers)
                    .arg("-key")
                    .arg(&chain.key);
                command
            }
            Self::Go => {
                place.write("server.go", include_str!("../programs/server.go"))?;
                let own = Command::new("go");
                compile(own, place.folder, &["build", "-o", "server", "server.go"])?;
                site.server(place.folder.join("server"))
            }
            Self::Java => {
                place.write(
                    "FileServer.java",
                    include_str!("../programs/FileServer.java"),
                )?;
                compile(Command::new("javac"), place.folder, &["FileServer.java"])?;
                let mut command = program("java");
                command.arg("-cp").arg(place.folder).arg("FileServer");
                command
            }
            Self::Node => {
                let file = place.write("server.js", include_str!("../programs/server.js"))?;
                let mut command = program("node");
                command.arg(file);
                command
            }
            Self::Hyper => site.server(programs::example("hyper-server")?),
        };
        if let Self::Go | Self::Java | Self::Node | Self::Hyper = self {
            let chain = place.wanted.chain;
            command.args(place.ports.map(|port| port.to_string()));
            command.arg(&chain.full).arg(&chain.key).arg(site.www());
        }
        Ok(command)
    }
}

/// How a server is to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) chain: &'a Chain,
    pub(crate) keeping: Keeping,
    /// Processes that work, where the server lets that be chosen.
    pub(crate) workers: usize,
    /// A library to load that times its calls of OpenSSL, and the file that it writes to.
    pub(crate) timed: Option<(&'a Path, &'a Path)>,
}

/// What a server's settings are written from.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    site: &'a Site,
    folder: &'a Path,
    /// With TLS, without.
    ports: [u16; 2],
    wanted: &'a Wanted<'a>,
}

impl Place<'_> {
    fn write(&self, name: &str, text: &str) -> Result<PathBuf, LabError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(LabError::io(format!("write {name}")))?;
        Ok(path)
    }

    fn combined(&self) -> PathBuf {
        together(self.wanted.chain)
    }
}

fn compile(mut compiler: Command, folder: &Path, words: &[&str]) -> Result<(), LabError> {
    compiler
        .current_dir(folder)
        // What comes with the compiler is all that is used; nothing is to be fetched.
        .envs([
            ("GOTOOLCHAIN", "local"),
            ("GOPROXY", "off"),
            ("CGO_ENABLED", "0"),
        ])
        .args(words);
    command::run(&mut compiler).map(drop)
}

/// A server that runs, until dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    program: Program,
    folder: PathBuf,
    /// With TLS, without.
    ports: [u16; 2],
}

/// A server's own count of its connections over TLS: new sessions, resumed ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OwnCount {
    pub(crate) fresh: u64,
    pub(crate) resumed: u64,
}

impl Running {
    fn launch(
        program: Program,
        mut command: Command,
        ports: [u16; 2],
        folder: PathBuf,
    ) -> Result<Self, LabError> {
        let file =
            |name: &str| File::create(folder.join(name)).map_err(LabError::io("write a log"));
        let child = command
            // Apache ends its whole process group, which is not to be the lab's.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file("out.log")?)
            .stderr(file("error.log")?)
            .spawn()
            .map_err(|source| command::start_error(&command, source))?;
        let mut running = Self {
            child,
            program,
            folder,
            ports,
        };
        let last = if program.has_plain() {
            &ports[..]
        } else {
            &ports[..1]
        };
        let mut has_ended = false;
        let listens = interrupt::wait_until(START_LIMIT, Duration::from_millis(20), || {
            has_ended = matches!(running.child.try_wait(), Ok(Some(_)));
            let open = |port: &u16| TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok();
            has_ended || last.iter().all(open)
        })?;
        if listens && !has_ended {
            return Ok(running);
        }
        let words = fs::read_to_string(running.folder.join("error.log")).unwrap_or_default();
        Err(LabError::Command {
            command: program.name().to_owned(),
            why: format!(
                "it does not listen; {}",
                words.lines().last().unwrap_or_default()
            ),
        })
    }

    /// Its first process.
    pub(crate) fn pid(&self) -> Pid {
        // Linux's numbers of processes are far below the largest of this type.
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// The address with TLS or without, as a URL.
    pub(crate) fn url(&self, has_tls: bool) -> String {
        match has_tls {
            true => format!("https://{}:{}/", crate::site::NAME, self.ports[0]),
            false => format!("http://{}:{}/", crate::site::NAME, self.ports[1]),
        }
    }

    /// The port with TLS.
    pub(crate) fn port(&self) -> u16 {
        self.ports[0]
    }

    /// Stands still, or goes on.
    pub(crate) fn signal(&self, signal: Signal) {
        for process in crate::usage::family(self.pid()) {
            // One that has ended needs none.
            let _ = kill(process, signal);
        }
    }

    /// What it has counted so far, where it tells.
    pub(crate) fn count(&self) -> Option<OwnCount> {
        let of_log = |name: &str, fresh: &str, resumed: &str| {
            let log = fs::read_to_string(self.folder.join(name)).ok()?;
            let count = |word| log.lines().filter(|line| *line == word).count() as u64;
            Some(OwnCount {
                fresh: count(fresh),
                resumed: count(resumed),
            })
        };
        match self.program {
            Program::Nginx => of_log("tls.log", ".", "r"),
            Program::Apache(_) => of_log("tls.log", "Initial", "Resumed"),
            Program::Haproxy => of_log("out.log", "0", "1"),
            Program::Go | Program::Node | Program::Hyper => self.asked(),
            Program::Java | Program::Openssl => None,
        }
    }

    /// The answer of the lab's own programs.
    fn asked(&self) -> Option<OwnCount> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[1]));
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(END_LIMIT)).ok()?;
        let request = "GET /counts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let numbers: Vec<u64> = answer.split("\r\n").find_map(|line| {
            let numbers: Option<Vec<u64>> = line.split(' ').map(|word| word.parse().ok()).collect();
            numbers.filter(|numbers| numbers.len() == 2)
        })?;
        Some(OwnCount {
            fresh: numbers[0],
            resumed: numbers[1],
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let family = crate::usage::family(self.pid());
        // It may have ended already. One that stands still would not hear.
        let _ = kill(self.pid(), Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
        if let Ok(None) = command::wait_for(&mut self.child, END_LIMIT) {
            for process in family {
                let _ = kill(process, Signal::SIGKILL);
            }
            let _ = self.child.wait();
        }
    }
}
