//! A name server on loopback, and the real programs that ask it.
#![allow(dead_code, reason = "each test binary uses its part of it")]

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tandem_barnraising::uri::Name;
use tandem_broker_dns::{Answers, Dns, Settings, Whose};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) const SITE: &str = "www.tandem-site.org";
pub(crate) const AUTHORITY: &str = "letsencrypt.org";
pub(crate) const ACCOUNT: &str = "https://acme-v02.api.letsencrypt.org/acme/acct/1";

/// How long something may take on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A name server that ends with its test.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) ds: String,
    pub(crate) answers: watch::Sender<Arc<Answers>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn addresses(texts: &[&str]) -> Arc<Answers> {
    let parse = |text: &&str| text.parse::<IpAddr>().expect("an address");
    Arc::new(Answers {
        addresses: texts.iter().map(parse).collect(),
        whose: Whose::Volunteers,
    })
}

/// The settings of most tests, with changes.
pub(crate) fn settings(folder: &Path, change: impl FnOnce(&mut serde_json::Value)) -> Settings {
    let mut value = serde_json::json!({
        "key": folder.join("zone.key"), "challenge": folder.join("challenge"), "powerdns": folder.join("pdns.sock"),
        "listen": ["127.0.0.1:0"], "nameservers": {"ns.www.tandem-site.org": ["127.0.0.1"]},
        "authority": AUTHORITY, "account": ACCOUNT,
    });
    change(&mut value);
    serde_json::from_value(value).expect("settings")
}

impl Server {
    pub(crate) async fn start(first: &[&str]) -> Self {
        Self::with(SITE, first, |_| {}).await
    }

    pub(crate) async fn with(
        site: &str,
        first: &[&str],
        change: impl FnOnce(&mut serde_json::Value),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (answers, receiver) = watch::channel(addresses(first));
        let settings = settings(folder.path(), change);
        let site = Name::parse(site).expect("a name");
        let dns = Dns::bind(&site, &settings, receiver)
            .await
            .expect("loopback");
        Self {
            address: dns.addresses()[0],
            ds: dns.ds().to_owned(),
            answers,
            task: tokio::spawn(dns.serve()),
            folder,
        }
    }

    /// What a program says, run beside the server.
    pub(crate) async fn run(&self, program: &str, words: &str) -> String {
        run_at(self.address, program, words).await
    }

    pub(crate) async fn dig(&self, words: &str) -> String {
        self.run("dig", &format!("+tries=3 +time=5 {words}")).await
    }

    /// The answers alone, sorted.
    pub(crate) async fn short(&self, words: &str) -> Vec<String> {
        let text = self.dig(&format!("+short {words}")).await;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// Trust in this zone's key, in the form that `delv` reads.
    pub(crate) async fn anchor(&self) -> PathBuf {
        let zone = self.ds.split(' ').next().expect("a name").to_owned();
        let keys = self.short(&format!("DNSKEY {zone}")).await;
        let words: Vec<&str> = keys[0].split(' ').collect();
        let (head, key) = words.split_at(3);
        let text = format!(
            "trust-anchors {{ \"{zone}\" static-key {} \"{}\"; }};\n",
            head.join(" "),
            key.concat()
        );
        let path = self.folder.path().join("anchor.conf");
        std::fs::write(&path, text).expect("own folder");
        path
    }

    /// The same in the form of a zone file.
    pub(crate) async fn dnskey(&self) -> PathBuf {
        let zone = self.ds.split(' ').next().expect("a name").to_owned();
        let keys = self.short(&format!("DNSKEY {zone}")).await;
        let path = self.folder.path().join("anchor.zone");
        std::fs::write(&path, format!("{zone} 3600 IN DNSKEY {}\n", keys[0])).expect("own folder");
        path
    }
}

pub(crate) async fn run_at(address: SocketAddr, program: &str, words: &str) -> String {
    let mut command = Command::new(program);
    command.arg(format!("@{}", address.ip()));
    command.args(["-p", &address.port().to_string()]);
    command.args(words.split(' ').filter(|word| !word.is_empty()));
    // Out of the test's folder, no user's settings get into it.
    command.env("HOME", "/nonexistent");
    let output = output(command).await;
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

pub(crate) async fn output(mut command: Command) -> Output {
    let name = format!("{command:?}");
    tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("no panic")
        .unwrap_or_else(|error| panic!("{name}: {error} (scripts/ensure-tools.sh dns)"))
}

/// Waits until something holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(
            start.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
