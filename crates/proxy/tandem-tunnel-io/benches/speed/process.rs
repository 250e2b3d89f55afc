//! The processes of the arms: this program again, told by its environment what to be.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use tandem_daemon::process::raise_descriptor_limit;
use tandem_link::inband::Key;
use tandem_tunnel::{Allowed, Handshakes, Limits, Prefer, Rules, WayOut};
use tandem_tunnel_io::config::{
    ClientAddresses, ClientCertificates, ClientSide, DnsServer, Line, Renewals, ServerSide,
};
use tandem_tunnel_io::{run_client_side, run_server_side};
use tempfile::TempDir;

use crate::{bare, server};

/// What a process is, in its environment.
pub const ROLE: &str = "TANDEM_SPEED_ROLE";
const LISTEN: &str = "TANDEM_SPEED_LISTEN";
const TO: &str = "TANDEM_SPEED_TO";
const STORE: &str = "TANDEM_SPEED_STORE";

/// Killed when it is dropped.
pub struct Process {
    child: Child,
    _store: TempDir,
}

impl Process {
    /// In this role, listening here, carrying to there; ready once this returns.
    pub fn start(role: &str, listen: SocketAddr, to: SocketAddr) -> Self {
        let store = tempfile::tempdir().expect("room");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .env(ROLE, role)
            .env(LISTEN, listen.to_string())
            .env(TO, to.to_string())
            .env(STORE, store.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n", "{role}");
        Self {
            child,
            _store: store,
        }
    }

    /// Bytes of memory.
    pub fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("proc(5)");
        let kilobytes = line.split_whitespace().next().expect("a number");
        kilobytes.parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free for TCP now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// This process in a role, until it is killed.
pub fn run(role: &str) -> ! {
    raise_descriptor_limit();
    // Standard input ends with whoever started this.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let address = |name| -> SocketAddr {
        let text = std::env::var(name).expect("set by the bench");
        text.parse().expect("an address")
    };
    let (listen, to) = (address(LISTEN), address(TO));
    let store = std::env::var_os(STORE).expect("set by the bench").into();
    let key = Key::from_bytes([5; Key::LEN]);
    let ready = || println!("ready");
    let outcome = match role {
        "server" => work(server::serve(listen, ready)),
        "bare-near" => work(bare::near(listen, to, ready)),
        "bare-far" => work(bare::far(listen, to, ready)),
        "client-side" => run_client_side(
            ClientSide {
                server: None,
                key,
                peer: to,
                link: None,
                socks: Some(listen),
                http_proxy: None,
                rules: Rules::default(),
                limits: Limits::default(),
                tariff: None,
                client_addresses: ClientAddresses::Kept,
                renewals: Renewals::AtVisits,
                client_certificates: ClientCertificates::default(),
                dns: None,
                handshake_keys: None,
                prefer: Prefer::default(),
                authorities: None,
                line: Line::default(),
                handshakes: Handshakes::Shortened,
                store,
                admin: None,
                mode_reason: None,
            },
            ready,
        )
        .map_err(|error| error.to_string()),
        _ => run_server_side(
            ServerSide {
                clients: std::collections::HashSet::new(),
                shared_store: None,
                key,
                listen,
                allowed: Allowed::everything(),
                way_out: WayOut::Own,
                dns_server: DnsServer::Nobody,
                client_certificates: ClientCertificates::default(),
                handshake_keys: None,
                prefer: Prefer::default(),
                authorities: None,
                line: Line::default(),
                handshakes: Handshakes::Shortened,
                store,
                admin: None,
                mode_reason: None,
            },
            ready,
        )
        .map_err(|error| error.to_string()),
    };
    if let Err(error) = outcome {
        eprintln!("{role}: {error}");
    }
    std::process::exit(1);
}

fn work(work: impl Future<Output = ()>) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(work);
    Ok(())
}
