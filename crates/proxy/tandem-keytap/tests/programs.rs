//! Unmodified programs with the library loaded and without: what they announce, what they send, and
//! that nothing else changes.
//!
//! Each talks to `openssl s_server` through a relay that keeps the bytes. Is not: what a program of
//! its own kind may do with OpenSSL (`inside.rs`).

mod support;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::thread;

use support::{
    CII, Conversation, Keys, Pki, Preload, Relay, Server, differs_by, openssls, program, python,
    references, run,
};
use tandem_testkit::has;

/// One connection of a program through a relay to the server.
#[track_caller]
fn connection(server: &Server, mut client: impl FnMut(u16) -> Command) -> Conversation {
    let relay = Relay::to(server.port);
    run(&mut client(relay.port));
    relay.conversation()
}

/// How many certificates were announced, and how many sent.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    announced: usize,
    sent: usize,
}

/// As many announced as sent.
fn all(sent: usize) -> Counts {
    Counts {
        announced: sent,
        sent,
    }
}

/// Connects without the library and with it: the hellos differ in the announcement alone, which
/// names what is then sent, from the beginning and in that order, and what is sent is the same.
#[track_caller]
fn announces(client: impl Fn(Preload, u16) -> Command) -> Counts {
    let server = Server::mutual();
    let plain = connection(&server, |port| client(Preload::No, port));
    let tapped = connection(&server, |port| client(Preload::Yes, port));
    let sent = tapped.sent();
    assert_eq!(
        sent,
        plain.sent(),
        "the library changes nothing that is sent"
    );
    let announced = differs_by(CII, &plain.hello(), &tapped.hello());
    let references = references(&sent);
    assert_eq!(announced, references[..announced.len()]);
    Counts {
        announced: announced.len() / 16,
        sent: sent.len(),
    }
}

/// Connects without the library and with it: the hellos are alike.
#[track_caller]
fn says_nothing(server: &Server, client: impl Fn(Preload, u16) -> Command) {
    let plain = connection(server, |port| client(Preload::No, port));
    let tapped = connection(server, |port| client(Preload::Yes, port));
    assert_eq!(plain.hellos(), tapped.hellos());
}

fn s_client(openssl: &str, preload: Preload, port: u16, options: &[&str]) -> Command {
    let mut command = program(openssl, preload);
    command
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(options);
    command
}

/// The options that give `s_client` its certificate.
fn own() -> Vec<String> {
    let pki = Pki::shared();
    [
        "-cert",
        &pki.path("leaf.pem"),
        "-key",
        &pki.path("leaf.key"),
    ]
    .map(str::to_owned)
    .to_vec()
}

fn curl(preload: Preload, port: u16, options: &[&str]) -> Command {
    let mut command = program("curl", preload);
    command
        .args([
            "--silent",
            "--show-error",
            "--output",
            "/dev/null",
            "--cacert",
        ])
        .arg(Pki::shared().file("trusted.pem"))
        .args(options)
        .arg(format!("https://127.0.0.1:{port}/"));
    command
}

#[test]
fn s_client_announces_the_chain_that_it_sends_however_it_comes_by_it() {
    if !has(&["openssl"]) {
        return;
    }
    let pki = Pki::shared();
    let [issuer, root, trusted] =
        ["issuer.pem", "root.pem", "trusted.pem"].map(|name| pki.path(name));
    for (options, certificates) in [
        // Set with the certificate.
        (vec!["-cert_chain", &issuer], 2),
        (vec!["-cert_chain", &trusted], 3),
        // Built when the certificate is set.
        (vec!["-CAfile", &trusted, "-build_chain"], 3),
        // Built by OpenSSL when it sends, out of what it trusts, or out of a store for this
        // purpose, as far as it gets.
        (vec!["-CAfile", &trusted], 3),
        (vec!["-chainCAfile", &trusted], 3),
        (vec!["-chainCAfile", &issuer], 2),
        (vec!["-CAfile", &root], 1),
        (vec![], 1),
        (vec!["-tls1_2"], 1),
    ] {
        for openssl in openssls() {
            let sent = announces(|preload, port| {
                let mut command = s_client(&openssl, preload, port, &options);
                command.args(own());
                command
            });
            assert_eq!(sent, all(certificates), "{openssl} {options:?}");
        }
    }
}

#[test]
fn curl_announces() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let version = run(program("curl", Preload::No).arg("--version")).stdout;
    let version = String::from_utf8_lossy(&version);
    assert!(
        version.contains(" OpenSSL/"),
        "this test is of a curl with OpenSSL: {version}"
    );
    let pki = Pki::shared();
    let [chain, leaf, key, root] =
        ["chain.pem", "leaf.pem", "leaf.key", "root.pem"].map(|name| pki.path(name));
    for (options, certificates) in [
        (vec!["--cert", &chain, "--key", &key], 2),
        (vec!["--cert", &chain, "--key", &key, "--tls-max", "1.2"], 2),
        (vec!["--cert", &leaf, "--key", &key, "--cacert", &root], 1),
    ] {
        let found = announces(|preload, port| curl(preload, port, &options));
        assert_eq!(found, all(certificates), "{options:?}");
    }
    // curl since 7.87 fills its store of trusted certificates when the server's first bytes arrive:
    // what OpenSSL finds there for the chain cannot be known in the hello. The leaf can.
    let found = announces(|preload, port| curl(preload, port, &["--cert", &leaf, "--key", &key]));
    assert!(
        (1..=found.sent).contains(&found.announced) && found.sent == 2,
        "{found:?}"
    );
}

