//! What both proxies hold of a handshake whose server or client consented, and the process that
//! reads a server's key log: no secret of such a log, neither in memory, nor in a file, a core
//! dump, or in what crosses the link.
//!
//! Is not: a proof that they hold nothing else. Each search is shown to find what is there.

use std::fs;
use std::io::Write as _;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::support::{common, real, split_site, tunnel_pair};
use common::tandem;
use nix::sys::signal::Signal;
use real::{KeyType, Pki, bytes, has, has_root_and, keytap, skipped, wait_until};
use split_site::{Running, free_port};
use tandem_testkit::memory::Patterns;
use tandem_testkit::{is_installed, not_tried};
use tunnel_pair::{Pair, Proxy, Site, local, start};

/// Carries datagrams between the proxies, and keeps them.
struct Line {
    port: u16,
    kept: Arc<Mutex<Vec<u8>>>,
}

impl Line {
    fn to(server: u16) -> Self {
        let bind = || UdpSocket::bind(local(0)).expect("a free port");
        let [near, far] = [bind(), bind()].map(Arc::new);
        let port = near.local_addr().expect("bound").port();
        far.connect(local(server)).expect("an address");
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = |from: Arc<UdpSocket>, to: Arc<UdpSocket>| {
            let weak = Arc::downgrade(&kept);
            let wait = Some(Duration::from_millis(50));
            from.set_read_timeout(wait).expect("a socket can");
            std::thread::spawn(move || {
                let mut buffer = [0; 1 << 16];
                while let Some(kept) = weak.upgrade() {
                    if let Ok((len, sender)) = from.recv_from(&mut buffer) {
                        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                        kept.extend_from_slice(&buffer[..len]);
                        // The near socket learns whom it answers.
                        let _ = from.connect(sender);
                        let _ = to.send(&buffer[..len]);
                    }
                }
            });
        };
        keep(Arc::clone(&near), Arc::clone(&far));
        keep(far, near);
        Self { port, kept }
    }
}

/// A program that hands its keys in at the pair's socket.
fn consenting<'a>(program: &'a mut Command, pair: &Pair) -> &'a mut Command {
    program
        .env("LD_PRELOAD", keytap().expect("looked for before"))
        .env("TANDEM_KEYTAP_SOCKET", pair.path("keys"))
}

/// A connection through the tunnel that stays open, and its key log.
fn visit(pair: &Pair, site: u16, key_log: &Path) -> Running {
    visit_by(&mut Command::new("openssl"), pair, site, key_log)
}

fn visit_by(openssl: &mut Command, pair: &Pair, site: u16, key_log: &Path) -> Running {
    let client = openssl
        .args(["s_client", "-tls1_3", "-quiet", "-connect", &local(site)])
        .args(["-proxy", &local(pair.http_proxy), "-keylogfile"])
        .arg(key_log)
        .env("OPENSSL_CONF", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(client.expect("it is installed"))
}

/// The secrets of a key log, once it has all five.
fn secrets(key_log: &Path) -> Vec<Vec<u8>> {
    let mut secrets = Vec::new();
    wait_until("the key log is whole", || {
        let text = fs::read_to_string(key_log).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let digits = lines.filter_map(|line| line.split(' ').nth(2));
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let secret = |digits: &str| digits.as_bytes().chunks(2).map(byte).collect();
        secrets = digits.filter_map(secret).collect();
        secrets.len() >= 5 && text.ends_with('\n')
    });
    secrets
}

/// Every file of the pair.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("ours").map_while(Result::ok);
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.is_file() {
            files.push(path);
        }
    }
    files
}

/// A core dump of a process that runs on; `None`, and a note, where none can be made.
fn core(pid: u32, folder: &Path) -> Option<Vec<u8>> {
    if !is_installed("gcore") {
        not_tried("a core dump needs gcore, of gdb");
        return None;
    }
    let made = Command::new("gcore")
        .arg("-o")
        .arg(folder.join("core"))
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .output();
    made.expect("it runs");
    let Ok(core) = fs::read(folder.join(format!("core.{pid}"))) else {
        not_tried("gcore made no core dump");
        return None;
    };
    Some(core)
}

