//! A public name for the tests of `tandem split`, with a name server on loopback.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tandem_barnraising::uri::Name;
use tandem_broker_dns::{Answers, Dns, Settings, Whose};
use tokio::runtime::Runtime;
use tokio::sync::watch;

pub(crate) const SITE: &str = "www.tandem-site.org";

/// A name server of its own for each test, with its key to trust in.
pub(crate) struct Zone {
    _runtime: Runtime,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
}

impl Zone {
    pub(crate) fn new(authority: Option<&str>) -> Self {
        let runtime = Runtime::new().expect("threads");
        let folder = tempfile::tempdir().expect("a folder");
        let settings: Settings = serde_json::from_value(serde_json::json!({
            "key": folder.path().join("zone.key"), "listen": ["127.0.0.1:0"], "nameservers": {"ns.example.net": []},
            "authority": authority, "account": authority.map(|authority| format!("https://{authority}/acct/1")),
        }))
        .expect("settings");
        let site = Name::parse(SITE).expect("a name");
        let (_, answers) = watch::channel(Arc::new(Answers {
            addresses: vec!["192.0.2.1".parse().expect("an address")],
            whose: Whose::Volunteers,
        }));
        let dns = runtime
            .block_on(Dns::bind(&site, &settings, answers))
            .expect("loopback");
        let address = dns.addresses()[0];
        runtime.spawn(dns.serve());
        Self {
            _runtime: runtime,
            folder,
            address,
        }
    }

    /// The zone's key as `dig` shows it.
    pub(crate) fn anchor(&self) -> PathBuf {
        let output = std::process::Command::new("dig")
            .args([
                "@127.0.0.1",
                "-p",
                &self.address.port().to_string(),
                "+short",
                "DNSKEY",
                SITE,
            ])
            .output()
            .expect("dig (scripts/ensure-tools.sh dns)");
        let key = String::from_utf8_lossy(&output.stdout);
        let path = self.folder.path().join("anchor");
        std::fs::write(&path, format!("{SITE}. 3600 IN DNSKEY {key}")).expect("own folder");
        path
    }
}
