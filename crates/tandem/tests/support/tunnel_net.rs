//! Both proxies in tunnel mode in network namespaces, a client and a web server at the ends.
//!
//! Is not: a test, nor what needs no root (`tunnel_pair`).
//!
//! Invariant: everything that is started here ends with the value that stands for it, on a panic
//! too.

use std::fs;
use std::process::Command;

use super::common::tandem;
use super::real::{Family, Fetch, Host, Net, Server, Shape, Site, TlsVersion, bytes, wait_until};
use super::tunnel_pair::{KEYS, Proxy, counted, shown_in, write_private};

/// Port of the server side, at B, unless a test has another.
pub(crate) const LISTEN: u16 = 4433;

/// So that a page that comes has come through the tunnel, however long that takes to be up.
const BY_TUNNEL_ALONE: [&str; 2] = ["--when-down", "fail"];

/// A network with a web server behind B: TLS on 443, HTTP on 80.
pub(crate) struct Place {
    pub(crate) net: Net,
    pub(crate) page: Vec<u8>,
    /// Port of the server side.
    pub(crate) listen: u16,
    _nginx: Server,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(Site::default())
    }

    /// With nginx as this site has it, and HTTP on 80.
    pub(crate) fn with(site: Site) -> Self {
        Self::of(Net::new(Shape::Wire), site)
    }

    /// The same in this network.
    pub(crate) fn of(net: Net, site: Site) -> Self {
        let page = bytes(200_000);
        Server::publish(&net, "page", &page);
        let site = Site {
            clear: vec![80],
            ..site
        };
        let nginx = Server::nginx(&net, &net.server, &site);
        write_private(&net.path("key"), KEYS[0]);
        Self {
            net,
            page,
            listen: LISTEN,
            _nginx: nginx,
        }
    }

    /// Where the proxies meet.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.net.b_address(Family::V4), self.listen)
    }

    /// With a store of this name.
    fn command(&self, role: &str, store: &str) -> Command {
        let mut command = tandem(&[role, "--mode", "tunnel", "--key"]);
        command.arg(self.net.path("key"));
        command.arg("--store").arg(self.net.path(store));
        command
    }

    pub(crate) fn server_side_command(&self) -> Command {
        let mut command = self.command("server-side", "store-b");
        command.args(["--listen", &self.address()]);
        command.args(["--allow", "10.77.3.0/24", "--allow", "fd77:3::/64"]);
        command
    }

    #[track_caller]
    pub(crate) fn server_side(&self) -> Proxy {
        self.server_side_with(&[])
    }

    #[track_caller]
    pub(crate) fn server_side_with(&self, more: &[&str]) -> Proxy {
        Proxy::start(self.server_side_command().args(more), |command| {
            self.net.b.spawn(command)
        })
    }

    pub(crate) fn client_side_command(&self, store: &str) -> Command {
        let mut command = self.command("client-side", store);
        command.args(["--peer", &self.address(), "--link", "link0"]);
        command
    }

    /// One that uses the tunnel alone.
    #[track_caller]
    pub(crate) fn client_side(&self) -> Proxy {
        self.client_side_with(&BY_TUNNEL_ALONE)
    }

    #[track_caller]
    pub(crate) fn client_side_with(&self, more: &[&str]) -> Proxy {
        let mut command = self.client_side_command("store-a");
        Proxy::start(command.args(more), |command| self.net.a.spawn(command))
    }

    /// A gauge of the client side.
    #[track_caller]
    pub(crate) fn client_side_shows(&self, name: &str) -> u64 {
        let metrics = self.net.a.run("curl -s http://127.0.0.1:9470/metrics");
        shown_in(&metrics, name)
    }

    /// A fetch by an address, with no word of a proxy.
    pub(crate) fn fetch(&self, version: TlsVersion) -> Fetch {
        self.fetch_by(Family::V4).version(version)
    }

    /// The same, over this version of IP.
    pub(crate) fn fetch_by(&self, family: Family) -> Fetch {
        Fetch::new(self.net.server_address(family), "page")
    }

    /// A counter of the client side.
    #[track_caller]
    pub(crate) fn client_side_counts(&self, name: &str) -> u64 {
        let metrics = self.net.a.run("curl -s http://127.0.0.1:9470/metrics");
        counted(&metrics, name)
    }

    /// A counter of the server side.
    #[track_caller]
    pub(crate) fn server_side_counts(&self, name: &str) -> u64 {
        let metrics = self.net.b.run("curl -s http://127.0.0.1:9471/metrics");
        counted(&metrics, name)
    }

    /// The lines that nginx has logged, once there are so many; they come after the page.
    #[track_caller]
    pub(crate) fn logged(&self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        wait_until("nginx logs", || {
            let text = fs::read_to_string(Server::log(&self.net)).unwrap_or_default();
            lines = text.lines().map(str::to_owned).collect();
            lines.len() >= count && (text.is_empty() || text.ends_with('\n'))
        });
        lines
    }
}

/// The firewall's rules of a host without counters and comments, and the rules for its routes.
pub(crate) fn rules(host: &Host) -> Vec<String> {
    let of_firewall = ["iptables-save", "ip6tables-save"]
        .into_iter()
        .flat_map(|program| {
            let text = host.run(program);
            let rules = text.lines().filter(|line| line.starts_with("-A"));
            rules.map(str::to_owned).collect::<Vec<_>>()
        });
    let of_routes = ["-4", "-6"].into_iter().flat_map(|version| {
        let rules = host.run(&format!("ip {version} -N rule show"));
        let routes = host.run(&format!("ip {version} route show table all"));
        let routes = routes
            .lines()
            .filter(|line| line.starts_with("local default "));
        rules
            .lines()
            .chain(routes)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    of_firewall.chain(of_routes).collect()
}

/// Runs `tandem off` in a host; what it prints.
#[track_caller]
pub(crate) fn off(host: &Host) -> String {
    let output = host.output(&mut tandem(&["off"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