#[test]
fn no_secret_of_a_consenting_server_is_in_a_proxy_or_between_them() {
    if !has(&["nginx", "openssl"]) || keytap().is_none() {
        return;
    }
    let mut pair = Pair::new();
    let site = Site::with(consenting(&mut Command::new("nginx"), &pair));
    let mut command = pair.server_side(site.port);
    let server_side = start(command.arg("--handshake-keys").arg(pair.path("keys")));
    let line = Line::to(pair.listen);
    pair.listen = line.port;
    let client_side = start(&mut pair.client_side());
    let elsewhere = tempfile::tempdir().expect("a directory");
    let key_log = elsewhere.path().join("key-log");

    // The first visit teaches the chain, the second is written with it.
    let mut all = Vec::new();
    for number in 1..=2 {
        let _ = fs::remove_file(&key_log);
        let client = visit(&pair, site.port, &key_log);
        let secrets = secrets(&key_log);
        wait_until("the flight was opened", || {
            pair.server_side_counts("tunnel_flights_opened") == number
        });
        wait_until("the flight was rebuilt", || {
            pair.client_side_counts("tunnel_flights_rebuilt") == number
        });
        let patterns = Patterns::of(&secrets);
        assert!(
            patterns.are_in_process(client.0.id()),
            "the search finds what the client itself has to hold"
        );
        for proxy in [&server_side, &client_side] {
            assert!(!patterns.are_in_process(proxy.pid()), "{}", proxy.log());
        }
        all.extend(secrets);
    }
    let released = || pair.server_side_counts("tunnel_record_keys_released");
    holds_a_key(&pair, &server_side, released);
    Searched {
        pair,
        proxies: [server_side, client_side],
        line,
        elsewhere,
    }
    .shows_none_of(&all);
}

#[test]
fn no_secret_of_a_consenting_client_is_in_a_proxy_or_between_them() {
    if !has(&["nginx", "openssl"]) || keytap().is_none() {
        return;
    }
    let mut pair = Pair::new();
    let site = Site::new();
    let server_side = start(&mut pair.server_side(site.port));
    let line = Line::to(pair.listen);
    pair.listen = line.port;
    let mut command = pair.client_side();
    command.arg("--handshake-keys").arg(pair.path("keys"));
    let client_side = start(command.args(["--prefer", "bytes"]));
    let elsewhere = tempfile::tempdir().expect("a directory");
    let key_log = elsewhere.path().join("key-log");

    // The first key comes late, and tells of its client; on a busy machine another one may, too.
    let mut all = Vec::new();
    wait_until("flights were sealed with a client's key", || {
        let _ = fs::remove_file(&key_log);
        let mut openssl = Command::new("openssl");
        let client = visit_by(consenting(&mut openssl, &pair), &pair, site.port, &key_log);
        let secrets = secrets(&key_log);
        let patterns = Patterns::of(&secrets);
        assert!(
            patterns.are_in_process(client.0.id()),
            "the search finds what the client itself has to hold"
        );
        for proxy in [&server_side, &client_side] {
            assert!(!patterns.are_in_process(proxy.pid()), "{}", proxy.log());
        }
        all.extend(secrets);
        pair.client_side_counts("tunnel_flights_sealed") >= 2
    });
    let released = || pair.client_side_counts("tunnel_record_keys_released");
    holds_a_key(&pair, &client_side, released);
    Searched {
        pair,
        proxies: [server_side, client_side],
        line,
        elsewhere,
    }
    .shows_none_of(&all);
}

/// What is searched after the last handshake.
struct Searched {
    pair: Pair,
    proxies: [Proxy; 2],
    line: Line,
    elsewhere: tempfile::TempDir,
}

impl Searched {
    /// None of these secrets is in the proxies' memory, core dumps, logs and files, and in what
    /// crossed between them.
    #[track_caller]
    fn shows_none_of(self, secrets: &[Vec<u8>]) {
        let patterns = Patterns::of(secrets);
        let key_log = fs::read(self.elsewhere.path().join("key-log"));
        assert!(patterns.are_in(&key_log.expect("it was written")));
        for proxy in &self.proxies {
            assert!(!patterns.are_in_process(proxy.pid()), "afterwards");
            if let Some(core) = core(proxy.pid(), self.elsewhere.path()) {
                assert!(!patterns.are_in(&core), "a core dump");
            }
        }
        let crossed = self.line.kept.lock();
        let crossed = crossed.unwrap_or_else(PoisonError::into_inner);
        assert!(crossed.len() > 1_000, "it was looked at");
        assert!(!patterns.are_in(&crossed), "the tunnel");
        for proxy in self.proxies {
            let log = proxy.end_with_log(Signal::SIGTERM);
            assert!(!patterns.are_in(log.as_bytes()), "{log}");
        }
        let stores = files(self.pair.path("").as_path());
        assert!(stores.len() > 2, "{stores:?}");
        for file in stores {
            let contents = fs::read(&file).expect("ours");
            assert!(!patterns.are_in(&contents), "{}", file.display());
        }
    }
}

