//! TLS 1.3 through the tunnel with keys that come another way than from a library in the server:
//! out of the key log of rustls and Go, and by a relay. Both proxies and `tandem keytap` as
//! processes, and an unmodified curl.
//!
//! Is not: what `tandem keytap` takes and refuses (`tandem-key-relay`).
//!
//! A key log is read by another process than the one that writes it, and a relay is two more: on a
//! busy machine a key may come too late all the same. So a test visits until flights were opened,
//! and says nothing of how many were not.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::support::{common, real, split_site, tunnel_pair};
use common::tandem;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use real::{KeyType, Pki, TlsVersion, bytes, has, keytap, skipped, wait_until};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{KeyLog, ServerConfig, ServerConnection, StreamOwned};
use split_site::{Running, free_port};
use tunnel_pair::{Curl, KEYS, Pair, Proxy, Site, local, start, write_private};

/// Whether the program is there that `tandem keytap` starts.
fn can_run() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_tandem")).with_file_name("tandem-keytap");
    if !program.is_file() {
        skipped("needs tandem-keytap, which the tests of the whole workspace build");
        return false;
    }
    has(&["curl", "openssl"])
}

/// `tandem keytap keylog` from the pair's FIFO to its socket.
fn key_log(pair: &Pair) -> Running {
    let mut command = tandem(&["keytap", "keylog", "--dangerous-keylog"]);
    command.arg(pair.path("fifo"));
    command.arg("--socket").arg(pair.path("keys"));
    let keytap = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let keytap = Running(keytap.expect("it was built"));
    // Nobody waits in opening it once it has a reader.
    wait_until("the FIFO has a reader", || {
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        options.open(pair.path("fifo")).is_ok()
    });
    keytap
}

fn server_side(pair: &Pair, port: u16) -> Proxy {
    let mut command = pair.server_side(port);
    start(command.arg("--handshake-keys").arg(pair.path("keys")))
}

fn tls13(pair: &Pair) -> Curl {
    pair.by_socks().version(TlsVersion::Tls13)
}

/// Visits until three flights have crossed opened, two of them when the chain was known. curl gets
/// the page each time, so that each handshake was the server's to the byte.
#[track_caller]
fn crosses_opened(pair: &Pair, port: u16, page: &[u8]) {
    // Of TLS 1.3 no flight is written in another form but one that was opened.
    let written = || pair.server_side_counts("tunnel_flights_written");
    let elided = || pair.server_side_counts("tunnel_elided_bytes");
    let (first, opened) = (written(), pair.server_side_counts("tunnel_flights_opened"));
    wait_until("three flights cross opened", || {
        let before = (written(), elided());
        tls13(pair).gets(port, "page", page);
        if written() > before.0 && before.0 > first {
            // A chain of three RSA certificates.
            let spared = elided() - before.1;
            assert!(spared > 2_000, "{spared} bytes");
        }
        written() >= first + 3
    });
    let rebuilt = pair.client_side_counts("tunnel_flights_rebuilt");
    assert!(rebuilt >= 3, "{rebuilt}");
    wait_until("they are counted", || {
        pair.server_side_counts("tunnel_flights_opened") >= opened + 3
    });
}

/// Lines as `rustls::KeyLogFile` writes them.
#[derive(Debug)]
struct Lines(Mutex<File>);

impl KeyLog for Lines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let digits = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        let line = format!("{label} {} {}\n", digits(client_random), digits(secret));
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // As there: a log that cannot be written harms no connection.
        let _ = file.write_all(line.as_bytes());
    }
}

