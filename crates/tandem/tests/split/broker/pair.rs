//! A primary and its standby: what is lost with one machine, and with the link between them.
//! Volunteers find both by one name, as a hosts file of their own has it.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Mutex;

use super::*;

/// Where the standby is. The primary is at 127.0.0.1.
const STANDBY: u8 = 8;

/// A site with two brokers.
struct Pair {
    site: Site,
    admin: u16,
    /// The port at which the primary has its standby come.
    link: u16,
}

impl Pair {
    /// With the files that an operator would write and copy.
    fn new(members: &str) -> Self {
        let pair = Self {
            site: Site::new(),
            admin: free_port(),
            link: free_port(),
        };
        let path = pair
            .site
            .configure("every-seconds = 0.01\nburst = 1000", members);
        let text = fs::read_to_string(&path).expect("ours");
        let text = format!("address = \"broker.test\"\n{text}");
        let primary = format!("{text}[pair]\nlisten = \"127.0.0.1:{}\"\n", pair.link);
        fs::write(&path, primary).expect("ours");
        pair.write_standby(&text, pair.link);
        pair
    }

    fn write_standby(&self, text: &str, link: u16) {
        let Site { broker, dns, .. } = &self.site;
        let at = |port: &u16| {
            (
                format!("127.0.0.1:{port}"),
                format!("127.0.0.{STANDBY}:{port}"),
            )
        };
        let mut text = text.to_owned();
        for (from, to) in [
            at(broker),
            at(dns),
            (
                format!(":{}\"", self.site.admin),
                format!(":{}\"", self.admin),
            ),
            ("state\"".to_owned(), "state-2\"".to_owned()),
            ("zone.key".to_owned(), "zone-2.key".to_owned()),
        ] {
            assert!(text.contains(&from), "{from} in {text}");
            text = text.replace(&from, &to);
        }
        let text = format!("{text}[pair]\nprimary = \"127.0.0.1:{link}\"\n");
        fs::write(self.site.at("standby.toml"), text).expect("ours");
    }

    /// The standby follows by this port.
    fn link_by(&self, port: u16) {
        let path = self.site.at("standby.toml");
        let text = fs::read_to_string(&path).expect("ours");
        let (from, to) = (format!(":{}\"", self.link), format!(":{port}\""));
        fs::write(&path, text.replace(&from, &to)).expect("ours");
    }

    fn primary(&self) -> Running {
        self.site.broker_as(&self.site.at("broker.toml"))
    }

    /// Copies the primary's keys, as an operator would, and starts the standby.
    fn standby(&self) -> Running {
        let folder = self.site.at("state-2");
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.expect("ours");
        fs::copy(self.site.at("state/key"), folder.join("key")).expect("made");
        fs::copy(self.site.at("zone.key"), self.site.at("zone-2.key")).expect("made");
        self.standby_as_is()
    }

    fn standby_as_is(&self) -> Running {
        let mut command = common::tandem(&["split", "broker", "--config"]);
        command.arg(self.site.at("standby.toml"));
        start(&mut command, &self.site.at("standby.log"), "ready")
    }

    /// A volunteer to whom `broker.test` is at these addresses.
    fn volunteer(&self, number: u8, brokers: &[u8], listen: Option<&str>) -> Running {
        let hosts = self.site.at(&format!("hosts-{number}"));
        let lines: String = brokers
            .iter()
            .map(|broker| format!("127.0.0.{broker} broker.test\n"))
            .collect();
        fs::write(&hosts, lines).expect("ours");
        let mut command = Command::new("unshare");
        if !common::is_root() {
            command.arg("--map-root-user");
        }
        let program = self.site.volunteer(number, &self.site.uri());
        command
            .args(["--mount", "sh", "-ec"])
            .arg("mount --bind \"$0\" /etc/hosts; exec \"$@\"")
            .arg(hosts)
            .arg(program.get_program());
        let own = format!("127.0.0.{number}:{}", self.site.port);
        let arguments = program.get_args().map(|argument| match listen {
            Some(listen) if argument == own.as_str() => listen.into(),
            _ => argument.to_owned(),
        });
        command.args(arguments);
        let log = self.site.at(&format!("volunteer-{number}.log"));
        start(&mut command, &log, "ready")
    }

