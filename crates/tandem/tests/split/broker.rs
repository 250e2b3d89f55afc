//! `tandem split broker` and volunteers that join it: processes, an unmodified curl, and what
//! happens when one of them is killed.

mod pair;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

mod addresses;

use crate::support::{common, split_site};
use serde_json::Value;
use split_site::{Running, free_port};

impl Running {
    /// Asks it to end, and waits until it has.
    fn end(mut self) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .arg(pid)
                .status()
                .expect("kill runs")
                .success()
        );
        assert!(self.0.wait().expect("it ends").success());
    }
}

/// Starts a command whose log goes to a file, and waits for a line that says that it serves.
fn start(command: &mut Command, log: &Path, says: &str) -> Running {
    let mut running = spawn(command, log);
    let out = running.0.stdout.take().expect("piped");
    let serves = BufReader::new(out)
        .lines()
        .any(|line| line.is_ok_and(|line| line.contains(says)));
    let logged = fs::read_to_string(log).unwrap_or_default();
    assert!(serves, "{command:?}\n{logged}");
    running
}

fn spawn(command: &mut Command, log: &Path) -> Running {
    let log = fs::File::options().create(true).append(true).open(log);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.expect("ours"))
        .spawn();
    Running(child.expect("it starts"))
}

fn ran(command: &mut Command) {
    let out = command.stdin(Stdio::null()).output().expect("it runs");
    assert!(out.status.success(), "{command:?}: {out:?}");
}

/// Waits until something holds: long, for a machine that has much else to do, and for the minute
/// that lies between two proofs.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(180), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

/// A site: its server, its origin, and what a broker of it needs.
struct Site {
    folder: tempfile::TempDir,
    broker: u16,
    admin: u16,
    /// The port at which volunteers serve, each at an address of its own.
    port: u16,
    /// The port at which the broker answers DNS.
    dns: u16,
    origin: u16,
    origin_key: String,
    server: u16,
    _server: Running,
    running_origin: Running,
}

const LEN: usize = 1_500_000;