#[test]
fn python_announces_though_it_loads_openssl_late() {
    const SCRIPT: &str = "\
import socket, ssl, sys
port, trusted, chain, key = sys.argv[1:]
context = ssl.create_default_context(cafile=trusted)
context.load_cert_chain(chain, key)
with context.wrap_socket(socket.create_connection(('127.0.0.1', int(port))), server_hostname='localhost') as tls:
    tls.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
    while tls.recv(1 << 16):
        pass
";
    if !has(&["openssl", python()]) {
        return;
    }
    let pki = Pki::shared();
    let sent = announces(|preload, port| {
        let mut command = program(python(), preload);
        command
            .args(["-I", "-c", SCRIPT, &port.to_string()])
            .args(["trusted.pem", "chain.pem", "leaf.key"].map(|name| pki.file(name)));
        command
    });
    assert_eq!(sent, all(2));
}

#[test]
fn wget_announces_where_it_uses_openssl_and_is_left_alone_where_not() {
    if !has(&["openssl", "wget"]) {
        return;
    }
    let pki = Pki::shared();
    let wget = |preload, port: u16| {
        let mut command = program("wget", preload);
        command.args(["--no-config", "--quiet", "--output-document=/dev/null"]);
        for (option, file) in [
            ("ca-certificate", "trusted.pem"),
            ("certificate", "leaf.pem"),
            ("private-key", "leaf.key"),
        ] {
            command.arg(format!("--{option}={}", pki.path(file)));
        }
        command.arg(format!("https://localhost:{port}/"));
        command
    };
    let version = run(program("wget", Preload::No).arg("--version")).stdout;
    if String::from_utf8_lossy(&version).contains("+ssl/openssl") {
        announces(wget);
    } else {
        says_nothing(&Server::mutual(), wget);
    }
}

#[test]
fn without_a_client_certificate_nothing_is_announced() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let server = Server::start(&["-tls1_2"]);
    for openssl in openssls() {
        says_nothing(&server, |preload, port| {
            s_client(&openssl, preload, port, &[])
        });
    }
    says_nothing(&server, |preload, port| curl(preload, port, &[]));
}

#[test]
fn a_client_of_tls_1_3_alone_announces_nothing() {
    if !has(&["openssl", "curl"]) {
        return;
    }
    let pki = Pki::shared();
    let server = Server::start(&["-tls1_3", "-Verify", "3", "-verify_return_error"]);
    for openssl in openssls() {
        for options in [
            &["-tls1_3"][..],
            &["-min_protocol", "TLSv1.3"],
            &["-no_tls1_2", "-no_tls1_1", "-no_tls1"],
        ] {
            says_nothing(&server, |preload, port| {
                let mut command = s_client(&openssl, preload, port, options);
                command.args(own());
                command
            });
        }
    }
    let (chain, key) = (pki.path("chain.pem"), pki.path("leaf.key"));
    says_nothing(&server, |preload, port| {
        curl(
            preload,
            port,
            &["--cert", &chain, "--key", &key, "--tlsv1.3"],
        )
    });
}

#[test]
fn a_second_hello_announces_what_the_first_did() {
    if !has(&["openssl"]) {
        return;
    }
    // The client offers a share of X25519 first.
    let server = Server::start(&[
        "-tls1_3",
        "-groups",
        "P-256",
        "-Verify",
        "3",
        "-verify_return_error",
    ]);
    for openssl in openssls() {
        let retried = connection(&server, |port| {
            let mut command = s_client(&openssl, Preload::Yes, port, &["-groups", "X25519:P-256"]);
            command.args(own());
            command
        });
        let announced: Vec<Option<Vec<u8>>> = retried
            .hellos()
            .iter()
            .map(|hello| hello.extension(CII).map(<[u8]>::to_vec))
            .collect();
        assert_eq!(announced.len(), 2, "{openssl}");
        assert_eq!(announced[0], announced[1]);
        assert_eq!(announced[0].as_ref().map(Vec::len), Some(16));
    }
}

#[test]
fn an_encrypted_hello_announces_nothing() {
    if !has(&["openssl"]) {
        return;
    }
    let server = Server::start(&["-tls1_2", "-client_renegotiation", "-Verify", "3"]);
    for openssl in openssls() {
        let mut client = s_client(&openssl, Preload::Yes, server.port, &["-tls1_2"]);
        let mut child = client
            .args(own())
            .env("TANDEM_KEYTAP_LOG", "stderr")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("openssl is there");
        let mut input = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, b"R\nQ\n").expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let log = String::from_utf8_lossy(&output.stderr);
        let log: Vec<&str> = log
            .lines()
            .filter(|line| line.starts_with("tandem-keytap:"))
            .collect();
        assert_eq!(
            log,
            [
                "tandem-keytap: loaded; the extension is 0x009a",
                "tandem-keytap: announced 16 bytes of references",
                "tandem-keytap: announced nothing: the hello is a renegotiation's",
            ],
            "{openssl}"
        );
    }
}

