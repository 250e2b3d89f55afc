//! What these tests share: certificates, real servers in processes of their own, small hostile ones
//! in threads, and the program's results.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use serde_json::Value;
#[allow(unused_imports, reason = "each test file uses its part")]
pub(crate) use tandem_testkit::free_port;
use tempfile::TempDir;

/// A folder with an issuer (`ca.pem`) and leaves for localhost: `good`, `expired`, `other` (another
/// name), each as `NAME.pem` and `NAME.key`.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        };
        let extensions = "subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n";
        place.write("leaf.cnf", extensions);
        place.write("other.cnf", &extensions.replace("localhost", "example.net"));
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        place.openssl(&format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -days 30 -subj /CN=issuer"
        ));
        for (name, extensions, days) in [
            ("good", "leaf.cnf", "30"),
            // OpenSSL takes it to have expired that ends before it begins, too.
            ("expired", "leaf.cnf", "-1"),
            ("other", "other.cnf", "30"),
        ] {
            place.openssl(&format!(
                "req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"
            ));
            place.openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} \
                 -extfile {extensions} -out {name}.pem"
            ));
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file of the test")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file of the test");
    }

    pub(crate) fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("openssl is installed");
        assert!(output.status.success(), "{arguments}: {output:?}");
    }

    /// nginx in one process, with `directives` in its server block. Its log has a line for each
    /// connection: `r` if the session was resumed, `.` if not.
    pub(crate) fn nginx(&self, directives: &str) -> Server {
        let port = free_port();
        let root = self.folder.path().display();
        self.write("index.html", &"x".repeat(5_000));
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {root}/{kind};\n"))
            .concat();
        let user = match tandem_testkit::is_root() {
            true => "user root;",
            false => "",
        };
        self.write(
            "nginx.conf",
            &format!(
                "{user}\ndaemon off;\nmaster_process off;\npid {root}/nginx.pid;\n\
                 error_log {root}/error.log;\nevents {{ worker_connections 1024; }}\n\
                 http {{\n{temporary}log_format reused '$ssl_session_reused';\n\
                 access_log {root}/access.log reused;\n\
                 server {{\nlisten 127.0.0.1:{port} ssl;\nroot {root};\n\
                 ssl_certificate {root}/good.pem;\nssl_certificate_key {root}/good.key;\n\
                 ssl_protocols TLSv1.2 TLSv1.3;\n{directives}\n}}\n}}\n"
            ),
        );
        let mut command = Command::new("nginx");
        command.arg("-p").arg(self.folder.path());
        command.args(["-e", "error.log", "-c", "nginx.conf"]);
        Server::start(command, port)
    }

    /// `openssl s_server -www` with these flags; it counts what it resumes
    /// ([`Place::s_server_says`]).
    pub(crate) fn s_server(&self, flags: &str) -> Server {
        let port = free_port();
        let mut command = Command::new("openssl");
        command
            .current_dir(self.folder.path())
            .args(["s_server", "-www", "-cert", "good.pem", "-key", "good.key"])
            .args(["-accept", &format!("127.0.0.1:{port}")])
            .args(flags.split_whitespace());
        Server::start(command, port)
    }

    /// A figure of the page that s_server serves, by the words behind it.
    pub(crate) fn s_server_says(&self, server: &Server, words: &str) -> u64 {
        let mut client = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-connect",
                &server.address().to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is installed");
        client
            .stdin
            .take()
            .expect("openssl is installed")
            .write_all(b"GET / HTTP/1.0\r\n\r\n")
            .expect("a pipe to the client");
        let page = String::from_utf8(client.wait_with_output().expect("the client ends").stdout)
            .expect("text");
        let line = page.lines().find(|line| line.contains(words));
        let line = line.unwrap_or_else(|| panic!("{words} in {page}"));
        line.split_whitespace()
            .next()
            .expect("a line has words")
            .parse()
            .expect("a number")
    }

    /// A server in threads of this process: TLS by rustls, then what `serve` does.
    pub(crate) fn serve(
        &self,
        certificate: &str,
        config: impl FnOnce(ServerConfig) -> ServerConfig,
        versions: &[&'static SupportedProtocolVersion],
        serve: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static,
    ) -> SocketAddr {
        let file = |ending| self.path(&format!("{certificate}.{ending}"));
        let chain = CertificateDer::pem_file_iter(file("pem"))
            .expect("certificates that were just made")
            .map(Result::unwrap)
            .collect();
        let key = PrivateKeyDer::from_pem_file(file("key")).expect("a file that was just made");
        let provider = Arc::new(tandem_channel::crypto::default_provider());
        let plain = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("what the provider supports")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate with its key");
        let config = Arc::new(config(plain));
        listen(move |tcp| {
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a valid configuration");
            let mut stream = StreamOwned::new(tls, tcp);
            // A client that does not trust it goes; that is the test's matter.
            let mut request = [0; 4_096];
            if stream.read(&mut request).is_ok_and(|length| length > 0) {
                serve(&mut stream);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        })
    }

    /// The program with a URL at this address, `localhost` by name, and these arguments.
    pub(crate) fn measure(&self, address: SocketAddr, arguments: &str) -> Measured {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem-measure"));
        command
            .arg(format!("https://localhost:{}/", address.port()))
            .arg("--ca")
            .arg(self.path("ca.pem"))
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path());
        Measured(
            command
                .output()
                .expect("the program was built for this test"),
        )
    }
}

/// A program that listens; it ends with this.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(mut command: Command, port: u16) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is installed");
        let mut server = Self { child, port };
        while TcpStream::connect(server.address()).is_err() {
            let ended = server.child.try_wait().expect("a child of ours");
            assert_eq!(ended, None, "{command:?} ended");
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(crate) fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.child.id().try_into().expect("a process id"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program said.
pub(crate) struct Measured(pub(crate) Output);

impl Measured {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("text")
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("text")
    }

    /// Its lines of JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        let text = self.stdout();
        text.lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }
}

/// Answers each connection in a thread of its own, as long as the test runs.
pub(crate) fn listen(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || answer(tcp));
        }
    });
    address
}

/// Whether certificates can be made, and these programs are there. A note if not.
pub(crate) fn has(programs: &[&str]) -> bool {
    tandem_testkit::has(&[&["openssl"], programs].concat())
}

/// A number in a result, by its path.
pub(crate) fn number(result: &Value, path: &str) -> u64 {
    let found = result.pointer(path);
    found.and_then(Value::as_u64).unwrap_or_default()
}

/// Whether a file is there and has something in it.
pub(crate) fn is_written(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() > 0)
}
