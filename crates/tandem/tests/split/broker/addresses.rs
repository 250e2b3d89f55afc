//! Volunteers with IPv4 and IPv6, at a broker with both: what DNS says, what curl gets, and what
//! one family that fails costs the other.

mod ipv6;

use std::net::SocketAddr;

use super::*;

/// Under which name the broker is found at both of its addresses.
const BOTH: &str = "both.test";

/// A door from one address to another, until it is dropped. Connections end with it.
struct Forwarder {
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    task: Option<std::thread::JoinHandle<()>>,
}

impl Forwarder {
    fn start(at: SocketAddr, to: SocketAddr) -> Self {
        let listener = TcpListener::bind(at).expect("a free port");
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let task = std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(far) = TcpStream::connect(to) else {
                    continue;
                };
                let ways = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
                for (from, to) in ways {
                    let (Ok(mut from), Ok(mut to)) = (from, to) else {
                        continue;
                    };
                    std::thread::spawn(move || {
                        // Either may go away at any time.
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Self {
            at,
            ends,
            task: Some(task),
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // So that it hears of it.
        let _ = TcpStream::connect(self.at);
        if let Some(task) = self.task.take() {
            let _ = task.join();
        }
    }
}

impl Site {
    /// The configuration of a broker with IPv4 and IPv6 that is found under this name or address.
    fn configure_both(&self, host: &str) -> PathBuf {
        let path = self.configure(
            "every-seconds = 0.01\nburst = 1000",
            "renew-seconds = 1\nlease-seconds = 60",
        );
        let text = fs::read_to_string(&path).expect("ours");
        let own = format!("listen = \"127.0.0.1:{}\"", self.broker);
        let any = format!(
            "listen = \"[::]:{0}\"\naddress = \"{host}:{0}\"",
            self.broker
        );
        assert!(text.contains(&own));
        fs::write(&path, text.replacen(&own, &any, 1)).expect("ours");
        path
    }

    /// A broker with IPv4 and IPv6.
    fn broker_of_both(&self) -> Running {
        let path = self.configure_both(BOTH);
        let hosts = format!("127.0.0.1 localhost {BOTH}\n::1 {BOTH}\n");
        fs::write(self.at("hosts"), hosts).expect("ours");
        self.broker_as(&path)
    }

    /// A volunteer at these addresses, which finds the broker at both of its own.
    fn volunteer_of_both(&self, name: &str, listen: &[SocketAddr], more: &[&str]) -> Running {
        let listen: Vec<String> = listen.iter().map(SocketAddr::to_string).collect();
        let mut command = Command::new("unshare");
        if !common::is_root() {
            command.arg("--map-root-user");
        }
        command
            .args(["--mount", "--", "sh", "-ec"])
            .arg("mount --bind \"$0\" /etc/hosts; exec \"$@\"")
            .arg(self.at("hosts"))
            .arg(env!("CARGO_BIN_EXE_tandem"))
            .args(["split", "volunteer", &self.uri()])
            .args(["--listen", &listen.join(",")])
            .arg("--cache")
            .arg(self.at(&format!("cache-{name}")))
            .args(more);
        start(&mut command, &self.at(&format!("{name}.log")), "ready")
    }

    /// Waits until DNS says this of the site, and nothing else.
    fn answers(&self, kind: &str, wanted: &[&str]) {
        until(&format!("{kind} is {wanted:?}"), || {
            let mut found = self.asked(kind);
            found.sort_unstable();
            found == wanted
        });
    }

    fn asked(&self, kind: &str) -> Vec<String> {
        let out = Command::new("dig")
            .args(["@127.0.0.1", "-p", &self.dns.to_string()])
            .args(["+short", "+tries=1", "split.test", kind])
            .output()
            .expect("dig runs");
        let said = String::from_utf8_lossy(&out.stdout);
        said.lines().map(str::to_owned).collect()
    }

    /// What curl gets by this family, of what the names of DNS are.
    fn fetches_by(&self, family: &str, addresses: &[&str]) -> bool {
        let port = self.port;
        let out = Command::new("curl")
            .args([family, "--silent", "--noproxy", "*", "--max-time", "60"])
            .args([
                "--resolve",
                &format!("split.test:{port}:{}", addresses.join(",")),
            ])
            .arg("--cacert")
            .arg(self.at("ca.pem"))
            .arg(format!("https://split.test:{port}/file"))
            .output()
            .expect("curl runs");
        out.status.success() && out.stdout == fs::read(self.at("public/file")).expect("ours")
    }

    /// The health of each address of a volunteer, by the page.
    fn healths(&self, address: &str) -> Vec<(String, bool)> {
        let status = self.status();
        let volunteers = status["volunteers"].as_array().cloned().unwrap_or_default();
        let is_one = |volunteer: &&Value| volunteer["address"] == address;
        let one = volunteers.iter().find(is_one).cloned().unwrap_or_default();
        let places = one["addresses"].as_array().cloned().unwrap_or_default();
        let places = places.iter().map(|place| {
            let address = place["address"].as_str().unwrap_or_default();
            (address.to_owned(), place["healthy"] == true)
        });
        places.collect()
    }

    fn local(&self, address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().expect("an address"), self.port)
    }
}

/// Another port of the same address.
fn beside(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), free_port())
}

#[test]
fn a_volunteer_with_both_families_is_published_and_served_at_both() {
    let site = Site::new();
    let _broker = site.broker_of_both();
    let (four, six) = (site.local("127.0.0.2"), site.local("::1"));
    let both = site.volunteer_of_both("both", &[four, six], &[]);
    // One of an older kind next to it: IPv4 alone.
    let _single = site.volunteer_of_both("single", &[site.local("127.0.0.3")], &[]);
    site.answers("A", &["127.0.0.2", "127.0.0.3"]);
    site.answers("AAAA", &["::1"]);
    assert!(site.fetches_by("-4", &["127.0.0.2", "[::1]"]));
    assert!(site.fetches_by("-6", &["127.0.0.2", "[::1]"]));
    let is_healthy = |address: &str| (address.to_owned(), true);
    let healths = site.healths("127.0.0.2");
    assert_eq!(healths, ["127.0.0.2", "::1"].map(is_healthy));
    assert_eq!(site.counts("tandem_broker_healthy_volunteers "), 2);
    assert_eq!(site.counts("tandem_broker_healthy_ipv4_addresses "), 2);
    assert_eq!(site.counts("tandem_broker_healthy_ipv6_addresses "), 1);
    // Who leaves, leaves with both.
    both.end();
    site.answers("AAAA", &[]);
    site.answers("A", &["127.0.0.3"]);
    assert_eq!(site.counts("tandem_broker_leaves_total "), 1);
}

#[test]
fn one_family_that_dies_leaves_dns_and_the_other_stays() {
    let site = Site::new();
    let broker = site.broker_of_both();
    let addresses = ["127.0.0.2", "::1"].map(|address| site.local(address));
    let behind = addresses.map(beside);
    let _volunteer = site.volunteer_of_both("both", &behind, &[]);
    let start = |index: usize| Forwarder::start(addresses[index], behind[index]);
    let mut doors = [Some(start(0)), Some(start(1))];
    site.answers("A", &["127.0.0.2"]);
    site.answers("AAAA", &["::1"]);
    let kinds = [("A", "127.0.0.2", "-4"), ("AAAA", "::1", "-6")];
    for (dies, stays) in [(1, 0), (0, 1)] {
        let (kind, address, family) = kinds[stays];
        doors[dies] = None;
        // The other one is asked all the while.
        until("it has left", || {
            assert_eq!(site.asked(kind), [address], "{kind} stays");
            site.asked(kinds[dies].0).is_empty()
        });
        let wanted = if address == "::1" { "[::1]" } else { address };
        assert!(site.fetches_by(family, &[wanted]));
        let healths = site.healths("127.0.0.2");
        assert!(!healths[dies].1, "{healths:?}");
        assert!(healths[stays].1, "{healths:?}");
        doors[dies] = Some(start(dies));
        site.answers(kinds[dies].0, &[kinds[dies].1]);
    }
    // A restart of the broker knows both at once, before any look.
    let joined = site.counts("tandem_broker_joins_total ");
    assert_eq!(joined, 2);
    drop(broker);
    let _broker = site.broker_as(&site.at("broker.toml"));
    assert_eq!(site.asked("A"), ["127.0.0.2"]);
    assert_eq!(site.asked("AAAA"), ["::1"]);
}

#[test]
fn records_changed_by_way_of_ipv6_bar_both_addresses() {
    let site = Site::new();
    let _broker = site.broker_of_both();
    let (four, six) = (site.local("127.0.0.2"), site.local("::1"));
    let behind = beside(six);
    let harms = Arc::new(AtomicBool::new(false));
    flipping(six.to_string(), behind.to_string(), 0, Arc::clone(&harms));
    let _bad = site.volunteer_of_both("bad", &[four, behind], &[]);
    let _good = site.volunteer_of_both("good", &[site.local("127.0.0.3")], &[]);
    site.answers("A", &["127.0.0.2", "127.0.0.3"]);
    site.answers("AAAA", &["::1"]);
    harms.store(true, Ordering::Relaxed);
    site.answers("AAAA", &[]);
    site.answers("A", &["127.0.0.3"]);
    assert_eq!(site.counts("tandem_broker_barred_total "), 1);
    let status = site.status();
    let volunteers = status["volunteers"].as_array().expect("a list");
    let bad = volunteers.iter().find(|one| one["address"] == "127.0.0.2");
    let places = bad.expect("it is a member")["addresses"]
        .as_array()
        .cloned();
    let barred = places
        .expect("both")
        .iter()
        .all(|place| place["barred"] == true);
    assert!(barred, "{status}");
}

#[test]
fn a_volunteer_with_one_family_asks_one_with_both() {
    let site = Site::new();
    let _broker = site.broker_of_both();
    let (four, six) = (site.local("127.0.0.2"), site.local("::1"));
    let peers = [beside(four), beside(six)];
    let peers = peers.map(|address| address.to_string()).join(",");
    let _both = site.volunteer_of_both("both", &[four, six], &["--peer-listen", &peers]);
    let admin = format!("127.0.0.1:{}", free_port());
    let own = beside(site.local("127.0.0.3")).to_string();
    let more = ["--peer-listen", &own, "--admin", &admin];
    let _single = site.volunteer_of_both("single", &[site.local("127.0.0.3")], &more);
    site.answers("A", &["127.0.0.2", "127.0.0.3"]);
    let port = admin
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    let next = std::cell::Cell::new(0_u32);
    until("it gets something of the other", || {
        let path = (next.replace(next.get() + 1) % 100).to_string();
        assert!(site.fetches_path(2, &path) && site.fetches_path(3, &path));
        let metrics = get(port.expect("a port"), "/metrics").unwrap_or_default();
        let hits = metrics
            .lines()
            .find_map(|line| line.strip_prefix("tandem_split_volunteer_peer_hits_total "));
        hits.is_some_and(|hits| hits != "0")
    });
}
