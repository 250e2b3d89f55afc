//! Tunnel mode with `--link`: connections that would leave by an interface are taken in, in a
//! gateway and on the client itself; nothing else is, and the rules go.
//!
//! Root only; skipped, with a message, otherwise.

mod common;
mod real;
mod split_site;
mod tunnel_pair;

use std::process::Command;

use common::tandem;
use nix::sys::signal::Signal;
use real::{Family, Fetch, Host, Net, Server, Shape, Site, TlsVersion, bytes, can_run};
use tunnel_pair::{KEYS, Proxy, counted, write_private};

/// Counts what the client side rebuilt.
const REBUILT: &str = "tunnel_flights_rebuilt";
/// UDP port of the server side, at B.
const LISTEN: u16 = 4433;

/// A network with a web server behind B: TLS on 443, HTTP on 80.
struct Place {
    net: Net,
    page: Vec<u8>,
    _nginx: Server,
}

impl Place {
    fn new() -> Self {
        let net = Net::new(Shape::Wire);
        let page = bytes(200_000);
        Server::publish(&net, "page", &page);
        let site = Site {
            clear: vec![80],
            ..Site::default()
        };
        let nginx = Server::nginx(&net, &net.server, &site);
        write_private(&net.path("key"), KEYS[0]);
        Self {
            net,
            page,
            _nginx: nginx,
        }
    }

    /// With a store of this name.
    fn command(&self, role: &str, store: &str) -> Command {
        let mut command = tandem(&[role, "--mode", "tunnel", "--key"]);
        command.arg(self.net.path("key"));
        command.arg("--store").arg(self.net.path(store));
        command
    }

    #[track_caller]
    fn server_side(&self) -> Proxy {
        let mut command = self.command("server-side", "store-b");
        let address = self.net.b_address(Family::V4);
        command.args(["--listen", &format!("{address}:{LISTEN}")]);
        command.args(["--allow", "10.77.3.0/24"]);
        Proxy::start(&mut command, |command| self.net.b.spawn(command))
    }

    fn client_side_command(&self, store: &str) -> Command {
        let mut command = self.command("client-side", store);
        let address = self.net.b_address(Family::V4);
        command.args(["--peer", &format!("{address}:{LISTEN}")]);
        command.args(["--link", "link0"]);
        command
    }

    #[track_caller]
    fn client_side(&self) -> Proxy {
        Proxy::start(&mut self.client_side_command("store-a"), |command| {
            self.net.a.spawn(command)
        })
    }

    /// A fetch by an address, with no word of a proxy.
    fn fetch(&self, version: TlsVersion) -> Fetch {
        Fetch::new(self.net.server_address(Family::V4), "page").version(version)
    }

    /// How many flights the client side has rebuilt.
    #[track_caller]
    fn rebuilt(&self) -> u64 {
        let metrics = self.net.a.run("curl -s http://127.0.0.1:9470/metrics");
        counted(&metrics, REBUILT)
    }

    /// The rules of the host at A, without counters and comments.
    fn rules(&self) -> Vec<String> {
        rules(&self.net.a)
    }
}

fn rules(host: &Host) -> Vec<String> {
    ["iptables-save", "ip6tables-save"]
        .into_iter()
        .flat_map(|program| {
            let text = host.run(program);
            let rules = text.lines().filter(|line| line.starts_with("-A"));
            rules.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn clients_without_a_proxy_setting_are_taken_in_and_their_pages_are_the_same() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let before = place.rules();
    let server_side = place.server_side();
    let client_side = place.client_side();
    let mut rebuilt = Vec::new();
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for host in [&place.net.client, &place.net.a] {
            place.fetch(version).curl(host).is(&place.page);
            rebuilt.push(place.rebuilt());
        }
    }
    // The second handshake of TLS 1.2 is the first that crosses short.
    assert!(rebuilt[1] > rebuilt[0], "{rebuilt:?}");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(place.rules(), before);
    // Without it, connections go the usual way.
    let fetch = place.fetch(TlsVersion::Tls12);
    fetch.curl(&place.net.client).is(&place.page);
    assert_eq!(server_side.end(Signal::SIGTERM), Some(0));
    assert_eq!(rules(&place.net.b), Vec::<String>::new());
}

#[test]
fn other_ports_and_other_interfaces_are_left_alone() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    // Nobody answers at B: what is taken in fails.
    let client_side = place.client_side();
    let fetch = place.fetch(TlsVersion::Tls12);
    let clear = fetch.clone().port(80);
    clear.curl_clear(&place.net.client).is(&place.page);
    clear.curl_clear(&place.net.a).is(&place.page);
    let taken = fetch.limit(3).curl(&place.net.client);
    assert_ne!(taken.code, Some(0), "{taken:?}");
    place.net.second_way();
    let server = place.net.server_address(Family::V4);
    place
        .net
        .a
        .run(&format!("ip route add {server}/32 via 10.77.9.2"));
    let fetch = place.fetch(TlsVersion::Tls12);
    fetch.curl(&place.net.a).is(&place.page);
    fetch.curl(&place.net.client).is(&place.page);
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
}

#[test]
fn rules_that_a_killed_proxy_left_go_at_the_next_start_or_by_tandem_off() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    // Rules of somebody else's, which stay.
    let others = ["-A FORWARD -p tcp -m tcp --dport 7 -j DROP"];
    place.net.a.rules(Family::V4, "filter", &others);
    let before = place.rules();
    let _server_side = place.server_side();
    assert_eq!(place.client_side().end(Signal::SIGKILL), None);
    let next = place.client_side();
    let fetch = place.fetch(TlsVersion::Tls12);
    fetch.curl(&place.net.client).is(&place.page);
    assert_eq!(next.end(Signal::SIGTERM), Some(0));
    assert_eq!(place.rules(), before);

    assert_eq!(place.client_side().end(Signal::SIGKILL), None);
    off(&place.net.a);
    assert_eq!(place.rules(), before);

    let running = place.client_side();
    let said = off(&place.net.a);
    assert!(said.contains("client-side"), "{said}");
    assert_eq!(running.end_by_itself(), Some(0));
    assert_eq!(place.rules(), before);
}

/// Runs `tandem off` in a host; what it prints.
#[track_caller]
fn off(host: &Host) -> String {
    let output = host.output(&mut tandem(&["off"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_second_proxy_on_the_same_link_is_told_so() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let client_side = place.client_side();
    let output = place
        .net
        .a
        .output(place.client_side_command("other").args(["--admin", "none"]));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let rules = place.rules();
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    assert_ne!(place.rules(), rules);
}