    fn joined(&self, number: u8) -> Running {
        self.volunteer(number, &[1, STANDBY], None)
    }

    fn standby_status(&self) -> Value {
        let text = get(self.admin, "/status.json").unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn standby_counts(&self, name: &str) -> u64 {
        let text = get(self.admin, "/metrics").unwrap_or_default();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_default()
    }

    fn is_followed(&self) {
        until("the standby follows", || {
            self.standby_status()["pair"]["connected"] == true
                && self.site.status()["pair"]["connected"] == true
        });
    }

    fn acts(&self) {
        until("the standby acts", || {
            self.standby_status()["pair"]["acting"] == true
        });
    }

    /// What the name server of one of them says.
    fn asks(&self, server: u8, kind: &str) -> String {
        let out = Command::new("dig")
            .arg(format!("@127.0.0.{server}"))
            .args(["-p", &self.site.dns.to_string()])
            .args(["+short", "+tries=1", "+time=2", "split.test", kind])
            .output()
            .expect("dig runs");
        let said = String::from_utf8_lossy(&out.stdout);
        // What it says itself, such as that nobody answers, are comments.
        let lines = said.lines().filter(|line| !line.starts_with(';'));
        lines.map(|line| format!("{line}\n")).collect()
    }

    fn serial(&self, server: u8) -> u32 {
        let soa = self.asks(server, "SOA");
        let serial = soa.split(' ').nth(2).and_then(|serial| serial.parse().ok());
        serial.unwrap_or_else(|| panic!("{soa}"))
    }

    fn addresses(&self, server: u8) -> BTreeSet<String> {
        self.asks(server, "A").lines().map(str::to_owned).collect()
    }

    fn resolves_at(&self, server: u8, numbers: &[u8]) {
        let wanted = numbered(numbers);
        until(&format!("{wanted:?} are in the DNS of {server}"), || {
            self.addresses(server) == wanted
        });
    }
}

fn numbered(numbers: &[u8]) -> BTreeSet<String> {
    numbers
        .iter()
        .map(|number| format!("127.0.0.{number}"))
        .collect()
}

fn is_barred(status: &Value, number: u8) -> bool {
    let text = status.to_string();
    // Its row, in whatever form rows have.
    let address = format!("\"127.0.0.{number}\"");
    let volunteers = status["volunteers"].as_array().cloned().unwrap_or_default();
    let row = volunteers
        .iter()
        .find(|row| row.to_string().contains(&address));
    row.unwrap_or_else(|| panic!("{text}"))
        .to_string()
        .contains("\"barred\":true")
}

#[test]
fn a_standby_goes_on_with_all_that_a_killed_primary_knew_and_gives_it_back() {
    let pair = Pair::new("renew-seconds = 1\nlease-seconds = 60");
    let site = &pair.site;
    let primary = pair.primary();
    let mut early = common::tandem(&["split", "broker", "--config"]);
    let said = common::run(early.arg(site.at("standby.toml")));
    assert!(
        said.failed_with(2).contains("copy the file from there"),
        "{said:?}"
    );
    let _standby = pair.standby();
    pair.is_followed();
    let (second, third) = (pair.joined(2), pair.joined(3));
    // One that changes records, and is put out.
    let behind = format!("127.0.0.4:{}", free_port());
    let harms = Arc::new(AtomicBool::new(false));
    flipping(
        format!("127.0.0.4:{}", site.port),
        behind.clone(),
        0,
        Arc::clone(&harms),
    );
    let _bad = pair.volunteer(4, &[1, STANDBY], Some(&behind));
    site.publishes(&[2, 3, 4]);
    pair.resolves_at(STANDBY, &[2, 3, 4]);
    assert_eq!(pair.standby_counts("tandem_broker_joins_total "), 0);
    harms.store(true, Ordering::Relaxed);
    until("it is put out", || is_barred(&site.status(), 4));
    harms.store(false, Ordering::Relaxed);
    until("that is copied", || is_barred(&pair.standby_status(), 4));
    for server in [1, STANDBY] {
        pair.resolves_at(server, &[2, 3]);
    }
    until("both zones have one number", || {
        pair.serial(1) == pair.serial(STANDBY)
    });
    assert_eq!(pair.asks(1, "DNSKEY"), pair.asks(STANDBY, "DNSKEY"));
    let version = site.status()["list_version"].as_u64();
    let serial = pair.serial(1);

    // SIGKILL.
    drop(primary);
    assert_eq!(pair.addresses(STANDBY), numbered(&[2, 3]), "DNS goes on");
    pair.acts();
    assert_eq!(pair.addresses(STANDBY), numbered(&[2, 3]));
    assert!(is_barred(&pair.standby_status(), 4));
    until("members renew there", || {
        pair.standby_counts("tandem_broker_renewals_total ") >= 6
    });
    let _fifth = pair.joined(5);
    third.end();
    pair.resolves_at(STANDBY, &[2, 5]);
    drop(second);
    let _second = pair.joined(2);
    pair.resolves_at(STANDBY, &[2, 5]);
    assert!(site.fetches(2) && site.fetches(5));
    let status = pair.standby_status();
    assert!(status["list_version"].as_u64() > version, "{status}");
    let acting_serial = pair.serial(STANDBY);
    assert!(acting_serial > serial);

    let _primary = pair.primary();
    let first = Mutex::new(BTreeSet::new());
    until("the primary answers again", || {
        let addresses = pair.addresses(1);
        let answers = !addresses.is_empty();
        *first.lock().expect("whole") = addresses;
        answers
    });
    assert_eq!(
        *first.lock().expect("whole"),
        numbered(&[2, 5]),
        "its first answer"
    );
    assert!(is_barred(&site.status(), 4));
    assert!(pair.serial(1) > acting_serial);
    pair.is_followed();
    assert_eq!(pair.standby_status()["pair"]["acting"], false);
    assert!(site.status()["list_version"].as_u64() > status["list_version"].as_u64());
    until("members renew with the primary", || {
        site.counts("tandem_broker_renewals_total ") >= 6
    });
    pair.resolves_at(STANDBY, &[2, 5]);
    until("both zones have one number", || {
        pair.serial(1) == pair.serial(STANDBY)
    });
}

/// Leads from a port of this machine to another, unless it is cut.
fn relay(to: u16, is_cut: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            if is_cut.load(Ordering::Relaxed) {
                continue;
            }
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else {
                continue;
            };
            let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
            for (mut from, mut to) in [(clone(&near), clone(&far)), (far, near)] {
                let is_cut = Arc::clone(&is_cut);
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(length @ 1..) = from.read(&mut bytes) {
                        let written = match is_cut.load(Ordering::Relaxed) {
                            true => Err(io::ErrorKind::BrokenPipe.into()),
                            false => to.write_all(&bytes[..length]),
                        };
                        if written.is_err() {
                            break;
                        }
                    }
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            }
        }
    });
    port
}

