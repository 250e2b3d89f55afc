//! Servers and clients: nginx, `openssl s_server`, `gnutls-serv`; curl, `openssl s_client`,
//! `gnutls-cli`.
//!
//! Each client run is bounded in time by `timeout`, so that a connection that hangs is a failing
//! test. The system's configuration of OpenSSL is left out, since distributions forbid old versions
//! of TLS there.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Host, KeyType, Net, Pki, SITE, wait_until};

/// Exit code of `timeout` for a run that took too long.
const TIMED_OUT: i32 = 124;

/// Longest that a client may take, in seconds, unless a test says otherwise.
const LIMIT: u32 = 60;

/// Bytes that no compression and no repetition makes shorter, the same in each run.
pub(crate) fn bytes(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            // xorshift64 (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsVersion {
    Tls10,
    Tls11,
    Tls12,
    Tls13,
}

impl TlsVersion {
    pub(crate) fn number(self) -> &'static str {
        match self {
            TlsVersion::Tls10 => "1.0",
            TlsVersion::Tls11 => "1.1",
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        }
    }

    /// As `openssl s_client` and `s_server` are told.
    fn flag(self) -> &'static str {
        match self {
            TlsVersion::Tls10 => "-tls1",
            TlsVersion::Tls11 => "-tls1_1",
            TlsVersion::Tls12 => "-tls1_2",
            TlsVersion::Tls13 => "-tls1_3",
        }
    }

    /// As GnuTLS's priority strings have it.
    fn priority(self) -> String {
        format!(
            "NORMAL:-VERS-ALL:+VERS-TLS{}:%DISABLE_TLS13_COMPAT_MODE",
            self.number()
        )
    }
}

/// A server program. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    host: Host,
}

/// What nginx serves over TLS.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Port and key types of its TLS servers.
    pub(crate) tls: Vec<(u16, Vec<KeyType>)>,
    /// Ports that it serves in clear.
    pub(crate) clear: Vec<u16>,
    /// Whether it asks clients for a certificate.
    pub(crate) asks_clients: Option<u16>,
    /// More words for the sockets of the TLS servers.
    pub(crate) listen: &'static str,
    /// What it logs of each request, in nginx's variables; by [`Server::log`].
    pub(crate) logs: &'static str,
    /// How often the issuers are sent along. More than once makes a long chain, which clients
    /// accept.
    pub(crate) issuers: usize,
}

impl Default for Site {
    /// TLS on 443 with an RSA key.
    fn default() -> Self {
        Self {
            tls: vec![(443, vec![KeyType::Rsa])],
            clear: Vec::new(),
            asks_clients: None,
            listen: "",
            logs: "",
            issuers: 1,
        }
    }
}

impl Server {
    fn start(host: &Host, command: &mut Command, ports: &[u16], log: &Path) -> Self {
        let errors = fs::File::create(log).expect("a writable folder");
        let child = host.spawn(
            command
                .env("OPENSSL_CONF", "/dev/null")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(errors),
        );
        let mut server = Self {
            child,
            host: host.handle(),
        };
        for port in ports {
            wait_until(&format!("{command:?} listens on {port}"), || {
                if let Ok(Some(status)) = server.child.try_wait() {
                    let said = fs::read_to_string(log).unwrap_or_default();
                    panic!("{command:?} ended with {status}: {said}");
                }
                server.host.listens_on(*port)
            });
        }
        server
    }