/// A server on rustls that answers each request with a page.
struct Rustls {
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rustls {
    fn start(fifo: &Path, page: &[u8]) -> Self {
        let pki = Pki::shared();
        let chain = CertificateDer::pem_file_iter(pki.chain(KeyType::Rsa)).expect("it was made");
        let chain: Result<Vec<_>, _> = chain.collect();
        let key = PrivateKeyDer::from_pem_file(pki.key(KeyType::Rsa)).expect("it was made");
        let provider = Arc::new(tandem_channel::crypto::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("it has the suites")
            .with_no_client_auth()
            .with_single_cert(chain.expect("certificates"), key)
            .expect("they fit");
        config.send_tls13_tickets = 0;
        let log = OpenOptions::new().write(true).open(fifo);
        config.key_log = Arc::new(Lines(Mutex::new(log.expect("the FIFO is there"))));
        let listener = TcpListener::bind(local(free_port())).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let is_over = Arc::new(AtomicBool::new(false));
        let (config, page, ends) = (Arc::new(config), page.to_vec(), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let config = Arc::clone(&config);
                // A client that has gone is no matter of the server's.
                let _ = answer(config, stream, &page);
            }
        });
        Self {
            port,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Rustls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(local(self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(config: Arc<ServerConfig>, stream: TcpStream, page: &[u8]) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    let stream = stream.get_mut();
    let length = page.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(page)?;
    stream.conn.send_close_notify();
    stream.flush()
}

#[test]
fn a_server_on_rustls_has_its_certificates_cross_once_and_outlives_the_reader_of_its_log() {
    if !can_run() {
        return;
    }
    let (pair, page) = (Pair::new(), bytes(1_000));
    let reader = key_log(&pair);
    let server = Rustls::start(&pair.path("fifo"), &page);
    let _server_side = server_side(&pair, server.port);
    let _client_side = start(&mut pair.client_side());
    crosses_opened(&pair, server.port, &page);

    drop(reader);
    for _ in 0..3 {
        tls13(&pair).gets(server.port, "page", &page);
    }
    let _reader = key_log(&pair);
    crosses_opened(&pair, server.port, &page);
}

#[test]
fn a_go_server_has_its_certificates_cross_once_and_needs_the_reader_of_its_log() {
    if !can_run() || !has(&["go"]) {
        return;
    }
    let (pair, page, port) = (Pair::new(), bytes(1_000), free_port());
    let (program, body) = (pair.path("server"), pair.path("body"));
    fs::write(&body, &page).expect("ours");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tunnel/server.go");
    real::run(
        Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(source)
            // What comes with the compiler is all that is used; nothing is to be fetched.
            .envs([
                ("GOTOOLCHAIN", "local"),
                ("GOPROXY", "off"),
                ("CGO_ENABLED", "0"),
            ])
            .env("TMPDIR", pair.path("")),
    );
    let reader = key_log(&pair);
    let pki = Pki::shared();
    let server = Command::new(&program)
        .arg(port.to_string())
        .args([pki.chain(KeyType::Rsa), pki.key(KeyType::Rsa)])
        .args([pair.path("fifo"), body])
        .stdin(Stdio::null())
        .spawn();
    let _server = Running(server.expect("it was built"));
    wait_until("it listens", || TcpStream::connect(local(port)).is_ok());
    let _server_side = server_side(&pair, port);
    let _client_side = start(&mut pair.client_side());
    crosses_opened(&pair, port, &page);

    // What the documentation warns of: Go takes a log that it cannot write for a reason to fail.
    drop(reader);
    let direct = Curl::direct().version(TlsVersion::Tls13);
    assert_ne!(direct.fetch(port, "page").status.code(), Some(0));
    let _reader = key_log(&pair);
    direct.gets(port, "page", &page);
    crosses_opened(&pair, port, &page);
}

#[test]
fn keys_from_another_machine_open_flights_and_a_relay_that_is_killed_harms_none() {
    if !can_run() || !has(&["nginx"]) || keytap().is_none() {
        return;
    }
    let (pair, page, port) = (Pair::new(), bytes(1_000), free_port());
    write_private(&pair.path("keys.key"), KEYS[1]);
    let part = |name: &str, address: &str, socket: &str| {
        let mut command = tandem(&["keytap", name, address, &local(port)]);
        command.arg("--key").arg(pair.path("keys.key"));
        command.arg("--socket").arg(pair.path(socket));
        let part = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        Running(part.expect("it was built"))
    };
    let receive = part("receive", "--listen", "keys");
    wait_until("it listens", || TcpStream::connect(local(port)).is_ok());
    let relay = part("relay", "--to", "relayed");
    wait_until("the relay's socket is there", || {
        pair.path("relayed").exists()
    });
    let mut nginx = Command::new("nginx");
    nginx
        .env("LD_PRELOAD", keytap().expect("looked for before"))
        .env("TANDEM_KEYTAP_SOCKET", pair.path("relayed"));
    let site = Site::with(&mut nginx);
    site.publish("page", &page);
    let _server_side = server_side(&pair, site.port);
    let _client_side = start(&mut pair.client_side());
    crosses_opened(&pair, site.port, &page);

    for part in [receive, relay] {
        let pid = i32::try_from(part.0.id()).expect("process numbers are small");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is ours");
        drop(part);
        for _ in 0..3 {
            tls13(&pair).gets(site.port, "page", &page);
            Curl::direct()
                .version(TlsVersion::Tls13)
                .gets(site.port, "page", &page);
        }
    }
}
