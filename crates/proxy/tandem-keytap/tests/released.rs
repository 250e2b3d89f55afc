//! Handshake keys of TLS 1.3 that unmodified programs release: each opens what its connection
//! wrote, and nothing else is handed over.
//!
//! Is not: what a proxy does with a key.

mod support;

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::keys::{only, opens};
use support::{Conversation, Keys, Pki, Preload, Relay, Server, openssls, program, python, run};
use tandem_record_key::{Direction, RecordKey};
use tandem_testkit::has;

/// EncryptedExtensions, Certificate, CertificateVerify, Finished (RFC 8446, section 4).
const SERVER_FLIGHT: [u8; 4] = [8, 11, 15, 20];
/// Finished.
const CLIENT_FLIGHT: [u8; 1] = [20];

/// `s_client`, which has nothing to say.
fn s_client(mut openssl: Command, port: u16, options: &[&str]) -> Command {
    openssl
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(options);
    openssl
}

/// One connection of a program through a relay to a server.
#[track_caller]
fn connection(port: u16, client: impl FnOnce(u16) -> Command) -> Conversation {
    let relay = Relay::to(port);
    run(&mut client(relay.port));
    relay.conversation()
}

/// What a client releases opens both directions, and names both randoms of its connection.
#[track_caller]
fn opens_both(keys: &[RecordKey], said: &Conversation) {
    let randoms = [said.client_random(), said.server_random()];
    for key in keys {
        let named = [Some(key.client_random()), key.server_random()];
        assert_eq!(named, randoms.each_ref().map(Some));
    }
    assert_eq!(keys.len(), 2, "{keys:?}");
    let [server, client] =
        [Direction::FromServer, Direction::FromClient].map(|direction| only(keys, direction));
    assert_eq!(opens(server, &said.server), SERVER_FLIGHT);
    assert_eq!(opens(client, &said.client), CLIENT_FLIGHT);
}

#[test]
fn a_server_releases_the_key_that_it_writes_with_in_every_suite() {
    if !has(&["openssl"]) {
        return;
    }
    for openssl in openssls() {
        for suite in [
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
        ] {
            let keys = Keys::new();
            let server = Server::of(keys.program(&openssl), &["-ciphersuites", suite]);
            let said = connection(server.port, |port| {
                s_client(program("openssl", Preload::No), port, &[])
            });
            let released = keys.come();
            assert_eq!(released.len(), 1, "{suite}: {released:?}");
            let key = only(&released, Direction::FromServer);
            assert_eq!(opens(key, &said.server), SERVER_FLIGHT, "{suite}");
        }
    }
}

#[test]
fn a_client_releases_both_keys() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let server = Server::start(&[]);
    for openssl in openssls() {
        let keys = Keys::new();
        let said = connection(server.port, |port| {
            s_client(keys.program(&openssl), port, &[])
        });
        opens_both(&keys.come(), &said);
    }
    let keys = Keys::new();
    let said = connection(server.port, |port| {
        let mut curl = keys.program("curl");
        curl.args(["--silent", "--insecure", "--output", "/dev/null"])
            .arg(format!("https://127.0.0.1:{port}/"));
        curl
    });
    opens_both(&keys.come(), &said);
}

#[test]
fn a_second_hello_after_a_retry_changes_nothing() {
    if !has(&["openssl"]) {
        return;
    }
    let keys = Keys::new();
    let server = Server::of(keys.program("openssl"), &["-groups", "P-384"]);
    let said = connection(server.port, |port| {
        let groups = ["-groups", "X25519:P-384"];
        s_client(keys.program("openssl"), port, &groups)
    });
    assert_eq!(said.hellos().len(), 2);
    // A server's key does not name the server's random.
    let (of_server, of_client): (Vec<_>, Vec<_>) =
        (keys.come().into_iter()).partition(|key| key.server_random().is_none());
    assert_eq!(of_server.len(), 1);
    assert_eq!(opens(&of_server[0], &said.server), SERVER_FLIGHT);
    opens_both(&of_client, &said);
}

#[test]
fn older_versions_release_nothing() {
    if !has(&["openssl"]) {
        return;
    }
    let keys = Keys::new();
    let server = Server::of(keys.program("openssl"), &["-tls1_2"]);
    connection(server.port, |port| {
        s_client(keys.program("openssl"), port, &[])
    });
    assert_eq!(keys.datagrams(), Vec::<Vec<u8>>::new());
}