#[test]
fn a_link_that_is_cut_leaves_two_that_serve_and_agree_again() {
    let pair = Pair::new("renew-seconds = 1\nlease-seconds = 8");
    let site = &pair.site;
    let is_cut = Arc::new(AtomicBool::new(false));
    pair.link_by(relay(pair.link, Arc::clone(&is_cut)));
    let _primary = pair.primary();
    let _standby = pair.standby();
    pair.is_followed();
    let _second = pair.joined(2);
    pair.resolves_at(STANDBY, &[2]);
    is_cut.store(true, Ordering::Relaxed);
    pair.acts();
    // It renews with the primary still, and is no less well for the standby, however long.
    let renewed = site.counts("tandem_broker_renewals_total ");
    let looks = pair.standby_counts("tandem_broker_looks_total ");
    until("its lease at the standby is over", || {
        site.counts("tandem_broker_renewals_total ") > renewed + 12
            && pair.standby_counts("tandem_broker_looks_total ") > looks + 12
    });
    assert_eq!(pair.addresses(STANDBY), numbered(&[2]));
    assert_eq!(pair.standby_counts("tandem_broker_forgotten_total "), 0);
    // One that finds the primary alone, and one that finds the standby alone.
    let _third = pair.volunteer(3, &[1], None);
    let _fourth = pair.volunteer(4, &[STANDBY], None);
    pair.resolves_at(1, &[2, 3]);
    pair.resolves_at(STANDBY, &[2, 4]);
    is_cut.store(false, Ordering::Relaxed);
    // Each has what the other had. The fourth does not reach the primary, and is forgotten in time.
    pair.resolves_at(1, &[2, 3, 4]);
    pair.is_followed();
    pair.resolves_at(1, &[2, 3]);
    pair.resolves_at(STANDBY, &[2, 3]);
    until("both zones have one number", || {
        pair.serial(1) == pair.serial(STANDBY)
    });
}