    /// nginx with the files that [`Server::publish`] made. One process, no session
    /// cache but tickets.
    pub(crate) fn nginx(net: &Net, host: &Host, site: &Site) -> Self {
        let pki = Pki::shared();
        let folder = net.path(&format!("nginx-{}", host.name()));
        fs::create_dir_all(folder.join("temp")).expect("a writable folder");
        let mut servers = String::new();
        for (port, keys) in &site.tls {
            servers += &format!(
                "server {{ listen {port} ssl {0}; listen [::]:{port} ssl {0};\n",
                site.listen
            );
            for key in keys {
                servers += &format!(
                    "ssl_certificate {}; ssl_certificate_key {};\n",
                    chain(&folder, *key, site.issuers).display(),
                    pki.key(*key).display()
                );
            }
            if site.asks_clients == Some(*port) {
                servers += &format!(
                    "ssl_verify_client on; ssl_verify_depth 4; ssl_client_certificate {};\n",
                    pki.root().display()
                );
            }
            servers += "}\n";
        }
        for port in &site.clear {
            servers += &format!("server {{ listen {port}; listen [::]:{port}; }}\n");
        }
        let log = match site.logs {
            "" => "access_log off;".to_owned(),
            format => format!(
                "log_format test '{format}'; access_log {} test;",
                Self::log(net).display()
            ),
        };
        let text = format!(
            "daemon off; master_process off; user root; pid {0}/pid; error_log stderr warn;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ {log} root {1}; keepalive_timeout 600; client_header_timeout 600; client_body_temp_path {0}/temp; proxy_temp_path {0}/temp;\n\
             fastcgi_temp_path {0}/temp; uwsgi_temp_path {0}/temp; scgi_temp_path {0}/temp; sendfile on; tcp_nopush off;\n\
             ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers ALL:@SECLEVEL=0; ssl_session_cache none; default_type text/plain;\n\
             {servers} }}\n",
            folder.display(),
            folder_of_files(net).display(),
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, text).expect("a writable folder");
        let ports: Vec<u16> = site
            .tls
            .iter()
            .map(|(port, _)| *port)
            .chain(site.clear.iter().copied())
            .collect();
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&file).args(["-e", "stderr"]);
        command.arg("-p").arg(&folder);
        Self::start(host, &mut command, &ports, &folder.join("log"))
    }

    /// `openssl s_server`, which serves files and puts each handshake message into a record of its
    /// own.
    pub(crate) fn openssl(
        net: &Net,
        host: &Host,
        port: u16,
        key: KeyType,
        version: TlsVersion,
    ) -> Self {
        Self::openssl_told(net, host, port, (key, version), &[])
    }

    /// The same, told more.
    pub(crate) fn openssl_told(
        net: &Net,
        host: &Host,
        port: u16,
        (key, version): (KeyType, TlsVersion),
        more: &[&str],
    ) -> Self {
        let pki = Pki::shared();
        let mut command = Command::new("openssl");
        command
            .args([
                "s_server",
                "-WWW",
                "-quiet",
                "-cipher",
                "ALL:@SECLEVEL=0",
                version.flag(),
            ])
            .args(["-accept", &port.to_string()])
            .arg("-cert")
            .arg(pki.leaf(key))
            .arg("-key")
            .arg(pki.key(key))
            .arg("-cert_chain")
            .arg(pki.issuers())
            .args(more)
            .current_dir(folder_of_files(net));
        Self::start(
            host,
            &mut command,
            &[port],
            &net.path(&format!("s_server-{port}")),
        )
    }

    /// `gnutls-serv`, which sends back what it is sent.
    pub(crate) fn gnutls(
        net: &Net,
        host: &Host,
        port: u16,
        key: KeyType,
        version: TlsVersion,
    ) -> Self {
        let pki = Pki::shared();
        let mut command = Command::new("gnutls-serv");
        command
            .args(["--echo", "--quiet", "--priority", &version.priority()])
            .args(["--port", &port.to_string()])
            .arg("--x509certfile")
            .arg(pki.chain(key))
            .arg("--x509keyfile")
            .arg(pki.key(key));
        Self::start(
            host,
            &mut command,
            &[port],
            &net.path(&format!("gnutls-serv-{port}")),
        )
    }

    /// Where nginx logs requests.
    pub(crate) fn log(net: &Net) -> PathBuf {
        net.path("requests")
    }

    /// Puts a file where servers find it.
    pub(crate) fn publish(net: &Net, name: &str, contents: &[u8]) {
        let folder = folder_of_files(net);
        fs::write(folder.join(name), contents).expect("a writable folder");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The leaf, and the issuers as often as they are wanted.
fn chain(folder: &Path, key: KeyType, issuers: usize) -> PathBuf {
    let pki = Pki::shared();
    let read = |path: PathBuf| fs::read_to_string(path).expect("it was made");
    let file = folder.join(format!("{}-chain.pem", key.name()));
    let text = read(pki.leaf(key)) + &read(pki.issuers()).repeat(issuers);
    fs::write(&file, text).expect("a writable folder");
    file
}

fn folder_of_files(net: &Net) -> PathBuf {
    let folder = net.path("www");
    fs::create_dir_all(&folder).expect("a writable folder");
    folder
}

/// What a client got.
#[derive(Debug)]
pub(crate) struct Fetched {
    what: String,
    pub(crate) code: Option<i32>,
    pub(crate) body: Vec<u8>,
    pub(crate) errors: String,
}

impl Fetched {
    /// Asserts that the client ended well, with exactly these bytes.
    #[track_caller]
    pub(crate) fn is(&self, expected: &[u8]) {
        if self.code == Some(TIMED_OUT) {
            panic!(
                "{} hangs, with {} of {} bytes",
                self.what,
                self.body.len(),
                expected.len()
            );
        }
        assert_eq!(
            self.code,
            Some(0),
            "{} failed with {} of {} bytes: {}",
            self.what,
            self.body.len(),
            expected.len(),
            self.errors
        );
        assert!(
            self.body == expected,
            "{} got other bytes: {} instead of {}, different from {:?} on",
            self.what,
            self.body.len(),
            expected.len(),
            self.body
                .iter()
                .zip(expected)
                .position(|(got, sent)| got != sent)
        );
    }
}

/// A connection to make.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) file: String,
    pub(crate) version: TlsVersion,
    pub(crate) key: Option<KeyType>,
    /// Seconds that it may take.
    pub(crate) limit: u32,
    /// Words for the client program.
    pub(crate) more: Vec<String>,
    /// A shared object that is loaded into it.
    pub(crate) preload: Option<PathBuf>,
}

