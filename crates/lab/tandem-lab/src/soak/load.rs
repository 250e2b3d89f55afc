//! The clients of a soak: programs that connect again and again, several connections at once, and
//! say of each how it went.
//!
//! A client compares each page with the file that the servers serve. TLS itself vouches for the
//! handshake: a byte that differs there fails Finished.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::sites::{Handshake, Row};
use crate::interop::clients::Client;
use crate::interop::tools::{self, Tools};
use tandem_testbed::LabError;
use tandem_testbed::client::{self, Outcome};
use tandem_testbed::command;
use tandem_testbed::effort::Effort;
use tandem_testbed::endpoints::Version;
use tandem_testbed::netns::Namespace;
use tandem_testbed::pki::Chain;
use tandem_testbed::topology::{Family, server_address};

/// Longest that a connection may take. Plain TCP on a link that loses a few packets in a hundred
/// needs some seconds at worst.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Clients that keep many connections going in one process: which, their versions, connections at
/// once, and whether they visit the sites too that keep sessions or ask for certificates.
const HEAVY: [(Client, &str, u32, Visits); 4] = [
    (Client::Go, "1.2,1.0,1.1,1.3", 10, Visits::All),
    (Client::Python, "1.2,1.1,1.0,1.3", 6, Visits::All),
    (Client::Java, "1.2,1.0,1.3,1.1", 4, Visits::Plain),
    (Client::Rustls, "1.2,1.3", 6, Visits::All),
];

/// Which sites a client visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visits {
    All,
    /// Those that want nothing of it but a full handshake.
    Plain,
}

impl Visits {
    fn includes(self, site: &Row) -> bool {
        match self {
            Visits::All => true,
            Visits::Plain => site.is_plain(),
        }
    }
}

/// Of both, those of a quick run: nothing is to be compiled for them.
const QUICK: [Client; 4] = [
    Client::Python,
    Client::Openssl,
    Client::Curl,
    Client::Gnutls,
];

/// Clients that make one connection a process, one after the other.
const LIGHT: [Client; 6] = [
    Client::Openssl,
    Client::Curl,
    Client::Wget,
    Client::Gnutls,
    Client::Nss,
    Client::Node,
];

/// What clients are to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) sites: &'a [Row],
    pub(crate) effort: Effort,
    pub(crate) versions: &'a [Version],
    /// What makes a program that uses the system's OpenSSL release its handshake keys.
    pub(crate) releasing: &'a [(&'static str, PathBuf)],
}

/// How a connection went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fared {
    /// The whole page came, as it is.
    Well,
    /// It did not come.
    Failed,
    /// Another page came.
    Differs,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) client: &'static str,
    pub(crate) fared: Fared,
    pub(crate) port: u16,
    pub(crate) version: String,
    pub(crate) milliseconds: u64,
    pub(crate) handshake: Handshake,
    /// In the client's words, where it did not go well.
    pub(crate) why: String,
    /// When the client said so.
    pub(crate) at: Instant,
}

impl Report {
    /// `VERDICT PORT VERSION MILLISECONDS full|resumed WORDS`, as the lab's own clients say it.
    fn read(client: &'static str, line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let fared = match words.next()? {
            "ok" => Fared::Well,
            "failed" => Fared::Failed,
            "differs" => Fared::Differs,
            _ => return None,
        };
        Some(Self {
            client,
            fared,
            port: words.next()?.parse().ok()?,
            version: words.next()?.to_owned(),
            milliseconds: words.next()?.parse().ok()?,
            handshake: match words.next()? {
                "full" => Handshake::Full,
                "resumed" => Handshake::Resumed,
                _ => return None,
            },
            why: words.next().unwrap_or_default().to_owned(),
            at: Instant::now(),
        })
    }
}

/// All clients, until dropped.
#[derive(Debug)]
pub(crate) struct Load {
    heavy: Vec<Heavy>,
    light: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    /// Names of the programs that take part.
    pub(crate) names: Vec<&'static str>,
    /// Connections that all of them have at once.
    pub(crate) parallel: u64,
}

#[derive(Debug)]
struct Heavy {
    child: Child,
    /// Its end tells the client to end.
    stdin: Option<ChildStdin>,
}