#[test]
fn a_primary_that_hangs_is_replaced_and_followed_again_when_it_goes_on() {
    let pair = Pair::new("renew-seconds = 1\nlease-seconds = 60");
    let site = &pair.site;
    let primary = pair.primary();
    let _standby = pair.standby();
    pair.is_followed();
    let _second = pair.joined(2);
    pair.resolves_at(STANDBY, &[2]);
    let signal = |name: &str| {
        let pid = primary.0.id().to_string();
        ran(Command::new("kill").args([name, &pid]));
    };
    // The system takes connections for it still, and nobody answers on them.
    signal("-STOP");
    pair.acts();
    until("a member renews with the standby", || {
        pair.standby_counts("tandem_broker_renewals_total ") >= 3
    });
    assert_eq!(pair.addresses(STANDBY), numbered(&[2]));
    signal("-CONT");
    until("the standby follows again", || {
        let status = pair.standby_status();
        status["pair"]["connected"] == true && status["pair"]["acting"] == false
    });
    let renewed = site.counts("tandem_broker_renewals_total ");
    until("a member renews with the primary", || {
        site.counts("tandem_broker_renewals_total ") >= renewed + 3
    });
    pair.resolves_at(1, &[2]);
    pair.resolves_at(STANDBY, &[2]);
    assert_eq!(pair.standby_counts("tandem_broker_takeovers_total "), 1);
}

/// That the primary tells a stranger nothing is the broker's own test (`pair/primary.rs`): this one
/// already refuses the primary, whose key is not its own.
#[test]
fn with_a_key_of_its_own_a_standby_follows_nobody_and_answers_nobody() {
    let pair = Pair::new("renew-seconds = 1\nlease-seconds = 60");
    let site = &pair.site;
    let _primary = pair.primary();
    let _second = pair.joined(2);
    site.publishes(&[2]);
    // As a standby, with a key of its own.
    let folder = site.at("state-2");
    fs::create_dir(&folder).expect("ours");
    fs::write(folder.join("key"), [9; 32]).expect("ours");
    fs::copy(site.at("zone.key"), site.at("zone-2.key")).expect("made");
    let _stranger = pair.standby_as_is();
    until("it has come and gone", || {
        let log = fs::read_to_string(site.at("standby.log")).unwrap_or_default();
        log.contains("cannot be followed") && log.contains("has never had a copy")
    });
    let status = pair.standby_status();
    assert_eq!(status["pair"]["connected"], false);
    assert_eq!(
        status["volunteers"].as_array().map(Vec::len),
        Some(0),
        "{status}"
    );
    assert_eq!(pair.asks(STANDBY, "A"), "", "it answers nobody");
    assert_eq!(site.status()["pair"]["connected"], false);
    assert_eq!(pair.addresses(1), numbered(&[2]));
}