fn start_origin(folder: &Path, port: u16, server: u16, more: &[&str]) -> Running {
    let mut command = common::tandem(&["split", "origin", "--cert", "site.pem"]);
    command
        .args([
            "--key",
            "site.key",
            "--listen",
            &format!("127.0.0.1:{port}"),
        ])
        .args(["--upstream", &format!("http://127.0.0.1:{server}")])
        .args(more)
        .current_dir(folder);
    start(&mut command, &folder.join("origin.log"), "ready")
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        ran(Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=CA",
            ])
            .args(["-addext", "keyUsage=critical,keyCertSign"])
            .args(["-keyout", "ca.key", "-out", "ca.pem"])
            .current_dir(folder.path()));
        ran(Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=site",
            ])
            .args(["-addext", "subjectAltName=DNS:split.test"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args([
                "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "site.key", "-out", "site.pem",
            ])
            .current_dir(folder.path()));
        fs::create_dir(at("public")).expect("ours");
        let body: Vec<u8> = (0..LEN as u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        fs::write(at("public/file"), body).expect("ours");
        // Many that are small and different.
        for number in 0..100_u32 {
            let body: Vec<u8> = (0..40_000_u32)
                .map(|n| ((n + number * 77_777).wrapping_mul(2_654_435_761) >> 23) as u8)
                .collect();
            fs::write(at(&format!("public/{number}")), body).expect("ours");
        }
        let (server, origin) = (free_port(), free_port());
        let running = start(
            Command::new("python3")
                .args([
                    "-u",
                    "-m",
                    "http.server",
                    "--bind",
                    "127.0.0.1",
                    "--directory",
                ])
                .arg(at("public"))
                .arg(server.to_string()),
            &at("server.log"),
            "Serving",
        );
        let running_origin = start_origin(folder.path(), origin, server, &[]);
        let log = fs::read_to_string(at("origin.log")).expect("it logs");
        let (_, key) = log.split_once(" key=").expect("it logs its key");
        Self {
            origin_key: key[..64].to_owned(),
            broker: free_port(),
            admin: free_port(),
            port: free_port(),
            dns: free_port(),
            origin,
            server,
            _server: running,
            running_origin,
            folder,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration; `admission` stands in its section.
    fn configure(&self, admission: &str, members: &str) -> PathBuf {
        let path = self.at("broker.toml");
        let Self {
            broker,
            admin,
            port,
            dns,
            origin,
            origin_key,
            ..
        } = self;
        let (state, roots) = (self.at("state"), self.at("ca.pem"));
        let zone_key = self.at("zone.key");
        let text = format!(
            "site = \"split.test\"\nlisten = \"127.0.0.1:{broker}\"\nadmin = \"127.0.0.1:{admin}\"\nstate = {state:?}\n\
             [origin]\naddress = \"127.0.0.1:{origin}\"\nkey = \"{origin_key}\"\nown-addresses = [\"127.0.0.99\"]\n\
             [admission]\n{admission}\n\
             [health]\nport = {port}\nroots = {roots:?}\nevery-seconds = 1\nup = 2\ndown = 2\n\
             [members]\n{members}\n\
             [dns]\nlisten = [\"127.0.0.1:{dns}\"]\nkey = {zone_key:?}\nnameservers = {{ \"ns.split.test\" = [\"127.0.0.1\"] }}\n"
        );
        fs::write(&path, text).expect("ours");
        path
    }

    fn broker(&self) -> Running {
        let path = self.configure(
            "every-seconds = 0.01\nburst = 1000",
            "renew-seconds = 1\nlease-seconds = 60",
        );
        self.broker_as(&path)
    }

    fn broker_as(&self, config: &Path) -> Running {
        let mut command = common::tandem(&["split", "broker", "--config"]);
        start(command.arg(config), &self.at("broker.log"), "ready")
    }

    fn uri(&self) -> String {
        let mut command = common::tandem(&["split", "broker", "--uri", "--config"]);
        let ran = common::run(command.arg(self.at("broker.toml")));
        ran.succeeded().trim().to_owned()
    }

    /// A volunteer at 127.0.0.NUMBER, which is not started yet.
    fn volunteer(&self, number: u8, uri: &str) -> Command {
        let mut command = common::tandem(&["split", "volunteer", uri]);
        command
            .args(["--listen", &format!("127.0.0.{number}:{}", self.port)])
            .arg("--cache")
            .arg(self.at(&format!("cache-{number}")));
        command
    }

    fn joined(&self, number: u8) -> Running {
        let log = self.at(&format!("volunteer-{number}.log"));
        start(&mut self.volunteer(number, &self.uri()), &log, "ready")
    }

    /// What DNS says of the site.
    fn resolves_to(&self, numbers: &[u8]) {
        let mut wanted: Vec<String> = numbers.iter().map(|it| format!("127.0.0.{it}")).collect();
        wanted.sort();
        until(&format!("{wanted:?} are in DNS"), || {
            let out = Command::new("dig")
                .args([
                    "@127.0.0.1",
                    "-p",
                    &self.dns.to_string(),
                    "+short",
                    "+tries=1",
                ])
                .args(["split.test", "A"])
                .output()
                .expect("dig runs");
            let said = String::from_utf8_lossy(&out.stdout);
            let mut found: Vec<&str> = said.lines().collect();
            found.sort_unstable();
            found == wanted
        });
    }

    fn fetches(&self, number: u8) -> bool {
        self.fetches_path(number, "file")
    }

    fn fetches_path(&self, number: u8, path: &str) -> bool {
        let port = self.port;
        let out = Command::new("curl")
            .args(["--silent", "--noproxy", "*", "--max-time", "60"])
            .args(["--resolve", &format!("split.test:{port}:127.0.0.{number}")])
            .arg("--cacert")
            .arg(self.at("ca.pem"))
            .arg(format!("https://split.test:{port}/{path}"))
            .output()
            .expect("curl runs");
        out.status.success() && out.stdout == fs::read(self.at("public").join(path)).expect("ours")
    }

    fn status(&self) -> Value {
        let text = get(self.admin, "/status.json").unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Waits until browsers are sent to these, the last numbers of their addresses.
    fn publishes(&self, numbers: &[u8]) {
        let mut wanted: Vec<String> = numbers.iter().map(|it| format!("127.0.0.{it}")).collect();
        wanted.sort();
        until(&format!("{wanted:?} are published"), || {
            let status = self.status();
            let found = status["addresses"].as_array().cloned().unwrap_or_default();
            let mut found: Vec<String> = found
                .iter()
                .filter_map(|address| address.as_str().map(str::to_owned))
                .collect();
            found.sort();
            found == wanted
        });
    }

    fn counts(&self, name: &str) -> u64 {
        let text = get(self.admin, "/metrics").unwrap_or_default();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_default()
    }
}

#[test]
fn volunteers_come_by_one_argument_and_browsers_are_sent_to_those_that_are_well() {
    let site = Site::new();
    let _broker = site.broker();
    site.publishes(&[99]);
    let first = site.joined(2);
    let second = site.joined(3);
    site.publishes(&[2, 3]);
    site.resolves_to(&[2, 3]);
    assert!(site.fetches(2) && site.fetches(2) && site.fetches(3));
    until("the page shows what was sent", || {
        let status = site.status();
        let sent = |index: usize| status["volunteers"][index]["own_words"]["sent_bytes"].as_u64();
        sent(0) > Some(LEN as u64) && sent(1) > Some(LEN as u64)
    });
    let page = get(site.admin, "/").expect("a page");
    assert!(
        page.contains("split.test") && page.contains("127.0.0.3"),
        "{page}"
    );
    assert!(
        page.contains("own words") && !page.contains("://"),
        "{page}"
    );
    assert_eq!(site.counts("tandem_broker_healthy_volunteers "), 2);
    // Who leaves is gone at once; who is killed, after the looks that it takes.
    second.end();
    site.publishes(&[2]);
    assert_eq!(site.counts("tandem_broker_leaves_total "), 1);
    drop(first);
    site.publishes(&[99]);
    site.resolves_to(&[99]);
    assert!(site.counts("tandem_broker_bad_looks_total ") >= 2);
    let _again = site.joined(2);
    site.publishes(&[2]);
}

/// Leads from one address to another, and flips a bit of each data record but the first `intact`
/// ones, for every second client while it `harms`.
fn flipping(from: String, to: String, intact: usize, harms: Arc<AtomicBool>) {
    let listener = TcpListener::bind(from).expect("a free port");
    std::thread::spawn(move || {
        let mut is_next = true;
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(&to) else {
                continue;
            };
            let flips = (harms.load(Ordering::Relaxed) && is_next).then_some(intact);
            is_next = !is_next;
            let (mut near2, mut far2) = (
                near.try_clone().expect("a descriptor"),
                far.try_clone().expect("a descriptor"),
            );
            std::thread::spawn(move || {
                // Either may go away at any time.
                let _ = std::io::copy(&mut near2, &mut far2);
                let _ = far2.shutdown(Shutdown::Write);
            });
            std::thread::spawn(move || {
                let _ = pass_records(&far, &near, flips);
                let _ = near.shutdown(Shutdown::Write);
            });
        }
    });
}

fn pass_records(
    mut from: &TcpStream,
    mut to: &TcpStream,
    flips: Option<usize>,
) -> std::io::Result<()> {
    const APPLICATION_DATA: u8 = 23;
    let mut passed = 0;
    loop {
        let mut record = vec![0; 5];
        from.read_exact(&mut record)?;
        let len = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(5 + len, 0);
        from.read_exact(&mut record[5..])?;
        if record[0] == APPLICATION_DATA {
            if flips.is_some_and(|intact| passed >= intact) {
                record[5 + 20] ^= 1;
            }
            passed += 1;
        }
        to.write_all(&record)?;
    }
}

#[test]
fn a_volunteer_that_changes_what_every_second_client_gets_is_out_also_for_a_killed_broker() {
    let site = Site::new();
    let broker = site.broker();
    let harms = Arc::new(AtomicBool::new(false));
    // One changes the record with the head, the other one that of the body.
    let bad = [(2, 0), (4, 1)].map(|(number, intact)| {
        let behind = format!("127.0.0.{number}:{}", free_port());
        let front = format!("127.0.0.{number}:{}", site.port);
        flipping(front, behind.clone(), intact, Arc::clone(&harms));
        let mut command = common::tandem(&["split", "volunteer", &site.uri()]);
        command.args(["--listen", &behind]);
        let log = site.at(&format!("volunteer-{number}.log"));
        start(&mut command, &log, "ready")
    });
    let _good = site.joined(3);
    site.publishes(&[2, 3, 4]);
    // Every second look is good: bad ones in a row, which end its health, are rare.
    harms.store(true, Ordering::Relaxed);
    site.publishes(&[3]);
    until("they are out", || {
        site.counts("tandem_broker_barred_total ") == 2
    });
    assert!(site.counts("tandem_broker_altered_records_total ") >= 4);
    let are_barred = || {
        let status = site.status();
        let volunteers = status["volunteers"].as_array().expect("a list");
        assert_eq!(volunteers.len(), 3, "{status}");
        for volunteer in volunteers {
            let is_bad = volunteer["address"] != "127.0.0.3";
            assert_eq!(volunteer["barred"], is_bad, "{status}");
        }
    };
    are_barred();
    // They behave again, renew, and stay out.
    harms.store(false, Ordering::Relaxed);
    let stay_out = || {
        let counted = |name: &str| site.counts(name);
        let renewed = counted("tandem_broker_renewals_total ");
        let looks = counted("tandem_broker_looks_total ");
        until(
            "all have renewed, and three looks could find each well",
            || {
                counted("tandem_broker_renewals_total ") >= renewed + 12
                    && counted("tandem_broker_looks_total ") >= looks + 3
            },
        );
        are_barred();
        site.publishes(&[3]);
    };
    stay_out();
    // SIGKILL.
    drop(broker);
    let _broker = site.broker();
    are_barred();
    stay_out();
    drop(bad);
}

#[test]
fn a_volunteer_that_clients_accuse_is_looked_at_and_stays() {
    let mut site = Site::new();
    site.configure("", "");
    let uri = site.uri();
    // Its key is that of the one before.
    site.origin = free_port();
    let tells = ["--broker", uri.as_str()];
    site.running_origin = start_origin(site.folder.path(), site.origin, site.server, &tells);
    let _broker = site.broker();
    let _volunteer = site.joined(2);
    site.publishes(&[2]);
    // What these clients refuse is changed behind the volunteer, on their own side.
    let own = format!("127.0.0.50:{}", site.port);
    let volunteer = format!("127.0.0.2:{}", site.port);
    flipping(own, volunteer, 0, Arc::new(AtomicBool::new(true)));
    let refused = (0..8).filter(|_| !site.fetches(50)).count();
    assert_eq!(refused, 4);
    until("the origin has reported it", || {
        site.counts("tandem_broker_reports_total ") >= 1
    });
    until("it is looked at", || {
        site.counts("tandem_broker_reported_looks_total ") >= 3
    });
    assert_eq!(site.counts("tandem_broker_altered_records_total "), 0);
    assert_eq!(site.status()["volunteers"][0]["barred"], false);
    site.publishes(&[2]);
}

#[test]
fn the_record_for_the_zone_above_is_told_before_the_first_start() {
    let site = Site::new();
    let path = site.configure("", "");
    let told = || {
        let mut command = common::tandem(&["split", "broker", "--ds", "--config"]);
        common::run(command.arg(&path)).succeeded().to_owned()
    };
    let ds = told();
    assert!(ds.starts_with("split.test. IN DS "), "{ds}");
    assert_eq!(ds, told(), "and stays");
}

#[test]
fn a_broker_that_is_killed_costs_nothing_and_knows_everybody_when_it_comes_back() {
    let site = Site::new();
    let broker = site.broker();
    let volunteer = site.joined(2);
    site.publishes(&[2]);
    let version = site.status()["list_version"].as_u64();
    drop(broker);
    assert!(site.fetches(2), "without a broker");
    drop(volunteer);
    let _volunteer = site.joined(2);
    assert!(site.fetches(2), "started anew without a broker");
    let _broker = site.broker();
    assert_eq!(
        site.status()["addresses"][0],
        "127.0.0.2",
        "before any look"
    );
    assert!(site.status()["list_version"].as_u64() > version);
    until("the volunteer renews", || {
        site.counts("tandem_broker_renewals_total ") > 0
    });
}

#[test]
fn a_volunteer_that_serves_something_else_is_never_published() {
    let site = Site::new();
    let _broker = site.broker();
    // One that has joined, and at whose port for browsers another server answers, with a
    // certificate of its own for the name.
    ran(Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x",
        ])
        .args(["-addext", "subjectAltName=DNS:split.test"])
        .args(["-keyout", "own.key", "-out", "own.pem"])
        .current_dir(site.folder.path()));
    let mut server = Command::new("openssl");
    server
        .args([
            "s_server",
            "-accept",
            &format!("127.0.0.2:{}", site.port),
            "-www",
        ])
        .args([
            "-cert",
            "own.pem",
            "-key",
            "own.key",
            "-tls1_2",
            "-cipher",
            "ECDHE-RSA-AES128-SHA",
        ])
        .current_dir(site.folder.path());
    let _server = start(&mut server, &site.at("s_server.log"), "ACCEPT");
    let mut command = common::tandem(&["split", "volunteer", &site.uri()]);
    command.args(["--listen", &format!("127.0.0.2:{}", free_port())]);
    let _volunteer = start(&mut command, &site.at("volunteer.log"), "ready");
    until("it is looked at", || {
        site.counts("tandem_broker_bad_looks_total ") >= 3
    });
    let status = site.status();
    assert_eq!(status["addresses"][0], "127.0.0.99");
    let error = status["volunteers"][0]["last_look"]["error"].as_str();
    assert!(
        error.is_some_and(|error| error.contains("certificate")),
        "{status}"
    );
}