impl Load {
    /// Starts all that are installed, in `namespace`. What they say goes to `reports`.
    ///
    /// # Errors
    /// `Io`, or `Command` where a client cannot be compiled.
    pub(crate) fn start(
        namespace: &Namespace,
        tools: &Tools,
        shown: &Chain,
        asking: &Asking<'_>,
        reports: &Sender<Report>,
    ) -> Result<Self, LabError> {
        let Asking {
            sites,
            effort,
            versions: spoken,
            releasing,
        } = *asking;
        let takes_part = |client: Client| {
            let wanted = match effort {
                Effort::Full => true,
                Effort::Quick => QUICK.contains(&client),
            };
            wanted && client.is_installed(tools)
        };
        let mut load = Self {
            heavy: Vec::new(),
            light: None,
            over: Arc::default(),
            names: Vec::new(),
            // The light ones have one between them.
            parallel: 1,
        };
        for (client, versions, parallel, visits) in HEAVY {
            if takes_part(client) {
                client.prepare(tools)?;
                let sites = sites.iter().filter(|site| visits.includes(site));
                let is_spoken = |name: &&str| spoken.iter().any(|it| it.name() == *name);
                let versions: Vec<&str> = versions.split(',').filter(is_spoken).collect();
                let words = Words {
                    ports: sites.map(Row::word).collect::<Vec<_>>().join(","),
                    versions: versions.join(","),
                    parallel,
                    shown,
                    releasing: client.released(releasing),
                };
                load.heavy
                    .push(start(client, namespace, tools, &words, reports.clone())?);
                load.names.push(client.name());
                load.parallel += u64::from(parallel);
            }
        }
        let light: Vec<Client> = LIGHT
            .into_iter()
            .filter(|client| takes_part(*client))
            .collect();
        for client in &light {
            client.prepare(tools)?;
            load.names.push(client.name());
        }
        let (namespace, tools, over) = (namespace.clone(), tools.clone(), Arc::clone(&load.over));
        let plain = sites.iter().filter(|site| site.is_plain());
        let ports: Vec<u16> = plain.map(|site| site.port).collect();
        let reports = reports.clone();
        let log = tools.path("light-client.log");
        let (spoken, releasing) = (spoken.to_vec(), releasing.to_vec());
        load.light = Some(std::thread::spawn(move || {
            let all = spoken.into_iter().flat_map(|version| {
                let ports = ports.clone();
                ports.into_iter().map(move |port| (port, version))
            });
            let all: Vec<_> = all
                .flat_map(|(port, version)| {
                    let light = light.clone();
                    light.into_iter().map(move |client| (client, port, version))
                })
                .collect();
            for (client, port, version) in all.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let mut command = client.command(&tools, site(*port), *version);
                command.envs(client.released(&releasing).iter().cloned());
                let Some(report) = once(*client, &namespace, command, *port, *version, &log) else {
                    return;
                };
                if reports.send(report).is_err() {
                    return;
                }
            }
        }));
        Ok(load)
    }

    /// Whether all still run.
    pub(crate) fn is_running(&mut self) -> bool {
        self.heavy
            .iter_mut()
            .all(|heavy| matches!(heavy.child.try_wait(), Ok(None)))
    }

    /// Tells all to finish what they do, and waits for them.
    pub(crate) fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for heavy in &mut self.heavy {
            heavy.stdin = None;
        }
        let end = Instant::now() + LIMIT;
        for heavy in &mut self.heavy {
            let left = end.saturating_duration_since(Instant::now());
            let _ = command::wait_for(&mut heavy.child, left);
            // What has not ended by now hangs; what it was at is not in the reports.
            let _ = heavy.child.kill();
            let _ = heavy.child.wait();
        }
        if let Some(light) = self.light.take()
            && light.join().is_err()
        {
            tracing::warn!("the thread of the one-connection clients panicked");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for heavy in &mut self.heavy {
            let _ = heavy.child.kill();
            let _ = heavy.child.wait();
        }
    }
}

/// Where the servers listen.
fn site(port: u16) -> SocketAddr {
    SocketAddr::new(server_address(Family::V4), port)
}

