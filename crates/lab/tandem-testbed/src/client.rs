//! A client program in the client's namespace: one connection, one small request, the whole
//! response.

use std::fs::File;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::command;
use crate::endpoints::{
    Certificates, ClientProgram, Endpoints, Offer, Releases, ServerName, Version,
};
use crate::error::LabError;
use crate::interrupt;
use crate::netns::Namespace;
use crate::pki::{Chain, Validity};
use crate::programs;
use crate::server::{BODY, PATH, PORT};
use crate::topology::server_address;

/// How a client fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It verified the server and received the whole response.
    Success,
    /// It did not; why, in its own words where it had any.
    Failure(String),
}

/// What a client shows of itself.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// Its certificates and key.
    pub chain: &'a Chain,
    /// The library that makes it announce them; `None`: it does not.
    pub keytap: Option<&'a Path>,
}

/// Where the library is that makes programs announce certificates and release keys: beside the
/// program `exe`, as cargo leaves it, or where the package puts it.
///
/// # Errors
/// `Usage` where it is nowhere.
pub fn keytap(exe: &Path) -> Result<PathBuf, LabError> {
    let beside = exe.parent().unwrap_or(exe);
    [
        beside.join(KEYTAP),
        beside.join("deps").join(KEYTAP),
        Path::new("/usr/lib/tandem").join(KEYTAP),
    ]
    .into_iter()
    .find(|path| path.is_file())
    .ok_or_else(|| {
        LabError::usage(
            KEYTAP,
            "is needed by programs that announce certificates or release keys; make build builds it",
        )
    })
}

/// The library's file.
const KEYTAP: &str = "libtandem_keytap.so";

/// Whether a client has been to the server before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Nothing is kept and nothing offered.
    Only,
    /// The session is kept for [`Visit::Return`].
    First,
    /// It is offered again.
    Return,
}

/// Runs a client to its end, for at most `limit`. It shows `identity` if the server asks. Its words
/// go to a file in `directory`.
///
/// # Errors
/// `ProgramMissing`, `Io`, `Interrupted`. A client that fails is an [`Outcome`].
pub fn run(
    namespace: &Namespace,
    directory: &Path,
    endpoints: &Endpoints,
    chain: &Chain,
    identity: Option<Identity<'_>>,
    limit: Duration,
) -> Result<Outcome, LabError> {
    let only = Visit::Only;
    visit(
        namespace, directory, endpoints, chain, identity, limit, only,
    )
}

/// As [`run`], for a client that may return. Only `s_client` keeps a session when it ends.
///
/// # Errors
/// `Command`, `Io`, `Interrupted`.
pub fn visit(
    namespace: &Namespace,
    directory: &Path,
    endpoints: &Endpoints,
    chain: &Chain,
    identity: Option<Identity<'_>>,
    limit: Duration,
    visit: Visit,
) -> Result<Outcome, LabError> {
    let address = server_address(endpoints.family.family());
    let mut command = match endpoints.client {
        ClientProgram::Curl => curl(address, endpoints, chain),
        ClientProgram::SClient => s_client(address, endpoints, chain),
        ClientProgram::GnutlsCli => gnutls_cli(address, endpoints, chain),
        ClientProgram::Rustls => rustls(address, endpoints, chain)?,
    };
    command.envs(endpoints.released_by(Releases::Client));
    if let Some(Identity { chain, keytap }) = identity {
        show(&mut command, endpoints.client, chain);
        command.envs(keytap.map(|keytap| ("LD_PRELOAD", keytap)));
    }
    let session = directory.join("session.pem");
    match visit {
        Visit::Only => {}
        Visit::First => drop(command.arg("-sess_out").arg(&session)),
        Visit::Return => drop(command.arg("-sess_in").arg(&session)),
    }
    // Programs that take the request from standard input send it once they are connected.
    let request = match endpoints.client {
        ClientProgram::Curl | ClientProgram::Rustls => None,
        ClientProgram::SClient | ClientProgram::GnutlsCli => Some(format!(
            "GET {PATH} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            chain.name
        )),
    };
    // The exit status of s_client and gnutls-cli also tells how the server closed; what counts is
    // the response. All of them are told to verify the server and give no response without.
    let is_good = |output: &[u8], status: ExitStatus| {
        contains(output, BODY) && (status.success() || endpoints.client != ClientProgram::Curl)
    };
    let log = directory.join("client.log");
    run_program(
        namespace,
        &mut command,
        request.as_deref(),
        &log,
        limit,
        is_good,
    )
}

