//! An unmodified `openssl s_server` with the library loaded: it receives what it receives without,
//! and its phases are what a handshake is made of.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that each client sends.
const FILE: usize = 200_000;
/// Connections that are made.
const CONNECTIONS: u64 = 3;
/// A busy machine may take a while.
const LIMIT: Duration = Duration::from_secs(60);

/// The shared object that was built for this test.
fn library() -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test knows where it is");
    folder.pop();
    folder.join("libtandem_cost_tap.so")
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn openssl(folder: &Path, words: &str) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(words.split(' '));
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Time, calls, bytes, phases within.
fn sums(board: &Path, name: &str) -> [u64; 4] {
    let bytes = fs::read(board).expect("the library has made it");
    let record = bytes[32..]
        .chunks(64)
        .find(|record| record.starts_with(name.as_bytes()) && record[name.len()] == 0)
        .expect("a record of this name");
    [32, 40, 48, 56]
        .map(|at| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes")))
}

#[test]
fn a_server_works_as_without_it_and_its_phases_are_timed() {
    if !tandem_testkit::has(&["openssl"]) {
        return;
    }
    let place = tempfile::tempdir().expect("a folder for the test");
    let folder = place.path();
    openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 30 -subj /CN=localhost \
         -addext subjectAltName=DNS:localhost",
    );
    let sent = "0123456789abcde\n".repeat(FILE / 16);
    fs::write(folder.join("sent"), &sent).expect("a file");
    let (board, received) = (folder.join("board"), folder.join("received"));
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let mut command = Command::new("openssl");
    command
        .current_dir(folder)
        .args([
            "s_server", "-quiet", "-cert", "cert.pem", "-key", "key.pem", "-accept",
        ])
        .arg(format!("127.0.0.1:{port}"))
        .env("LD_PRELOAD", library())
        .env("TANDEM_COST_TAP", &board)
        // It ends when its standard input does.
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&received).expect("a file"))
        .stderr(Stdio::null());
    let server = Server(command.spawn().expect("openssl is installed"));
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(begun.elapsed() < LIMIT, "it does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    for connection in 1..=CONNECTIONS {
        let output = Command::new("openssl")
            .current_dir(folder)
            .args([
                "s_client",
                "-CAfile",
                "cert.pem",
                "-verify_return_error",
                "-connect",
            ])
            .arg(format!("localhost:{port}"))
            .stdin(fs::File::open(folder.join("sent")).expect("a file"))
            .output()
            .expect("openssl is installed");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}");
        let expected = sent.repeat(usize::try_from(connection).expect("few"));
        while fs::read_to_string(&received).expect("text") != expected {
            assert!(begun.elapsed() < LIMIT, "it has not received what was sent");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    drop(server);
    let sums = |name| sums(&board, name);
    for name in [
        "private key",
        "key agreement",
        "certificates",
        "key derivation",
        "digests",
        "tickets",
        "records",
        "socket",
    ] {
        let [nanos, calls, ..] = sums(name);
        assert!(
            nanos > 0 && calls >= CONNECTIONS,
            "{name}: {nanos} ns, {calls} calls"
        );
    }
    let [_, _, encrypted, _] = sums("records");
    assert!(encrypted >= CONNECTIONS * sent.len() as u64, "{encrypted}");
    // RSA of 2,048 bits is what a full handshake costs most.
    assert!(sums("private key")[0] > sums("digests")[0]);
    let phases = [
        "private key",
        "key agreement",
        "certificates",
        "key derivation",
        "digests",
        "tickets",
        "records",
        "random",
        "socket",
    ];
    let library = ["in handshakes", "in reads", "in writes", "in other calls"];
    let [of_phases, of_library] = [&phases[..], &library[..]]
        .map(|names| names.iter().map(|name| sums(name)[0]).sum::<u64>());
    assert!(of_phases <= of_library, "{of_phases} of {of_library}");
    let [within, calls] = [
        library.iter().map(|name| sums(name)[3]).sum::<u64>(),
        phases.iter().map(|name| sums(name)[1]).sum(),
    ];
    assert_eq!(within, calls, "each phase lies in a call of libssl");
}