#[test]
fn who_is_not_taken_or_meets_another_broker_is_told_so() {
    let site = Site::new();
    let config = site.configure("policy = \"closed\"", "");
    let _broker = site.broker_as(&config);
    let uri = site.uri();
    let said = |uri: &str| {
        let ran = common::run(&mut site.volunteer(2, uri));
        ran.stderr
            .lines()
            .last()
            .map(str::to_owned)
            .filter(|_| ran.code == Some(2))
    };
    let refused = said(&uri).expect("a matter of usage");
    assert!(refused.contains("takes no strangers"), "{refused}");
    let other_site = said(&uri.replace("split.test", "other.test")).expect("a matter of usage");
    assert!(other_site.contains("no such site"), "{other_site}");
    let other_key = format!("{}{}", &uri[..uri.len() - 64], site.origin_key);
    let wrong_key = said(&other_key).expect("a matter of usage");
    assert!(wrong_key.contains("another key"), "{wrong_key}");
    assert!(site.counts("tandem_broker_refusals_total ") >= 2);
}

#[test]
fn who_comes_too_often_waits() {
    let site = Site::new();
    let config = site.configure("every-seconds = 3600\nburst = 1", "");
    let _broker = site.broker_as(&config);
    let _first = site.joined(2);
    let log = site.at("volunteer-3.log");
    let mut second = spawn(&mut site.volunteer(3, &site.uri()), &log);
    until("it is sent away", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("too many requests"))
    });
    assert!(
        second.0.try_wait().expect("ours").is_none(),
        "it goes on asking"
    );
    assert_eq!(
        site.status()["volunteers"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_damaged_database_is_set_aside_and_what_is_wrong_with_a_file_is_said() {
    let site = Site::new();
    drop(site.broker());
    let database = site.at("state/broker.sqlite");
    fs::write(&database, vec![0x5a; 8192]).expect("ours");
    // With its journal the killed broker's file would be whole again.
    fs::remove_file(site.at("state/broker.sqlite-wal")).expect("it was killed");
    let broker = site.broker();
    let aside = site.at("state/broker.sqlite.corrupt-1");
    assert_eq!(fs::read(&aside).expect("set aside"), vec![0x5a; 8192]);
    let volunteer = site.joined(2);
    site.publishes(&[2]);

    let config = site.at("broker.toml");
    let second =
        |config: &Path| common::run(common::tandem(&["split", "broker", "--config"]).arg(config));
    let busy = second(&config);
    assert!(busy.failed_with(4).contains("another broker"), "{busy:?}");
    drop((volunteer, broker));
    let text = fs::read_to_string(&config).expect("ours");
    for (from, to, says) in [
        ("site = ", "sight = ", "sight"),
        ("split.test", "10.0.0.1", "site: "),
        ("ca.pem", "none.pem", "none.pem"),
        ("split.test", "other.test", "is the broker's of split.test"),
    ] {
        let other = site.at("other.toml");
        fs::write(&other, text.replacen(from, to, 1)).expect("ours");
        let ran = second(&other);
        let said = ran.failed_with(2);
        assert!(said.contains(says), "{said}");
    }
    let ran = second(&site.at("nothing.toml"));
    assert!(ran.failed_with(2).contains("nothing.toml"));
    let both = ["split", "volunteer", "--listen", "127.0.0.1:0"];
    let ran = common::run(&mut common::tandem(&both));
    assert!(ran.failed_with(2).contains("--origin"), "neither is named");
}

#[test]
fn volunteers_find_each_other_by_the_list_and_ask_the_origin_once() {
    let site = Site::new();
    let _broker = site.broker();
    let uri = site.uri();
    let admin = free_port();
    let mut volunteers = Vec::new();
    for number in [2, 3] {
        let mut command = site.volunteer(number, &uri);
        command.args([
            "--peer-listen",
            &format!("127.0.0.{number}:{}", free_port()),
        ]);
        if number == 3 {
            command.args(["--admin", &format!("127.0.0.1:{admin}")]);
        }
        let log = site.at(&format!("volunteer-{number}.log"));
        volunteers.push(start(&mut command, &log, "ready"));
    }
    site.publishes(&[2, 3]);
    // With its next renewal each of them has the list with both; until then the origin is asked for
    // everything.
    let next = std::cell::Cell::new(0_u32);
    until("one gets something of the other", || {
        let path = (next.replace(next.get() + 1) % 100).to_string();
        assert!(site.fetches_path(2, &path) && site.fetches_path(3, &path));
        let metrics = get(admin, "/metrics").unwrap_or_default();
        let hits = metrics
            .lines()
            .find_map(|line| line.strip_prefix("tandem_split_volunteer_peer_hits_total "));
        hits.is_some_and(|hits| hits != "0")
    });
}

#[test]
fn volunteers_follow_the_broker_to_another_origin() {
    let mut site = Site::new();
    let broker = site.broker();
    let _volunteer = site.joined(2);
    site.publishes(&[2]);
    drop(broker);
    site.origin = free_port();
    site.running_origin = start_origin(site.folder.path(), site.origin, site.server, &[]);
    let _broker = site.broker();
    until("it is served by the other", || site.fetches(2));
    assert!(
        fs::read_to_string(site.at("volunteer-2.log"))
            .is_ok_and(|log| log.contains("another origin"))
    );
}