impl Fetch {
    /// By TLS 1.2, on port 443.
    pub(crate) fn new(address: IpAddr, file: &str) -> Self {
        Self {
            address,
            port: 443,
            file: file.to_owned(),
            version: TlsVersion::Tls12,
            key: None,
            limit: LIMIT,
            more: Vec::new(),
            preload: None,
        }
    }

    pub(crate) fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    pub(crate) fn version(self, version: TlsVersion) -> Self {
        Self { version, ..self }
    }

    /// Asks for a server with this kind of key.
    pub(crate) fn key(self, key: KeyType) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    pub(crate) fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// With this shared object in the client.
    pub(crate) fn preload(self, library: PathBuf) -> Self {
        Self {
            preload: Some(library),
            ..self
        }
    }

    pub(crate) fn more(mut self, words: &[&str]) -> Self {
        self.more
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// The cipher suites for the kind of key, by OpenSSL's names.
    fn ciphers(&self) -> &'static str {
        match self.key {
            None => "ALL:@SECLEVEL=0",
            Some(KeyType::Rsa) => "aRSA:@SECLEVEL=0",
            Some(KeyType::Ecdsa) => "aECDSA:@SECLEVEL=0",
        }
    }

    fn bounded(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=2", &self.limit.to_string(), program])
            .env("OPENSSL_CONF", "/dev/null");
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    /// Runs the client to its end. Its input stays open until it has written as much as it was
    /// sent, or ends: some clients end with their input, whatever is still to come.
    fn finish(&self, host: &Host, mut command: Command, input: Option<&[u8]>) -> Fetched {
        let mut child = host.spawn(
            command
                .stdin(match input {
                    Some(_) => Stdio::piped(),
                    None => Stdio::null(),
                })
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let mut open = child.stdin.take();
        if let (Some(pipe), Some(input)) = (&mut open, input) {
            // One that has ended says why by its exit code.
            let _ = pipe.write_all(input);
        }
        let mut said = child.stderr.take().expect("it is piped");
        let errors = std::thread::spawn(move || {
            let mut errors = String::new();
            let _ = said.read_to_string(&mut errors);
            errors
        });
        let mut output = child.stdout.take().expect("it is piped");
        let mut body = Vec::new();
        let mut part = [0; 16 * 1024];
        while let Ok(count @ 1..) = output.read(&mut part) {
            body.extend_from_slice(&part[..count]);
            // What is sent back to an echo is what was sent; an answer over HTTP ends the
            // connection by itself.
            if input.is_some_and(|input| input == body) {
                open = None;
            }
        }
        drop(open);
        Fetched {
            code: child.wait().expect("it is ours").code(),
            what: format!("{command:?}"),
            body,
            errors: errors.join().unwrap_or_default(),
        }
    }

    /// By curl.
    pub(crate) fn curl(&self, host: &Host) -> Fetched {
        let mut command = self.curl_command();
        command.arg(format!("https://{SITE}:{}/{}", self.port, self.file));
        self.finish(host, command, None)
    }

    /// curl, told everything but what to fetch.
    pub(crate) fn curl_command(&self) -> Command {
        let mut command = self.bounded("curl");
        let version = self.version.number();
        command
            .args(["-q", "-sS", "--fail", "--noproxy", "*", "--http1.1"])
            .args([&format!("--tlsv{version}"), "--tls-max", version])
            .args(["--ciphers", self.ciphers()])
            .args([
                "--resolve",
                &format!("{SITE}:{}:{}", self.port, self.address),
            ])
            .arg("--cacert")
            .arg(Pki::shared().root())
            .args(&self.more);
        command
    }

    /// By curl, without TLS.
    pub(crate) fn curl_clear(&self, host: &Host) -> Fetched {
        let mut command = self.curl_command();
        command.arg(format!("http://{SITE}:{}/{}", self.port, self.file));
        self.finish(host, command, None)
    }

    /// By `openssl s_client`.
    pub(crate) fn s_client(&self, host: &Host) -> Fetched {
        let mut command = self.bounded("openssl");
        command
            .args([
                "s_client",
                "-quiet",
                "-no_ign_eof",
                "-ign_eof",
                "-verify_return_error",
            ])
            .args([
                "-connect",
                &connect(self.address, self.port),
                "-servername",
                SITE,
            ])
            .args(["-verify_hostname", SITE, self.version.flag(), "-CAfile"])
            .arg(Pki::shared().root());
        if self.version != TlsVersion::Tls13 {
            command.args(["-cipher", self.ciphers()]);
        }
        command.args(&self.more);
        let fetched = self.finish(host, command, Some(self.request().as_bytes()));
        without_head(fetched)
    }

    /// By `gnutls-cli`.
    pub(crate) fn gnutls(&self, host: &Host) -> Fetched {
        let fetched = self.finish(host, self.gnutls_command(), Some(self.request().as_bytes()));
        without_head(fetched)
    }

    /// By `gnutls-cli` from a server that sends back what it is sent: the file's contents are what
    /// is sent.
    pub(crate) fn echoed(&self, host: &Host, sent: &[u8]) -> Fetched {
        self.finish(host, self.gnutls_command(), Some(sent))
    }

    fn gnutls_command(&self) -> Command {
        let mut command = self.bounded("gnutls-cli");
        command
            .args([
                "--logfile=/dev/null",
                "--sni-hostname",
                SITE,
                "--verify-hostname",
                SITE,
            ])
            .args([
                "--priority",
                &self.version.priority(),
                "--port",
                &self.port.to_string(),
            ])
            .arg("--x509cafile")
            .arg(Pki::shared().root())
            .args(&self.more)
            .arg(self.address.to_string());
        command
    }

    fn request(&self) -> String {
        format!("GET /{} HTTP/1.0\r\nHost: {SITE}\r\n\r\n", self.file)
    }
}

fn connect(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

/// Without the head of the answer.
fn without_head(fetched: Fetched) -> Fetched {
    let end = fetched
        .body
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map_or(0, |at| at + 4);
    Fetched {
        body: fetched.body[end..].to_vec(),
        ..fetched
    }
}
