//! Hosts, a link and perhaps proxies that stand ready for one connection after another, each
//! measured.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tandem_netsim::link::LinkConfig;
use tandem_packet_io::status::Status;

use crate::anatomy::share_of;
use crate::lane::{QUIET, difference};
use crate::phases::Phases;
use tandem_testbed::LabError;
use tandem_testbed::capture::Capture;
use tandem_testbed::client::{self, Outcome};
use tandem_testbed::emulator::Emulator;
use tandem_testbed::endpoints::{self, Sessions, Version};
use tandem_testbed::interrupt;
use tandem_testbed::links::LinkFigures;
use tandem_testbed::proxies::{self, Admin, Mode, Prefer, Proxies, Strategy};
use tandem_testbed::server::{PORT, Server as RunningServer};
use tandem_testbed::topology::{Family, Host, Topology, server_address};
use tandem_trace::Exchange;

use super::clients::Client;
use super::consent::Consent;
use super::servers::{Server, Site};
use super::tools::{self, Tools};

/// Longest that a client may take. The link is fast: what takes this long hangs, on a busy machine,
/// too.
const LIMIT: Duration = Duration::from_secs(30);

/// What is between the gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// The link alone.
    Link,
    /// The link between two proxies in packet mode, safe format.
    Proxies,
    /// The link between two proxies in tunnel mode, which take handshake keys.
    Tunnel,
}

/// One connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Whether the client verified the server and got the whole page.
    pub(crate) ok: bool,
    /// Whether both endpoints received exactly the payload bytes that the other sent.
    pub(crate) identical: bool,
    /// Why not ok, or not identical.
    pub(crate) error: Option<String>,
    /// The version that the server chose, as `1.2`.
    pub(crate) version: Option<String>,
    /// What a browser says of the connection's security, where it calls it secure.
    pub(crate) security: Option<String>,
    /// TCP payload of the handshake on the link, both ways, with the proxies' own options.
    pub(crate) tls_bytes: u64,
    /// Flights that left the server-side proxy as deltas.
    pub(crate) flights_written: u64,
    /// Bytes of flights that the client-side proxy has rebuilt.
    pub(crate) rebuilt_bytes: u64,
    /// Bytes of originals that the server-side proxy had to send after all; in the tunnel, flights.
    pub(crate) originals_bytes: u64,
    /// Bytes of all IP packets on the link.
    #[serde(default)]
    pub(crate) link_bytes: u64,
    /// What the proxies of a tunnel counted of keys, and why flights crossed as they are.
    #[serde(default)]
    pub(crate) counted: BTreeMap<String, u64>,
}

impl Sample {
    /// Whether it came to its end with all bytes as they were sent.
    pub(crate) fn is_well(&self) -> bool {
        self.ok && self.identical
    }

    /// Whether a flight crossed as a delta, and only so.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.flights_written > 0 && self.rebuilt_bytes > 0 && self.originals_bytes == 0
    }
}

/// Whether the server got all but the client's last alert of TLS 1.3, a record of 24 bytes: TCP
/// ends at the proxies of a tunnel, and a server that has closed takes nothing any more.
fn lacks_close_alone(exchange: &Exchange) -> bool {
    const ALERT: usize = 5 + 2 + 1 + 16;
    let up = &exchange.up;
    let [sent, received] = [&up.sent, &up.received].map(|stream| stream.bytes().len());
    let lacking = sent.saturating_sub(received);
    exchange.down.is_identical() && up.is_undamaged() && lacking == ALERT
}

/// What the proxies have counted.
#[derive(Debug, Default)]
struct Counters {
    /// Flights written, bytes rebuilt or left out, originals.
    flights: [u64; 3],
    /// Of keys, and of flights that crossed as they are.
    others: BTreeMap<String, u64>,
}