/// A record key that was released, and whose flight has not come, is found in the side that takes
/// keys, which has counted so many.
#[track_caller]
fn holds_a_key(pair: &Pair, proxy: &Proxy, released: impl Fn() -> u64) {
    let before = released();
    let key = &bytes(4_000)[3_000..3_032];
    // The layout of crates/base/tandem-record-key: a server's, AES-256-GCM, with both randoms.
    let datagram = [&[2, 1, 0x13, 2][..], &[7; 32], &[6; 32], &[8; 12], key].concat();
    let program = UnixDatagram::unbound().expect("a socket");
    let sent = program.send_to(&datagram, pair.path("keys"));
    sent.expect("the daemon is there");
    // The last client's own key may come at the same time.
    wait_until("it was taken", || released() > before);
    let held = Patterns::of(&[key.to_vec()]);
    wait_until("it is found", || held.are_in_process(proxy.pid()));
}

/// `tandem keytap keylog` from the pair's FIFO to its socket, and where it logs.
fn key_log_reader(pair: &Pair, log: &Path) -> Running {
    let mut command = tandem(&["keytap", "keylog", "--dangerous-keylog"]);
    command.arg(pair.path("fifo"));
    command.arg("--socket").arg(pair.path("keys"));
    let log = fs::File::create(log).expect("ours");
    let reader = command.stdin(Stdio::null()).stderr(log).spawn();
    let reader = Running(reader.expect("it was built"));
    wait_until("the FIFO is there", || pair.path("fifo").exists());
    reader
}

#[test]
fn no_secret_of_a_key_log_stays_with_the_process_that_reads_it() {
    let program = Path::new(env!("CARGO_BIN_EXE_tandem")).with_file_name("tandem-keytap");
    if !program.is_file() {
        skipped("needs tandem-keytap, which the tests of the whole workspace build");
        return;
    }
    // Nobody but root looks into a process that asks for that.
    if !has_root_and(&["openssl"]) {
        return;
    }
    let (pair, port, pki) = (Pair::new(), free_port(), Pki::shared());
    let elsewhere = tempfile::tempdir().expect("a directory");
    let [key_log, said] = ["key-log", "said"].map(|name| elsewhere.path().join(name));
    let mut command = pair.server_side(port);
    let server_side = start(command.arg("--handshake-keys").arg(pair.path("keys")));
    let client_side = start(&mut pair.client_side());
    let reader = key_log_reader(&pair, &said);
    let server = Command::new("openssl")
        .args(["s_server", "-WWW", "-quiet", "-tls1_3", "-accept"])
        .arg(port.to_string())
        .arg("-cert")
        .arg(pki.chain(KeyType::Rsa))
        .arg("-key")
        .arg(pki.key(KeyType::Rsa))
        .arg("-keylogfile")
        .arg(pair.path("fifo"))
        .env("OPENSSL_CONF", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Running(server.expect("it is installed"));
    wait_until("it listens", || TcpStream::connect(local(port)).is_ok());

    let client = visit(&pair, port, &key_log);
    let secrets = secrets(&key_log);
    // The server has written its lines by then. What is written behind them comes behind them.
    let released = || pair.server_side_counts("tunnel_record_keys_released");
    wait_until("the server's key came", || released() >= 1);
    let before = released();
    let own = format!(
        "SERVER_HANDSHAKE_TRAFFIC_SECRET {} {}\n",
        "5a".repeat(32),
        "a5".repeat(48)
    );
    let fifo = fs::OpenOptions::new().write(true).open(pair.path("fifo"));
    let written = fifo.and_then(|mut fifo| fifo.write_all(own.as_bytes()));
    written.expect("it has a reader");
    wait_until("this line's key came", || released() > before);

    let patterns = Patterns::of(&secrets);
    assert!(patterns.are_in_process(client.0.id()), "as it has to be");
    assert!(!patterns.are_in_process(reader.0.id()), "the reader");
    if let Some(core) = core(reader.0.id(), elsewhere.path()) {
        assert!(!patterns.are_in(&core), "its core dump");
    }
    for proxy in [&server_side, &client_side] {
        assert!(!patterns.are_in_process(proxy.pid()), "{}", proxy.log());
    }
    assert!(!patterns.are_in(&fs::read(said).expect("it was made")));
    for file in files(pair.path("").as_path()) {
        let contents = fs::read(&file).expect("ours");
        assert!(!patterns.are_in(&contents), "{}", file.display());
    }
}
