//! What the tests with real programs share: certificates, a plain server, an origin and a volunteer
//! in this process, relays between them.
#![allow(dead_code, reason = "each test takes what it needs of it")]

pub(crate) mod group;
pub(crate) mod line;
pub(crate) mod pki;
pub(crate) mod relay;
pub(crate) mod server;
pub(crate) mod talk;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tandem_channel::{ClientChannel, Connector, KeyName, Pin};
use tandem_daemon::metrics::Number;
use tandem_split_io::{SPLIT, origin, volunteer};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use pki::Pki;
use server::Server;

/// Runs a program to its end; it must succeed.
pub(crate) fn ran(command: &mut Command) -> Output {
    let out = tried(command);
    assert!(
        out.status.success(),
        "{command:?}: {}\n{}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    out
}

/// Runs a program to its end.
pub(crate) fn tried(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs all these at once; each must print this.
pub(crate) fn all_print(commands: impl IntoIterator<Item = Command>, body: &[u8]) {
    let running: Vec<_> = commands
        .into_iter()
        .map(|mut command| {
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            command.spawn().expect("it runs")
        })
        .collect();
    for running in running {
        let out = running.wait_with_output().expect("it ends");
        assert!(out.status.success(), "{out:?}");
        assert!(out.stdout == body);
    }
}

/// Waits for something that is on its way.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < std::time::Duration::from_secs(60),
            "{what}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The value of a number.
pub(crate) fn value(numbers: &[Number], name: &str) -> u64 {
    numbers
        .iter()
        .find(|number| number.name() == name)
        .unwrap_or_else(|| panic!("there is no {name}"))
        .value()
}

/// A site with its server, its origin and a volunteer.
pub(crate) struct Site {
    pub(crate) pki: Pki,
    pub(crate) server: Server,
    pub(crate) origin: SocketAddr,
    pub(crate) origin_key: KeyName,
    pub(crate) volunteer: SocketAddr,
    pub(crate) at_origin: Vec<Number>,
    pub(crate) at_volunteer: Vec<Number>,
    pub(crate) to_origin: relay::Counting,
    runtime: Runtime,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with_cache(None)
    }

    pub(crate) fn with_cache(cache: Option<PathBuf>) -> Self {
        Self::build(Server::start(), cache, |origin| origin)
    }

    /// One whose origin serves so many channels at a time.
    pub(crate) fn with_channels(channels: usize) -> Self {
        Self::build(Server::start(), None, |origin| origin.limited_to(channels))
    }

    /// One whose origin keeps so many bytes of bodies.
    pub(crate) fn keeping(bytes: u64) -> Self {
        Self::build(Server::start(), None, |origin| origin.keeping(bytes))
    }

    /// One with another server behind it.
    pub(crate) fn in_front_of(server: SocketAddr) -> Self {
        Self::build(behind(server), None, |origin| origin)
    }

    /// The same, with limits on what a volunteer may cause.
    pub(crate) fn with_limits(server: SocketAddr, limits: origin::Limits) -> Self {
        Self::build(behind(server), None, |origin| origin.with_limits(limits))
    }

    fn build(
        server: Server,
        cache: Option<PathBuf>,
        set: impl FnOnce(origin::Origin) -> origin::Origin,
    ) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let pki = Pki::new();
        let settings = origin_settings(&pki, server.address);
        let bound = runtime
            .block_on(origin::Origin::bind(settings))
            .expect("the origin starts");
        let bound = set(bound);
        let (address, at_origin) = (bound.address().expect("bound"), bound.numbers());
        let key = bound.key();
        runtime.spawn(bound.serve());
        let to_origin = relay::Counting::start(address);
        let (volunteer, at_volunteer) = start_volunteer(&runtime, to_origin.address, key, cache);
        Self {
            pki,
            server,
            origin: address,
            origin_key: key,
            volunteer,
            at_origin,
            at_volunteer,
            to_origin,
            runtime,
        }
    }

    /// Opens channels to the origin, always with the same key.
    pub(crate) fn connector(&self) -> Connector {
        let key = volunteer::key(None).expect("a key");
        Connector::new(SPLIT, &key, Pin::to(self.origin_key)).expect("TLS")
    }

    /// A channel to the origin, to be used by hand.
    pub(crate) async fn channel(&self, connector: &Connector) -> ClientChannel {
        let stream = TcpStream::connect(self.origin).await;
        connector
            .open(stream.expect("it listens"))
            .await
            .expect("TLS")
    }

    /// One more, with a cache of its own.
    pub(crate) fn another_volunteer(
        &self,
        origin: SocketAddr,
        key: KeyName,
        cache: Option<PathBuf>,
    ) -> (SocketAddr, Vec<Number>) {
        start_volunteer(&self.runtime, origin, key, cache)
    }

    /// For what a test starts of its own.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Curl, told where the site is.
    pub(crate) fn curl(&self, path: &str) -> Command {
        self.curl_at(self.volunteer, path)
    }

    /// The same, by another way to the volunteer.
    pub(crate) fn curl_at(&self, address: SocketAddr, path: &str) -> Command {
        curl(&self.pki, address, path)
    }

    pub(crate) fn origin_counts(&self, name: &str) -> u64 {
        value(&self.at_origin, name)
    }

    pub(crate) fn volunteer_counts(&self, name: &str) -> u64 {
        value(&self.at_volunteer, name)
    }
}

/// A server of the test's own.
fn behind(address: SocketAddr) -> Server {
    Server {
        address,
        seen: std::sync::Arc::default(),
    }
}

/// Curl, told where `split.test` is.
pub(crate) fn curl(pki: &Pki, address: SocketAddr, path: &str) -> Command {
    let port = address.port();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*"])
        .args(["--max-time", "60", "--cacert", pki.ca()])
        .args(["--resolve", &format!("split.test:{port}:127.0.0.1")])
        .arg(format!("https://split.test:{port}{path}"));
    curl
}

/// The site's origin, in front of this server.
pub(crate) fn origin_settings(pki: &Pki, server: SocketAddr) -> origin::Settings {
    origin::Settings {
        listen: "127.0.0.1:0".parse().expect("an address"),
        upstream: format!("http://{server}").parse().expect("a URL"),
        certificate: pki.certificate.clone(),
        key: pki.key.clone(),
        channel_key: None,
        admitted: None,
        resumption: origin::Resumption::Offered,
    }
}

/// A volunteer of this origin, with nothing but a cache.
pub(crate) fn volunteer_settings(
    origin: SocketAddr,
    key: KeyName,
    cache: Option<PathBuf>,
) -> volunteer::Settings {
    volunteer::Settings {
        key: volunteer::key(cache.as_deref()).expect("a key"),
        origin: origin.to_string(),
        origin_key: Some(key),
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        cache,
        cache_limit: 1 << 30,
        rate: None,
        members: volunteer::constant_members(Vec::new()),
        peer_listen: Vec::new(),
        directory: std::sync::Arc::new(volunteer::Nobody),
    }
}

pub(crate) fn start_volunteer(
    runtime: &Runtime,
    origin: SocketAddr,
    key: KeyName,
    cache: Option<PathBuf>,
) -> (SocketAddr, Vec<Number>) {
    let settings = volunteer_settings(origin, key, cache);
    let bound = runtime
        .block_on(volunteer::Volunteer::bind(settings))
        .expect("the volunteer starts");
    let address = bound.address().expect("bound");
    let numbers = bound.numbers();
    runtime.spawn(bound.serve());
    (address, numbers)
}