#[test]
fn without_a_socket_nothing_is_released_and_with_a_dead_one_nothing_fails() {
    if !has(&["openssl"]) {
        return;
    }
    let keys = Keys::new();
    let mut dead = keys.program("openssl");
    dead.env("TANDEM_KEYTAP_SOCKET", keys.file("nobody"))
        .env("TANDEM_KEYTAP_LOG", "stderr");
    let mut without = keys.program("openssl");
    without
        .env_remove("TANDEM_KEYTAP_SOCKET")
        .env("TANDEM_KEYTAP_LOG", "stderr");
    let server = Server::start(&[]);
    for (openssl, is_dead) in [(dead, true), (without, false)] {
        let output = run(&mut s_client(openssl, server.port, &[]));
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(log.contains("a key was not taken"), is_dead, "{log}");
        assert!(!log.contains("released"), "{log}");
    }
    assert_eq!(keys.datagrams(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_socket_with_a_relative_path_is_refused_with_a_line_in_the_log() {
    if !has(&["openssl"]) {
        return;
    }
    let keys = Keys::new();
    let server = Server::start(&[]);
    let mut client = s_client(keys.program("openssl"), server.port, &[]);
    let output = run(client
        .current_dir(keys.file(""))
        .env("TANDEM_KEYTAP_SOCKET", "keys")
        .env("TANDEM_KEYTAP_LOG", "stderr"));
    let log = String::from_utf8_lossy(&output.stderr);
    let refused = "TANDEM_KEYTAP_SOCKET is not an absolute path";
    assert_eq!(log.matches(refused).count(), 1, "{log}");
    assert_eq!(keys.datagrams(), Vec::<Vec<u8>>::new());
}

/// Every secret of a key log, as bytes.
fn secrets(key_log: &str) -> Vec<Vec<u8>> {
    let lines = key_log.lines().filter(|line| !line.starts_with('#'));
    let digits = lines.filter_map(|line| line.split(' ').nth(2));
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits
        .filter_map(|digits| digits.as_bytes().chunks(2).map(byte).collect())
        .collect()
}

#[test]
fn a_program_keeps_its_own_key_log_and_no_secret_of_it_is_handed_over() {
    if !has(&["openssl"]) {
        return;
    }
    let keys = Keys::new();
    let file = keys.file("key-log");
    let path = file.display().to_string();
    let server = Server::of(keys.program("openssl"), &["-keylogfile", &path]);
    connection(server.port, |port| {
        s_client(program("openssl", Preload::No), port, &[])
    });
    let key_log = fs::read_to_string(&file).expect("the server wrote it");
    let secrets = secrets(&key_log);
    // Two of the handshake, two of application data, the exporter's.
    assert_eq!(secrets.len(), 5, "{key_log}");
    let datagrams = keys.datagrams();
    assert_eq!(datagrams.len(), 1);
    for secret in secrets {
        // Not even a part of one.
        for part in secret.windows(8) {
            assert!(!datagrams[0].windows(8).any(|window| window == part));
        }
    }
}

/// Three connections from one context: without a key log of its own, with one, and without again.
const CHANGES_ITS_MIND: &str = "
import socket, ssl, sys
port, path = int(sys.argv[1]), sys.argv[2]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def connect():
    with socket.create_connection(('127.0.0.1', port)) as plain:
        with context.wrap_socket(plain) as tls:
            print(tls.version())
connect()
context.keylog_filename = path
connect()
context.keylog_filename = None
connect()
";

#[test]
fn a_key_log_that_the_program_sets_later_works_beside_it() {
    if !has(&["openssl", "python3"]) {
        return;
    }
    let keys = Keys::new();
    let server = Server::start(&[]);
    let path = keys.file("key-log");
    let output = run(keys
        .program(python())
        .args(["-c", CHANGES_ITS_MIND, &server.port.to_string()])
        .arg(&path));
    assert_eq!(output.stdout, b"TLSv1.3\n".repeat(3));
    let released = keys.come();
    assert_eq!(released.len(), 3 * 2);
    let key_log = fs::read_to_string(&path).expect("the program wrote it");
    assert_eq!(secrets(&key_log).len(), 5, "one connection's: {key_log}");
    let random: String = released[2]
        .client_random()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(key_log.contains(&random), "the second one's");
}

/// Ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // nginx's workers end with it if it is asked to end; a killed one leaves them.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn nginx_with_workers_releases_the_keys_of_its_connections() {
    if !has(&["nginx", "openssl", "kill"]) {
        return;
    }
    let keys = Keys::new();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let pki = Pki::shared();
    let settings = format!(
        "daemon off; worker_processes 2; user root; pid {0}/pid; error_log stderr crit;\n\
         events {{ }}\n\
         http {{ access_log off; client_body_temp_path {0}/b; proxy_temp_path {0}/p;\n\
         fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\n\
         server {{ listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.3; return 204;\n\
         ssl_certificate {1}; ssl_certificate_key {2}; }} }}\n",
        keys.file("").display(),
        pki.path("server.pem"),
        pki.path("server.key"),
    );
    let file = keys.file("nginx.conf");
    fs::write(&file, settings).expect("ours");
    let nginx = keys
        .program("nginx")
        .arg("-c")
        .arg(&file)
        .args(["-e", "stderr", "-p"])
        .arg(keys.file(""))
        .stdout(Stdio::null())
        .spawn();
    let _nginx = Running(nginx.expect("nginx is there"));
    let start = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "nginx listens");
        std::thread::yield_now();
    }
    for _ in 0..4 {
        let said = connection(port, |port| {
            s_client(program("openssl", Preload::No), port, &[])
        });
        let released = keys.come();
        assert_eq!(released.len(), 1, "{released:?}");
        assert_eq!(opens(&released[0], &said.server), SERVER_FLIGHT);
    }
}