/// Whether a counter tells of keys or of sealed flights.
fn is_told(name: &str) -> bool {
    [
        "record_keys_",
        "flights_not_opened_",
        "flights_sealed",
        "opened_flights_",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// Hosts and a link, until dropped. Fields are dropped in this order: the hosts go last.
#[derive(Debug)]
pub(crate) struct Bench {
    proxies: Option<Proxies>,
    server: Option<RunningServer>,
    at_client: Capture,
    at_server: Capture,
    emulator: Emulator,
    between: Between,
    consent: Option<Consent>,
    link: LinkConfig,
    exe: PathBuf,
    topology: Topology,
}

impl Bench {
    /// Builds hosts and link. Nothing runs in them yet.
    ///
    /// # Errors
    /// As its parts say.
    pub(crate) fn build(link: &LinkConfig, between: Between, exe: &Path) -> Result<Self, LabError> {
        let (topology, ends) = Topology::build(link.up.mtu.min(link.down.mtu))?;
        Ok(Self {
            proxies: None,
            server: None,
            at_client: Capture::start(topology.host(Host::Client))?,
            at_server: Capture::start(topology.host(Host::Server))?,
            emulator: Emulator::start(ends, link.clone(), 1, None)?,
            between,
            consent: None,
            link: link.clone(),
            exe: exe.to_owned(),
            topology,
        })
    }

    /// Starts a server that speaks one version, and proxies that hold nothing; in a tunnel, with
    /// this consent. What ran before ends.
    ///
    /// # Errors
    /// As the programs say; `Command` where a proxy that ran before did not end well.
    pub(crate) fn serve(
        &mut self,
        server: Server,
        version: Version,
        tools: &Tools,
        consent: Option<Consent>,
    ) -> Result<(), LabError> {
        self.end()?;
        self.consent = consent;
        let directory = self.topology.directory().join("server");
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(LabError::io("empty a directory"))?;
        }
        fs::create_dir_all(&directory).map_err(LabError::io("make a directory"))?;
        let [_, socket] = proxies::key_sockets(&self.topology);
        let releasing = match consent {
            Some(consent) if consent.is_of_server() => self.releasing(socket)?.to_vec(),
            Some(_) | None => Vec::new(),
        };
        let site = Site {
            port: PORT,
            low: version,
            high: version,
            sessions: Sessions::None,
            clients: None,
            releasing: &releasing,
        };
        let namespace = self.topology.host(Host::Server);
        self.server = Some(server.start(namespace, tools, &directory, site)?);
        match self.between {
            Between::Link => {}
            Between::Proxies => self.start_proxies(Mode::Safe)?,
            Between::Tunnel => {
                let figures = LinkFigures::of(&self.link);
                self.start_proxies(Mode::TunnelWithAllKeys(figures, Prefer::Bytes))?;
                for socket in proxies::key_sockets(&self.topology) {
                    // Apache's processes run as another user.
                    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))
                        .map_err(LabError::io("open a socket for keys"))?;
                }
                self.wait_for_tunnel()?;
            }
        }
        Ok(())
    }

    fn start_proxies(&mut self, mode: Mode) -> Result<(), LabError> {
        self.proxies = Some(Proxies::start(
            &self.exe,
            &self.topology,
            mode,
            Strategy::Persistent,
            &self.topology.directory().join("store"),
            Admin::On,
        )?);
        Ok(())
    }

    fn wait_for_tunnel(&self) -> Result<(), LabError> {
        let is_up = || {
            let status = self.proxies.as_ref().map(|it| it.status(&self.topology));
            let has_tunnel = |status: &Status| status.gauges.get("tunnels") > Some(&0);
            matches!(status, Some(Ok(both)) if both.iter().all(has_tunnel))
        };
        match interrupt::wait_until(LIMIT, Duration::from_millis(20), is_up)? {
            true => Ok(()),
            false => Err(LabError::Command {
                command: "the tunnel between two proxies that run".to_owned(),
                why: "is not up".to_owned(),
            }),
        }
    }

    /// What makes a program release its keys at this socket.
    fn releasing(&self, socket: PathBuf) -> Result<[(&'static str, PathBuf); 2], LabError> {
        Ok(endpoints::releasing(client::keytap(&self.exe)?, socket))
    }

    /// Ends server and proxies.
    ///
    /// # Errors
    /// `Command` where a proxy has died or does not end as it should.
    pub(crate) fn end(&mut self) -> Result<(), LabError> {
        self.server = None;
        self.proxies.take().map_or(Ok(()), Proxies::stop)
    }

    /// One connection.
    ///
    /// # Errors
    /// What keeps it from being made at all; a client that fails is a sample that is not ok.
    pub(crate) fn connect(
        &self,
        client: Client,
        version: Version,
        tools: &Tools,
    ) -> Result<Sample, LabError> {
        self.forget();
        let before = self.counters()?;
        let address = SocketAddr::new(server_address(Family::V4), PORT);
        let page = tools::body();
        let mut security = None;
        let mut command = client.command(tools, address, version);
        if self.consent.is_some_and(Consent::is_of_client) && client.uses_openssl() {
            let [socket, _] = proxies::key_sockets(&self.topology);
            command.envs(self.releasing(socket)?);
        }
        let outcome = client::run_program(
            self.topology.host(Host::Client),
            &mut command,
            client.request().as_deref(),
            &self.topology.directory().join("client.log"),
            LIMIT,
            |output, status| {
                security = client.security(output);
                client.is_good(output, status, &page)
            },
        )?;
        interrupt::wait_until(LIMIT, Duration::from_millis(10), || {
            let activity = self.emulator.activity();
            !activity.busy && activity.quiet_for >= QUIET
        })?;
        let after = self.counters()?;
        let mut sample = Sample {
            security,
            ..self.sample(&outcome)
        };
        for (field, index) in [
            (&mut sample.flights_written, 0),
            (&mut sample.rebuilt_bytes, 1),
            (&mut sample.originals_bytes, 2),
        ] {
            *field = after.flights[index].saturating_sub(before.flights[index]);
        }
        let grown = after.others.into_iter().filter_map(|(name, count)| {
            let grown = count.saturating_sub(before.others.get(&name).copied().unwrap_or(0));
            (grown > 0).then_some((name, grown))
        });
        sample.counted = grown.collect();
        Ok(sample)
    }

    /// What the captures and the link's log say.
    fn sample(&self, outcome: &Outcome) -> Sample {
        let exchange = Exchange::find(&self.at_client.take(), &self.at_server.take(), PORT);
        let mut sample = Sample::default();
        match outcome {
            Outcome::Success => sample.ok = true,
            Outcome::Failure(why) => sample.error = Some(why.clone()),
        }
        let Some(exchange) = exchange else {
            sample
                .error
                .get_or_insert_with(|| "no connection was seen".to_owned());
            return sample;
        };
        let is_tunnel = self.between == Between::Tunnel;
        sample.identical = match sample.ok {
            true => exchange.is_identical() || is_tunnel && lacks_close_alone(&exchange),
            false => exchange.is_undamaged(),
        };
        if !sample.identical {
            sample.error.get_or_insert_with(|| difference(&exchange));
        }
        let log = self.emulator.take_log();
        let packets = log.iter().map(|crossing| crossing.packet.len() as u64);
        sample.link_bytes = packets.sum();
        if let Some(phases) = Phases::of(&exchange) {
            sample.version = phases.version.0.to_be_bytes()[1]
                .checked_sub(1)
                .map(|minor| format!("1.{minor}"));
            for crossing in log {
                if let Some(share) = share_of(&crossing, &exchange, &phases) {
                    sample.tls_bytes += share.payload + share.options;
                }
            }
        }
        sample
    }

    /// What the proxies have counted.
    fn counters(&self) -> Result<Counters, LabError> {
        let Some(proxies) = &self.proxies else {
            return Ok(Counters::default());
        };
        let [client_side, server_side] = proxies.status(&self.topology)?;
        let of = |status: &Status, name: &str| status.counters.get(name).copied().unwrap_or(0);
        let is_tunnel = self.between == Between::Tunnel;
        let flights = match is_tunnel {
            false => [
                of(&server_side, "packet_flights_written"),
                of(&client_side, "packet_flights_rebuilt_bytes"),
                of(&server_side, "packet_originals_sent_bytes"),
            ],
            true => [
                of(&server_side, "tunnel_opened_flights_written"),
                of(&server_side, "tunnel_elided_bytes"),
                ["not_held", "malformed", "check"]
                    .map(|why| of(&client_side, &format!("tunnel_flights_missed_{why}")))
                    .iter()
                    .sum(),
            ],
        };
        let mut others = BTreeMap::new();
        for (side, status) in [("client side", &client_side), ("server side", &server_side)] {
            let told = status.counters.iter();
            for (name, count) in told.filter(|(name, _)| is_tunnel && is_told(name)) {
                others.insert(format!("{name} ({side})"), *count);
            }
        }
        Ok(Counters { flights, others })
    }

    fn forget(&self) {
        self.emulator.take_log();
        self.at_client.take();
        self.at_server.take();
    }
}
