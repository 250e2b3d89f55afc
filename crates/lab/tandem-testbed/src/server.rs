//! A server program in the server's namespace: configured, started, waited for, ended.
//!
//! Every server answers any request with [`BODY`]. Unless an arm is about sessions, it issues no
//! tickets and keeps none, so that each handshake is a full one.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command;
use crate::endpoints::{Certificates, Endpoints, Releases, ServerProgram, Sessions, Version};
use crate::error::LabError;
use crate::netns::{self, Namespace};
use crate::nginx;
use crate::pki::Chain;
use crate::programs;

/// HTTPS.
pub const PORT: u16 = 443;

/// What every server answers with.
pub const BODY: &str = "Every trial of the lab moves this same small response, no more.\n";

/// The path that clients ask for.
pub const PATH: &str = "/trial";

/// Issuers that may stand between a client's leaf and what the server trusts: more than the lab
/// issues.
const CLIENTS_DEPTH: &str = "3";

/// A server has its socket open some tens of milliseconds after its start; a busy machine may take
/// longer.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long one may take to end.
const END_LIMIT: Duration = Duration::from_millis(500);

/// A server that runs, until dropped.
#[derive(Debug)]
pub struct Server {
    /// `None` once it is left to run on.
    child: Option<Child>,
}

impl Server {
    /// Starts one and waits until it listens. Its files go to `directory`. It insists on
    /// certificates of clients by the authority of `clients`, where there are any.
    ///
    /// # Errors
    /// `ProgramMissing`, `Io`, or `Command` with its log where it does not come up.
    pub fn start(
        namespace: &Namespace,
        directory: &Path,
        endpoints: &Endpoints,
        chain: &Chain,
        clients: Option<&Chain>,
    ) -> Result<Self, LabError> {
        Self::start_with(namespace, directory, endpoints, &[chain], clients)
    }

    /// The same with one or several chains, each shown to who asks for its name; the first to who
    /// asks for none. Several take nginx.
    ///
    /// # Errors
    /// As [`Server::start`]; `Usage` for several of another program.
    pub fn start_with(
        namespace: &Namespace,
        directory: &Path,
        endpoints: &Endpoints,
        chains: &[&Chain],
        clients: Option<&Chain>,
    ) -> Result<Self, LabError> {
        fs::create_dir_all(directory).map_err(LabError::io("make the server's directory"))?;
        let mut command = match (endpoints.server, chains) {
            (ServerProgram::Nginx, chains) => nginx(directory, endpoints, chains, clients)?,
            (ServerProgram::SServer, [chain]) => s_server(directory, endpoints, chain, clients)?,
            (ServerProgram::Rustls, [chain]) => rustls(directory, endpoints, chain)?,
            (ServerProgram::SServer | ServerProgram::Rustls, _) => {
                return Err(LabError::usage("this server", "shows one chain; use nginx"));
            }
        };
        command.envs(endpoints.released_by(Releases::Server));
        Self::launch(namespace, &mut command, PORT, &directory.join("server.log"))
    }

