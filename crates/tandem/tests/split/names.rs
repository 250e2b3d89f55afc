//! Under which names `tandem split origin` and `tandem split broker` start: processes, and a name
//! server on loopback.
//!
//! Is not: what can be wrong with a name (`check.rs`), nor to whom the zone of a broker leads
//! (`names` in `tandem-broker`). That private names are served without a question all other tests
//! of splitting show: nobody answers theirs.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{common, split_site, split_zone};
use common::{Ran, run, tandem};
use serde_json::Value;
use split_site::{Running, eventually, free_port, get, metric};
use split_zone::{SITE, Zone};

const CONSENT: &str = "--i-accept-that-volunteers-may-obtain-certificates";
const WARNING: &str = "ANY VOLUNTEER MAY OBTAIN A CERTIFICATE";

/// A resolver that is not there.
fn nobody() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

/// The certificate of the site, and where what runs writes and listens.
struct Place {
    folder: tempfile::TempDir,
    admin: u16,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = Command::new("openssl")
            .args([
                "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=site", "-newkey", "rsa:2048",
            ])
            .args(["-addext", &format!("subjectAltName=DNS:{SITE}")])
            .args(["-keyout", "site.key", "-out", "site.pem"])
            .current_dir(folder.path())
            .output()
            .expect("openssl runs");
        assert!(made.status.success(), "{made:?}");
        Self {
            folder,
            admin: free_port(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An origin of the site.
    fn origin(&self) -> Command {
        let mut command = tandem(&["split", "origin", "--upstream", "http://127.0.0.1:1"]);
        command
            .args(["--listen", "127.0.0.1:0"])
            .args(["--admin", &format!("127.0.0.1:{}", self.admin)])
            .arg("--cert")
            .arg(self.at("site.pem"))
            .arg("--key")
            .arg(self.at("site.key"));
        command
    }

    /// A broker of the site, with these lines at the end of its file.
    fn broker(&self, lines: &str) -> Command {
        let (state, roots) = (self.at("state"), self.at("site.pem"));
        let (admin, zeros) = (self.admin, "0".repeat(64));
        let text = format!(
            "site = \"{SITE}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:{admin}\"\nstate = {state:?}\n\
             [origin]\naddress = \"127.0.0.1:1\"\nkey = \"{zeros}\"\n\
             [health]\nroots = {roots:?}\n{lines}\n"
        );
        let path = self.at("broker.toml");
        fs::write(&path, text).expect("own folder");
        let mut command = tandem(&["split", "broker", "--config"]);
        command.arg(path);
        command
    }

    /// Starts what should serve, and gives what it has logged until then.
    fn started(&self, command: &mut Command) -> (Running, String) {
        let log = self.at("log");
        let file = fs::File::create(&log).expect("own folder");
        let child = command
            .args(["--log", "warn"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .expect("it starts");
        let mut running = Running(child);
        let out = running.0.stdout.take().expect("piped");
        let mut line = String::new();
        BufReader::new(out)
            .read_line(&mut line)
            .expect("it writes or ends");
        let logged = fs::read_to_string(&log).expect("text");
        assert_eq!(line, "ready\n", "{logged}");
        (running, logged)
    }

    fn status(&self) -> Value {
        serde_json::from_str(&get(self.admin, "/status.json")).expect("JSON")
    }
}

/// Has a command ask a name server and trust in this key.
fn asking<'a>(command: &'a mut Command, resolver: SocketAddr, anchor: &Path) -> &'a mut Command {
    command
        .args(["--resolver", &resolver.to_string()])
        .arg("--trust-anchor")
        .arg(anchor)
}

/// Runs what should not serve, to its end.
fn refused(command: &mut Command) -> Ran {
    run(command.args(["--log", "off"]))
}

#[test]
fn an_origin_serves_a_public_name_only_if_no_volunteer_can_get_a_certificate() {
    let (place, zone) = (Place::new(), Zone::new(Some("letsencrypt.org")));
    let anchor = zone.anchor();
    let mut command = place.origin();
    let (running, logged) = place.started(asking(&mut command, zone.address, &anchor));
    assert!(!logged.contains(WARNING), "{logged}");
    let at_risk = "tandem_split_origin_certificates_at_risk";
    assert_eq!(metric(place.admin, at_risk), 0);
    assert_eq!(place.status()["certificates_at_risk"], false);
    drop(running);

    // Nobody vouches for this zone's key then.
    let other = Zone::new(None);
    let ran = refused(asking(&mut place.origin(), zone.address, &other.anchor()));
    let said = ran.failed_with(1);
    assert!(said.starts_with(&format!("{SITE} is not served")), "{said}");
    assert!(
        said.contains("tandem split check") && said.contains(CONSENT),
        "{said}"
    );
}

#[test]
fn an_authority_that_the_operator_vouches_for_is_taken_by_an_origin() {
    let (place, zone) = (Place::new(), Zone::new(Some("ca.tandem-site.org")));
    let anchor = zone.anchor();
    let ran = refused(asking(&mut place.origin(), zone.address, &anchor));
    let said = ran.failed_with(1);
    assert!(
        said.contains("whether ca.tandem-site.org observes"),
        "{said}"
    );
    let mut command = place.origin();
    command.args(["--observant", "ca.tandem-site.org"]);
    let (_running, _) = place.started(asking(&mut command, zone.address, &anchor));
}

#[test]
fn an_origin_that_cannot_ask_dns_ends_and_serves_nobody() {
    let place = Place::new();
    let resolver = nobody().to_string();
    let ran = refused(place.origin().args(["--resolver", &resolver]));
    let said = ran.failed_with(1);
    assert!(said.contains("DNS does not answer for the name"), "{said}");
}

#[test]
fn an_origin_that_is_asked_to_end_while_it_looks_does_so() {
    let place = Place::new();
    // It takes questions, and says nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let resolver = silent.local_addr().expect("bound").to_string();
    let log = place.at("log");
    let child = place
        .origin()
        .args(["--resolver", &resolver, "--log", "info"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&log).expect("own folder"))
        .spawn()
        .expect("it starts");
    let mut running = Running(child);
    eventually("it looks", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("asking DNS"))
    });
    let pid = nix::unistd::Pid::from_raw(running.0.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    assert!(running.0.wait().expect("ours").success());
    let mut out = String::new();
    let mut stdout = running.0.stdout.take().expect("piped");
    stdout.read_to_string(&mut out).expect("text");
    assert_eq!(out, "", "it was never ready");
}

#[test]
fn an_origin_whose_operator_accepts_the_risk_serves_and_warns_for_as_long() {
    let place = Place::new();
    let resolver = nobody().to_string();
    let mut command = place.origin();
    command.args(["--resolver", &resolver, CONSENT]);
    let (_running, logged) = place.started(&mut command);
    assert!(logged.contains(WARNING), "{logged}");
    let at_risk = "tandem_split_origin_certificates_at_risk";
    assert_eq!(metric(place.admin, at_risk), 1);
    let status = place.status();
    assert_eq!(status["site"], SITE);
    assert_eq!(status["certificates_at_risk"], true);
    assert!(
        status["warning"]
            .as_str()
            .is_some_and(|warning| warning.contains(WARNING)),
        "{status}"
    );
}

#[test]
fn a_broker_that_is_no_name_server_starts_only_if_no_volunteer_can_get_a_certificate() {
    let (place, zone) = (Place::new(), Zone::new(Some("letsencrypt.org")));
    let resolver = nobody().to_string();
    let ran = refused(place.broker("").args(["--resolver", &resolver]));
    let said = ran.failed_with(1);
    assert!(said.starts_with(&format!("{SITE} is not served")), "{said}");

    let at_risk = "tandem_broker_certificates_at_risk";
    let mut command = place.broker("");
    let (running, _) = place.started(asking(&mut command, zone.address, &zone.anchor()));
    assert_eq!(metric(place.admin, at_risk), 0);
    assert!(!get(place.admin, "/").contains(WARNING));
    drop(running);

    let mut command = place.broker("");
    command.args(["--resolver", &resolver, CONSENT]);
    let (_running, logged) = place.started(&mut command);
    assert!(logged.contains(WARNING), "{logged}");
    assert_eq!(metric(place.admin, at_risk), 1);
    assert_eq!(place.status()["certificates_at_risk"], true);
    assert!(get(place.admin, "/").contains(WARNING));
}

#[test]
fn a_broker_that_is_the_name_server_starts_and_is_told_in_its_file_whom_to_ask() {
    let place = Place::new();
    let nobody = nobody();
    let dns = format!(
        "[dns]\nlisten = [\"127.0.0.1:0\"]\nresolver = \"{nobody}\"\nnameservers = {{ \"ns.example.net\" = [] }}"
    );
    let resolver = nobody.to_string();
    let ran = refused(place.broker(&dns).args(["--resolver", &resolver]));
    assert!(ran.failed_with(2).contains("[dns]"), "{ran:?}");

    let (_running, _) = place.started(&mut place.broker(&dns));
    assert_eq!(metric(place.admin, "tandem_broker_name_refused"), 1);
    assert_eq!(metric(place.admin, "tandem_broker_certificates_at_risk"), 0);
}