/// Connections one after the other for some time, by the client on rustls; how many. Its words go
/// to a file in `directory`.
///
/// # Errors
/// `Usage` where it is not built; `Command` for a connection that did not bring the whole response;
/// `Io`, `Interrupted`.
pub fn load(
    namespace: &Namespace,
    directory: &Path,
    endpoints: &Endpoints,
    chain: &Chain,
    time: Duration,
) -> Result<u64, LabError> {
    let (expected, log) = (directory.join("expected"), directory.join("load.log"));
    std::fs::write(&expected, BODY).map_err(LabError::io("write the response"))?;
    let output = File::create(&log).map_err(LabError::io("write the client's log"))?;
    let mut command = Command::new(programs::example("rustls-client")?);
    command
        .args([
            "load",
            &server_address(endpoints.family.family()).to_string(),
        ])
        .args([&PORT.to_string(), endpoints.version.name()])
        .arg(&chain.root)
        .arg("1")
        .arg(&expected)
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::null());
    let mut running = Running(namespace.spawn(&mut command)?);
    interrupt::wait_until(time, Duration::from_millis(50), || false)?;
    // The end of its standard input ends it, after the connection that is under way.
    drop(running.0.stdin.take());
    running
        .0
        .wait()
        .map_err(LabError::io("wait for the client"))?;
    let words = std::fs::read_to_string(&log).map_err(LabError::io("read the client's log"))?;
    let failed = words.lines().find(|line| !line.starts_with("ok "));
    match failed.or_else(|| words.is_empty().then_some("no connection at all")) {
        None => Ok(words.lines().count() as u64),
        Some(why) => Err(LabError::Command {
            command: command::line(&command),
            why: why.to_owned(),
        }),
    }
}

/// Whether a text is somewhere in what a program wrote.
pub fn contains(output: &[u8], text: &str) -> bool {
    output
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Runs a client program to its end, for at most `limit`. `request` is written to its standard
/// input. Its words go to `log`; whether it fared well `is_good` tells by its output and exit
/// status.
///
/// # Errors
/// As [`run`].
pub fn run_program(
    namespace: &Namespace,
    command: &mut Command,
    request: Option<&str>,
    log: &Path,
    limit: Duration,
    is_good: impl FnOnce(&[u8], ExitStatus) -> bool,
) -> Result<Outcome, LabError> {
    let errors = File::create(log).map_err(LabError::io("write the client's log"))?;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors);
    let mut running = Running(namespace.spawn(command)?);
    // The pipe stays open until the program ends: its end would make some close the connection
    // early.
    let mut stdin = running.0.stdin.take();
    if let (Some(pipe), Some(request)) = (&mut stdin, request) {
        // A client that has ended already says why by its status.
        let _ = pipe.write_all(request.as_bytes());
    }
    let child = &mut running.0;
    let ended = interrupt::wait_until(limit, Duration::from_millis(2), || {
        !matches!(child.try_wait(), Ok(None))
    })?;
    if !ended {
        return Ok(Outcome::Failure(format!(
            "no end after {:.0} s",
            limit.as_secs_f64()
        )));
    }
    drop(stdin);
    let mut output = Vec::new();
    if let Some(mut stdout) = running.0.stdout.take() {
        stdout
            .read_to_end(&mut output)
            .map_err(LabError::io("read the client's output"))?;
    }
    let status = running
        .0
        .wait()
        .map_err(LabError::io("wait for the client"))?;
    if is_good(&output, status) {
        return Ok(Outcome::Success);
    }
    let words = std::fs::read_to_string(log).unwrap_or_default();
    let last = words
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Ok(Outcome::Failure(format!("{status}: {last}")))
}