#[test]
fn a_resumed_session_is_resumed_all_the_same() {
    if !has(&["openssl"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let session = folder.path().join("session").display().to_string();
    let server = Server::mutual();
    for (option, new) in [("-sess_out", true), ("-sess_in", false)] {
        let mut client = s_client(
            "openssl",
            Preload::Yes,
            server.port,
            &["-tls1_2", option, &session],
        );
        let output = run(client.args(own()));
        let output = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.contains("\nNew, TLSv1.2"), new, "{output}");
        assert_eq!(output.contains("\nReused, TLSv1.2"), !new, "{output}");
    }
}

#[test]
fn the_environment_chooses_the_number_or_none() {
    if !has(&["openssl"]) {
        return;
    }
    let server = Server::mutual();
    let with_number = |number: &'static str| {
        connection(&server, |port| {
            let mut command = s_client("openssl", Preload::Yes, port, &[]);
            command.args(own()).env("TANDEM_KEYTAP_EXTENSION", number);
            command
        })
        .hello()
    };
    let other = with_number("0xff9a");
    assert_eq!(other.extension(0xff9a).map(<[u8]>::len), Some(16));
    assert_eq!(other.extension(CII), None);
    let off = with_number("off");
    assert_eq!(differs_by(0xff9a, &off, &other).len(), 16);
    // A number that is OpenSSL's own is refused by it: here the server name's.
    assert_eq!(with_number("0"), off);
}

#[test]
fn a_program_that_releases_keys_announces_only_if_it_is_told_a_number() {
    if !has(&["openssl"]) {
        return;
    }
    let (server, keys) = (Server::mutual(), Keys::new());
    let client = |preload, port| {
        let mut command = s_client("openssl", preload, port, &[]);
        command
            .args(own())
            .env("TANDEM_KEYTAP_SOCKET", keys.file("keys"));
        command
    };
    says_nothing(&server, client);
    let told = connection(&server, |port| {
        let mut command = client(Preload::Yes, port);
        command.env("TANDEM_KEYTAP_EXTENSION", "0x009a");
        command
    });
    assert_eq!(told.hello().extension(CII).map(<[u8]>::len), Some(16));
}

#[test]
fn a_line_of_the_log_is_written_at_once() {
    if !has(&["openssl"]) {
        return;
    }
    let server = Server::mutual();
    // Whatever is written to it by one call is one datagram.
    let (ours, theirs) = UnixDatagram::pair().expect("sockets");
    let end = theirs.try_clone().expect("a descriptor");
    let reads = thread::spawn(move || {
        let mut buffer = [0; 1 << 12];
        let mut written = Vec::new();
        loop {
            let len = ours.recv(&mut buffer).expect("it is open");
            match &buffer[..len] {
                b"the end" => break written,
                text => written.push(String::from_utf8_lossy(text).into_owned()),
            }
        }
    });
    let mut client = s_client("openssl", Preload::Yes, server.port, &[]);
    let status = client
        .args(own())
        .env("TANDEM_KEYTAP_LOG", "stderr")
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(theirs))
        .status();
    assert!(status.expect("openssl is there").success());
    end.send(b"the end").expect("it is read");
    let written = reads.join().expect("it ends");
    let log: Vec<&String> = written
        .iter()
        .filter(|text| text.contains("tandem-keytap"))
        .collect();
    assert_eq!(
        log,
        [
            "tandem-keytap: loaded; the extension is 0x009a\n",
            "tandem-keytap: announced 16 bytes of references\n",
        ]
    );
}

#[test]
fn programs_behave_and_print_as_without_it() {
    let pki = Pki::shared();
    let same = |command: &dyn Fn(Preload) -> Command| {
        let [without, with] = [Preload::No, Preload::Yes].map(|preload| run(&mut command(preload)));
        assert_eq!(with, without, "{:?}", command(Preload::Yes));
    };
    // No OpenSSL in them.
    same(&|preload| program("true", preload));
    same(&|preload| {
        let mut command = program("sh", preload);
        command.args(["-c", "echo out; echo err >&2; ls -d / | cat"]);
        command
    });
    if !has(&["openssl", "curl"]) {
        return;
    }
    let server = Server::mutual();
    let (chain, key) = (pki.path("chain.pem"), pki.path("leaf.key"));
    same(&|preload| {
        let mut command = curl(preload, server.port, &["--cert", &chain, "--key", &key]);
        command.args([
            "--write-out",
            "%{http_code} %{ssl_verify_result} %{size_download}",
        ]);
        command
    });
    same(&|preload| {
        let mut command = program("openssl", preload);
        command.args(["dgst", "-sha256", &chain]);
        command
    });
}
