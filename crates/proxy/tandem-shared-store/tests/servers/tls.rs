//! Over TLS.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use tandem_shared_store::{Access, Address, Fault, Trust, examine};
use tandem_tunnel::SharedStore as _;
use tempfile::TempDir;

use super::support::{PATIENCE, RealServer, until};
use super::{KEY, PEER, look, recalled, started, texts, written};

/// An authority, and what it has signed.
struct Authority {
    folder: TempDir,
}

impl Authority {
    /// With a server's certificate for these names.
    fn new(names: &str) -> Option<Self> {
        if !tandem_testkit::has(&["openssl"]) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a directory");
        let new = ["req", "-x509", "-nodes", "-newkey", "ec", "-days", "2"];
        let key = ["-pkeyopt", "ec_paramgen_curve:P-256"];
        let openssl = |more: &[&str]| {
            let ran = Command::new("openssl")
                .current_dir(folder.path())
                .args([&new[..], &key, more].concat())
                .output();
            let ran = ran.expect("it runs");
            assert!(ran.status.success(), "{ran:?}");
        };
        openssl(&["-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"]);
        let by = ["-CA", "ca.pem", "-CAkey", "ca.key"];
        let is = ["-subj", "/CN=server", "-addext", names];
        let leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
        let into = ["-keyout", "server.key", "-out", "server.pem"];
        openssl(&[&by[..], &is, &leaf, &into].concat());
        Some(Self { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server with this certificate, and the port of its TLS.
    fn serve(&self, clients: &str) -> Option<(RealServer, u16)> {
        let [pem, key, ca] = ["server.pem", "server.key", "ca.pem"]
            .map(|name| self.path(name).display().to_string());
        let port = tandem_testkit::free_port();
        let settings = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", pem),
            ("--tls-key-file", key),
            ("--tls-ca-cert-file", ca),
            ("--tls-auth-clients", clients.to_owned()),
        ];
        let arguments: Vec<&str> = settings
            .iter()
            .flat_map(|(name, value)| [*name, value])
            .collect();
        RealServer::start(&arguments).map(|server| (server, port))
    }

    /// To this server, as one that it vouches for.
    fn access(&self, address: &str) -> Access {
        let address: Address = address.parse().expect(address);
        Access {
            trust: Some(trust(&self.path("ca.pem"))),
            ..address.into()
        }
    }
}

fn trust(path: &Path) -> Trust {
    Trust::read(path).expect("authorities")
}

#[test]
fn notes_are_written_and_recalled() {
    let Some(authority) = Authority::new("subjectAltName=DNS:localhost,IP:127.0.0.1") else {
        return;
    };
    let Some((mut server, port)) = authority.serve("no") else {
        return;
    };
    let proxies = ["localhost", "127.0.0.1"]
        .map(|host| started(authority.access(&format!("rediss://{host}:{port}")), &KEY));
    for (number, proxy) in proxies.iter().enumerate() {
        // More than goes into a record.
        written(proxy, PEER, &number.to_string().repeat(30_000));
    }
    for proxy in &proxies {
        let found = recalled(proxy, PEER).expect("it answers");
        assert_eq!(texts(&found), ["0".repeat(30_000), "1".repeat(30_000)]);
    }
    server.kill();
    written(&proxies[0], PEER, "lost");
    until("it is down", || proxies[0].state().starts_with("down: "));
    server.start_again();
    until("it is used again", || {
        written(&proxies[0], PEER, "after");
        proxies[0].state() == "connected"
    });
}

#[test]
fn a_certificate_that_nobody_trusted_vouches_for_is_refused_and_so_is_another_name() {
    let Some(authority) = Authority::new("subjectAltName=DNS:localhost") else {
        return;
    };
    let Some((_server, port)) = authority.serve("no") else {
        return;
    };
    let other = Authority::new("subjectAltName=DNS:localhost").expect("it was there");
    let found = |host: &str, of: &Authority| look(&of.access(&format!("rediss://{host}:{port}")));
    assert_eq!(found("localhost", &authority), Ok(()));
    for outcome in [found("localhost", &other), found("127.0.0.1", &authority)] {
        assert!(matches!(outcome, Err(Fault::NotTrusted(_))), "{outcome:?}");
    }
}

#[test]
fn a_server_that_wants_a_certificate_or_does_not_speak_tls_is_told_apart() {
    let Some(authority) = Authority::new("subjectAltName=DNS:localhost") else {
        return;
    };
    let Some((server, port)) = authority.serve("yes") else {
        return;
    };
    let found = |address: &str| look(&authority.access(address));
    let outcome = found(&format!("rediss://localhost:{port}"));
    assert_eq!(outcome, Err(Fault::WantsCertificate));
    let outcome = found(&format!("redis://localhost:{port}"));
    assert!(matches!(outcome, Err(Fault::NotThis(_))), "{outcome:?}");
    let clear = tandem_testkit::free_port().to_string();
    assert_eq!(server.ask(&["CONFIG", "SET", "port", &clear]), "OK");
    let outcome = found(&format!("rediss://localhost:{clear}"));
    // A hello of TLS is a command to it, which may lack its end.
    let is_told = matches!(outcome, Err(Fault::NotThis(_) | Fault::Silent));
    assert!(is_told, "{outcome:?}");
}

#[test]
fn a_handshake_that_trickles_is_left() {
    let Some(authority) = Authority::new("subjectAltName=DNS:localhost") else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let access = authority.access(&format!("rediss://localhost:{port}"));
    let (said, heard) = channel();
    std::thread::spawn(move || {
        // It fails only where the test has given up.
        let _ = said.send(examine(&access, &KEY));
    });
    let (mut stream, _) = listener.accept().expect("it comes");
    // A part of a ServerHello. Each byte comes in time, and there are bytes for minutes.
    let record = [&[22, 3, 3, 64, 0, 2, 0, 63, 252][..], &[0; 1 << 10]].concat();
    let trickle = std::thread::spawn(move || {
        let mut bytes = record.chunks(1);
        bytes.all(|byte| {
            sleep(Duration::from_millis(200));
            stream.write_all(byte).is_ok()
        })
    });
    let outcome = heard.recv_timeout(PATIENCE).expect("it waits no longer");
    assert_eq!(outcome, Err(Fault::Silent));
    assert!(!trickle.join().expect("no panic"), "it heard everything");
}