/// Ends its process when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// An address as it stands before a colon and a port.
fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn curl(address: IpAddr, endpoints: &Endpoints, chain: &Chain) -> Command {
    let mut command = Command::new("curl");
    command
        // First, so that the user's own settings stay out.
        .arg("-q")
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--noproxy",
            "*",
            "--cacert",
        ])
        .arg(&chain.root)
        .arg("--resolve")
        .arg(format!("{}:{PORT}:{}", chain.name, bracketed(address)));
    match chain.validity {
        Validity::Current => {}
        Validity::Expired => drop(command.arg("--insecure")),
    }
    match endpoints.offer {
        Offer::Only => {
            let name = endpoints.version.name();
            command.args([&format!("--tlsv{name}"), "--tls-max", name]);
        }
        Offer::Default => {}
    }
    if endpoints.version.is_legacy() {
        command.args(["--ciphers", "DEFAULT@SECLEVEL=0"]);
    }
    command.arg(format!("https://{}{PATH}", chain.name));
    command
}

fn s_client(address: IpAddr, endpoints: &Endpoints, chain: &Chain) -> Command {
    let mut command = endpoints.openssl.command();
    command
        // -quiet also keeps it reading after its standard input has nothing more.
        .args(["s_client", "-quiet", "-connect"])
        .arg(format!("{}:{PORT}", bracketed(address)))
        .arg("-CAfile")
        .arg(&chain.root)
        .args(["-verify_hostname", chain.name]);
    match endpoints.server_name {
        ServerName::Sent => command.args(["-servername", chain.name]),
        ServerName::Withheld => command.arg("-noservername"),
    };
    match chain.validity {
        Validity::Current => drop(command.arg("-verify_return_error")),
        Validity::Expired => {}
    }
    match endpoints.offer {
        Offer::Only => {
            command.arg(match endpoints.version {
                Version::Tls10 => "-tls1",
                Version::Tls11 => "-tls1_1",
                Version::Tls12 => "-tls1_2",
                Version::Tls13 => "-tls1_3",
            });
        }
        Offer::Default => {}
    }
    if endpoints.version.is_legacy() {
        command.args(["-cipher", "DEFAULT@SECLEVEL=0"]);
    }
    if let Some(groups) = &endpoints.groups {
        command.args(["-groups", groups]);
    }
    command
}

fn gnutls_cli(address: IpAddr, endpoints: &Endpoints, chain: &Chain) -> Command {
    let mut command = Command::new("gnutls-cli");
    command
        .arg("--x509cafile")
        .arg(&chain.root)
        .args(["--port", &PORT.to_string()])
        .args([
            "--sni-hostname",
            chain.name,
            "--verify-hostname",
            chain.name,
        ]);
    match endpoints.offer {
        Offer::Only => {
            command.arg(format!(
                "--priority=NORMAL:-VERS-ALL:+VERS-TLS{}",
                endpoints.version.name()
            ));
        }
        Offer::Default => {}
    }
    command.arg(address.to_string());
    command
}

/// Gives a client certificates of its own.
fn show(command: &mut Command, client: ClientProgram, chain: &Chain) {
    match client {
        ClientProgram::Curl => {
            command.arg("--cert").arg(&chain.full);
            command.arg("--key").arg(&chain.key);
        }
        ClientProgram::SClient => {
            command.arg("-cert").arg(&chain.leaf);
            command.arg("-key").arg(&chain.key);
            if chain.sizes.len() > 1 {
                command.arg("-cert_chain").arg(&chain.issuers);
            }
        }
        ClientProgram::GnutlsCli => {
            command.arg("--x509certfile").arg(&chain.full);
            command.arg("--x509keyfile").arg(&chain.key);
        }
        // It has no option for them; an experiment with them is refused.
        ClientProgram::Rustls => {}
    }
}

/// The lab's example takes TLS of one version in any case.
fn rustls(address: IpAddr, endpoints: &Endpoints, chain: &Chain) -> Result<Command, LabError> {
    let mut command = Command::new(programs::example("rustls-client")?);
    command
        .arg(address.to_string())
        .arg(PORT.to_string())
        .arg(endpoints.version.name())
        .arg(&chain.root);
    match endpoints.certificates {
        Certificates::Whole => {}
        Certificates::Compressed => drop(command.arg("brotli")),
    }
    Ok(command)
}
