//! A real PowerDNS, with Debian's remote backend, that is asked by `dig` and `delv`.

mod common;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{SITE, Server, addresses, run_at, until};

/// A PowerDNS that ends with its test.
struct PowerDns {
    child: Child,
    address: SocketAddr,
}

impl Drop for PowerDns {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn start(folder: &Path) -> PowerDns {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let address = free.local_addr().expect("bound");
    drop(free);
    let folder = folder.display();
    let child = Command::new("pdns_server")
        .args([
            "--config-dir=/nonexistent",
            "--launch=remote",
            "--daemon=no",
            "--guardian=no",
            "--disable-syslog=yes",
        ])
        .arg(format!(
            "--remote-connection-string=unix:path={folder}/pdns.sock"
        ))
        .args([
            "--remote-dnssec=yes",
            "--cache-ttl=0",
            "--query-cache-ttl=0",
            "--negquery-cache-ttl=0",
        ])
        .args([
            "--zone-cache-refresh-interval=0",
            "--dnssec-key-cache-ttl=0",
            "--consistent-backends=no",
        ])
        .arg(format!("--socket-dir={folder}"))
        .arg(format!("--local-address={}", address.ip()))
        .arg(format!("--local-port={}", address.port()))
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("pdns-server, pdns-backend-remote (scripts/ensure-tools.sh dns)");
    PowerDns { child, address }
}

async fn ready(site: &[&str]) -> (Server, PowerDns) {
    let server = Server::start(site).await;
    let powerdns = start(server.folder.path());
    until("PowerDNS answers", async || {
        let text = run_at(
            powerdns.address,
            "dig",
            &format!("+tries=1 +time=2 SOA {SITE}"),
        )
        .await;
        text.contains("status: NOERROR")
    })
    .await;
    (server, powerdns)
}

#[tokio::test(flavor = "multi_thread")]
async fn powerdns_says_the_same_and_signs_it_by_the_same_key() {
    let (server, powerdns) = ready(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]).await;
    std::fs::write(server.folder.path().join("challenge"), "to\"ken\n").expect("own folder");
    until("the challenge is read", async || {
        !server
            .short(&format!("TXT _acme-challenge.{SITE}"))
            .await
            .is_empty()
    })
    .await;
    let anchor = server.anchor().await;
    for (kind, name) in [
        ("A", SITE),
        ("AAAA", SITE),
        ("HTTPS", SITE),
        ("CAA", SITE),
        ("NS", SITE),
        ("SOA", SITE),
        ("DNSKEY", SITE),
        ("TXT", "_acme-challenge.www.tandem-site.org"),
        ("A", "ns.www.tandem-site.org"),
    ] {
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let theirs =
            sorted(run_at(powerdns.address, "dig", &format!("+short {kind} {name}")).await);
        assert_eq!(
            theirs,
            server.short(&format!("{kind} {name}")).await,
            "{kind} {name}"
        );
        let words = format!("-a {} +root={SITE} {kind} {name}", anchor.display());
        let text = run_at(powerdns.address, "delv", &words).await;
        assert!(text.contains("; fully validated"), "{kind} {name}: {text}");
    }
    for (question, status) in [
        (format!("MX {SITE}"), "NOERROR"),
        (format!("AAAA ns.{SITE}"), "NOERROR"),
        (format!("A 0.{SITE}"), "NXDOMAIN"),
        (format!("A zzz.{SITE}"), "NXDOMAIN"),
        (format!("A x.y.ns.{SITE}"), "NXDOMAIN"),
    ] {
        let text = run_at(powerdns.address, "dig", &format!("+dnssec {question}")).await;
        assert!(
            text.contains(&format!("status: {status}")),
            "{question}: {text}"
        );
        let words = format!("-a {} +root={SITE} {question}", anchor.display());
        let text = run_at(powerdns.address, "delv", &words).await;
        assert!(
            text.contains("; negative response, fully validated"),
            "{question}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn powerdns_sends_browsers_elsewhere_as_soon_as_we_do() {
    let (server, powerdns) = ready(&["192.0.2.1"]).await;
    for set in [&["192.0.2.7"][..], &["192.0.2.8", "192.0.2.9"], &[]] {
        server.answers.send_replace(addresses(set));
        until("the change shows", async || {
            let text = run_at(powerdns.address, "dig", &format!("+short A {SITE}")).await;
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines == set
        })
        .await;
    }
    // A site's secondaries get the zone from PowerDNS, which allows loopback.
    let transfer = run_at(powerdns.address, "dig", &format!("+tcp AXFR {SITE}")).await;
    for kind in ["SOA", "NS", "CAA", "HTTPS", "RRSIG", "NSEC"] {
        assert!(
            transfer.contains(&format!("\tIN\t{kind}\t")),
            "{kind}: {transfer}"
        );
    }
}