    /// Starts a server program and waits until it listens on `port`. What it writes goes to `log`.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn launch(
        namespace: &Namespace,
        command: &mut Command,
        port: u16,
        log: &Path,
    ) -> Result<Self, LabError> {
        let file = File::create(log).map_err(LabError::io("write the server's log"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        let mut server = Self {
            child: Some(namespace.spawn(command)?),
        };
        let name = command::line(command);
        match netns::wait_for_listener(namespace, port, &name, START_LIMIT) {
            Err(LabError::Command { command, why }) => {
                let ended = server
                    .child
                    .as_mut()
                    .is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))));
                let text = fs::read_to_string(log).unwrap_or_default();
                let last = text.lines().last().unwrap_or_default();
                let ended = if ended { "it ended; " } else { "" };
                Err(LabError::Command {
                    command,
                    why: format!("{why}; {ended}{last}"),
                })
            }
            other => other.map(|()| server),
        }
    }

    /// Has it stand still, its workers first: the kernel still takes connections and acknowledges,
    /// and no byte is answered.
    pub fn pause(&self) {
        self.signal_all(Signal::SIGSTOP);
    }

    /// Has it go on.
    pub fn resume(&self) {
        self.signal_all(Signal::SIGCONT);
    }

    /// The processes that it is, workers before their master; none once it is left to run on.
    pub fn processes(&self) -> Vec<Pid> {
        let Some(child) = &self.child else {
            return Vec::new();
        };
        let id = child.id();
        // proc(5): the children of a thread, as numbers in a line.
        let children =
            fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let workers = children
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok());
        workers
            .chain(i32::try_from(id).ok())
            .map(Pid::from_raw)
            .collect()
    }

    fn signal_all(&self, signal: Signal) {
        for process in self.processes() {
            // It may have ended, which a client will notice.
            let _ = kill(process, signal);
        }
    }

    /// Does not end it when dropped; it goes with its namespace.
    pub fn leave_running(mut self) {
        self.child = None;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that stands still would not hear.
        self.resume();
        let Some(child) = &mut self.child else {
            return;
        };
        // SIGTERM, so that nginx's master ends its workers; what does not heed it goes with the
        // namespace.
        if let Ok(pid) = i32::try_from(child.id()) {
            // It may have ended already.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if let Ok(None) = command::wait_for(child, END_LIMIT) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The cipher list that a server is given: its own, at security level 0 where the version needs it.
fn suites(endpoints: &Endpoints, default: &str) -> String {
    let list = endpoints.suites.as_deref().unwrap_or(default);
    if endpoints.version.is_legacy() {
        format!("{list}:@SECLEVEL=0")
    } else {
        list.to_owned()
    }
}

fn nginx(
    directory: &Path,
    endpoints: &Endpoints,
    chains: &[&Chain],
    clients: Option<&Chain>,
) -> Result<Command, LabError> {
    let protocol = match endpoints.version {
        Version::Tls10 => "TLSv1",
        Version::Tls11 => "TLSv1.1",
        Version::Tls12 => "TLSv1.2",
        Version::Tls13 => "TLSv1.3",
    };
    let sessions = match endpoints.sessions {
        Sessions::None => "ssl_session_cache none; ssl_session_tickets off;",
        Sessions::Tickets => {
            "ssl_session_cache none; ssl_session_tickets on; ssl_session_timeout 1d;"
        }
        Sessions::Identifiers => {
            "ssl_session_cache shared:lab:1m; ssl_session_tickets off; ssl_session_timeout 1d;"
        }
    };
    let dir = directory.display();
    let asking = clients.map_or_else(String::new, |clients| {
        format!(
            "ssl_client_certificate {}; ssl_verify_client on; ssl_verify_depth {CLIENTS_DEPTH};\n",
            clients.root.display()
        )
    });
    let site = |chain: &&Chain| {
        format!(
            "server {{\n\
               listen {PORT} ssl; listen [::]:{PORT} ssl;\n\
               server_name {name};\n\
               ssl_certificate {full};\n\
               ssl_certificate_key {key};\n\
               ssl_protocols {protocol};\n\
               ssl_ciphers {suites};\n\
               {sessions}\n\
               {asking}\
               location {PATH} {{ return 200 \"{body}\\n\"; }}\n\
               location / {{ root {dir}/www; }}\n\
             }}\n",
            name = chain.name,
            full = chain.full.display(),
            key = chain.key.display(),
            // nginx's own default.
            suites = suites(endpoints, "HIGH:!aNULL:!MD5"),
            body = BODY.trim_end(),
        )
    };
    let sites: String = chains.iter().map(site).collect();
    nginx::command(
        directory,
        &format!("server_tokens off;\ndefault_type text/plain;\n{sites}"),
    )
}

fn s_server(
    directory: &Path,
    endpoints: &Endpoints,
    chain: &Chain,
    clients: Option<&Chain>,
) -> Result<Command, LabError> {
    let root = directory.join("www");
    fs::create_dir_all(&root).map_err(LabError::io("make the server's directory"))?;
    fs::write(root.join(PATH.trim_start_matches('/')), BODY)
        .map_err(LabError::io("write the response"))?;
    let protocol = match endpoints.version {
        Version::Tls10 => "-tls1",
        Version::Tls11 => "-tls1_1",
        Version::Tls12 => "-tls1_2",
        Version::Tls13 => "-tls1_3",
    };
    let mut command = endpoints.openssl.command();
    command
        .current_dir(&root)
        .args([
            "s_server",
            "-accept",
            &PORT.to_string(),
            "-WWW",
            "-no_ticket",
            "-no_cache",
        ])
        .args(["-num_tickets", "0", protocol, "-cert"])
        .arg(&chain.leaf)
        .arg("-key")
        .arg(&chain.key)
        .args(["-cipher", &suites(endpoints, "DEFAULT")]);
    if endpoints.chain > 1 {
        command.arg("-cert_chain").arg(&chain.issuers);
    }
    if let Some(groups) = &endpoints.groups {
        command.args(["-groups", groups]);
    }
    match endpoints.certificates {
        Certificates::Whole => {}
        Certificates::Compressed => drop(command.arg("-cert_comp")),
    }
    if let Some(clients) = clients {
        command
            .args(["-Verify", CLIENTS_DEPTH, "-verify_return_error", "-CAfile"])
            .arg(&clients.root);
    }
    Ok(command)
}

fn rustls(directory: &Path, endpoints: &Endpoints, chain: &Chain) -> Result<Command, LabError> {
    let body = directory.join("body");
    fs::write(&body, BODY).map_err(LabError::io("write the response"))?;
    let mut command = Command::new(programs::example("rustls-server")?);
    command
        .arg(PORT.to_string())
        .arg(endpoints.version.name())
        .args([&chain.full, &chain.key, &body]);
    match endpoints.certificates {
        Certificates::Whole => {}
        Certificates::Compressed => drop(command.arg("brotli")),
    }
    Ok(command)
}
