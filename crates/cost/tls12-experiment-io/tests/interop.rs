//! The experiment's programs against each other, and in plain mode against OpenSSL, GnuTLS, NSS and
//! rustls, both ways, with RSA and with ECDSA.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const NAME: &str = "www.tandem.example";
const BODY: &str = "an answer\n";
const LIMIT: Duration = Duration::from_secs(30);

/// Ends its process when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Certificates of one kind of key in a folder of their own.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(key: &[&str]) -> Self {
        let files = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        let genpkey = [&["genpkey", "-out", "ca.key"], key].concat();
        files.openssl(&genpkey);
        files.openssl(&[
            "req",
            "-x509",
            "-new",
            "-key",
            "ca.key",
            "-subj",
            "/CN=ca",
            "-days",
            "30",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-out",
            "ca.pem",
        ]);
        let names = format!("subjectAltName=DNS:{NAME}\nbasicConstraints=CA:FALSE\n");
        fs::write(files.path("extensions"), names).expect("it is written");
        let genpkey = [&["genpkey", "-out", "leaf.key"], key].concat();
        files.openssl(&genpkey);
        let subject = format!("/CN={NAME}");
        files.openssl(&[
            "req", "-new", "-key", "leaf.key", "-subj", &subject, "-out", "leaf.csr",
        ]);
        files.openssl(&[
            "x509",
            "-req",
            "-in",
            "leaf.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-days",
            "20",
            "-CAcreateserial",
            "-extfile",
            "extensions",
            "-out",
            "leaf.pem",
        ]);
        files
    }

    fn both() -> [Self; 2] {
        [
            Self::new(&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
            Self::new(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
        ]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(self.folder.path());
        let output = command.output().expect("openssl starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {words}");
    }
}

fn own(program: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tls12-experiment"));
    command.arg(program);
    command
}

/// Starts a server at a free port, which stands for `PORT` in its arguments, and waits for it.
fn serve(folder: &Path, program: Command, arguments: &[&str]) -> (Running, u16) {
    let mut command = program;
    let port = tandem_testkit::free_port();
    let words = arguments
        .iter()
        .map(|word| word.replace("PORT", &port.to_string()));
    command
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let running = Running(command.spawn().expect("it starts"));
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < LIMIT, "{command:?} does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    (running, port)
}

fn serve_own(files: &Files, more: &[&str]) -> (Running, u16) {
    let usual = [
        "--listen",
        "127.0.0.1:PORT",
        "--chain",
        "leaf.pem",
        "--key",
        "leaf.key",
    ];
    serve(files.folder.path(), own("serve"), &[&usual, more].concat())
}

/// What a client prints, until it has printed `last` or ends. The request goes to its standard
/// input, which stays open until then: some would close the connection at its end.
fn ask(folder: &Path, mut command: Command, request: &str, last: &str) -> String {
    command
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut running = Running(command.spawn().expect("it starts"));
    let mut stdin = running.0.stdin.take().expect("it was piped");
    // A client that has ended says by its output why.
    let _ = stdin.write_all(request.as_bytes());
    let mut stdout = running.0.stdout.take().expect("it was piped");
    let (sender, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut output = Vec::new();
    loop {
        match pieces.recv_timeout(LIMIT) {
            Ok(piece) => output.extend(piece),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("{command:?} neither answers nor ends"),
        }
        if String::from_utf8_lossy(&output).contains(last) {
            break;
        }
    }
    String::from_utf8_lossy(&output).into_owned()
}

/// Which handshakes the experiment's client had.
fn get(files: &Files, port: u16, more: &[&str]) -> Vec<String> {
    let mut command = own("get");
    command
        .arg(format!("127.0.0.1:{port}"))
        .args(["--name", NAME, "--roots", "ca.pem"])
        .args(more);
    let output = ask(files.folder.path(), command, "", "\0");
    let kinds = output.lines().filter_map(|line| line.split(' ').next());
    kinds.map(str::to_owned).collect()
}

fn client(program: &str, arguments: &[&str], port: u16) -> Command {
    let mut command = Command::new(program);
    let words = arguments
        .iter()
        .map(|word| word.replace("PORT", &port.to_string()));
    command.args(words);
    command
}

const REQUEST: &str = "GET / HTTP/1.0\r\n\r\n";

#[test]
fn the_client_in_plain_mode_speaks_with_openssl_gnutls_and_rustls() {
    if !tandem_testkit::has(&["openssl", "gnutls-serv"]) {
        return;
    }
    for files in Files::both() {
        let folder = files.folder.path();
        let (_openssl, port) = serve(
            folder,
            Command::new("openssl"),
            &[
                "s_server", "-accept", "PORT", "-cert", "leaf.pem", "-key", "leaf.key", "-www",
            ],
        );
        assert_eq!(get(&files, port, &[]), ["full"]);
        assert_eq!(get(&files, port, &["--try", "false-start"]), ["full"]);
        // It knows neither extension, and answers in full.
        let twice = ["--visits", "2", "--try"];
        for remedy in ["cached-info", "three-way-early"] {
            let kinds = get(&files, port, &[&twice[..], &[remedy]].concat());
            assert_eq!(kinds, ["full", "full"]);
        }
        let (_gnutls, port) = serve(
            folder,
            Command::new("gnutls-serv"),
            &[
                "--port",
                "PORT",
                "--x509certfile",
                "leaf.pem",
                "--x509keyfile",
                "leaf.key",
                "--http",
            ],
        );
        assert_eq!(get(&files, port, &[]), ["full"]);
        let (_rustls, port) = serve_own(&files, &["--stack", "tls12"]);
        assert_eq!(get(&files, port, &[]), ["full"]);
    }
}

#[test]
fn the_server_in_plain_mode_speaks_with_openssl_gnutls_rustls_curl_and_nss() {
    if !tandem_testkit::has(&["openssl", "gnutls-cli", "curl", "tstclnt", "certutil"]) {
        return;
    }
    for files in Files::both() {
        let folder = files.folder.path();
        let (_own, port) = serve_own(&files, &[]);
        let openssl = client(
            "openssl",
            &[
                "s_client",
                "-connect",
                "127.0.0.1:PORT",
                "-CAfile",
                "ca.pem",
                "-quiet",
                "-verify_return_error",
                "-verify_hostname",
                NAME,
            ],
            port,
        );
        let gnutls = client(
            "gnutls-cli",
            &[
                "--x509cafile",
                "ca.pem",
                "--verify-hostname",
                NAME,
                "-p",
                "PORT",
                "127.0.0.1",
            ],
            port,
        );
        let url = format!("https://{NAME}:PORT/");
        let resolve = format!("{NAME}:PORT:127.0.0.1");
        let curl = client(
            "curl",
            &[
                "-q",
                "-s",
                "--noproxy",
                "*",
                "--cacert",
                "ca.pem",
                "--resolve",
                &resolve,
                &url,
            ],
            port,
        );
        let certutil = |arguments: &[&str]| {
            let mut command = client("certutil", arguments, port);
            let status = command.current_dir(folder).status().expect("it starts");
            assert!(status.success());
        };
        fs::create_dir(files.path("nss")).expect("a new folder");
        certutil(&["-N", "-d", "sql:nss", "--empty-password"]);
        certutil(&[
            "-A", "-d", "sql:nss", "-n", "ca", "-t", "C,,", "-i", "ca.pem",
        ]);
        // -g: it makes a false start (RFC 7918).
        let nss = client(
            "tstclnt",
            &[
                "-h",
                "127.0.0.1",
                "-a",
                NAME,
                "-p",
                "PORT",
                "-d",
                "sql:nss",
                "-g",
                "-V",
                "tls1.2:tls1.2",
            ],
            port,
        );
        for command in [openssl, gnutls, curl, nss] {
            let words = format!("{command:?}");
            let output = ask(folder, command, REQUEST, BODY.trim());
            assert!(output.contains(BODY.trim()), "{words}: {output}");
        }
        assert_eq!(get(&files, port, &["--try", "tls12"]), ["full"]);
    }
}

#[test]
fn a_second_visit_is_the_cheaper_one_that_was_asked_for() {
    if !tandem_testkit::has(&["openssl"]) {
        return;
    }
    for files in Files::both() {
        for keys in ["static", "ephemeral"] {
            let (_own, port) = serve_own(&files, &["--keys", keys]);
            for (attempt, second) in [
                ("plain", "full"),
                ("false-start", "full"),
                ("cached-info", "cached-info"),
                ("three-way", "three-way"),
                ("three-way-early", "three-way"),
            ] {
                let kinds = get(&files, port, &["--visits", "2", "--try", attempt]);
                assert_eq!(kinds, ["full", second], "{attempt}");
            }
        }
        for (stack, second) in [
            ("ticket", "resumed"),
            ("tls13", "full"),
            ("zero-rtt", "0-rtt"),
        ] {
            let (_stock, port) = serve_own(&files, &["--stack", stack]);
            let kinds = get(&files, port, &["--visits", "2", "--try", stack]);
            assert_eq!(kinds, ["full", second], "{stack}");
        }
    }
}

/// McVeety, appendix B: OpenSSL's server is unmodified. One that asks reads the certificate where
/// it is due, whether a proxy has held it or the stream has; one that does not ask never sees it,
/// but only behind the proxy.
#[test]
fn a_certificate_sent_ahead_is_taken_by_an_unmodified_server() {
    if !tandem_testkit::has(&["openssl"]) {
        return;
    }
    for files in Files::both() {
        let certificate = ["--chain", "leaf.pem", "--key", "leaf.key"];
        let ahead = [&certificate[..], &["--ahead"]].concat();
        let folder = files.folder.path();
        let start = |asking: &[&str]| {
            let mut program = Command::new("openssl");
            program.args(["s_server", "-tls1_2", "-www", "-CAfile", "ca.pem"]);
            program.args(asking);
            let usual = ["-accept", "PORT", "-cert", "leaf.pem", "-key", "leaf.key"];
            let (server, port) = serve(folder, program, &usual);
            let to = format!("127.0.0.1:{port}");
            let arguments = ["--listen", "127.0.0.1:PORT", "--server", &to];
            let (holder, held) = serve(folder, own("hold"), &arguments);
            ((server, holder), port, held)
        };
        let (_asking, direct, held) = start(&["-Verify", "1", "-verify_return_error"]);
        for port in [direct, held] {
            assert_eq!(get(&files, port, &certificate), ["full"]);
            assert_eq!(get(&files, port, &ahead), ["full"]);
            assert!(get(&files, port, &[]).is_empty(), "without a certificate");
        }
        let (_silent, direct, held) = start(&[]);
        assert_eq!(get(&files, held, &ahead), ["full"]);
        assert!(get(&files, direct, &ahead).is_empty(), "nobody asked");
    }
}