/// What a heavy client is told.
struct Words<'a> {
    ports: String,
    versions: String,
    parallel: u32,
    shown: &'a Chain,
    releasing: &'a [(&'static str, PathBuf)],
}

fn start(
    client: Client,
    namespace: &Namespace,
    tools: &Tools,
    words: &Words<'_>,
    reports: Sender<Report>,
) -> Result<Heavy, LabError> {
    let mut command = client.loader(tools);
    command
        .arg("load")
        .arg(server_address(Family::V4).to_string())
        .args([&words.ports, &words.versions])
        .arg(&tools.chain.root)
        .arg(words.parallel.to_string())
        .arg(tools.page())
        .args([&words.shown.full, &words.shown.key])
        .env("OPENSSL_CONF", tools.path("openssl.cnf"))
        .envs(words.releasing.iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // So that Ctrl-C at the terminal reaches the lab alone, which ends them in order.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = namespace.spawn(&mut command)?;
    let name = client.name();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let report = Report::read(name, &line);
                // Nobody counts any more once the soak is over.
                if report.is_none_or(|report| reports.send(report).is_err()) {
                    return;
                }
            }
        });
    }
    Ok(Heavy {
        stdin: child.stdin.take(),
        child,
    })
}

/// One connection of a light client. `None`: the lab is being ended.
fn once(
    client: Client,
    namespace: &Namespace,
    mut command: Command,
    port: u16,
    version: Version,
    log: &Path,
) -> Option<Report> {
    let begin = Instant::now();
    let page = tools::body();
    let outcome = client::run_program(
        namespace,
        &mut command,
        client.request().as_deref(),
        log,
        LIMIT,
        |output, status| client.is_good(output, status, &page),
    )
    .ok()?;
    let (fared, why) = match outcome {
        Outcome::Success => (Fared::Well, String::new()),
        Outcome::Failure(why) => (Fared::Failed, why),
    };
    Some(Report {
        client: client.name(),
        fared,
        port,
        version: version.name().to_owned(),
        milliseconds: u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
        handshake: Handshake::Full,
        why,
        at: Instant::now(),
    })
}

impl Client {
    /// These, where the library works in it.
    fn released<'a>(
        self,
        releasing: &'a [(&'static str, PathBuf)],
    ) -> &'a [(&'static str, PathBuf)] {
        match self.uses_openssl() {
            true => releasing,
            false => &[],
        }
    }

    /// The program that is told to `load`.
    fn loader(self, tools: &Tools) -> Command {
        match self {
            Client::Go => Command::new(tools.path("go-client")),
            Client::Java => tools.java("Client"),
            Client::Python => {
                let mut command = Command::new("python3");
                command.arg(tools.path("client.py"));
                command
            }
            Client::Rustls => {
                Command::new(tools.rustls().unwrap_or_else(|| "rustls-client".as_ref()))
            }
            Client::Openssl
            | Client::Curl
            | Client::Wget
            | Client::Gnutls
            | Client::Nss
            | Client::Node
            | Client::Browser(_) => Command::new("false"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_is_read_and_nothing_else() {
        let line = "failed 443 1.2 61000 resumed dial tcp: i/o timeout";
        let report = Report::read("Go", line).expect("a report");
        let at = report.at;
        assert_eq!(
            report,
            Report {
                client: "Go",
                fared: Fared::Failed,
                port: 443,
                version: "1.2".to_owned(),
                milliseconds: 61_000,
                handshake: Handshake::Resumed,
                why: "dial tcp: i/o timeout".to_owned(),
                at,
            }
        );
        let fared = |line| Report::read("Go", line).map(|report| report.fared);
        assert_eq!(fared("ok 443 1.0 3 full "), Some(Fared::Well));
        assert_eq!(fared("ok 443 1.0 3 full"), Some(Fared::Well));
        assert_eq!(
            fared("differs 443 1.0 3 full 12 bytes"),
            Some(Fared::Differs)
        );
        assert_eq!(fared("ok 443 1.0 3 half"), None);
        assert_eq!(fared("ok 443 1.0 3"), None);
        assert_eq!(fared("panic: something"), None);
    }
}
